//! The panels of threads' time: threads and pools, parts, stacks, flame graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::panel::row_order::arrange;
use crate::panel::stacks::{FrameName, Stack};
use crate::panel::{Rows, unit};
use crate::session::DsoKind;
use crate::units::kit::prelude::*;
use crate::units::kit::tables::containers;
use crate::units::kit::waits::sched;

use super::Waits;
use super::parts::{PARTS, TimePart};
use super::pieces::TimePiece;

type PartTimes = [u64; PARTS];

/// The parts of a time, and the whole as it was measured.
#[derive(Clone, Copy, Debug, Default)]
struct TimeSum {
    parts: PartTimes,
    active: u64,
    wall: u64,
}

/// A thread, or a pool of threads of one name.
#[derive(Clone, Debug)]
struct TimeRow {
    id: u64,
    name: Arc<str>,
    /// The thread; `None` for a pool.
    thread: Option<ThreadKey>,
    threads: u64,
    depth: u16,
    times: TimeSum,
}

/// Rows that the table shows, the most active ones.
const MOST_ROWS: usize = 500;
/// Parts that a row lists in words.
const NAMED: usize = 5;

impl TimeSum {
    fn add(&mut self, times: &Self) {
        self.parts.iter_mut().zip(times.parts).for_each(|(sum, ns)| *sum += ns);
        self.active += times.active;
        self.wall += times.wall;
    }

    /// The order of rows: the most active first, then by wall time.
    fn order(&self) -> std::cmp::Reverse<(u64, u64)> {
        std::cmp::Reverse((self.active, self.wall))
    }
}

/// Lists the parts by their shares, the largest first.
fn in_words(times: &PartTimes) -> String {
    let total = times.iter().sum::<u64>().max(1) as f64;
    let mut list: Vec<(u64, &str)> =
        TimePart::ALL.iter().map(|(part, .., label)| (times[*part as usize], *label)).collect();
    list.retain(|(ns, _)| *ns > 0);
    list.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let share = |ns: u64| unit::percent(100.0 * ns as f64 / total);
    let words: Vec<String> = list.iter().take(NAMED).map(|(ns, label)| format!("{label} {}", share(*ns))).collect();
    words.join(", ")
}

/// Returns the name of a pool: that of a thread with `N` in place of numbers.
fn pool_name(comm: &str) -> String {
    let mut name = String::with_capacity(comm.len());
    for c in comm.chars() {
        match c.is_ascii_digit() {
            false => name.push(c),
            true if name.ends_with('N') => {}
            true => name.push('N'),
        }
    }
    name
}

impl Waits {
    pub(super) fn all_panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let (pieces, walls) = self.pieces(at);
        let mut by_thread: BTreeMap<ThreadKey, TimeSum> = BTreeMap::new();
        for piece in &pieces {
            let times = by_thread.entry(piece.thread).or_default();
            times.parts[piece.part as usize] += piece.ns;
            times.active += if piece.is_active { piece.ns } else { 0 };
        }
        by_thread.iter_mut().for_each(|(thread, times)| times.wall = walls.get(thread).copied().unwrap_or(0));
        let rows = Self::time_rows(at, &by_thread);
        let chosen = at.selected(0).and_then(|id| rows.iter().position(|row| row.id == id));
        let members = chosen.map(|row| Self::members(&rows, row));
        let is_chosen = |piece: &&TimePiece| members.as_ref().is_none_or(|threads| threads.contains(&piece.thread));
        let own: Vec<&TimePiece> = pieces.iter().filter(is_chosen).collect();
        let of = chosen.map(|row| format!(" of {}", rows[row].name)).unwrap_or_default();
        let part = at.selected(1).and_then(TimePart::of_id).filter(|part| own.iter().any(|piece| piece.part == *part));
        let mut panels = vec![
            self.threads(&rows),
            Self::parts(&own, &of),
            self.stacks(at, &own, part, &of),
            self.graph(at, &own, part, &of),
        ];
        panels.extend(self.by_container(at, &by_thread));
        panels
    }

    /// Returns the rows of threads, pools with their threads below them.
    fn time_rows(at: &Moment<'_>, by_thread: &BTreeMap<ThreadKey, TimeSum>) -> Vec<TimeRow> {
        let mut pools: BTreeMap<(Arc<str>, String), Vec<TimeRow>> = BTreeMap::new();
        for (thread, times) in by_thread {
            let name = at.comm(*thread);
            let row = TimeRow { id: thread.row(), thread: Some(*thread), threads: 1, depth: 0, times: *times, name };
            pools.entry((at.program(*thread), pool_name(&row.name))).or_default().push(row);
        }
        let mut groups: Vec<Vec<TimeRow>> = Vec::with_capacity(pools.len());
        for (key, mut threads) in pools {
            arrange(&mut threads, |a, b| (a.times.order(), a.thread).cmp(&(b.times.order(), b.thread)));
            if threads.len() > 1 {
                let mut times = TimeSum::default();
                threads.iter().for_each(|row| times.add(&row.times));
                threads.iter_mut().for_each(|row| row.depth = 1);
                let is_one_name = threads.iter().all(|row| row.name == threads[0].name);
                let name = if is_one_name { threads[0].name.clone() } else { key.1.as_str().into() };
                let pool = TimeRow { id: id(&key), name, thread: None, threads: threads.len() as u64, depth: 0, times };
                threads.insert(0, pool);
            }
            groups.push(threads);
        }
        arrange(&mut groups, |a, b| (a[0].times.order(), a[0].id).cmp(&(b[0].times.order(), b[0].id)));
        groups.into_iter().flatten().collect()
    }

    /// Returns the threads of a row.
    fn members(rows: &[TimeRow], row: usize) -> FxHashSet<ThreadKey> {
        let depth = rows[row].depth;
        let inner = rows[row + 1..].iter().take_while(|inner| inner.depth > depth);
        rows[row..=row].iter().chain(inner).filter_map(|row| row.thread).collect()
    }

    /// Adds the columns of parts. The largest ones stay if there is not enough room.
    fn with_parts<'a, T: Copy + 'a>(
        sheet: Sheet<'a, T>,
        totals: &TimeSum,
        times: impl Fn(T) -> &'a TimeSum + 'a,
    ) -> Sheet<'a, T> {
        let largest = by_weight(totals.parts.iter().enumerate(), |ns| **ns);
        let rank = |part: usize| largest.iter().position(|(at, _)| *at == part).unwrap_or(PARTS) as u8;
        let columns = TimePart::ALL.map(|(part, name, title, _)| right(name, title, 9).ranked(3 + rank(part as usize)));
        sheet.columns(columns, move |row| times(row).parts.iter().map(|ns| time(*ns)).collect::<Vec<_>>())
    }

    fn threads(&self, rows: &[TimeRow]) -> Panel {
        let mut totals = TimeSum::default();
        rows.iter().filter(|row| row.depth == 0).for_each(|row| totals.add(&row.times));
        let shown = &rows[..rows.len().min(MOST_ROWS)];
        let sheet =
            Sheet::of(shown, |row| row.id)
                .right("active_ns", "Active", 9, |row| time(row.times.active))
                .ordered()
                .left("comm", "Comm", 16, |row| text(row.name.clone()))
                .right("tid", "TID", 8, |row| row.thread.map_or(Cell::Empty, |thread| Cell::Id(thread.tid.into())))
                .ranked(1)
                .right("threads", "Threads", 7, |row| {
                    if row.thread.is_some() { Cell::Empty } else { Cell::Count(row.threads) }
                })
                .ranked(2)
                .right("wall_ns", "Wall", 9, |row| time(row.times.wall))
                .ranked(2);
        let table = Self::with_parts(sheet, &totals, |row| &row.times)
            .left("parts", "Parts", 0, |row| text(in_words(&row.times.parts)))
            .listed()
            .rows();
        let (depth, more) = (shown.iter().map(|row| row.depth).collect(), rows.len() - shown.len());
        let rows = Rows { depth, more, is_folded: true, ..table };
        let dropped = note(self.times.dropped, "thread", "left out: more than can be kept");
        let unwoken = sched::note_unwoken(self.unwoken, self.woken, "those sleeps count until the thread runs");
        let foreign = note(self.foreign, "thread", "left out: the recording has the switches of other threads only");
        let notes = [dropped, foreign, unwoken].into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>();
        Panel::new("Threads", Body::Tree(rows)).noted(notes.join("; "))
    }

    fn parts(own: &[&TimePiece], of: &str) -> Panel {
        #[derive(Clone, Copy, Default)]
        struct PartRow {
            ns: u64,
            n: u64,
            max: u64,
        }
        let mut sums: BTreeMap<TimePart, PartRow> = BTreeMap::new();
        for piece in own {
            let sum = sums.entry(piece.part).or_default();
            (sum.ns, sum.n, sum.max) = (sum.ns + piece.ns, sum.n + piece.n, sum.max.max(piece.max));
        }
        let total = sums.values().map(|sum| sum.ns).sum();
        Sheet::of(by_weight(sums, |sum| sum.ns), |(part, _)| part as u64)
            .right("ns", "Time", 9, |(_, sum)| time(sum.ns))
            .share(|(_, sum)| sum.ns, total)
            .right("times", "Times", 8, move |(_, sum)| count(sum.n))
            .right("max_ns", "Max", 9, |(_, sum)| time(sum.max))
            .left("part", "Part", 0, |(part, _)| text(part.label()))
            .whole(format!("Parts{of}"))
    }

    fn stacks(&mut self, at: &Moment<'_>, own: &[&TimePiece], part: Option<TimePart>, of: &str) -> Panel {
        #[derive(Clone, Debug, Default)]
        struct PlaceRow {
            ns: u64,
            n: u64,
            by: BTreeMap<Arc<str>, u64>,
        }
        let mut sums: BTreeMap<(TimePart, Arc<str>), PlaceRow> = BTreeMap::new();
        for piece in own.iter().filter(|piece| part.is_none_or(|part| piece.part == part)) {
            let sum = sums.entry((piece.part, piece.line(at, &mut self.labels))).or_default();
            (sum.ns, sum.n) = (sum.ns + piece.ns, sum.n + piece.n);
            piece.by.iter().for_each(|by| *sum.by.entry(by.clone()).or_default() += piece.ns);
        }
        let total = sums.values().map(|sum| sum.ns).sum();
        let list = by_weight(&sums, |sum| sum.ns);
        let ended_by = |by: &BTreeMap<Arc<str>, u64>| {
            let list = by_weight(by, |ns| **ns);
            text(list.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>().join(", "))
        };
        let what = part.map(|part| format!(" in {}", part.label())).unwrap_or_default();
        Sheet::of(&list, |(key, _)| id(key))
            .right("ns", "Time", 9, |(_, sum)| time(sum.ns))
            .share(|(_, sum)| sum.ns, total)
            .right("times", "Times", 8, move |(_, sum)| count(sum.n))
            .ranked(1)
            .left("part", "Part", 10, |((part, _), _)| text(part.label()))
            .left("wakers", "Ended by", 16, move |(_, sum)| ended_by(&sum.by))
            .listed()
            .ranked(2)
            .left("stack", "Where", 0, |((_, line), _)| text(line.clone()))
            .panel(format!("Stacks{what}{of}"))
    }

    /// Makes the flame graph of a part, or of all parts.
    fn graph(&self, at: &Moment<'_>, own: &[&TimePiece], part: Option<TimePart>, of: &str) -> Panel {
        let word = |text: &str| FrameName { text: text.into(), kind: DsoKind::Unknown, dso: "".into() };
        let mut stacks = Vec::new();
        for piece in own.iter().filter(|piece| part.is_none_or(|part| piece.part == part)) {
            let frames = piece.frames(at, self);
            let mut stack = Stack::of(at.program(piece.thread), frames, (piece.ns, piece.n));
            stack.frames.insert(1, word(piece.part.label()));
            stacks.push(stack);
        }
        let what = part.map_or("Time", TimePart::label);
        Panel::flame(format!("{what}{of}, a flame graph"), Measure::Time, stacks)
    }

    fn by_container(&mut self, at: &Moment<'_>, by_thread: &BTreeMap<ThreadKey, TimeSum>) -> Option<Panel> {
        let threads = by_thread.iter().map(|(thread, times)| (*thread, *times));
        let sums = self.containers.sums(at, threads, |sum: &mut TimeSum, times| sum.add(&times), |times| times.active);
        let mut totals = TimeSum::default();
        sums.iter().for_each(|(_, times)| totals.add(times));
        let sheet = ByContainer::sheet(&sums)?;
        Some(Self::with_parts(sheet, &totals, |(_, (_, times))| times).panel(containers::TITLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_pool_differ_by_numbers() {
        for (comm, pool) in
            [("worker-12", "worker-N"), ("kworker/0:1H", "kworker/N:NH"), ("java", "java"), ("12", "N"), ("", "")]
        {
            assert_eq!(pool_name(comm), pool);
        }
    }

    #[test]
    fn parts_are_listed_by_size() {
        let mut times = TimeSum { wall: 40, active: 10, ..TimeSum::default() };
        (times.parts[TimePart::Lock as usize], times.parts[TimePart::User as usize]) = (30, 10);
        assert_eq!(in_words(&times.parts), "lock 75.0 %, user code 25.0 %");
        times.add(&times.clone());
        assert_eq!((times.active, times.wall, times.parts[TimePart::Lock as usize]), (20, 80, 60));
    }
}
