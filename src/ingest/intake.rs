//! The choice of records and samples that are taken in.

use super::hardware::HardwareWords;

/// The parts of a recording that are wanted: less is quicker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntakeOptions {
    /// Whole call chains, not just the sampled functions.
    pub chains: bool,
    /// The texts of tracepoints' samples.
    pub traces: bool,
    /// What tracepoints said, for filters of their fields and for saving.
    pub fields: bool,
    /// Inlined functions of all frames, before anything is shown.
    pub inline: bool,
    /// Their source lines, likewise.
    pub lines: bool,
    /// Its events are for analysis units alone: nothing of them is kept.
    pub units_only: bool,
    /// The addresses that each process had are shown, and all words of a chain: frames are not shared with processes
    /// that had others.
    pub addresses: bool,
    /// What the hardware told beside samples.
    pub hardware: Option<HardwareWords>,
    /// Branches before a sample are part of its call chain.
    pub history: bool,
    /// Frames of each stack at most, from its leaf on.
    pub max_stack: Option<usize>,
}

impl Default for IntakeOptions {
    fn default() -> Self {
        Self {
            chains: true,
            traces: false,
            fields: true,
            inline: false,
            lines: false,
            units_only: false,
            addresses: false,
            hardware: None,
            history: false,
            max_stack: None,
        }
    }
}
