//! Samples as text in perf script's layout (perf-script(1)).
//! A line with task, time and event is followed by the call chain, leaf first, and an empty line.

mod code;
mod extra;
mod fields;
mod frames;

use std::fmt::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ingest::IngestState;
use crate::kernel::attr::{Flag, TYPE_TRACEPOINT, sample};
use crate::lang::quantity;
use crate::panel::text::clean;
use crate::perfdata::EventDesc;
use crate::profile::{FrameId, NodeId};
use crate::query::Data;
use crate::query::tree::symbol_stacks::StackSample;
use crate::record::kinds::{misc, types};
use crate::symbols::SymbolOptions;

use super::text::time_of_day;
use code::SampledCode;
pub(crate) use extra::{Addresses, RecordSample};
pub use fields::Fields;
pub(crate) use fields::has_records;
use fields::{FieldSet, ScriptField};

/// The printed parts of one event's samples.
#[derive(Debug)]
struct Shape {
    set: FieldSet,
    chain: bool,
    /// Whether chains exclude the kernel, or user code. Then perf does not print the sampled frame if it is excluded.
    no_kernel: bool,
    no_user: bool,
    way: AddressForm,
    name: String,
    /// The registers in an interrupt's state.
    regs_intr: u64,
    is_trace: bool,
    /// Whether a sample has a data address that a function name may be printed for.
    names_addr: bool,
}

/// The form of a frame's address, as in perf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum AddressForm {
    /// As sampled.
    #[default]
    Sampled,
    /// Inside its file: for call chains.
    InFile,
    /// The same for chains unwound from a stack copy. The address is the call instruction, not the return address.
    Call,
}

/// Options of the printed lines.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ScriptOptions {
    #[arg(skip)]
    pub(crate) nanoseconds: bool,
    /// Print the sampled function only, not the call chain
    #[arg(short = 'G', long = "hide-call-graph")]
    hide_chains: bool,
    /// Print at most FRAMES frames of a call chain
    #[arg(long = "max-stack", value_name = "FRAMES", value_parser = quantity::count::<usize>)]
    max_stack: Option<usize>,
    /// End call chains at these functions
    #[arg(long = "stop-bt", value_name = "SYMBOLS", value_delimiter = ',')]
    stop_at: Vec<String>,
    /// Print times relative to the first line
    #[arg(long = "reltime", conflicts_with = "deltatime")]
    reltime: bool,
    /// Print times relative to the previous line
    #[arg(long = "deltatime")]
    deltatime: bool,
    /// Print narrow columns
    #[arg(short = 'L', long = "Latency")]
    narrow: bool,
}

/// The task, CPU and time of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineOwner<'a> {
    pub(crate) comm: &'a str,
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) cpu: u32,
    pub(crate) time: u64,
    /// The type and flags of its record, if known.
    pub(crate) record: Option<(u32, u16)>,
}

pub(crate) struct SamplePrinter<'a> {
    data: Data<'a>,
    shapes: Vec<Arc<Shape>>,
    options: ScriptOptions,
    /// Added to a time, it yields wall-clock time.
    wall: u64,
    /// The origin of printed times.
    base: Option<u64>,
    /// The maximum width of a data source so far.
    memory_width: usize,
    arm: bool,
    /// Text of each frame, by address form, created on first use.
    frames: FxHashMap<(FrameId, AddressForm), (Box<str>, bool)>,
    code: Option<SampledCode>,
}

impl<'a> SamplePrinter<'a> {
    /// Creates a printer; an error names a field that cannot be printed.
    pub(crate) fn new(
        data: Data<'a>,
        core: &IngestState,
        fields: &Fields,
        options: ScriptOptions,
        arch: &str,
    ) -> Result<Self, String> {
        let events = &core.events;
        let widths = events.iter().filter(|e| !e.is_dummy() && !e.is_derived()).map(|e| e.name.chars().count());
        let width = widths.max().unwrap_or(0);
        let shape = |(at, event): (usize, &EventDesc)| {
            let is_first = !events[..at].iter().any(|before| Fields::are_alike(before, event));
            Ok::<_, String>(Arc::new(shape(event, fields.of_event(event, is_first)?, width, options.hide_chains)))
        };
        let shapes = events.iter().enumerate().map(shape).collect::<Result<Vec<_>, _>>()?;
        let wall = core.summary.wall_start(0);
        if wall == 0 && shapes.iter().any(|shape| shape.set.has(ScriptField::Tod)) {
            return Err("tod: the recording does not say what its clock showed at which time of day; \
                        record -k CLOCK_MONOTONIC notes it"
                .to_owned());
        }
        let arm = arch == "aarch64";
        let (frames, code) = (FxHashMap::default(), None);
        Ok(Self { data, shapes, options, wall, base: None, memory_width: 0, arm, frames, code })
    }

    /// Enables code lookups with these options.
    pub(crate) fn with_code(self, options: SymbolOptions) -> Self {
        Self { code: Some(SampledCode::new(options)), ..self }
    }

    /// Returns whether an event does not have any fields to print.
    pub(crate) fn is_silent(&self, event: u16) -> bool {
        self.shapes.get(usize::from(event)).is_none_or(|shape| shape.set == FieldSet::default())
    }

    pub(crate) fn regs_intr(&self, event: u16) -> u64 {
        self.shapes.get(usize::from(event)).map_or(0, |shape| shape.regs_intr)
    }

    pub(crate) fn sample(&mut self, row: &StackSample, mut record: Option<&mut RecordSample<'_>>, out: &mut String) {
        let shape = self.shapes[usize::from(row.event)].clone();
        let site = self.data.profile.sites.all()[row.site as usize];
        let task = &self.data.session.tasks()[site.task.0 as usize];
        let owner = LineOwner {
            comm: &task.comm,
            pid: task.pid,
            tid: task.tid,
            cpu: u32::from(row.cpu),
            time: row.time,
            record: record.as_ref().map(|record| (types::SAMPLE, record.misc)),
        };
        self.begin(&shape, &owner, out);
        // Writing into a string cannot fail.
        if shape.set.has(ScriptField::Period) {
            let _ = write!(out, "{:>10} ", row.period);
        }
        if shape.set.has(ScriptField::Event) {
            let _ = write!(out, "{}: ", shape.name);
        }
        if shape.set.has(ScriptField::Flags) {
            let _ = write!(out, "  {:<21} ", "");
        }
        if shape.is_trace && shape.set.has(ScriptField::Trace) {
            let text = self.data.profile.sites.traces().get(site.trace.0 as usize);
            // Tabs in the kernel's text are kept.
            let parts = text.map_or("", |t| t).split('\t').map(clean);
            out.push_str(&parts.collect::<Vec<_>>().join("\t"));
        }
        if let Some(record) = &mut record {
            record.before_address(&shape, &mut self.memory_width, out);
        }
        if shape.set.has(ScriptField::Ip) {
            self.stack(&shape, site.stack, out);
        }
        if let Some(record) = &mut record {
            record.behind_address(&shape, self.arm, out);
        }
        if let Some(code) = &mut self.code {
            code.instruction(self.data, &shape, site.stack, out);
        }
        if let Some(record) = &mut record {
            record.pages(&shape, out);
        }
        out.push('\n');
        if let Some(code) = self.code.as_mut().filter(|_| shape.set.has(ScriptField::Srccode)) {
            code.source(self.data, task.tid, site.stack, out);
        }
    }

    /// Begins the line of another record, like the lines of an event's samples.
    pub(crate) fn side(&mut self, event: u16, owner: &LineOwner<'_>, out: &mut String) {
        let Some(shape) = self.shapes.get(usize::from(event)).cloned() else { return };
        self.begin(&shape, owner, out);
    }

    fn begin(&mut self, shape: &Shape, owner: &LineOwner<'_>, out: &mut String) {
        let narrow = self.options.narrow;
        let has = |field| shape.set.has(field);
        if has(ScriptField::Comm) {
            let comm = clean(owner.comm);
            let _ = match (narrow, shape.chain && has(ScriptField::Ip)) {
                (true, _) => write!(out, "{:>8} ", comm.chars().take(8).collect::<String>()),
                (false, true) => write!(out, "{comm} "),
                (false, false) => write!(out, "{comm:>16} "),
            };
        }
        let _ = match (has(ScriptField::Pid), has(ScriptField::Tid)) {
            (true, true) => write!(out, "{:>5}/{:<5} ", owner.pid, owner.tid),
            (true, false) => write!(out, "{:>5} ", owner.pid),
            (false, true) => write!(out, "{:>5} ", owner.tid),
            _ => Ok(()),
        };
        if has(ScriptField::Cpu) {
            let _ = if narrow { write!(out, "{:>3} ", owner.cpu) } else { write!(out, "[{:03}] ", owner.cpu) };
        }
        if let Some((kind, flags)) = owner.record.filter(|_| has(ScriptField::Misc)) {
            let _ = write!(out, "{:<6}", letters(kind, flags));
        }
        if has(ScriptField::Tod) {
            let _ = write!(out, "{} ", time_of_day(self.wall.wrapping_add(owner.time)));
        }
        if has(ScriptField::Time) {
            self.time(owner.time, out);
        }
    }

    fn time(&mut self, time: u64, out: &mut String) {
        let base = self.base.get_or_insert(time);
        let shown = match (self.options.reltime, self.options.deltatime) {
            (true, _) => time.wrapping_sub(*base),
            (_, true) => time.wrapping_sub(std::mem::replace(base, time)),
            _ => time,
        };
        let (s, ns) = (shown / 1_000_000_000, shown % 1_000_000_000);
        let _ = if self.options.nanoseconds {
            write!(out, "{s:>5}.{ns:09}: ")
        } else {
            write!(out, "{s:>5}.{:06}: ", ns / 1000)
        };
    }

    fn stack(&mut self, shape: &Shape, stack: NodeId, out: &mut String) {
        if shape.chain {
            out.push('\n');
        }
        let profile = self.data.profile;
        let most = self.options.max_stack.unwrap_or(usize::MAX);
        for (depth, frame) in profile.trie.walk(stack).enumerate().take(most) {
            let data = self.data;
            let is_kernel = || profile.frames.sym(profile.frames.sym_of(frame)).kind.is_kernel();
            if depth == 0 && (shape.no_kernel && is_kernel() || shape.no_user && !is_kernel()) {
                continue;
            }
            let stops = &self.options.stop_at;
            let (text, is_last) = self.frames.entry((frame, shape.way)).or_insert_with(|| {
                let function = &profile.frames.sym(profile.frames.sym_of(frame)).function;
                let is_last = function.as_ref().is_some_and(|name| stops.iter().any(|stop| **stop == **name));
                (frames::describe(data, frame, shape).into(), is_last)
            });
            out.push_str(if shape.chain { "\t" } else { " " });
            out.push_str(text);
            if !shape.chain {
                return;
            }
            out.push('\n');
            if *is_last {
                return;
            }
        }
    }
}

/// Returns the flags of a record as letters: CPU mode, data, exec, switch.
fn letters(kind: u32, flags: u16) -> String {
    // A mode requires all of its bits.
    let modes = [(1, 'K'), (2, 'U'), (3, 'H'), (4, 'G'), (5, 'g')];
    let mut out: String = modes
        .iter()
        .filter(|(mode, _)| flags & misc::CPUMODE_MASK & mode == *mode)
        .map(|(_, letter)| *letter)
        .collect();
    match kind {
        types::MMAP | types::MMAP2 if flags & misc::MMAP_DATA != 0 => out.push('M'),
        types::COMM if flags & misc::COMM_EXEC != 0 => out.push('E'),
        types::SWITCH | types::SWITCH_CPU_WIDE if flags & misc::SWITCH_OUT != 0 => {
            out.push('S');
            out.extend((flags >> 14 & 1 == 1).then_some('p'));
        }
        _ => {}
    }
    out
}

fn shape(event: &EventDesc, set: FieldSet, width: usize, hide_chains: bool) -> Shape {
    let carries = |bit: u64| event.attr.sample_type & bit != 0;
    // Derived samples have the stacks of their source.
    let has_chain = carries(sample::CALLCHAIN) || event.is_derived() || event.has_raw_off_cpu();
    let chain = has_chain && !hide_chains;
    let way = match chain {
        false => AddressForm::Sampled,
        true if carries(sample::STACK_USER) => AddressForm::Call,
        true => AddressForm::InFile,
    };
    Shape {
        set,
        chain,
        no_kernel: chain && event.attr.has(Flag::ExcludeCallchainKernel),
        no_user: way == AddressForm::InFile && event.attr.has(Flag::ExcludeCallchainUser),
        way,
        name: format!("{:>width$}", clean(&event.name)),
        regs_intr: event.attr.regs_intr,
        is_trace: event.attr.kind == TYPE_TRACEPOINT,
        names_addr: extra::names_addr(&event.attr),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_letters() {
        assert_eq!([1, 2, 3, 4, 5].map(|mode| letters(types::SAMPLE, mode)), ["K", "U", "KUH", "G", "KGg"]);
        assert_eq!(letters(types::COMM, misc::COMM_EXEC), "E");
        assert_eq!(letters(types::MMAP, misc::MMAP_DATA | 2), "UM");
        assert_eq!([1 << 13, 3 << 13].map(|flags| letters(types::SWITCH, flags)), ["S", "Sp"]);
        assert_eq!(letters(types::SAMPLE, 1 << 13), "");
    }
}
