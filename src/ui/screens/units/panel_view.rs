//! The state of a panel's view: visible rows, their order, and the cursor.

use std::sync::{Arc, OnceLock};

use hashbrown::HashSet;

use crate::panel::{Body, Cell, Panel, Rows, Stacks};
use crate::query::flame::FlameTree;
use crate::ui::screens::flame::state::FlameState;
use crate::ui::state::ListCursor;

#[derive(Clone, Debug, Default)]
pub(crate) struct PanelView {
    /// The cursor by row; it rests on the first one, or follows a log.
    pub(crate) list: ListCursor<u64>,
    /// The user's sort column and whether it is reversed. `None` for the unit's own order.
    pub(crate) order: Option<(usize, bool)>,
    /// The unit's own order, derived from the rows.
    pub(crate) own_order: Option<(usize, bool)>,
    pub(crate) filter: Option<regex::Regex>,
    /// Rows of a tree that were collapsed, or expanded if its rows are folded at first.
    pub(crate) turned: HashSet<u64>,
    /// Whether the rest of a table is expanded.
    pub(crate) has_rest_open: bool,
    /// The most rows that were shown at once.
    pub(crate) tallest: usize,
    /// The tree of the panel's stacks, created on first use.
    tree: OnceLock<Arc<FlameTree>>,
    pub(crate) flame: FlameState,
}

impl PanelView {
    pub(crate) fn tree(&self, stacks: &Stacks) -> &FlameTree {
        self.tree.get_or_init(|| Arc::new(FlameTree::of_stacks(stacks)))
    }

    pub(crate) fn ordered_by(&self) -> Option<(usize, bool)> {
        self.order.or(self.own_order)
    }

    /// Whether a row of a tree is collapsed.
    pub(crate) fn is_collapsed(&self, rows: &Rows, row: usize) -> bool {
        self.turned.contains(&rows.ids[row]) != (rows.is_folded && self.filter.is_none())
    }

    /// Whether collapsed rows are shown; a filter searches them, too.
    pub(crate) fn shows_rest(&self) -> bool {
        self.has_rest_open || self.filter.is_some()
    }

    /// Keeps the cursor on its row, or on its position if the row went.
    pub(crate) fn follow(&mut self, before: &Panel, now: &Panel, height: usize) {
        self.tree = OnceLock::new();
        let Some(rows) = now.rows() else { return };
        self.tallest = self.tallest.max(rows.unfolded());
        self.own_order = own_order(&now.body, rows, self.own_order);
        let (Some(id), Some(old)) = (self.list.id, before.rows()) else { return };
        let at = visible(&before.body, old, self).iter().position(|row| old.ids[*row] == id);
        let Some(at) = at else { return };
        let list = visible(&now.body, rows, self);
        let last = list.len().saturating_sub(1);
        let then = list.iter().position(|row| rows.ids[*row] == id).unwrap_or(at.min(last));
        self.list.id = list.get(then).map(|row| rows.ids[*row]);
        self.list.follow((at, then), !matches!(now.body, Body::Log(_)), list.len(), height);
    }
}

/// Returns the visible rows in order, without collapsed and filtered ones.
pub(crate) fn visible(body: &Body, rows: &Rows, view: &PanelView) -> Vec<usize> {
    let mut list = ordered(body, rows, view);
    if let Some(filter) = &view.filter {
        list.retain(|row| {
            rows.table.rows[*row].iter().any(|cell| match cell {
                Cell::Text(text) => filter.is_match(text),
                Cell::Id(id) => filter.is_match(&id.to_string()),
                _ => false,
            })
        });
    }
    list
}

/// Returns the cursor among the visible rows: the first by default, none while a log is followed.
pub(crate) fn cursor(body: &Body, rows: &Rows, view: &PanelView, visible: &[usize]) -> Option<usize> {
    let chosen = view.list.id.and_then(|id| visible.iter().position(|row| rows.ids[*row] == id));
    chosen.or((!matches!(body, Body::Log(_)) && !visible.is_empty()).then_some(0))
}

fn ordered(body: &Body, rows: &Rows, view: &PanelView) -> Vec<usize> {
    match body {
        Body::Tree(_) => {
            let mut out = Vec::new();
            siblings(rows, view, 0, rows.ids.len(), &mut out);
            out
        }
        Body::Table(_) => {
            let open = view.shows_rest();
            let Some(rest) = rows.rest.filter(|_| view.order.is_some()) else {
                let mut order = rows.in_order(open);
                sort(rows, view, &mut order, |row| *row);
                return order;
            };
            let mut order: Vec<usize> = (0..=rest.row).collect();
            sort(rows, view, &mut order, |row| *row);
            let mut folded: Vec<usize> = if open { (rest.row + 1..rows.ids.len()).collect() } else { Vec::new() };
            sort(rows, view, &mut folded, |row| *row);
            let below = order.iter().position(|row| *row == rest.row).map_or(order.len(), |at| at + 1);
            order.splice(below..below, folded);
            order
        }
        _ => (0..rows.ids.len()).collect(),
    }
}

/// Sorts the siblings of a tree between two positions, each with its descendants.
fn siblings(rows: &Rows, view: &PanelView, from: usize, until: usize, out: &mut Vec<usize>) {
    let depth = |row: usize| rows.depth.get(row).copied().unwrap_or(0);
    let mut heads = Vec::new();
    let mut level = u16::MAX;
    for row in from..until {
        if depth(row) <= level {
            level = depth(row);
            heads.push(row);
        }
    }
    let ends = heads.iter().skip(1).copied().chain([until]);
    let mut list: Vec<(usize, usize)> = heads.iter().copied().zip(ends).collect();
    sort(rows, view, &mut list, |(head, _)| *head);
    for (head, end) in list {
        out.push(head);
        if !view.is_collapsed(rows, head) {
            siblings(rows, view, head + 1, end, out);
        }
    }
}

fn sort<T>(rows: &Rows, view: &PanelView, list: &mut [T], row: impl Fn(&T) -> usize) {
    let Some((column, turned)) = view.order else { return };
    let cell = |item: &T| rows.table.rows[row(item)].get(column);
    list.sort_by(|a, b| match (cell(a), cell(b)) {
        (Some(a), Some(b)) => b.compare(a),
        _ => std::cmp::Ordering::Equal,
    });
    if turned {
        list.reverse();
    }
}

/// Returns the column by which a unit sorted its rows: the stated one, or else one whose figures fall, preferably of
/// sums; the previous one while it is consistent.
pub(crate) fn own_order(body: &Body, rows: &Rows, before: Option<(usize, bool)>) -> Option<(usize, bool)> {
    if matches!(body, Body::Log(_)) || rows.has_hidden_order {
        return None;
    }
    if let Some(column) = rows.ordered_by {
        return Some((column, false));
    }
    let heads: Vec<&Vec<Cell>> = rows
        .table
        .rows
        .iter()
        .enumerate()
        .filter(|(i, _)| rows.depth.get(*i).is_none_or(|d| *d == 0) && rows.rest.is_none_or(|rest| *i < rest.row))
        .map(|p| p.1)
        .collect();
    let holds = |(column, turned): (usize, bool)| {
        let order = |a: &Vec<Cell>, b: &Vec<Cell>| match (a.get(column), b.get(column)) {
            (Some(a), Some(b)) if turned => Some(b.compare(a)),
            (Some(a), Some(b)) => Some(a.compare(b)),
            _ => None,
        };
        let falls = heads.windows(2).all(|pair| order(pair[0], pair[1]).is_some_and(std::cmp::Ordering::is_ge));
        falls && heads.len() > 1 && order(heads[0], heads[heads.len() - 1]).is_some_and(std::cmp::Ordering::is_gt)
    };
    if let Some(before) = before.filter(|before| heads.len() < 2 || holds(*before)) {
        return Some(before);
    }
    let rank = |column: usize| match heads.first().and_then(|row| row.get(column)) {
        Some(Cell::Time(_) | Cell::Bytes(_) | Cell::ByteChange(_)) => 0,
        Some(Cell::Percent(_)) => 1,
        Some(Cell::Count(_) | Cell::Number(_)) => 2,
        _ => 3,
    };
    let columns = (0..rows.table.columns.len()).flat_map(|column| [(column, false), (column, true)]);
    columns
        .filter(|by| holds(*by) && (!by.1 || rank(by.0) == 3))
        .min_by_key(|(column, turned)| (rank(*column), *turned, *column))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panel::Rest;

    fn of(cells: &[(u16, &str, u64, u64)]) -> Rows {
        let column = |name| crate::panel::Column::new(name, name, crate::panel::Align::Left, 0);
        let mut rows = Rows::new(vec![column("name"), column("n"), column("time")]);
        for (id, (depth, name, n, time)) in (1..).zip(cells) {
            rows.depth.push(*depth);
            rows.push(id, vec![Cell::Text((*name).into()), Cell::Count(*n), Cell::Time(*time)]);
        }
        rows
    }

    #[test]
    fn rows_are_filtered_by_their_texts() {
        let rows = of(&[(0, "nginx", 1, 0), (0, "bash", 2, 0), (0, "nginx: worker", 3, 0)]);
        let body = Body::Table(rows.clone());
        let filter = Some(regex::Regex::new("^ng").expect("a pattern"));
        let view = PanelView { order: Some((1, false)), filter, ..PanelView::default() };
        assert_eq!(visible(&body, &rows, &view), [2, 0]);
    }

    /// The cursor stays on its row, and the table at its top while the cursor is visible from there.
    #[test]
    fn hotter_rows_stay_in_sight() {
        let panel = |ids: &[u64]| {
            let mut rows = Rows::new(vec![crate::panel::Column::new("n", "n", crate::panel::Align::Left, 0)]);
            ids.iter().for_each(|id| rows.push(*id, vec![Cell::Count(*id)]));
            Panel::new("Rows", Body::Table(rows))
        };
        let lists =
            [[1, 2, 3, 4, 5, 6], [2, 3, 4, 1, 5, 6], [2, 3, 4, 5, 6, 1], [1, 2, 3, 4, 5, 6]].map(|ids| panel(&ids));
        let mut view = PanelView { list: ListCursor { id: Some(1), ..ListCursor::default() }, ..PanelView::default() };
        let mut seen = Vec::new();
        for pair in lists.windows(2) {
            view.follow(&pair[0], &pair[1], 4);
            seen.push((view.list.top, view.list.drifted, view.list.id));
        }
        // Only while two rows are hidden above, their number is shown.
        assert_eq!(seen, [(0, false, Some(1)), (2, true, Some(1)), (0, false, Some(1))]);
    }

    #[test]
    fn the_rest_of_a_table_is_sorted_with_its_rows_below_it() {
        let rows = of(&[(0, "a", 1, 0), (0, "b", 2, 0), (0, "rest", 9, 0), (0, "c", 4, 0), (0, "d", 5, 0)]);
        let rest = Rest { row: 2, after: 2, is_largest: false };
        let rows = Rows { rest: Some(rest), depth: Vec::new(), ..rows };
        let body = Body::Table(rows.clone());
        let mut view = PanelView { order: Some((1, false)), ..PanelView::default() };
        assert_eq!(visible(&body, &rows, &view), [2, 1, 0]);
        view.has_rest_open = true;
        assert_eq!(visible(&body, &rows, &view), [2, 4, 3, 1, 0]);
        view.order = Some((1, true));
        assert_eq!(visible(&body, &rows, &view), [0, 1, 2, 3, 4]);
        view.order = Some((1, false));
        let filter = Some(regex::Regex::new("^[cb]$").expect("a pattern"));
        let view = PanelView { has_rest_open: false, filter, ..view };
        assert_eq!(visible(&body, &rows, &view), [3, 1]);
    }

    #[test]
    fn rows_of_a_tree_stay_below_theirs_in_any_order() {
        let rows =
            of(&[(0, "a", 1, 0), (1, "b", 5, 0), (1, "c", 9, 0), (2, "d", 2, 0), (0, "e", 3, 0), (1, "f", 4, 0)]);
        let body = Body::Tree(rows.clone());
        let mut view = PanelView { order: Some((1, false)), ..PanelView::default() };
        assert_eq!(visible(&body, &rows, &view), [4, 5, 0, 2, 3, 1]);
        view.turned.extend([3, 5]);
        assert_eq!(visible(&body, &rows, &view), [4, 0, 2, 1]);
        let folded = Rows { is_folded: true, ..rows.clone() };
        assert_eq!(visible(&body, &folded, &view), [4, 5, 0]);
        view.order = Some((1, true));
        assert_eq!(visible(&body, &rows, &view), [0, 1, 2, 4]);
        view.order = None;
        assert_eq!(visible(&body, &rows, &view), [0, 1, 2, 4]);
    }

    #[test]
    fn the_order_of_a_unit_is_seen_from_its_rows() {
        let by = |cells: &[(u16, &str, u64, u64)], before| {
            let rows = of(cells);
            own_order(&Body::Table(rows.clone()), &rows, before)
        };
        let falling = [(0, "b", 9, 7), (0, "a", 4, 7), (0, "c", 4, 2)];
        assert_eq!(by(&falling, None), Some((2, false)));
        assert_eq!(by(&falling, Some((1, false))), Some((1, false)));
        assert_eq!(by(&[(0, "a", 1, 5), (0, "b", 2, 6)], Some((1, false))), Some((0, false)));
        assert_eq!(by(&[(0, "b", 1, 5), (0, "a", 2, 6), (0, "c", 0, 1)], None), None);
        assert_eq!(by(&[(0, "b", 1, 5)], Some((1, false))), Some((1, false)));
        // The last row is of another kind; the table states its order.
        let rows = Rows { ordered_by: Some(2), ..of(&[(0, "b", 9, 7), (0, "a", 4, 2), (0, "end", 3, 9)]) };
        assert_eq!(own_order(&Body::Table(rows.clone()), &rows, Some((1, false))), Some((2, false)));
        // By a value that no column shows, although one falls.
        let rows = Rows { has_hidden_order: true, ..of(&falling) };
        assert_eq!(own_order(&Body::Table(rows.clone()), &rows, Some((1, false))), None);
        let rows = of(&falling);
        assert_eq!(own_order(&Body::Log(rows.clone()), &rows, Some((1, false))), None);
    }

    #[test]
    fn the_cursor_rests_on_the_first_row_and_a_log_is_followed() {
        let rows = of(&[(0, "a", 1, 0), (0, "b", 2, 0)]);
        let at = |body: &Body, selected| {
            let list = ListCursor { id: selected, ..ListCursor::default() };
            let view = PanelView { list, ..PanelView::default() };
            cursor(body, &rows, &view, &visible(body, &rows, &view))
        };
        let (table, log) = (Body::Table(rows.clone()), Body::Log(rows.clone()));
        assert_eq!(
            (at(&table, None), at(&table, Some(2)), at(&log, None), at(&log, Some(1))),
            (Some(0), Some(1), None, Some(0))
        );
    }
}
