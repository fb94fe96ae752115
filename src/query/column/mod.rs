//! The table of grouping columns. Each has names, display, the value in a sample and the filter field. Used by tables,
//! JSON, CSV, completion and zooms.

pub(crate) mod field_rows;
mod of_reports;
mod row_group;
pub(crate) mod sort_words;
mod value;

use std::sync::Arc;

use parking_lot::RwLock;
use thiserror::Error;

use crate::filter::{Field, equals};
use crate::lang::nearest_hint;
use crate::profile::NodeId;
use crate::session::Task;
use crate::session::containers::Container;

use super::Data;
use field_rows::FieldCombinations;
pub(crate) use of_reports::OF_REPORTS;
pub use row_group::RowGroup;
pub use value::ColumnValue;

/// The input of a column: the task and the CPU of a sample.
#[derive(Clone, Copy)]
pub struct ColumnInput<'a> {
    pub(crate) data: Data<'a>,
    pub(crate) task: &'a Task,
    pub(crate) cpu: u16,
    /// The ID of a tracepoint sample's text.
    pub trace: u32,
    /// The values of tracepoint fields.
    pub values: Option<(&'a FieldCombinations, u16)>,
    /// The sampled stack.
    pub stack: NodeId,
}

/// A column's definition.
pub struct ColumnDef {
    /// The key.
    pub key: ColumnKey,
    /// Accepted names, as in perf's `--sort` (perf-report(1)); ours first.
    pub names: &'static [&'static str],
    pub(crate) title: &'static str,
    /// Whether it is a number, aligned right.
    pub is_number: bool,
    /// The width in cells; 0 for the remaining width.
    pub width: u16,
    /// A description of the grouping.
    pub words: &'static str,
    /// Whether the values differ in another run of the same programs.
    pub of_this_run: bool,
    /// The value in a sample; `None` if it belongs to the function.
    pub value: Option<fn(&ColumnInput<'_>, ColumnKey) -> ColumnValue>,
    /// The filter field with the same values, if there is one.
    pub field: Option<&'static str>,
}

const fn of(
    names: &'static [&'static str],
    title: &'static str,
    value: fn(&ColumnInput<'_>, ColumnKey) -> ColumnValue,
) -> ColumnDef {
    ColumnDef {
        key: ColumnKey::Traced(""),
        names,
        title,
        is_number: false,
        width: 0,
        words: "",
        of_this_run: false,
        value: Some(value),
        field: Some(names[0]),
    }
}

impl ColumnDef {
    const fn number(self, width: u16) -> Self {
        Self { is_number: true, width, ..self }
    }

    const fn wide(self, width: u16) -> Self {
        Self { width, ..self }
    }

    const fn of_this_run(self) -> Self {
        Self { of_this_run: true, ..self }
    }

    const fn of_function(self, field: &'static str) -> Self {
        Self { value: None, field: Some(field), ..self }
    }

    /// Makes it a column of reports, without a filter field.
    const fn of_reports(self, key: ColumnKey) -> Self {
        Self { key, ..self.without_field() }
    }

    const fn without_field(self) -> Self {
        Self { field: None, ..self }
    }

    /// Returns title and filter of a view restricted to one value.
    pub fn only(&self, value: &ColumnValue) -> Option<(String, String)> {
        let field = self.field?;
        let name = if self.key.traced().is_some() { field } else { self.names[0] };
        Some(match value {
            ColumnValue::Id(id) => (format!("{name} {id}"), format!("{field} == {id}")),
            ColumnValue::Number(n) => (format!("{name} {n}"), format!("{field} == {n}")),
            // Function and file names do not need the column's name.
            ColumnValue::Text(text) if self.value.is_none() => (text.to_string(), equals(field, text)),
            ColumnValue::Text(text) => (format!("{name} {text}"), equals(field, text)),
        })
    }
}

/// Returns a thread's name with `<N>` in place of each number, so that a pool of threads has one.
fn pool(comm: &Arc<str>) -> Arc<str> {
    if !comm.bytes().any(|byte| byte.is_ascii_digit()) {
        return comm.clone();
    }
    let mut name = String::with_capacity(comm.len() + 2);
    let mut in_number = false;
    for c in comm.chars() {
        if !c.is_ascii_digit() {
            name.push(c);
        } else if !in_number {
            name.push_str("<N>");
        }
        in_number = c.is_ascii_digit();
    }
    name.into()
}

fn container(of: &ColumnInput<'_>) -> Arc<Container> {
    of.data.session.container(of.task)
}

fn nothing(_: &ColumnInput<'_>, _: ColumnKey) -> ColumnValue {
    ColumnValue::Id(0)
}

macro_rules! columns {
    ($($Key:ident = $entry:expr;)+) => {
        /// A grouping column. Otherwise equal rows are sorted by these values in this order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ColumnKey {
            $(
                /// The column of this name in [`ALL`].
                $Key,
            )+
            /// The innermost caller that matches a pattern.
            Parent,
            /// The source line of the sampled instruction.
            Srcline,
            /// The file of that line.
            Srcfile,
            /// The socket of the CPU.
            Socket,
            /// The code size of the sampled function in bytes.
            SymbolSize,
            /// The mapped bytes of its file.
            DsoSize,
            /// The time slice of a sample; slices have this many nanoseconds.
            Time(u64),
            /// A tracepoint field: of one event, `event.field`, or of any. [`FIELDS`] selects all fields.
            Traced(&'static str),
        }

        /// All columns, in the order of menus.
        pub const ALL: &[ColumnDef] = &[$(ColumnDef { key: ColumnKey::$Key, ..$entry }),+];
    };
}

columns! {
    Host = of(&["host"], "Host", |of, _| ColumnValue::Text(of.data.session.host(of.task))).wide(12);
    Cpu = of(&["cpu"], "CPU", |of, _| ColumnValue::Id(of.cpu.into())).number(4);
    Comm = of(&["comm"], "Comm", |of, _| ColumnValue::Text(of.task.comm.clone())).wide(15);
    CommNodigit = of(&["comm_nodigit"], "Pool", |of, _| ColumnValue::Text(pool(&of.task.comm))).wide(15);
    Program = of(&["program"], "Program", |of, _| ColumnValue::Text(of.task.program.clone())).wide(15);
    Cmdline = of(&["cmdline"], "Command line", |of, _| ColumnValue::Text(of.task.cmdline.clone())).wide(28).of_this_run();
    Pid = of(&["pid", "tgid"], "PID", |of, _| ColumnValue::Id(of.task.pid)).number(7).of_this_run();
    Tid = of(&["tid"], "TID", |of, _| ColumnValue::Id(of.task.tid)).number(7).of_this_run();
    Cgroup = of(&["cgroup"], "Cgroup", |of, _| ColumnValue::Text(of.data.session.cgroup(of.task))).wide(24);
    Container = of(&["container"], "Container", |of, _| ColumnValue::Text(container(of).name.clone())).wide(20);
    Pod = of(&["pod"], "Pod", |of, _| ColumnValue::Text(container(of).pod.clone())).wide(20);
    Namespace = of(&["namespace"], "Namespace", |of, _| ColumnValue::Text(container(of).namespace.clone())).wide(12);
    Image = of(&["image"], "Image", |of, _| ColumnValue::Text(container(of).image.clone())).wide(24);
    Trace = of(&["trace"], "Trace output", |of, _| ColumnValue::Text(of.data.trace(of.trace))).wide(40).without_field();
    Lang = of(&["lang"], "Lang", |of, _| ColumnValue::Text(language(of).into())).wide(7);
    Dso = of(&["dso"], "DSO", nothing).wide(18).of_function("dso");
    Sym = of(&["sym", "symbol"], "Symbol", nothing).of_function("stack");
}

/// Returns the language of a stack's last frame; empty without frames.
fn language(of: &ColumnInput<'_>) -> &'static str {
    let (profile, stack) = (of.data.profile, of.data.stack(of.stack));
    let frame = (stack != NodeId::ROOT).then(|| profile.trie.frame(stack));
    frame.map_or("", |frame| profile.frames.sym(profile.frames.sym_of(frame)).kind.language())
}

/// The field of samples with the number of running threads of their process.
pub(crate) const PARALLELISM: &str = "parallelism";

/// Stands for all fields of a tracepoint (perf-report(1), --sort).
pub(crate) const FIELDS: &str = "trace_fields";

pub(crate) fn of_field(field: Field) -> Option<&'static ColumnDef> {
    let name = field.row()?.name;
    ALL.iter().find(|entry| entry.field == Some(name))
}

/// The requested tracepoint field columns; never freed, like all other columns.
static TRACED: RwLock<Vec<&'static ColumnDef>> = RwLock::new(Vec::new());

/// Returns the column of a tracepoint field. The name is that of one event's field, `event.field`, or of any event's.
pub fn traced(name: &str) -> ColumnKey {
    let known = |list: &[&'static ColumnDef]| list.iter().find(|entry| entry.names[0] == name).map(|entry| entry.key);
    if let Some(key) = known(&TRACED.read()) {
        return key;
    }
    let mut list = TRACED.write();
    if let Some(key) = known(&list) {
        return key;
    }
    let name: &'static str = Box::leak(name.into());
    let field = name.rsplit('.').next().unwrap_or(name);
    let value = |of: &ColumnInput<'_>, key: ColumnKey| {
        let value = of.values.zip(key.traced()).map(|((traced, number), name)| traced.value(number, name));
        value.unwrap_or_else(|| ColumnValue::Text("".into()))
    };
    let names: &'static [&'static str] = Box::leak(Box::new([name]));
    let words: &'static str = Box::leak(format!("by {field}").into());
    let is_parallelism = field == PARALLELISM;
    let entry = ColumnDef {
        words,
        names,
        title: if is_parallelism { "Parallelism" } else { field },
        field: Some(field),
        key: ColumnKey::Traced(name),
        ..of(&[""], "", value)
    };
    list.push(Box::leak(Box::new(if is_parallelism { entry.number(11) } else { entry.wide(20) })));
    ColumnKey::Traced(name)
}

impl ColumnKey {
    /// Returns whether it depends on the CPU of a sample. Without such a column, samples of all CPUs are added up.
    pub(crate) fn is_of_cpu(self) -> bool {
        matches!(self, Self::Cpu | Self::Socket)
    }

    /// Returns whether it depends on the line of the sampled instruction.
    pub(crate) fn is_of_line(self) -> bool {
        matches!(self, Self::Srcline | Self::Srcfile)
    }

    /// Returns whether it depends only on the sampled frame, not on its callers.
    pub(crate) fn is_of_leaf(self) -> bool {
        self.is_of_line() || matches!(self, Self::Lang | Self::SymbolSize | Self::DsoSize)
    }

    /// Returns the name of a tracepoint field, if it is one.
    pub fn traced(self) -> Option<&'static str> {
        match self {
            Self::Traced(name) => Some(name),
            _ => None,
        }
    }

    pub(crate) fn entry(self) -> &'static ColumnDef {
        if let Self::Traced(name) = self {
            let list = TRACED.read();
            return list.iter().find(|entry| entry.names[0] == name).copied().unwrap_or(&ALL[0]);
        }
        let is_it = |entry: &&ColumnDef| match self {
            Self::Time(_) => matches!(entry.key, Self::Time(_)),
            _ => entry.key == self,
        };
        if let Some(entry) = OF_REPORTS.iter().find(is_it) {
            return entry;
        }
        ALL.iter().find(|entry| entry.key == self).unwrap_or(&ALL[0])
    }

    pub(crate) fn name(self) -> &'static str {
        self.entry().names[0]
    }

    pub(crate) fn title(self) -> &'static str {
        self.entry().title
    }

    /// Parses `comm,dso,sym` and `event.field` (perf-report(1), dynamic sort keys). Fails with the first unknown word.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, UnknownKey> {
        let is_name = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let one = |word: &str| {
            let found = ALL.iter().find(|entry| entry.names.contains(&word)).map(|entry| entry.key);
            // Other tools' events may have other characters in their names.
            let is_event = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic());
            let of_event = || word.rsplit_once('.').filter(|(event, field)| is_event(event) && is_name(field));
            found.or_else(|| of_event().map(|_| traced(word))).ok_or_else(|| UnknownKey(word.to_owned()))
        };
        let mut keys =
            text.split(',').map(str::trim).filter(|w| !w.is_empty()).map(one).collect::<Result<Vec<_>, _>>()?;
        let mut seen = hashbrown::HashSet::new();
        keys.retain(|k| seen.insert(*k));
        if keys.is_empty() { Err(UnknownKey(text.to_owned())) } else { Ok(keys) }
    }
}

/// An unknown column name; lists the known ones.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("unknown sort key {0}; available: {names}, and EVENT.FIELD of a tracepoint{hint}", names = key_names().collect::<Vec<_>>().join(", "), hint = nearest_hint(.0, key_names()))]
pub struct UnknownKey(String);

fn key_names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|entry| entry.names[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FIELDS;

    /// A column's field restricts a view to one value, unless the column is `without_field()`.
    #[test]
    fn the_filter_language_has_the_fields_of_columns() {
        for field in ALL.iter().filter_map(|entry| entry.field) {
            assert!(FIELDS.iter().any(|row| row.name == field), "{field}");
        }
    }

    #[test]
    fn threads_of_a_pool_have_one_name() {
        let of = |comm: &str| pool(&comm.into()).to_string();
        assert_eq!(
            [of("worker-12"), of("kworker/1:2-mm"), of("7"), of("nginx")],
            ["worker-<N>", "kworker/<N>:<N>-mm", "<N>", "nginx"]
        );
    }

    #[test]
    fn keys_in_perf_spelling() {
        assert_eq!(ColumnKey::parse_list("comm, symbol,comm"), Ok(vec![ColumnKey::Comm, ColumnKey::Sym]));
        assert_eq!(ColumnKey::parse_list("comm,nope"), Err(UnknownKey("nope".to_owned())));
        assert_eq!(ColumnKey::parse_list(""), Err(UnknownKey(String::new())));
        let field = ColumnKey::parse_list("sched_switch.next_comm").expect("a field")[0];
        assert_eq!(
            (field, field.name(), field.title()),
            (traced("sched_switch.next_comm"), "sched_switch.next_comm", "next_comm")
        );
        assert_eq!(
            field.entry().only(&ColumnValue::Number(-7)).map(|(_, filter)| filter).as_deref(),
            Some("next_comm == -7")
        );
        assert_eq!(ColumnKey::parse_list("jdk.CPU-time.path"), Ok(vec![traced("jdk.CPU-time.path")]));
        assert_eq!(ColumnKey::parse_list("sched_switch."), Err(UnknownKey("sched_switch.".to_owned())));
        for entry in ALL {
            let names = entry.names.iter().map(|name| ColumnKey::parse_list(name));
            assert!(names.eq(entry.names.iter().map(|_| Ok(vec![entry.key]))), "{:?}", entry.names);
        }
    }

    #[test]
    fn fields_of_tasks_have_columns() {
        let of_task: Vec<_> = FIELDS.iter().filter(|row| row.field.is_of_task()).collect();
        assert!(of_task.len() > 5);
        for row in of_task {
            assert!(of_field(row.field).is_some_and(|column| column.value.is_some()), "{} has no column", row.name);
        }
    }
}
