//! The rows of an event as text: tables with call chains, hierarchies, and perf's layout.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::panel::row_order::arrange_by_key;
use crate::panel::text::clean;
use crate::panel::unit::{percent, thousands};
use crate::profile::Acc;
use crate::query::rows::top_table::{TopField, key_text};
use crate::query::{ColumnKey, Direction, TopRow};
use crate::report::chain_spec::{ChainForm, ChainSpec};
use crate::report::json::{self, ChainsByRow};

use super::chains::{ChainText, NamedTree};
use super::stdio::StdioReport;
use super::{Counted, EventRows, ReportShape};

/// Size of the output buffer in bytes.
const AT_ONCE: usize = 1 << 16;

impl EventRows<'_> {
    /// Formats the rows, and passes the text on in parts.
    pub(crate) fn write<E>(
        &self,
        shape: &ReportShape<'_>,
        mut print: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        if shape.as_perf {
            return print(&self.text_as_perf(shape));
        }
        let is_quiet = shape.options.quiet;
        if !is_quiet {
            print(&self.heading(shape))?;
        }
        if shape.hierarchy {
            let text = self.hierarchy(shape.percent_limit);
            print(if is_quiet { without_titles(&text) } else { &text })?;
            return print("\n");
        }
        let table = self.table_in_words().table(shape.limit);
        // perf's scripts distinguish rows, which begin with a space, from chains, which begin with a figure.
        let folded = shape.chains.is_some_and(|spec| spec.form == ChainForm::Folded);
        let (table, margin) = match &shape.options.separator {
            Some(separator) => (table.to_separated(separator), ""),
            None if folded => (table.with_plain_figures().to_text_within(&shape.options.column_widths), "    "),
            None => (table.to_text_within(&shape.options.column_widths), ""),
        };
        let Some(spec) = shape.chains else {
            print(if is_quiet { without_titles(&table) } else { &table })?;
            return print("\n");
        };
        let mut chains = self.chain_texts(&spec, shape);
        let mut lines = table.lines();
        let titles = lines.next().unwrap_or_default();
        let begun = if margin.is_empty() { "" } else { "#   " };
        let mut out = if is_quiet { String::new() } else { format!("{begun}{titles}\n") };
        for (line, row) in lines.zip(&self.top.rows) {
            out.extend([margin, line, "\n"]);
            out.push_str(&chains.remove(&row.place()).unwrap_or_default());
            if out.len() > AT_ONCE {
                print(&std::mem::take(&mut out))?;
            }
        }
        print(&(out + "\n"))
    }

    /// Formats the event, its samples, and the column by which rows are sorted.
    fn heading(&self, shape: &ReportShape<'_>) -> String {
        let line = json::event_line(self.name, "sample", self.meaning, &self.top.total, self.lost);
        let usual = match (self.columns.by_ipc, shape.by_children && !shape.hierarchy) {
            (true, _) => TopField::Ipc,
            (false, true) => TopField::Children,
            (false, false) => TopField::SelfTime,
        };
        let first = self.columns.order.first().copied().unwrap_or(usual);
        let (of_all, of_shown) = (self.samples(&self.whole).0, self.samples(&self.top.total).0);
        let base = match of_all == of_shown {
            true => String::new(),
            false => format!(", percentages of all {}", thousands(of_all)),
        };
        format!("{}{base}, sorted by {}\n", line.trim_end(), first.column().title)
    }

    /// Formats rows as a tree with a level per key, with shares of the total.
    fn hierarchy(&self, least: f64) -> String {
        let keys = &self.columns.keys;
        let mut out = format!("    Self  {}\n", keys.iter().map(|k| k.title()).collect::<Vec<_>>().join(" / "));
        let rows: Vec<&TopRow> = self.top.rows.iter().filter(|r| !r.own.is_zero()).collect();
        self.level(keys, &rows, (0, least), &mut out);
        out
    }

    fn level(&self, keys: &[ColumnKey], rows: &[&TopRow], (depth, least): (usize, f64), out: &mut String) {
        let Some((key, rest)) = keys.split_first() else { return };
        let mut groups: BTreeMap<String, (Acc, Vec<&TopRow>)> = BTreeMap::new();
        for row in rows {
            let group = groups.entry(key_text(self.data, &self.top, row, *key)).or_default();
            group.0 += row.own;
            group.1.push(row);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        arrange_by_key(&mut groups, |(_, (acc, _))| Reverse(acc.period));
        for (name, (acc, rows)) in groups {
            let share = acc.percent_of(&self.whole);
            if share >= least {
                out.push_str(&format!("{:>8}  {}{}\n", percent(share), "  ".repeat(depth), clean(&name)));
                self.level(rest, &rows, (depth + 1, least), out);
            }
        }
    }

    fn chain_texts(&self, spec: &ChainSpec, shape: &ReportShape<'_>) -> ChainsByRow<String> {
        match spec.form {
            ChainForm::Graph | ChainForm::Fractal => self
                .chains(Counted::of(shape), spec, shape, |tree| spec.tree(self.data, tree, &self.whole, self.meaning)),
            ChainForm::Flat | ChainForm::Folded => self.as_perf_has_them(spec, shape),
        }
    }

    fn text_as_perf(&self, shape: &ReportShape<'_>) -> String {
        let table = StdioReport { tables: vec![self.table_in_words()], shape };
        let chains = shape.chains.map(|spec| self.as_perf_has_them(&spec, shape));
        table.text(self.name, &chains.unwrap_or_default())
    }

    /// Returns the chains of rows like perf. If rows include callees and chains are caller first, chains of samples in
    /// the row itself are complete, and the others begin at the row's outermost call.
    pub(super) fn as_perf_has_them(&self, spec: &ChainSpec, shape: &ReportShape<'_>) -> ChainsByRow<String> {
        // Entries omitted for lack of lines are distinguished from missing ones.
        let all_entries = ChainSpec { most: usize::MAX, ..*spec };
        let callees = spec.direction == Direction::Callees;
        let by_function = self.top.is_by_function();
        let branches = |counted| self.chains(counted, &all_entries, shape, |tree| NamedTree::of(spec, self.data, tree));
        let (below, whole) = if by_function && callees && shape.children {
            (branches(Counted::OnlyCallees), branches(Counted::Own))
        } else {
            (branches(Counted::of(shape)), ChainsByRow::default())
        };
        let text = ChainText { spec, whole: &self.whole, meaning: self.meaning, skips_row: shape.skips_row };
        let least = spec.threshold(&self.whole);
        let of_row = |row: &TopRow| {
            let weight = if shape.children { row.children } else { row.own };
            let below = below.get(&row.place()).cloned().unwrap_or_default();
            if !by_function || callees && !shape.children {
                return text.text(&weight, &below.below);
            }
            let (mut acc, mut ended) = (weight, below.ended);
            if callees {
                acc -= row.own;
                // These are complete.
                ended = Acc::default();
            }
            let name = self.top.symbol(self.data, row.label).map_or_else(String::new, |sym| sym.name().into_owned());
            let name = clean(&name).into_owned();
            let mut all = whole.get(&row.place()).cloned().unwrap_or_default().below;
            match all.iter_mut().find(|branch| branch.name == name) {
                Some(same) => {
                    same.acc += acc;
                    same.ended += ended;
                    same.below.extend(below.below);
                }
                None if !acc.is_zero() => all.push(NamedTree { name, acc, ended, below: below.below }),
                None => {}
            }
            all.retain(|branch| least.is_met(&branch.acc, &weight));
            all.sort_by_key(|branch| Reverse(branch.acc.period));
            text.text(&weight, &all)
        };
        let rows = self.top.rows.iter().take(shape.limit);
        rows.map(|row| (row.place(), of_row(row))).collect()
    }
}

/// Returns a table without its first line.
fn without_titles(table: &str) -> &str {
    table.split_once('\n').map_or("", |(_, rows)| rows)
}
