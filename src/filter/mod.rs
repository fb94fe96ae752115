//! The filter language: `comm == "nginx" && cpu in 0-3,32 && stack ~ "*tcp_*" && !idle`.
//!
//! A filter is a boolean expression over numbered atoms. Whoever holds the data decides each atom
//! in its own way (a name once, a process once) and hands the bits to [`Filter::eval`].

pub mod capture;
pub(crate) mod complete;
pub(crate) mod expr;
pub(crate) mod parse;
pub mod program;
pub(crate) mod show;

use globset::GlobMatcher;
use regex::Regex;

use crate::event::format::Format;

pub use crate::lang::Diagnostic;
pub use complete::{ExpectedToken, expected};

/// The field that a clause looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// The machine, where recordings of several are together.
    Host,
    /// The name of the thread.
    Comm,
    /// The process.
    Pid,
    /// The thread.
    Tid,
    /// The CPU that took the sample.
    Cpu,
    /// The file of the sampled function.
    Dso,
    /// The sampled function.
    Sym,
    /// Any function of the call chain.
    Stack,
    /// The event that took the sample.
    Event,
    /// When it was taken, in seconds from the session's start.
    Time,
    /// What the sample stands for: nanoseconds, or hits.
    Period,
    /// What the CPU did by the call chain: `task`, `softirq`, `irq` or `idle`.
    Context,
    /// The vector of the softirq that the sample is in.
    Softirq,
    /// True in user code.
    User,
    /// True in the kernel.
    Kernel,
    /// True in the idle task's loop.
    Idle,
    /// A text among a tracepoint's own fields; the atom has its name.
    TraceText,
    /// A number among them.
    TraceNumber,
    /// The path of the task's cgroup.
    Cgroup,
    /// The name of the task's container, else of its unit or cgroup.
    Container,
    /// The pod of the container.
    Pod,
    /// The namespace of the pod.
    Namespace,
    /// The image that the container was made of.
    Image,
    /// The name of the process: that of its first thread.
    Program,
    /// True while interrupts are disabled; of capture filters only, as all below.
    IrqsOff,
    /// True while another task is to run soon.
    NeedResched,
    /// The runnable tasks of the CPU.
    NrRunning,
    /// The kernel's priority: 0 to 99 real time, 120 for nice 0.
    Prio,
    /// The number of the scheduling policy (sched(7)).
    Policy,
}

/// The kind of values that a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldType {
    Text,
    Number,
    /// Seconds since the start of the session.
    Seconds,
    /// A number that may be below zero, or be taken as bits.
    Signed,
    Flag,
}

/// A field of the session's tracepoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceField {
    pub(crate) name: String,
    /// As in C, for the user.
    pub(crate) kind: String,
    pub(crate) text: bool,
}

/// The tracepoint fields that may stand in a filter beside [`FIELDS`].
#[derive(Clone, Copy, Debug)]
pub enum KnownFields<'a> {
    /// A view filter over tracepoints with these fields.
    These(&'a [TraceField]),
    /// It is not known yet: any name will do.
    Any,
    /// A capture filter of an event that samples what runs.
    Sampling,
    /// A capture filter of a tracepoint with these.
    Kernel(&'a [TraceField]),
}

/// True if views can be filtered by a field of this name, whatever the tracepoints are.
pub(crate) const fn has_field(name: &str) -> bool {
    let (name, mut row) = (name.as_bytes(), 0);
    while row < FIELDS.len() {
        let (field, mut same) = (FIELDS[row].1.as_bytes(), 0);
        while same < name.len() && same < field.len() && name[same] == field[same] {
            same += 1;
        }
        if same == name.len() && same == field.len() {
            return true;
        }
        row += 1;
    }
    false
}

/// One row for each field: the table behind parser, completion and documentation.
pub(crate) const FIELDS: &[(Field, &str, FieldType, &str)] = &[
    (Field::Comm, "comm", FieldType::Text, "name of the thread"),
    (Field::Program, "program", FieldType::Text, "name of its process: that of the first thread"),
    (Field::Pid, "pid", FieldType::Number, "process id"),
    (Field::Tid, "tid", FieldType::Number, "thread id"),
    (Field::Cgroup, "cgroup", FieldType::Text, "path of the task's cgroup"),
    (Field::Container, "container", FieldType::Text, "the container by its name, else the unit or the cgroup"),
    (Field::Pod, "pod", FieldType::Text, "the pod of the container"),
    (Field::Namespace, "namespace", FieldType::Text, "the namespace of the pod"),
    (Field::Image, "image", FieldType::Text, "what the container was made of"),
    (Field::Cpu, "cpu", FieldType::Number, "CPU that took the sample"),
    (Field::Dso, "dso", FieldType::Text, "file of the sampled function"),
    (Field::Sym, "sym", FieldType::Text, "the sampled function"),
    (Field::Stack, "stack", FieldType::Text, "any function of the call chain"),
    (Field::Event, "event", FieldType::Text, "event that took the sample"),
    (Field::Time, "time", FieldType::Seconds, "seconds since the start (also 250ms, 2m)"),
    (Field::Period, "period", FieldType::Number, "what the sample stands for: nanoseconds, or hits"),
    (Field::Context, "context", FieldType::Text, "task, softirq, irq or idle, by the call chain"),
    (Field::Softirq, "softirq", FieldType::Text, "vector of the softirq: TIMER, NET_RX, BLOCK, RCU…"),
    (Field::Host, "host", FieldType::Text, "machine, where recordings of several are together"),
    (Field::User, "user", FieldType::Flag, "sampled in user code"),
    (Field::Kernel, "kernel", FieldType::Flag, "sampled in the kernel"),
    (Field::Idle, "idle", FieldType::Flag, "the idle task's idle loop"),
];

/// Fields of capture filters: only the kernel knows them, at the moment of a sample.
pub(crate) const CAPTURE_FIELDS: &[(Field, &str, FieldType, &str)] = &[
    (Field::IrqsOff, "irqs_off", FieldType::Flag, "interrupts are disabled"),
    (Field::NeedResched, "need_resched", FieldType::Flag, "another task is to run soon"),
    (Field::NrRunning, "nr_running", FieldType::Number, "runnable tasks of this CPU"),
    (Field::Prio, "prio", FieldType::Signed, "the kernel's priority: 0-99 real time, 120 is nice 0"),
    (Field::Policy, "policy", FieldType::Number, "0 normal, 1 FIFO, 2 round robin, 3 batch, 5 idle, 6 deadline"),
];

/// Fields by which the kernel filters samples of events, beside [`CAPTURE_FIELDS`].
const SAMPLING: &[Field] =
    &[Field::Pid, Field::Tid, Field::Comm, Field::Cpu, Field::Cgroup, Field::User, Field::Kernel, Field::Idle];
/// Fields by which the kernel filters tracepoints, beside their own fields.
const BY_FLAGS: &[Field] =
    &[Field::Tid, Field::Pid, Field::Comm, Field::Cpu, Field::Context, Field::IrqsOff, Field::NeedResched];

/// A row of [`FIELDS`].
pub(crate) type FieldRow = (Field, &'static str, FieldType, &'static str);

/// The own fields of some tracepoints. One that is a text in any of them is a text.
pub fn trace_fields<'a>(formats: impl Iterator<Item = &'a Format>) -> Vec<TraceField> {
    let mut fields: Vec<TraceField> = Vec::new();
    for format in formats {
        // What is told beside another goes by that one's name.
        for field in format.fields.iter().filter(|field| !format.tells_beside(field)) {
            let is_text = format.said(&field.name).is_some_and(|said| !said.is_number());
            match fields.iter_mut().find(|known| known.name == field.name) {
                Some(known) => known.text |= is_text,
                None => fields.push(TraceField { name: field.name.clone(), kind: field.kind.clone(), text: is_text }),
            }
        }
    }
    // What every tracepoint has comes last.
    fields.sort_by_key(|field| field.name.starts_with("common_"));
    fields
}

impl KnownFields<'_> {
    /// The fields that may stand in a filter beside those of tracepoints.
    pub(crate) fn rows(self) -> impl Iterator<Item = &'static FieldRow> {
        let all = FIELDS.iter().chain(CAPTURE_FIELDS);
        all.filter(move |row| match self {
            KnownFields::These(_) | KnownFields::Any => FIELDS.iter().any(|known| known.0 == row.0),
            KnownFields::Sampling => SAMPLING.contains(&row.0) || CAPTURE_FIELDS.iter().any(|known| known.0 == row.0),
            KnownFields::Kernel(_) => BY_FLAGS.contains(&row.0),
        })
    }
}

impl Field {
    pub(crate) fn kind(self) -> FieldType {
        match self {
            Self::TraceText => FieldType::Text,
            Self::TraceNumber => FieldType::Signed,
            _ => FIELDS.iter().chain(CAPTURE_FIELDS).find(|row| row.0 == self).map_or(FieldType::Text, |row| row.2),
        }
    }

    /// The operators that a field can be compared by.
    pub(crate) fn operators(self) -> &'static [&'static str] {
        match self.kind() {
            FieldType::Text => &["==", "!=", "~", "!~", "=~", "in"],
            FieldType::Number | FieldType::Seconds => &["==", "!=", "<", "<=", ">", ">=", "in"],
            FieldType::Signed => &["==", "!=", "<", "<=", ">", ">=", "&", "in"],
            FieldType::Flag => &[],
        }
    }

    /// True if the value belongs to the single sample, not to its task and call chain.
    pub(crate) fn per_sample(self) -> bool {
        matches!(self, Self::Cpu | Self::Time | Self::Period | Self::Event) || self.is_traced()
    }

    /// True if the value is that of the sample's task.
    pub fn is_of_task(self) -> bool {
        matches!(
            self,
            Self::Comm
                | Self::Program
                | Self::Pid
                | Self::Tid
                | Self::Host
                | Self::Cgroup
                | Self::Container
                | Self::Pod
                | Self::Namespace
                | Self::Image
        )
    }

    /// True if it is one of a tracepoint's own.
    pub(crate) fn is_traced(self) -> bool {
        matches!(self, Self::TraceText | Self::TraceNumber)
    }
}

/// The comparison of a clause.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Equals(Vec<String>),
    Glob(GlobMatcher),
    Regex(Regex),
    /// Inclusive ranges.
    Ranges(Vec<(u64, u64)>),
    Signed(Vec<(i64, i64)>),
    /// Any of these bits.
    Bits(i64),
    Flag,
}

/// One comparison.
#[derive(Clone, Debug)]
pub(crate) struct Atom {
    pub(crate) field: Field,
    /// The name of a tracepoint's own field; empty for others.
    pub(crate) name: String,
    pub(crate) test: Test,
}

impl Atom {
    pub(crate) fn text(&self, value: &str) -> bool {
        match &self.test {
            Test::Equals(values) => values.iter().any(|v| v == value),
            Test::Glob(glob) => glob.is_match(value),
            Test::Regex(regex) => regex.is_match(value),
            _ => false,
        }
    }

    /// True if a number that may be below zero holds.
    pub(crate) fn signed(&self, value: i64) -> bool {
        match &self.test {
            Test::Signed(ranges) => ranges.iter().any(|(from, to)| (*from..=*to).contains(&value)),
            Test::Bits(bits) => value & bits != 0,
            _ => false,
        }
    }

    pub(crate) fn number(&self, value: u64) -> bool {
        matches!(&self.test, Test::Ranges(ranges) if ranges.iter().any(|(from, to)| (*from..=*to).contains(&value)))
    }
}

/// A clause that a field equals a text, whatever quotes the text has.
pub(crate) fn equals(field: &str, value: &str) -> String {
    if !value.contains('"') {
        format!("{field} == \"{value}\"")
    } else if !value.contains('\'') {
        format!("{field} == '{value}'")
    } else {
        format!("{field} ~ \"{}\"", value.replace('"', "?"))
    }
}

/// The expression over atoms, by their index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expr {
    Atom(u8),
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
}

/// The most clauses that one filter may have: their verdicts are bits of one word.
pub(crate) const MAX_ATOMS: usize = 64;

/// A checked filter.
#[derive(Clone, Debug)]
pub struct Filter {
    text: String,
    atoms: Vec<Atom>,
    expr: Expr,
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Filter {
    /// Parses and checks a filter.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        Self::parse_with(text, KnownFields::These(&[]))
    }

    /// Parses a filter that may name fields of tracepoints.
    pub fn parse_with(text: &str, known: KnownFields<'_>) -> Result<Self, Diagnostic> {
        parse::parse(text, known)
    }

    /// The text as it was typed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn atoms(&self) -> &[Atom] {
        &self.atoms
    }

    /// Bits of the atoms that are decided by the single sample.
    pub(crate) fn per_sample_mask(&self) -> u64 {
        self.atoms.iter().enumerate().filter(|(_, a)| a.field.per_sample()).fold(0, |mask, (i, _)| mask | 1 << i)
    }

    /// True if it looks at tracepoints' own fields.
    pub(crate) fn needs_fields(&self) -> bool {
        self.atoms.iter().any(|a| a.field.is_traced())
    }

    /// True if it looks at call chains.
    pub(crate) fn needs_chains(&self) -> bool {
        self.atoms.iter().any(|a| matches!(a.field, Field::Stack | Field::Context | Field::Softirq))
    }

    /// The verdict, from one bit for each atom.
    pub(crate) fn eval(&self, bits: u64) -> bool {
        eval(&self.expr, bits)
    }

    /// The verdict as far as the atoms in `known` decide it.
    pub(crate) fn partial(&self, bits: u64, known: u64) -> Option<bool> {
        partial(&self.expr, bits, known)
    }
}

fn eval(expr: &Expr, bits: u64) -> bool {
    match expr {
        Expr::Atom(i) => bits >> i & 1 == 1,
        Expr::Not(e) => !eval(e, bits),
        Expr::And(all) => all.iter().all(|e| eval(e, bits)),
        Expr::Or(any) => any.iter().any(|e| eval(e, bits)),
    }
}

/// Kleene's three-valued logic.
fn partial(expr: &Expr, bits: u64, known: u64) -> Option<bool> {
    let fold = |list: &[Expr], decisive: bool| {
        let mut open = false;
        for e in list {
            match partial(e, bits, known) {
                Some(v) if v == decisive => return Some(decisive),
                Some(_) => {}
                None => open = true,
            }
        }
        (!open).then_some(!decisive)
    };
    match expr {
        Expr::Atom(i) => (known >> i & 1 == 1).then(|| bits >> i & 1 == 1),
        Expr::Not(e) => partial(e, bits, known).map(|v| !v),
        Expr::And(all) => fold(all, false),
        Expr::Or(any) => fold(any, true),
    }
}

/// Filters with each kind of clause.
#[cfg(test)]
const FILTERS: &[&str] = &[
    "comm == \"nginx\" && cpu in 0-3,32 && stack ~ \"*tcp_*\" && !idle",
    "pid == 1 || pid == 2 && !(user || kernel)",
    "comm in (nginx, 'a b') && sym =~ \"^do_\" && time >= 1.5",
    "prev_comm ~ \"kworker*\" && prev_pid in -3--1,7 || common_flags & 0x14",
    "context == softirq && softirq in TIMER,NET_RX",
    "time < 250ms && host != web && dso !~ '*libc*'",
    "cgroup ~ */system.slice/* || é == 1",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expr() -> impl Strategy<Value = Expr> {
        let leaf = (0u8..6).prop_map(Expr::Atom);
        leaf.prop_recursive(4, 20, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|e| Expr::Not(Box::new(e))),
                proptest::collection::vec(inner.clone(), 1..3).prop_map(Expr::And),
                proptest::collection::vec(inner, 1..3).prop_map(Expr::Or),
            ]
        })
    }

    #[test]
    fn what_a_filter_looks_at() {
        let of = |text: &str| Filter::parse_with(text, KnownFields::Any).expect(text);
        let about = |text: &str| (of(text).needs_chains(), of(text).needs_fields(), of(text).per_sample_mask());
        assert_eq!(about("comm == x && pid == 1"), (false, false, 0));
        assert_eq!(about("comm == x && cpu == 1 || time < 3"), (false, false, 0b110));
        assert_eq!(about("period > 1 && event == x"), (false, false, 0b11));
        assert_eq!(about("prev_pid == 1 || prev_comm == x || user"), (false, true, 0b011));
        for field in ["stack", "context", "softirq"] {
            assert_eq!(about(&format!("{field} == x")), (true, false, 0), "{field}");
        }
        assert!(of("comm == x") == of(" comm == x ") && of("comm == x") != of("comm == y"));
        assert_eq!(of(" pid == 1 ").text(), "pid == 1");
    }

    #[test]
    fn clauses_that_quote_any_text() {
        for text in ["plain", "with \"double\"", "with 'single'", "both \" and '"] {
            let clause = equals("comm", text);
            assert!(Filter::parse(&clause).expect(&clause).atoms()[0].text(text), "{clause}");
            assert!(!Filter::parse(&clause).expect(&clause).atoms()[0].text("other"), "{clause}");
        }
    }

    #[test]
    fn fields_of_several_tracepoints_together() {
        let format = |fields: &str| {
            let text = format!(
                "name: x\nID: 1\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n{fields}\nprint fmt: \"\"\n"
            );
            Format::parse("s", &text, false).expect("parses")
        };
        let a = format(
            "\tfield:int n;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:char t[16];\toffset:12;\tsize:16;\tsigned:0;\n",
        );
        let b = format(
            "\tfield:char n[8];\toffset:8;\tsize:8;\tsigned:0;\n\tfield:char t[16];\toffset:16;\tsize:16;\tsigned:0;\n",
        );
        let list = trace_fields([&a, &b].into_iter());
        let list: Vec<_> = list.iter().map(|field| (field.name.as_str(), field.text)).collect();
        assert_eq!(list, [("n", true), ("t", true), ("common_pid", false)]);
        let list = trace_fields(std::iter::once(&a));
        assert_eq!(list.iter().map(|field| field.text).collect::<Vec<_>>(), [false, true, false]);
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        /// What is decided early is decided rightly.
        #[test]
        fn partial_agrees_with_every_completion(e in expr(), bits in 0u64..64, known in 0u64..64) {
            if let Some(verdict) = partial(&e, bits, known) {
                for rest in 0..64u64 {
                    prop_assert_eq!(eval(&e, bits & known | rest & !known), verdict);
                }
            }
            prop_assert_eq!(partial(&e, bits, u64::MAX), Some(eval(&e, bits)));
        }
    }
}
