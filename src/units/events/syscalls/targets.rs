//! Sums of calls by the file or peer of their descriptor, path or address, and by kind of descriptor.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::session::monotonic_ns;
use crate::units::kit::descriptors::{Described, DescriptorKind, DescriptorNames, NamePurpose};
use crate::units::kit::prelude::*;

use super::arguments::Arguments;
use super::known_descriptors::{KnownDescriptor, KnownDescriptors};
use super::lookups::{DescriptorLookup, DescriptorName, Lookups};
use super::names::{Call, CallTables, error_name};
use super::shapes::{CallShape, FdEffect, Transfer};

/// The limit of rows; further ones share a row.
const MAX_ROWS: usize = 1 << 14;
/// The time for which the name of a descriptor is kept, in nanoseconds: it may be closed unnoticed.
const MAX_AGE: u64 = 1_000_000_000;

/// The flag of close_range(2) by which exec closes the descriptors (linux/close_range.h).
const CLOSE_RANGE_CLOEXEC: u64 = 4;
/// The commands of fcntl(2) that duplicate a descriptor: `F_DUPFD` and `F_DUPFD_CLOEXEC` (linux/fcntl.h).
const DUPLICATING: [u64; 2] = [0, 1030];

/// The row of further files and peers, and that of descriptors whose lookup failed.
const OTHERS: usize = 0;
const UNKNOWN: usize = 1;

/// A call that returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReturnedCall<'a> {
    pub(super) call: Call,
    pub(super) pid: i32,
    pub(super) time: u64,
    pub(super) arguments: Option<&'a Arguments>,
    /// Its first path or its socket address.
    pub(super) text: Option<&'a Arc<str>>,
    pub(super) ns: Option<u64>,
    pub(super) result: i64,
}

/// Changes of descriptors by calls that have no record, because they were only summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UnseenChanges {
    /// Identifies the last ones.
    pub(super) last: u32,
    /// Whether there may be further ones before the next record.
    pub(super) go_on: bool,
}

/// The figures of a file or peer.
#[derive(Clone, Debug, Default)]
struct TargetFigures {
    stats: Stats,
    /// The number of calls, also of those without a time.
    calls: u64,
    read: u64,
    written: u64,
    errors: BTreeMap<u32, u64>,
}

impl TargetFigures {
    fn add(&mut self, shape: CallShape, of: &ReturnedCall<'_>) {
        self.calls += 1;
        of.ns.into_iter().for_each(|ns| self.stats.add(ns));
        match (shape.bytes, u64::try_from(of.result)) {
            (Some(Transfer::Read), Ok(n)) => self.read = self.read.saturating_add(n),
            (Some(Transfer::Written), Ok(n)) => self.written = self.written.saturating_add(n),
            (_, Err(_)) if of.result >= -4095 => {
                *self.errors.entry(of.result.unsigned_abs() as u32).or_default() += 1;
            }
            _ => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.stats.merge(&other.stats);
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
        other.errors.iter().for_each(|(error, n)| *self.errors.entry(*error).or_default() += n);
    }
}

type TargetKey = (DescriptorKind, Arc<str>);

/// Figures by what calls refer to, and what open descriptors refer to.
#[derive(Clone, Debug, Default)]
pub(super) struct CallTargets {
    /// Whether all calls that close descriptors are recorded.
    sees_closes: bool,
    shapes: FxHashMap<Call, CallShape>,
    known: KnownDescriptors,
    lookups: Lookups<TargetFigures>,
    /// The last known changes of descriptors by calls without a record.
    unseen: Option<u32>,
    /// The number of calls with a descriptor that were only summed in the kernel.
    summed: u64,
    rows: Vec<(TargetKey, TargetFigures)>,
    numbers: FxHashMap<TargetKey, usize>,
}

impl CallTargets {
    pub(super) fn new(sees_closes: bool) -> Self {
        Self { sees_closes, ..Self::default() }
    }

    pub(super) fn shape(&mut self, call: Call, tables: CallTables) -> CallShape {
        // The numbers of hostile programs are without limit.
        if self.shapes.len() >= MAX_ROWS {
            self.shapes.clear();
        }
        *self.shapes.entry(call).or_insert_with(|| tables.known(call).map_or_else(CallShape::default, CallShape::of))
    }

    /// Counts a call for its first descriptor, or for its path or socket address.
    pub(super) fn count(
        &mut self,
        of: &ReturnedCall<'_>,
        tables: CallTables,
        names: &mut DescriptorNames,
        cx: &mut Context<'_>,
    ) {
        let shape = self.shape(of.call, tables);
        let descriptor = shape.descriptor.and_then(|at| Some(*of.arguments?.get(at)? as i32));
        let used = (of.pid, descriptor.unwrap_or(-1));
        let row = match (of.text, descriptor) {
            (Some(text), None) => self.row((DescriptorKind::of_path(text), text.clone())),
            (Some(address), Some(_)) if shape.is_connect => self.row((DescriptorKind::Socket, address.clone())),
            (_, Some(fd)) if fd >= 0 => {
                // A closed descriptor cannot be looked up.
                if shape.effect == FdEffect::Close {
                    self.known.get(of.pid, fd).map_or(UNKNOWN, |known| known.row)
                } else {
                    self.look_up((of.pid, fd), of.time, NamePurpose::Rows, names, cx)
                }
            }
            _ => return,
        };
        match self.lookups.unproven(used, row, of.time) {
            Some(figures) => figures.add(shape, of),
            None => self.figures(row).add(shape, of),
        }
    }

    /// The descriptor refers to something else since a time: a later lookup did not find what it referred to before.
    fn changed(&mut self, pid: i32, fd: i32, time: u64) {
        self.known.remove(pid, fd);
        let ended = self.lookups.change((pid, fd), time);
        self.settle(ended);
    }

    /// Counts calls whose lookup is proven or refuted.
    fn settle(&mut self, ended: impl IntoIterator<Item = DescriptorLookup<TargetFigures>>) {
        for lookup in ended {
            let row = if lookup.name.is_refuted() { UNKNOWN } else { lookup.row };
            self.figures(row).merge(&lookup.figures);
        }
    }

    /// Returns the descriptor that a call closes, and what it referred to, as far as known.
    pub(super) fn closed(&mut self, of: &ReturnedCall<'_>, tables: CallTables) -> Option<(i32, Arc<DescriptorName>)> {
        let fd = of.arguments.filter(|_| self.shape(of.call, tables).effect == FdEffect::Close)?[0] as i32;
        let known = self.known.get(of.pid, fd).filter(|known| known.row > UNKNOWN)?;
        Some((fd, self.name_of_row((of.pid, fd), known.row)?))
    }

    /// Follows the effect of a call on descriptors.
    pub(super) fn follow(&mut self, of: &ReturnedCall<'_>, tables: CallTables) {
        let shape = self.shape(of.call, tables);
        let (Some(arguments), true) = (of.arguments, of.result >= 0) else {
            // A socket that does not wait for its connection has its peer.
            if shape.is_connect {
                self.connected(of, shape);
            }
            return;
        };
        match shape.effect {
            FdEffect::None => {}
            FdEffect::Close => self.changed(of.pid, arguments[0] as i32, of.time),
            FdEffect::CloseRange if arguments[2] & CLOSE_RANGE_CLOEXEC != 0 => {}
            FdEffect::CloseRange => {
                let range = arguments[0] as u32..=arguments[1] as u32;
                self.known.close_range(of.pid, *range.start(), *range.end());
                let ended = self.lookups.change_all(of.pid, of.time, |fd| range.contains(&fd.cast_unsigned()));
                self.settle(ended);
            }
            FdEffect::Open => {
                let fd = of.result as i32;
                self.changed(of.pid, fd, of.time);
                if let Some(path) = of.text.filter(|path| path.starts_with('/')) {
                    let row = self.row((DescriptorKind::of_path(path), path.clone()));
                    self.keep(of.pid, fd, row, of.time);
                }
            }
            FdEffect::Control if !DUPLICATING.contains(&arguments[1]) => {}
            FdEffect::Duplicate | FdEffect::Control => {
                let (fd, copy) = (arguments[0] as i32, of.result as i32);
                let known = self.known.get(of.pid, fd);
                if copy != fd {
                    self.changed(of.pid, copy, of.time);
                }
                known.into_iter().for_each(|known| self.known.insert(of.pid, copy, known));
            }
            FdEffect::Name => self.connected(of, shape),
        }
    }

    fn connected(&mut self, of: &ReturnedCall<'_>, shape: CallShape) {
        let Some(fd) = of.arguments.map(|arguments| arguments[0] as i32) else { return };
        // It is the same socket.
        self.known.remove(of.pid, fd);
        let ended = self.lookups.take((of.pid, fd));
        self.settle(ended);
        if let Some(address) = of.text.filter(|_| shape.is_connect) {
            let row = self.row((DescriptorKind::Socket, address.clone()));
            self.keep(of.pid, fd, row, of.time);
        }
    }

    /// Forgets the descriptors of a process that ends.
    pub(super) fn end(&mut self, pid: i32) {
        self.known.end(pid);
        // Lookups fail after the end.
        let ended = self.lookups.change_all(pid, u64::MAX, |_| true);
        self.settle(ended);
    }

    /// Forgets the descriptors of a process that executes another program at a time, which closes some of them.
    pub(super) fn exec(&mut self, pid: i32, time: u64) {
        self.known.end(pid);
        let ended = self.lookups.change_all(pid, time, |_| true);
        self.settle(ended);
    }

    /// Forgets all descriptors if calls that changed some were only summed since the last record, or may still be.
    pub(super) fn follow_sums(&mut self, of: UnseenChanges) {
        let now = (!of.go_on).then_some(of.last);
        if std::mem::replace(&mut self.unseen, now) != now || of.go_on {
            self.known.clear();
        }
    }

    /// Counts calls that were only summed: the figures of their files and peers lack them.
    pub(super) fn lack(&mut self, call: Call, calls: u64, tables: CallTables) {
        if self.shape(call, tables).descriptor.is_some() {
            self.summed = self.summed.saturating_add(calls);
        }
    }

    /// Forgets all descriptors after lost records.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    pub(super) fn clear(&mut self) {
        if self.rows.len() > MAX_ROWS / 2 {
            self.known.clear();
            self.rows.clear();
            self.numbers.clear();
        }
        self.lookups.clear();
        self.rows.iter_mut().for_each(|(_, figures)| *figures = TargetFigures::default());
        self.summed = 0;
    }

    /// Returns the name of a descriptor in a call that returned at a time.
    pub(super) fn name(
        &mut self,
        (pid, fd): (i32, i32),
        time: u64,
        purpose: NamePurpose,
        names: &mut DescriptorNames,
        cx: &mut Context<'_>,
    ) -> Option<Arc<DescriptorName>> {
        match self.look_up((pid, fd), time, purpose, names, cx) {
            UNKNOWN => None,
            OTHERS => names.describe(pid, fd, purpose, cx).map(|of| DescriptorName::of(of.name)),
            row => self.name_of_row((pid, fd), row),
        }
    }

    fn name_of_row(&self, of: (i32, i32), row: usize) -> Option<Arc<DescriptorName>> {
        let looked_up = self.lookups.name(of, row);
        looked_up.or_else(|| self.rows.get(row).map(|((_, name), _)| DescriptorName::of(name.clone())))
    }

    fn look_up(
        &mut self,
        (pid, fd): (i32, i32),
        time: u64,
        purpose: NamePurpose,
        names: &mut DescriptorNames,
        cx: &mut Context<'_>,
    ) -> usize {
        let known = self.known.get(pid, fd);
        if let Some(known) = known.filter(|known| time.saturating_sub(known.looked_at) < MAX_AGE) {
            return known.row;
        }
        let read_at = monotonic_ns();
        match names.describe(pid, fd, purpose, cx) {
            Some(Described { kind, name }) => {
                let row = self.row((kind, name.clone()));
                self.keep(pid, fd, row, time);
                if self.sees_closes {
                    let ended = self.lookups.add((pid, fd), row, read_at, name);
                    self.settle(ended);
                }
                row
            }
            None => known.map_or(UNKNOWN, |known| known.row),
        }
    }

    fn keep(&mut self, pid: i32, fd: i32, row: usize, looked_at: u64) {
        if self.sees_closes {
            self.known.insert(pid, fd, KnownDescriptor { row, looked_at });
        }
    }

    fn row(&mut self, key: TargetKey) -> usize {
        self.begin();
        if let Some(known) = self.numbers.get(&key) {
            return *known;
        }
        if self.rows.len() >= MAX_ROWS {
            return OTHERS;
        }
        self.rows.push((key.clone(), TargetFigures::default()));
        self.numbers.insert(key, self.rows.len() - 1);
        self.rows.len() - 1
    }

    fn figures(&mut self, row: usize) -> &mut TargetFigures {
        self.begin();
        let at = if row < self.rows.len() { row } else { OTHERS };
        &mut self.rows[at].1
    }

    /// Adds the rows that all have.
    fn begin(&mut self) {
        if self.rows.is_empty() {
            let row = |name: &str| ((DescriptorKind::Other, Arc::from(name)), TargetFigures::default());
            self.rows.extend(["(others)", "(not known)"].map(row));
        }
    }

    /// Returns the panels of files and peers, and of kinds; none if all are unknown, as in most recordings.
    ///
    /// `failure` is the reason why names of sockets are missing.
    pub(super) fn panels(&self, failure: Option<String>) -> Vec<Panel> {
        let rows = self.with_lookups();
        if rows.iter().skip(UNKNOWN + 1).all(|(_, of)| of.calls == 0) {
            return Vec::new();
        }
        let used = rows.iter().filter(|(_, of)| of.calls > 0);
        let list = by_weight(used.map(|(key, of)| (*key, &**of)), |of| (of.stats.sum, of.calls));
        let sheet = with_figures(Sheet::of(list, |(key, _)| id(key)), |(_, of)| of);
        let sheet = sheet.left("kind", "Kind", 8, |((kind, _), _)| text(kind.label())).left(
            "target",
            "File or peer",
            0,
            |((_, name), _)| text(name.clone()),
        );
        let unknown = rows.get(UNKNOWN).map_or(0, |(_, of)| of.calls);
        let unknown = note(unknown, "call", "on descriptors that were closed before their lookup");
        let lacking = note(self.summed, "call", "only in the totals, summed in the kernel without file or peer");
        let notes = all_notes([lacking.clone(), unknown, failure.unwrap_or_default()]);
        vec![sheet.panel("Files and peers").noted(notes), kinds(&rows).noted(lacking)]
    }

    /// Returns the rows with the calls whose lookup is not proven yet.
    fn with_lookups(&self) -> Vec<(&TargetKey, Cow<'_, TargetFigures>)> {
        let mut rows: Vec<_> = self.rows.iter().map(|(key, of)| (key, Cow::Borrowed(of))).collect();
        for lookup in self.lookups.iter().filter(|lookup| lookup.figures.calls > 0) {
            let at = if lookup.row < rows.len() { lookup.row } else { OTHERS };
            rows.get_mut(at).into_iter().for_each(|(_, of)| of.to_mut().merge(&lookup.figures));
        }
        rows
    }
}

/// Returns the panel of kinds of descriptors.
fn kinds(rows: &[(&TargetKey, Cow<'_, TargetFigures>)]) -> Panel {
    let mut sums: BTreeMap<DescriptorKind, TargetFigures> = BTreeMap::new();
    for ((kind, _), of) in rows.iter().filter(|(_, of)| of.calls > 0) {
        sums.entry(*kind).or_default().merge(of);
    }
    let list = by_weight(&sums, |of| (of.stats.sum, of.calls));
    let sheet = Sheet::of(list, |(kind, _)| id(kind)).left("kind", "Kind", 12, |(kind, _)| text(kind.label()));
    with_figures(sheet, |(_, of)| of).panel("Kinds")
}

/// Returns the name of the most frequent error.
fn top_error(of: &TargetFigures) -> Cell {
    let most = of.errors.iter().max_by_key(|(error, n)| (**n, std::cmp::Reverse(**error)));
    most.map_or(Cell::Empty, |(error, _)| text(error_name(*error)))
}

/// Adds the columns that both tables have.
fn with_figures<'a, T: Copy + 'a>(
    sheet: Sheet<'a, T>,
    of: impl Fn(T) -> &'a TargetFigures + Copy + 'a,
) -> Sheet<'a, T> {
    sheet
        .right("calls", "Calls", 9, move |row| Cell::Count(of(row).calls))
        .right("total_ns", "Total", 9, move |row| Cell::Time(of(row).stats.sum))
        .right("p99_ns", "p99", 8, move |row| time(of(row).stats.quantile(0.99)))
        .ranked(2)
        .right("max_ns", "Max", 8, move |row| time(of(row).stats.max))
        .ranked(1)
        .right("read_bytes", "Read", 9, move |row| bytes(of(row).read))
        .right("written_bytes", "Written", 9, move |row| bytes(of(row).written))
        .right("errors", "Errors", 7, move |row| count(of(row).errors.values().sum()))
        .left("errno", "Top error", 13, move |row| top_error(of(row)))
        .ranked(1)
}

#[cfg(test)]
mod tests;
