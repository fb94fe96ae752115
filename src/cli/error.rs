//! Errors of commands: their messages and exit codes.

use std::process::ExitCode;

use crate::kernel::spawn::NotRun;

use super::output::{complain, is_closed_pipe};

/// Wrong usage: exit code 2, like clap's errors.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub(crate) String);

pub(crate) fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

pub(crate) fn code(result: anyhow::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // A command that could not be run is reported like in a shell.
            if let Some(not_run) = error.chain().find_map(not_run) {
                complain(&not_run.to_string());
                // `-g dwarf` is the syntax of older perf versions.
                if let mode @ ("fp" | "dwarf" | "lbr") = not_run.program.as_str() {
                    complain(&format!("-g takes no value; use --call-graph {mode} to choose how stacks are unwound"));
                }
                return ExitCode::from(not_run.code);
            }
            complain(&format!("{error:#}"));
            let no_files = |e: &std::io::Error| matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
            if error.chain().filter_map(|cause| cause.downcast_ref()).any(no_files) {
                complain("too many open files; raise the limit with ulimit -n");
            }
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}

fn not_run<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a NotRun> {
    let inner = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    cause.downcast_ref().or_else(|| inner?.downcast_ref())
}
