//! `page-faults`: minor and major page faults by stack, mapping and address.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::record::Record;
use crate::units::kit::figures::sum_shares::SumShares;
use crate::units::kit::prelude::*;
use crate::units::kit::{SummedCount, SummedHits};

pub(crate) const SPEC: Spec = Spec {
    name: "page-faults",
    about: "minor and major page faults: the code that causes them, by stack, mapping and address",
    words: "fault memory rss mmap touch swap malloc growth",
    help: "Each fault is a sample with its address. Mappings are those of the process when the fault is read; for a \
           recording, those that it contains (perf record -d). A major fault waited for a disk. Minor faults above \
           about 1,000/s on a CPU are summed in the kernel by thread: their number is exact, and stacks, mappings and \
           addresses are those of faults selected by chance. They are recorded one by one with options that choose \
           threads by name, CPUs or modes.",
    example: "perfprof-tui page-faults -p 1234",
    output: "\
$ perfprof-tui page-faults --batch --duration 1
 Faults   Share    Minor  Major  Task              Where
418,454  69.3 %  418,454      0  faultstorm-28107  touch_hot < __libc…
139,400  23.1 %  139,400      0  faultstorm-28107  touch_cold < __lib…",
    options: &["comm", "pids", "tids", "addresses"],
    sees: Sees::Target,
    across: None,
    interval: None,
    make: |settings| Ok(Box::new(PageFaults::new(settings))),
};

/// Roles: separate events for both kinds, or a common one.
const MINOR: usize = 0;
const MAJOR: usize = 1;
const MAX_PLACES: usize = 1 << 17;
/// Addresses are merged into areas of two megabytes.
const AREA: u32 = 21;
/// Time for which cached mappings of a process are considered valid.
const FRESH_NS: u64 = 200_000_000;

type Region = (u64, u64, Arc<str>);

/// The rows in which a fault counts.
#[derive(Clone, Debug)]
struct Place {
    thread: ThreadKey,
    process: ThreadKey,
    stack: RetainedStack,
    mapping: Arc<str>,
    area: u64,
}

#[derive(Clone, Debug, Default)]
struct PageFaults {
    stacks: FxHashMap<(ThreadKey, RetainedStack), [u64; 2]>,
    mappings: FxHashMap<(ThreadKey, Arc<str>), [u64; 2]>,
    areas: FxHashMap<(ThreadKey, u64), [u64; 2]>,
    regions: FxHashMap<i32, (u64, Vec<Region>)>,
    course: Grid<&'static str>,
    total: [u64; 2],
    labels: StackLabels,
    /// Minor faults that were summed in the kernel.
    summed: SummedCount,
    shares: SumShares<Place>,
}

impl PageFaults {
    fn new(settings: &Settings) -> Self {
        Self { labels: StackLabels::of(settings), ..Self::default() }
    }

    fn mapping(&mut self, pid: i32, address: u64, time: u64, cx: &Context<'_>) -> Arc<str> {
        let find = |list: &[Region]| {
            let at = list.partition_point(|(start, ..)| *start <= address).checked_sub(1)?;
            list.get(at).filter(|(_, end, _)| address < *end).map(|(.., name)| name.clone())
        };
        if let Some((_, list)) = self.regions.get(&pid)
            && let Some(found) = find(list)
        {
            return found;
        }
        let old = self.regions.get(&pid).is_none_or(|(read, _)| time.saturating_sub(*read) > FRESH_NS);
        let fresh = if old { cx.session.regions(pid) } else { Vec::new() };
        if !fresh.is_empty() {
            if self.regions.len() > 4096 {
                self.regions.clear();
            }
            let found = find(&fresh);
            self.regions.insert(pid, (time, fresh));
            if let Some(found) = found {
                return found;
            }
        }
        if address >> 63 == 1 { "[kernel]".into() } else { "[unknown]".into() }
    }

    /// Adds faults to the rows of a place.
    fn count(&mut self, place: &Place, kind: usize, n: u64) {
        let stack = (place.thread, place.stack);
        if self.stacks.len() < MAX_PLACES || self.stacks.contains_key(&stack) {
            self.stacks.entry(stack).or_default()[kind] += n;
        }
        self.mappings.entry((place.process, place.mapping.clone())).or_default()[kind] += n;
        let area = (place.process, place.area);
        if self.areas.len() < MAX_PLACES || self.areas.contains_key(&area) {
            self.areas.entry(area).or_default()[kind] += n;
        }
    }

    /// Distributes summed faults over the rows of recorded ones.
    fn share_out(&mut self) {
        let mut shares = std::mem::take(&mut self.shares);
        shares.share_out(|place, n| self.count(place, MINOR, n));
        self.shares = shares;
    }

    fn note(&self, at: &Moment<'_>) -> String {
        let rate = self.summed.note("minor fault", at);
        if rate.is_empty() {
            return rate;
        }
        format!("{rate}; stacks, mappings and addresses are those of faults selected by chance")
    }

    fn by<'a, K: Ord + Hash + 'a, const N: usize>(
        &self,
        title: &str,
        map: impl IntoIterator<Item = (&'a K, &'a [u64; 2])>,
        columns: [Column; N],
        cells: impl Fn(&K) -> [Cell; N],
    ) -> Panel {
        Sheet::of(by_weight(map, |[minor, major]| minor + major), |(key, _)| id(key))
            .right("faults", "Faults", 10, |(_, [minor, major])| Cell::Count(minor + major))
            .share(|(_, [minor, major])| minor + major, self.total.iter().sum())
            .right("minor", "Minor", 10, |(_, [minor, _])| Cell::Count(*minor))
            .right("major", "Major", 8, |(_, [_, major])| Cell::Count(*major))
            .columns(columns, |(key, _)| cells(key))
            .panel(title)
    }
}

impl Unit for PageFaults {
    fn event_requests(&self) -> Vec<EventRequest> {
        let want = |event: &str| {
            EventRequest { rate: Some(Rate::Period(1)), ..EventRequest::new(event) }.with_stack(true).optional()
        };
        vec![want("minor-faults|page-faults|faults").summed(), want("major-faults")]
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        cx.comm(hit.tid);
        let kind = if hit.role == MAJOR { MAJOR } else { MINOR };
        self.total[kind] += 1;
        self.course.add(&["minor", "major"][kind], hit.time, 1.0);
        let mapping = self.mapping(hit.pid, hit.addr, hit.time, cx);
        cx.find(hit.tid, hit.stack, || format!("{} fault at {:#x} of {mapping}", ["minor", "major"][kind], hit.addr));
        let (thread, process) = (cx.thread(hit.tid), cx.thread(hit.pid));
        let place = Place { thread, process, stack: hit.stack, mapping, area: hit.addr >> AREA };
        self.count(&place, kind, 1);
        if kind == MINOR {
            self.shares.keep(hit.tid, place);
        }
    }

    fn add_hits(&mut self, hits: &SummedHits, cx: &mut Context<'_>) {
        self.share_out();
        for sum in &hits.sums {
            cx.comm(sum.tid);
            self.shares.add(sum.tid, sum.pid, sum.n);
        }
        let n = hits.sums.iter().map(|sum| sum.n).sum();
        self.total[MINOR] += n;
        self.summed.add((hits.from, hits.until), n);
        self.course.add(&"minor", hits.until, n as f64);
    }

    fn has_findings(&self) -> bool {
        true
    }

    fn on_sideband(&mut self, record: &Record<'_>, time: u64, _cx: &mut Context<'_>) {
        if let Record::Mmap(map) = record {
            let (_, list) = self.regions.entry(map.pid).or_insert((time, Vec::new()));
            let name: Arc<str> = String::from_utf8_lossy(map.name).into();
            list.retain(|(start, end, _)| *end <= map.start || *start >= map.start.saturating_add(map.len));
            let at = list.partition_point(|(start, ..)| *start < map.start);
            list.insert(at, (map.start, map.start.saturating_add(map.len), name));
        }
    }

    /// A process that gets an earlier one's number, or runs another program, has other mappings.
    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {
        match change {
            ThreadChange::Born { pid, tid } if pid == tid => _ = self.regions.remove(pid),
            ThreadChange::Exec { pid, .. } => _ = self.regions.remove(pid),
            ThreadChange::Born { .. } | ThreadChange::Ended { .. } => {}
        }
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        self.share_out();
        let place = [left("task", "Task", 22), left("stack", "Where", 0)];
        let mapping = [left("process", "Process", 22), left("mapping", "Mapping", 0)];
        let area = [left("process", "Process", 22), right("from", "From", 18), right("to", "To", 18)];
        let faults = self.stacks.iter().map(|((thread, pin), faults)| (*thread, *pin, *faults));
        let rest = self.shares.rest().map(|(tid, _, n)| (at.names.key(tid), RetainedStack::NONE, [n, 0]));
        let faults = faults.chain(rest);
        let places = self.labels.rows(at, faults, |sum: &mut [u64; 2], [minor, major]| {
            *sum = [sum[0] + minor, sum[1] + major];
        });
        let stacks =
            self.stacks.iter().map(|((thread, pin), [minor, major])| (*thread, *pin, minor + major, minor + major));
        vec![
            self.by("By stack", &places, place, |(thread, stack)| [text(at.task(*thread)), text(stack.clone())])
                .noted(self.note(at)),
            self.by("By mapping", &self.mappings, mapping, |(pid, name)| [text(at.task(*pid)), text(name.clone())]),
            self.by("By address, 2 MiB each", &self.areas, area, |(pid, area)| {
                let (from, to) = (area << AREA, (area << AREA) + ((1 << AREA) - 1));
                [text(at.task(*pid)), Cell::Address(from), Cell::Address(to)]
            }),
            at.flame("Faults as a flame graph", Measure::Count, stacks),
            self.course.series("Faults over time", at, Measure::Count, 2, |kind| (*kind).to_owned()),
        ]
    }

    fn reset(&mut self, _now: u64) {
        self.stacks.clear();
        self.mappings.clear();
        self.areas.clear();
        self.course.clear();
        self.total = [0; 2];
        self.summed.reset();
        self.shares.reset();
    }

    fn restart(&mut self, now: u64) {
        self.reset(now);
        self.shares = SumShares::default();
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashSet;

    use super::*;
    use crate::profile::Profile;
    use crate::session::{Origin, Session};
    use crate::source::HitSum;
    use crate::units::kit::{ThreadNames, ViewState};

    #[test]
    fn summed_faults_count_in_the_rows_of_recorded_ones() {
        let (session, profile, look) = (Session::new(Origin::Recorded), Profile::default(), ViewState::default());
        let (mut names, own) = (ThreadNames::default(), FxHashSet::default());
        let mut unit = PageFaults::new(&Settings::default());
        let sum = |tid: i32, n: u64| HitSum { tid, pid: 7, n };
        let hits = SummedHits { role: MINOR, from: 0, until: 100, sums: vec![sum(7, 11), sum(8, 5)] };
        let mut cx = Context::new(&session, &mut names, &own);
        // The rings are read after the sums.
        unit.add_hits(&hits, &mut cx);
        let fault =
            |role: usize, addr: u64| UnitSample { role, addr, pid: 7, tid: 7, time: 50, ..UnitSample::default() };
        for hit in [fault(MINOR, 0x1000), fault(MINOR, 3 << AREA), fault(MAJOR, 0x1000)] {
            unit.record(&hit, &mut cx);
        }
        let at =
            Moment { session: &session, profile: &profile, names: &names, start: 0, since: 0, now: 100, look: &look };
        let panels = unit.panels(&at);
        assert!(panels[0].note.starts_with("summed in the kernel: 160,000,000 minor faults/s; "), "{}", panels[0].note);
        let areas: Vec<((ThreadKey, u64), [u64; 2])> = by_weight(unit.areas.clone(), |[minor, _]| *minor);
        let process = ThreadKey::of_row(7);
        assert_eq!(areas, [((process, 3), [7, 0]), ((process, 0), [6, 1])]);
        assert_eq!((unit.total, unit.stacks.values().copied().collect::<Vec<_>>()), ([18, 1], vec![[13, 1]]));
        assert_eq!(unit.shares.rest().collect::<Vec<_>>(), [(8, 7, 5)], "no fault of this thread was recorded");
        unit.reset(0);
        assert!(unit.panels(&at)[0].note.is_empty());
    }
}
