//! Samples as text in perf script's default layout (perf-script(1)): a line with who, when and what,
//! then the call chain, leaf first, then an empty line.

use std::io::{self, Write};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::filter::Filter;
use crate::kernel::attr::{Flag, SW_DUMMY, TYPE_SOFTWARE, TYPE_TRACEPOINT, sample};
use crate::panel::text::clean;
use crate::perfdata::EventDesc;
use crate::profile::frames::SymState;
use crate::profile::{FrameId, SymId};
use crate::query::Data;
use crate::query::symbol_stacks::{StackSample, samples};
use crate::session::DsoKind;

/// The fields that are printed; `None` leaves one to the event's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// `-F a,b`: only these.
    only: Option<Vec<&'static str>>,
    plus: Vec<&'static str>,
    minus: Vec<&'static str>,
}

impl Fields {
    pub(crate) const NAMES: &[&str] =
        &["comm", "pid", "tid", "cpu", "time", "period", "event", "trace", "ip", "sym", "symoff", "dso", "srcline"];

    /// Reads `a,b` or `+a,-b`; the error is the word that is no field.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut fields = Self::default();
        for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let bare = word.trim_start_matches(['+', '-']);
            let name = *Self::NAMES.iter().find(|n| **n == bare).ok_or_else(|| word.to_owned())?;
            match word.as_bytes()[0] {
                b'+' => fields.plus.push(name),
                b'-' => fields.minus.push(name),
                _ => fields.only.get_or_insert_default().push(name),
            }
        }
        Ok(fields)
    }

    /// True if source lines are among them.
    pub(crate) fn wants_lines(&self) -> bool {
        self.has("srcline", false)
    }

    fn has(&self, name: &str, default: bool) -> bool {
        if self.minus.contains(&name) {
            return false;
        }
        self.plus.contains(&name) || self.only.as_ref().map_or(default, |only| only.contains(&name))
    }
}

/// The parts that are printed of one event's samples.
#[derive(Clone, Debug, Default)]
struct Shape {
    comm: bool,
    pid: bool,
    tid: bool,
    cpu: bool,
    time: bool,
    period: bool,
    event: bool,
    trace: bool,
    ip: bool,
    sym: bool,
    offset: bool,
    dso: bool,
    srcline: bool,
    chain: bool,
    /// Whether chains leave the kernel, or the user's code, out: then perf prints no frame for a sample that was there.
    no_kernel: bool,
    no_user: bool,
    way: AddressForm,
    name: String,
}

/// The form of a frame's address, as perf has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum AddressForm {
    /// As it was sampled.
    #[default]
    Sampled,
    /// Inside its file: of chains.
    InFile,
    /// The same, where a chain was made from a copy of the stack: the call itself, not where it returns to.
    Call,
}

/// Prints samples.
pub struct Printer<'a> {
    data: Data<'a>,
    shapes: Vec<Shape>,
    nanoseconds: bool,
    /// Text of each frame, by how an event has it, made when it is first met.
    frames: FxHashMap<(FrameId, AddressForm), Box<str>>,
}

impl<'a> Printer<'a> {
    pub(crate) fn new(data: Data<'a>, events: &[EventDesc], fields: Fields, nanoseconds: bool) -> Self {
        let dummy = |e: &EventDesc| e.attr.kind == TYPE_SOFTWARE && e.attr.config == SW_DUMMY;
        let width = events.iter().filter(|e| !dummy(e)).map(|e| e.name.chars().count()).max().unwrap_or(0);
        let shapes = events.iter().map(|event| shape(event, &fields, width)).collect();
        Self { data, shapes, nanoseconds, frames: FxHashMap::default() }
    }

    /// Prints the samples of some events that pass.
    pub(crate) fn print(
        &mut self,
        filter: Option<Arc<Filter>>,
        events: &[usize],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut result = Ok(());
        let mut line = String::new();
        samples(self.data, filter, |row| {
            if result.is_ok() && events.contains(&usize::from(row.event)) {
                line.clear();
                self.one(&row, &mut line);
                result = out.write_all(line.as_bytes());
            }
        });
        result?;
        out.flush()
    }

    fn one(&mut self, row: &StackSample, out: &mut String) {
        use std::fmt::Write;
        let shape = std::mem::take(&mut self.shapes[usize::from(row.event)]);
        let site = self.data.profile.sites.all()[row.site as usize];
        let task = &self.data.session.tasks()[site.task.0 as usize];
        // Writing into a string cannot fail.
        let _ = (|| -> std::fmt::Result {
            if shape.comm {
                let comm = clean(&task.comm);
                if shape.chain { write!(out, "{comm} ")? } else { write!(out, "{comm:>16} ")? }
            }
            match (shape.pid, shape.tid) {
                (true, true) => write!(out, "{:>7}/{:<7} ", task.pid, task.tid)?,
                (true, false) => write!(out, "{:>7} ", task.pid)?,
                (false, true) => write!(out, "{:>5} ", task.tid)?,
                _ => {}
            }
            if shape.cpu {
                write!(out, "[{:03}] ", row.cpu)?;
            }
            if shape.time {
                let (s, ns) = (row.time / 1_000_000_000, row.time % 1_000_000_000);
                if self.nanoseconds {
                    write!(out, "{s:>5}.{ns:09}: ")?
                } else {
                    write!(out, "{s:>5}.{:06}: ", ns / 1000)?
                }
            }
            if shape.period {
                write!(out, "{:>10} ", row.period)?;
            }
            if shape.event {
                write!(out, "{}: ", shape.name)?;
            }
            if shape.trace {
                let text = self.data.profile.sites.traces().get(site.trace.0 as usize);
                // A tab of the kernel's own stays one.
                let parts = text.map_or("", |t| t).split('\t').map(clean);
                out.push_str(&parts.collect::<Vec<_>>().join("\t"));
            }
            Ok(())
        })();
        if shape.ip {
            self.stack(&shape, site.stack, out);
        }
        out.push('\n');
        self.shapes[usize::from(row.event)] = shape;
    }

    fn stack(&mut self, shape: &Shape, stack: crate::profile::NodeId, out: &mut String) {
        if shape.chain {
            out.push('\n');
        }
        let profile = self.data.profile;
        for (depth, frame) in profile.trie.walk(stack).enumerate() {
            let data = self.data;
            let is_kernel = || profile.frames.sym(profile.frames.sym_of(frame)).kind.is_kernel();
            if depth == 0 && (shape.no_kernel && is_kernel() || shape.no_user && !is_kernel()) {
                continue;
            }
            let way = shape.way;
            let text = self.frames.entry((frame, way)).or_insert_with(|| describe(data, frame, shape).into());
            out.push_str(if shape.chain { "\t" } else { " " });
            out.push_str(text);
            if !shape.chain {
                return;
            }
            out.push('\n');
        }
    }
}

fn shape(event: &EventDesc, fields: &Fields, width: usize) -> Shape {
    let carries = |bit: u64| event.attr.sample_type & bit != 0;
    let is_trace = event.attr.kind == TYPE_TRACEPOINT;
    let chain = carries(sample::CALLCHAIN);
    let has = |name: &str, default: bool| fields.has(name, default);
    let ip = has("ip", chain || !is_trace);
    let way = match chain {
        false => AddressForm::Sampled,
        true if carries(sample::STACK_USER) => AddressForm::Call,
        true => AddressForm::InFile,
    };
    Shape {
        comm: has("comm", true),
        pid: has("pid", false),
        tid: has("tid", true),
        cpu: has("cpu", true) && carries(sample::CPU),
        time: has("time", true) && carries(sample::TIME),
        period: has("period", !is_trace),
        event: has("event", true),
        trace: has("trace", true) && is_trace,
        ip,
        sym: has("sym", true),
        offset: has("symoff", true),
        dso: has("dso", true),
        srcline: has("srcline", false),
        chain,
        no_kernel: chain && event.attr.has(Flag::ExcludeCallchainKernel),
        no_user: way == AddressForm::InFile && event.attr.has(Flag::ExcludeCallchainUser),
        way,
        name: format!("{:>width$}", clean(&event.name)),
    }
}

/// The frame of which perf's unwinder finds no address, where the copied stack ends.
const CUT: &str = "ffffffffffffffff [unknown] ([unknown])";

/// `ip sym+0xoff (dso)`: the address is the sampled one for single samples, and inside the file for
/// call chains, as perf has it.
fn describe(data: Data<'_>, frame: FrameId, shape: &Shape) -> String {
    let one = data.profile.frames.get(frame);
    let map = data.session.dsos.map_of(one.map);
    let sym = data.profile.frames.sym(data.profile.frames.sym_of(frame));
    let dso = data.session.dsos.get(sym.dso);
    if sym.kind == DsoKind::Cut {
        return CUT.to_owned();
    }
    let is_file = matches!(sym.kind, DsoKind::File | DsoKind::Vdso);
    let ip = one.ip.wrapping_sub(u64::from(shape.way == AddressForm::Call && one.caller && !sym.kind.is_kernel()));
    let at = map.to_dso(ip);
    let shown = if shape.way != AddressForm::Sampled && is_file { at } else { ip };
    // Of BPF programs the record that told of them has the bounds.
    let start = if sym.kind == DsoKind::Bpf { map.start } else { sym.start };
    let mut out = String::new();
    for sym in data.profile.frames.inlined(frame.0).iter().rev().filter(|_| shape.sym) {
        let name = data.profile.frames.sym(SymId(*sym)).name();
        out.push_str(&format!("{shown:16x} {}\n\t", clean(&name)));
    }
    out.push_str(&format!("{shown:16x}"));
    if shape.sym {
        out.push(' ');
        match sym.function.as_ref().filter(|_| sym.state != SymState::Bounded) {
            Some(name) => {
                out.push_str(&clean(name));
                if shape.offset {
                    out.push_str(&format!("+{:#x}", at.wrapping_sub(start)));
                }
            }
            None => out.push_str("[unknown]"),
        }
    }
    if shape.dso {
        // Of modules perf prints what `lsmod` says.
        let path = if sym.kind == DsoKind::Module { &dso.short } else { &dso.path };
        out.push_str(&format!(" ({})", clean(path)));
    }
    if let Some(line) = data.profile.frames.line(frame).filter(|_| shape.srcline) {
        out.push_str(&format!("\n\t  {}", clean(&line.short())));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_chosen_as_perf_does() {
        let f = Fields::parse("comm,tid").expect("fields");
        assert!(f.has("comm", true) && !f.has("time", true));
        let f = Fields::parse("+pid,-time").expect("fields");
        assert!(f.has("pid", false) && !f.has("time", true) && f.has("comm", true));
        assert_eq!(Fields::parse("comm,bogus"), Err("bogus".into()));
    }
}
