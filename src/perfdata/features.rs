//! Header features: facts about the machine and the recording, one section each.

use crate::kernel::{self, cpus};

use super::EventDesc;
use super::bytes::Bytes;

/// Feature bits that we write or read.
pub mod bit {
    pub(crate) const TRACING_DATA: u8 = 1;
    pub(crate) const BUILD_ID: u8 = 2;
    /// `HEADER_HOSTNAME`: the recorded machine's name, as uname(2) has it.
    pub const HOSTNAME: u8 = 3;
    pub(crate) const OSRELEASE: u8 = 4;
    pub(crate) const VERSION: u8 = 5;
    pub(crate) const ARCH: u8 = 6;
    pub(crate) const NRCPUS: u8 = 7;
    pub(crate) const CPUDESC: u8 = 8;
    pub(crate) const CPUID: u8 = 9;
    pub(crate) const TOTAL_MEM: u8 = 10;
    pub(crate) const CMDLINE: u8 = 11;
    pub(crate) const EVENT_DESC: u8 = 12;
    pub(crate) const CPU_TOPOLOGY: u8 = 13;
    /// `HEADER_BRANCH_STACK`: branches were asked for, not just for call chains; it has no content.
    pub(crate) const BRANCH_STACK: u8 = 15;
    pub(crate) const GROUP_DESC: u8 = 17;
    pub(crate) const SAMPLE_TIME: u8 = 21;
    pub(crate) const CLOCKID: u8 = 23;
    pub(crate) const BPF_PROG_INFO: u8 = 25;
    pub(crate) const BPF_BTF: u8 = 26;
    pub(crate) const CLOCK_DATA: u8 = 29;

    // Ours, far above perf's, which steps over features that it does not know.
    pub(crate) const MARKS: u8 = 250;
    pub(crate) const CONTAINERS: u8 = 251;
    pub(crate) const RECORDER: u8 = 252;
    pub(crate) const FILES: u8 = 253;

    /// In a stream perf ends at a feature that it does not know, and steps over what an event is told of itself that it
    /// does not know: ours are such updates, of this kind and their bit.
    pub(crate) const UPDATE: u64 = 0x7070_0000;
}

/// A section to write: (bit, bytes).
pub type Section = (u8, Vec<u8>);

/// All feature bits with their names, as perf spells them (`HEADER_*` in tools/perf/util/header.h).
pub(crate) const NAMES: &[(u8, &str)] = &[
    (1, "TRACING_DATA"),
    (2, "BUILD_ID"),
    (3, "HOSTNAME"),
    (4, "OSRELEASE"),
    (5, "VERSION"),
    (6, "ARCH"),
    (7, "NRCPUS"),
    (8, "CPUDESC"),
    (9, "CPUID"),
    (10, "TOTAL_MEM"),
    (11, "CMDLINE"),
    (12, "EVENT_DESC"),
    (13, "CPU_TOPOLOGY"),
    (14, "NUMA_TOPOLOGY"),
    (15, "BRANCH_STACK"),
    (16, "PMU_MAPPINGS"),
    (17, "GROUP_DESC"),
    (18, "AUXTRACE"),
    (19, "STAT"),
    (20, "CACHE"),
    (21, "SAMPLE_TIME"),
    (22, "MEM_TOPOLOGY"),
    (23, "CLOCKID"),
    (24, "DIR_FORMAT"),
    (25, "BPF_PROG_INFO"),
    (26, "BPF_BTF"),
    (27, "COMPRESSED"),
    (28, "CPU_PMU_CAPS"),
    (29, "CLOCK_DATA"),
    (30, "HYBRID_TOPOLOGY"),
    (31, "PMU_CAPS"),
    (32, "CPU_DOMAIN_INFO"),
    (33, "E_MACHINE"),
    (34, "CLN_SIZE"),
];

/// The features of a recording, in the recorded machine's byte order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// The sections that there are, no bit twice.
    pub list: Vec<Section>,
}

impl Features {
    pub(crate) fn get(&self, bit: u8) -> Option<&[u8]> {
        self.list.iter().find(|(b, _)| *b == bit).map(|(_, bytes)| &bytes[..])
    }

    /// A feature that is one string.
    pub(crate) fn text(&self, bit: u8, big: bool) -> Option<String> {
        Bytes::new(self.get(bit)?, big).string()
    }

    /// Adds or replaces one.
    pub(crate) fn set(&mut self, bit: u8, bytes: Vec<u8>) {
        self.list.retain(|(b, _)| *b != bit);
        self.list.push((bit, bytes));
    }

    /// The features that stay true when samples are saved again, in this machine's byte order.
    pub fn carried(&self, big: bool) -> Vec<Section> {
        let keep = |bit: &u8| ![bit::EVENT_DESC, bit::SAMPLE_TIME, 18, 19, 24, 27].contains(bit);
        let kept = self.list.iter().filter(|(b, _)| keep(b));
        if !big {
            return kept.cloned().collect();
        }
        let turned = |(b, bytes): &Section| {
            let mut rest = Bytes::new(bytes, true);
            let out = match *b {
                3..=6 | 8 | 9 => string(&rest.string()?),
                bit::NRCPUS => [rest.u32()?.to_le_bytes(), rest.u32()?.to_le_bytes()].concat(),
                bit::TOTAL_MEM => rest.u64()?.to_le_bytes().to_vec(),
                bit::TRACING_DATA => bytes.clone(),
                _ => return None,
            };
            Some((*b, out))
        };
        kept.filter_map(turned).collect()
    }
}

/// A string as the header stores it: length padded to 64, then the bytes and zeros.
pub fn string(text: &str) -> Vec<u8> {
    let padded = (text.len() + 1).next_multiple_of(64);
    let mut out = (padded as u32).to_le_bytes().to_vec();
    out.extend_from_slice(text.as_bytes());
    out.resize(4 + padded, 0);
    out
}

/// The facts of this machine and of this command line.
pub(crate) fn machine(cmdline: &[String]) -> Vec<Section> {
    let uname = rustix::system::uname();
    let mut args = (cmdline.len() as u32).to_le_bytes().to_vec();
    cmdline.iter().for_each(|arg| args.extend(string(arg)));
    let online = cpus::online().map_or(1, |c| c.len());
    let nr = [(cpus::possible() as u32).to_le_bytes(), (online as u32).to_le_bytes()].concat();
    let (description, id) = cpu_names();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total: u64 =
        memory.lines().find_map(|l| l.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    vec![
        (bit::HOSTNAME, string(&uname.nodename().to_string_lossy())),
        (bit::OSRELEASE, string(&uname.release().to_string_lossy())),
        (bit::VERSION, string(concat!("perfprof-tui ", env!("CARGO_PKG_VERSION")))),
        (bit::ARCH, string(&uname.machine().to_string_lossy())),
        (bit::NRCPUS, nr),
        (bit::CPUDESC, string(&description)),
        (bit::CPUID, string(&id)),
        (bit::TOTAL_MEM, total.to_le_bytes().to_vec()),
        (bit::CMDLINE, args),
    ]
}

/// Model name, and vendor, family, model and stepping as perf writes them.
fn cpu_names() -> (String, String) {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let value = text
            .lines()
            .find_map(|l| l.split_once(':').filter(|(k, _)| k.trim() == name).map(|(_, v)| v.trim().to_owned()));
        value.unwrap_or_default()
    };
    let id = [field("vendor_id"), field("cpu family"), field("model"), field("stepping")].join(",");
    (field("model name"), id)
}

/// Names and ids of the events.
pub fn event_desc(events: &[EventDesc]) -> Section {
    let mut out = (events.len() as u32).to_le_bytes().to_vec();
    out.extend((crate::kernel::attr::FILE_SIZE as u32).to_le_bytes());
    for event in events {
        out.extend(event.attr.encode());
        out.extend((event.ids.len() as u32).to_le_bytes());
        out.extend(string(&event.name));
        event.ids.iter().for_each(|id| out.extend(id.to_le_bytes()));
    }
    (bit::EVENT_DESC, out)
}

/// Time of the first and the last sample, in the session's clock.
pub(crate) fn sample_time(first: u64, last: u64) -> Section {
    (bit::SAMPLE_TIME, [first.to_le_bytes(), last.to_le_bytes()].concat())
}

/// The sections that say that times are of CLOCK_MONOTONIC, and the wall clock's time at one of them.
pub(crate) fn clock() -> Vec<Section> {
    let mut data = 1u32.to_le_bytes().to_vec();
    data.extend((libc::CLOCK_MONOTONIC as u32).to_le_bytes());
    data.extend(kernel::wall_ns().to_le_bytes());
    data.extend(kernel::monotonic_ns().to_le_bytes());
    vec![(bit::CLOCKID, 1u64.to_le_bytes().to_vec()), (bit::CLOCK_DATA, data)]
}

#[cfg(test)]
mod tests;
