//! perf's command line where ours differs: its commands, its options without effect, and its spellings of options.

pub(crate) mod option_abbreviations;
pub(crate) mod perf_commands;
pub(crate) mod perf_options;
