//! Answers without a terminal: tables as text, CSV and JSON, and what `doctor` finds.

pub mod annotated;
pub mod counters;
pub mod doctor;
pub mod hardware;
pub mod json;
pub mod script;
