//! Trees as plain text: the call chains of a row, and rows grouped level by level.

use std::collections::BTreeMap;

use crate::profile::{Acc, SymId};
use crate::query::chains::Tree;
use crate::query::{ColumnKey, Data, Top, TopRow};

use super::text::clean;
use super::unit::percent;

/// Deeper chains are not printed.
const MAX_DEPTH: usize = 512;

/// A row's call chains, indented, with their share of the whole. A chain without a branch stays at
/// one indentation.
pub fn chain(data: Data<'_>, tree: &Tree, total: &Acc, limit: f64) -> String {
    let mut out = String::new();
    // (node, indentation, depth)
    let mut stack: Vec<(u32, usize, usize)> = Vec::new();
    let shown = |node: u32| -> Vec<u32> {
        let children = &tree.nodes[node as usize].children;
        children.iter().copied().filter(|c| tree.nodes[*c as usize].acc.percent_of(total) >= limit).collect()
    };
    let first = shown(0);
    stack.extend(first.iter().rev().map(|n| (*n, 0, 0)));
    while let Some((node, indent, depth)) = stack.pop() {
        let entry = &tree.nodes[node as usize];
        let sym = data.profile.frames.sym(SymId(entry.sym));
        let share = percent(entry.acc.percent_of(total));
        out.push_str(&format!(
            "            {}{share:>8} {}  {}\n",
            "|  ".repeat(indent),
            clean(&sym.name()),
            clean(&sym.dso_name)
        ));
        let below = shown(node);
        let next = indent + usize::from(below.len() > 1);
        if depth < MAX_DEPTH {
            stack.extend(below.iter().rev().map(|n| (*n, next, depth + 1)));
        }
    }
    out
}

/// Rows as a tree whose levels are the keys.
pub fn hierarchy(data: Data<'_>, top: &Top, keys: &[ColumnKey], limit: f64) -> String {
    let mut out = String::from("    Self  ");
    out.push_str(&keys.iter().map(|k| k.title()).collect::<Vec<_>>().join(" / "));
    out.push('\n');
    let rows: Vec<&TopRow> = top.rows.iter().filter(|r| !r.own.is_zero()).collect();
    level(data, top, keys, &rows, 0, limit, &mut out);
    out
}

fn level(data: Data<'_>, top: &Top, keys: &[ColumnKey], rows: &[&TopRow], depth: usize, limit: f64, out: &mut String) {
    let Some((key, rest)) = keys.split_first() else { return };
    let mut groups: BTreeMap<String, (Acc, Vec<&TopRow>)> = BTreeMap::new();
    for row in rows {
        let entry = groups.entry(super::top::key_text(data, top, row, *key)).or_default();
        entry.0 += row.own;
        entry.1.push(row);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|a, b| b.1.0.period.cmp(&a.1.0.period).then_with(|| a.0.cmp(&b.0)));
    for (name, (acc, rows)) in groups {
        let share = acc.percent_of(&top.total);
        if share < limit {
            continue;
        }
        out.push_str(&format!("{:>8}  {}{}\n", percent(share), "  ".repeat(depth), clean(&name)));
        level(data, top, rest, &rows, depth + 1, limit, out);
    }
}
