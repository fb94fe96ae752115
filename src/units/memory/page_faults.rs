//! `page-faults`: minor and major page faults by stack, mapping and address.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::record::Record;
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "page-faults",
    about: "minor and major page faults: the code that causes them, by stack, mapping and address",
    words: "fault memory rss mmap touch swap malloc growth",
    help: "Each fault is a sample with its address. Mappings are those of the process when the fault is read; for a \
           recording, those that it contains (perf record -d). A major fault waited for a disk.",
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
const MAJOR: usize = 1;
const MAX_PLACES: usize = 1 << 17;
/// Addresses are merged into areas of two megabytes.
const AREA: u32 = 21;
/// Time for which cached mappings of a process are considered valid.
const FRESH_NS: u64 = 200_000_000;

type Region = (u64, u64, Arc<str>);

#[derive(Clone, Debug, Default)]
struct PageFaults {
    stacks: FxHashMap<(i32, RetainedStack), [u64; 2]>,
    mappings: FxHashMap<(i32, Arc<str>), [u64; 2]>,
    areas: FxHashMap<(i32, u64), [u64; 2]>,
    regions: FxHashMap<i32, (u64, Vec<Region>)>,
    course: Grid<&'static str>,
    total: [u64; 2],
    labels: StackLabels,
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
        vec![want("minor-faults|page-faults|faults"), want("major-faults")]
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        cx.comm(hit.tid);
        let kind = usize::from(hit.role == MAJOR);
        self.total[kind] += 1;
        self.course.add(&["minor", "major"][kind], hit.time, 1.0);
        if self.stacks.len() < MAX_PLACES || self.stacks.contains_key(&(hit.tid, hit.stack)) {
            self.stacks.entry((hit.tid, hit.stack)).or_default()[kind] += 1;
        }
        let mapping = self.mapping(hit.pid, hit.addr, hit.time, cx);
        cx.find(hit.tid, hit.stack, || format!("{} fault at {:#x} of {mapping}", ["minor", "major"][kind], hit.addr));
        self.mappings.entry((hit.pid, mapping)).or_default()[kind] += 1;
        let area = (hit.pid, hit.addr >> AREA);
        if self.areas.len() < MAX_PLACES || self.areas.contains_key(&area) {
            self.areas.entry(area).or_default()[kind] += 1;
        }
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

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let place = [left("task", "Task", 22), left("stack", "Where", 0)];
        let mapping = [left("process", "Process", 22), left("mapping", "Mapping", 0)];
        let area = [left("process", "Process", 22), right("from", "From", 18), right("to", "To", 18)];
        let faults = self.stacks.iter().map(|((tid, pin), faults)| (*tid, *pin, *faults));
        let places = self.labels.rows(at, faults, |sum: &mut [u64; 2], [minor, major]| {
            *sum = [sum[0] + minor, sum[1] + major];
        });
        let stacks = self.stacks.iter().map(|((tid, pin), [minor, major])| (*tid, *pin, minor + major, minor + major));
        vec![
            self.by("By stack", &places, place, |(tid, stack)| [text(at.task(*tid)), text(stack.clone())]),
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
    }
}
