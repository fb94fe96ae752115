//! Splits of functions' rows: by task, by place, or by the text of a tracepoint.

use crate::event::base_name;
use crate::filter::equals;
use crate::query::ColumnKey;
use crate::query::answer::EventInfo;
use crate::query::column::traced;
use crate::query::rows::task_choices::TaskSamples;
use crate::query::rows::top_table::TopField;
use crate::session::containers::joined;
use crate::ui::screens::top::columns;
use crate::ui::state::Model;

/// The splits of functions with their columns.
const SPLITS: &[(&str, &[ColumnKey])] = &[
    ("", &[]),
    ("by comm", &[ColumnKey::Comm]),
    ("by process", &[ColumnKey::Comm, ColumnKey::Pid, ColumnKey::Cmdline]),
    ("by process", &[ColumnKey::Comm, ColumnKey::Pid]),
    ("by thread", &[ColumnKey::Comm, ColumnKey::Tid]),
    ("by CPU", &[ColumnKey::Cpu]),
    ("by container", &[ColumnKey::Namespace, ColumnKey::Pod, ColumnKey::Container]),
    ("by container", &[ColumnKey::Container]),
    ("by pod", &[ColumnKey::Namespace, ColumnKey::Pod]),
    ("by cgroup", &[ColumnKey::Cgroup]),
];

/// Columns that some recordings or tasks lack.
const GROUPS: &[ColumnKey] = &[ColumnKey::Cgroup, ColumnKey::Container, ColumnKey::Pod, ColumnKey::Namespace];

/// The columns of rows that are whole processes. A process is one row although its threads may have other names.
const PROCESSES: &[ColumnKey] = &[ColumnKey::Pid, ColumnKey::Program, ColumnKey::Cmdline];

/// One of the kinds of rows that a key cycles through.
#[derive(Clone, Debug)]
pub(crate) struct RowSplit {
    /// The description; empty for functions that are not split.
    pub(crate) words: &'static str,
    pub(crate) keys: Vec<ColumnKey>,
    /// Whether rows have no function: they are whole processes, or texts of a tracepoint.
    pub(crate) is_whole: bool,
}

impl RowSplit {
    fn of_functions((words, keys): &(&'static str, &[ColumnKey])) -> Self {
        Self { words, keys: keys.to_vec(), is_whole: false }
    }

    fn whole(words: &'static str, keys: &[ColumnKey]) -> Self {
        Self { words, keys: keys.to_vec(), is_whole: true }
    }

    pub(crate) fn is_of_processes(&self) -> bool {
        self.is_whole && self.keys.contains(&ColumnKey::Pid)
    }
}

/// Returns the key of a column of tasks or places.
pub(crate) fn split_key(field: &TopField) -> Option<ColumnKey> {
    match field {
        TopField::Key(ColumnKey::Host | ColumnKey::Trace | ColumnKey::Dso | ColumnKey::Sym) => None,
        TopField::Key(key) => Some(*key),
        _ => None,
    }
}

impl Model {
    /// Returns whether each row is a function; rows of programs, threads or files unfold into functions.
    pub(crate) fn rows_are_functions(&self) -> bool {
        columns::subject(self.selection.rows.columns.iter().copied()) == Some(TopField::Key(ColumnKey::Sym))
    }

    /// Describes the split of rows; empty without one.
    pub(crate) fn describe_split(&self) -> &'static str {
        let splits = self.splits();
        self.split_now(&splits).map_or("", |at| splits[at].words)
    }

    /// Describes the next split in a word for the key bar.
    pub(crate) fn next_split(&self) -> &'static str {
        let splits = self.splits();
        let next = self.split_now(&splits).map_or(0, |at| (at + 1) % splits.len());
        match &splits[next] {
            _ if next == 0 => "functions",
            split if split.is_of_processes() => "process",
            split => split.words,
        }
    }

    /// Returns the index of the current columns among the splits.
    pub(crate) fn split_now(&self, splits: &[RowSplit]) -> Option<usize> {
        // The command line column appears only if processes of one name differ.
        let tells = |key: &ColumnKey| *key != ColumnKey::Cmdline;
        let own: Vec<ColumnKey> = self.selection.rows.columns.iter().filter_map(split_key).filter(tells).collect();
        let has_functions = self.selection.rows.columns.contains(&TopField::Key(ColumnKey::Sym));
        splits.iter().position(|split| {
            let keys: Vec<&ColumnKey> = split.keys.iter().filter(|key| tells(key)).collect();
            keys.len() == own.len() && keys.iter().all(|key| own.contains(key)) && !(split.is_whole && has_functions)
        })
    }

    /// Whether several processes of one name have different command lines.
    fn has_processes_alike(&self) -> bool {
        let mut of: hashbrown::HashMap<&str, (i32, &str)> = hashbrown::HashMap::new();
        self.context.answer.view.tasks.iter().any(|task| {
            let text = |key| task.group.text(key).map_or("", |text| &**text);
            let own = (task.group.id(ColumnKey::Pid).unwrap_or(0), text(ColumnKey::Cmdline));
            let first = *of.entry(text(ColumnKey::Program)).or_insert(own);
            first.0 != own.0 && first.1 != own.1
        })
    }

    /// Returns the kinds of rows that a key cycles through, without fields that no sample has: functions, processes,
    /// and functions by task or place. A tracepoint's own texts, without a function, come before whole processes.
    pub(crate) fn splits(&self) -> Vec<RowSplit> {
        let event = self.event();
        // Labels are fields of events by their whole names, which are not those of tracepoints.
        let name_of = |event: &EventInfo| match self.context.info.labels.is_some() {
            true => event.name.clone(),
            false => base_name(&event.name).split_once(':').map_or("", |(_, name)| name).to_owned(),
        };
        let name = event.map(name_of).unwrap_or_default();
        let texts = event.into_iter().flat_map(|event| &event.texts).map(|text| {
            let key = traced(&format!("{name}.{text}"));
            RowSplit::whole(key.entry().words, &[key])
        });
        let mut splits: Vec<RowSplit> = SPLITS.iter().map(RowSplit::of_functions).collect();
        let has = |key: ColumnKey| {
            let has = |whose: &TaskSamples| whose.group.text(key).is_some_and(|text| !text.is_empty());
            self.context.answer.view.tasks.iter().any(has)
        };
        splits.retain(|split| split.keys.iter().all(|key| !GROUPS.contains(key) || has(*key)));
        let are_alike = self.has_processes_alike();
        splits.retain(|split| are_alike || !split.keys.contains(&ColumnKey::Cmdline));
        // With pods, several of them may have a container of the same name.
        splits.dedup_by_key(|split| split.words);
        let processes = RowSplit::whole("processes", &PROCESSES[..if are_alike { 3 } else { 2 }]);
        splits.splice(1..1, texts.chain([processes]));
        splits
    }
}

/// Returns a container's label and filter by namespace, pod and name, if known: a deployment's pods share its name.
pub(crate) fn of_container(parts: &[String; 3]) -> (String, String) {
    let [namespace, pod, name] = parts;
    let clauses = ["namespace", "pod", "container"].into_iter().zip(parts);
    let clauses = clauses.filter(|(field, value)| *field == "container" || !value.is_empty());
    let clauses: Vec<String> = clauses.map(|(field, value)| equals(field, value)).collect();
    (format!("container {}", joined(namespace, pod, name)), clauses.join(" && "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_left_by_all_that_is_known_of_it() {
        let of = |parts: [&str; 3]| of_container(&parts.map(str::to_owned));
        let whole =
            ("container shop/cart-7d9/app", r#"namespace == "shop" && pod == "cart-7d9" && container == "app""#);
        assert_eq!(of(["shop", "cart-7d9", "app"]), (whole.0.to_owned(), whole.1.to_owned()));
        assert_eq!(of(["", "", "app"]), ("container app".to_owned(), r#"container == "app""#.to_owned()));
        assert_eq!(of(["", "", ""]).1, r#"container == """#, "what is in none");
    }
}
