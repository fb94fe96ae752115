//! Tables: sites added up to rows, their order, and the lines of a screen.

pub mod busiest;
pub mod kept_rows;
pub(crate) mod latency_weights;
pub mod lines;
pub(crate) mod live_rows;
pub mod mode_weights;
pub mod partner;
mod path_sums;
mod row;
pub(crate) mod site_rows;
pub mod stable_order;
pub(crate) mod task_choices;
pub mod top;
mod top_n;
pub mod top_table;
