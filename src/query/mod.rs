//! Questions to the profile and their answers.
//!
//! A question is answered in two linear passes: add up the weights of each site over the columns
//! ([`aggregate`]), then add sites up into rows over the trie ([`top`]). The first is kept and brought
//! up to date as samples come; the second is done when an answer is wanted.

pub mod aggregate;
pub mod annotate;
pub mod answer;
pub mod chains;
pub mod changes;
pub mod collapse;
pub mod column;
pub mod compare;
pub mod context;
pub mod cpus;
pub mod diff;
pub mod field_rows;
pub mod filter_eval;
pub mod flame;
pub mod heat;
pub mod heaviest_chain;
pub mod kept_rows;
pub mod lines;
pub mod live_rows;
pub mod origins;
pub mod parallel;
pub mod question;
pub mod range;
mod row;
pub mod search;
pub mod shown_total;
pub mod site_rows;
pub mod stable_order;
#[cfg(test)]
pub mod staged;
pub mod symbol_stacks;
pub mod task_choices;
pub mod top;
mod top_n;

use std::sync::Arc;

use crate::profile::{NodeId, Profile};
use crate::session::Session;

pub use aggregate::Aggregate;
pub use answer::{Answer, EventInfo, Mark, Progress, TopLine};
pub use question::{Age, Baseline, ChainMode, ColumnKey, Direction, Order, Question, TopSpec};
pub use top::{Keep, Top, TopRow};

/// What every projection reads.
#[derive(Clone, Copy, Debug)]
pub struct Data<'a> {
    pub session: &'a Session,
    pub profile: &'a Profile,
    /// Names of the events, by index.
    pub events: &'a [String],
    /// Where the session's time starts, for the filter field `time`.
    pub start: u64,
    /// For each stack the one that tables take for it, where that is another.
    pub origins: Option<&'a [u32]>,
}

impl Data<'_> {
    /// The text of a tracepoint's sample.
    pub fn trace(&self, id: u32) -> Arc<str> {
        self.profile.sites.traces().get(id as usize).cloned().unwrap_or_default()
    }

    /// The stack that a table takes for a sample's.
    pub fn stack(&self, stack: NodeId) -> NodeId {
        self.origins.and_then(|origins| origins.get(stack.0 as usize)).map_or(stack, |node| NodeId(*node))
    }
}
