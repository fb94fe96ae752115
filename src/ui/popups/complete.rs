//! Completions of a partial filter, with values from the screen.

use std::collections::BTreeMap;

use crate::filter::capture::Subject;
use crate::filter::{ExpectedToken, FIELDS, Field, Filter, KnownFields, TraceField, expected};
use crate::panel::row_order::arrange;
use crate::panel::unit::percent;
use crate::query::rows::task_choices::TaskSamples;
use crate::query::{Answer, ColumnKey, TopLine, column};

const MAX: usize = 12;

/// Returns the completions at the end of a filter and their insertion offset.
pub(crate) fn filter(text: &str, answer: &Answer, traced: &[TraceField]) -> (Vec<(String, String)>, usize) {
    let (expect, from) = expected(text, traced);
    let typed = text.get(from..).unwrap_or_default().trim_start_matches(['"', '\'']).to_lowercase();
    let all: Vec<(String, String)> = match expect {
        ExpectedToken::Field => {
            let own = traced.iter().map(|field| (field.name.clone(), field.kind.clone()));
            FIELDS.iter().map(|row| (row.name.to_owned(), row.about.to_owned())).chain(own).collect()
        }
        ExpectedToken::Operator(field) => {
            field.operators().iter().map(|op| ((*op).to_owned(), String::new())).collect()
        }
        ExpectedToken::Connective => ["&&", "||"].iter().map(|op| ((*op).to_owned(), String::new())).collect(),
        ExpectedToken::Value(field) => values(field, answer),
    };
    let matches = |(text, _): &(String, String)| text.trim_start_matches('"').to_lowercase().starts_with(&typed);
    (all.into_iter().filter(matches).take(MAX).collect(), from)
}

/// Returns the filter that a single word stands for: a name or a task id.
pub(crate) fn offer(text: &str) -> Option<String> {
    let word = text.trim();
    let is_word = |c: char| c.is_alphanumeric() || "_-.:@+/$#%".contains(c);
    if word.is_empty() || !word.chars().all(is_word) || FIELDS.iter().any(|row| row.name == word) {
        return None;
    }
    Some(match word.parse::<u32>() {
        Ok(id) => format!("pid == {id} || tid == {id}"),
        Err(_) => format!("comm == \"{word}\" || program == \"{word}\""),
    })
}

/// Explains a pattern without `*`, which matches whole names only: the share that `*word*` would match.
pub(crate) fn narrow_glob(filter: &Filter, answer: &Answer) -> Option<String> {
    let (field, typed) = filter.plain_globs().next()?;
    let share: f64 = match field {
        Field::Sym | Field::Dso => {
            let name = |line: &TopLine| if field == Field::Sym { line.sym.clone() } else { line.dso.clone() };
            let lines = answer.view.lines.iter().filter(|line| line.depth == 0 && name(line).contains(typed));
            lines.map(|line| line.own_percent).sum()
        }
        _ => {
            let key = column::of_field(field)?.key;
            let has = |task: &&TaskSamples| task.group.get(key).is_some_and(|value| value.text().contains(typed));
            answer.view.tasks.iter().filter(has).map(|task| task.percent).sum()
        }
    };
    let name = field.row()?.name;
    Some(format!("~ matches whole names; {name} ~ \"*{typed}*\" has {} of what is shown", percent(share)))
}

/// Returns the values of a filter's field among tasks, the most samples first.
pub(crate) fn seen(field: Option<Field>, tasks: &[TaskSamples]) -> Vec<String> {
    let key = field.and_then(column::of_field).map(|entry| entry.key);
    let key = key.filter(|key| tasks.iter().any(|task| task.group.get(*key).is_some())).unwrap_or(ColumnKey::Comm);
    let mut names: Vec<String> = Vec::new();
    // Idle CPUs are not tasks.
    for task in tasks.iter().filter(|task| task.group.id(ColumnKey::Pid) != Some(0)) {
        let name = task.group.get(key).map(|value| value.text().into_owned()).unwrap_or_default();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the fields that a capture filter may contain here, with their types.
pub(crate) fn capture(text: &str, subject: &Subject, traced: &[TraceField]) -> (Vec<(String, String)>, usize) {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let from = text.trim_end_matches(word).len();
    let before = text[..from].trim_end();
    if !(before.is_empty() || before.ends_with(['(', '&', '|', '!'])) {
        return (Vec::new(), from);
    }
    let known = match subject {
        Subject::Tracepoint(_) => KnownFields::Kernel(traced),
        Subject::Sampling { .. } => KnownFields::Sampling,
    };
    let own = traced.iter().map(|field| (field.name.clone(), field.kind.clone()));
    // Fields common to all tracepoints come last.
    let (common, special): (Vec<_>, Vec<_>) = own.partition(|(name, _)| name.starts_with("common_"));
    let rows = known.rows().map(|row| (row.name.to_owned(), row.about.to_owned()));
    let typed = text[from..].to_lowercase();
    let all = special.into_iter().chain(rows).chain(common);
    (all.filter(|(name, _)| name.to_lowercase().starts_with(&typed)).take(MAX).collect(), from)
}

/// Returns sampling targets: the sampled processes and cgroups with their shares, the largest first.
pub(crate) fn targets(text: &str, answer: &Answer) -> Vec<(String, String)> {
    let mut weights: BTreeMap<(String, String), f64> = BTreeMap::new();
    for TaskSamples { group, percent, .. } in &answer.view.tasks {
        let comm = group.text(ColumnKey::Comm).map(|text| &**text).unwrap_or_default().to_owned();
        if let Some(pid) = group.id(ColumnKey::Pid).filter(|pid| *pid > 0) {
            *weights.entry((format!("pid {pid}"), comm)).or_default() += percent;
        }
        if let Some(name) = group.text(ColumnKey::Container).filter(|name| !name.is_empty()) {
            let pod = group.text(ColumnKey::Pod).map(|pod| pod.to_string()).unwrap_or_default();
            *weights.entry((format!("container {name}"), pod)).or_default() += percent;
        }
        if let Some(cgroup) =
            group.text(ColumnKey::Cgroup).map(|text| &**text).map(|g| g.trim_matches('/')).filter(|g| !g.is_empty())
        {
            *weights.entry((format!("cgroup {cgroup}"), String::new())).or_default() += percent;
        }
    }
    let mut list: Vec<((String, String), f64)> = weights.into_iter().collect();
    arrange(&mut list, |a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let all = ("all".to_owned(), "the whole machine".to_owned());
    let words = |((target, comm), share): ((String, String), f64)| {
        (target, format!("{comm} {}", percent(share)).trim().to_owned())
    };
    let typed = text.trim_start();
    let found = list.into_iter().map(words).chain([all]);
    found.filter(|(target, what)| target.starts_with(typed) || what.starts_with(typed)).take(MAX).collect()
}

fn values(field: Field, answer: &Answer) -> Vec<(String, String)> {
    let mut weights: BTreeMap<String, u64> = BTreeMap::new();
    let mut add = |value: Option<String>, samples: u64| {
        if let Some(value) = value.filter(|v| !v.is_empty() && !v.chars().any(|c| c == '"' || c.is_control())) {
            *weights.entry(value).or_default() += samples.max(1);
        }
    };
    for TaskSamples { group, own, .. } in &answer.view.tasks {
        let value =
            column::of_field(field).and_then(|entry| group.get(entry.key)).map(|value| value.text().into_owned());
        add(value, own.samples);
    }
    for line in answer.view.lines.iter().filter(|l| l.depth == 0) {
        let value = match field {
            Field::Dso => Some(line.dso.to_string()),
            Field::Sym | Field::Stack => Some(line.sym.to_string()),
            _ => None,
        };
        add(value, line.own.samples);
    }
    if field == Field::Cpu {
        answer.by_cpu.rows.iter().for_each(|row| add(Some(row.cpu.to_string()), row.counts.iter().sum()));
    }
    if field == Field::Event {
        weights.extend(answer.events.iter().map(|e| (e.name.clone(), e.total.samples)));
    }
    let mut list: Vec<(String, u64)> = weights.into_iter().collect();
    arrange(&mut list, |a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let plain = |v: &str| v.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    list.into_iter().map(|(v, _)| (if plain(&v) { v } else { format!("\"{v}\"") }, String::new())).collect()
}
