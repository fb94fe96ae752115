//! Type numbers of records (perf_event_open(2), `enum perf_event_type`; perf's own ones from 64 on).

pub(crate) const MMAP: u32 = 1;
pub(crate) const LOST: u32 = 2;
pub(crate) const COMM: u32 = 3;
pub(crate) const EXIT: u32 = 4;
pub(crate) const THROTTLE: u32 = 5;
pub(crate) const UNTHROTTLE: u32 = 6;
pub(crate) const FORK: u32 = 7;
pub(crate) const READ: u32 = 8;
/// `PERF_RECORD_SAMPLE`: a hit of an event, with the fields that its `sample_type` names.
pub const SAMPLE: u32 = 9;
pub(crate) const MMAP2: u32 = 10;
pub(crate) const AUX: u32 = 11;
pub(crate) const ITRACE_START: u32 = 12;
pub(crate) const LOST_SAMPLES: u32 = 13;
pub(crate) const SWITCH: u32 = 14;
pub(crate) const SWITCH_CPU_WIDE: u32 = 15;
pub(crate) const NAMESPACES: u32 = 16;
pub(crate) const KSYMBOL: u32 = 17;
pub(crate) const BPF_EVENT: u32 = 18;
pub(crate) const CGROUP: u32 = 19;
pub(crate) const TEXT_POKE: u32 = 20;
/// Types from here on are written by perf's user space and carry no sample id.
pub const USER_START: u32 = 64;
pub(crate) const HEADER_ATTR: u32 = 64;
pub(crate) const TRACING_DATA: u32 = 66;
pub(crate) const BUILD_ID: u32 = 67;
pub(crate) const FINISHED_ROUND: u32 = 68;
pub(crate) const ID_INDEX: u32 = 69;
pub(crate) const AUXTRACE: u32 = 71;
pub(crate) const THREAD_MAP: u32 = 73;
pub(crate) const CPU_MAP: u32 = 74;
pub(crate) const EVENT_UPDATE: u32 = 78;
pub(crate) const HEADER_FEATURE: u32 = 80;
pub(crate) const COMPRESSED: u32 = 81;
pub(crate) const FINISHED_INIT: u32 = 82;
pub(crate) const COMPRESSED2: u32 = 83;
/// Our own, far from where perf's grow to: a piece of a table of functions, in streams that only this program
/// reads.
pub(crate) const TABLE: u32 = 0x7066_7401;

/// All types with their names, without the common prefix (`enum perf_event_type` and
/// `enum perf_user_event_type`).
pub(crate) const NAMES: &[(u32, &str)] = &[
    (MMAP, "MMAP"),
    (LOST, "LOST"),
    (COMM, "COMM"),
    (EXIT, "EXIT"),
    (THROTTLE, "THROTTLE"),
    (UNTHROTTLE, "UNTHROTTLE"),
    (FORK, "FORK"),
    (READ, "READ"),
    (SAMPLE, "SAMPLE"),
    (MMAP2, "MMAP2"),
    (AUX, "AUX"),
    (ITRACE_START, "ITRACE_START"),
    (LOST_SAMPLES, "LOST_SAMPLES"),
    (SWITCH, "SWITCH"),
    (SWITCH_CPU_WIDE, "SWITCH_CPU_WIDE"),
    (NAMESPACES, "NAMESPACES"),
    (KSYMBOL, "KSYMBOL"),
    (BPF_EVENT, "BPF_EVENT"),
    (CGROUP, "CGROUP"),
    (TEXT_POKE, "TEXT_POKE"),
    (21, "AUX_OUTPUT_HW_ID"),
    (22, "CALLCHAIN_DEFERRED"),
    (HEADER_ATTR, "HEADER_ATTR"),
    (65, "HEADER_EVENT_TYPE"),
    (TRACING_DATA, "HEADER_TRACING_DATA"),
    (BUILD_ID, "HEADER_BUILD_ID"),
    (FINISHED_ROUND, "FINISHED_ROUND"),
    (ID_INDEX, "ID_INDEX"),
    (70, "AUXTRACE_INFO"),
    (AUXTRACE, "AUXTRACE"),
    (72, "AUXTRACE_ERROR"),
    (THREAD_MAP, "THREAD_MAP"),
    (CPU_MAP, "CPU_MAP"),
    (75, "STAT_CONFIG"),
    (76, "STAT"),
    (77, "STAT_ROUND"),
    (EVENT_UPDATE, "EVENT_UPDATE"),
    (79, "TIME_CONV"),
    (HEADER_FEATURE, "HEADER_FEATURE"),
    (COMPRESSED, "COMPRESSED"),
    (FINISHED_INIT, "FINISHED_INIT"),
    (COMPRESSED2, "COMPRESSED2"),
    (84, "BPF_METADATA"),
    (TABLE, "TABLE"),
];

/// A type's name; `None` for one that nobody here knows.
pub(crate) fn name(kind: u32) -> Option<&'static str> {
    NAMES.iter().find(|(k, _)| *k == kind).map(|(_, name)| *name)
}
