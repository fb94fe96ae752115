//! The state of the table: cursor, scroll position, search.

use regex::Regex;

use crate::query::answer::TopLine;
use crate::query::search::pattern;
use crate::query::{Answer, ColumnKey};
use crate::ui::state::ListCursor;

/// Cursor and scroll position.
#[derive(Clone, Debug, Default)]
pub struct TopState {
    /// The cursor by item; it rests on the first line.
    pub list: ListCursor<u64>,
    pub selected: usize,
    /// The function whose row the cursor goes to when it appears.
    pub(crate) seek: Option<String>,
    pub(crate) height: usize,
    pub(crate) search: Option<Search>,
}

/// A search with its number of matches.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(crate) text: String,
    pub(crate) regex: Regex,
    pub(crate) matches: usize,
    /// The number of the current match, from 1; 0 if the cursor is on none.
    pub(crate) current: usize,
}

/// Whether a line matches a search by function, DSO or comm.
pub(crate) fn matches(regex: &Regex, line: &TopLine) -> bool {
    regex.is_match(&line.sym)
        || line.depth == 0
            && (regex.is_match(&line.dso) || line.group.text(ColumnKey::Comm).is_some_and(|c| regex.is_match(c)))
}

fn sought(answer: &Answer, name: &str) -> Option<usize> {
    answer.view.lines.iter().position(|line| line.depth == 0 && &*line.sym == name)
}

impl TopState {
    pub(crate) fn line<'a>(&self, answer: &'a Answer) -> Option<&'a TopLine> {
        answer.view.lines.get(self.selected)
    }

    /// Returns the row under the cursor, or the row of the call chain entry under it.
    pub(crate) fn row<'a>(&self, answer: &'a Answer) -> Option<&'a TopLine> {
        let upto = answer.view.lines.get(..=self.selected)?;
        upto.iter().rev().find(|line| line.depth == 0)
    }

    /// Follows the item under the cursor into a new answer.
    pub(crate) fn follow(&mut self, answer: &Answer) {
        if let Some(at) = self.seek.as_deref().and_then(|name| sought(answer, name)) {
            self.seek = None;
            return self.go(at, answer);
        }
        let lines = &answer.view.lines;
        if let Some(item) = self.list.id
            && let Some(at) = lines.iter().position(|l| l.id == item)
        {
            self.list.follow((self.selected, at), true, lines.len(), self.height);
            self.selected = at;
        }
        self.selected = self.selected.min(lines.len().saturating_sub(1));
        self.list.show(self.selected, lines.len(), self.height);
        self.list.id = self.list.id.and_then(|_| lines.get(self.selected).map(|l| l.id));
        self.count_matches(answer);
    }

    pub(crate) fn step(&mut self, by: isize, answer: &Answer) {
        self.go(self.selected.saturating_add_signed(by), answer);
    }

    /// Puts the cursor on a line.
    pub fn go(&mut self, line: usize, answer: &Answer) {
        let lines = &answer.view.lines;
        self.selected = line.min(lines.len().saturating_sub(1));
        self.list.go(lines.get(self.selected).map(|l| l.id), self.selected, lines.len(), self.height);
        self.count_matches(answer);
    }

    /// Returns to the first line and stays there.
    pub(crate) fn home(&mut self) {
        *self = Self { height: self.height, search: self.search.take(), ..Self::default() };
    }

    /// Starts a search; the cursor goes to the next match.
    pub(crate) fn search(&mut self, text: &str, answer: &Answer) -> Result<(), String> {
        if text.is_empty() {
            self.search = None;
            return Ok(());
        }
        let regex = pattern(text)?;
        self.search = Some(Search { text: text.to_owned(), regex, matches: 0, current: 0 });
        let here = answer.view.lines.get(self.selected).is_some_and(|l| self.hit(l));
        if here {
            self.count_matches(answer)
        } else {
            self.next(1, answer)
        }
        Ok(())
    }

    pub(crate) fn hit(&self, line: &TopLine) -> bool {
        self.search.as_ref().is_some_and(|s| matches(&s.regex, line))
    }

    /// Goes to the next (1) or previous (-1) match, wrapping around.
    pub(crate) fn next(&mut self, step: isize, answer: &Answer) {
        let n = answer.view.lines.len() as isize;
        let found = (1..=n).map(|i| (self.selected as isize + i * step).rem_euclid(n.max(1)) as usize);
        let at = found.into_iter().find(|i| answer.view.lines.get(*i).is_some_and(|l| self.hit(l)));
        if let Some(at) = at {
            self.go(at, answer);
        }
        self.count_matches(answer);
    }

    fn count_matches(&mut self, answer: &Answer) {
        let Some(mut search) = self.search.take() else { return };
        let hits = answer.view.lines.iter().enumerate().filter(|(_, l)| matches(&search.regex, l));
        let (mut count, mut current) = (0, 0);
        for (i, _) in hits {
            count += 1;
            if i == self.selected {
                current = count;
            }
        }
        (search.matches, search.current) = (count, current);
        self.search = Some(search);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::answer::ViewAnswer;

    fn answer(ids: &[u64]) -> Answer {
        let lines = ids.iter().map(|id| TopLine::staged(*id)).collect();
        Answer { view: ViewAnswer { lines, ..ViewAnswer::default() }, ..Answer::default() }
    }

    /// The cursor stays on its row, and the list at its top while the cursor is visible from there.
    #[test]
    fn hotter_rows_stay_in_sight() {
        let mut screen = TopState { height: 4, ..TopState::default() };
        screen.go(0, &answer(&[1, 2, 3, 4, 5, 6]));
        screen.follow(&answer(&[2, 3, 4, 1, 5, 6]));
        assert_eq!((screen.selected, screen.list.top, screen.list.drifted), (3, 0, false));
        screen.follow(&answer(&[2, 3, 4, 5, 6, 1]));
        assert_eq!((screen.selected, screen.list.top, screen.list.drifted), (5, 2, true), "said where they are not");
        screen.follow(&answer(&[1, 2, 3, 4, 5, 6]));
        assert_eq!((screen.selected, screen.list.top, screen.list.drifted), (0, 0, false));
    }

    #[test]
    fn who_scrolls_knows_what_is_above() {
        let list = answer(&[1, 2, 3, 4, 5, 6]);
        let mut screen = TopState { height: 4, ..TopState::default() };
        screen.go(5, &list);
        screen.follow(&list);
        assert_eq!((screen.list.top, screen.list.drifted), (2, false));
        screen.home();
        assert_eq!((screen.list.top, screen.list.id), (0, None));
    }
}
