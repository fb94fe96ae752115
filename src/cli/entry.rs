//! The ways in that a hand expects beside those that are written: a recording's name alone opens it, options may stand
//! before a command, and a word that is no command says which one was meant.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::lang::nearest_hint;

use super::Usage;

/// The words as the parser takes them; what cannot be meant is said.
pub fn arranged(words: Vec<OsString>, parser: &clap::Command) -> Result<Vec<OsString>, Usage> {
    let Some(at) = first_word(&words, parser) else { return Ok(words) };
    let word = words[at].clone();
    let is_command = |name: &str| name == "help" || parser.find_subcommand(name).is_some();
    if word.to_str().is_some_and(is_command) {
        return Ok(with_command_first(words, at, None));
    }
    if is_recording(&word) {
        return Ok(with_command_first(words, at, Some("open")));
    }
    let typed = word.to_string_lossy();
    let names = parser.get_subcommands().map(clap::Command::get_name);
    let hint = nearest_hint(&typed, names.filter(|name| !name.is_empty()));
    Err(Usage(format!(
        "no command and no file is called {typed}{hint}\nperfprof-tui --help lists the commands; a command to sample stands after --"
    )))
}

/// The place of the first word that is no option and no option's value; none before `--`.
fn first_word(words: &[OsString], parser: &clap::Command) -> Option<usize> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let Some(text) = word.to_str() else { return Some(at) };
        if text == "--" {
            return None;
        }
        if !text.starts_with('-') || text == "-" {
            return Some(at);
        }
        at += 1 + usize::from(wants_value(text, parser));
    }
    None
}

/// True if the word behind an option is its value.
fn wants_value(text: &str, parser: &clap::Command) -> bool {
    let takes = |arg: &clap::Arg| {
        let least = arg.get_num_args().map_or(1, |range| range.min_values());
        arg.get_action().takes_values() && least > 0
    };
    let named = |is: &dyn Fn(&clap::Arg) -> bool| parser.get_arguments().find(|arg| is(arg)).is_some_and(takes);
    match text.strip_prefix("--") {
        Some(long) => !long.contains('=') && named(&|arg| arg.get_long() == Some(long)),
        // Of letters together the first that takes a value has the rest for it.
        None => {
            let letters: Vec<char> = text.chars().skip(1).collect();
            let first = letters.iter().position(|letter| named(&|arg| arg.get_short() == Some(*letter)));
            first.is_some_and(|first| first + 1 == letters.len())
        }
    }
}

/// Puts a command before the options that stood before it, or one that was not written.
fn with_command_first(words: Vec<OsString>, at: usize, command: Option<&str>) -> Vec<OsString> {
    let mut out = words;
    let command = command.map_or_else(|| out.remove(at), OsString::from);
    out.insert(1, command);
    out
}

/// True if a word can only mean a recording: it is there, or named as a place is.
fn is_recording(word: &OsStr) -> bool {
    let text = word.to_string_lossy();
    text == "-" || text.starts_with("ssh://") || text.contains(['/', '.']) || Path::new(word).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged(line: &str) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from).collect();
        let out = super::arranged(words, &super::super::args::whole()).map_err(|usage| usage.0)?;
        Ok(out.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn words_are_put_where_the_parser_takes_them() {
        for (typed, meant) in [
            ("p", "p"),
            ("p -a -F 99", "p -a -F 99"),
            ("p -a -- sleep 1", "p -a -- sleep 1"),
            ("p x.data", "p open x.data"),
            ("p -", "p open -"),
            ("p --theme nord old.data new.data", "p open --theme nord old.data new.data"),
            ("p --theme nord demo --no-tour", "p demo --theme nord --no-tour"),
            ("p --theme=nord -C 32 open x", "p open --theme=nord -C 32 x"),
            ("p record -a", "p record -a"),
            ("p -aF 99 record", "p record -aF 99"),
            ("p -aF99 record", "p record -aF99"),
            ("p help record", "p help record"),
            ("p rundelay --than 4ms", "p rundelay --than 4ms"),
        ] {
            assert_eq!(arranged(typed).as_deref(), Ok(meant));
        }
    }

    #[test]
    fn what_is_no_command_says_which_was_meant() {
        assert!(arranged("p opne x.data").expect_err("no command").contains("nearest: open"));
        assert!(arranged("p -a reprot").expect_err("no command").contains("report"));
        assert!(arranged("p rundely").expect_err("no command").contains("rundelay"));
    }
}
