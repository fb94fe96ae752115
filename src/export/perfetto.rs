//! Perfetto's trace format, for ui.perfetto.dev and its trace processor:
//! - the samples of the event, with their stacks; the periods are a counter of each CPU, which grows with each sample;
//! - the durations of derived events (time off the CPU, softirqs, system calls …) as slices of the threads' tracks;
//! - the states of threads, if sched:sched_switch was recorded, also if another event is exported;
//! - a counter of lost samples.
//!
//! There are no states from the switches of `record --switch-events`, which a profile does not keep, and no CPU use of
//! the machine, which a recording does not contain. Panels of units have sums, not single spans, so they have
//! no slices.
//!
//! Timestamps are those of the recording, and the trace calls its clock BOOTTIME. Packets are written one by one; only
//! the numbers of names and stacks stay in memory.

mod interned;
pub mod messages;
mod switches;
mod tracks;

use std::io::{self, Write};
use std::ops::RangeInclusive;

use hashbrown::HashMap;
use prost::Message;

use crate::panel::text::clean;
use crate::profile::{NodeId, Profile};
use crate::query::tree::symbol_stacks::{StackSample, samples};
use crate::session::DsoKind;

use super::{ExportFormat, ExportInput, FormatWriter};
use interned::Interned;
use messages::{
    Clock, ClockSnapshot, FtraceEventBundle, InternedData, PerfSample, PerfSampleDefaults, Timebase, Trace,
    TracePacket, TracePacketDefaults, TrackEvent,
};
use switches::SchedEvents;
use tracks::Tracks;

pub(super) const FORMAT: ExportFormat =
    ExportFormat { name: "perfetto", about: "ui.perfetto.dev", writer: FormatWriter::Profile(None, write) };

/// `BuiltinClocks`.
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
/// `SequenceFlags`.
const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
/// `CpuMode`.
const MODE_KERNEL: u32 = 1;
const MODE_USER: u32 = 2;
/// `TrackEvent.Type`.
const SLICE_BEGIN: u32 = 1;
const SLICE_END: u32 = 2;
const COUNTER: u32 = 4;

/// The trace processor aborts at CPU numbers from this one on.
const MAX_CPUS: u16 = 4096;
/// The same for the scheduler's events.
const MAX_SCHED_CPUS: u16 = 1024;

/// Converts to a timestamp: the trace processor's are signed.
fn timestamp(time: u64) -> Option<u64> {
    Some(time.min(i64::MAX as u64))
}

/// The trace's output. Traces are concatenated like their packets, so each packet is written as a trace.
struct Packets<'a> {
    out: &'a mut dyn Write,
}

impl Packets<'_> {
    /// Writes a packet of a machine. Each has its own sequence, because interned numbers belong to a sequence.
    fn write(&mut self, machine: u32, packet: TracePacket) -> io::Result<()> {
        let packet = TracePacket {
            trusted_packet_sequence_id: Some(machine + 1),
            machine_id: (machine > 0).then_some(machine),
            ..packet
        };
        self.out.write_all(&Trace { packet: vec![packet] }.encode_to_vec())
    }

    fn event(&mut self, machine: u32, time: u64, event: TrackEvent) -> io::Result<()> {
        self.write(machine, TracePacket { timestamp: timestamp(time), track_event: Some(event), ..Default::default() })
    }
}

/// The state of a machine's sequence of packets.
#[derive(Default)]
struct Sequence {
    interned: Interned,
    /// The sum of periods of each CPU.
    counts: HashMap<u16, u64>,
    lost: u64,
}

struct Exporter<'a> {
    input: &'a ExportInput<'a>,
    packets: Packets<'a>,
    tracks: Tracks<'a>,
    /// By the number of their machine.
    sequences: Vec<Sequence>,
    /// The first and the last time of what was exported.
    times: Option<RangeInclusive<u64>>,
}

impl Exporter<'_> {
    /// Begins the sequence of each machine: the name of the counter, and the wall-clock time.
    fn begin(&mut self) -> io::Result<()> {
        let ExportInput { data, event, wall_ns, period, frequency, .. } = self.input;
        let timebase = Timebase {
            period: Some(*period).filter(|period| *period > 0),
            frequency: Some(*frequency).filter(|frequency| *frequency > 0),
            name: Some(clean(&data.events[*event]).into_owned()),
        };
        let clock = |id: u32, time: u64| Clock { clock_id: Some(id), timestamp: timestamp(time) };
        let clocks = vec![clock(BOOTTIME, data.start), clock(REALTIME, *wall_ns)];
        let packet = TracePacket {
            sequence_flags: Some(STATE_CLEARED),
            clock_snapshot: (*wall_ns > 0).then_some(ClockSnapshot { clocks }),
            trace_packet_defaults: Some(TracePacketDefaults {
                perf_sample_defaults: Some(PerfSampleDefaults { timebase: Some(timebase) }),
            }),
            ..TracePacket::default()
        };
        for machine in 0..data.session.hosts().iter().len() as u32 {
            self.packets.write(machine, packet.clone())?;
            self.sequences.push(Sequence::default());
        }
        Ok(())
    }

    fn row(&mut self, row: StackSample) -> io::Result<()> {
        let is_chosen = usize::from(row.event) == self.input.event;
        let is_duration = self.input.data.profile.has_durations(row.event);
        if is_chosen || is_duration {
            let times = self.times.get_or_insert(row.time..=row.time);
            *times = row.time.min(*times.start())..=row.time.max(*times.end());
        }
        if is_chosen {
            self.sample(row)?;
        }
        if is_duration { self.slice(row) } else { Ok(()) }
    }

    fn sample(&mut self, row: StackSample) -> io::Result<()> {
        let profile = self.input.data.profile;
        let site = profile.sites.all()[row.site as usize];
        let thread = self.tracks.thread(site.task, &mut self.packets)?;
        let sequence = &mut self.sequences[thread.machine as usize];
        let mut new = InternedData::default();
        let callstack_iid = sequence.interned.callstack(self.input.data, site.stack, &mut new);
        let count = sequence.counts.entry(row.cpu).or_default();
        *count = count.saturating_add(row.period);
        let sample = PerfSample {
            cpu: (row.cpu < MAX_CPUS).then_some(row.cpu.into()),
            pid: Some(thread.pid.cast_unsigned()),
            tid: Some(thread.tid.cast_unsigned()),
            callstack_iid,
            cpu_mode: cpu_mode(profile, site.stack),
            timebase_count: Some(*count),
            kernel_records_lost: None,
        };
        let packet = TracePacket {
            timestamp: timestamp(row.time),
            sequence_flags: Some(NEEDS_STATE),
            interned_data: (new != InternedData::default()).then_some(new),
            perf_sample: Some(sample),
            ..TracePacket::default()
        };
        self.packets.write(thread.machine, packet)
    }

    /// Writes a duration, whose sample has the time of its end.
    fn slice(&mut self, row: StackSample) -> io::Result<()> {
        let data = self.input.data;
        let task = data.profile.sites.all()[row.site as usize].task;
        let thread = self.tracks.thread(task, &mut self.packets)?;
        let times = row.time.saturating_sub(row.period)..=row.time;
        let name = &data.events[usize::from(row.event)];
        let Some(track) = self.tracks.lane((row.event, name), thread, &times, &mut self.packets)? else {
            return Ok(());
        };
        let track_uuid = Some(track);
        let begin = TrackEvent {
            kind: Some(SLICE_BEGIN),
            track_uuid,
            name: Some(clean(name).into_owned()),
            ..Default::default()
        };
        self.packets.event(thread.machine, *times.start(), begin)?;
        let end = TrackEvent { kind: Some(SLICE_END), track_uuid, ..Default::default() };
        self.packets.event(thread.machine, *times.end(), end)
    }

    /// Writes the losses: as a counter, and as a statistic of the trace, which the UI shows as an error.
    fn losses(&mut self) -> io::Result<()> {
        for loss in self.input.data.profile.losses.all() {
            let machine = self.tracks.machine(loss.host);
            let track = self.tracks.losses(machine, &mut self.packets)?;
            let lost = &mut self.sequences[machine as usize].lost;
            *lost = lost.saturating_add(loss.samples);
            let counter_value = Some(i64::try_from(*lost).unwrap_or(i64::MAX));
            let event =
                TrackEvent { kind: Some(COUNTER), track_uuid: Some(track), counter_value, ..Default::default() };
            self.packets.event(machine, loss.time, event)?;
            let Some(cpu) = loss.cpu.filter(|cpu| *cpu < MAX_CPUS) else { continue };
            let kernel_records_lost = Some(loss.samples);
            let perf_sample = Some(PerfSample { cpu: Some(cpu.into()), kernel_records_lost, ..PerfSample::default() });
            let (timestamp, sequence_flags) = (timestamp(loss.time), Some(NEEDS_STATE));
            self.packets
                .write(machine, TracePacket { timestamp, sequence_flags, perf_sample, ..Default::default() })?;
        }
        Ok(())
    }

    /// Writes the scheduler's events of these times. A filter of single threads would make the others' states wrong.
    fn switches(&mut self, times: &RangeInclusive<u64>) -> io::Result<()> {
        let data = self.input.data;
        let events = SchedEvents::of(data);
        if events.is_empty() {
            return Ok(());
        }
        for (chunk, range) in data.profile.between(data.profile.first(), u64::MAX) {
            for at in range.filter(|at| times.contains(&chunk.time[*at]) && chunk.cpu[*at] < MAX_SCHED_CPUS) {
                let site = data.profile.sites.all()[chunk.site[at] as usize];
                let Some(mut event) = events.read(chunk.event[at], chunk.raw(at)) else { continue };
                let thread = self.tracks.thread(site.task, &mut self.packets)?;
                event.timestamp = timestamp(chunk.time[at]);
                event.pid = event.pid.or(Some(thread.tid.cast_unsigned()));
                let bundle = FtraceEventBundle { cpu: Some(chunk.cpu[at].into()), event: vec![event] };
                let packet = TracePacket { ftrace_events: Some(bundle), ..TracePacket::default() };
                self.packets.write(thread.machine, packet)?;
            }
        }
        Ok(())
    }
}

/// Returns the mode in which a sample's CPU was; `None` if the leaf is unknown code or a marker.
fn cpu_mode(profile: &Profile, stack: NodeId) -> Option<u32> {
    let leaf = profile.trie.walk(stack).next()?;
    match profile.frames.sym(profile.frames.sym_of(leaf)).kind {
        kind if kind.is_kernel() => Some(MODE_KERNEL),
        DsoKind::Unknown | DsoKind::Guest | DsoKind::Cut => None,
        _ => Some(MODE_USER),
    }
}

fn write(input: &ExportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (packets, tracks) = (Packets { out: &mut *out }, Tracks::new(input.data.session));
    let mut exporter = Exporter { input, packets, tracks, sequences: Vec::new(), times: None };
    exporter.begin()?;
    let mut result = Ok(());
    samples(input.data, input.filter.clone(), |row| {
        if result.is_ok() {
            result = exporter.row(row);
        }
    });
    result?;
    exporter.losses()?;
    let all = input.filter.is_none().then_some(0..=u64::MAX);
    if let Some(times) = all.or(exporter.times.clone()) {
        exporter.switches(&times)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests;
