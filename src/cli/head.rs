//! The head of a recording on standard output, as perf prints it.

use std::os::unix::fs::MetadataExt;

use super::args::Recording;
use super::output::print;
use super::{open, usage};
use crate::report::head;

/// Prints it; `full` with the machine's topology.
pub(crate) fn print_head(recording: &Recording, full: bool) -> anyhow::Result<u8> {
    let opened = open::open_silently(recording, true)?.0;
    let Some(rec) = &opened.source.info().head else {
        return Err(usage(format!("{} is text, which has no head", opened.name)));
    };
    // A stream has no time of its own.
    let written =
        recording.paths().first().and_then(|path| std::fs::metadata(path).ok()).map_or(0, |file| file.mtime());
    print(&head::text(rec, written, full))?;
    Ok(0)
}
