//! The tables of files.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use crate::units::events::syscalls::error_name;
use crate::units::kit::prelude::*;
use crate::units::kit::tables::containers;

use super::descriptors::PathId;
use super::{Figures, Files};

type Row<'a, K> = (K, &'a Figures);

/// Adds the columns that all tables of files have.
fn with_figures<'a, K: Copy + 'a>(sheet: Sheet<'a, Row<'a, K>>, than: bool) -> Sheet<'a, Row<'a, K>> {
    sheet
        .right("total_ns", "Time", 8, |(_, row)| Cell::Time(row.stats.sum))
        .right("opens", "Opens", 7, |(_, row)| count(row.opens))
        .right("reads", "Reads", 8, |(_, row)| count(row.reads))
        .right("read_bytes", "Read", 9, |(_, row)| bytes(row.read_bytes))
        .right("writes", "Writes", 8, |(_, row)| count(row.writes))
        .right("written_bytes", "Written", 9, |(_, row)| bytes(row.written_bytes))
        .right("syncs", "Syncs", 6, |(_, row)| count(row.syncs))
        .ranked(2)
        .right("errors", "Errors", 7, |(_, row)| count(row.errors))
        .ranked(1)
        .right("p99_ns", "p99", 8, |(_, row)| time(row.stats.quantile(0.99)))
        .ranked(3)
        .right("max_ns", "Max", 8, |(_, row)| time(row.stats.max))
        .ranked(4)
        .when(than, |sheet| sheet.right("than", "Than", 7, |(_, row)| count(row.stats.than)))
}

impl Files {
    pub(super) fn all_panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let files = self.sums(|(file, _)| *file);
        let processes = self.sums(|(_, pid)| *pid);
        let all = processes.values().map(|row| &row.stats).sum();
        let containers = self.containers(at, &processes);
        let mut panels = vec![
            self.files(at, &files),
            self.by_process(at, &processes),
            self.failed(at),
            self.slow(at),
            latency::by_powers("Distribution", &all, Measure::Time),
            self.course.series("Bytes over time", at, Measure::Bytes, 2, |line| (*line).to_owned()),
        ];
        panels.extend(containers);
        panels
    }

    fn files(&self, at: &Moment<'_>, files: &FxHashMap<PathId, Figures>) -> Panel {
        // The process that spends most time on each file.
        let mut most: FxHashMap<PathId, (u64, ThreadKey, u32)> = FxHashMap::default();
        for ((file, pid), row) in &self.rows {
            let best = most.entry(*file).or_insert((row.stats.sum, *pid, 0));
            best.2 += 1;
            if (row.stats.sum, Reverse(*pid)) > (best.0, Reverse(best.1)) {
                (best.0, best.1) = (row.stats.sum, *pid);
            }
        }
        let by = |file: PathId| match most.get(&file) {
            Some((_, pid, 1)) => text(at.task(*pid)),
            Some((_, pid, n)) => text(format!("{} +{}", at.task(*pid), n - 1)),
            None => Cell::Empty,
        };
        let list = by_weight(files.iter().map(|(file, row)| (*file, row)), |row| row.stats.sum);
        let sheet = Sheet::of(list, |(file, _)| id(&file));
        with_figures(sheet, self.slowest.has_threshold())
            .left("process", "Process", 20, move |(file, _)| by(file))
            .ranked(1)
            .left("file", "File", 0, |(file, _)| text(self.paths.name(file)))
            .panel("Files")
    }

    fn by_process(&self, at: &Moment<'_>, processes: &FxHashMap<ThreadKey, Figures>) -> Panel {
        let list = by_weight(processes.iter().map(|(pid, row)| (*pid, row)), |row| row.stats.sum);
        let comm = |of: ThreadKey| if of.tid == 0 { text("(others)") } else { text(at.comm(of)) };
        let sheet = Sheet::of(list, |(process, _)| process.row())
            .left("comm", "Comm", 16, |(process, _)| comm(process))
            .right("pid", "PID", 8, |(process, _)| Cell::Id(process.tid.into()));
        with_figures(sheet, self.slowest.has_threshold()).panel("Processes")
    }

    fn containers(&mut self, at: &Moment<'_>, processes: &FxHashMap<ThreadKey, Figures>) -> Option<Panel> {
        let each = processes.iter().map(|(pid, row)| (*pid, row));
        let sums = self.containers.sums(at, each, Figures::merge, |row| row.stats.sum);
        let list: Vec<Row<'_, usize>> = sums.iter().enumerate().map(|(i, (_, row))| (i, row)).collect();
        let name = |i: usize| sums.get(i).map_or(Cell::Empty, |(name, _)| text(name.as_str()));
        let sheet = Sheet::of(list, |(i, _)| i as u64).left("container", "Container", 30, |(i, _)| name(i));
        (!sums.is_empty()).then(|| with_figures(sheet, self.slowest.has_threshold()).panel(containers::TITLE))
    }

    fn failed(&self, at: &Moment<'_>) -> Panel {
        let list = by_weight(self.failures.iter().map(|(key, n)| (*key, *n)), |n| *n);
        Sheet::of(list, |(key, _)| id(&key))
            .right("times", "Times", 8, |(_, n)| Cell::Count(n))
            .left("call", "Call", 6, |((_, _, call, _), _)| text(call.label()))
            .left("errno", "Error", 14, |((.., error), _)| text(error_name(error)))
            .left("process", "Process", 22, |((_, pid, ..), _)| text(at.task(pid)))
            .left("file", "File", 0, |((file, ..), _)| text(self.paths.name(file)))
            .panel("Failed")
    }

    fn slow(&self, at: &Moment<'_>) -> Panel {
        let result = |result: i64| match result {
            -4095..0 => text(error_name(result.unsigned_abs() as u32)),
            _ => Cell::Id(result),
        };
        Sheet::of(self.slowest.iter(), |(_, number, _)| number)
            .right("time_ns", "At", 9, |(.., of)| Cell::Time(at.after(of.time)))
            .task(at, |(.., of)| of.thread)
            .left("call", "Call", 6, |(.., of)| text(of.call.label()))
            .right("ns", "Took", 9, |(ns, ..)| Cell::Time(ns))
            .right("outcome", "Outcome", 12, move |(.., of)| result(of.result))
            .left("file", "File", 0, |(.., of)| text(self.paths.name(of.file)))
            .whole("Slowest")
    }
}
