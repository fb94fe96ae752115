//! `struct perf_event_attr` as plain fields, and its byte form for the system call and for perf.data. Layout:
//! `include/uapi/linux/perf_event.h`, perf_event_open(2).

use perf_event_open_sys::bindings as b;

pub use crate::perf_abi::sample;
pub(crate) use crate::perf_abi::{branch, read_format};

/// The attr size that every perf since 4.8 reads (`PERF_ATTR_SIZE_VER5`). Newer fields stay unused.
pub(crate) const FILE_SIZE: usize = b::PERF_ATTR_SIZE_VER5 as usize;
/// The smallest size that ever existed (`PERF_ATTR_SIZE_VER0`).
pub(crate) const MIN_SIZE: usize = b::PERF_ATTR_SIZE_VER0 as usize;

pub(crate) const TYPE_HARDWARE: u32 = b::PERF_TYPE_HARDWARE;
pub(crate) const TYPE_SOFTWARE: u32 = b::PERF_TYPE_SOFTWARE;
pub(crate) const TYPE_TRACEPOINT: u32 = b::PERF_TYPE_TRACEPOINT;
pub(crate) const TYPE_HW_CACHE: u32 = b::PERF_TYPE_HW_CACHE;
pub(crate) const TYPE_RAW: u32 = b::PERF_TYPE_RAW;
pub(crate) const TYPE_BREAKPOINT: u32 = b::PERF_TYPE_BREAKPOINT;

pub(crate) const HW_CPU_CYCLES: u64 = b::PERF_COUNT_HW_CPU_CYCLES as u64;
pub(crate) const SW_CPU_CLOCK: u64 = b::PERF_COUNT_SW_CPU_CLOCK as u64;
pub(crate) const SW_TASK_CLOCK: u64 = b::PERF_COUNT_SW_TASK_CLOCK as u64;
pub(crate) const SW_DUMMY: u64 = b::PERF_COUNT_SW_DUMMY as u64;
pub(crate) const SW_BPF_OUTPUT: u64 = b::PERF_COUNT_SW_BPF_OUTPUT as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwKind {
    /// Page faults, alignment faults and emulation faults, in programs and in the kernel.
    Fault,
    /// Context switches, CPU migrations and cgroup switches, which happen in the kernel.
    Switch,
}

/// The registers that unwinding needs: all general-purpose ones, the same set that perf requests
/// (arch/x86/include/uapi/asm/perf_regs.h, and the header of arch/arm64).
pub(crate) const REGS_USER: u64 = if cfg!(target_arch = "aarch64") { (1 << 33) - 1 } else { 0xff_0fff };

/// The link register (x30), which holds a leaf function's return address where calls do not push it.
pub(crate) const REGS_LINK: u64 = if cfg!(target_arch = "aarch64") { 1 << 30 } else { 0 };

/// A bit of the flag word of `struct perf_event_attr` (perf_event_open(2)), by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the kernel's names, see perf_event_open(2)")]
pub enum Flag {
    Disabled = 0,
    Inherit = 1,
    Pinned = 2,
    Exclusive = 3,
    ExcludeUser = 4,
    ExcludeKernel = 5,
    ExcludeHv = 6,
    ExcludeIdle = 7,
    Mmap = 8,
    Comm = 9,
    Freq = 10,
    InheritStat = 11,
    EnableOnExec = 12,
    Task = 13,
    Watermark = 14,
    MmapData = 17,
    SampleIdAll = 18,
    ExcludeHost = 19,
    ExcludeGuest = 20,
    ExcludeCallchainKernel = 21,
    ExcludeCallchainUser = 22,
    Mmap2 = 23,
    CommExec = 24,
    UseClockid = 25,
    ContextSwitch = 26,
    Namespaces = 28,
    Ksymbol = 29,
    BpfEvent = 30,
    Cgroup = 32,
    TextPoke = 33,
    BuildId = 34,
    DeferCallchain = 38,
    DeferOutput = 39,
}

/// An event's kernel configuration. Field names follow the header; each union is one field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// `type`: a `PERF_TYPE_*`, or a PMU's number in sysfs.
    pub kind: u32,
    /// The event within its type: a `PERF_COUNT_*`, a tracepoint's id, or the PMU's own bits.
    pub config: u64,
    /// `sample_freq` in Hz with [`Flag::Freq`], else `sample_period` in units of the event.
    pub period_or_freq: u64,
    /// `PERF_SAMPLE_*` bits: the fields of a sample (see [`sample`]).
    pub sample_type: u64,
    /// `PERF_FORMAT_*` bits: the values that are read in addition to the count.
    pub read_format: u64,
    /// The flag word; see [`Flag`]. `precise_ip` is bits 15 and 16.
    pub flags: u64,
    /// `wakeup_watermark` in bytes with [`Flag::Watermark`], else `wakeup_events` in samples.
    pub wakeup: u32,
    /// `HW_BREAKPOINT_*` bits (1 reads, 2 writes, 4 execution); 0 for other events.
    pub bp_type: u32,
    /// Also `bp_addr`.
    pub config1: u64,
    /// Also `bp_len`.
    pub config2: u64,
    /// `PERF_SAMPLE_BRANCH_*` bits; 0 without branches.
    pub branch_sample_type: u64,
    /// User registers of a sample: one bit each, numbered as in the architecture's asm/perf_regs.h.
    pub regs_user: u64,
    /// Bytes of user stack in a sample, a multiple of 8; 0 for none.
    pub stack_user: u32,
    /// The clock of timestamps, by its number in clock_gettime(2). Valid only with [`Flag::UseClockid`].
    pub clockid: i32,
    /// Registers at the interrupt, with the same bits as [`Attr::regs_user`].
    pub regs_intr: u64,
    /// Bytes in the AUX area after which the reader is woken.
    pub aux_watermark: u32,
    /// The maximum length of a call chain; 0 for the sysctl `perf_event_max_stack`.
    pub max_stack: u16,
}

impl Attr {
    pub(crate) fn has(&self, flag: Flag) -> bool {
        self.flags >> flag as u8 & 1 == 1
    }

    /// Sets or clears a bit of the flag word.
    pub fn set(&mut self, flag: Flag, on: bool) {
        let bit = 1 << flag as u8;
        self.flags = if on { self.flags | bit } else { self.flags & !bit };
    }

    /// Returns whether the event never samples and only carries other records.
    pub(crate) fn is_dummy(&self) -> bool {
        self.kind == TYPE_SOFTWARE && self.config == SW_DUMMY
    }

    /// Returns the kind of a software event that hits all of its counters at the same moment; `None` for others.
    pub(crate) fn shared(&self) -> Option<SwKind> {
        use SwKind::{Fault, Switch};
        let counted = u32::try_from(self.config).ok().filter(|_| self.kind == TYPE_SOFTWARE)?;
        match counted {
            b::PERF_COUNT_SW_PAGE_FAULTS
            | b::PERF_COUNT_SW_PAGE_FAULTS_MIN
            | b::PERF_COUNT_SW_PAGE_FAULTS_MAJ
            | b::PERF_COUNT_SW_ALIGNMENT_FAULTS
            | b::PERF_COUNT_SW_EMULATION_FAULTS => Some(Fault),
            b::PERF_COUNT_SW_CONTEXT_SWITCHES | b::PERF_COUNT_SW_CPU_MIGRATIONS | b::PERF_COUNT_SW_CGROUP_SWITCHES => {
                Some(Switch)
            }
            _ => None,
        }
    }

    pub(crate) fn precise(&self) -> u8 {
        (self.flags >> 15 & 3) as u8
    }

    /// Sets `precise_ip`, 0 to 3.
    pub(crate) fn set_precise(&mut self, level: u8) {
        self.flags = self.flags & !(3 << 15) | u64::from(level.min(3)) << 15;
    }
}

/// Generates the byte form of an attr from the offset of each field.
macro_rules! byte_form {
    ($($field:ident: $type:ty = $at:literal,)+) => {
        impl Attr {
            /// Returns the byte form: [`FILE_SIZE`] bytes, little-endian like the machines we run on.
            pub(crate) fn encode(&self) -> [u8; FILE_SIZE] {
                let mut out = [0; FILE_SIZE];
                let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
                put(4, &(FILE_SIZE as u32).to_le_bytes());
                $(put($at, &self.$field.to_le_bytes());)+
                out
            }

            /// Reads an attr of either byte order and of any size from [`MIN_SIZE`] up. Bytes that a short attr lacks
            /// count as zero; bytes past the known fields are ignored. Returns `None` for less than [`MIN_SIZE`].
            pub(crate) fn decode(bytes: &[u8], big: bool) -> Option<Self> {
                if bytes.len() < MIN_SIZE {
                    return None;
                }
                let mut full = [0; FILE_SIZE];
                let n = bytes.len().min(FILE_SIZE);
                full[..n].copy_from_slice(&bytes[..n]);
                let number = |at: usize, size: usize| {
                    let (from, shift) = (&full[at..at + size], |n: u64, byte: &u8| n << 8 | u64::from(*byte));
                    if big { from.iter().fold(0, shift) } else { from.iter().rev().fold(0, shift) }
                };
                let attr = Self { $($field: number($at, size_of::<$type>()) as $type),+ };
                // Big-endian machines number bit fields from the other end.
                Some(Self { flags: if big { attr.flags.reverse_bits() } else { attr.flags }, ..attr })
            }
        }
    };
}

byte_form! {
    kind: u32 = 0,
    config: u64 = 8,
    period_or_freq: u64 = 16,
    sample_type: u64 = 24,
    read_format: u64 = 32,
    flags: u64 = 40,
    wakeup: u32 = 48,
    bp_type: u32 = 52,
    config1: u64 = 56,
    config2: u64 = 64,
    branch_sample_type: u64 = 72,
    regs_user: u64 = 80,
    stack_user: u32 = 88,
    clockid: i32 = 92,
    regs_intr: u64 = 96,
    aux_watermark: u32 = 104,
    max_stack: u16 = 108,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_the_same_attr() {
        let mut attr = Attr { kind: 1, config: 9, period_or_freq: 999, clockid: 1, max_stack: 127, ..Attr::default() };
        attr.set(Flag::Freq, true);
        attr.set(Flag::BuildId, true);
        attr.set_precise(2);
        assert_eq!(Attr::decode(&attr.encode(), false), Some(attr.clone()));
        assert!(attr.has(Flag::BuildId) && attr.precise() == 2);
        attr.set(Flag::BuildId, false);
        assert!(!attr.has(Flag::BuildId));
    }

    #[test]
    fn flag_bits_stand_where_the_kernel_header_has_them() {
        let mut attr = Attr::default();
        for flag in
            [Flag::Freq, Flag::Mmap2, Flag::UseClockid, Flag::BpfEvent, Flag::Cgroup, Flag::BuildId, Flag::Watermark]
        {
            attr.set(flag, true);
        }
        let mut header = b::perf_event_attr::default();
        header.set_freq(1);
        header.set_mmap2(1);
        header.set_use_clockid(1);
        header.set_bpf_event(1);
        header.set_cgroup(1);
        header.set_build_id(1);
        header.set_watermark(1);
        let bits = header._bitfield_1.get(0, 64);
        assert_eq!(attr.flags, bits);
    }

    #[test]
    fn a_short_attr_is_zero_filled_and_a_shorter_one_refused() {
        let attr = Attr { kind: 2, config: 77, ..Attr::default() };
        assert_eq!(Attr::decode(&attr.encode()[..64], false), Some(attr));
        assert_eq!(Attr::decode(&[0; 63], false), None);
    }
}
