//! The fields of filters: one table for parser, completion, documentation and columns.

use std::sync::Arc;

use crate::event::format::Format;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldType {
    Text,
    Number,
    /// Seconds since the start of the session.
    Seconds,
    /// A number that may be negative or a bit mask.
    Signed,
    Flag,
}

impl FieldType {
    /// Returns the least and the greatest number.
    pub(crate) fn limits(self) -> (i128, i128) {
        match self {
            Self::Signed => (i64::MIN.into(), i64::MAX.into()),
            _ => (0, u64::MAX.into()),
        }
    }
}

/// The owner of a field's value, which determines how often a clause is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldScope {
    /// The task: the value is in the column of the same name.
    Task,
    /// The call chain, or the function at its end.
    Stack,
    /// The individual sample.
    Sample,
    /// The CPU at the time of a sample: only the kernel knows the value.
    Moment,
}

#[derive(Debug)]
pub(crate) struct FieldRow {
    pub(crate) field: Field,
    pub(crate) name: &'static str,
    pub(crate) kind: FieldType,
    scope: FieldScope,
    pub(crate) about: &'static str,
}

macro_rules! fields {
    ($(
        $(#[$about:meta])*
        $LIST:ident { $($Key:ident = ($name:literal, $Kind:ident, $Scope:ident, $is:literal);)+ }
    )+) => {
        /// The field that a clause compares.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Field {
            $($(#[doc = $is] $Key,)+)+
            /// A text field of a tracepoint; the atom has its name.
            TraceText,
            /// A number field of a tracepoint.
            TraceNumber,
        }

        $(
            $(#[$about])*
            pub(crate) const $LIST: &[FieldRow] = &[$(FieldRow {
                field: Field::$Key,
                name: $name,
                kind: FieldType::$Kind,
                scope: FieldScope::$Scope,
                about: $is,
            }),+];
        )+
    };
}

fields! {
    /// Fields of view filters.
    FIELDS {
        Comm = ("comm", Text, Task, "name of the thread");
        CommNodigit = ("comm_nodigit", Text, Task, "name of the thread, with each number replaced by `<N>`");
        Program = ("program", Text, Task, "name of its process: that of the first thread");
        Cmdline = ("cmdline", Text, Task, "command line of its process; empty in recordings");
        Pid = ("pid", Number, Task, "process id");
        Tid = ("tid", Number, Task, "thread id");
        Cgroup = ("cgroup", Text, Task, "path of the task's cgroup");
        Container = ("container", Text, Task, "the container by its name, else the unit or the cgroup");
        Pod = ("pod", Text, Task, "the pod of the container");
        Namespace = ("namespace", Text, Task, "the namespace of the pod");
        Image = ("image", Text, Task, "image of the container");
        Cpu = ("cpu", Number, Sample, "CPU that took the sample");
        Dso = ("dso", Text, Stack, "file of the sampled function");
        Lang = ("lang", Text, Stack, "language of the sampled function: python, php, java, js, ruby, perl, native or kernel");
        Sym = ("sym", Text, Stack, "the sampled function");
        Stack = ("stack", Text, Stack, "any function of the call chain");
        Event = ("event", Text, Sample, "event that took the sample");
        Time = ("time", Seconds, Sample, "seconds since the start (also 250ms, 2m)");
        Period = ("period", Number, Sample, "weight of the sample: nanoseconds, or hits");
        Context = ("context", Text, Stack, "task, softirq, irq or idle, by the call chain");
        Softirq = ("softirq", Text, Stack, "vector of the softirq: TIMER, NET_RX, BLOCK, RCU…");
        Host = ("host", Text, Task, "machine, if recordings of several are open");
        User = ("user", Flag, Stack, "sampled in user code");
        Kernel = ("kernel", Flag, Stack, "sampled in the kernel");
        Idle = ("idle", Flag, Stack, "the idle task's idle loop");
    }

    /// Fields of capture filters.
    CAPTURE_FIELDS {
        IrqsOff = ("irqs_off", Flag, Moment, "interrupts are disabled");
        NeedResched = ("need_resched", Flag, Moment, "a reschedule is pending");
        NrRunning = ("nr_running", Number, Moment, "runnable tasks of this CPU");
        Prio = ("prio", Signed, Moment, "the kernel's priority: 0-99 real time, 120 is nice 0");
        Policy = ("policy", Number, Moment, "0 normal, 1 FIFO, 2 round robin, 3 batch, 5 idle, 6 deadline");
    }
}

/// A field of the session's tracepoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceField {
    pub(crate) name: String,
    /// The type in C, for display.
    pub(crate) kind: String,
    pub(crate) text: bool,
    pub(crate) formats: FieldFormats,
}

/// The formats of the tracepoints that have a field, for the kernel's names of its numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldFormats(Vec<Arc<Format>>);

impl Eq for FieldFormats {}

impl PartialEq for FieldFormats {
    fn eq(&self, other: &Self) -> bool {
        let ids = |all: &Self| all.0.iter().map(|format| format.id).collect::<Vec<_>>();
        ids(self) == ids(other)
    }
}

impl TraceField {
    /// Returns the numbers with a name, such as `RCU` of a softirq's vector. It may differ between tracepoints.
    pub(crate) fn numbers_of(&self, name: &str) -> Vec<i64> {
        let mut numbers: Vec<i64> =
            self.formats.0.iter().filter_map(|format| format.number_of(&self.name, name)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

/// The tracepoint fields that a filter may use in addition to [`FIELDS`].
#[derive(Clone, Copy, Debug)]
pub enum KnownFields<'a> {
    /// A view filter over tracepoints with these fields.
    These(&'a [TraceField]),
    /// Not known yet: accepts any name.
    Any,
    /// A capture filter of an event that samples running code.
    Sampling,
    /// A capture filter of a tracepoint with these fields.
    Kernel(&'a [TraceField]),
}

/// Fields by which the kernel filters samples, in addition to [`CAPTURE_FIELDS`].
const SAMPLING: &[Field] =
    &[Field::Pid, Field::Tid, Field::Comm, Field::Cpu, Field::Cgroup, Field::User, Field::Kernel, Field::Idle];
/// Fields by which the kernel filters tracepoints, in addition to their own fields.
const BY_FLAGS: &[Field] =
    &[Field::Tid, Field::Pid, Field::Comm, Field::Cpu, Field::Context, Field::IrqsOff, Field::NeedResched];

/// Returns the own fields of tracepoints. A field that is text in any of them is text.
pub fn trace_fields<'a>(formats: impl Iterator<Item = &'a Format>) -> Vec<TraceField> {
    let mut fields: Vec<TraceField> = Vec::new();
    for format in formats {
        let shared = Arc::new(format.clone());
        // The text of another field is used under that field's name.
        for field in format.fields.iter().filter(|field| !format.tells_beside(field)) {
            let is_text = format.said(&field.name).is_some_and(|said| !said.is_number());
            let known = fields.iter().position(|known| known.name == field.name);
            let known = known.unwrap_or_else(|| {
                let (name, kind) = (field.name.clone(), field.kind.clone());
                fields.push(TraceField { name, kind, ..TraceField::default() });
                fields.len() - 1
            });
            fields[known].text |= is_text;
            fields[known].formats.0.push(shared.clone());
        }
    }
    // Common fields come last.
    fields.sort_by_key(|field| field.name.starts_with("common_"));
    fields
}

impl KnownFields<'_> {
    /// Returns the fields that a filter may use in addition to those of tracepoints.
    pub(crate) fn rows(self) -> impl Iterator<Item = &'static FieldRow> {
        let all = FIELDS.iter().chain(CAPTURE_FIELDS);
        all.filter(move |row| match self {
            KnownFields::These(_) | KnownFields::Any => row.scope != FieldScope::Moment,
            KnownFields::Sampling => SAMPLING.contains(&row.field) || row.scope == FieldScope::Moment,
            KnownFields::Kernel(_) => BY_FLAGS.contains(&row.field),
        })
    }
}

impl Field {
    pub(crate) fn row(self) -> Option<&'static FieldRow> {
        FIELDS.iter().chain(CAPTURE_FIELDS).find(|row| row.field == self)
    }

    pub(crate) fn kind(self) -> FieldType {
        match self {
            Self::TraceText => FieldType::Text,
            Self::TraceNumber => FieldType::Signed,
            _ => self.row().map_or(FieldType::Text, |row| row.kind),
        }
    }

    pub(crate) fn operators(self) -> &'static [&'static str] {
        match self.kind() {
            FieldType::Text => &["==", "!=", "~", "!~", "=~", "in"],
            FieldType::Number | FieldType::Seconds => &["==", "!=", "<", "<=", ">", ">=", "in"],
            FieldType::Signed => &["==", "!=", "<", "<=", ">", ">=", "&", "in"],
            FieldType::Flag => &[],
        }
    }

    fn scope(self) -> FieldScope {
        self.row().map_or(FieldScope::Sample, |row| row.scope)
    }

    /// Returns whether the value belongs to the individual sample. Other values belong to its task or call chain.
    pub(crate) fn per_sample(self) -> bool {
        self.scope() == FieldScope::Sample
    }

    /// Returns whether the value belongs to the sample's task.
    pub fn is_of_task(self) -> bool {
        self.scope() == FieldScope::Task
    }

    pub(crate) fn is_traced(self) -> bool {
        matches!(self, Self::TraceText | Self::TraceNumber)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_lists_all_fields() {
        let page = "src/cli/manual/filter.md";
        let text = std::fs::read_to_string(format!("{}/{page}", env!("CARGO_MANIFEST_DIR"))).expect("a page");
        for row in FIELDS.iter().chain(CAPTURE_FIELDS) {
            assert!(
                text.contains(&format!("`{}`", row.name)),
                "{page} has no line for {}: add it to the table",
                row.name
            );
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
}
