//! The tasks with samples in an answer, the heaviest first.
//! They are the choices when a task must be selected, independent of the grouping of rows.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::profile::{Acc, NodeId};

use crate::query::aggregate::Aggregate;
use crate::query::aggregate::changes::Changes;
use crate::query::column::{ColumnInput, ColumnKey, RowGroup};
use crate::query::data::Data;

const MOST: usize = 300;
/// The limit of kept values of tasks.
const MANY_GROUPS: usize = 16 * MOST;

/// The columns that identify a task.
const KEYS: [ColumnKey; 11] = [
    ColumnKey::Host,
    ColumnKey::Comm,
    ColumnKey::Program,
    ColumnKey::Cmdline,
    ColumnKey::Pid,
    ColumnKey::Tid,
    ColumnKey::Cgroup,
    ColumnKey::Container,
    ColumnKey::Pod,
    ColumnKey::Namespace,
    ColumnKey::Image,
];

/// A task and its samples.
#[derive(Clone, Debug)]
pub struct TaskSamples {
    /// All known values of it, without CPU and sample text.
    pub(crate) group: Arc<RowGroup>,
    pub(crate) own: Acc,
    /// Share of all samples that pass the filter, in percent.
    pub(crate) percent: f64,
}

/// The sums of an aggregate by task, updated with its changes.
#[derive(Debug, Default)]
pub(crate) struct TaskSums {
    sums: Vec<Acc>,
    /// The values of tasks that were among the heaviest.
    groups: FxHashMap<usize, Arc<RowGroup>>,
}

impl TaskSums {
    pub(crate) fn of(data: Data<'_>, fold: &Aggregate) -> Self {
        let mut sums = vec![Acc::default(); data.session.tasks().len()];
        let sites = data.profile.sites.all();
        fold.each_site(|site, acc| sums[sites[site as usize].task.0 as usize] += acc);
        Self { sums, groups: FxHashMap::default() }
    }

    /// Applies the changes of an aggregate since the last update.
    pub(crate) fn update(&mut self, data: Data<'_>, fold: &Aggregate, changes: &Changes) {
        if changes.full_rebuild {
            *self = Self::of(data, fold);
            return;
        }
        self.sums.resize(data.session.tasks().len(), Acc::default());
        let sites = data.profile.sites.all();
        for change in changes.list() {
            change.apply_to(&mut self.sums[sites[change.site as usize].task.0 as usize]);
        }
    }

    /// Returns the heaviest tasks, with their shares of a total.
    pub(crate) fn heaviest(&mut self, data: Data<'_>, total: Acc) -> Vec<TaskSamples> {
        let tasks = data.session.tasks();
        let mut list: Vec<(usize, Acc)> =
            self.sums.iter().copied().enumerate().filter(|(_, acc)| !acc.is_zero()).collect();
        let by_weight = |a: &(usize, Acc), b: &(usize, Acc)| b.1.period.cmp(&a.1.period).then_with(|| a.0.cmp(&b.0));
        if list.len() > MOST {
            list.select_nth_unstable_by(MOST, by_weight);
            list.truncate(MOST);
        }
        list.sort_unstable_by(by_weight);
        if self.groups.len() > MANY_GROUPS {
            self.groups.clear();
        }
        let columns = KEYS.map(|key| (key, key.entry()));
        let group_of = |task: usize| {
            let sampled = ColumnInput { data, task: &tasks[task], cpu: 0, trace: 0, values: None, stack: NodeId::ROOT };
            Arc::new(RowGroup::of_columns(columns.into_iter(), &sampled))
        };
        let mut one = |(task, own): (usize, Acc)| {
            let group = self.groups.entry(task).or_insert_with(|| group_of(task)).clone();
            TaskSamples { group, own, percent: own.percent_of(&total) }
        };
        list.into_iter().map(&mut one).collect()
    }
}

/// Returns the number of sampled processes of each program.
pub fn processes(data: Data<'_>, fold: &Aggregate) -> FxHashMap<Arc<str>, usize> {
    let (tasks, sites) = (data.session.tasks(), data.profile.sites.all());
    let mut seen = vec![false; tasks.len()];
    fold.each_site(|site, acc| seen[sites[site as usize].task.0 as usize] |= !acc.is_zero());
    let mut pids: FxHashSet<(&Arc<str>, i32)> = FxHashSet::default();
    let mut counts: FxHashMap<Arc<str>, usize> = FxHashMap::default();
    for task in tasks.iter().zip(&seen).filter(|(_, seen)| **seen).map(|(task, _)| task) {
        if pids.insert((&task.program, task.pid)) {
            *counts.entry(task.program.clone()).or_default() += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::staged::Staged;

    #[test]
    fn the_heaviest_come_first() {
        let mut staged = Staged::default();
        for (pid, weight) in [(7, 10), (8, 60), (7, 20), (9, 10)] {
            staged.sample(1, pid, &["main"], weight);
        }
        let (data, fold) = (staged.data(), staged.fold());
        let mut sums = TaskSums::of(data, &fold);
        sums.heaviest(data, fold.total());
        let list = sums.heaviest(data, fold.total());
        let told: Vec<_> =
            list.iter().map(|whose| (whose.group.id(ColumnKey::Pid), whose.own.samples, whose.percent)).collect();
        assert_eq!(told, [(Some(8), 1, 60.0), (Some(7), 2, 30.0), (Some(9), 1, 10.0)]);
    }
}
