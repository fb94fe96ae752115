//! A dump of every record (`-D`) in perf's layout: its position, bytes and decoded content.

use std::fmt::Write;

use crate::ingest::{IngestState, PlacedRecord};
use crate::kernel::attr::read_format::{GROUP, LOST};
use crate::kernel::attr::sample;
use crate::panel::text::clean;
use crate::perfdata::EventDesc;
use crate::record::hardware::branches;
use crate::record::kinds::{misc, types};
use crate::record::sample::{CONTEXT_USER_DEFERRED, UserState, u64s};
use crate::record::{Layout, Sample, registers};
use crate::session::MapId;

use super::records::{self, RecordRow, hex};
use super::text::{comm_of, register_values, row_of_bytes};

pub(crate) struct Dump {
    name: String,
    /// Whether any event's samples have the CPU, and the time.
    has_cpu: bool,
    has_time: bool,
    has_id_all: bool,
    arm: bool,
}

impl Dump {
    pub(crate) fn new(name: &str, events: &[EventDesc], arch: &str) -> Self {
        let any = |bit: u64| events.iter().any(|event| event.attr.sample_type & bit != 0);
        Self {
            name: clean(name).into_owned(),
            has_cpu: any(sample::CPU),
            has_time: any(sample::TIME),
            has_id_all: events.iter().any(|event| event.layout().id_all),
            arm: arch == "aarch64",
        }
    }

    /// Dumps a record, without the fields of samples.
    pub(crate) fn record(&self, core: &IngestState, record: &PlacedRecord<'_>, out: &mut String) {
        let kind = record.header.kind;
        // Writing into a string cannot fail.
        let _ = writeln!(out, "\n{}@{} [{:#x}]: event: {kind}", hex(record.at), self.name, record.header.size);
        raw(record.bytes, out);
        out.push('\n');
        self.stamp(core, record, out);
        let _ = write!(out, "{} [{:#x}]: ", hex(record.at), record.header.size);
        if kind == types::SAMPLE {
            return self.sample(core, record, out);
        }
        let (layout, build_ids) = core.form(record.input, record.header, record.body());
        let event = core.event_of(record.input, record.header, record.body());
        let event = core.events.get(usize::from(event)).map_or("", |event| &event.name);
        let told = RecordRow { header: record.header, body: record.body(), layout, event, build_ids, in_dump: true };
        out.push_str(&records::words(&told));
    }

    /// Writes the CPU and the time of a record, if samples have them.
    fn stamp(&self, core: &IngestState, record: &PlacedRecord<'_>, out: &mut String) {
        let kind = record.header.kind;
        if kind != types::SAMPLE && !self.has_id_all {
            return out.push_str("-1 -1 ");
        }
        let (layout, _) = core.form(record.input, record.header, record.body());
        let cpu = if kind >= types::USER_START {
            0
        } else if kind == types::SAMPLE {
            let sample = core.decode(record.input, record.header, record.body()).map(|(_, sample)| sample.cpu);
            sample.filter(|_| layout.sample_type & sample::CPU != 0).unwrap_or(u32::MAX)
        } else {
            let id = layout.trailer(record.body()).filter(|_| layout.sample_type & sample::CPU != 0);
            id.map_or(u32::MAX, |id| id.cpu)
        };
        let _ = match (self.has_cpu, self.has_time) {
            (true, true) => write!(out, "{cpu} {} ", record.time),
            (true, false) => write!(out, "{cpu} "),
            (false, true) => write!(out, "{} ", record.time),
            (false, false) => Ok(()),
        };
    }

    fn sample(&self, core: &IngestState, record: &PlacedRecord<'_>, out: &mut String) {
        let Some((event, sample)) = core.decode(record.input, record.header, record.body()) else {
            return out.push_str("PERF_RECORD_SAMPLE: its fields exceed the record\n");
        };
        let (layout, _) = core.form(record.input, record.header, record.body());
        let Sample { pid, tid, .. } = sample;
        let _ = writeln!(
            out,
            "PERF_RECORD_SAMPLE(IP, {:#x}): {pid}/{tid}: {} period: {} addr: {}",
            record.header.misc,
            hex(sample.ip),
            sample.period,
            hex(sample.addr)
        );
        let regs_intr = core.events.get(usize::from(event)).map_or(0, |event| event.attr.regs_intr);
        self.fields(record, &layout, &sample, regs_intr, out);
    }

    /// Writes the fields of a sample that take lines of their own.
    fn fields(
        &self,
        record: &PlacedRecord<'_>,
        layout: &Layout,
        sample: &Sample<'_>,
        regs_intr: u64,
        out: &mut String,
    ) {
        let carries = |bit: u64| layout.sample_type & bit != 0;
        let rare = layout.rare(sample.tail, regs_intr).unwrap_or_default();
        if carries(sample::CALLCHAIN) {
            let deferred = sample.deferred.map(|cookie| [CONTEXT_USER_DEFERRED, cookie]);
            let words: Vec<u64> = sample.chain().chain(deferred.into_iter().flatten()).collect();
            let _ = writeln!(out, "... FP chain: nr:{}", words.len());
            words.iter().enumerate().for_each(|(i, word)| _ = writeln!(out, "..... {i:2}: {word:016x}"));
        }
        if carries(sample::BRANCH_STACK) {
            branch_stack(sample.branches, out);
        }
        self.registers("user", &sample.user, out);
        self.registers("intr", &rare.interrupted, out);
        if carries(sample::STACK_USER) {
            let size = sample.user.stack.len();
            // perf counts from the size word.
            let place = || sample.user.stack.as_ptr().addr().wrapping_sub(record.bytes.as_ptr().addr() + 8);
            let at = (size > 0).then(place);
            let _ = writeln!(out, "... ustack: size {size}, offset {}", hex(at.unwrap_or(0) as u64));
        }
        if carries(sample::WEIGHT) {
            let _ = writeln!(out, "... weight: {}", sample.weight);
        }
        if carries(sample::DATA_SRC) {
            let _ = writeln!(out, " . data_src: {:#x}", sample.data_src);
        }
        if carries(sample::PHYS_ADDR) {
            let _ = writeln!(out, " .. phys_addr: {:#x}", rare.phys_addr);
        }
        if carries(sample::TRANSACTION) {
            let _ = writeln!(out, "... transaction: {:x}", sample.transaction);
        }
        if carries(sample::READ) {
            readings(layout, sample, out);
        }
    }

    fn registers(&self, whose: &str, state: &UserState<'_>, out: &mut String) {
        if state.regs.is_empty() {
            return;
        }
        let abi = ["none", "32-bit", "64-bit"].get(state.abi as usize).copied().unwrap_or("unknown");
        let _ = writeln!(out, "... {whose} regs: mask {:#x} ABI {abi}", state.mask);
        for (place, value) in register_values(state) {
            let _ = writeln!(out, ".... {:<5} {value:#018x}", registers::name(place, self.arm));
        }
    }

    /// Writes the thread and the DSO of a sample.
    pub(crate) fn owner(&self, core: &IngestState, record: &PlacedRecord<'_>, out: &mut String) {
        let Some((_, sample)) = core.decode(record.input, record.header, record.body()) else { return };
        let comm = comm_of(core, sample.tid);
        let map = match record.header.misc & misc::CPUMODE_MASK {
            misc::KERNEL => core.session.kernel_map(sample.ip),
            misc::USER => core.session.user_map(sample.pid, sample.ip),
            misc::GUEST_KERNEL | misc::GUEST_USER => MapId::GUEST,
            _ => MapId::UNKNOWN,
        };
        let dso = &core.session.dsos.of_map(map).path;
        let dso = if map == MapId::UNKNOWN { "<not found>" } else { dso };
        let _ = writeln!(out, " ... thread: {}:{}\n ...... dso: {}", clean(&comm), sample.tid, clean(dso));
    }
}

fn raw(bytes: &[u8], out: &mut String) {
    let _ = writeln!(out, ".\n. ... raw event: size {} bytes", bytes.len());
    for (row, chunk) in bytes.chunks(16).enumerate() {
        let _ = write!(out, ".  {:04x}: ", row * 16);
        row_of_bytes(chunk, 16, out);
    }
}

fn branch_stack(bytes: &[u8], out: &mut String) {
    let all: Vec<_> = branches(bytes).collect();
    let _ = writeln!(out, "... branch stack: nr:{}", all.len());
    for (i, branch) in all.iter().enumerate() {
        let flags = branch.flags;
        let letter = |is: bool, letter: &'static str| if is { letter } else { " " };
        let _ = writeln!(
            out,
            "..... {i:2}: {:016x} -> {:016x} {} cycles {}{}{}{} {:x} {}",
            branch.from,
            branch.to,
            flags.cycles().unwrap_or(0),
            letter(flags.is_mispredicted() == Some(true), "M"),
            letter(flags.is_mispredicted() == Some(false), "P"),
            letter(flags.is_abort(), "A"),
            letter(flags.is_in_transaction(), "T"),
            flags.0 >> 33,
            flags.kind().unwrap_or_default()
        );
    }
}

fn readings(layout: &Layout, sample: &Sample<'_>, out: &mut String) {
    out.push_str("... sample_read:\n");
    let list: Vec<_> = layout.readings(sample).collect();
    let words: Vec<u64> = u64s(sample.read).collect();
    let times = (layout.read_format & 1) + (layout.read_format >> 1 & 1);
    let at = if layout.read_format & GROUP != 0 { 0 } else { 1 };
    for (i, what) in (0..times as usize).zip(["enabled", "running"]) {
        let _ = writeln!(out, "...... time {what} {:016x}", words.get(at + i).copied().unwrap_or_default());
    }
    if layout.read_format & GROUP != 0 {
        let _ = writeln!(out, ".... group nr {}", list.len());
    }
    for reading in &list {
        let _ = write!(out, "..... id {:016x}, value {:016x}", reading.id, reading.value);
        if layout.read_format & LOST != 0 {
            let _ = write!(out, ", lost {}", reading.lost);
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_rows() {
        let mut out = String::new();
        raw(b"0123456789abcdef\n~", &mut out);
        let rows = [
            ".",
            ". ... raw event: size 18 bytes",
            ".  0000:  30 31 32 33 34 35 36 37 38 39 61 62 63 64 65 66  0123456789abcdef",
            ".  0010:  0a 7e                                            .~              ",
        ];
        assert_eq!(out.lines().collect::<Vec<_>>(), rows);
    }
}
