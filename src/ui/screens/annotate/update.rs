//! Commands of annotated functions and of the symbol format.

use std::sync::Arc;

use crate::engine::Request;
use crate::profile::frames::SymState;
use crate::query::annotate::AnnotatedFunction;
use crate::query::annotate::listing::{ListingColumns, text};
use crate::session::Origin;
use crate::symbols::NameForm;
use crate::symbols::code::Listing;
use crate::ui::draw::layout;
use crate::ui::popups::Popup;
use crate::ui::screens::annotate::draw as drawn;
use crate::ui::screens::annotate::state::{AnnotateRequest, Annotated};
use crate::ui::state::{Effect, Model};

impl Model {
    /// Opens the named function, or the one under the cursor.
    pub(crate) fn annotate(&mut self, name: Option<String>, here: Option<AnnotatedFunction>) {
        let target = match name {
            Some(name) => {
                let line = self.context.answer.view.lines.iter().find(|line| *line.sym == *name);
                Some(AnnotatedFunction {
                    function: name.into(),
                    dso: line.map_or_else(|| "".into(), |line| line.dso.clone()),
                })
            }
            None => here,
        };
        let Some(target) = target.filter(|target| !target.function.is_empty()) else {
            return self.say("no function under the cursor");
        };
        if target.function.ends_with(crate::profile::frames::INLINED) {
            return self.say("an inlined function has no code of its own: annotate the one that it is in");
        }
        let lines = &self.context.answer.view.lines;
        if lines.iter().any(|line| line.sym == target.function && line.state == SymState::Unknown) {
            return self.say("that address is in no known function");
        }
        self.request(Request::List(target.clone(), None));
        self.frame.popups.push(Popup::Annotate(Box::new(Annotated::new(target))));
    }

    pub(crate) fn annotated(&self) -> Option<&Annotated> {
        self.frame.popups.iter().rev().find_map(|popup| match popup {
            Popup::Annotate(screen) => Some(&**screen),
            _ => None,
        })
    }

    /// Returns its number of lines on the screen.
    pub(crate) fn annotate_room(&self) -> usize {
        drawn::room(layout::places(self, self.area()).table.height)
    }

    fn with_annotated(&mut self, change: impl FnOnce(&mut Annotated, usize)) {
        let room = self.annotate_room();
        let screen = self.frame.popups.iter_mut().rev().find_map(|popup| match popup {
            Popup::Annotate(screen) => Some(screen),
            _ => None,
        });
        if let Some(screen) = screen {
            change(screen, room);
        }
    }

    /// Applies the disassembly of a function.
    pub fn set_listing(&mut self, target: &AnnotatedFunction, listing: Result<Arc<Listing>, String>) {
        self.with_annotated(|screen, room| screen.set_listing(target, listing, room));
    }

    /// Applies new samples of the annotated function.
    pub(crate) fn follow_hits(&mut self) {
        let answer = self.context.answer.clone();
        if let (Some(hits), Some(target)) = (&answer.view.hits, &answer.question.annotate) {
            self.with_annotated(|screen, room| {
                if screen.target == *target {
                    screen.set_hits(hits.clone(), room);
                }
            });
        }
    }

    pub(crate) fn carry_out(&mut self, wish: AnnotateRequest, screen: &Annotated) -> bool {
        match wish {
            AnnotateRequest::Nothing => {}
            AnnotateRequest::Leave => return false,
            AnnotateRequest::List(target, at) => self.request(Request::List(target, Some(at))),
            AnnotateRequest::Say(text) => self.say(text),
            AnnotateRequest::Copy => {
                if let Some(Ok(listing)) = &screen.listing {
                    let event = self.event().map_or("", |event| &event.name);
                    let columns = ListingColumns { bytes: screen.bytes, periods: false };
                    self.effects.push(Effect::Copy(text(listing, &screen.hits, &screen.rows, event, columns)));
                    self.say("copied");
                }
            }
        }
        true
    }

    pub(crate) fn next_form(&mut self) {
        if self.context.info.origin == Origin::Recorded && self.context.info.inputs.is_empty() {
            return self.say("the symbols of a parsed text cannot be changed");
        }
        self.selection.form = self.selection.form.next();
        self.request(Request::Names(self.selection.form));
        self.say(match self.selection.form {
            NameForm::Raw => "names are shown as they are in the files (--no-demangle)",
            NameForm::Short => "names without what templates were made of",
            NameForm::Plain => "names without parameters, like perf",
            NameForm::Full => "names with all parameters",
        });
    }

    pub(crate) fn toggle_inlined(&mut self) {
        self.selection.inlined = !self.selection.inlined;
        self.request(Request::Inlined(self.selection.inlined));
        self.say(match self.selection.inlined {
            true => "inlined functions are frames of their own",
            false => "inlined functions count for the function that they are in",
        });
    }
}
