//! Errors of commands: what is said of them, and which exit code each is.

use std::process::ExitCode;

use crate::kernel::spawn::NotRun;

use super::output::{complain, is_closed_pipe};

/// The arguments or a request make no sense: exit code 2, as clap's own.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub(crate) String);

/// Arguments that make no sense, as an error of a command.
pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// Says what went wrong, and as which exit code.
pub(crate) fn code(result: anyhow::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // As a shell says it: what was to run is nobody's fault here.
            if let Some(not_run) = error.chain().find_map(not_run) {
                complain(&not_run.to_string());
                // As old texts have it, `-g dwarf`.
                if let mode @ ("fp" | "dwarf" | "lbr") = not_run.program.as_str() {
                    complain(&format!("-g takes no value: --call-graph {mode} chooses how stacks are taken"));
                }
                return ExitCode::from(not_run.code);
            }
            complain(&format!("{error:#}"));
            let no_files = |e: &std::io::Error| matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
            if error.chain().filter_map(|cause| cause.downcast_ref()).any(no_files) {
                complain("no more files can be open: raise the limit with ulimit -n");
            }
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}

/// The reason why a command could not be run, where that is the cause.
fn not_run<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a NotRun> {
    let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    cause.downcast_ref().or_else(|| inner?.downcast_ref())
}
