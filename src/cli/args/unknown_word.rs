//! The answer to an unknown word on the command line: units, screens and commands about that subject.

use crate::lang::find::{found, misspelled};
use crate::lang::nearest_hint;
use crate::panel::text::{clean, fit_end};
use crate::ui::input::command::Command;
use crate::ui::input::commands::table;
use crate::ui::input::keys::shown;
use crate::units::UNITS;
use crate::units::kit::Spec;

/// Maximum lines of each kind, and the width of a description in cells.
const MOST: usize = 5;
const ABOUT: usize = 70;

/// Returns the units and screens about a word, one command per line, or what it may misspell. `commands` are the names
/// of all commands, `running` are those of programs.
pub(crate) fn about<'a>(word: &str, commands: impl Iterator<Item = &'a str>, running: &[String]) -> String {
    let of = |word: &str| {
        let units = found(word, UNITS.iter().copied(), Spec::findable).into_iter().take(MOST);
        let units = units.map(|spec| format!("  perfprof-tui {:<14} {}", spec.name, fit_end(spec.about, ABOUT)));
        let keys = found(word, table::rows(), Command::findable).into_iter().filter(|row| !row.keys.is_empty());
        let keys = keys
            .take(MOST)
            .map(|row| format!("  on the screen, {:<12} {}", shown(row.keys[0]), fit_end(row.doc, ABOUT)));
        units.chain(keys).collect::<Vec<_>>()
    };
    let hint = nearest_hint(word, commands);
    let mut lines = of(word);
    if lines.is_empty()
        && hint.is_empty()
        && running.is_empty()
        && let Some(near) = misspelled(word, UNITS.iter().map(|spec| spec.findable()))
    {
        lines = of(near);
    }
    let mut out = format!("no command, file or program is named {}{hint}", clean(word));
    if !running.is_empty() {
        out.push_str(&format!("; running: {}", clean(&running.join(", "))));
    }
    if !lines.is_empty() {
        out.push_str(&format!("; related:\n{}", lines.join("\n")));
    }
    out + "\nperfprof-tui --help lists the commands"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_command_finds_what_is_about_it() {
        let text = |word: &str| about(word, ["report", "record", "open"].into_iter(), &[]);
        for (word, part) in [
            ("locks", "perfprof-tui offcpu "),
            ("latency", "perfprof-tui rundelay "),
            ("io", "perfprof-tui blktrace "),
            ("flamegraph", "on the screen, 2 "),
            ("netwrok", "perfprof-tui syscalls "),
            ("reprot", "nearest: report"),
        ] {
            assert!(text(word).contains(part), "{word}: {}", text(word));
        }
        for far in ["qqqq", "nosuchprog", "nginxx", "pythn3"] {
            assert!(!text(far).contains("related"), "{}", text(far));
        }
        let running = about("nginxx", std::iter::empty(), &["nginx".to_owned()]);
        assert!(running.contains("named nginxx; running: nginx\n"), "{running}");
    }
}
