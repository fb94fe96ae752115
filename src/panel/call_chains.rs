//! What is asked of call chains (perf-report(1), --call-graph), and a row's chains as an indented tree.

use std::fmt::Write;

use super::text::clean;
use super::unit::{percent, thousands};
use crate::profile::{Acc, SymId};
use crate::query::heaviest_chain::{ApartBy, ChainThreshold, HeavyTree};
use crate::query::{Data, Direction};

/// The form of chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainForm {
    /// A tree with shares of the whole.
    Graph,
    /// A tree with shares of the entry above.
    Fractal,
    /// Each chain below the other, whole.
    Flat,
    /// Each chain in one line.
    Folded,
}

/// The figure that stands at an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainValue {
    Percent,
    Period,
    Count,
}

/// The call chains that are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChainSpec {
    pub(crate) form: ChainForm,
    pub(crate) value: ChainValue,
    pub(crate) direction: Direction,
    /// Entries below this share are left out.
    pub(crate) least: f64,
    /// Entries below one entry at most.
    pub(crate) most: usize,
    /// What else entries of one function are told apart by; it stands beside their names.
    pub(crate) apart: ApartBy,
}

/// Deeper chains are not printed.
const MAX_DEPTH: usize = 512;

/// The room before an entry.
const MARGIN: &str = "            ";

impl ChainSpec {
    /// What is printed of chains whose percentages are of `whole`.
    pub(crate) fn threshold(&self, whole: &Acc) -> ChainThreshold {
        let of_parent = self.form == ChainForm::Fractal;
        ChainThreshold { least: self.least, whole: *whole, of_parent, most: self.most, apart: self.apart }
    }

    fn value(&self, acc: &Acc, whole: &Acc) -> String {
        match self.value {
            ChainValue::Percent => percent(acc.percent_of(whole)),
            ChainValue::Period => thousands(acc.period),
            ChainValue::Count => thousands(acc.samples),
        }
    }

    /// A row's chains, indented, with the share of each entry. A chain without a branch stays at one indentation.
    pub(crate) fn tree(&self, data: Data<'_>, heavy: &HeavyTree, whole: &Acc) -> String {
        let mut out = String::new();
        let nodes = &heavy.tree.nodes;
        // (node, the one above, indentation, depth)
        let mut stack: Vec<(u32, u32, usize, usize)> =
            nodes[0].children.iter().rev().map(|node| (*node, 0, 0, 0)).collect();
        while let Some((node, above, indent, depth)) = stack.pop() {
            let entry = &nodes[node as usize];
            let sym = data.profile.frames.sym(SymId(entry.sym));
            let mut whole = *whole;
            if self.form == ChainForm::Fractal {
                whole = nodes[above as usize].acc;
                if above != 0 {
                    whole -= heavy.ended[above as usize];
                }
            }
            let value = self.value(&entry.acc, &whole);
            let (name, dso) = (self.name(data, heavy, node), clean(&sym.dso_name));
            let _ = writeln!(out, "{MARGIN}{}{value:>8} {name}  {dso}", "|  ".repeat(indent));
            let next = indent + usize::from(entry.children.len() > 1);
            if depth < MAX_DEPTH {
                stack.extend(entry.children.iter().rev().map(|below| (*below, node, next, depth + 1)));
            }
        }
        out
    }

    /// An entry's function, with its line where entries are told apart by places; without debug information how far
    /// inside of the function it is, where that tells them apart.
    pub(crate) fn name(&self, data: Data<'_>, heavy: &HeavyTree, node: u32) -> String {
        let frames = &data.profile.frames;
        let sym = frames.sym(SymId(heavy.tree.nodes[node as usize].sym));
        let name = sym.name();
        let name = clean(&name);
        let place = heavy.places.get(node as usize).copied().flatten();
        match place.map(|frame| (frames.line(frame), frames.get(frame).place(&data.session.dsos).1)) {
            Some((Some(line), _)) => format!("{name} {}", clean(&line.short())),
            Some((None, at)) if sym.function.is_some() && self.apart == ApartBy::Address => {
                format!("{name}+{:#x}", at.wrapping_sub(sym.start))
            }
            _ => name.into_owned(),
        }
    }
}
