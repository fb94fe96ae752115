//! Questions to the profile and their answers.
//!
//! A question is answered in two linear passes: add up the weights of each site over the columns ([`aggregate`]), then
//! add up sites to rows over the trie ([`rows`]). The first result is kept and updated as samples arrive; the second
//! pass runs for each answer. Views differ in what they make of the weights:
//!
//! * [`rows`]: tables, from scratch or updated incrementally, and the lines of a screen.
//! * [`tree`]: call trees of rows, and stacks by function name.
//! * [`flame`] and [`heat`]: flame graphs and heat maps.
//! * [`cpus`]: samples by CPU and context.
//! * [`diff`]: comparisons of two profiles.
//! * [`annotate`]: a function by instruction.

pub mod aggregate;
pub mod annotate;
pub mod answer;
pub mod answer_cache;
pub mod column;
pub mod cpus;
mod data;
pub mod diff;
pub mod flame;
pub mod heat;
pub(crate) mod parallel;
pub mod question;
pub mod rows;
pub mod search;
pub(crate) mod stack_gaps;
#[cfg(test)]
pub(crate) mod staged;
pub mod time_range;
pub mod tree;
pub(crate) mod unnamed;
pub(crate) mod wall_time;

pub use aggregate::Aggregate;
pub use answer::{Answer, EventInfo, FoldMark, ReadProgress, TopLine};
pub use answer_cache::AnswerCache;
pub use data::Data;
pub use question::{Age, Baseline, ChainMode, ColumnKey, Direction, Order, Question, TopSpec};
pub use rows::partner::Partner;
pub use rows::top::{RowLimit, Top, TopRow};
pub use wall_time::WallTime;
