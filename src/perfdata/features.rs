//! Header features: one section per fact about the machine or the recording.

use std::ops::Range;

use crate::kernel::{self, cpus};

use super::EventDesc;
use super::bytes::ByteReader;

/// Feature bits, and their names in perf's spelling (`HEADER_*` in tools/perf/util/header.h).
macro_rules! features {
    ($($NAME:ident)+) => {
        /// Feature bits: perf's, and ours far above them, because perf skips unknown features of a file.
        #[expect(missing_docs, reason = "perf's names, see perf.data-file-format.txt")]
        pub mod bit {
            #[allow(clippy::upper_case_acronyms, non_camel_case_types, reason = "perf's names")]
            enum Bits { $($NAME),+ }

            $(pub const $NAME: u8 = Bits::$NAME as u8 + 1;)+

            pub(crate) const MARKS: u8 = 250;
            pub(crate) const CONTAINERS: u8 = 251;
            pub(crate) const RECORDER: u8 = 252;
            pub(crate) const FILES: u8 = 253;

            /// In a stream, perf stops at an unknown feature but skips unknown event updates. So our features are event
            /// updates there, whose type is this plus the feature's bit.
            pub(crate) const UPDATE: u64 = 0x7070_0000;
        }

        /// All of perf's bits with their names.
        pub(crate) const NAMES: &[(u8, &str)] = &[$((bit::$NAME, stringify!($NAME))),+];
    };
}

// Numbered from 1 on.
features! {
    TRACING_DATA BUILD_ID HOSTNAME OSRELEASE VERSION ARCH NRCPUS CPUDESC CPUID TOTAL_MEM CMDLINE EVENT_DESC
    CPU_TOPOLOGY NUMA_TOPOLOGY BRANCH_STACK PMU_MAPPINGS GROUP_DESC AUXTRACE STAT CACHE SAMPLE_TIME MEM_TOPOLOGY
    CLOCKID DIR_FORMAT BPF_PROG_INFO BPF_BTF COMPRESSED CPU_PMU_CAPS CLOCK_DATA HYBRID_TOPOLOGY PMU_CAPS
    CPU_DOMAIN_INFO E_MACHINE CLN_SIZE
}

/// A section to write: (bit, bytes).
pub type FeatureSection = (u8, Vec<u8>);

/// The features of a recording, in the recorded machine's byte order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// The sections, at most one per bit.
    pub list: Vec<FeatureSection>,
}

impl Features {
    pub(crate) fn get(&self, bit: u8) -> Option<&[u8]> {
        self.list.iter().find(|(b, _)| *b == bit).map(|(_, bytes)| &bytes[..])
    }

    pub(crate) fn text(&self, bit: u8, big: bool) -> Option<String> {
        ByteReader::new(self.get(bit)?, big).string()
    }

    /// Returns the machine's architecture as in uname, else by the ELF machine that perf 7.0 adds.
    pub(crate) fn arch(&self, big: bool) -> Option<String> {
        let by_elf = || {
            let number = ByteReader::new(self.get(bit::E_MACHINE)?, big).u32()?;
            let name = match number {
                3 => "i686",
                8 => "mips",
                20 => "ppc",
                21 if big => "ppc64",
                21 => "ppc64le",
                22 => "s390x",
                40 => "arm",
                62 => "x86_64",
                183 => "aarch64",
                243 => "riscv64",
                258 => "loongarch64",
                _ => return None,
            };
            Some(name.to_owned())
        };
        self.text(bit::ARCH, big).filter(|arch| !arch.is_empty()).or_else(by_elf)
    }

    pub(crate) fn set(&mut self, bit: u8, bytes: Vec<u8>) {
        self.list.retain(|(b, _)| *b != bit);
        self.list.push((bit, bytes));
    }

    /// Returns the features that stay valid when samples are saved again, in this machine's byte order.
    pub fn carried(&self, big: bool) -> Vec<FeatureSection> {
        let keep = |bit: &u8| {
            ![bit::EVENT_DESC, bit::AUXTRACE, bit::STAT, bit::SAMPLE_TIME, bit::DIR_FORMAT, bit::COMPRESSED]
                .contains(bit)
        };
        let kept = self.list.iter().filter(|(b, _)| keep(b));
        if !big {
            return kept.cloned().collect();
        }
        let turned = |(b, bytes): &FeatureSection| {
            let mut rest = ByteReader::new(bytes, true);
            let out = match *b {
                bit::HOSTNAME..=bit::ARCH | bit::CPUDESC | bit::CPUID => string(&rest.string()?),
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

/// Encodes a string like the header: its length padded to 64, then the bytes and zeros.
pub fn string(text: &str) -> Vec<u8> {
    let padded = (text.len() + 1).next_multiple_of(64);
    let mut out = (padded as u32).to_le_bytes().to_vec();
    out.extend_from_slice(text.as_bytes());
    out.resize(4 + padded, 0);
    out
}

pub(crate) fn machine(cmdline: &[String]) -> Vec<FeatureSection> {
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

/// Returns the model name, and vendor, family, model and stepping in perf's format.
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

/// Encodes the names and ids of the events.
pub fn event_desc(events: &[EventDesc]) -> FeatureSection {
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

/// Encodes the groups of events, without names; `None` if there are no groups.
pub(crate) fn group_desc(groups: &[Range<usize>]) -> Option<FeatureSection> {
    let mut out = (groups.len() as u32).to_le_bytes().to_vec();
    for group in groups {
        out.extend(string("{anon_group}"));
        out.extend((group.start as u32).to_le_bytes());
        out.extend((group.len() as u32).to_le_bytes());
    }
    (!groups.is_empty()).then_some((bit::GROUP_DESC, out))
}

/// Encodes the timestamps of the first and the last sample, in the session's clock.
pub(crate) fn sample_time(first: u64, last: u64) -> FeatureSection {
    (bit::SAMPLE_TIME, [first.to_le_bytes(), last.to_le_bytes()].concat())
}

/// Returns the sections that declare timestamps of CLOCK_MONOTONIC, and pair one with the wall clock.
pub(crate) fn clock() -> Vec<FeatureSection> {
    let mut data = 1u32.to_le_bytes().to_vec();
    data.extend((libc::CLOCK_MONOTONIC as u32).to_le_bytes());
    data.extend(kernel::wall_ns().to_le_bytes());
    data.extend(kernel::monotonic_ns().to_le_bytes());
    vec![(bit::CLOCKID, 1u64.to_le_bytes().to_vec()), (bit::CLOCK_DATA, data)]
}

#[cfg(test)]
mod tests;
