//! The processed profile format of profiler.firefox.com, written with the fxprof-processed-profile crate.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, Profile, ReferenceTimestamp,
    SamplingInterval, StackHandle, ThreadHandle, Timestamp, WeightType,
};
use hashbrown::HashMap;

use crate::panel::printable::EscapeForm;
use crate::perfdata::{EventUnit, SampleCount};
use crate::profile::NodeId;
use crate::query::Data;
use crate::query::tree::symbol_stacks::{SymbolStacks, samples};
use crate::session::DsoKind;

use super::{ExportFormat, ExportInput, FormatWriter};

pub(super) const FORMAT: ExportFormat = ExportFormat {
    name: "firefox",
    about: "profiler.firefox.com",
    writer: FormatWriter::Profile(Some(EscapeForm::Json), write),
};

/// The numbers of a process and a thread, and the name if a number is missing, as in profiles of other tools.
type TaskKey = (i32, i32, String);

fn key(pid: i32, tid: i32, name: &str) -> TaskKey {
    (pid, tid, if pid.min(tid) < 0 { name.to_owned() } else { String::new() })
}

struct Builder<'a> {
    data: Data<'a>,
    named: SymbolStacks,
    out: Profile,
    categories: [CategoryHandle; 3],
    threads: HashMap<TaskKey, ThreadHandle>,
    processes: HashMap<TaskKey, fxprof_processed_profile::ProcessHandle>,
    stacks: HashMap<(ThreadHandle, NodeId), StackHandle>,
}

impl Builder<'_> {
    fn thread(&mut self, pid: i32, tid: i32, comm: &str) -> ThreadHandle {
        let (own, of) = (key(pid, tid, comm), key(pid, pid, comm));
        if let Some(thread) = self.threads.get(&own) {
            return *thread;
        }
        let start = Timestamp::from_nanos_since_reference(0);
        let number = |n: i32| u32::try_from(n).unwrap_or(0);
        let out = &mut self.out;
        let name = if pid < 0 { comm.to_owned() } else { format!("{comm} {pid}") };
        let process = *self.processes.entry(of).or_insert_with(|| out.add_process(&name, number(pid), start));
        let thread = out.add_thread(process, number(tid), start, pid == tid);
        out.set_thread_name(thread, comm);
        self.threads.insert(own, thread);
        thread
    }

    /// Returns the stack of a node. Each stack is created once, after its parent.
    fn stack(&mut self, thread: ThreadHandle, node: NodeId) -> Option<StackHandle> {
        let mut path = Vec::new();
        let mut at = node;
        let mut handle = None;
        while at != NodeId::ROOT {
            if let Some(known) = self.stacks.get(&(thread, at)) {
                handle = Some(*known);
                break;
            }
            path.push(at);
            at = self.named.trie.parent(at);
        }
        for at in path.into_iter().rev() {
            let name = &self.named.names[self.named.trie.frame(at).0 as usize];
            let label = self.out.intern_string(&name.text);
            let category = match name.kind {
                kind if kind.is_kernel() => self.categories[0],
                DsoKind::Anon => self.categories[2],
                _ => self.categories[1],
            };
            let info =
                FrameInfo { frame: Frame::Label(label), category_pair: category.into(), flags: FrameFlags::empty() };
            let frame = self.out.intern_frame(thread, info);
            let next = self.out.intern_stack(thread, handle, frame);
            self.stacks.insert((thread, at), next);
            handle = Some(next);
        }
        handle
    }
}

fn write(input: &ExportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let data = input.data;
    let interval = match input.frequency {
        0 => SamplingInterval::from_millis(1),
        hz => SamplingInterval::from_nanos(1_000_000_000 / hz),
    };
    let reference = ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_nanos(input.wall_ns));
    let mut profile = Profile::new(input.title, reference, interval);
    let categories = [("Kernel", CategoryColor::Orange), ("User", CategoryColor::Blue), ("JIT", CategoryColor::Green)]
        .map(|(name, color)| profile.add_category(name, color));
    profile.set_os_name("Linux");
    profile.set_symbolicated(true);
    let mut b = Builder {
        data,
        named: SymbolStacks::build(data),
        out: profile,
        categories,
        threads: HashMap::new(),
        processes: HashMap::new(),
        stacks: HashMap::new(),
    };
    let mut before: HashMap<ThreadHandle, u64> = HashMap::new();
    let unit = data.unit(input.event);
    let are_durations = unit.is_time() && data.profile.has_durations(input.event as u16);
    let count = data.meaning(input.event).count;
    // Milliseconds, bytes, or counts as in the file.
    let kind_of_weights = match (unit, count) {
        (EventUnit::Nanoseconds, SampleCount::Unknown) => Some((WeightType::TracingMs, 1_000_000)),
        (EventUnit::Nanoseconds, _) if are_durations => Some((WeightType::TracingMs, 1_000_000)),
        (EventUnit::Bytes, _) => Some((WeightType::Bytes, 1)),
        (EventUnit::Decimal(decimals), _) => Some((WeightType::Samples, 10u64.saturating_pow(decimals.into()))),
        (EventUnit::Count | EventUnit::Nanoseconds, SampleCount::PerPeriod(one)) => Some((WeightType::Samples, one)),
        (EventUnit::Count, SampleCount::Unknown) => Some((WeightType::Samples, 1)),
        (EventUnit::Count | EventUnit::Nanoseconds, SampleCount::One) => None,
    };
    let mut weights =
        WeightTable { periods: Vec::new(), one: kind_of_weights.as_ref().map_or(1, |(_, one)| (*one).max(1)) };
    samples(data, input.filter.clone(), |row| {
        if usize::from(row.event) != input.event {
            return;
        }
        let site = b.data.profile.sites.all()[row.site as usize];
        let task = &b.data.session.tasks()[site.task.0 as usize];
        let thread = b.thread(task.pid, task.tid, &task.comm);
        let stack = b.stack(thread, b.named.node_of[site.stack.0 as usize]);
        let time = row.time.saturating_sub(b.data.start);
        let since = time.saturating_sub(before.insert(thread, time).unwrap_or(time));
        let ran = match input.frequency {
            _ if are_durations => 0,
            _ if unit.is_time() => row.period,
            hz => 1_000_000_000u64.checked_div(hz).unwrap_or(0),
        };
        let weight = kind_of_weights.as_ref().map_or(1, |(kind, _)| {
            b.out.set_thread_samples_weight_type(thread, kind.clone());
            weights.add(row.period)
        });
        let cpu = CpuDelta::from_nanos(since.min(ran));
        b.out.add_sample(thread, Timestamp::from_nanos_since_reference(time), stack, cpu, weight);
    });
    b.out.serialize(&mut Serializer::with_formatter(&mut *out, WeightFormatter::new(&weights)))?;
    out.flush()
}

/// The weights of all samples. The crate has integers of 32 bits for them: it gets the numbers of weights instead.
struct WeightTable {
    periods: Vec<u64>,
    /// The period of the weight 1, at least 1.
    one: u64,
}

impl WeightTable {
    /// Adds a weight; returns its number.
    fn add(&mut self, period: u64) -> i32 {
        self.periods.push(period);
        i32::try_from(self.periods.len() - 1).unwrap_or(i32::MAX)
    }

    /// Returns a numbered weight as JSON.
    fn text(&self, number: i32) -> Option<String> {
        let period = *self.periods.get(usize::try_from(number).ok()?)?;
        let whole = period.is_multiple_of(self.one).then(|| (period / self.one).to_string());
        Some(whole.unwrap_or_else(|| (period as f64 / self.one as f64).to_string()))
    }
}

/// Writes JSON without blanks, and the weights of samples in the place of their numbers.
struct WeightFormatter<'a> {
    weights: &'a WeightTable,
    in_key: bool,
    is_of_weights: bool,
    in_weights: bool,
}

impl<'a> WeightFormatter<'a> {
    fn new(weights: &'a WeightTable) -> Self {
        Self { weights, in_key: false, is_of_weights: false, in_weights: false }
    }
}

impl Formatter for WeightFormatter<'_> {
    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        (self.in_key, self.is_of_weights) = (true, false);
        if first { Ok(()) } else { out.write_all(b",") }
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.in_key = false;
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        self.is_of_weights |= self.in_key && fragment == "weight";
        out.write_all(fragment.as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.in_weights = std::mem::take(&mut self.is_of_weights);
        out.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.in_weights = false;
        out.write_all(b"]")
    }

    fn write_i32<W: ?Sized + Write>(&mut self, out: &mut W, value: i32) -> io::Result<()> {
        let weight = if self.in_weights { self.weights.text(value) } else { None };
        out.write_all(weight.unwrap_or_else(|| value.to_string()).as_bytes())
    }
}
