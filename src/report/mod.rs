//! Answers without a terminal: tables as text, CSV and JSON, and the findings of `doctor`.

pub mod annotated;
pub(crate) mod chain_spec;
pub(crate) mod counter_lines;
pub mod counters;
pub(crate) mod diff;
pub(crate) mod digest;
pub mod doctor;
pub(crate) mod dump;
pub mod hardware;
pub(crate) mod head;
pub mod json;
pub mod mcp;
pub mod record_stats;
pub(crate) mod records;
pub(crate) mod rows;
pub mod script;
pub mod tasks;
pub(crate) mod text;
pub(crate) mod thread_counts;
pub(crate) mod unit_figures;
