//! The layout of the unit screen: units, panel titles, the selected panel, other panels in its empty lines, notes.

use ratatui::layout::Rect;

use crate::panel::text::width;
use crate::panel::{Body, Panel};
use crate::ui::screens::units::panel_view::PanelView;
use crate::ui::screens::units::state::UnitsState;
use crate::ui::screens::units::{notes, panels};

/// The fewest lines of a panel if several are shown: a title and a few rows.
const LEAST: u16 = 8;
/// Lines per row of other panels: with more, another row is shown.
const EACH: u16 = 11;
/// The least width for two panels next to each other.
const PAIR: u16 = 150;
/// The most lines of notes, and the height that allows them.
const MOST_NOTES: usize = 3;
const TALL: u16 = 16;
/// The least width of a shortened panel title.
const BRIEF: u16 = 8;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnitsLayout {
    /// Units, each as its first cell, its width and its number.
    pub(crate) units: Vec<(u16, u16, u64)>,
    /// Titles of panels, each as its first cell, its width with a blank or a bracket at both ends, and its number.
    pub(crate) titles: Vec<(u16, u16, usize)>,
    pub(crate) main: Rect,
    /// Other panels that fit, by index.
    pub(crate) others: Vec<(Rect, usize)>,
    pub(crate) notes: Rect,
}

pub(crate) fn plan(units: &UnitsState, area: Rect) -> UnitsLayout {
    let Some(unit) = units.unit() else { return UnitsLayout::default() };
    let n = unit.panels.len();
    // Returning to a unit, its panels may not have arrived yet.
    let panel = units.view().map_or(0, |view| view.panel).min(n.saturating_sub(1));
    let mut plan = UnitsLayout::default();
    let mut x = 1;
    for answer in units.answers.iter() {
        let wide = width(answer.name) as u16 + 2;
        plan.units.push((x, wide, answer.id));
        x += wide + 1;
    }
    let titles: Vec<u16> = unit.panels.iter().map(|panel| width(&panel.title) as u16).collect();
    plan.titles = places_of_titles(&titles, panel, area.width);
    let room = usize::from(area.width.saturating_sub(2));
    let most = if area.height >= TALL { MOST_NOTES } else { 1 };
    let lines = notes::lines(units, room).0.len().clamp(1, most) as u16;
    let row = |y: u16, height: u16| Rect { x: area.x, y: area.y + y, width: area.width, height };
    plan.notes = row(area.height.saturating_sub(lines), lines.min(area.height));
    let body = row(2.min(area.height), area.height.saturating_sub(2 + lines));
    let view = |i: usize| units.view().and_then(|view| view.panels.get(i));
    let wants = |i: usize| match (unit.panels.get(i), view(i)) {
        (Some(panel), Some(view)) => lines_of(panel, view, area.width),
        _ => u16::MAX,
    };
    let others: Vec<usize> = (1..n).map(|i| (panel + i) % n).collect();
    let (main, places) = divide(body, wants(panel), &others.iter().map(|i| wants(*i)).collect::<Vec<_>>());
    plan.main = main;
    plan.others = places.into_iter().zip(others).collect();
    plan
}

/// Returns the lines that a panel needs. They never decrease while the unit runs, so that panels keep their places.
fn lines_of(panel: &Panel, view: &PanelView, width: u16) -> u16 {
    let rows = match &panel.body {
        _ if panel.is_empty() => 1,
        Body::Table(rows) | Body::Tree(rows) | Body::Log(rows) if view.shows_rest() => rows.ids.len(),
        Body::Table(rows) | Body::Tree(rows) | Body::Log(rows) => rows.unfolded(),
        Body::Histogram(histogram) => panels::lines_of_bars(histogram, width),
        Body::Heatmap(map) => map.rows.len(),
        Body::Series(series) => series.lines.len() * usize::from(panels::TALLEST),
        Body::Flame(_) => usize::from(u16::MAX),
    };
    u16::try_from(rows.max(view.tallest) + 1).unwrap_or(u16::MAX)
}

/// Divides lines among the selected panel and the first of the others. The selected panel has at least a fifth and at
/// most three fifths of many lines, or all of few.
fn divide(body: Rect, wants: u16, others: &[u16]) -> (Rect, Vec<Rect>) {
    let most = if body.height >= 30 { body.height * 3 / 5 } else { body.height };
    let main = wants.saturating_add(1).clamp(LEAST.max(body.height / 5).min(most), most);
    let left = body.height - main;
    if others.is_empty() || left < LEAST {
        return (body, Vec::new());
    }
    let columns = if body.width >= PAIR { 2 } else { 1 };
    let rows = others.len().div_ceil(columns).clamp(1, usize::from((left / EACH).max(1)));
    let shown: Vec<&[u16]> = others.chunks(columns).take(rows).collect();
    // A title and what the tallest of each row wants.
    let wanted: Vec<u16> = shown
        .iter()
        .map(|row| row.iter().copied().max().unwrap_or(0).saturating_add(1).max(LEAST.min(left / rows as u16)))
        .collect();
    let mut y = body.y + main;
    let mut places = Vec::new();
    for (row, height) in shown.into_iter().zip(shares(&wanted, left)) {
        let wide = body.width / row.len() as u16;
        places.extend((0..row.len() as u16).map(|i| Rect {
            x: body.x + wide * i,
            y,
            width: wide.saturating_sub(u16::from(usize::from(i) + 1 < row.len())),
            height,
        }));
        y += height;
    }
    (Rect { height: main, ..body }, places)
}

/// Shares lines out; those that want less than an even share leave the rest of it to the others.
fn shares(wanted: &[u16], lines: u16) -> Vec<u16> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|i| wanted[*i]);
    let mut out = vec![0; wanted.len()];
    let mut left = lines;
    for (i, at) in order.into_iter().enumerate() {
        out[at] = wanted[at].min(left / (wanted.len() - i) as u16);
        left -= out[at];
    }
    out
}

/// Places titles in one line: shortens long ones, except the selected panel's, then leaves out the first ones.
fn places_of_titles(titles: &[u16], here: usize, room: u16) -> Vec<(u16, u16, usize)> {
    let cells = |i: usize, most: u16| titles[i].min(if i == here { titles[i].max(most) } else { most }) + 3;
    let total = |from: usize, until: usize, most: u16| (from..until).map(|i| cells(i, most)).sum::<u16>() + 1;
    let longest = titles.iter().copied().max().unwrap_or(0);
    let fits = |most: &u16| total(0, titles.len(), *most) <= room;
    let most = (BRIEF..=longest.max(BRIEF)).rev().find(fits).unwrap_or(BRIEF);
    let first = (0..here).find(|first| total(*first, here + 1, most) < room).unwrap_or(here);
    let mut x: u16 = 1;
    // The cells that another one for all would exceed go to the first shortened titles.
    let mut spare = room.saturating_sub(total(first, titles.len(), most));
    (first..titles.len())
        .map(|i| {
            let more = (titles[i] + 3 - cells(i, most)).min(spare);
            spare -= more;
            let place = (x, cells(i, most) + more, i);
            x = x.saturating_add(place.1);
            place
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rows_leave_room_to_other_panels() {
        let body = |height| Rect { x: 0, y: 4, width: 200, height };
        let heights = |(main, others): (Rect, Vec<Rect>)| -> (u16, Vec<(u16, u16)>) {
            (main.height, others.iter().map(|place| (place.width, place.height)).collect())
        };
        // One row, two tables with few rows and two flame graphs: the graphs have what is left.
        let graphs = u16::MAX;
        assert_eq!(
            heights(divide(body(53), 2, &[2, 5, graphs, graphs])),
            (10, vec![(99, 8), (100, 8), (99, 35), (100, 35)])
        );
        // Many rows take three fifths.
        assert_eq!(heights(divide(body(53), 500, &[2, 5])), (31, vec![(99, 8), (100, 8)]));
        assert_eq!(heights(divide(body(53), 500, &[graphs])), (31, vec![(200, 22)]));
        assert_eq!(heights(divide(body(53), 3, &[])), (53, vec![]));
        // In a small terminal other panels have what is not used.
        assert_eq!(heights(divide(body(17), 3, &[9, graphs])), (8, vec![(99, 9), (100, 9)]));
        assert_eq!(heights(divide(body(17), 12, &[9])), (17, vec![]));
        assert_eq!(heights(divide(body(3), 12, &[9])), (3, vec![]));
    }

    #[test]
    fn no_panel_lies_over_another() {
        for (width, height) in [(80, 17), (80, 53), (149, 30), (200, 53), (300, 90)] {
            for wants in [0, 1, 7, 30, u16::MAX] {
                for n in 0..9 {
                    let others: Vec<u16> = (0..n).map(|i| if i % 3 == 0 { u16::MAX } else { i }).collect();
                    let body = Rect { x: 0, y: 0, width, height };
                    let (main, places) = divide(body, wants, &others);
                    let all: Vec<Rect> = std::iter::once(main).chain(places).collect();
                    for (i, place) in all.iter().enumerate() {
                        assert!(body.union(*place) == body && place.height > 0, "{place:?} in {body:?}");
                        assert!(all[..i].iter().all(|other| !other.intersects(*place)), "{all:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn all_titles_are_in_sight() {
        let titles = [7, 6, 9, 31, 27];
        assert_eq!(places_of_titles(&titles, 0, 200).last(), Some(&(66, 30, 4)));
        let small = places_of_titles(&titles, 0, 80);
        assert_eq!(small.iter().map(|(_, wide, _)| *wide).collect::<Vec<_>>(), [10, 9, 12, 24, 24]);
        // The one that is looked at is whole.
        assert_eq!(places_of_titles(&titles, 3, 80)[3].1, 34);
        // The rest of the line goes to the first shortened titles.
        let odd = places_of_titles(&titles, 0, 82);
        assert_eq!(odd.iter().map(|(_, wide, _)| *wide).collect::<Vec<_>>(), [10, 9, 12, 25, 25]);
        let odd = places_of_titles(&titles, 0, 81);
        assert_eq!(odd.iter().map(|(_, wide, _)| *wide).collect::<Vec<_>>(), [10, 9, 12, 25, 24]);
        // Where there is room for some only, it is among them.
        assert_eq!(places_of_titles(&titles, 4, 50).last(), Some(&(20, 30, 4)));
    }
}
