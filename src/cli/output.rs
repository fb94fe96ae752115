//! Standard output and error: a closed pipe is an ordinary end, not a failure.

use std::io::{self, Write};

/// Writes to standard output.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a line about what went wrong, or is worth knowing, to standard error.
pub fn complain(text: &str) {
    let mut err = io::stderr().lock();
    for line in text.trim_end().lines() {
        let _ = writeln!(err, "perfprof-tui: {}", crate::panel::text::clean(line));
    }
}

/// Whether an error is that nobody reads any more.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
