//! The call chains of a row as text, in the forms that perf has for them (perf-report(1), --call-graph).

use std::fmt::Write;

use crate::profile::{Acc, SymId};
use crate::query::heaviest_chain::{ApartBy, ChainThreshold, HeavyTree};
use crate::query::row_order::arrange_by_key;
use crate::query::{Data, Direction};

use super::text::clean;
use super::unit::{percent, thousands};

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

    /// True if the chains of rows that count what they call, or do not, end with the row itself.
    pub(crate) fn ends_with_row(&self, children: bool) -> bool {
        self.direction == Direction::Callees && !children
    }

    fn value(&self, acc: &Acc, whole: &Acc) -> String {
        match self.value {
            ChainValue::Percent => percent(acc.percent_of(whole)),
            ChainValue::Period => thousands(acc.period),
            ChainValue::Count => thousands(acc.samples),
        }
    }

    /// The same for programs that read lines.
    fn raw(&self, acc: &Acc, whole: &Acc) -> String {
        match self.value {
            ChainValue::Percent => format!("{:.2}%", acc.percent_of(whole)),
            ChainValue::Period => acc.period.to_string(),
            ChainValue::Count => acc.samples.to_string(),
        }
    }

    /// A row's chains; `row` is the function whose row it is, where it is one's.
    pub(crate) fn text(&self, data: Data<'_>, heavy: &HeavyTree, row: Option<SymId>, whole: &Acc) -> String {
        match self.form {
            ChainForm::Graph | ChainForm::Fractal => self.tree(data, heavy, whole),
            ChainForm::Flat => self.chains(data, heavy, row, whole, |out, value, names| {
                let _ = writeln!(out, "{MARGIN}{value}");
                names.iter().for_each(|name| _ = writeln!(out, "{MARGIN}    {name}"));
                out.push('\n');
            }),
            ChainForm::Folded => self.chains(data, heavy, row, whole, |out, value, names| {
                let _ = writeln!(out, "{value} {}", names.join(";"));
            }),
        }
    }

    /// Indented, with the share of each entry. A chain without a branch stays at one indentation.
    fn tree(&self, data: Data<'_>, heavy: &HeavyTree, whole: &Acc) -> String {
        let mut out = String::new();
        let nodes = &heavy.tree.nodes;
        // (node, the one above, indentation, depth)
        let mut stack: Vec<(u32, u32, usize, usize)> =
            nodes[0].children.iter().rev().map(|node| (*node, 0, 0, 0)).collect();
        while let Some((node, above, indent, depth)) = stack.pop() {
            let entry = &nodes[node as usize];
            let sym = data.profile.frames.sym(SymId(entry.sym));
            let whole = if self.form == ChainForm::Fractal { &nodes[above as usize].acc } else { whole };
            let value = self.value(&entry.acc, whole);
            let (name, dso) = (self.name(data, heavy, node), clean(&sym.dso_name));
            let _ = writeln!(out, "{MARGIN}{}{value:>8} {name}  {dso}", "|  ".repeat(indent));
            let next = indent + usize::from(entry.children.len() > 1);
            if depth < MAX_DEPTH {
                stack.extend(entry.children.iter().rev().map(|below| (*below, node, next, depth + 1)));
            }
        }
        out
    }

    /// Each chain that is heavy enough, the row's own function among its names.
    fn chains(
        &self,
        data: Data<'_>,
        heavy: &HeavyTree,
        row: Option<SymId>,
        whole: &Acc,
        put: impl Fn(&mut String, String, &[String]),
    ) -> String {
        let mut out = String::new();
        let of_row = |sym: SymId| clean(&data.profile.frames.sym(sym).name()).into_owned();
        let mut names: Vec<String> = row.into_iter().map(of_row).collect();
        let (mut stack, before) = (vec![(0u32, 0usize)], names.len());
        let mut found: Vec<(Acc, Vec<String>)> = Vec::new();
        while let Some((node, depth)) = stack.pop() {
            let entry = &heavy.tree.nodes[node as usize];
            if depth > 0 {
                names.truncate(before + depth - 1);
                names.push(self.name(data, heavy, node));
            }
            let ended = heavy.ended[node as usize];
            if !ended.is_zero() && ended.percent_of(whole) >= self.least && !names.is_empty() {
                found.push((ended, names.clone()));
            }
            if depth < MAX_DEPTH {
                stack.extend(entry.children.iter().rev().map(|below| (*below, depth + 1)));
            }
        }
        arrange_by_key(&mut found, |(acc, _)| std::cmp::Reverse(acc.period));
        found.iter().take(self.most).for_each(|(acc, names)| put(&mut out, self.raw(acc, whole), names));
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
