//! Rows and their unfolded call chains as the lines of a screen.

use std::hash::BuildHasher;
use std::sync::Arc;

use crate::profile::frames::State;
use crate::profile::{Acc, SymId};
use crate::session::DsoKind;

use super::Data;
use super::answer::{Line, Mark};
use super::chains::Tree;
use super::question::{ChainMode, Order, Question};
use super::top::{Group, Row, Top};

/// Rows beyond this are not sent to a screen; the table says how many there are.
pub const MAX_ROWS: usize = 10_000;
/// Call-chain lines of one row.
const MAX_CHAIN: usize = 2_000;

/// The lines of a table, call chains unfolded around what is in sight.
pub fn lines(data: Data<'_>, top: &Top, question: &Question) -> Vec<Line> {
    let groups: Vec<Arc<Group>> = top.groups.iter().cloned().map(Arc::new).collect();
    // Rows above what is in sight are unfolded too, so that line numbers do not depend on it.
    let sight_end = question.first_line + 2 * question.height.max(1);
    let mut out = Vec::with_capacity(top.rows.len().min(MAX_ROWS));
    for row in top.rows.iter().take(MAX_ROWS) {
        let weight = if question.top.order == Order::Children { row.children } else { row.own };
        if weight.percent_of(&top.total) < question.limit_percent {
            continue;
        }
        let open = question.expand_all != question.toggled.contains(&row.id);
        let at = out.len();
        out.push(row_line(data, top, row, &groups, open));
        if open && at < sight_end {
            let inclusive = question.top.children && question.top.order == Order::Children;
            let tree = Tree::build(data, top, row, question.direction, inclusive);
            let mut builder = Builder {
                data,
                top,
                question,
                tree: &tree,
                group: &groups[row.group as usize],
                out: &mut out,
                left: MAX_CHAIN,
            };
            builder.children(0, row.id, 1);
            if out.len() == at + 1 {
                out[at].mark = Mark::Leaf;
            }
        }
    }
    out
}

fn row_line(data: Data<'_>, top: &Top, row: &Row, groups: &[Arc<Group>], open: bool) -> Line {
    let sym = top.symbol(data, row.label);
    let dso = sym.map(|s| data.session.dsos.get(s.dso));
    let empty: Arc<str> = Arc::from("");
    Line {
        id: row.id,
        depth: 0,
        mark: if open { Mark::Open } else { Mark::Closed },
        group: groups[row.group as usize].clone(),
        own: row.own,
        children: row.children,
        own_percent: row.own.percent_of(&top.total),
        children_percent: row.children.percent_of(&top.total),
        sym: sym.map_or_else(|| empty.clone(), |s| s.shared_name()),
        dso: sym.map_or_else(|| empty.clone(), |s| s.dso_name.clone()),
        dso_path: dso.map_or(empty, |d| d.path.clone()),
        kind: sym.map_or(DsoKind::Unknown, |s| s.kind),
        sought: sym.is_some_and(|s| s.state == State::Sought),
    }
}

struct Builder<'a> {
    data: Data<'a>,
    top: &'a Top,
    question: &'a Question,
    tree: &'a Tree,
    group: &'a Arc<Group>,
    out: &'a mut Vec<Line>,
    left: usize,
}

impl Builder<'_> {
    fn shown(&self, node: u32) -> Vec<u32> {
        let limit = self.question.limit_percent.max(CHAIN_LIMIT);
        let share = |n: &u32| self.tree.nodes[*n as usize].acc.percent_of(&self.top.total);
        self.tree.nodes[node as usize].children.iter().copied().filter(|n| share(n) >= limit).collect()
    }

    fn children(&mut self, node: u32, path: u64, depth: u16) {
        let shown = self.shown(node);
        let parent = self.tree.nodes[node as usize].acc;
        for child in &shown {
            if self.left == 0 || depth > 500 {
                return;
            }
            self.left -= 1;
            let entry = &self.tree.nodes[*child as usize];
            let sym = self.data.profile.frames.sym(SymId(entry.sym));
            let id = extend(path, &sym.dso_name, &sym.name(), sym.start);
            let has_more = !self.shown(*child).is_empty();
            // A chain without a branch is one thing to read, so it unfolds as a whole.
            let default = self.question.expand_all || shown.len() == 1;
            let open = has_more && default != self.question.toggled.contains(&id);
            let whole: &Acc = match self.question.chain_mode {
                ChainMode::Graph => &self.top.total,
                ChainMode::Fractal => &parent,
            };
            let dso = self.data.session.dsos.get(sym.dso);
            self.out.push(Line {
                id,
                depth,
                mark: match (has_more, open) {
                    (false, _) => Mark::Leaf,
                    (true, true) => Mark::Open,
                    (true, false) => Mark::Closed,
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
                sought: sym.state == State::Sought,
            });
            if open {
                self.children(*child, id, depth + 1);
            }
        }
    }
}

/// Chain entries below this share of the whole are left out, as perf's default threshold does.
pub const CHAIN_LIMIT: f64 = 0.5;

fn extend(path: u64, dso: &str, name: &str, start: u64) -> u64 {
    rustc_hash::FxBuildHasher.hash_one((path, dso, name, start))
}
