//! Records as text, in perf's format after `PERF_RECORD_` and the type's name.

use std::fmt::Write;

use crate::panel::text::clean;
use crate::record::in_place::{i32_at, u64_at};
use crate::record::kinds::{FileId, Header, misc, types};
use crate::record::thread_count::ThreadCount;
use crate::record::{Layout, Record};

#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordRow<'a> {
    pub(crate) header: Header,
    pub(crate) body: &'a [u8],
    pub(crate) layout: Layout,
    /// The name of its event, if it belongs to one.
    pub(crate) event: &'a str,
    /// Whether mappings may have build IDs.
    pub(crate) build_ids: bool,
    /// Whether it is part of a dump, where losses are printed in detail.
    pub(crate) in_dump: bool,
}

/// Little-endian numbers at offsets of a body; 0 if it is too short.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u64(&self, at: usize) -> u64 {
        u64_at(self.0, at).unwrap_or(0)
    }

    fn u32(&self, at: usize) -> u32 {
        i32_at(self.0, at).unwrap_or(0) as u32
    }

    fn u16(&self, at: usize) -> u16 {
        self.0.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
    }
}

/// Formats `0x1f`; `0` for zero, as C's `%#x` does.
pub(crate) fn hex(value: u64) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}

/// Returns perf's name of a record type; empty for an unknown one.
pub(crate) fn kind_name(kind: u32) -> &'static str {
    match kind {
        types::HEADER_ATTR => "ATTR",
        65 => "EVENT_TYPE",
        types::HEADER_TRACING_DATA => "TRACING_DATA",
        types::HEADER_BUILD_ID => "BUILD_ID",
        types::HEADER_FEATURE => "FEATURE",
        kind => types::name(kind).unwrap_or("UNKNOWN"),
    }
}

/// Formats `PERF_RECORD_COMM exec: spin:7/7` with its newline, or several lines if perf prints several.
pub(crate) fn words(told: &RecordRow<'_>) -> String {
    let mut out = format!("PERF_RECORD_{}", kind_name(told.header.kind));
    let what = Record::decode(told.header, told.body, told.build_ids).ok().and_then(|record| of_record(told, &record));
    out.push_str(&what.or_else(|| of_body(told)).unwrap_or_default());
    out.push('\n');
    out
}

/// Formats the records that are decoded.
fn of_record(told: &RecordRow<'_>, record: &Record<'_>) -> Option<String> {
    let name = |bytes: &[u8]| clean(&String::from_utf8_lossy(bytes)).into_owned();
    Some(match record {
        Record::Comm { pid, tid, exec, name: comm } => {
            format!("{}: {}:{pid}/{tid}", if *exec { " exec" } else { "" }, name(comm))
        }
        Record::Fork(task) | Record::Exit(task) => {
            format!("({}:{}):({}:{})", task.pid, task.tid, task.ppid, task.ptid)
        }
        Record::Mmap(map) if told.header.kind == types::MMAP => {
            let kind = if told.header.misc & misc::MMAP_DATA != 0 { 'r' } else { 'x' };
            let place = format!("[{}({}) @ {}]", hex(map.start), hex(map.len), hex(map.pgoff));
            format!(" {}/{}: {place}: {kind} {}", map.pid, map.tid, name(map.name))
        }
        Record::Mmap(map) => {
            let file = match map.file {
                FileId::BuildId(id) => format!("<{id}>"),
                FileId::Inode { major, minor, inode, generation } => {
                    format!("{major:02x}:{minor:02x} {inode} {generation}")
                }
                FileId::None => "00:00 0 0".to_owned(),
            };
            let prot = map_rights(map.prot, map.flags);
            let place = format!("[{}({}) @ {} {file}]", hex(map.start), hex(map.len), hex(map.pgoff));
            format!(" {}/{}: {place}: {prot} {}", map.pid, map.tid, name(map.name))
        }
        Record::Lost { lost, .. } if !told.in_dump => format!(" lost {lost}"),
        Record::Lost { id, lost } => format!(": id:{id}: lost:{lost}"),
        Record::LostSamples { lost } => {
            let id = told.layout.trailer(told.body).unwrap_or_default().id;
            format!(": id:{id}: lost samples :{lost}")
        }
        Record::Ksymbol { addr, len, unregister, name: symbol, .. } => {
            let kind = Fields(told.body).u16(12);
            format!(" addr {addr:x} len {len} type {kind} flags {:#x} name {}", u8::from(*unregister), name(symbol))
        }
        Record::Cgroup { id, path } => format!(" cgroup: {id} {}", name(path)),
        Record::Bpf { unload, id, .. } => {
            let kind = if *unload { 2 } else { Fields(told.body).u16(0) };
            format!(" type {kind}, flags {}, id {id}", Fields(told.body).u16(2))
        }
        Record::TextPoke { addr, old, new } => {
            let bytes = |what: &str, code: &[u8]| {
                let code: String = code.iter().map(|byte| format!(" {byte:02x}")).collect();
                format!("\n            {what} bytes:{code}")
            };
            let lengths = format!(" addr {addr:#x} old len {} new len {}", old.len(), new.len());
            lengths + &bytes("old", old) + &bytes("new", new)
        }
        Record::Throttle { .. } | Record::Unthrottle { .. } | Record::Other => return None,
    })
}

/// Formats `r-xp`: the protection and flags of a mapping (mmap(2)).
pub(super) fn map_rights(prot: u32, flags: u32) -> String {
    let letter = |bit: u32, letter: char| if prot & bit != 0 { letter } else { '-' };
    let shared = if flags & 1 != 0 { 's' } else { 'p' };
    [letter(1, 'r'), letter(2, 'w'), letter(4, 'x'), shared].into_iter().collect()
}

/// Formats the records that are only passed through.
fn of_body(told: &RecordRow<'_>) -> Option<String> {
    let fields = Fields(told.body);
    Some(match told.header.kind {
        types::SWITCH => format!(" {}", direction(told.header)),
        types::SWITCH_CPU_WIDE => {
            let other = if told.header.misc & misc::SWITCH_OUT != 0 { "next" } else { "prev" };
            let (pid, tid) = (fields.u32(0) as i32, fields.u32(4) as i32);
            format!(" {}  {other} pid/tid: {pid:>5}/{tid:<5}", direction(told.header))
        }
        types::NAMESPACES => namespaces(&fields),
        types::READ => thread_count(told)?,
        types::ITRACE_START => format!(" pid: {} tid: {}", fields.u32(0), fields.u32(4)),
        types::AUX => {
            let flags = fields.u64(16);
            let names = [(1, "T"), (2, "O"), (4, "P")];
            let names: String = names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect();
            format!(" offset: {} size: {} flags: {} [{names}]", hex(fields.u64(0)), hex(fields.u64(8)), hex(flags))
        }
        types::FINISHED_INIT => ": unhandled!".to_owned(),
        types::ID_INDEX => id_index(&fields),
        types::THREAD_MAP => thread_map(&fields),
        types::CPU_MAP => format!(": {}", cpu_map(told.body)),
        types::EVENT_UPDATE => event_update(told.body),
        _ => return None,
    })
}

fn direction(header: Header) -> &'static str {
    /// The task was preempted (`PERF_RECORD_MISC_SWITCH_OUT_PREEMPT`).
    const PREEMPTED: u16 = 1 << 14;
    match (header.misc & misc::SWITCH_OUT != 0, header.misc & PREEMPTED != 0) {
        (true, true) => "OUT preempt",
        (true, false) => "OUT        ",
        (false, _) => "IN         ",
    }
}

fn thread_count(told: &RecordRow<'_>) -> Option<String> {
    let count = ThreadCount::decode(&told.layout, told.body).ok()??;
    let mut out = format!(": {} {} {} {}", count.pid, count.tid, clean(told.event), count.value);
    let parts = [
        ("time enabled", count.enabled),
        ("time running", count.running),
        ("id          ", count.id),
        ("lost        ", count.lost),
    ];
    for (what, value) in parts.iter().filter_map(|(what, value)| Some((what, (*value)?))) {
        let _ = write!(out, "\n... {what} : {value}");
    }
    Some(out)
}

/// Returns how many list entries to print: a record may claim any number.
fn listed(told: u64, room: usize, each: usize) -> usize {
    usize::try_from(told).unwrap_or(usize::MAX).min(room / each)
}

fn namespaces(fields: &Fields<'_>) -> String {
    /// Namespace names by index (`NET_NS_INDEX` and following in the kernel's header).
    const NAMES: [&str; 7] = ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"];
    let told = fields.u64(8);
    let mut out = format!(" {}/{} - nr_namespaces: {told}\n\t\t[", fields.u32(0) as i32, fields.u32(4) as i32);
    let n = listed(told, fields.0.len().saturating_sub(16), 16);
    for i in 0..n {
        let name = NAMES.get(i).copied().unwrap_or("unknown");
        let _ = write!(out, "{i}/{name}: {}/{}", fields.u64(16 + 16 * i), hex(fields.u64(24 + 16 * i)));
        out.push_str(match (i + 1 == n, (i + 1) % 4 == 0) {
            (true, _) => "",
            (false, true) => ", \n\t\t ",
            (false, false) => ", ",
        });
    }
    out.push(']');
    out
}

fn id_index(fields: &Fields<'_>) -> String {
    let told = fields.u64(0);
    let mut out = format!(" nr: {told}");
    for i in 0..listed(told, fields.0.len().saturating_sub(8), 32) {
        let at = 8 + 32 * i;
        let (id, index) = (fields.u64(at), fields.u64(at + 8));
        let (cpu, tid) = (fields.u64(at + 16) as i64, fields.u64(at + 24) as i64);
        let _ = write!(out, "\n ... id: {id}  idx: {index}  cpu: {cpu}  tid: {tid}");
    }
    out
}

fn thread_map(fields: &Fields<'_>) -> String {
    let told = fields.u64(0);
    let mut out = format!(" nr: {told} thread");
    let n = listed(told, fields.0.len().saturating_sub(8), 24);
    out.push_str(if n > 1 { "s: " } else { ": " });
    let list: Vec<String> = (0..n).map(|i| (fields.u64(8 + 24 * i) as i64).to_string()).collect();
    out.push_str(&list.join(","));
    out
}

fn cpu_map(body: &[u8]) -> String {
    let fields = Fields(body);
    let cpus: Vec<u32> = match fields.u16(0) {
        0 => (0..listed(u64::from(fields.u16(2)), body.len().saturating_sub(4), 2))
            .map(|i| u32::from(fields.u16(4 + 2 * i)))
            .collect(),
        // A range.
        2 => (u32::from(fields.u16(4))..=u32::from(fields.u16(6))).collect(),
        // A mask of words of four or eight bytes.
        _ => {
            let wide = fields.u16(4) == 8;
            let (start, bytes) = if wide { (8, 8) } else { (8, 4) };
            let words = listed(u64::from(fields.u16(2)), body.len().saturating_sub(start), bytes);
            let word = |i: usize| if wide { fields.u64(start + 8 * i) } else { u64::from(fields.u32(start + 4 * i)) };
            let bits = 8 * bytes as u32;
            let set =
                |i: usize| (0..bits).filter(move |bit| word(i) >> bit & 1 == 1).map(move |bit| bits * i as u32 + bit);
            (0..words).flat_map(set).collect()
        }
    };
    const ANY: u32 = u16::MAX as u32;
    let some: Vec<u32> = cpus.iter().copied().filter(|cpu| *cpu != ANY).collect();
    let any = (some.len() < cpus.len()).then(|| "-1".to_owned());
    let some = Some(crate::kernel::cpus::format_list(&some)).filter(|list| !list.is_empty());
    any.into_iter().chain(some).collect::<Vec<_>>().join(",")
}

/// Formats an update of an event: its unit, scale, name or CPUs.
fn event_update(body: &[u8]) -> String {
    let fields = Fields(body);
    let text = || {
        let bytes = body.get(16..).unwrap_or_default();
        let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
        clean(&String::from_utf8_lossy(&bytes[..end])).into_owned()
    };
    let what = match fields.u64(0) {
        0 => format!("... unit:  {}", text()),
        1 => format!("... scale: {:.6}", f64::from_bits(fields.u64(16))),
        2 => format!("... name:  {}", text()),
        3 => format!("... cpus: {}", cpu_map(body.get(16..).unwrap_or_default())),
        _ => "... unknown type".to_owned(),
    };
    format!("\n... id:    {}\n{what}", fields.u64(8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: u32, misc: u16, body: &[u8]) -> String {
        let layout = Layout::default();
        let header = Header { kind, misc, size: 0 };
        words(&RecordRow { header, body, layout, event: "page-faults", build_ids: false, in_dump: true })
    }

    fn longs(list: &[u64]) -> Vec<u8> {
        list.iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    #[test]
    fn switches_say_which_way_and_who() {
        let body = longs(&[7 | 8 << 32]);
        assert_eq!(told(types::SWITCH, misc::SWITCH_OUT, &[]), "PERF_RECORD_SWITCH OUT        \n");
        assert_eq!(
            told(types::SWITCH_CPU_WIDE, misc::SWITCH_OUT | 1 << 14, &body),
            "PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid:     7/8    \n"
        );
        assert_eq!(
            told(types::SWITCH_CPU_WIDE, 0, &body),
            "PERF_RECORD_SWITCH_CPU_WIDE IN           prev pid/tid:     7/8    \n"
        );
    }

    #[test]
    fn lists_end_where_the_record_does() {
        let lying = longs(&[u64::MAX, 5, 0, 0, -1i64 as u64]);
        assert_eq!(
            told(types::ID_INDEX, 0, &lying),
            format!("PERF_RECORD_ID_INDEX nr: {}\n ... id: 5  idx: 0  cpu: 0  tid: -1\n", u64::MAX)
        );
        assert_eq!(told(types::THREAD_MAP, 0, &longs(&[9])), "PERF_RECORD_THREAD_MAP nr: 9 thread: \n");
        let spaces = longs(&[1, 7, 4, 0x10, 4, 0x11, 4, 0x12, 4, 0x13, 4, 0x14]);
        assert_eq!(
            told(types::NAMESPACES, 0, &spaces),
            "PERF_RECORD_NAMESPACES 1/0 - nr_namespaces: 7\n\t\t[0/net: 4/0x10, 1/uts: 4/0x11, 2/ipc: 4/0x12, \
             3/pid: 4/0x13, \n\t\t 4/user: 4/0x14]\n"
        );
    }

    #[test]
    fn counts_of_threads_are_told_with_their_events() {
        let body = longs(&[7 | 8 << 32, 100, 50, 40, 3, 2]);
        let layout = Layout { read_format: 0b1_0111, ..Layout::default() };
        let header = Header { kind: types::READ, misc: 0, size: 0 };
        let told = RecordRow { header, body: &body, layout, event: "page-faults", build_ids: false, in_dump: true };
        let want = "PERF_RECORD_READ: 7 8 page-faults 100\n... time enabled : 50\n... time running : 40\n\
                    ... id           : 3\n... lost         : 2\n";
        assert_eq!(words(&told), want);
    }

    #[test]
    fn maps_of_cpus_have_three_forms() {
        let list: Vec<u8> = [0u16, 3, 0, 1, 5].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(told(types::CPU_MAP, 0, &list), "PERF_RECORD_CPU_MAP: 0-1,5\n");
        let any: Vec<u8> = [0u16, 1, u16::MAX, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(told(types::CPU_MAP, 0, &any), "PERF_RECORD_CPU_MAP: -1\n");
        let range: Vec<u8> = [2u16, 0, 2, 4].iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(told(types::CPU_MAP, 0, &range), "PERF_RECORD_CPU_MAP: 2-4\n");
        let mask = [&[1u16, 1, 8, 0].map(u16::to_le_bytes).concat()[..], &longs(&[0b1011])].concat();
        assert_eq!(told(types::CPU_MAP, 0, &mask), "PERF_RECORD_CPU_MAP: 0-1,3\n");
    }

    #[test]
    fn any_bytes_are_told() {
        for (kind, _) in types::NAMES {
            for len in [0, 3, 8, 20, 64] {
                assert!(told(*kind, 0xffff, &vec![0xff; len]).starts_with("PERF_RECORD_"), "{kind}");
            }
        }
    }
}
