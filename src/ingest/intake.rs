//! The selection of records and samples to process.

use super::hardware::HardwareWords;

/// The parts of a recording to process; fewer parts are faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntakeOptions {
    /// Whole call chains, not just the sampled functions.
    pub chains: bool,
    /// The texts of tracepoints' samples.
    pub traces: bool,
    /// The raw data of tracepoints, for filters of their fields and for saving.
    pub fields: bool,
    /// Inlined functions of all frames, before the first output.
    pub inline: bool,
    /// Source lines of all frames, before the first output.
    pub lines: bool,
    /// The events are only for analysis units; their samples are not kept.
    pub units_only: bool,
    /// Process addresses and all words of a chain are shown; frames are not shared between processes with different
    /// addresses.
    pub addresses: bool,
    /// Hardware data of samples.
    pub hardware: Option<HardwareWords>,
    /// Branches before a sample are part of its call chain.
    pub history: bool,
    /// The maximum number of frames of each stack, counted from its leaf.
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
