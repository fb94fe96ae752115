//! Assigns the clauses of a capture filter to places in the kernel: the event's attributes, the kernel's tracepoint
//! filter, or a BPF program. Clauses that the kernel cannot evaluate are rejected.

use crate::event::format::Format;
use crate::event::spec::{Capture, LookupPaths};
use crate::event::{Event, trace_filter, tracepoint};
use crate::kernel::cgroup;

use super::program::{self, Offsets};
use super::show::{ShownExpr, for_kernel};
use super::{Atom, Diagnostic, Field, Filter, FilterExpr, KnownFields, Test, TraceField};

/// Where a clause is evaluated, for display.
const BY_KERNEL: &str = "the kernel's filter";
const BY_ATTR: &str = "attributes of the event";
const BY_CPU: &str = "CPUs of the event";
const BY_BPF: &str = "a BPF program";

/// The type of event that a filter is for.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A tracepoint with its fields.
    Tracepoint(Box<Format>),
    /// An event that samples running code.
    Sampling {
        /// Whether a timer takes its samples.
        clock: bool,
    },
}

impl Subject {
    pub(crate) fn of(event: &Event, places: &LookupPaths) -> Result<Self, String> {
        let Some((system, name)) = &event.tracepoint else {
            return Ok(Self::Sampling { clock: event.is_clock() });
        };
        let root = places.tracefs.clone()?;
        let text = tracepoint::format(&root, system, name).ok();
        let format = text.and_then(|text| Format::parse(system, &text, cfg!(target_endian = "big")));
        format
            .map(|f| Self::Tracepoint(Box::new(f)))
            .ok_or_else(|| format!("the fields of {} cannot be read", event.name))
    }

    /// Returns the fields that a filter may use in addition to the common ones.
    pub(crate) fn fields(&self) -> Vec<TraceField> {
        match self {
            Self::Tracepoint(format) => crate::filter::trace_fields(std::iter::once(&**format)),
            Self::Sampling { .. } => Vec::new(),
        }
    }
}

pub(crate) fn set(event: &mut Event, text: Option<&str>, places: &LookupPaths) -> Result<(), Diagnostic> {
    event.filter = match text {
        None => None,
        Some(text) => {
            let subject = Subject::of(event, places).map_err(|why| Diagnostic::new(text, 0, text.len(), why))?;
            Some(place(text, &subject, Offsets::system())?)
        }
    };
    Ok(())
}

/// Assigns the clauses of a filter.
pub fn place(text: &str, subject: &Subject, offsets: &Offsets) -> Result<Capture, Diagnostic> {
    match subject {
        Subject::Tracepoint(format) => of_tracepoint(text, format, &subject.fields()),
        Subject::Sampling { clock } => of_sampling(text, *clock, offsets),
    }
}

/// Creates the capture filter of a tracepoint.
/// Text in the kernel's own syntax is passed through; text in ours is translated.
fn of_tracepoint(text: &str, format: &Format, fields: &[TraceField]) -> Result<Capture, Diagnostic> {
    let capture = |trace: String| Capture {
        text: trace.clone(),
        clauses: vec![(trace.clone(), BY_KERNEL)],
        trace: Some(trace),
        ..Capture::default()
    };
    let as_is = trace_filter::check(text, format);
    let Ok(filter) = Filter::parse_with(text, KnownFields::Kernel(fields)) else { return as_is.map(capture) };
    if let Ok(text) = as_is {
        return Ok(capture(text));
    }
    let words = for_kernel(&filter.expr, &filter.atoms).map_err(|(atom, why)| fault(text, &filter, atom, &why))?;
    let words = words.strip_prefix('(').and_then(|w| w.strip_suffix(')')).filter(|w| balanced(w)).unwrap_or(&words);
    trace_filter::check(words, format).map(capture).map_err(|inner| Diagnostic::new(text, 0, text.len(), inner.line()))
}

/// Returns whether no parenthesis is closed before it is opened.
fn balanced(text: &str) -> bool {
    let mut depth = 0i32;
    text.chars().all(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth >= 0
    })
}

fn of_sampling(text: &str, clock: bool, offsets: &Offsets) -> Result<Capture, Diagnostic> {
    let mut filter = Filter::parse_with(text, KnownFields::Sampling)?;
    let mut out = Capture { text: text.trim().to_owned(), ..Capture::default() };
    let all = match &filter.expr {
        FilterExpr::And(all) => all.clone(),
        one => vec![one.clone()],
    };
    let mut rest = Vec::new();
    for part in all {
        let words = ShownExpr(&part, &filter.atoms).to_string();
        let place = match simple(&part, &filter.atoms) {
            Some((field @ (Field::User | Field::Kernel), yes)) => {
                *(if (field == Field::User) == yes { &mut out.exclude_kernel } else { &mut out.exclude_user }) = true;
                BY_ATTR
            }
            Some((Field::Cpu, true)) if out.cpus.is_none() => {
                out.cpus = cpus(&part, &filter.atoms);
                BY_CPU
            }
            _ => {
                rest.push(part);
                BY_BPF
            }
        };
        out.clauses.push((words, place));
    }
    let is_irqs = |a: &Atom| a.field == Field::IrqsOff;
    if clock && filter.atoms.iter().any(is_irqs) {
        out.note = Some("a timer never samples with interrupts off, because it is an interrupt itself".to_owned());
    }
    resolve_cgroups(&mut filter.atoms);
    if rest.is_empty() {
        return Ok(out);
    }
    let program = program::assemble(&FilterExpr::And(rest), &filter.atoms, offsets);
    out.program = Some(program.map_err(|(atom, why)| fault(text, &filter, atom, &why))?);
    Ok(out)
}

/// Returns a part that is a single atom. `true` if the atom is required, `false` if it is negated.
fn simple(part: &FilterExpr, atoms: &[Atom]) -> Option<(Field, bool)> {
    match part {
        FilterExpr::Atom(i) => Some((atoms[usize::from(*i)].field, true)),
        FilterExpr::Not(inner) => simple(inner, atoms).map(|(field, yes)| (field, !yes)),
        _ => None,
    }
}

fn cpus(part: &FilterExpr, atoms: &[Atom]) -> Option<Vec<u32>> {
    let FilterExpr::Atom(i) = part else { return None };
    let Test::Ranges(ranges) = &atoms[usize::from(*i)].test else { return None };
    let list = ranges.iter().flat_map(|(from, to)| *from..=(*to).min(u16::MAX.into()));
    Some(list.map(|cpu| cpu as u32).collect())
}

/// The kernel knows cgroups by ID: resolves the names that match now.
fn resolve_cgroups(atoms: &mut [Atom]) {
    for atom in atoms.iter_mut().filter(|a| a.field == Field::Cgroup) {
        let ids = cgroup::known()
            .into_iter()
            .filter(|(_, path)| atom.text(path))
            .map(|(id, _)| (id.into(), id.into()))
            .collect();
        atom.test = Test::Ranges(ids);
    }
}

fn fault(text: &str, filter: &Filter, atom: u8, why: &str) -> Diagnostic {
    let name = filter.atoms.get(usize::from(atom)).map_or("", |a| a.field_name()).to_owned();
    let at = text.find(&name).unwrap_or(0);
    Diagnostic::new(text, at, name.len().max(1), format!("{name}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::btf::BtfError;

    fn none() -> Offsets {
        Offsets::of(&Err(BtfError::Absent("no such file".into())), "6.18.0")
    }

    fn sampling(text: &str) -> Result<Capture, Diagnostic> {
        place(text, &Subject::Sampling { clock: true }, &none())
    }

    #[test]
    fn each_clause_goes_to_the_cheapest_place() {
        let c = sampling("user && cpu in 1-2 && pid == 7").expect("placed");
        assert_eq!((c.exclude_kernel, c.exclude_user, c.cpus), (true, false, Some(vec![1, 2])));
        let places: Vec<_> = c.clauses.iter().map(|(text, place)| (text.as_str(), *place)).collect();
        assert_eq!(places, [("user", BY_ATTR), ("cpu in 1-2", BY_CPU), ("pid == 7", BY_BPF)]);
        assert_eq!(c.program.expect("a program").constants, [7, 7]);
        assert_eq!(sampling("!kernel").map(|c| (c.exclude_kernel, c.program)), Ok((true, None)));
        assert!(sampling("user || pid == 1").expect("placed").program.is_some());
        assert!(sampling("irqs_off").expect("placed").note.is_some());
    }

    #[test]
    fn an_events_filter_comes_goes_and_stays_where_the_next_is_wrong() {
        let mut event = Event::cycles();
        let places = LookupPaths { pmus: "/nonexistent".into(), tracefs: Err("none".into()) };
        let mut set = |text| (set(&mut event, text, &places).is_ok(), event.filter.as_ref().map(|c| c.text.clone()));
        assert_eq!(set(Some("user")), (true, Some("user".into())));
        assert_eq!(set(Some("user ==")), (false, Some("user".into())));
        assert_eq!(set(None), (true, None));
    }

    #[test]
    fn what_the_event_itself_leaves_out() {
        let of = |text: &str| sampling(text).map(|c| (c.exclude_user, c.exclude_kernel, c.program.is_some()));
        assert_eq!(of("user"), Ok((false, true, false)));
        assert_eq!(of("!user"), Ok((true, false, false)));
        assert_eq!(of("kernel"), Ok((true, false, false)));
        assert_eq!(of("!(!kernel)"), Ok((true, false, false)));
        assert_eq!(of("kernel && user"), Ok((true, true, false)));
        let cpus = |text: &str| sampling(text).map(|c| (c.cpus, c.program.is_some()));
        assert_eq!(cpus("cpu in 1,3-4"), Ok((Some(vec![1, 3, 4]), false)));
        assert_eq!(cpus("cpu >= 65534"), Ok((Some(vec![65534, 65535]), false)));
        // The event is opened on the CPUs of the first clause; a BPF program evaluates the second one.
        assert_eq!(cpus("cpu in 1-4 && cpu in 3-9"), Ok((Some(vec![1, 2, 3, 4]), true)));
        assert_eq!(cpus("cpu != 3"), Ok((None, true)));
        let notes = |clock| place("irqs_off && user", &Subject::Sampling { clock }, &none()).map(|c| c.note.is_some());
        assert_eq!((notes(true), notes(false)), (Ok(true), Ok(false)));
        assert_eq!(sampling("  user ").expect("placed").text, "user");
        assert_eq!(sampling("user && pid == 1 && tid == 2").expect("placed").program.expect("two").constants.len(), 4);
    }

    #[test]
    fn a_tracepoints_filter_is_the_kernels_or_ours_in_its_words() {
        let text = "name: sched_switch\nID: 1\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\n\tfield:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:char prev_comm[16];\toffset:12;\tsize:16;\tsigned:0;\n\nprint fmt: \"\"\n";
        let format = Format::parse("sched", text, false).expect("parses");
        let subject = Subject::Tracepoint(Box::new(format));
        let of =
            |text: &str| place(text, &subject, &none()).map(|c| (c.text, c.trace, c.clauses)).map_err(|f| f.line());
        let placed = |text: &str| Ok((text.to_owned(), Some(text.to_owned()), vec![(text.to_owned(), BY_KERNEL)]));
        assert_eq!(of("prev_pid == 1"), placed("prev_pid == 1"));
        assert_eq!(of("prev_pid in 1-3"), placed("prev_pid >= 1 && prev_pid <= 3"));
        assert_eq!(of("irqs_off && prev_pid in 1,2"), placed("common_flags & 1 && (prev_pid == 1 || prev_pid == 2)"));
        assert_eq!(
            of("prev_pid in 1-3 && irqs_off || irqs_off"),
            placed("((prev_pid >= 1 && prev_pid <= 3) && common_flags & 1) || common_flags & 1")
        );
        assert!(of("pid == 1").expect_err("processes").contains("tid"));
        assert!(of("nothing == 1").is_err());
        let names: Vec<String> = subject.fields().into_iter().map(|field| field.name).collect();
        assert_eq!(names, ["prev_pid", "prev_comm", "common_pid", "common_flags"]);
        assert!(Subject::Sampling { clock: true }.fields().is_empty());
    }

    #[test]
    fn a_fault_is_at_the_clause_that_cannot_be_placed() {
        let fault = sampling("pid == 1 && stack ~ x")
            .err()
            .or_else(|| sampling("pid == 1 && comm =~ x").err())
            .expect("refused");
        assert_eq!(
            (&fault.text[fault.at..fault.at + fault.len], fault.at > 0),
            (if fault.text.contains("stack") { "stack" } else { "comm" }, true)
        );
        assert!(balanced("a(b)c") && !balanced(")(") && balanced("((") && balanced(""));
    }

    #[test]
    fn filters_of_one_shape_differ_in_their_parameters_only() {
        let program = |text| sampling(text).expect("placed").program.expect("a program");
        let (a, b) = (program("pid == 7 && comm == sh"), program("pid == 8 && comm == bash"));
        assert_eq!(a.instructions, b.instructions);
        assert_ne!(a.constants, b.constants);
        assert_ne!(a.instructions, program("pid == 8 || comm == bash").instructions);
    }

    #[test]
    fn what_cannot_be_decided_is_refused_with_its_reason() {
        for (text, words) in [
            ("stack ~ \"*x*\"", "use a view filter"),
            ("pid == 1 && comm =~ \"x\"", "comm: the kernel compares"),
            ("nr_running >= 2", "does not describe its types"),
            ("prev_pid == 1", "unknown field"),
        ] {
            let fault = sampling(text).expect_err(text).line();
            assert!(fault.contains(words), "{text}: {fault}");
        }
    }
}
