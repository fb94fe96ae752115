//! A function by instruction: where its samples were taken.

pub mod listing;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::panel::row_order::arrange;
use crate::perfdata::PeriodMeaning;
use crate::profile::{Acc, NodeId, SymId};
use crate::session::DsoId;
use crate::session::hosts::HostId;
use crate::symbols::code::{Flow, Listing};
use crate::symbols::lines::SourceLine;

use super::aggregate::Aggregate;
use super::data::Data;

/// A function by its shown names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotatedFunction {
    pub(crate) function: Arc<str>,
    pub(crate) dso: Arc<str>,
}

/// A function's own samples by address.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hits {
    /// Sorted by address in the DSO.
    pub(crate) at: Vec<(u64, Acc)>,
    /// The function's own weight, and the total.
    pub(crate) own: Acc,
    pub(crate) total: Acc,
    /// How the event's periods are read.
    pub(crate) meaning: PeriodMeaning,
}

/// A function with samples of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledFunction {
    pub(crate) function: Arc<str>,
    pub(crate) dso: DsoId,
    pub(crate) start: u64,
    pub(crate) hits: Hits,
}

/// A line of an annotated function.
#[derive(Clone, Debug, PartialEq)]
pub enum ListingRow {
    /// A source line, before the first instruction compiled from it.
    Source {
        /// The file and the line number.
        line: SourceLine,
        /// The text; `None` if the file is not available.
        text: Option<String>,
    },
    /// An instruction, and its share of the function in percent.
    Code {
        /// The index in [`Listing::instructions`](crate::symbols::code::Listing::instructions).
        index: usize,
        /// The samples at this instruction.
        own: Acc,
        /// Their share of the function's own samples.
        percent: f64,
    },
}

impl ListingRow {
    pub(crate) fn percent(&self) -> f64 {
        match self {
            Self::Source { .. } => 0.0,
            Self::Code { percent, .. } => *percent,
        }
    }
}

/// Returns the DSO and an address of a function. Of several with the same name, the one with most samples.
pub fn locate(data: Data<'_>, target: &AnnotatedFunction, fold: Option<&Aggregate>) -> Option<(DsoId, u64)> {
    let list = matching(data, target);
    let hits = fold.map(|fold| hits_of(data, fold, &list)).unwrap_or_default();
    let frames = &data.profile.frames;
    let best = list.iter().enumerate().filter(|(_, is)| **is).map(|(sym, _)| frames.sym(SymId(sym as u32)));
    let inside = |start: u64| hits.at.iter().find(|(at, _)| *at >= start).map_or(0, |(_, acc)| acc.period);
    best.max_by_key(|sym| (inside(sym.start), std::cmp::Reverse(sym.start))).map(|sym| (sym.dso, sym.start))
}

fn matching(data: Data<'_>, target: &AnnotatedFunction) -> Vec<bool> {
    let frames = &data.profile.frames;
    let is = |sym: u32| {
        let sym = frames.sym(SymId(sym));
        sym.function.as_ref() == Some(&target.function) && (target.dso.is_empty() || sym.dso_name == target.dso)
    };
    (0..frames.n_syms() as u32).map(is).collect()
}

/// Returns the samples of a function.
pub fn hits(data: Data<'_>, fold: &Aggregate, target: &AnnotatedFunction) -> Hits {
    hits_of(data, fold, &matching(data, target))
}

fn hits_of(data: Data<'_>, fold: &Aggregate, syms: &[bool]) -> Hits {
    let mut at: BTreeMap<u64, Acc> = BTreeMap::new();
    let mut own = Acc::default();
    // A function on several machines has different addresses: those of the shown machine count.
    let first = syms.iter().position(|is| *is).map(|sym| host_of(data, SymId(sym as u32)));
    each_hit(data, fold, |sym, host, address, acc| {
        if syms.get(sym.0 as usize).copied().unwrap_or(false) && Some(host) == first {
            *at.entry(address).or_default() += acc;
            own += acc;
        }
    });
    Hits { at: at.into_iter().collect(), own, total: fold.total(), meaning: meaning_of(data, fold) }
}

fn meaning_of(data: Data<'_>, fold: &Aggregate) -> PeriodMeaning {
    data.meaning(fold.selection.of.event)
}

fn host_of(data: Data<'_>, sym: SymId) -> HostId {
    data.session.dsos.get(data.profile.frames.sym(sym).dso).host
}

/// Calls `tell` for each stack with weight: sampled symbol, machine, address in its DSO, and weight.
fn each_hit(data: Data<'_>, fold: &Aggregate, mut tell: impl FnMut(SymId, HostId, u64, Acc)) {
    let (profile, dsos) = (data.profile, &data.session.dsos);
    for (_, site, acc) in fold.sites() {
        let stack = profile.sites.all()[site as usize].stack;
        if stack == NodeId::ROOT {
            continue;
        }
        let frame = profile.trie.frame(stack);
        let one = profile.frames.get(frame);
        tell(profile.frames.sym_of(frame), dsos.of_map(one.map).host, dsos.map_of(one.map).to_dso(one.ip), acc);
    }
}

/// Returns all named functions with samples of their own, hottest first. Ties by name and address.
pub fn functions(data: Data<'_>, fold: &Aggregate) -> Vec<SampledFunction> {
    let frames = &data.profile.frames;
    let mut found: HashMap<SymId, BTreeMap<u64, Acc>> = HashMap::new();
    each_hit(data, fold, |sym, host, address, acc| {
        // As above, only the shown machine counts.
        if frames.sym(sym).function.is_some() && host_of(data, sym) == host {
            *found.entry(sym).or_default().entry(address).or_default() += acc;
        }
    });
    let (total, meaning) = (fold.total(), meaning_of(data, fold));
    let whole = |(sym, at): (SymId, BTreeMap<u64, Acc>)| {
        let sym = frames.sym(sym);
        let own = at.values().copied().sum();
        let hits = Hits { at: at.into_iter().collect(), own, total, meaning };
        Some(SampledFunction { function: sym.function.clone()?, dso: sym.dso, start: sym.start, hits })
    };
    let mut list: Vec<SampledFunction> = found.into_iter().filter_map(whole).collect();
    arrange(&mut list, |a, b| {
        let place = |one: &SampledFunction| (one.dso, one.start);
        b.hits
            .own
            .period
            .cmp(&a.hits.own.period)
            .then_with(|| a.function.cmp(&b.function))
            .then(place(a).cmp(&place(b)))
    });
    list
}

impl Hits {
    /// Returns the number of a weight's samples, and their noun.
    pub(crate) fn samples(&self, weight: Acc) -> (u64, &'static str) {
        weight.counted(self.meaning.count)
    }

    fn within(&self, range: Range<u64>) -> Acc {
        let from = self.at.partition_point(|(at, _)| *at < range.start);
        self.at[from..].iter().take_while(|(at, _)| *at < range.end).map(|(_, acc)| *acc).sum()
    }
}

/// Returns a listing with its samples, optionally with source lines.
pub fn rows(listing: &Listing, hits: &Hits, sources: bool) -> Vec<ListingRow> {
    let mut out = Vec::with_capacity(listing.instructions.len() * 2);
    let mut last: Option<&SourceLine> = None;
    // Of a script, what has no line or no text is shown if it was sampled.
    let is_bare = listing.sources.iter().all(|(_, text)| text.is_empty());
    for (index, instruction) in listing.instructions.iter().enumerate() {
        let has_source = sources && !listing.is_script;
        if let Some(line) = instruction.line.as_ref().filter(|line| has_source && last != Some(*line)) {
            let text = listing.source(line).map(str::to_owned);
            out.push(ListingRow::Source { line: line.clone(), text });
            last = Some(line);
        }
        let end = listing.instructions.get(index + 1).map_or(listing.end, |next| next.at);
        let own = hits.within(instruction.at..end.max(instruction.at + 1));
        if listing.is_script && own.samples == 0 && (is_bare || instruction.line.is_none()) {
            continue;
        }
        out.push(ListingRow::Code { index, own, percent: own.percent_of(&hits.own) });
    }
    out
}

/// Returns the indexes of rows with samples, hottest first. Of equal ones the first.
pub fn hot(rows: &[ListingRow]) -> Vec<usize> {
    let mut list: Vec<usize> = (0..rows.len()).filter(|i| rows[*i].percent() > 0.0).collect();
    arrange(&mut list, |a, b| rows[*b].percent().total_cmp(&rows[*a].percent()).then(a.cmp(b)));
    list
}

pub(crate) fn row_of(rows: &[ListingRow], index: usize) -> Option<usize> {
    rows.iter().position(|row| matches!(row, ListingRow::Code { index: own, .. } if *own == index))
}

/// Returns the listing index of a jump target inside the function.
pub(crate) fn jump(listing: &Listing, index: usize) -> Option<usize> {
    let Flow::Jump(to) = listing.instructions.get(index)?.flow else { return None };
    listing.instructions.binary_search_by_key(&to, |i| i.at).ok()
}

#[cfg(test)]
mod tests;
