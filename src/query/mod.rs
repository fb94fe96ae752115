//! Questions to the profile and their answers.
//!
//! A question is answered in two linear passes: add up the weights of each site over the columns ([`aggregate`]), then
//! add up sites to rows over the trie ([`top`]). The first result is kept and updated as samples arrive; the second
//! pass runs for each answer.

pub(crate) mod aggregate;
pub mod annotate;
pub mod answer;
pub mod chains;
pub mod changes;
pub(crate) mod collapse;
pub mod column;
mod column_value;
pub mod compare;
pub mod context;
pub mod cpu_use;
pub mod cpus;
mod data;
pub mod diff;
pub(crate) mod field_rows;
pub(crate) mod filter_eval;
pub mod flame;
pub mod heat;
pub(crate) mod heaviest_chain;
pub mod ipc;
pub mod kept_rows;
pub mod lines;
pub(crate) mod live_rows;
pub mod mode_weights;
pub mod origins;
pub(crate) mod parallel;
pub mod question;
mod row;
pub mod row_order;
pub mod search;
pub(crate) mod shown_total;
pub(crate) mod site_rows;
pub(crate) mod sort_words;
pub(crate) mod stable_order;
pub mod stack_marks;
#[cfg(test)]
pub(crate) mod staged;
pub(crate) mod symbol_stacks;
pub(crate) mod task_choices;
pub mod time_range;
pub mod top;
mod top_n;

pub use aggregate::Aggregate;
pub use answer::{Answer, EventInfo, Mark, Progress, TopLine};
pub use data::Data;
pub use ipc::Partner;
pub use question::{Age, Baseline, ChainMode, ColumnKey, Direction, Order, Question, TopSpec};
pub use top::{RowLimit, Top, TopRow};
