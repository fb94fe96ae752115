//! Type numbers of records (perf_event_open(2), `enum perf_event_type`; perf's own ones from 64 on).

/// Types from here on are written by perf's user space and have no sample id.
pub const USER_START: u32 = 64;

/// Defines a constant for each type, and the list of all.
macro_rules! types {
    ($($TYPE:ident = $number:literal,)+) => {
        $(
            #[doc = concat!("`PERF_RECORD_", stringify!($TYPE), "`.")]
            pub const $TYPE: u32 = $number;
        )+

        /// All types with their names, without the common prefix (`enum perf_event_type` and
        /// `enum perf_user_event_type`).
        pub(crate) const NAMES: &[(u32, &str)] = &[$(($number, stringify!($TYPE))),+];
    };
}

types! {
    MMAP = 1,
    LOST = 2,
    COMM = 3,
    EXIT = 4,
    THROTTLE = 5,
    UNTHROTTLE = 6,
    FORK = 7,
    READ = 8,
    SAMPLE = 9,
    MMAP2 = 10,
    AUX = 11,
    ITRACE_START = 12,
    LOST_SAMPLES = 13,
    SWITCH = 14,
    SWITCH_CPU_WIDE = 15,
    NAMESPACES = 16,
    KSYMBOL = 17,
    BPF_EVENT = 18,
    CGROUP = 19,
    TEXT_POKE = 20,
    AUX_OUTPUT_HW_ID = 21,
    CALLCHAIN_DEFERRED = 22,
    HEADER_ATTR = 64,
    HEADER_EVENT_TYPE = 65,
    HEADER_TRACING_DATA = 66,
    HEADER_BUILD_ID = 67,
    FINISHED_ROUND = 68,
    ID_INDEX = 69,
    AUXTRACE_INFO = 70,
    AUXTRACE = 71,
    AUXTRACE_ERROR = 72,
    THREAD_MAP = 73,
    CPU_MAP = 74,
    STAT_CONFIG = 75,
    STAT = 76,
    STAT_ROUND = 77,
    EVENT_UPDATE = 78,
    TIME_CONV = 79,
    HEADER_FEATURE = 80,
    COMPRESSED = 81,
    FINISHED_INIT = 82,
    COMPRESSED2 = 83,
    BPF_METADATA = 84,
    // Our own type, far above the range of perf's: a part of a symbol table, in streams that only this program reads.
    TABLE = 0x7066_7401,
}

/// Returns a type's name; `None` for an unknown type.
pub(crate) fn name(kind: u32) -> Option<&'static str> {
    NAMES.iter().find(|(k, _)| *k == kind).map(|(_, name)| *name)
}
