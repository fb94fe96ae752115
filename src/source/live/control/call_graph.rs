//! Changes of the call graph mode and of the frames of interpreted programs.

use crate::event::{CallGraph, Event, Interpreters};
use crate::source::live::records::stack_walks;
use crate::source::live::{LiveSource, attr};

use super::line;

impl LiveSource {
    /// Loads the walking program only with the first event that it can walk. Returns whether it did.
    pub(super) fn load_late_walks(&mut self, which: &[usize]) -> bool {
        let slots = &self.attachment.slots;
        let is_walked = |way: CallGraph| {
            let event = |at: &usize| &slots[*at].event;
            let mut walked = which.iter().map(event).filter(|event| attr::may_be_walked(event));
            walked.any(|event| matches!(event.way(way), CallGraph::Tables | CallGraph::Auto))
        };
        let Some(way) = self.late_walks.take_if(|way| is_walked(*way)) else { return false };
        match self.set_call_graph(way) {
            Ok(_) => true,
            Err(why) => {
                self.attachment.notes.push(why);
                false
            }
        }
    }

    /// Chooses the frames of interpreted languages in later samples.
    pub(super) fn set_interpreters(&mut self, shown: Interpreters) -> Result<String, String> {
        let walks = self.attachment.walks.as_mut().filter(|walks| walks.is_by_tables());
        if walks.is_none() && self.late_walks.is_none() {
            return Err("only stacks by tables have functions of interpreters (:call-graph auto)".to_owned());
        }
        if walks.is_some_and(|walks| !walks.show_interpreted(shown)) {
            return Err("this session did not look for interpreters; start it without --interp off".to_owned());
        }
        self.interpreters = shown;
        Ok(format!("from now on: {}", shown.shown()))
    }

    /// Changes the call graph mode; if stacks are copied, replaces the rings by rings of another size.
    pub(super) fn set_call_graph(&mut self, way: CallGraph) -> Result<String, String> {
        self.late_walks = None;
        let common = &self.attachment.common;
        let (before, pages_before) = (*common, self.attachment.pages);
        let is_open = way == CallGraph::Auto;
        let (way, walks, note) = if before.chains == CallGraph::Tables && way == CallGraph::Auto {
            (before.chains, None, None)
        } else {
            stack_walks::wanted(way, self.tables, self.interpreters).map_err(|error| line(&error))?
        };
        if before.chains == way {
            return Err(note.unwrap_or_else(|| format!("the call graph mode is {} already", way.spelling())));
        }
        if self.attachment.by_task && matches!(way, CallGraph::Dwarf(_)) && !self.attachment.rights.system_wide() {
            return Err("this user's rings cannot grow during a session; restart with --call-graph dwarf".to_owned());
        }
        let events: Vec<Event> = self.attachment.slots.iter().map(|slot| slot.event.clone()).collect();
        let pages = attr::ring_pages(self.attachment.common.rate, &events, way).max(self.attachment.pages);
        self.attachment.common.chains = way;
        self.attachment.common.tables = way == CallGraph::Tables;
        self.attachment.common.copies = is_open && self.attachment.is_narrow;
        self.attachment.pages = pages;
        self.attachment.common.watermark = (pages * rustix::param::page_size() / 2) as u32;
        // The current program continues until its last records have been read.
        let starts = walks.is_some();
        if let Some(mut walks) = walks {
            if self.attachment.walks.is_some() {
                self.read_rest();
            }
            // Its records until the events are reopened are skipped.
            let before = self.attachment.detach_walks().map(|before| before.pairs.writers);
            walks.pairs.writers.extend(before.unwrap_or_default());
            self.attachment.walks = Some(walks);
        }
        let grown = if pages > pages_before { self.own_rings() } else { Ok(()) };
        let open = |done: &mut Self| if starts { done.attachment.open_all_walks() } else { Ok(()) };
        let done = grown.and_then(|()| open(self)).and_then(|()| self.reopen_all());
        if done.is_ok() != starts && self.attachment.walks.is_some() {
            self.read_rest();
            self.attachment.detach_walks();
        }
        if let Err(error) = done {
            (self.attachment.common, self.attachment.pages) = (before, pages_before);
            let _ = self.reopen_all();
            return Err(line(&error));
        }
        self.attachment.is_auto = is_open;
        if let Some(note) = note {
            return Ok(note);
        }
        Ok(match way {
            CallGraph::None => "no call chains from now on".to_owned(),
            CallGraph::Fp => "user stacks by frame pointers from now on".to_owned(),
            CallGraph::Lbr => "user stacks by the CPU's branch records from now on".to_owned(),
            CallGraph::Tables | CallGraph::Auto => "user stacks by unwind tables from now on".to_owned(),
            CallGraph::Dwarf(size) => format!("user stacks by DWARF from now on, from copies of {size} bytes"),
        })
    }
}
