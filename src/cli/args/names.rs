//! Options of `annotate` and `symbols`.

use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;

use crate::lang::quantity;

use super::listed::{PERF_DATA, usual_input};
use super::{NameArgs, RecordingArgs, SelectionArgs};

/// Output format of `annotate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AnnotateFormat {
    Text,
    Json,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AnnotateArgs {
    /// The recording, then the function [default: all functions with samples, hottest first]; with -i, only the
    /// function
    #[arg(value_name = "FILE] [SYMBOL", num_args = 0..=2)]
    pub(crate) what: Vec<String>,
    /// Recording, like perf's -i
    #[arg(short = 'i', long = "input", value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Function, like perf's -s
    #[arg(short = 's', value_name = "SYMBOL")]
    pub(crate) symbol: Option<String>,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    #[command(flatten)]
    pub(crate) which: SelectionArgs,
    /// Omit functions below this share in percent
    #[arg(long, value_name = "%", default_value_t = 0.0, hide_default_value = true, value_parser = quantity::share)]
    pub(crate) percent_limit: f64,
    /// Do not show source lines
    #[arg(long)]
    pub(crate) no_source: bool,
    /// Add a column of periods
    #[arg(long)]
    pub(crate) show_total_period: bool,
    /// Show the bytes of instructions
    #[arg(long)]
    pub(crate) asm_raw: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: AnnotateFormat,
    /// Show names as they are in the files
    #[arg(long)]
    pub(crate) no_demangle: bool,
}

impl AnnotateArgs {
    /// Returns the recording and the function, or `None` if there are too many words.
    pub(crate) fn split(&self) -> Option<(RecordingArgs, Option<String>)> {
        let mut words = self.what.iter().peekable();
        // perf accepts a function without a file.
        let is_symbol = |word: &String| self.what.len() == 1 && self.symbol.is_none() && !Path::new(word).exists();
        let own = words.next_if(|word| self.input.is_none() && is_symbol(word) && Path::new(PERF_DATA).exists());
        let file = self.input.clone().or_else(|| words.next().map(PathBuf::from)).unwrap_or_else(usual_input);
        let symbol = own
            .or_else(|| words.next())
            .cloned()
            .or_else(|| self.symbol.clone())
            .or_else(|| self.which.symbols.clone());
        let recording = RecordingArgs::from_files(vec![file], self.names.clone());
        words.next().is_none().then_some((recording, symbol))
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SymbolsArgs {
    /// Program or library
    pub(crate) binary: PathBuf,
    /// Print source lines after the names, and inlined functions on separate lines
    #[arg(long)]
    pub(crate) lines: bool,
    /// Show names as they are in the file
    #[arg(long)]
    pub(crate) no_demangle: bool,
}
