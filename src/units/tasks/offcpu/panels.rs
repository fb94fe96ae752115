//! The panels of blocked time: call sites, wakers, current waits, flame graphs.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::panel::Rest;
use crate::panel::row_order::arrange;
use crate::panel::stacks::FrameName;
use crate::panel::stacks::{DIVIDER, Stack};
use crate::session::DsoKind;
use crate::units::kit::prelude::*;
use crate::units::kit::waits::classes::{Sleep, WaitClass};
use crate::units::kit::waits::initially_blocked;

use super::OffCpu;
use super::blocked::waits::{SiteName, UnderWay, Wait};

#[derive(Clone, Debug, Default)]
struct Site {
    blocked: Stats,
    uninterruptible: u64,
    wakers: BTreeMap<SiteName, Stats>,
}

type SiteRow = (u64, SiteName, WaitClass, Site);

/// Sites as rows: first those that may have held work up, then the row for all waits for work, then its sites. The
/// table shows that row after the sites that have more than a trifle of the time, or first if it has the most time and
/// none of these held up a request or other work.
pub(super) struct WaitSites {
    list: Vec<SiteRow>,
    rest: Rest,
    /// Whether some sites come after others with less time: those outside of requests, those for the main thread, or those
    /// of waits until a thread or process ends.
    has_groups: bool,
    /// Whether waits until a thread or process ends have more than a trifle of the time.
    has_ends: bool,
}

/// The note for waits until a thread or process ends.
const UNTIL_END: &str = "waits until a thread or process ends are listed after the others: the rows of that thread or \
                         process (Woken by) show its waits";

/// Sites with less than this fraction of the blocked time come after the row for all waits for work.
const TRIFLE: u64 = 100;

/// Requests are not delayed by waits of less than this fraction of the interval.
const MOMENT: u64 = 1000;

const NAMED: usize = 2;

impl Site {
    fn merge(&mut self, other: &Self) {
        self.blocked.merge(&other.blocked);
        self.uninterruptible += other.uninterruptible;
        other.wakers.iter().for_each(|(name, stats)| self.wakers.entry(name.clone()).or_default().merge(stats));
    }

    fn add(&mut self, wait: &Wait) {
        self.blocked.merge(&wait.stats);
        self.uninterruptible += if wait.sleep == Sleep::Uninterruptible { wait.stats.sum } else { 0 };
        self.wakers.entry(wait.waker.clone()).or_default().merge(&wait.stats);
    }

    fn wakers_text(&self) -> String {
        shared_by(self.wakers.iter().map(|((waker, _), stats)| (waker, stats.sum)))
    }
}

/// Lists names by their share of a time, the largest first, with percentages if there are several.
fn shared_by<'a>(parts: impl Iterator<Item = (&'a Arc<str>, u64)>) -> String {
    let mut by_name: BTreeMap<&Arc<str>, u64> = BTreeMap::new();
    parts.for_each(|(name, ns)| *by_name.entry(name).or_default() += ns);
    let total: u64 = by_name.values().sum();
    let list = by_weight(by_name, |ns| *ns);
    if let [(name, _)] = list[..] {
        return name.to_string();
    }
    let share = |ns: u64| crate::panel::unit::percent(100.0 * ns as f64 / total.max(1) as f64);
    let mut words: Vec<String> = list.iter().take(NAMED).map(|(name, ns)| format!("{name} {}", share(*ns))).collect();
    words.extend((list.len() > NAMED).then(|| format!("{} more", list.len() - NAMED)));
    words.join(", ")
}

/// The text of the row for all waits for work, in place of a stack.
fn rest_words(threads: usize) -> Arc<str> {
    format!("{}: {threads} thread{}", WaitClass::Work.label(), if threads == 1 { "" } else { "s" }).into()
}

fn rest_id() -> u64 {
    id(&WaitClass::Work.label())
}

impl OffCpu {
    /// Groups waits by blocked task, functions and class; the longest blocked first. `interval` is the measured time.
    pub(super) fn sites(waits: &[Wait], interval: u64) -> WaitSites {
        let mut by_class: BTreeMap<(bool, SiteName, WaitClass), Site> = BTreeMap::new();
        let mut idlers: FxHashSet<ThreadKey> = FxHashSet::default();
        for wait in waits {
            let is_work = wait.class == WaitClass::Work;
            idlers.extend(is_work.then_some(wait.thread));
            by_class.entry((is_work, (wait.comm.clone(), wait.line.clone()), wait.class)).or_default().add(wait);
        }
        let row = |(key, site): ((bool, SiteName, WaitClass), Site)| (id(&key), key.1, key.2, site);
        let (idle, held): (Vec<SiteRow>, Vec<SiteRow>) =
            by_class.into_iter().map(row).partition(|(_, _, class, _)| *class == WaitClass::Work);
        let time_of = |rows: &[SiteRow]| rows.iter().map(|(.., site)| site.blocked.sum).sum::<u64>();
        let all_time = time_of(&held) + time_of(&idle);
        let (ends, held): (Vec<SiteRow>, Vec<SiteRow>) =
            held.into_iter().partition(|(_, _, class, _)| class.is_until_end());
        let (outside, held): (Vec<SiteRow>, Vec<SiteRow>) =
            held.into_iter().partition(|(_, _, class, _)| *class == WaitClass::Outside);
        let (for_main, within): (Vec<SiteRow>, Vec<SiteRow>) =
            held.into_iter().partition(|(_, _, class, _)| *class == WaitClass::MainThread);
        // Delays of requests come first, even if threads of pools wait longer. Waits of a few moments do not delay.
        let time_within = match time_of(&within) {
            _ if outside.is_empty() => all_time,
            time if time < interval / MOMENT => u64::MAX,
            time => time,
        };
        let has_groups = [&outside, &for_main, &ends].iter().any(|group| !group.is_empty());
        let has_ends = ends.iter().any(|(.., site)| site.blocked.sum > all_time / TRIFLE);
        let in_order = |mut list: Vec<SiteRow>| {
            arrange(&mut list, |a, b| {
                b.3.blocked.sum.cmp(&a.3.blocked.sum).then_with(|| (&a.1, a.2).cmp(&(&b.1, b.2)))
            });
            list
        };
        let (mut list, mut less) = (Vec::new(), Vec::new());
        let mut kept_within = None;
        for (group, all) in [(within, time_within), (outside, all_time), (for_main, all_time), (ends, all_time)] {
            let mut group = in_order(group);
            let kept = group.partition_point(|(.., site)| site.blocked.sum > all / TRIFLE);
            less.extend(group.split_off(kept));
            kept_within.get_or_insert(kept);
            list.extend(group);
        }
        let mut after = list.len();
        list.extend(less);
        let idle = in_order(idle);
        let row = list.len();
        if idle.is_empty() {
            return WaitSites { list, rest: Rest { row, after: row, is_largest: false }, has_groups, has_ends };
        }
        let mut all = Site::default();
        idle.iter().for_each(|(.., site)| all.merge(site));
        let is_largest = list.iter().all(|(.., site)| site.blocked.sum <= all.blocked.sum);
        // A server at rest waits for work, also while its background threads wake each other.
        if is_largest && kept_within == Some(0) {
            after = 0;
        }
        let who = shared_by(idle.iter().map(|(_, (comm, _), _, site)| (comm, site.blocked.sum)));
        list.push((rest_id(), (who.into(), rest_words(idlers.len())), WaitClass::Work, all));
        list.extend(idle);
        WaitSites { list, rest: Rest { row, after, is_largest }, has_groups, has_ends }
    }

    pub(super) fn table(sites: &WaitSites) -> Panel {
        let WaitSites { list, rest, has_groups, has_ends } = sites;
        let alone = list.len().min(rest.row + 1);
        let total: u64 = list[..alone].iter().map(|(.., site)| site.blocked.sum).sum();
        // The row for all waits for work has the share of its sites.
        let share_of = |at: usize, site: &Site| if at < alone { share(site.blocked.sum, total) } else { Cell::Empty };
        Sheet::of(list.iter().enumerate(), |(_, (key, ..))| *key)
            .right("blocked_ns", "Blocked", 9, |(_, (.., site))| time(site.blocked.sum))
            .when(!has_groups, Sheet::ordered)
            .when(*has_groups, Sheet::in_hidden_order)
            .right("share_pct", "Share", 8, |(at, (.., site))| share_of(at, site))
            .right("d_ns", "D state", 9, |(_, (.., site))| time(site.uninterruptible))
            .ranked(5)
            .right("times", "Times", 8, |(_, (.., site))| Cell::Count(site.blocked.n))
            .ranked(2)
            .right("mean_ns", "Mean", 8, |(_, (.., site))| time(site.blocked.mean() as u64))
            .ranked(1)
            .right("max_ns", "Max", 8, |(_, (.., site))| time(site.blocked.max))
            .ranked(3)
            .left("comm", "Comm", 16, |(_, (_, (comm, _), ..))| text(comm.clone()))
            .left("wakers", "Woken by", 24, |(_, (.., site))| text(site.wakers_text()))
            .listed()
            .left("class", "Class", 30, |(_, (.., class, _))| text(class.label()))
            .ranked(4)
            .left("stack", "Blocked in", 0, |(_, (_, (_, stack), ..))| text(stack.clone()))
            .folded_panel("Blocked", *rest)
            .noted(if *has_ends { UNTIL_END } else { "" })
    }

    /// The currently blocked threads, the longest first. Waits outside of requests, those until a thread or process ends,
    /// and those for work come last.
    pub(super) fn under_way(waits: &[Wait]) -> Panel {
        let mut list: Vec<(&Wait, UnderWay)> = waits.iter().filter_map(|wait| Some((wait, wait.under_way?))).collect();
        let is_work = |wait: &Wait| wait.class == WaitClass::Work;
        let is_last = |wait: &Wait| wait.class.max(WaitClass::Broken);
        arrange(&mut list, |(a, so_far_a), (b, so_far_b)| {
            (is_last(a), so_far_b.ns, a.thread).cmp(&(is_last(b), so_far_a.ns, b.thread))
        });
        let row = list.iter().position(|(wait, _)| is_work(wait)).unwrap_or(list.len());
        let idle = list.len() - row;
        let mut rows: Vec<Option<(&Wait, UnderWay)>> = list.into_iter().map(Some).collect();
        if idle > 0 {
            rows.insert(row, None);
        }
        let rest = rest_words(idle);
        let rest = &rest;
        Sheet::of(rows, |one| one.map_or(u64::from(u32::MAX), |(wait, _)| wait.thread.row()))
            .right("so_far_ns", "So far", 9, |one| one.map_or(Cell::Empty, |(_, so_far)| time(so_far.ns)))
            .left("since", "", 12, |one| initially_blocked::mark(one.is_some_and(|(_, so_far)| so_far.is_before)))
            .left("comm", "Comm", 16, |one| one.map_or(Cell::Empty, |(wait, _)| text(wait.comm.clone())))
            .right("tid", "TID", 8, |one| one.map_or(Cell::Empty, |(wait, _)| Cell::Id(wait.thread.tid.into())))
            .left("class", "Class", 30, |one| text(one.map_or(WaitClass::Work, |(wait, _)| wait.class).label()))
            .ranked(1)
            .left("stack", "Blocked in", 0, move |one| text(one.map_or(rest, |(wait, _)| &wait.line).clone()))
            .folded_panel("Under way", Rest { row, after: row, is_largest: row == 0 })
    }

    /// The wakers of the selected site, or of all sites except waits for work.
    pub(super) fn wakers_panel(at: &Moment<'_>, sites: &WaitSites) -> Panel {
        let chosen = at.selected(0).and_then(|row| sites.list.iter().find(|(key, ..)| *key == row));
        let mut all: BTreeMap<&SiteName, Stats> = BTreeMap::new();
        for (.., site) in chosen.map_or(&sites.list[..sites.rest.row], std::slice::from_ref) {
            site.wakers.iter().for_each(|(name, stats)| all.entry(name).or_default().merge(stats));
        }
        let total: u64 = all.values().map(|stats| stats.sum).sum();
        let list = by_weight(all, |stats| stats.sum);
        let sheet = Sheet::of(&list, |(name, _)| id(name))
            .right("blocked_ns", "Blocked", 9, |(_, stats)| time(stats.sum))
            .share(|(_, stats)| stats.sum, total)
            .right("times", "Times", 8, |(_, stats)| Cell::Count(stats.n))
            .left("waker", "Woken by", 16, |((waker, _), _)| text(waker.clone()))
            .left("waker_stack", "In", 0, |((_, stack), _)| text(stack.clone()));
        let whom = chosen.map(|(key, (comm, _), ..)| match *key == rest_id() {
            true => " of what waits for work".to_owned(),
            false => format!(" of {comm} in that place"),
        });
        let whom = whom.unwrap_or_default();
        sheet.panel(format!("Wakers{whom}"))
    }

    pub(super) fn graphs(&self, at: &Moment<'_>, waits: &[Wait]) -> Vec<Panel> {
        let word = |text: &str| FrameName { text: text.into(), kind: DsoKind::Unknown, dso: "".into() };
        let (mut blocked, mut both) = (Vec::new(), Vec::new());
        for wait in waits {
            let mut one =
                Stack::of(wait.comm.clone(), self.blocked.places.frames(at, wait.spot), (wait.stats.sum, wait.stats.n));
            let mut cold = one.clone();
            cold.frames.insert(1, word("off CPU"));
            if wait.class == WaitClass::Work || wait.class.is_until_end() {
                cold.frames.insert(2, word(wait.class.label()));
                // A tower of their own, as the table has them apart from the others.
                one.frames.insert(0, word(wait.class.label()));
            }
            both.push(cold);
            if wait.under_way.is_none() {
                // The waker is on top with its stack reversed, so that the two stacks meet at the wakeup.
                one.frames.push(word(DIVIDER));
                one.frames.extend(wait.by.map(|by| at.frames(by)).unwrap_or_default().into_iter().rev());
                one.frames.push(word(&wait.waker.0));
            }
            blocked.push(one);
        }
        for ((thread, pin), ns) in &self.hot {
            let mut hot: Stack = at.stack(at.program(*thread), *pin, *ns, 1);
            hot.frames.insert(1, word("on CPU"));
            both.push(hot);
        }
        vec![
            Panel::flame("Blocked and woken, a flame graph", Measure::Time, blocked),
            Panel::flame("Hot and cold, a flame graph", Measure::Time, both),
        ]
    }
}
