//! Answers without a terminal: tables as text, CSV and JSON, and the findings of `doctor`.

pub mod annotated;
pub(crate) mod chain_spec;
pub(crate) mod chains;
pub(crate) mod counter_lines;
pub mod counters;
pub(crate) mod diff;
pub mod doctor;
pub(crate) mod dump;
pub mod hardware;
pub(crate) mod head;
pub(crate) mod hierarchy;
pub mod json;
pub mod record_stats;
pub(crate) mod records;
pub mod script;
pub(crate) mod stdio;
pub mod tasks;
pub(crate) mod thread_counts;
pub(crate) mod unit_figures;
