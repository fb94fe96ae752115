//! The options of call chains, and a row's chains as an indented tree. See perf-report(1), --call-graph.

use std::fmt::Write;

use crate::panel::text::clean;
use crate::panel::unit::{percent, thousands};
use crate::perfdata::PeriodMeaning;
use crate::profile::{Acc, SymId};
use crate::query::tree::chains::CallTree;
use crate::query::tree::heaviest_chain::{ApartBy, ChainThreshold};
use crate::query::{Data, Direction};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainForm {
    /// A tree with shares of the total.
    Graph,
    /// A tree with shares of the parent entry.
    Fractal,
    /// Each complete chain below the previous one.
    Flat,
    /// Each chain on one line.
    Folded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainValue {
    Percent,
    Period,
    Count,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChainSpec {
    pub(crate) form: ChainForm,
    pub(crate) value: ChainValue,
    pub(crate) direction: Direction,
    /// Entries below this share are left out.
    pub(crate) least: f64,
    /// The limit of entries below one entry.
    pub(crate) most: usize,
    /// How entries of the same function are separated; shown next to their names.
    pub(crate) apart: ApartBy,
}

/// Deeper chains are not printed.
pub(crate) const MAX_DEPTH: usize = 512;

const MARGIN: &str = "            ";

impl ChainSpec {
    /// Returns the threshold for chains whose percentages are relative to `whole`.
    pub(crate) fn threshold(&self, whole: &Acc) -> ChainThreshold {
        let of_parent = self.form == ChainForm::Fractal;
        ChainThreshold { least: self.least, whole: *whole, of_parent, most: self.most, apart: self.apart }
    }

    /// Formats an entry's value; `number` formats whole numbers, `share` percentages.
    pub(crate) fn value(
        &self,
        (acc, whole): (&Acc, &Acc),
        meaning: PeriodMeaning,
        number: impl Fn(u64) -> String,
        share: impl Fn(f64) -> String,
    ) -> String {
        match self.value {
            ChainValue::Percent => share(acc.percent_of(whole)),
            ChainValue::Period => meaning.unit.figure(acc.period, number),
            ChainValue::Count => number(acc.counted(meaning.count).0),
        }
    }

    /// Formats a row's chains as an indented tree with the value of each entry. Entries are indented only at forks.
    pub(crate) fn tree(&self, data: Data<'_>, heavy: &CallTree, whole: &Acc, meaning: PeriodMeaning) -> String {
        let mut out = String::new();
        let nodes = &heavy.nodes;
        // (node, parent, indentation, depth)
        let mut stack: Vec<(u32, u32, usize, usize)> =
            nodes[0].children.iter().rev().map(|node| (*node, 0, 0, 0)).collect();
        while let Some((node, above, indent, depth)) = stack.pop() {
            let entry = &nodes[node as usize];
            let sym = data.profile.frames.sym(SymId(entry.sym));
            let mut whole = *whole;
            if self.form == ChainForm::Fractal {
                whole = nodes[above as usize].acc;
                if above != 0 {
                    whole -= heavy.nodes[above as usize].ended;
                }
            }
            let value = self.value((&entry.acc, &whole), meaning, thousands, percent);
            let (name, dso) = (self.name(data, heavy, node), clean(&sym.dso_name));
            let _ = writeln!(out, "{MARGIN}{}{value:>8} {name}  {dso}", "|  ".repeat(indent));
            let next = indent + usize::from(entry.children.len() > 1);
            if depth < MAX_DEPTH {
                stack.extend(entry.children.iter().rev().map(|below| (*below, node, next, depth + 1)));
            }
        }
        out
    }

    /// Returns an entry's function, with its line, or else its offset, if entries are separated by location.
    pub(crate) fn name(&self, data: Data<'_>, heavy: &CallTree, node: u32) -> String {
        let frames = &data.profile.frames;
        let sym = frames.sym(SymId(heavy.nodes[node as usize].sym));
        let name = sym.name();
        let name = clean(&name);
        let place = heavy.nodes[node as usize].frame;
        match place.map(|frame| (frames.line(frame), frames.get(frame).place(&data.session.dsos).1)) {
            Some((Some(line), _)) => format!("{name} {}", clean(&line.short())),
            Some((None, at)) if sym.function.is_some() && self.apart == ApartBy::Address => {
                format!("{name}+{:#x}", at.wrapping_sub(sym.start))
            }
            _ => name.into_owned(),
        }
    }
}
