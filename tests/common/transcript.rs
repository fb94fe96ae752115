//! Command lines with their exit codes and messages, as one golden text for each area.

use std::path::Path;
use std::process::{Command, Output};

/// Command lines of one area, for a snapshot.
///
/// Tests check exit codes and figures; the words of messages are in these snapshots only, so that a change of text is
/// one `INSTA_UPDATE=always` run.
pub struct Transcript {
    text: String,
    /// Paths that differ between machines, and their names in the text.
    places: Vec<(String, &'static str)>,
}

impl Transcript {
    pub fn new() -> Self {
        Self {
            text: String::new(),
            places: vec![(format!("{}/", super::data("").to_string_lossy().trim_end_matches('/')), "")],
        }
    }

    /// Writes a name for a path, such as that of a temporary folder.
    pub fn with(mut self, path: &Path, name: &'static str) -> Self {
        self.places.push((path.to_string_lossy().into_owned(), name));
        self
    }

    /// Runs a command, and adds its arguments, its exit code and its messages.
    pub fn add(&mut self, command: &mut Command) -> Output {
        let output = command.output().expect("runs");
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        let end = output.status.code().map_or("killed".to_owned(), |code| format!("exit {code}"));
        self.line(&format!("$ {}\n{end}", words.join(" ")));
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().filter(|line| !is_of_machine(line, &words));
        self.line(&said.collect::<Vec<_>>().join("\n"));
        output
    }

    /// Adds a text.
    pub fn line(&mut self, text: &str) {
        let text = self.places.iter().fold(text.to_owned(), |text, (path, name)| text.replace(path, name));
        self.text += text.trim_end();
        self.text.push('\n');
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Returns whether a message depends on the files and the kernel of the machine that runs the tests.
///
/// Such messages name the machine of the recording, or a mapped file that the command line does not name.
fn is_of_machine(line: &str, words: &[std::borrow::Cow<'_, str>]) -> bool {
    let Some(said) = line.strip_prefix("perfprof-tui: ") else { return false };
    let path = said.split(": ").next().unwrap_or_default();
    said.starts_with("recorded on ") || path.starts_with('/') && !words.iter().any(|word| *word == path)
}
