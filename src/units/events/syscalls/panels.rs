//! The panels of `syscalls`.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::panel::row_order::arrange_by_key;
use crate::session::Origin;
use crate::units::kit::prelude::*;
use crate::units::kit::waits::initially_blocked;

use super::arguments::names_path;
use super::lines::{ListedCall, stack_panel};
use super::names::{Call, CallTables, error_name};
use super::{Failed, LINES, Row, SLOWEST, Syscalls};

/// Returns the name of a call, with its ABI if that is not the usual one.
fn named_in(tables: CallTables, call: Call) -> String {
    let (name, (is_usual, abi)) = (tables.name(call), tables.abi(call));
    if is_usual { name } else { format!("{name} {abi}") }
}

impl Syscalls {
    pub(super) fn all_panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let tables = self.tables;
        let chosen =
            at.selected(0).and_then(|row| self.rows.iter().find(|(key, _)| id(key) == row)).map(|(_, row)| row);
        let all = chosen.map_or_else(|| self.rows.values().map(|row| &row.stats).sum(), |row| row.stats.clone());
        let containers = self.containers.panel(at, self.threads.iter().map(|(thread, stats)| (*thread, stats)), false);
        let mut names: FxHashMap<ThreadKey, String> = FxHashMap::default();
        let threads: FxHashSet<ThreadKey> = self.lines.threads(at.look.rows).collect();
        names.extend(threads.into_iter().filter_map(|thread| Some((thread, self.containers.container(at, thread)?))));
        let mut panels = vec![
            self.table(at),
            self.under_way(at),
            self.errors(at, chosen),
            self.by_thread(at),
            self.slow(at),
            latency::by_powers("Distribution", &all, Measure::Time),
            self.course.series("Calls over time", at, Measure::Count, 24, |call| named_in(tables, *call)),
            self.lines.panel(at, tables, &names),
        ];
        panels.extend(self.targets.panels(self.descriptors.failure()));
        if self.has_stacks || self.choice.is_narrow() {
            panels.push(stack_panel(at, self.under_cursor(at)));
        }
        panels.extend(containers);
        panels
    }

    fn table(&self, at: &Moment<'_>) -> Panel {
        let tables = self.tables;
        let mut now: FxHashMap<(ThreadKey, Call), (u64, u64)> = FxHashMap::default();
        for (tid, call, ns) in self.open_calls(at) {
            let key = (if self.per_thread { at.names.key(tid) } else { ThreadKey::default() }, call);
            let entry = now.entry(key).or_default();
            *entry = (entry.0 + 1, entry.1.max(ns));
        }
        let nothing = Row::default();
        let keys = self.rows.keys().chain(now.keys().filter(|key| !self.rows.contains_key(key)));
        let list = by_weight(keys.map(|key| (key, self.rows.get(key).unwrap_or(&nothing))), |row| row.stats.sum);
        let most = |row: &Row| {
            let most = row.errors.iter().max_by_key(|(number, of)| (of.times, std::cmp::Reverse(**number)));
            most.map_or(Cell::Empty, |(number, _)| text(error_name(*number)))
        };
        // Includes calls without a time.
        let spread = |row: &Row| {
            let mut cells = latency::cells(&row.stats, self.slowest.has_threshold());
            cells[0] = Cell::Count(row.stats.n + row.untimed);
            cells
        };
        let is_mixed = list.iter().any(|((_, call), _)| !tables.abi(*call).0);
        let sheet = Sheet::of(list, |(key, _)| id(key))
            .left("call", "Call", 20, |((_, call), _)| text(tables.name(*call)))
            .when(is_mixed, |sheet| sheet.left("abi", "ABI", 6, |((_, call), _)| text(tables.abi(*call).1)))
            .when(self.per_thread, |sheet| sheet.task(at, |((thread, _), _)| *thread))
            .columns(latency::columns(self.slowest.has_threshold()), |(_, row)| spread(row))
            .right("errors", "Errors", 8, |(_, row)| count(row.errors.values().map(|of| of.times).sum()))
            .left("errno", "Top error", 14, |(_, row)| most(row))
            .right("now", "Now", 5, |(key, _)| count(now.get(key).map_or(0, |(n, _)| *n)))
            .right("oldest_ns", "Oldest", 9, |(key, _)| now.get(key).map_or(Cell::Empty, |(_, ns)| Cell::Time(*ns)));
        let untimed = self.rows.values().map(|row| row.untimed).sum();
        let untimed = note(untimed, "call", "without a time: begun before, or answered by seccomp or a tracer");
        sheet.panel("Calls").noted(all_notes([self.summed.note(self.limit_ns(), at), untimed]))
    }

    /// Returns the calls that have not returned, with the time that they have taken.
    fn open_calls(&self, at: &Moment<'_>) -> impl Iterator<Item = (i32, Call, u64)> {
        let (now, until) = (at.now, self.summed.count.until());
        let began = self.open.iter().filter(|(_, begin)| begin.with.is_here);
        let began = began.map(move |(tid, begin)| (*tid, begin.what, begin.took(now)));
        let summed = self.summed.open.iter();
        began.chain(summed.map(move |(tid, call, start)| (*tid, *call, until.saturating_sub(*start))))
    }

    fn errors(&self, at: &Moment<'_>, chosen: Option<&Row>) -> Panel {
        let tables = self.tables;
        let mut list: Vec<(Call, u32, &Failed, u64)> = Vec::new();
        for ((_, number), row) in &self.rows {
            if chosen.is_none_or(|chosen| std::ptr::eq(chosen, row)) {
                let calls = row.stats.n + row.untimed;
                list.extend(row.errors.iter().map(|(error, failed)| (*number, *error, failed, calls)));
            }
        }
        arrange_by_key(&mut list, |(number, error, failed, _)| {
            (std::cmp::Reverse(failed.times), *number, *error, failed.thread)
        });
        let last = |call: Call, failed: &Failed| failed.made.line(tables, call);
        let lacks_paths = self.text_fields.is_empty() && at.session.origin() == Origin::Live;
        let lacks_paths = lacks_paths && list.iter().any(|(call, ..)| names_path(&tables.name(*call)));
        let paths = if lacks_paths { "paths are addresses: --paths records the paths" } else { "" };
        Sheet::of(list, |(number, error, ..)| id(&(number, error)))
            .left("call", "Call", 20, |(number, ..)| text(tables.name(number)))
            .left("errno", "Error", 18, |(_, error, ..)| text(error_name(error)))
            .right("errors", "Times", 10, |(_, _, failed, _)| Cell::Count(failed.times))
            .right("share_pct", "%calls", 9, |(_, _, failed, calls)| share(failed.times, calls))
            .left("last_by", "Last by", 20, |(_, _, failed, _)| text(at.task(failed.thread)))
            .ranked(1)
            .left("last_call", "Last call", 0, move |(call, _, failed, _)| text(last(call, failed)))
            .ranked(1)
            .begins_with_what_matters()
            .panel("Errors")
            .noted(paths.to_owned())
    }

    fn under_way(&self, at: &Moment<'_>) -> Panel {
        let tables = self.tables;
        let began = self.open_calls(at).map(|(tid, call, ns)| (tid, call, ns, false));
        // Since the events are open, no record shows a return. The session's start is earlier, and a loss is later.
        let ns = at.now.saturating_sub(at.since.max(self.whole_since));
        let blocked = self.initial.threads().filter_map(|thread| Some((thread.tid, Call::of_blocked(thread)?)));
        // The returns of other calls are not measured.
        let chosen = blocked.filter(|(_, call)| self.choice.has(*call, tables));
        let before = chosen.map(|(tid, call)| (tid, call, ns, true));
        let mut list: Vec<(i32, Call, u64, bool)> = began.chain(before).collect();
        arrange_by_key(&mut list, |(tid, _, ns, _)| (std::cmp::Reverse(*ns), *tid));
        Sheet::of(list, |(tid, ..)| tid as u64)
            .task(at, |(tid, ..)| tid)
            .left("call", "Call", 20, |(_, call, ..)| text(tables.name(call)))
            .right("so_far_ns", "So far", 9, |(_, _, ns, _)| Cell::Time(ns))
            .left("since", "", 12, |(.., is_before)| initially_blocked::mark(is_before))
            .panel("Under way")
    }

    /// Returns the selected call of the lines or of the slowest ones, else the newest line.
    fn under_cursor(&self, at: &Moment<'_>) -> Option<&ListedCall> {
        let line = at.selected(LINES).and_then(|number| self.lines.get(number));
        let slow = || at.selected(SLOWEST).and_then(|row| self.slowest.iter().find(|(_, id, _)| *id == row));
        line.or_else(|| slow().map(|(.., call)| call)).or_else(|| self.lines.newest())
    }

    fn by_thread(&self, at: &Moment<'_>) -> Panel {
        Sheet::of(by_weight(&self.threads, |stats| stats.sum), |(thread, _)| thread.row())
            .task(at, |(thread, _)| *thread)
            .latency(false, |(_, stats)| stats)
            .panel("Threads")
    }

    fn slow(&self, at: &Moment<'_>) -> Panel {
        let tables = self.tables;
        let error = |result: i64| match result {
            -4095..0 => text(error_name(result.unsigned_abs() as u32)),
            _ => Cell::Empty,
        };
        Sheet::of(self.slowest.iter(), |(_, number, _)| number)
            .right("time_ns", "At", 9, |(.., of)| Cell::Time(at.after(of.time)))
            .task(at, |(.., of)| of.thread)
            .left("call", "Call", 16, |(.., of)| text(tables.name(of.call)))
            .ranked(2)
            .right("ns", "Took", 9, |(ns, ..)| Cell::Time(ns))
            .right("result", "Result", 12, |(.., of)| Cell::Id(of.result))
            .left("errno", "Error", 14, |(.., of)| error(of.result))
            .ranked(1)
            .left("line", "Arguments", 0, |(.., of)| text(of.made.line(tables, of.call)))
            .begins_with_what_matters()
            .whole("Slowest")
            .noted(self.summed.slow_note(self.limit_ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::calls::Abi;

    #[test]
    fn a_call_of_the_other_abi_says_so() {
        let tables = CallTables::X86_64;
        let native = tables.numbers("read").map(|number| Call { number, abi: Abi::Native });
        let named: Vec<String> = native.map(|call| named_in(tables, call)).collect();
        assert!(named.contains(&"read".to_owned()), "{named:?}");
        assert_eq!(named_in(tables, Call { number: 3, abi: Abi::Compat }), "read 32-bit");
    }
}
