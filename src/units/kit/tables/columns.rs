//! Columns, cells and numbers that many units share.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHasher;

use crate::lang::counted;
use crate::panel::row_order::arrange;
use crate::panel::table::Cut;
use crate::panel::{Align, Cell, Column};

/// Row limit of a table; the rows beyond it are the smallest.
pub(crate) const MOST_ROWS: usize = 500;
/// The name of the row that has the sums of rows that were dropped.
pub(crate) const OTHERS: &str = "(others)";

pub(crate) const fn left(name: &'static str, title: &'static str, width: u16) -> Column {
    Column::new(name, title, Align::Left, width)
}

pub(crate) const fn right(name: &'static str, title: &'static str, width: u16) -> Column {
    Column::new(name, title, Align::Right, width)
}

/// A column whose name is computed, with the same title.
pub(crate) fn named(name: &str, align: Align, width: u16) -> Column {
    Column { name: name.to_owned().into(), title: name.to_owned().into(), align, width, rank: 0, cut: Cut::Name }
}

pub(crate) fn text(text: impl Into<Arc<str>>) -> Cell {
    Cell::Text(text.into())
}

/// A time; empty if zero.
pub(crate) fn time(ns: u64) -> Cell {
    if ns == 0 { Cell::Empty } else { Cell::Time(ns) }
}

/// A number; empty if zero.
pub(crate) fn count(n: u64) -> Cell {
    if n == 0 { Cell::Empty } else { Cell::Count(n) }
}

/// A size; empty if zero.
pub(crate) fn bytes(n: u64) -> Cell {
    if n == 0 { Cell::Empty } else { Cell::Bytes(n) }
}

/// A share in percent; empty if zero.
pub(crate) fn share(part: u64, whole: u64) -> Cell {
    if part == 0 { Cell::Empty } else { Cell::Percent(100.0 * part as f64 / whole.max(1) as f64) }
}

/// A row id from the row's key: equal for equal keys.
pub(crate) fn id(what: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    what.hash(&mut hasher);
    hasher.finish()
}

/// A note with a count; empty if zero.
pub(crate) fn note(n: u64, noun: &str, what: &str) -> String {
    if n == 0 { String::new() } else { format!("{} {what}", counted(n, noun)) }
}

/// Joins the notes that are not empty.
pub(crate) fn all_notes<const N: usize>(notes: [String; N]) -> String {
    notes.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Sorts a map by weight, the largest first; ties by key.
pub(crate) fn by_weight<K: Ord + Copy, V, W: Ord>(
    map: impl IntoIterator<Item = (K, V)>,
    weight: impl Fn(&V) -> W,
) -> Vec<(K, V)> {
    let mut list: Vec<(K, V)> = map.into_iter().collect();
    arrange(&mut list, |a, b| weight(&b.1).cmp(&weight(&a.1)).then_with(|| a.0.cmp(&b.0)));
    list
}
