//! A stable order of rows while samples arrive. Rows with the same displayed figure keep their places, unless they
//! differ by more than chance.
//!
//! Without this rule, such rows would swap every second, which is meaningless, unreadable, and much of the output to a
//! terminal. Rows whose displayed figures differ are always in order.

use hashbrown::HashMap;

use crate::profile::Acc;
use crate::query::answer::TopLine;
use crate::query::question::{Order, Question};

/// The limit of rows that are kept stable. These are the visible ones, and a screen or two around them.
const ROWS: usize = 500;

/// The positions of rows in the previous answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct StableOrder {
    places: HashMap<u64, usize>,
    of: Option<Question>,
}

impl StableOrder {
    /// Forgets the previous answer: the next one is sorted.
    pub(crate) fn forget(&mut self) {
        self.of = None;
    }

    /// Keeps rows at their previous positions among those with the same displayed figure.
    pub(crate) fn apply_hysteresis(&mut self, lines: &mut Vec<TopLine>, question: &Question) {
        let spec = &question.top;
        type Figures = (fn(&TopLine) -> f64, fn(&TopLine) -> Acc);
        let (of, weight): Figures = match spec.order {
            Order::SelfTime => (|line| line.own_percent, |line| line.own),
            Order::Children => (|line| line.children_percent, |line| line.children),
            Order::Samples | Order::Delta | Order::Ipc | Order::Latency | Order::By(_) => return self.forget(),
        };
        if spec.reversed || question.baseline.is_some() {
            return self.forget();
        }
        let starts: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].depth == 0).take(ROWS + 1).collect();
        let ends = starts.iter().skip(1).copied().chain([lines.len()]);
        let blocks: Vec<(usize, usize)> = starts.iter().copied().zip(ends).take(ROWS).collect();
        let known = self.of.as_ref().is_some_and(|of| of.same_rows(question));
        let row = |(at, _): &(usize, usize)| {
            let line = &lines[*at];
            (self.places.get(&line.id).copied().filter(|_| known), figure(of(line)), weight(line))
        };
        let rows: Vec<(Option<usize>, (i64, bool), Acc)> = blocks.iter().map(row).collect();
        let mut order: Vec<usize> = Vec::with_capacity(blocks.len());
        for (own, (stood, shown, own_weight)) in rows.iter().enumerate() {
            let below = |above: &&usize| {
                let (place, figure, weight) = &rows[**above];
                stood.zip(*place).is_some_and(|(own, other)| own < other)
                    && figure == shown
                    && !are_apart(*weight, *own_weight)
            };
            let up = order.iter().rev().take_while(below).count();
            order.insert(order.len() - up, own);
        }
        if !order.is_sorted() {
            let rest = blocks.last().map_or(0, |(_, end)| *end);
            let parts = order.iter().map(|own| blocks[*own]);
            let moved: Vec<TopLine> = parts.flat_map(|(from, end)| lines[from..end].iter().cloned()).collect();
            lines.splice(..rest, moved);
        }
        let rows = lines.iter().filter(|line| line.depth == 0).take(ROWS);
        self.places = rows.enumerate().map(|(place, line)| (line.id, place)).collect();
        if !known {
            self.of = Some(question.clone());
        }
    }
}

/// Returns whether two weights differ by more than chance: by more than a standard deviation.
fn are_apart(a: Acc, b: Acc) -> bool {
    let variance = |acc: Acc| (acc.period as f64).powi(2) / acc.samples.max(1) as f64;
    (a.period as f64 - b.period as f64).powi(2) > variance(a) + variance(b)
}

/// Returns a percentage as it is displayed: in tenths, and whether it is more than nothing.
fn figure(percent: f64) -> (i64, bool) {
    ((10.0 * percent).round() as i64, percent > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::question::TopSpec;

    /// A line with a hundredth of its samples as its share.
    fn line(id: u64, depth: u16, samples: u64) -> TopLine {
        let (weight, percent) = (Acc { samples, period: samples * 1000 }, samples as f64 / 100.0);
        let shares = TopLine { own_percent: percent, children_percent: percent, ..TopLine::staged(id) };
        TopLine { depth, own: weight, children: weight, ..shares }
    }

    fn settled(steady: &mut StableOrder, rows: &[(u64, u64)], question: &Question) -> Vec<u64> {
        assert!(rows.is_sorted_by(|a, b| a.1 >= b.1), "an answer is in order");
        let mut lines: Vec<TopLine> = rows.iter().map(|(id, samples)| line(*id, 0, *samples)).collect();
        steady.apply_hysteresis(&mut lines, question);
        assert!(lines.is_sorted_by(|a, b| figure(a.own_percent) >= figure(b.own_percent)), "figures are in order");
        lines.iter().map(|line| line.id).collect()
    }

    #[test]
    fn rows_with_the_same_figure_keep_their_places() {
        let (mut steady, by_self) = (StableOrder::default(), Question::default());
        let mut rows = |rows: &[(u64, u64)]| settled(&mut steady, rows, &by_self);
        // 1.0 %, 1.0 % and 0.2 %.
        assert_eq!(rows(&[(1, 104), (2, 100), (3, 20)]), [1, 2, 3]);
        assert_eq!(rows(&[(2, 102), (1, 98), (3, 22)]), [1, 2, 3]);
        // A new row is placed by its weight.
        assert_eq!(rows(&[(1, 103), (4, 102), (2, 101), (3, 22)]), [1, 4, 2, 3]);
        assert_eq!(rows(&[(4, 104), (2, 103), (1, 102), (3, 22)]), [1, 4, 2, 3]);
    }

    /// In small shares of many CPUs, all rows have the same figure.
    #[test]
    fn rows_that_differ_by_more_than_chance_are_in_order() {
        let (mut steady, question) = (StableOrder::default(), Question::default());
        let mut rows = |rows: &[(u64, u64)]| settled(&mut steady, rows, &question);
        assert_eq!(rows(&[(1, 4), (2, 0)]), [1, 2]);
        assert_eq!(rows(&[(2, 4), (1, 3)]), [1, 2]);
        assert_eq!(rows(&[(2, 4), (1, 0)]), [2, 1]);
        // `<0.1 %` is more than `0.0 %`.
        assert_eq!(rows(&[(1, 1), (2, 0)]), [1, 2]);
    }

    #[test]
    fn displayed_figures_are_in_order() {
        let (mut steady, question) = (StableOrder::default(), Question::default());
        let mut rows = |rows: &[(u64, u64)]| settled(&mut steady, rows, &question);
        assert_eq!(rows(&[(1, 104), (2, 100)]), [1, 2]);
        // 1.1 % and 1.0 %.
        assert_eq!(rows(&[(2, 108), (1, 98)]), [2, 1]);
        // 1.0 % both.
        assert_eq!(rows(&[(1, 104), (2, 102)]), [2, 1]);
        assert_eq!(rows(&[(1, 860), (2, 820)]), [1, 2]);
    }

    #[test]
    fn another_question_is_answered_in_order() {
        let by_self = Question::default();
        let top = TopSpec { order: Order::Children, ..by_self.top.clone() };
        let filter = crate::filter::Filter::parse("pid == 1").ok().map(std::sync::Arc::new);
        for other in [
            Question { top, ..by_self.clone() },
            Question { range: Some((1, 3)), ..by_self.clone() },
            Question { filter, ..by_self.clone() },
        ] {
            let mut steady = StableOrder::default();
            settled(&mut steady, &[(1, 100), (2, 98)], &by_self);
            assert_eq!(settled(&mut steady, &[(2, 99), (1, 98)], &other), [2, 1]);
            assert_eq!(settled(&mut steady, &[(1, 100), (2, 99)], &other), [2, 1]);
            steady.forget();
            assert_eq!(settled(&mut steady, &[(1, 100), (2, 99)], &other), [1, 2]);
        }
    }

    #[test]
    fn what_is_unfolded_goes_with_its_row() {
        let (mut steady, question) = (StableOrder::default(), Question::default());
        settled(&mut steady, &[(1, 100), (2, 98), (3, 9)], &question);
        let mut lines = vec![line(2, 0, 103), line(21, 1, 50), line(22, 2, 40), line(1, 0, 101), line(11, 1, 101)];
        steady.apply_hysteresis(&mut lines, &question);
        assert_eq!(lines.iter().map(|line| line.id).collect::<Vec<_>>(), [1, 11, 2, 21, 22]);
    }
}
