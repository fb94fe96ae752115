//! The call chains of a row in perf's formats: graph (shares of the total or of the entry above), flat and folded.

use std::fmt::Write;

use crate::panel::row_order::arrange_by_key;
use crate::perfdata::PeriodMeaning;
use crate::profile::Acc;
use crate::query::Data;
use crate::query::tree::chains::CallTree;
use crate::report::chain_spec::{ChainForm, ChainSpec, MAX_DEPTH};

/// A node of a call tree: a function with its continuations. The root of a row's tree does not have a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NamedTree {
    pub(crate) name: String,
    pub(crate) acc: Acc,
    /// The samples whose chains end here.
    pub(crate) ended: Acc,
    pub(crate) below: Vec<NamedTree>,
}

impl NamedTree {
    pub(crate) fn of(spec: &ChainSpec, data: Data<'_>, heavy: &CallTree) -> Self {
        Self::at(spec, data, heavy, 0, 0)
    }

    fn at(spec: &ChainSpec, data: Data<'_>, heavy: &CallTree, node: u32, depth: usize) -> Self {
        let entry = &heavy.nodes[node as usize];
        let children = entry.children.iter().filter(|_| depth < MAX_DEPTH);
        Self {
            name: if depth == 0 { String::new() } else { spec.name(data, heavy, node) },
            acc: entry.acc,
            ended: heavy.nodes[node as usize].ended,
            below: children.map(|child| Self::at(spec, data, heavy, *child, depth + 1)).collect(),
        }
    }

    /// Returns the samples that continue, shown or not.
    fn called(&self) -> Acc {
        less(self.acc, self.ended)
    }

    /// Returns the functions up to the next fork or end of samples, and the last node.
    fn straight(&self) -> (Vec<&str>, &Self) {
        let (mut names, mut at) = (vec![self.name.as_str()], self);
        while let [only] = at.below.as_slice()
            && only.acc == at.acc
        {
            names.push(&only.name);
            at = only;
        }
        (names, at)
    }

    /// Collects the chains that end here and below, and the values of their last entry.
    fn chains<'a>(&'a self, names: &mut Vec<&'a str>, into: &mut Vec<(Acc, Acc, Vec<&'a str>)>) {
        names.push(&self.name);
        if !self.ended.is_zero() {
            into.push((self.ended, self.acc, names.clone()));
        }
        self.below.iter().for_each(|branch| branch.chains(names, into));
        names.pop();
    }
}

fn less(all: Acc, part: Acc) -> Acc {
    Acc { samples: all.samples.saturating_sub(part.samples), period: all.period.saturating_sub(part.period) }
}

/// The chains of a row, and how to draw them.
pub(crate) struct ChainText<'a> {
    pub(crate) spec: &'a ChainSpec,
    /// The total that percentages are relative to.
    pub(crate) whole: &'a Acc,
    /// How the event's periods are read.
    pub(crate) meaning: PeriodMeaning,
    /// Whether the row's name is omitted at the head of a graph.
    pub(crate) skips_row: bool,
}

/// Sibling branches: the base of their shares, and their sum.
struct Level<'a> {
    branches: &'a [NamedTree],
    total: Acc,
    called: Acc,
}

/// The indentation of a graph, of the figure of a single chain, and of its names.
const MARGIN: usize = 12;
const FIGURE_MARGIN: usize = 11;
const NAME_MARGIN: usize = 16;

impl ChainText<'_> {
    /// Formats the chains of a row; empty if none of them is heavy enough.
    pub(crate) fn text(&self, row: &Acc, branches: &[NamedTree]) -> String {
        match self.spec.form {
            ChainForm::Graph | ChainForm::Fractal => self.graph(row, branches),
            ChainForm::Flat => self.each(branches, |out, (_, acc, names)| {
                let _ = writeln!(out, "{:FIGURE_MARGIN$}{}", "", self.value(acc, self.whole));
                names.iter().for_each(|name| _ = writeln!(out, "{:NAME_MARGIN$}{name}", ""));
                out.push('\n');
            }),
            ChainForm::Folded => self.each(branches, |out, (ended, _, names)| {
                let _ = writeln!(out, "{} {}", self.value(ended, self.whole), names.join(";"));
            }),
        }
    }

    /// Formats each chain in which enough samples end, heaviest first.
    fn each(&self, branches: &[NamedTree], put: impl Fn(&mut String, &(Acc, Acc, Vec<&str>))) -> String {
        let mut found = Vec::new();
        branches.iter().for_each(|branch| branch.chains(&mut Vec::new(), &mut found));
        found.retain(|(ended, ..)| ended.percent_of(self.whole) >= self.spec.least);
        arrange_by_key(&mut found, |(ended, ..)| std::cmp::Reverse(ended.period));
        let mut out = String::new();
        found.iter().take(self.spec.most).for_each(|chain| put(&mut out, chain));
        out
    }

    fn is_fractal(&self) -> bool {
        self.spec.form == ChainForm::Fractal
    }

    fn graph(&self, row: &Acc, branches: &[NamedTree]) -> String {
        let mut out = String::new();
        let total = if self.is_fractal() { *row } else { *self.whole };
        match branches {
            [only] if only.acc == *row => {
                let (names, last) = only.straight();
                let names = &names[usize::from(self.skips_row).min(names.len())..];
                for (i, name) in names.iter().take(self.spec.most).enumerate() {
                    match i {
                        0 => _ = writeln!(out, "{:MARGIN$}|\n{:MARGIN$}---{name}", "", ""),
                        _ => _ = writeln!(out, "{:MARGIN$}   {name}", ""),
                    }
                }
                let margin = if names.is_empty() { MARGIN } else { MARGIN + 3 };
                let level = Level { branches: &last.below, total, called: last.called() };
                self.draw(&level, margin, &mut vec![true], &mut out);
            }
            several => {
                self.draw(&Level { branches: several, total, called: *row }, MARGIN, &mut vec![true], &mut out);
            }
        }
        if !out.is_empty() {
            out.push('\n');
        }
        out
    }

    /// Draws sibling branches; `rails` states which levels continue below.
    fn draw(&self, level: &Level<'_>, margin: usize, rails: &mut Vec<bool>, out: &mut String) {
        let depth = rails.len();
        let mut rest = Acc { samples: level.called.samples, period: level.total.period };
        for (i, branch) in level.branches.iter().take(self.spec.most).enumerate() {
            rest = less(rest, branch.acc);
            let _ = write!(out, "{:margin$}", "");
            rails.iter().for_each(|on| _ = write!(out, "{}          ", rail(*on)));
            out.push('\n');
            rails[depth - 1] = i + 1 < level.branches.len() || self.is_fractal() && rest.period > 0;
            let (names, last) = branch.straight();
            for (line, name) in names.iter().enumerate() {
                let value = (line == 0).then(|| self.value(&branch.acc, &level.total));
                self.entry(value, name, margin, rails, out);
            }
            rails.push(true);
            let called = last.called();
            let total = if self.is_fractal() { called } else { level.total };
            self.draw(&Level { branches: &last.below, total, called }, margin, rails, out);
            rails.pop();
        }
        if self.is_fractal() && rest.period > 0 && rest.period != level.total.period {
            rails[depth - 1] = false;
            self.entry(Some(self.value(&rest, &level.total)), "[...]", margin, rails, out);
        }
        rails[depth - 1] = true;
    }

    /// Writes a line of a branch; the first line has its figure.
    fn entry(&self, value: Option<String>, name: &str, margin: usize, rails: &[bool], out: &mut String) {
        let _ = write!(out, "{:margin$}", "");
        for (level, on) in rails.iter().enumerate() {
            out.push(rail(*on));
            match value.as_ref().filter(|_| level + 1 == rails.len()) {
                Some(value) => _ = write!(out, "--{value}--"),
                None => out.push_str("          "),
            }
        }
        let _ = writeln!(out, "{name}");
    }

    fn value(&self, acc: &Acc, whole: &Acc) -> String {
        self.spec.value((acc, whole), self.meaning, |n| n.to_string(), |share| format!("{share:.2}%"))
    }
}

fn rail(on: bool) -> char {
    if on { '|' } else { ' ' }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Direction;
    use crate::query::tree::heaviest_chain::ApartBy;
    use crate::report::chain_spec::ChainValue;

    fn acc(period: u64) -> Acc {
        Acc { samples: period, period }
    }

    fn branch(name: &str, period: u64, below: Vec<NamedTree>) -> NamedTree {
        let gone = below.iter().map(|branch| branch.acc).sum();
        NamedTree { name: name.to_owned(), acc: acc(period), ended: less(acc(period), gone), below }
    }

    const SPEC: ChainSpec = ChainSpec {
        form: ChainForm::Graph,
        value: ChainValue::Percent,
        direction: Direction::Callees,
        least: 0.5,
        most: usize::MAX,
        apart: ApartBy::Nothing,
    };

    const WHOLE: Acc = Acc { samples: 200, period: 200 };

    fn drawing(spec: &ChainSpec, skips_row: bool) -> ChainText<'_> {
        ChainText { spec, whole: &WHOLE, meaning: PeriodMeaning::default(), skips_row }
    }

    fn text(spec: &ChainSpec, row: u64, branches: &[NamedTree]) -> String {
        drawing(spec, false).text(&acc(row), branches)
    }

    fn drawn(row: u64, branches: &[NamedTree], skips_row: bool) -> String {
        drawing(&SPEC, skips_row).text(&acc(row), branches)
    }

    #[test]
    fn chains_are_drawn_as_perf_draws_them() {
        let read = || branch("read", 60, vec![branch("vfs_read", 40, vec![branch("read_zero", 40, vec![])])]);
        let main = branch("main", 200, vec![branch("work", 140, vec![branch("leaf", 140, vec![])]), read()]);
        let want = [
            "            |",
            "            ---main",
            "               |          ",
            "               |--70.00%--work",
            "               |          leaf",
            "               |          ",
            "                --30.00%--read",
            "                          |          ",
            "                           --20.00%--vfs_read",
            "                                     read_zero",
            "",
        ]
        .join("\n")
            + "\n";
        assert_eq!(drawn(200, std::slice::from_ref(&main), false), want);
        assert!(!drawn(200, &[main], true).contains("---main"));
        let want = [
            "            |          ",
            "            |--30.00%--read",
            "            |          |          ",
            "            |           --20.00%--vfs_read",
            "            |                     read_zero",
            "            |          ",
            "             --1.00%--other",
            "",
        ]
        .join("\n")
            + "\n";
        assert_eq!(drawn(62, &[read(), branch("other", 2, vec![])], false), want);
        assert_eq!(drawn(5, &[], false), "");
    }

    #[test]
    fn shares_are_of_the_entry_above_and_what_is_left_out_is_one() {
        // Ten samples of `work` end there; ten more are below the threshold.
        let mut work = branch("work", 120, vec![branch("leaf", 100, vec![])]);
        work.ended = acc(10);
        let main = branch("main", 160, vec![work, branch("read", 40, vec![])]);
        let fractal = ChainSpec { form: ChainForm::Fractal, ..SPEC };
        let want = [
            "            |",
            "            ---main",
            "               |          ",
            "               |--75.00%--work",
            "               |          |          ",
            "               |          |--90.91%--leaf",
            "               |           --9.09%--[...]",
            "               |          ",
            "                --25.00%--read",
            "",
        ];
        assert_eq!(text(&fractal, 160, std::slice::from_ref(&main)), want.join("\n") + "\n");
        let one = ChainSpec { most: 1, value: ChainValue::Count, ..fractal };
        let text = text(&one, 160, &[main]);
        assert!(text.contains("|--120--work") && text.ends_with(" --40--[...]\n\n"), "{text}");
    }

    #[test]
    fn chains_are_listed_where_samples_ended() {
        let main = branch("main", 160, vec![branch("work", 120, vec![branch("leaf", 100, vec![])])]);
        let flat = ChainSpec { form: ChainForm::Flat, least: 15.0, ..SPEC };
        let (room, names) = (" ".repeat(11), " ".repeat(16));
        let want = format!("{room}50.00%\n{names}main\n{names}work\n{names}leaf\n\n{room}80.00%\n{names}main\n\n");
        assert_eq!(text(&flat, 160, std::slice::from_ref(&main)), want);
        let folded = ChainSpec { form: ChainForm::Folded, value: ChainValue::Period, most: 2, ..SPEC };
        assert_eq!(text(&folded, 160, &[main]), "100 main;work;leaf\n40 main\n");
    }
}
