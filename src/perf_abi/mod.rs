//! Bits of perf_event_open(2) that occur both in requests to the kernel and in its records.

/// `PERF_SAMPLE_*` bits of `sample_type`.
#[expect(missing_docs, reason = "the kernel's names, see perf_event_open(2)")]
pub mod sample {
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub(crate) const ADDR: u64 = 1 << 3;
    pub(crate) const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub(crate) const STREAM_ID: u64 = 1 << 9;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const BRANCH_STACK: u64 = 1 << 11;
    pub(crate) const REGS_USER: u64 = 1 << 12;
    pub(crate) const STACK_USER: u64 = 1 << 13;
    pub(crate) const WEIGHT: u64 = 1 << 14;
    pub(crate) const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub(crate) const TRANSACTION: u64 = 1 << 17;
    pub(crate) const REGS_INTR: u64 = 1 << 18;
    pub(crate) const PHYS_ADDR: u64 = 1 << 19;
    pub(crate) const AUX: u64 = 1 << 20;
    pub(crate) const CGROUP: u64 = 1 << 21;
    pub(crate) const DATA_PAGE_SIZE: u64 = 1 << 22;
    pub(crate) const CODE_PAGE_SIZE: u64 = 1 << 23;
    pub(crate) const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// `PERF_FORMAT_*` bits of `read_format`.
pub(crate) mod read_format {
    pub(crate) const TOTAL_TIME_ENABLED: u64 = 1;
    pub(crate) const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    pub(crate) const ID: u64 = 1 << 2;
    pub(crate) const GROUP: u64 = 1 << 3;
    pub(crate) const LOST: u64 = 1 << 4;
}

/// `PERF_SAMPLE_BRANCH_*` bits of `branch_sample_type`.
pub(crate) mod branch {
    pub(crate) const USER: u64 = 1;
    pub(crate) const ANY: u64 = 1 << 3;
    /// The LBR as a stack of calls that have not returned.
    pub(crate) const CALL_STACK: u64 = 1 << 11;
    pub(crate) const NO_FLAGS: u64 = 1 << 14;
    pub(crate) const NO_CYCLES: u64 = 1 << 15;
    /// A word per branch after all branches.
    pub(crate) const COUNTERS: u64 = 1 << 19;
}
