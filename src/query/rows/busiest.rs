//! The processes with the most samples, each with the function that has most of its samples.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::panel::row_order::arrange_by_key;
use crate::profile::{Acc, NodeId, SiteId, SymId};
use crate::query::aggregate::Aggregate;
use crate::query::column::{ColumnInput, ColumnKey, ColumnValue, RowGroup};
use crate::query::data::Data;

/// The samples of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessSamples {
    /// The process id.
    pub pid: i32,
    /// The name of its program with the most samples.
    pub comm: Arc<str>,
    /// Its container, if known.
    pub container: Option<Arc<str>>,
    /// Threads with samples.
    pub(crate) threads: usize,
    pub(crate) acc: Acc,
    /// The function with the most samples of its own and its DSO, and the percentage of the process's samples.
    pub function: Option<(String, f64)>,
    /// Its sites with their weights.
    pub(crate) sites: Vec<(u32, Acc)>,
}

#[derive(Default)]
struct Process {
    acc: Acc,
    comms: BTreeMap<Arc<str>, u64>,
    threads: FxHashSet<i32>,
    sites: Vec<(u32, Acc)>,
    functions: FxHashMap<u32, Acc>,
}

/// Returns the processes with the most samples, at most `most`.
pub(crate) fn busiest(data: Data<'_>, fold: &Aggregate, most: usize) -> Vec<ProcessSamples> {
    let (tasks, frames) = (data.session.tasks(), &data.profile.frames);
    let mut list: FxHashMap<_, Process> = FxHashMap::default();
    for (_, id, acc) in fold.sites() {
        let site = data.profile.sites.get(SiteId(id));
        let task = &tasks[site.task.0 as usize];
        let process = list.entry((task.host, task.pid)).or_default();
        process.acc += acc;
        *process.comms.entry(task.program.clone()).or_default() += acc.period;
        process.threads.insert(task.tid);
        process.sites.push((id, acc));
        if site.stack != NodeId::ROOT {
            let sym = frames.sym_of(data.profile.trie.frame(site.stack));
            *process.functions.entry(sym.0).or_default() += acc;
        }
    }
    let mut list: Vec<_> = list.into_iter().collect();
    arrange_by_key(&mut list, |(id, process)| (Reverse(process.acc.period), *id));
    list.truncate(most);
    let one = |((_, pid), process): ((_, i32), Process)| {
        let hottest = process.functions.iter().max_by_key(|(sym, acc)| (acc.period, Reverse(**sym)));
        let function = hottest.map(|(sym, acc)| {
            let sym = frames.sym(SymId(*sym));
            (format!("{} ({})", sym.name(), sym.dso_name), acc.percent_of(&process.acc))
        });
        let comm = process.comms.iter().max_by_key(|(name, weight)| (**weight, Reverse((*name).clone())));
        ProcessSamples {
            pid,
            comm: comm.map_or_else(|| "".into(), |(name, _)| name.clone()),
            container: container(data, &process),
            threads: process.threads.len(),
            acc: process.acc,
            function,
            sites: process.sites,
        }
    };
    list.into_iter().map(one).collect()
}

fn container(data: Data<'_>, process: &Process) -> Option<Arc<str>> {
    let site = data.profile.sites.get(SiteId(process.sites.first()?.0));
    let task = &data.session.tasks()[site.task.0 as usize];
    let sampled = ColumnInput { data, task, cpu: 0, trace: 0, values: None, stack: NodeId::ROOT };
    let key = ColumnKey::Container;
    match RowGroup::of_columns([(key, key.entry())].into_iter(), &sampled).get(key) {
        Some(ColumnValue::Text(name)) if !name.is_empty() => Some(name.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::staged::Staged;

    #[test]
    fn processes_have_their_hottest_function() {
        let mut staged = Staged::default();
        for (pid, function, weight) in [(7, "a", 10), (8, "b", 60), (7, "c", 20), (9, "a", 5)] {
            staged.sample(1, pid, &["main", function], weight);
        }
        let list = busiest(staged.data(), &staged.fold(), 2);
        let told: Vec<_> =
            list.iter().map(|one| (one.pid, one.acc.period, one.function.clone().map(|f| f.1.round()))).collect();
        assert_eq!(told, [(8, 60, Some(100.0)), (7, 30, Some(67.0))]);
        assert!(list[1].function.as_ref().is_some_and(|(name, _)| name.starts_with("c ")));
    }
}
