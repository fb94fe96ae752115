//! The state of an annotated function: cursor, hot lines, jumps and calls.

use std::sync::Arc;

use crate::query::annotate::{AnnotatedFunction, Hits, ListingRow, hot, jump, row_of, rows};
use crate::symbols::code::{Flow, Listing};

#[derive(Clone, Debug)]
pub(crate) struct Annotated {
    pub(crate) target: AnnotatedFunction,
    /// `None` while the function is being disassembled.
    pub(crate) listing: Option<Result<Arc<Listing>, String>>,
    pub(crate) hits: Arc<Hits>,
    pub(crate) rows: Vec<ListingRow>,
    pub(crate) cursor: usize,
    pub(crate) top: usize,
    pub(crate) sources: bool,
    pub(crate) bytes: bool,
    /// Whether the user moved the cursor; until then it follows the hottest line.
    moved: bool,
    /// Functions from which calls were entered, with the cursor there.
    back: Vec<(AnnotatedFunction, Arc<Listing>, usize)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnnotateRequest {
    Nothing,
    Leave,
    /// Disassemble another function at an address of the same DSO.
    List(AnnotatedFunction, u64),
    Say(&'static str),
    Copy,
}

impl Annotated {
    pub(crate) fn new(target: AnnotatedFunction) -> Self {
        Self {
            target,
            listing: None,
            hits: Arc::default(),
            rows: Vec::new(),
            cursor: 0,
            top: 0,
            sources: true,
            bytes: false,
            moved: false,
            back: Vec::new(),
        }
    }

    pub(crate) fn set_listing(
        &mut self,
        target: &AnnotatedFunction,
        listing: Result<Arc<Listing>, String>,
        height: usize,
    ) {
        if *target == self.target {
            self.listing = Some(listing);
            self.arrange(height);
        }
    }

    pub(crate) fn set_hits(&mut self, hits: Arc<Hits>, height: usize) {
        if self.hits != hits {
            self.hits = hits;
            self.arrange(height);
        }
    }

    /// Rebuilds the rows; the cursor stays on its instruction.
    fn arrange(&mut self, height: usize) {
        let Some(Ok(listing)) = &self.listing else { return };
        let at = self.here();
        self.rows = rows(listing, &self.hits, self.sources);
        self.cursor = match (at.filter(|_| self.moved), hot(&self.rows).first()) {
            (Some(index), _) => row_of(&self.rows, index).unwrap_or(0),
            (None, Some(hottest)) => *hottest,
            (None, None) => 0,
        };
        self.scroll(height);
    }

    fn here(&self) -> Option<usize> {
        self.rows.get(self.cursor..)?.iter().find_map(|row| match row {
            ListingRow::Code { index, .. } => Some(*index),
            ListingRow::Source { .. } => None,
        })
    }

    fn scroll(&mut self, height: usize) {
        let height = height.max(1);
        self.cursor = self.cursor.min(self.rows.len().saturating_sub(1));
        if self.cursor < self.top || self.cursor >= self.top + height {
            self.top = self.cursor.saturating_sub(height / 2);
        }
        self.top = self.top.min(self.rows.len().saturating_sub(height));
    }

    fn step(&mut self, by: isize, height: usize) {
        self.moved = true;
        self.cursor = self.cursor.saturating_add_signed(by).min(self.rows.len().saturating_sub(1));
        let height = height.max(1);
        if self.cursor < self.top {
            self.top = self.cursor;
        } else if self.cursor >= self.top + height {
            self.top = self.cursor + 1 - height;
        }
    }

    fn go(&mut self, row: usize, height: usize) {
        self.moved = true;
        self.cursor = row;
        self.scroll(height);
    }

    /// Goes to the next colder line, or back to the next hotter one.
    fn walk_hot(&mut self, forward: bool, height: usize) {
        let list = hot(&self.rows);
        let at = list.iter().position(|row| *row == self.cursor);
        let next = match (at, forward) {
            (None, _) => 0,
            (Some(at), true) => (at + 1) % list.len(),
            (Some(at), false) => (at + list.len() - 1) % list.len(),
        };
        if let Some(row) = list.get(next) {
            self.go(*row, height);
        }
    }

    /// Returns the rows of the jump under the cursor and its target.
    pub(crate) fn arrow(&self) -> Option<(usize, usize)> {
        let Some(Ok(listing)) = &self.listing else { return None };
        let ListingRow::Code { index, .. } = self.rows.get(self.cursor)? else { return None };
        Some((self.cursor, row_of(&self.rows, jump(listing, *index)?)?))
    }

    fn enter(&mut self, height: usize) -> AnnotateRequest {
        let Some(Ok(listing)) = self.listing.clone() else { return AnnotateRequest::Nothing };
        let Some(ListingRow::Code { index, .. }) = self.rows.get(self.cursor) else { return AnnotateRequest::Nothing };
        if let Some((_, to)) = self.arrow() {
            self.go(to, height);
            return AnnotateRequest::Nothing;
        }
        let one = &listing.instructions[*index];
        match (&one.callee, one.flow) {
            (Some(callee), Flow::Call(at) | Flow::Jump(at)) => {
                let target = AnnotatedFunction { function: callee.clone(), dso: self.target.dso.clone() };
                let from = std::mem::replace(&mut self.target, target.clone());
                self.back.push((from, listing, self.cursor));
                (self.listing, self.rows, self.moved) = (None, Vec::new(), false);
                self.hits = Arc::default();
                AnnotateRequest::List(target, at)
            }
            (None, Flow::Call(_)) => AnnotateRequest::Say("the called function is unknown"),
            (None, Flow::Away) => AnnotateRequest::Say("the target is known only at run time"),
            _ => AnnotateRequest::Say("not a jump or call"),
        }
    }

    /// Returns to the previous function; `false` if there is none.
    fn leave(&mut self, height: usize) -> bool {
        let Some((target, listing, cursor)) = self.back.pop() else { return false };
        (self.target, self.listing) = (target, Some(Ok(listing)));
        (self.hits, self.cursor, self.moved) = (Arc::default(), cursor, true);
        if let Some(Ok(listing)) = &self.listing {
            self.rows = rows(listing, &self.hits, self.sources);
        }
        self.go(cursor, height);
        true
    }

    pub(crate) fn key(&mut self, name: &str, height: usize) -> AnnotateRequest {
        let page = height.max(2) as isize - 1;
        match name {
            "up" | "k" => self.step(-1, height),
            "down" | "j" => self.step(1, height),
            "pgup" | "ctrl-b" => self.step(-page, height),
            "pgdn" | "ctrl-f" | "space" => self.step(page, height),
            "home" | "g" => self.go(0, height),
            "end" | "G" => self.go(self.rows.len().saturating_sub(1), height),
            "n" => self.walk_hot(true, height),
            "N" => self.walk_hot(false, height),
            "H" => {
                if let Some(row) = hot(&self.rows).first() {
                    self.go(*row, height);
                }
            }
            "tab" => {
                self.sources = !self.sources;
                let moved = std::mem::replace(&mut self.moved, true);
                self.arrange(height);
                self.moved = moved;
            }
            "." => self.bytes = !self.bytes,
            "enter" | "right" => return self.enter(height),
            "left" | "backspace" | "u" if self.leave(height) => {}
            "Y" | "y" => return AnnotateRequest::Copy,
            "esc" | "q" | "A" | "left" | "backspace" | "u" => return AnnotateRequest::Leave,
            _ => {}
        }
        AnnotateRequest::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Acc;
    use crate::symbols::code::Instruction;

    #[test]
    fn the_cursor_is_on_what_is_hot_until_it_is_moved() {
        let one = |at, flow, callee: Option<&str>| Instruction {
            at,
            flow,
            callee: callee.map(Into::into),
            ..Instruction::default()
        };
        let list = vec![
            one(0, Flow::On, None),
            one(4, Flow::On, None),
            one(8, Flow::Jump(4), None),
            one(12, Flow::Call(64), Some("other")),
        ];
        let listing = Arc::new(Listing { end: 16, instructions: list, ..Listing::default() });
        let target = AnnotatedFunction { function: "f".into(), dso: "d".into() };
        let mut screen = Annotated::new(target.clone());
        screen.set_listing(&target, Ok(listing), 10);
        let acc = |n| Acc { samples: n, period: n };
        let hits = |list: &[(u64, u64)]| {
            let own = acc(list.iter().map(|(_, n)| n).sum());
            Arc::new(Hits {
                at: list.iter().map(|(at, n)| (*at, acc(*n))).collect(),
                own,
                total: own,
                ..Hits::default()
            })
        };
        screen.set_hits(hits(&[(4, 9), (8, 5)]), 10);
        assert_eq!(screen.cursor, 1);
        screen.set_hits(hits(&[(4, 9), (8, 15)]), 10);
        assert_eq!((screen.cursor, screen.arrow()), (2, Some((2, 1))));
        assert_eq!((screen.key("n", 10), screen.cursor), (AnnotateRequest::Nothing, 1));
        screen.set_hits(hits(&[(8, 50)]), 10);
        assert_eq!(screen.cursor, 1, "it was moved by hand");
        screen.key("end", 10);
        let other = AnnotatedFunction { function: "other".into(), dso: "d".into() };
        assert_eq!(screen.key("enter", 10), AnnotateRequest::List(other, 64));
        assert_eq!(
            (screen.key("left", 10), screen.target.clone(), screen.cursor),
            (AnnotateRequest::Nothing, target, 3)
        );
        assert_eq!(screen.key("left", 10), AnnotateRequest::Leave);
    }
}
