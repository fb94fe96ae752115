//! Rows and their unfolded call chains as the lines of a screen.

use std::hash::BuildHasher;
use std::sync::Arc;

use crate::profile::frames::SymState;
use crate::profile::{Acc, SymId};
use crate::session::DsoKind;

use super::kept_rows::KeptRows;
use super::top::{RowGroup, Top, TopRow};
use crate::query::aggregate::Aggregate;
use crate::query::answer::{FoldMark, MAX_ROWS, TopLine};
use crate::query::data::Data;
use crate::query::diff::compare::{SideRow, TableSide};
use crate::query::diff::{NormalizeBy, RowDiff};
use crate::query::question::{ChainMode, Order, Question};
use crate::query::tree::chains::{CallTree, TreeKind};

/// The limit of call chain lines per row.
const MAX_CHAIN: usize = 2_000;

/// The lines of a table on a screen, and the separate call chains of one row.
#[derive(Debug, Default)]
pub struct ScreenLines {
    /// The lines of the table.
    pub lines: Vec<TopLine>,
    pub(crate) callers: Vec<TopLine>,
}

/// The rows of a table with their call trees, and the aggregate that they are made of.
pub type RowsOf<'a> = (&'a mut KeptRows, &'a Aggregate);

/// Returns the lines of a table, with call chains unfolded around the visible part.
pub fn lines(data: Data<'_>, top: &Top, question: &Question, kept: RowsOf<'_>) -> ScreenLines {
    let mut out = Lines::new(data, top, question, kept);
    for row in top.rows.iter().take(MAX_ROWS) {
        let weight = if question.top.order == Order::Children { row.children } else { row.own };
        if weight.percent_of(&top.total) >= question.limit_percent {
            out.row(row, None);
        }
    }
    out.done()
}

/// Returns the lines of a comparison. `rows` is the result of [`compare`](crate::query::diff::compare::compare).
pub fn compared(
    data: Data<'_>,
    top: &Top,
    old: TableSide<'_>,
    rows: &[(SideRow, RowDiff)],
    question: &Question,
    kept: RowsOf<'_>,
) -> ScreenLines {
    let mut out = Lines::new(data, top, question, kept);
    let limit = question.limit_percent;
    for (place, diff) in rows.iter().take(MAX_ROWS) {
        match place {
            SideRow::New(i) => {
                let row = &top.rows[*i as usize];
                let was = if diff.per == NormalizeBy::Total { diff.old } else { 0.0 };
                if row.own.percent_of(&top.total).max(row.children.percent_of(&top.total)).max(was) >= limit {
                    out.row(row, Some(*diff));
                }
            }
            SideRow::Gone(i) => {
                let none = Acc::default();
                let row = TopRow { own: none, children: none, ..old.top.rows[*i as usize] };
                let line = row_line(old.data, old.top, &row, (false, false), &out.empty);
                out.out.push(TopLine { mark: FoldMark::Leaf, diff: Some(*diff), ..line });
            }
        }
    }
    out.done()
}

struct Lines<'a> {
    data: Data<'a>,
    top: &'a Top,
    question: &'a Question,
    kept: RowsOf<'a>,
    /// The end of the visible part. Rows above it are unfolded, too, so that line numbers do not depend on it.
    sight_end: usize,
    out: Vec<TopLine>,
    callers: Vec<TopLine>,
    /// Shared by all lines.
    empty: Arc<str>,
}

impl<'a> Lines<'a> {
    fn new(data: Data<'a>, top: &'a Top, question: &'a Question, kept: RowsOf<'a>) -> Self {
        let sight_end = question.first_line + 2 * question.height.max(1);
        let out = Vec::with_capacity(top.rows.len().min(MAX_ROWS));
        Self { data, top, question, kept, sight_end, out, callers: Vec::new(), empty: Arc::from("") }
    }

    fn done(self) -> ScreenLines {
        ScreenLines { lines: self.out, callers: self.callers }
    }

    fn row(&mut self, row: &TopRow, diff: Option<RowDiff>) {
        let question = self.question;
        let open = question.expand_all != question.toggled.contains(&row.id);
        let at = self.out.len();
        let inclusive = question.top.order == Order::Children;
        self.out.push(TopLine { diff, ..row_line(self.data, self.top, row, (open, inclusive), &self.empty) });
        if question.callers_of == Some(row.id) {
            self.callers = self.chains(row);
        }
        if open && at < self.sight_end {
            let mut chains = self.chains(row);
            if chains.is_empty() {
                self.out[at].mark = FoldMark::Leaf;
            }
            self.out.append(&mut chains);
        }
    }

    fn chains(&mut self, row: &TopRow) -> Vec<TopLine> {
        let question = self.question;
        let inclusive = question.top.children && question.top.order == Order::Children;
        let tree = self.kept.0.tree(
            self.data,
            self.kept.1,
            (self.top, row),
            TreeKind { direction: question.direction, inclusive },
        );
        let mut out = Vec::new();
        let mut builder = Builder {
            data: self.data,
            top: self.top,
            question,
            tree: &tree,
            group: &self.top.groups[row.group as usize],
            out: &mut out,
            left: MAX_CHAIN,
            no_forks: self.empty.clone(),
        };
        builder.children(0, row.id, 1, "");
        out
    }
}

fn row_line(data: Data<'_>, top: &Top, row: &TopRow, (open, inclusive): (bool, bool), empty: &Arc<str>) -> TopLine {
    let sym = top.symbol(data, row.label);
    let dso = sym.map(|s| data.session.dsos.get(s.dso));
    TopLine {
        id: row.id,
        depth: 0,
        forks: empty.clone(),
        mark: if open { FoldMark::Open } else { FoldMark::Closed },
        group: top.groups[row.group as usize].clone(),
        own: row.own,
        children: row.children,
        own_percent: row.own.percent_of(&top.total),
        children_percent: row.children.percent_of(&top.total),
        sym: sym.map_or_else(|| empty.clone(), |s| s.shared_name()),
        dso: sym.map_or_else(|| empty.clone(), |s| s.dso_name.clone()),
        dso_path: dso.map_or_else(|| empty.clone(), |d| d.path.clone()),
        kind: sym.map_or(DsoKind::Unknown, |s| s.kind),
        state: sym.map_or(SymState::Unknown, |s| s.state),
        pair: top.figure(row, inclusive),
        diff: None,
    }
}

struct Builder<'a> {
    data: Data<'a>,
    top: &'a Top,
    question: &'a Question,
    tree: &'a CallTree,
    group: &'a Arc<RowGroup>,
    out: &'a mut Vec<TopLine>,
    left: usize,
    no_forks: Arc<str>,
}

impl Builder<'_> {
    fn shown(&self, node: u32) -> Vec<u32> {
        let limit = self.question.limit_percent.max(CHAIN_LIMIT);
        self.tree.children(self.data, node, |acc| !acc.is_zero() && acc.percent_of(&self.top.total) >= limit)
    }

    /// Adds the entries below one, after the fork characters of its ancestors (`│ `).
    fn children(&mut self, node: u32, path: u64, depth: u16, way: &str) {
        let shown = self.shown(node);
        let parent = self.tree.nodes[node as usize].acc;
        for (at, child) in shown.iter().enumerate() {
            if self.left == 0 || depth > 500 {
                return;
            }
            self.left -= 1;
            let entry = &self.tree.nodes[*child as usize];
            let sym = self.data.profile.frames.sym(SymId(entry.sym));
            let id = extend(path, &sym.dso_name, &sym.name(), sym.start);
            let has_more = !self.shown(*child).is_empty();
            // The heaviest path unfolds by default as a whole.
            let most = 2 * u128::from(entry.acc.period) >= u128::from(parent.period);
            let default = self.question.expand_all || shown.len() == 1 || most;
            let open = has_more && default != self.question.toggled.contains(&id);
            let whole: &Acc = match self.question.chain_mode {
                ChainMode::Graph => &self.top.total,
                ChainMode::Fractal => &parent,
            };
            let dso = self.data.session.dsos.get(sym.dso);
            let (head, below) = match (shown.len(), at + 1 == shown.len()) {
                (1, _) => ("", ""),
                (_, false) => ("├", "│"),
                (_, true) => ("└", " "),
            };
            let here =
                if way.is_empty() && head.is_empty() { self.no_forks.clone() } else { format!("{way}{head}").into() };
            self.out.push(TopLine {
                id,
                depth,
                forks: here,
                mark: match (has_more, open) {
                    (false, _) => FoldMark::Leaf,
                    (true, true) => FoldMark::Open,
                    (true, false) => FoldMark::Closed,
                },
                group: self.group.clone(),
                own: Acc::default(),
                children: entry.acc,
                own_percent: 0.0,
                children_percent: entry.acc.percent_of(whole),
                sym: sym.shared_name(),
                dso: sym.dso_name.clone(),
                dso_path: dso.path.clone(),
                kind: sym.kind,
                state: sym.state,
                pair: None,
                diff: None,
            });
            if open {
                self.children(*child, id, depth + 1, &format!("{way}{below}"));
            }
        }
    }
}

/// Call chain entries below this percentage are omitted, as perf does by default.
pub(crate) const CHAIN_LIMIT: f64 = 0.5;

fn extend(path: u64, dso: &str, name: &str, start: u64) -> u64 {
    rustc_hash::FxBuildHasher.hash_one((path, dso, name, start))
}

#[cfg(test)]
mod tests;
