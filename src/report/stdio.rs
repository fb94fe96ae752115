//! A report in perf's own layout (`report --stdio`): heading, columns, and call chains as a graph.

use std::fmt::Write;

use crate::panel::call_chains::{ChainSpec, ChainValue};
use crate::panel::table::{Align, Cell};
use crate::panel::text::{clean, width};
use crate::panel::top::{Field, TopTable};
use crate::profile::Acc;
use crate::query::heaviest_chain::HeavyTree;
use crate::query::{ColumnKey, Data, TopRow};
use crate::session::DsoKind;

use super::json::ChainsByRow;

/// A column of which only one value is left: the head tells it, and the column goes where others are left.
pub(crate) struct OnlyValue<'a> {
    pub(crate) key: ColumnKey,
    /// What perf calls it.
    pub(crate) name: &'static str,
    pub(crate) value: &'a str,
}

impl<'a> OnlyValue<'a> {
    /// Those of a command line's lists of one value whose columns are shown.
    pub(crate) fn of(
        keys: &[ColumnKey],
        comms: Option<&'a str>,
        dsos: Option<&'a str>,
        symbols: Option<&'a str>,
    ) -> Vec<Self> {
        let lists =
            [(ColumnKey::Comm, "comm", comms), (ColumnKey::Dso, "dso", dsos), (ColumnKey::Sym, "symbol", symbols)];
        let one = |(key, name, list): (ColumnKey, &'static str, Option<&'a str>)| {
            let value = list.filter(|list| !list.contains(',') && keys.contains(&key))?;
            Some(Self { key, name, value })
        };
        lists.into_iter().filter_map(one).collect()
    }
}

/// What stands before the tables of all events.
pub(crate) fn head(lost: u64, only: &[OnlyValue<'_>]) -> String {
    let told: String = only.iter().map(|one| format!("# {}: {}\n", one.name, clean(one.value))).collect();
    format!(
        "# To display the perf.data header info, please use --header/--header-only options.\n#\n{}#\n\
         # Total Lost Samples: {lost}\n#\n",
        told
    )
}

/// The rows of an event.
pub(crate) struct StdioReport<'a> {
    pub(crate) table: TopTable<'a>,
    pub(crate) event: &'a str,
    /// Whether rows count what they call.
    pub(crate) children: bool,
    /// Columns that are left out, unless no other key is left.
    pub(crate) only: &'a [OnlyValue<'a>],
    /// Widths of columns; 0, or none, for those that their values need.
    pub(crate) widths: &'a [usize],
}

/// A column with all of its cells.
struct Printed {
    title: String,
    align: Align,
    width: usize,
    cells: Vec<String>,
}

impl StdioReport<'_> {
    /// The table, with the chains below the rows that have some.
    pub(crate) fn text(&self, limit: usize, chains: &ChainsByRow<String>) -> String {
        let total = &self.table.top.total;
        let mut out = format!(
            "# Samples: {} of event '{}'\n# Event count (approx.): {}\n#\n",
            rounded(total.samples),
            clean(self.event),
            total.period
        );
        let rows: Vec<&TopRow> = self.table.top.rows.iter().take(limit).collect();
        let is_one = |field: &Field| self.only.iter().any(|one| *field == Field::Key(one.key));
        let keys_left = self.table.fields.iter().any(|field| matches!(field, Field::Key(_)) && !is_one(field));
        let is_told = |field: &Field| keys_left && is_one(field);
        let shown = self.table.fields.iter().filter(|field| !is_told(field)).enumerate();
        let columns: Vec<Printed> = shown.map(|(at, field)| self.column(at, *field, &rows)).collect();
        let titles: Vec<String> = columns.iter().map(|column| column.aligned(&column.title, true)).collect();
        let dots: Vec<String> = columns.iter().map(|column| ".".repeat(column.width)).collect();
        // Writing into a string cannot fail.
        let _ = writeln!(out, "# {}\n# {}\n#", titles.join("  "), dots.join("  "));
        for (i, row) in rows.iter().enumerate() {
            let cells: Vec<String> = columns
                .iter()
                .enumerate()
                .map(|(at, column)| column.aligned(&column.cells[i], at + 1 < columns.len()))
                .collect();
            let _ = writeln!(out, "  {}", cells.join("  "));
            out.push_str(chains.get(&row.place()).map_or("", String::as_str));
        }
        out + "\n\n"
    }

    fn column(&self, at: usize, field: Field, rows: &[&TopRow]) -> Printed {
        let cells: Vec<String> = rows.iter().map(|row| self.cell(row, field)).collect();
        let title = self.title(field);
        let least = match field {
            Field::Samples | Field::Period => 12,
            Field::Key(_) => 0,
            _ => 8,
        };
        let own = cells.iter().map(|cell| width(cell)).max().unwrap_or(0).max(width(&title)).max(least);
        let fixed = self.widths.get(at).copied().filter(|cells| *cells > 0);
        Printed { title, align: field.column().align, width: fixed.unwrap_or(own), cells }
    }

    /// perf's title of a column; ours, of those that it does not have.
    fn title(&self, field: Field) -> String {
        let title = match field {
            Field::SelfTime if !self.children => "Overhead",
            Field::Key(ColumnKey::Comm) => "Command",
            Field::Key(ColumnKey::Dso) => "Shared Object",
            Field::Key(ColumnKey::Srcline) => "Source:Line",
            Field::Key(ColumnKey::Srcfile) => "Source File",
            field => return field.column().title.into_owned(),
        };
        title.to_owned()
    }

    fn cell(&self, row: &TopRow, field: Field) -> String {
        let cell = self.table.cell(row, field);
        if field == Field::Key(ColumnKey::Sym) {
            let sym = self.table.top.symbol(self.table.data, row.label);
            let level = sym.map_or('.', |sym| match sym.kind {
                DsoKind::Guest => 'g',
                kind if kind.is_kernel() => 'k',
                _ => '.',
            });
            return format!("[{level}] {}", clean(&cell.text()));
        }
        match cell {
            Cell::Percent(share) => format!("{share:.2}%"),
            Cell::Count(n) => n.to_string(),
            cell => clean(&cell.text()).into_owned(),
        }
    }
}

impl Printed {
    /// A text in the column; the last one of a line has no blanks behind it.
    fn aligned(&self, text: &str, padded: bool) -> String {
        let room = " ".repeat(self.width.saturating_sub(width(text)));
        match self.align {
            Align::Right => format!("{room}{text}"),
            Align::Left if padded => format!("{text}{room}"),
            Align::Left => text.to_owned(),
        }
    }
}

/// `131 `, `4K`, as perf rounds it.
fn rounded(samples: u64) -> String {
    let mut rest = samples;
    let mut unit = ' ';
    for larger in ['K', 'M', 'G'] {
        if rest <= 1000 {
            break;
        }
        (rest, unit) = (rest / 1000, larger);
    }
    format!("{rest}{unit}")
}

/// A part of a call tree: a function with what comes behind it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Branch {
    pub(crate) name: String,
    pub(crate) acc: Acc,
    pub(crate) below: Vec<Branch>,
}

/// Deeper chains are not printed.
const MAX_DEPTH: usize = 512;

/// The branches of a tree.
pub(crate) fn branches(spec: &ChainSpec, data: Data<'_>, heavy: &HeavyTree) -> Vec<Branch> {
    below(spec, data, heavy, 0, 0)
}

fn below(spec: &ChainSpec, data: Data<'_>, heavy: &HeavyTree, node: u32, depth: usize) -> Vec<Branch> {
    if depth >= MAX_DEPTH {
        return Vec::new();
    }
    let one = |child: &u32| Branch {
        name: spec.name(data, heavy, *child),
        acc: heavy.tree.nodes[*child as usize].acc,
        below: below(spec, data, heavy, *child, depth + 1),
    };
    heavy.tree.nodes[node as usize].children.iter().map(one).collect()
}

/// The chains of a row as a graph, and what they are drawn with.
pub(crate) struct Graph<'a> {
    pub(crate) spec: &'a ChainSpec,
    /// What percentages are of.
    pub(crate) whole: &'a Acc,
    /// Whether the row itself is not said again at the head of a chain.
    pub(crate) skips_row: bool,
}

/// The room before a graph.
const MARGIN: usize = 12;

impl Graph<'_> {
    /// The graph of a row of some weight, with its empty line; nothing where no branch is heavy enough.
    pub(crate) fn text(&self, row: &Acc, branches: &[Branch]) -> String {
        let mut out = String::new();
        match branches {
            [] => return out,
            [only] if only.acc == *row => {
                let (names, rest) = straight(only);
                let names = &names[usize::from(self.skips_row).min(names.len())..];
                for (i, name) in names.iter().enumerate() {
                    match i {
                        0 => _ = writeln!(out, "{:MARGIN$}|\n{:MARGIN$}---{name}", "", ""),
                        _ => _ = writeln!(out, "{:MARGIN$}   {name}", ""),
                    }
                }
                let margin = if names.is_empty() { MARGIN } else { MARGIN + 3 };
                self.draw(rest, margin, &mut vec![true], &mut out);
            }
            several => self.draw(several, MARGIN, &mut vec![true], &mut out),
        }
        if !out.is_empty() {
            out.push('\n');
        }
        out
    }

    /// Branches beside each other; `rails` says which levels go on below.
    fn draw(&self, branches: &[Branch], margin: usize, rails: &mut Vec<bool>, out: &mut String) {
        let depth = rails.len();
        let rail = |on: bool| if on { '|' } else { ' ' };
        for (i, branch) in branches.iter().enumerate() {
            let _ = write!(out, "{:margin$}", "");
            rails.iter().for_each(|on| _ = write!(out, "{}          ", rail(*on)));
            out.push('\n');
            rails[depth - 1] = i + 1 < branches.len();
            let (names, rest) = straight(branch);
            for (line, name) in names.iter().enumerate() {
                let _ = write!(out, "{:margin$}", "");
                for (level, on) in rails.iter().enumerate() {
                    out.push(rail(*on));
                    match line == 0 && level + 1 == depth {
                        true => _ = write!(out, "--{}--", self.value(&branch.acc)),
                        false => out.push_str("          "),
                    }
                }
                let _ = writeln!(out, "{name}");
            }
            rails.push(true);
            self.draw(rest, margin, rails, out);
            rails.pop();
        }
        rails[depth - 1] = true;
    }

    fn value(&self, acc: &Acc) -> String {
        match self.spec.value {
            ChainValue::Percent => format!("{:.2}%", acc.percent_of(self.whole)),
            ChainValue::Period => acc.period.to_string(),
            ChainValue::Count => acc.samples.to_string(),
        }
    }
}

/// The functions of a branch up to where ways part or samples end, and what comes behind them.
fn straight(branch: &Branch) -> (Vec<&str>, &[Branch]) {
    let (mut names, mut at) = (vec![branch.name.as_str()], branch);
    while let [only] = at.below.as_slice()
        && only.acc == at.acc
    {
        names.push(&only.name);
        at = only;
    }
    (names, &at.below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panel::call_chains::ChainForm;
    use crate::query::Direction;
    use crate::query::heaviest_chain::ApartBy;

    fn branch(name: &str, period: u64, below: Vec<Branch>) -> Branch {
        Branch { name: name.to_owned(), acc: Acc { samples: period, period }, below }
    }

    fn drawn(row: u64, branches: &[Branch], skips_row: bool) -> String {
        let spec = ChainSpec {
            form: ChainForm::Graph,
            value: ChainValue::Percent,
            direction: Direction::Callees,
            least: 0.5,
            most: usize::MAX,
            apart: ApartBy::Nothing,
        };
        let whole = branch("", 200, vec![]).acc;
        Graph { spec: &spec, whole: &whole, skips_row }.text(&branch("", row, vec![]).acc, branches)
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
    fn samples_are_rounded_as_perf_rounds_them() {
        assert_eq!([131, 1000, 4636, 2_000_000].map(rounded), ["131 ", "1000 ", "4K", "2M"].map(str::to_owned));
    }
}
