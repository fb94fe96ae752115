//! `offcpu`: where tasks block and who wakes them, by stack; with the time on CPUs beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::Rate;
use crate::panel::stacks::{DIVIDER, Stack};
use crate::panel::text::BELOW;
use crate::panel::{Cell, Measure, Panel, unit};
use crate::profile::RetainedStack;
use crate::query::row_order::arrange;
use crate::query::symbol_stacks::Name;
use crate::record::open_spans::{OpenSpans, ThreadChange};
use crate::session::DsoKind;

use super::kit::before;
use super::kit::columns::{by_weight, id, share, text, time};
use super::kit::sched::{self, SchedEvent, SchedReader, state};
use super::kit::waits::waits_for_work;
use super::kit::{
    Alike, Before, ByContainer, Context, Event, EventRequest, Lost, Moment, Sample, Sees, Settings, Sheet, Spec, Stats,
    ThreadChoice, Unit, Waits,
};

pub(super) const SPEC: Spec = Spec {
    name: "offcpu",
    about: "where tasks block, for how long and who wakes them, by stack; hot and cold in one flame graph",
    help: "Time from leaving a CPU asleep to being woken is blocked time, with the stack that left and the stack of \
           the waker; time from then to running is waiting, and is not in it (rundelay has it). A call site is one \
           row, whoever woke it; Wakers are those of the chosen row, or of all. What waits for work \
           of its own (idle threads of the kernel; who sleeps until a time, polls, or waits for a word of memory \
           that is no lock) is folded into the last row: first comes what held somebody up. A wait for a word of \
           memory whose caller has no name may be one for a lock. Blocked in names, of the kernel's part of a stack, the call \
           and what waits; the graphs have the whole, and so has --addresses. Under way is what is blocked now; of what \
           was so before it ran, /proc says where. The hot and cold \
           graph puts samples of a clock (-F, 99 Hz) beside it, both in nanoseconds.",
    example: "perfprof-tui offcpu -p 1234",
    output: "\
$ perfprof-tui offcpu --comm worker --batch --duration 2 --panel \\
    Blocked
Blocked    Share  of it D  Times     Mean      Max  Who     Woken by …
 1.62 s  100.0 %              34  47.6 ms  68.0 ms  worker  log-flush…
 279 ms                       46  6.06 ms  6.08 ms          pt 28.2 %…",
    options: &["comm", "pids", "tids", "frequency", "addresses"],
    sees: Sees::Machine,
    across: Some("sleep that began on the chosen ones"),
    interval: None,
    make: |settings| Ok(Box::new(OffCpu::new(settings)?)),
};

#[derive(Clone, Copy, Debug)]
struct Away {
    stack: RetainedStack,
    uninterruptible: bool,
}

type Place = (i32, RetainedStack, i32, RetainedStack);
/// A site with names for tasks.
type Named = (Arc<str>, RetainedStack, Arc<str>, RetainedStack);

/// The blocked task and its place, by names; a waker likewise.
type SiteName = (Arc<str>, Arc<str>);

/// Blocked time of a call site.
#[derive(Debug, Default)]
struct Site {
    blocked: Stats,
    uninterruptible: u64,
    wakers: BTreeMap<SiteName, Stats>,
}

/// Sites as rows: those that held somebody up, then one for all others, and these.
struct Sites {
    list: Vec<(u64, SiteName, Site)>,
    /// The place of the one for all others.
    rest: usize,
}

/// Those of many that are named in a row.
const NAMED: usize = 2;

impl Site {
    fn merge(&mut self, other: &Self) {
        self.blocked.merge(&other.blocked);
        self.uninterruptible += other.uninterruptible;
        other.wakers.iter().for_each(|(name, stats)| self.wakers.entry(name.clone()).or_default().merge(stats));
    }

    /// Its wakers by name.
    fn wakers_text(&self) -> String {
        shared_by(self.wakers.iter().map(|((waker, _), stats)| (waker, stats.sum)))
    }
}

/// Names by their parts of a time, the largest first, with their shares where there are several.
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

/// A thread that is blocked now.
struct UnderWay {
    for_work: bool,
    ns: u64,
    is_before: bool,
    tid: i32,
    stack: Arc<str>,
}

/// In the place of a thread in a row for many.
const NOBODY: i32 = i32::MIN;
/// What the row is called that stands for all waits for work.
const REST: &str = "waiting for work";

fn rest_words(threads: usize) -> Arc<str> {
    format!("{REST}: {threads} thread{}", if threads == 1 { "" } else { "s" }).into()
}

#[derive(Debug, Default)]
struct OffCpu {
    reader: SchedReader,
    chosen: ThreadChoice,
    hz: u64,
    away: OpenSpans<i32, (), Away>,
    /// By task, its stack, its waker and that one's stack.
    blocked: FxHashMap<Place, (Stats, u64)>,
    hot: FxHashMap<(i32, RetainedStack), u64>,
    since: u64,
    containers: ByContainer,
    alike: Alike,
    slept_in: Alike,
    waits: Waits,
    before: Before,
}

const CLOCK: usize = 3;
/// Different places that are told apart; those after them count without their waker.
const MAX_PLACES: usize = 1 << 17;

impl OffCpu {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self {
            chosen: ThreadChoice::of(settings)?,
            alike: Alike::of(settings),
            slept_in: Alike::of_sleep(settings),
            hz: settings.hertz("frequency", 99)?.clamp(1, 10_000),
            ..Self::default()
        })
    }

    fn woken(&mut self, tid: i32, hit: &Sample<'_>, cx: &mut Context<'_>) {
        let Some(begin) = self.away.take(&tid) else { return };
        let away = begin.with;
        cx.comm(hit.tid);
        let ns = begin.took(hit.time).min(hit.time.saturating_sub(self.since));
        let mut key = (tid, away.stack, hit.tid, hit.stack);
        if self.blocked.len() >= MAX_PLACES && !self.blocked.contains_key(&key) {
            key = (tid, away.stack, 0, RetainedStack::NONE);
        }
        let entry = self.blocked.entry(key).or_default();
        entry.0.add(ns);
        entry.1 += if away.uninterruptible { ns } else { 0 };
        cx.point(["sched_switch", "sched_wakeup"], hit.time, ns);
        cx.find(tid, away.stack, || format!("was blocked for {}", unit::duration(ns)));
    }

    /// Whether the sleeps of a place were waits for work.
    fn is_for_work(&mut self, at: &Moment<'_>, stack: RetainedStack, uninterruptible: bool) -> bool {
        !uninterruptible && self.waits.are_for_work(at, stack)
    }

    /// Call sites by who is blocked and the functions, with their wakers; the longest blocked first.
    fn sites(&mut self, at: &Moment<'_>) -> Sites {
        let (mut held, mut idle): (BTreeMap<SiteName, Site>, BTreeMap<SiteName, Site>) = Default::default();
        let mut idlers: FxHashSet<i32> = FxHashSet::default();
        let blocked = std::mem::take(&mut self.blocked);
        for ((tid, stack, waker, by), (stats, uninterruptible)) in &blocked {
            let for_work = self.is_for_work(at, *stack, *uninterruptible > 0);
            idlers.extend(for_work.then_some(*tid));
            let name = (at.program(*tid), self.slept_in.line(at, *stack));
            let site = if for_work { &mut idle } else { &mut held }.entry(name).or_default();
            site.blocked.merge(stats);
            site.uninterruptible += uninterruptible;
            site.wakers.entry((at.program(*waker), self.alike.line(at, *by))).or_default().merge(stats);
        }
        self.blocked = blocked;
        let longest_first = |all: BTreeMap<SiteName, Site>, for_work: bool| {
            let mut list: Vec<_> = all.into_iter().map(|(name, site)| (id(&(&name, for_work)), name, site)).collect();
            arrange(&mut list, |a, b| b.2.blocked.sum.cmp(&a.2.blocked.sum).then_with(|| a.1.cmp(&b.1)));
            list
        };
        let (mut list, idle) = (longest_first(held, false), longest_first(idle, true));
        let rest = list.len();
        if !idle.is_empty() {
            let mut all = Site::default();
            idle.iter().for_each(|(.., site)| all.merge(site));
            let who = shared_by(idle.iter().map(|(_, (comm, _), site)| (comm, site.blocked.sum)));
            list.push((id(&REST), (who.into(), rest_words(idlers.len())), all));
            list.extend(idle);
        }
        Sites { list, rest }
    }

    fn table(&self, sites: &Sites) -> Panel {
        let Sites { list, rest } = sites;
        let total: u64 = list[..*rest].iter().map(|(.., site)| site.blocked.sum).sum();
        let share_of =
            |place: usize, site: &Site| if place < *rest { share(site.blocked.sum, total) } else { Cell::Empty };
        Sheet::of(list.iter().enumerate(), |(_, (key, ..))| *key)
            .right("blocked_ns", "Blocked", 9, |(_, (.., site))| time(site.blocked.sum))
            .right("share_pct", "Share", 8, |(place, (.., site))| share_of(place, site))
            .right("d_ns", "of it D", 9, |(_, (.., site))| time(site.uninterruptible))
            .ranked(4)
            .right("times", "Times", 8, |(_, (.., site))| Cell::Count(site.blocked.n))
            .ranked(2)
            .right("mean_ns", "Mean", 8, |(_, (.., site))| time(site.blocked.mean() as u64))
            .right("max_ns", "Max", 8, |(_, (.., site))| time(site.blocked.max))
            .ranked(3)
            .left("comm", "Who", 16, |(_, (_, (comm, _), _))| text(comm.clone()))
            .left("wakers", "Woken by", 24, |(_, (.., site))| text(site.wakers_text()))
            .ranked(1)
            .left("stack", "Blocked in", 0, |(_, (_, (_, stack), _))| text(stack.clone()))
            .folded_panel("Blocked", *rest)
    }

    /// What is blocked now, the longest first; what waits for work comes last.
    fn under_way(&mut self, at: &Moment<'_>) -> Panel {
        let away: Vec<(i32, u64, Away)> =
            self.away.iter().map(|(tid, span)| (*tid, span.took(at.now), span.with)).collect();
        let mut list: Vec<UnderWay> = Vec::new();
        for (tid, ns, away) in away {
            let for_work = self.is_for_work(at, away.stack, away.uninterruptible);
            let stack = self.slept_in.line(at, away.stack);
            list.push(UnderWay { for_work, ns, is_before: false, tid, stack });
        }
        for thread in self.before.threads() {
            let call = super::syscalls::name_of_blocked(thread).unwrap_or_default();
            let words = [thread.place.as_str(), &call].into_iter().filter(|word| !word.is_empty());
            let stack = words.collect::<Vec<_>>().join(BELOW);
            let ns = at.now.saturating_sub(at.start);
            let for_work = waits_for_work(thread);
            list.push(UnderWay { for_work, ns, is_before: true, tid: thread.tid, stack: stack.into() });
        }
        arrange(&mut list, |a, b| (a.for_work, b.ns, a.tid).cmp(&(b.for_work, a.ns, b.tid)));
        let rest = list.iter().position(|one| one.for_work).unwrap_or(list.len());
        let idle = list.len() - rest;
        if idle > 0 {
            list.insert(
                rest,
                UnderWay { for_work: true, ns: 0, is_before: false, tid: NOBODY, stack: rest_words(idle) },
            );
        }
        let of = |tid: i32| if tid == NOBODY { Cell::Empty } else { Cell::Id(tid.into()) };
        let comm = |tid: i32| if tid == NOBODY { Cell::Empty } else { text(at.comm(tid)) };
        Sheet::of(&list, |one| one.tid as u32 as u64)
            .right("so_far_ns", "So far", 9, |one| time(one.ns))
            .left("since", "", 12, |one| before::mark(one.is_before))
            .left("comm", "Who", 16, |one| comm(one.tid))
            .right("tid", "TID", 8, |one| of(one.tid))
            .left("stack", "Blocked in", 0, |one| text(one.stack.clone()))
            .folded_panel("Under way", rest)
    }

    /// The wakers that ended the sleep of the chosen site, or of all.
    fn wakers(at: &Moment<'_>, sites: &Sites) -> Panel {
        let chosen = at.selected(0).and_then(|row| sites.list.iter().find(|(key, ..)| *key == row));
        let mut all: BTreeMap<&SiteName, Stats> = BTreeMap::new();
        for (.., site) in chosen.map_or(&sites.list[..sites.rest], std::slice::from_ref) {
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
        let whom = chosen.map(|(key, (comm, _), _)| match *key == id(&REST) {
            true => " of what waits for work".to_owned(),
            false => format!(" of {comm} in that place"),
        });
        let whom = whom.unwrap_or_default();
        sheet.panel(format!("Wakers{whom}"))
    }

    /// By who is blocked, in which stack, and who woke it, in which.
    fn places(&self, at: &Moment<'_>) -> BTreeMap<Named, Stats> {
        let mut all: BTreeMap<Named, Stats> = BTreeMap::new();
        for ((tid, stack, waker, by), (stats, _)) in &self.blocked {
            all.entry((at.program(*tid), *stack, at.program(*waker), *by)).or_default().merge(stats);
        }
        all
    }

    fn graphs(&self, at: &Moment<'_>) -> Vec<Panel> {
        let word = |text: &str| Name { text: text.into(), kind: DsoKind::Unknown, dso: "".into() };
        let (mut blocked, mut both) = (Vec::new(), Vec::new());
        for ((comm, stack, waker, by), stats) in self.places(at) {
            let mut one = at.stack(comm, stack, stats.sum, stats.n);
            let mut cold = one.clone();
            cold.frames.insert(1, word("off CPU"));
            both.push(cold);
            // The waker stands on top, its own stack upside down: it meets the blocked one at the wake-up.
            one.frames.push(word(DIVIDER));
            one.frames.extend(at.frames(by).into_iter().rev());
            one.frames.push(word(&waker));
            blocked.push(one);
        }
        for ((tid, pin), ns) in &self.hot {
            let mut hot: Stack = at.stack(at.program(*tid), *pin, *ns, 1);
            hot.frames.insert(1, word("on CPU"));
            both.push(hot);
        }
        vec![
            Panel::flame("Blocked and woken, a flame graph", Measure::Time, blocked),
            Panel::flame("Hot and cold, a flame graph", Measure::Time, both),
        ]
    }
}

impl Unit for OffCpu {
    fn event_requests(&self) -> Vec<EventRequest> {
        let mut wants = sched::wants(true);
        let clock = EventRequest::new("cpu-clock|cycles|task-clock").with_stack(true).optional();
        wants.push(EventRequest { rate: Some(Rate::Frequency(self.hz)), ..clock });
        wants
    }

    fn bind(&mut self, event: &Event<'_>) -> Result<(), String> {
        if event.role == CLOCK { Ok(()) } else { self.reader.bind(event.role, event.format) }
    }

    fn record(&mut self, hit: &Sample<'_>, cx: &mut Context<'_>) {
        if hit.role == CLOCK {
            if hit.tid != 0 && cx.counts(hit.cpu) && self.chosen.has(hit.tid, cx) {
                let ns = self.hot.entry((hit.tid, hit.stack)).or_default();
                *ns = ns.saturating_add(hit.period);
            }
            return;
        }
        self.before.ask(&mut self.chosen, cx);
        match self.reader.read(hit, cx.names) {
            Some(SchedEvent::Switch(switch)) => {
                [switch.prev, switch.next].into_iter().for_each(|tid| self.before.is_told(tid));
                // What runs is not blocked, whether its wake-up was seen or not.
                self.away.take(&switch.next);
                let bits = switch.prev_state;
                let runs = bits == 0 || bits & (state::PREEMPTED | state::DEAD | state::ZOMBIE) != 0;
                if !runs && cx.counts(hit.cpu) && self.chosen.follows(switch.prev, cx) {
                    let uninterruptible = bits & state::UNINTERRUPTIBLE != 0 && bits & state::IDLE == 0;
                    self.away.begin(switch.prev, (), hit.time, Away { stack: hit.stack, uninterruptible });
                }
            }
            Some(SchedEvent::Wakeup(wakeup)) => {
                self.before.is_told(wakeup.tid);
                self.woken(wakeup.tid, hit, cx);
            }
            None => {}
        }
    }

    fn has_findings(&self) -> bool {
        true
    }

    fn chosen(&mut self) -> Option<&mut ThreadChoice> {
        Some(&mut self.chosen)
    }

    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {
        self.away.follow(change, |tid| tid);
        self.before.follow(change);
    }

    fn lost(&mut self, _lost: &Lost) {
        self.away.forget();
        self.before.forget();
    }

    fn loss_text(&self) -> &'static str {
        "what was blocked then is left out"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let sites = self.sites(at);
        let mut panels = vec![self.table(&sites), Self::wakers(at, &sites), self.under_way(at)];
        panels.extend(self.graphs(at));
        let places: Vec<(Place, u64)> = self.blocked.iter().map(|(place, (_, ns))| (*place, *ns)).collect();
        let held = places.into_iter().filter(|((_, stack, ..), ns)| !self.is_for_work(at, *stack, *ns > 0));
        let held: FxHashSet<Place> = held.map(|(place, _)| place).collect();
        let blocked = self.blocked.iter().filter(|(place, _)| held.contains(place));
        let blocked = blocked.map(|((tid, ..), (stats, _))| (*tid, stats));
        panels.extend(self.containers.panel(at, blocked, false));
        panels
    }

    fn reset(&mut self, now: u64) {
        self.since = now;
        self.blocked.clear();
        self.hot.clear();
    }
}
