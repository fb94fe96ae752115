//! DNS messages of local sockets: the BPF programs at raw tracepoints (dns_messages.bpf.c, compiled by the `build` next
//! to it) and their maps.
//!
//! Each query and each answer is a sample of an event of type `SW_BPF_OUTPUT`, whose raw data is `struct message`.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::bpf::btf::{Btf, BtfError};
use super::bpf::calls::{self, LoadError, MappedValue, ProgramType};
use super::bpf::object::LoadedObject;
use super::perf_event::sys::Errno;
use super::process::own_memory;

#[cfg(target_arch = "x86_64")]
const OBJECT: &[u8] = include_bytes!("dns_messages.x86_64.o");
#[cfg(not(target_arch = "x86_64"))]
const OBJECT: &[u8] = include_bytes!("dns_messages.aarch64.o");

/// The tracepoints of the programs, which are named like their sections.
const SENT: &CStr = c"net_dev_queue";
/// Since Linux 6.3.
const READ: &CStr = c"sock_recv_length";
/// Until Linux 6.17, the reader of a datagram frees it.
const READ_UNTIL_6_17: &CStr = c"consume_skb";

/// The fields whose offsets are the words of `struct settings` in dns_messages.bpf.c.
const FIELDS: [(&str, &[&str]); 11] = [
    ("sk_buff", &["sk"]),
    ("sk_buff", &["dev"]),
    ("sk_buff", &["head"]),
    ("sk_buff", &["tail"]),
    ("sk_buff", &["network_header"]),
    ("sk_buff", &["transport_header"]),
    ("sock", &["sk_protocol"]),
    ("sock", &["__sk_common", "skc_family"]),
    ("sock", &["__sk_common", "skc_num"]),
    ("sock", &["__sk_common", "skc_dport"]),
    ("sock", &["__sk_common", "skc_daddr"]),
];
/// The last word, which is 0 in a kernel without IPv6.
const FIELD_OF_IPV6: (&str, &[&str]) = ("sock", &["__sk_common", "skc_v6_daddr"]);
const SETTINGS_BYTES: usize = 8 * (FIELDS.len() + 1);

fn offsets(types: &Btf) -> Result<Vec<u32>, BtfError> {
    let mut offsets: Vec<u32> =
        FIELDS.iter().map(|(of, path)| types.offset(of, path)).collect::<Result<_, BtfError>>()?;
    offsets.push(types.offset(FIELD_OF_IPV6.0, FIELD_OF_IPV6.1).unwrap_or(0));
    Ok(offsets)
}

/// The attached programs. They write the messages of each CPU that has an event for them.
#[derive(Debug)]
pub(crate) struct DnsRecorder {
    object: LoadedObject,
    /// The ids of the events that the programs write by.
    writers: BTreeMap<u32, u64>,
    _attached: Vec<OwnedFd>,
}

impl DnsRecorder {
    /// Loads and attaches the programs (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN). [`LoadError`] has the last line of
    /// the verifier's log, or the missing type.
    pub(crate) fn load() -> Result<Self, LoadError> {
        let offsets = Btf::system().and_then(|types| offsets(&types));
        // The kernel's types take some 6 MB and are not needed again.
        own_memory::give_back();
        let offsets = offsets.map_err(|error| LoadError { errno: Errno::OPNOTSUPP, log: error.to_string() })?;
        let object = LoadedObject::load(OBJECT)?;
        let settings = MappedValue::of(object.map("settings")?, SETTINGS_BYTES)?;
        for (at, offset) in offsets.into_iter().enumerate() {
            settings.word(at).store(offset.into(), Ordering::Release);
        }
        let attach = |tracepoint: &CStr| -> Result<OwnedFd, LoadError> {
            let program = object.program(tracepoint.to_str().unwrap_or_default(), ProgramType::RawTracepoint)?;
            Ok(calls::attach(program.as_fd(), tracepoint)?)
        };
        // Both may exist.
        let read = attach(READ).or_else(|error| attach(READ_UNTIL_6_17).map_err(|_| error))?;
        let attached = vec![read, attach(SENT)?];
        Ok(Self { object, writers: BTreeMap::new(), _attached: attached })
    }

    /// Lets an event of type `SW_BPF_OUTPUT` write the messages of its CPU, in place of another one.
    pub(crate) fn write_by(&mut self, cpu: u32, event: BorrowedFd<'_>, id: u64) -> Result<(), Errno> {
        self.object.write_by(cpu, event)?;
        self.writers.insert(cpu, id);
        Ok(())
    }

    /// Ends the messages that an event writes. The map would keep it open. Returns whether other events remain.
    pub(crate) fn write_no_more(&mut self, cpu: u32, id: u64) -> bool {
        if self.writers.get(&cpu) == Some(&id) {
            self.writers.remove(&cpu);
            // It fails only if the CPU has no event.
            let _ = self.object.map("events").map(|events| calls::take(events, cpu));
        }
        !self.writers.is_empty()
    }
}

#[cfg(test)]
mod tests;
