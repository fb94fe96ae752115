//! Figures of threads aggregated by container, systemd unit or cgroup.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::Panel;

use crate::panel::row_order::arrange;
use crate::units::kit::tables::columns::text;
use crate::units::kit::{Moment, Sheet, Stats, ThreadKey, ThreadRef};

/// Limit of cached threads; the cache is cleared when it is full.
const MAX: usize = 1 << 17;

/// A cache of the containers of threads, because the cgroup of an ended thread cannot be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByContainer {
    groups: FxHashMap<ThreadKey, Option<Arc<str>>>,
}

impl ByContainer {
    /// Returns the container, systemd unit or cgroup of a thread.
    pub(crate) fn container(&mut self, at: &Moment<'_>, thread: impl Into<ThreadRef>) -> Option<String> {
        if self.groups.len() >= MAX {
            self.groups.clear();
        }
        let key = at.names.key_of(thread);
        // The session knows the last thread with a number.
        let find = || at.names.current(key).and_then(|tid| at.session.cgroup_of(tid));
        let path = self.groups.entry(key).or_insert_with(find).clone()?;
        Some(at.session.container_in(&path).words()).filter(|words| !words.is_empty())
    }

    /// A latency table by container, if any thread is in a container, unit or cgroup.
    pub(crate) fn panel<'a, K: Into<ThreadRef>>(
        &mut self,
        at: &Moment<'_>,
        threads: impl Iterator<Item = (K, &'a Stats)>,
        than: bool,
    ) -> Option<Panel> {
        let sums = self.sums(at, threads, |sum: &mut Stats, stats| sum.merge(stats), |sum| sum.sum);
        Some(Self::sheet(&sums)?.latency(than, |(_, (_, stats))| stats).panel(TITLE))
    }

    /// Sums figures of threads by container, the largest first. Empty if no thread is in a container, unit or cgroup.
    pub(crate) fn sums<K: Into<ThreadRef>, T, S: Default>(
        &mut self,
        at: &Moment<'_>,
        threads: impl Iterator<Item = (K, T)>,
        add: impl Fn(&mut S, T),
        weight: impl Fn(&S) -> u64,
    ) -> Vec<(String, S)> {
        let mut sums: FxHashMap<Option<String>, S> = FxHashMap::default();
        threads.for_each(|(thread, figures)| add(sums.entry(self.container(at, thread)).or_default(), figures));
        if sums.keys().all(Option::is_none) {
            return Vec::new();
        }
        let mut list: Vec<(Option<String>, S)> = sums.into_iter().collect();
        arrange(&mut list, |a, b| weight(&b.1).cmp(&weight(&a.1)).then_with(|| a.0.cmp(&b.0)));
        list.into_iter().map(|(words, sum)| (words.unwrap_or_else(|| "–".to_owned()), sum)).collect()
    }

    /// A sheet with the container column; `None` if there are no sums.
    pub(crate) fn sheet<S>(sums: &[(String, S)]) -> Option<Sheet<'_, (usize, &(String, S))>> {
        let sheet = Sheet::of(sums.iter().enumerate(), |(at, _)| at as u64);
        let sheet = sheet.left("container", "Container", 30, |(_, (words, _))| text(words.as_str()));
        (!sums.is_empty()).then_some(sheet)
    }
}

pub(crate) const TITLE: &str = "Containers";
