//! The terminal: its events, its properties, and the frames that it shows.

pub(crate) mod frame_pacer;
pub(crate) mod inputs;
pub(crate) mod paint;
pub mod run;
pub(crate) mod term;
pub(crate) mod term_query;
