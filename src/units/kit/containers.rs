//! Threads by their containers: figures of threads, added up by the container, unit or group that each is in.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::Panel;

use super::columns::text;
use super::{Moment, Sheet, Stats};

/// Threads that are remembered; when there are more, all are asked for anew.
const MAX: usize = 1 << 17;

/// The containers of threads, as far as that was asked for: one that has ended cannot be asked any more.
#[derive(Debug, Default)]
pub(crate) struct ByContainer {
    groups: FxHashMap<i32, Option<Arc<str>>>,
}

impl ByContainer {
    fn container(&mut self, at: &Moment<'_>, tid: i32) -> Option<String> {
        if self.groups.len() >= MAX {
            self.groups.clear();
        }
        let path = self.groups.entry(tid).or_insert_with(|| at.session.cgroup_of(tid)).clone()?;
        Some(at.session.container_in(&path).words()).filter(|words| !words.is_empty())
    }

    /// The table, where any of the threads is in a container, a unit or a group.
    pub(crate) fn panel<'a>(
        &mut self,
        at: &Moment<'_>,
        threads: impl Iterator<Item = (i32, &'a Stats)>,
        than: bool,
    ) -> Option<Panel> {
        let mut sums: FxHashMap<Option<String>, Stats> = FxHashMap::default();
        threads.for_each(|(tid, stats)| sums.entry(self.container(at, tid)).or_default().merge(stats));
        if sums.keys().all(Option::is_none) {
            return None;
        }
        let mut list: Vec<(Option<String>, Stats)> = sums.into_iter().collect();
        list.sort_by(|a, b| b.1.sum.cmp(&a.1.sum).then_with(|| a.0.cmp(&b.0)));
        let table = Sheet::of(list.iter().enumerate(), |(at, _)| at as u64)
            .left("container", "Container", 30, |(_, (words, _))| text(words.as_deref().unwrap_or("–")))
            .latency(than, |(_, (_, stats))| stats);
        Some(table.panel("Containers"))
    }
}
