//! A stable order of rows while samples arrive. Two rows swap only if their difference is significant, or if their
//! displayed figures contradict the order for several answers in a row.
//!
//! A count of n samples has an error of about √n. Without this rule, rows with smaller differences would swap every
//! second, which is meaningless, unreadable, and most of the output to a terminal.

use hashbrown::HashMap;

use crate::profile::Acc;

use crate::query::answer::TopLine;
use crate::query::question::{Order, Question};

/// The limit of rows that are kept stable. These are the visible ones, and a screen or two around them.
const ROWS: usize = 500;

/// Number of consecutive answers for which a row may stay above one with a larger displayed figure.
const HELD: u8 = 2;

/// The positions of rows in the previous answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct StableOrder {
    places: HashMap<u64, usize>,
    /// Number of consecutive answers in which each row was above one with a larger displayed figure.
    held: HashMap<u64, u8>,
    of: Option<Question>,
}

impl StableOrder {
    /// Forgets the previous answer: the next one is sorted.
    pub(crate) fn forget(&mut self) {
        self.of = None;
    }

    /// Keeps rows at their previous positions unless they differ significantly from the rows that would replace them.
    pub(crate) fn apply_hysteresis(&mut self, lines: &mut Vec<TopLine>, question: &Question) {
        let spec = &question.top;
        let of: fn(&TopLine) -> (Acc, f64) = match spec.order {
            Order::SelfTime => |line| (line.own, line.own_percent),
            Order::Children => |line| (line.children, line.children_percent),
            Order::Samples | Order::Delta | Order::Ipc | Order::Latency | Order::By(_) => return self.forget(),
        };
        if spec.reversed || question.baseline.is_some() {
            return self.forget();
        }
        let starts: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].depth == 0).take(ROWS + 1).collect();
        let ends = starts.iter().skip(1).copied().chain([lines.len()]);
        let blocks: Vec<(usize, usize)> = starts.iter().copied().zip(ends).take(ROWS).collect();
        let contradicts = |above: &TopLine, row: &TopLine| figure(of(above).1) > figure(of(row).1);
        let known = self.of.as_ref().is_some_and(|of| of.same_rows(question));
        let place = |at: usize| self.places.get(&lines[at].id).copied().filter(|_| known);
        let mut order: Vec<(usize, usize)> = Vec::with_capacity(blocks.len());
        for block in blocks {
            let row = &lines[block.0];
            let stood = place(block.0);
            let below = |above: &&(usize, usize)| {
                stood.zip(place(above.0)).is_some_and(|(own, other)| own < other)
                    && !are_apart(of(&lines[above.0]).0, of(row).0)
                    && (!contradicts(&lines[above.0], row) || self.held.get(&row.id).is_none_or(|held| *held < HELD))
            };
            let up = order.iter().rev().take_while(below).count();
            order.insert(order.len() - up, block);
        }
        // The least place in the exact order from each row on.
        let mut least = vec![usize::MAX; order.len() + 1];
        (0..order.len()).rev().for_each(|at| least[at] = least[at + 1].min(order[at].0));
        let mut held = HashMap::default();
        for (at, block) in order.iter().enumerate().filter(|(at, block)| least[at + 1] < block.0) {
            let row = &lines[block.0];
            // Rows below it that precede it in the exact order.
            let mut passed = order[at + 1..].iter().filter(|other| other.0 < block.0);
            if passed.any(|other| contradicts(&lines[other.0], row)) {
                held.insert(row.id, self.held.get(&row.id).copied().unwrap_or(0).saturating_add(1));
            }
        }
        self.held = held;
        if !order.is_sorted() {
            let rest = order.iter().map(|(_, end)| *end).max().unwrap_or(0);
            let moved: Vec<TopLine> = order.iter().flat_map(|(from, end)| lines[*from..*end].iter().cloned()).collect();
            lines.splice(..rest, moved);
        }
        let rows = lines.iter().filter(|line| line.depth == 0).take(ROWS);
        self.places = rows.enumerate().map(|(place, line)| (line.id, place)).collect();
        if !known {
            self.of = Some(question.clone());
        }
    }
}

/// Returns a percentage in tenths, as it is displayed.
fn figure(percent: f64) -> i64 {
    (10.0 * percent).round() as i64
}

/// Returns whether two weights differ significantly. The threshold is a standard deviation of the difference.
fn are_apart(a: Acc, b: Acc) -> bool {
    let variance = |acc: Acc| (acc.period as f64).powi(2) / acc.samples.max(1) as f64;
    (a.period as f64 - b.period as f64).powi(2) > variance(a) + variance(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::question::TopSpec;

    fn line(id: u64, depth: u16, samples: u64) -> TopLine {
        let weight = Acc { samples, period: samples * 1000 };
        TopLine { depth, own: weight, children: weight, ..TopLine::staged(id) }
    }

    fn settled(steady: &mut StableOrder, rows: &[(u64, u64)], question: &Question) -> Vec<u64> {
        assert!(rows.is_sorted_by(|a, b| a.1 >= b.1), "an answer is in order");
        let mut lines: Vec<TopLine> = rows.iter().map(|(id, samples)| line(*id, 0, *samples)).collect();
        steady.apply_hysteresis(&mut lines, question);
        lines.iter().map(|line| line.id).collect()
    }

    #[test]
    fn rows_change_places_when_they_are_told_apart() {
        let (mut steady, by_self) = (StableOrder::default(), Question::default());
        let mut rows = |rows: &[(u64, u64)]| settled(&mut steady, rows, &by_self);
        assert_eq!(rows(&[(1, 100), (2, 98), (3, 20)]), [1, 2, 3]);
        assert_eq!(rows(&[(2, 110), (1, 104), (3, 22)]), [1, 2, 3], "√214 is 14.6");
        assert_eq!(rows(&[(2, 119), (1, 104), (3, 22)]), [2, 1, 3]);
        assert_eq!(rows(&[(1, 130), (2, 120), (3, 22)]), [2, 1, 3]);
        // A new row is placed by its weight, regardless of its neighbors.
        assert_eq!(rows(&[(1, 130), (4, 125), (2, 120), (3, 22)]), [1, 4, 2, 3]);
        assert_eq!(rows(&[(4, 1000), (1, 131), (2, 125), (3, 22)]), [4, 1, 2, 3]);
    }

    #[test]
    fn displayed_figures_are_soon_in_order() {
        let (mut steady, question) = (StableOrder::default(), Question::default());
        let mut ids = |rows: &[(u64, u64)]| {
            let percent = |samples: u64| samples as f64 / 100.0;
            let mut lines: Vec<TopLine> =
                rows.iter().map(|(id, n)| TopLine { own_percent: percent(*n), ..line(*id, 0, *n) }).collect();
            steady.apply_hysteresis(&mut lines, &question);
            lines.iter().map(|line| line.id).collect::<Vec<u64>>()
        };
        assert_eq!(ids(&[(1, 104), (2, 100)]), [1, 2]);
        // 1.0 % both.
        (0..9).for_each(|_| assert_eq!(ids(&[(2, 102), (1, 98)]), [1, 2]));
        // 1.1 % and 1.0 %: one that goes back and forth does not move.
        for _ in 0..4 {
            assert_eq!(ids(&[(2, 108), (1, 98)]), [1, 2]);
            assert_eq!(ids(&[(2, 102), (1, 98)]), [1, 2]);
        }
        assert_eq!([(); 3].map(|()| ids(&[(2, 108), (1, 98)])), [vec![1, 2], vec![1, 2], vec![2, 1]]);
        assert_eq!(ids(&[(1, 104), (2, 102)]), [2, 1]);
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
        let mut lines = vec![line(2, 0, 105), line(21, 1, 50), line(22, 2, 40), line(1, 0, 101), line(11, 1, 101)];
        steady.apply_hysteresis(&mut lines, &question);
        assert_eq!(lines.iter().map(|line| line.id).collect::<Vec<_>>(), [1, 11, 2, 21, 22]);
    }
}
