//! Programs in C that know what they do, and the answers of units about them.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{installed, program, run, skipped, traced};

/// A program, in a folder that is deleted with it.
pub(crate) struct CompiledProgram {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl CompiledProgram {
    /// Compiles a program of this name; `None` if the test is skipped.
    pub(crate) fn of(name: &str, code: &str, options: &[&str]) -> Option<Self> {
        if !traced() {
            return None;
        }
        if !installed("cc") {
            skipped("needs a C compiler");
            return None;
        }
        let dir = tempfile::tempdir().expect("a folder");
        let (source, path) = (dir.path().join(format!("{name}.c")), dir.path().join(name));
        std::fs::write(&source, code).expect("source");
        run(Command::new("cc").args(options).args(["-w", "-o"]).args([&path, &source]));
        Some(Self { dir, path })
    }
}

/// Returns the last answer of a unit about a command, from its start to its end.
pub(crate) fn unit_answer(unit: &[&str], command: impl FnOnce(&mut Command)) -> Value {
    let mut measured = program();
    measured.args(unit).args(["--batch", "--format", "json", "-i", "3600s"]);
    command(&mut measured);
    let Output { stdout, .. } = run(&mut measured);
    let text = String::from_utf8(stdout).expect("text");
    let line = text.lines().rfind(|line| line.starts_with('{')).expect("an answer");
    serde_json::from_str(line).expect("JSON")
}
