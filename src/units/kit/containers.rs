//! Threads by their containers: figures of threads, added up by the container, unit or group that each is in.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::Panel;

use super::columns::text;
use super::{Moment, Sheet, Stats};
use crate::query::row_order::arrange;

/// Threads that are remembered; when there are more, all are asked for anew.
const MAX: usize = 1 << 17;

/// The containers of threads, as far as that was asked for: one that has ended cannot be asked any more.
#[derive(Clone, Debug, Default)]
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

    /// The table of what took some time, where any of the threads is in a container, a unit or a group.
    pub(crate) fn panel<'a>(
        &mut self,
        at: &Moment<'_>,
        threads: impl Iterator<Item = (i32, &'a Stats)>,
        than: bool,
    ) -> Option<Panel> {
        let sums = self.sums(at, threads, |sum: &mut Stats, stats| sum.merge(stats), |sum| sum.sum);
        Some(Self::sheet(&sums)?.latency(than, |(_, (_, stats))| stats).panel(TITLE))
    }

    /// Any figures of threads by where these are, the most first; none where no thread is in a container, a unit or a
    /// group.
    pub(crate) fn sums<T, S: Default>(
        &mut self,
        at: &Moment<'_>,
        threads: impl Iterator<Item = (i32, T)>,
        add: impl Fn(&mut S, T),
        weight: impl Fn(&S) -> u64,
    ) -> Vec<(String, S)> {
        let mut sums: FxHashMap<Option<String>, S> = FxHashMap::default();
        threads.for_each(|(tid, figures)| add(sums.entry(self.container(at, tid)).or_default(), figures));
        if sums.keys().all(Option::is_none) {
            return Vec::new();
        }
        let mut list: Vec<(Option<String>, S)> = sums.into_iter().collect();
        arrange(&mut list, |a, b| weight(&b.1).cmp(&weight(&a.1)).then_with(|| a.0.cmp(&b.0)));
        list.into_iter().map(|(words, sum)| (words.unwrap_or_else(|| "–".to_owned()), sum)).collect()
    }

    /// The first column of their table; `None` where there are none.
    pub(crate) fn sheet<S>(sums: &[(String, S)]) -> Option<Sheet<'_, (usize, &(String, S))>> {
        let sheet = Sheet::of(sums.iter().enumerate(), |(at, _)| at as u64);
        let sheet = sheet.left("container", "Container", 30, |(_, (words, _))| text(words.as_str()));
        (!sums.is_empty()).then_some(sheet)
    }
}

/// What tables of them are called.
pub(crate) const TITLE: &str = "Containers";
