//! Shortcuts of the command line: a recording's name opens it, options may precede commands, unknown words get hints.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::kernel::privilege;
use crate::source::live::target::by_name::{self, NamedProcesses};
use crate::ui::screens::units::state::quoted;

use crate::cli::args::unknown_word;
use crate::cli::commands::probe::usdt;
use crate::cli::perf_compat::option_abbreviations::named;
use crate::cli::perf_compat::perf_commands;
use crate::cli::usage;

/// Returns the command that words call, and the index of its first argument.
pub(crate) fn command_of<'a>(words: &[OsString], parser: &'a clap::Command) -> (&'a clap::Command, usize) {
    let (mut own, mut from) = (parser, 1);
    while let Some(below) = words.get(from).and_then(|word| own.find_subcommand(word)) {
        (own, from) = (below, from + 1);
    }
    (own, from)
}

/// Rearranges the words for the parser.
pub fn arranged(mut words: Vec<OsString>, parser: &clap::Command) -> anyhow::Result<Vec<OsString>> {
    // Programs with PPROF_PATH call pprof like this.
    if let Some(word) = words.get_mut(1).filter(|word| **word == "--symbols") {
        *word = "symbols".into();
    }
    let Some(at) = first_word(&words, 1, parser) else { return Ok(words) };
    let word = words[at].clone();
    let text = word.to_str().unwrap_or_default();
    if text == "help" && words.get(at + 1).is_some_and(|topic| topic == "json") {
        let of = words.get(at + 2).and_then(|of| of.to_str()).map(|of| format!("={of}")).unwrap_or_default();
        let schema = [words[0].clone(), "man".into(), "json".into(), format!("--schema{of}").into()];
        return Ok(schema.to_vec());
    }
    if text == "help"
        && let Some(topic) = words.get(at + 1).filter(|topic| parser.find_subcommand(topic).is_none())
        && topic != "help"
        && !topic.as_encoded_bytes().starts_with(b"-")
    {
        return Ok(vec![words[0].clone(), "man".into(), "--text".into(), topic.clone()]);
    }
    match text {
        "top" if perf_commands::are_perfs(&words[at + 1..]) => {
            words.remove(at);
            return arranged(words, parser);
        }
        "trace" if perf_commands::are_perfs(&words[at + 1..]) => anyhow::bail!(perf_commands::TRACE),
        _ => {}
    }
    if text == "help" || parser.find_subcommand(text).is_some() {
        let command = words.remove(at);
        words.insert(1, command);
        return of_command(words, parser);
    }
    if let Some(instead) = perf_commands::instead_of_program(text, &words[at + 1..]) {
        anyhow::bail!(instead);
    }
    if let Some(how) = how_instead(&words, at) {
        return Err(usage(how));
    }
    if is_recording(&word) {
        words.insert(1, "open".into());
        return Ok(words);
    }
    let typed = word.to_string_lossy();
    if let Some(instead) = perf_commands::instead(&typed) {
        anyhow::bail!(instead);
    }
    // The word may be the value of a misspelled option, which the parser reports.
    if words[1..at].iter().any(|option| is_unknown(option, parser)) {
        return Ok(words);
    }
    let names = parser.get_subcommands().map(clap::Command::get_name);
    let running = by_name::misspelled(&typed);
    Err(usage(unknown_word::about(&typed, names.filter(|name| !name.is_empty()), &running)))
}

fn is_unknown(word: &OsStr, parser: &clap::Command) -> bool {
    let Some(option) = word.to_str().and_then(|word| word.strip_prefix("--")) else { return false };
    let name = option.split('=').next().unwrap_or(option);
    let mut options = parser.get_arguments();
    !options.any(|arg| arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|own| own.contains(&name)))
}

/// Inserts `--` before the program of a perf command: before the first word that belongs to no option. Commands that
/// read recordings take a program only after `--`.
fn of_command(mut words: Vec<OsString>, parser: &clap::Command) -> anyhow::Result<Vec<OsString>> {
    let (own, mut from) = command_of(&words, parser);
    if from == 1 {
        return Ok(words);
    }
    let has = |id: &str| own.get_arguments().find(|arg| arg.get_id() == id);
    let reads = has("files").is_some();
    if reads {
        files_first(&mut words, from, own);
    }
    if !has("cmd").is_some_and(clap::Arg::is_last_set) {
        return Ok(words);
    }
    if has("describe").is_some()
        && let Some(at) = first_word(&words, from, own).filter(|at| words[*at] == "help")
    {
        words.truncate(at);
        words.push("--describe".into());
        return Ok(words);
    }
    if own.get_name() == "usdt"
        && first_word(&words, from, own).is_some_and(|at| usdt::VERBS.iter().any(|verb| words[at] == *verb))
    {
        return Ok(words);
    }
    while let Some(at) = first_word(&words, from, own) {
        if !reads {
            words.insert(at, "--".into());
            break;
        }
        if let Some(how) = how_instead(&words, at) {
            return Err(usage(how));
        }
        from = at + 1;
    }
    Ok(words)
}

/// Returns how to sample running programs of this name, or how to start one; `None` if the word names no program.
fn how_instead(words: &[OsString], at: usize) -> Option<String> {
    let word = words.get(at)?;
    let text = word.to_string_lossy();
    let is_recording = Path::new(word).is_file() || Path::new(word).join("data").exists();
    let named = if is_recording { None } else { NamedProcesses::find(&text) };
    let own: Vec<_> = words[1..at].iter().map(|word| word.to_string_lossy()).collect();
    let rest: Vec<_> = words[at..].iter().map(|word| word.to_string_lossy()).collect();
    let own = ["perfprof-tui"].into_iter().chain(own.iter().map(AsRef::as_ref));
    if let Some(named) = named {
        let (line, list) = (quoted(own.chain(["-p"])), named.list());
        return Some(format!("{named}; to start another, use -- {text}\n{line} {list}"));
    }
    if perf_commands::instead(&text).is_some() || !is_program(word) {
        return None;
    }
    let line = quoted(own.chain(["--"]).chain(rest.iter().map(AsRef::as_ref)));
    Some(format!("{text} is not running; to start it, put it after --\n{line}"))
}

/// Moves the word after an option before it, if the option's value is optional and the word names a file.
fn files_first(words: &mut [OsString], from: usize, parser: &clap::Command) {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    for at in from..end.saturating_sub(1) {
        let may = words[at].to_str().and_then(|text| value_of(text, parser)) == Some(ArgKind::OptionalValue);
        if may && !words[at + 1].as_encoded_bytes().starts_with(b"-") && Path::new(&words[at + 1]).is_file() {
            words.swap(at, at + 1);
        }
    }
}

/// Returns the index of the first word before `--` that is neither an option nor an option's value.
fn first_word(words: &[OsString], from: usize, parser: &clap::Command) -> Option<usize> {
    let mut at = from;
    while let Some(word) = words.get(at) {
        let Some(text) = word.to_str() else { return Some(at) };
        if text == "--" {
            return None;
        }
        if !text.starts_with('-') || text == "-" {
            return Some(at);
        }
        at += 1 + match value_of(text, parser) {
            Some(ArgKind::Value) => 1,
            Some(ArgKind::OptionalValue) => {
                usize::from(words.get(at + 1).is_some_and(|w| !w.as_encoded_bytes().starts_with(b"-")))
            }
            None => 0,
        };
    }
    None
}

/// How an option uses the next word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgKind {
    Value,
    OptionalValue,
}

fn value_of(text: &str, parser: &clap::Command) -> Option<ArgKind> {
    let need = |arg: &clap::Arg| {
        let least = arg.get_num_args().map_or(1, |range| range.min_values());
        let takes = arg.get_action().takes_values() && !(least == 0 && arg.is_require_equals_set());
        takes.then_some(if least > 0 { ArgKind::Value } else { ArgKind::OptionalValue })
    };
    match text.strip_prefix("--") {
        Some(long) if long.contains('=') => None,
        Some(long) => match named(long, parser)[..] {
            [(arg, _)] => need(arg),
            _ => None,
        },
        // Among combined letters, the first that takes a value uses the rest.
        None => {
            let letters: Vec<char> = text.chars().skip(1).collect();
            let of = |letter: &char| parser.get_arguments().find(|arg| arg.get_short() == Some(*letter)).and_then(need);
            let first = letters.iter().position(|letter| of(letter).is_some())?;
            of(&letters[first]).filter(|_| first + 1 == letters.len())
        }
    }
}

/// Returns true for an executable program or script that a shell would find by this word.
fn is_program(word: &OsStr) -> bool {
    let begins = |path: &Path| {
        let mut head = [0; 4];
        let whole = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
        whole.is_ok() && (head == *b"\x7fELF" || head.starts_with(b"#!"))
    };
    let runs = |path: &Path| {
        let may = std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
        may && begins(path)
    };
    if word.as_encoded_bytes().contains(&b'/') {
        return runs(Path::new(word));
    }
    let folders = privilege::variable("PATH").unwrap_or_default();
    !Path::new(word).exists() && std::env::split_paths(&folders).any(|folder| runs(&folder.join(word)))
}

/// Returns true if a word can only be a recording: the file exists, or the word looks like a path.
fn is_recording(word: &OsStr) -> bool {
    let text = word.to_string_lossy();
    text == "-" || text.starts_with("ssh://") || text.contains(['/', '.']) || Path::new(word).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged(line: &str) -> Result<String, String> {
        let words: Vec<_> = line.split(' ').map(OsString::from).collect();
        let parser = crate::cli::args::called_by(&words);
        let out = super::arranged(words, &parser).map_err(|error| error.to_string())?;
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
            ("p help screens", "p man --text screens"),
            ("p help --help", "p help --help"),
            ("p help json", "p man json --schema"),
            ("p help json stat", "p man json --schema=stat"),
            ("p rundelay --than 4ms", "p rundelay --than 4ms"),
            ("p record -F 99 ls -l", "p record -F 99 -- ls -l"),
            ("p -aF 99 record -g sleep 1", "p record -aF 99 -g -- sleep 1"),
            ("p stat -a -- sleep 1", "p stat -a -- sleep 1"),
            (
                "p record -e cycles --call-graph dwarf no-such-program",
                "p record -e cycles --call-graph dwarf -- no-such-program",
            ),
            ("p stat -e cs sleep 1", "p stat -e cs -- sleep 1"),
            ("p rundelay -- sleep 1", "p rundelay -- sleep 1"),
            ("p rundelay x.data", "p rundelay x.data"),
            ("p --symbols /bin/sh", "p symbols /bin/sh"),
            ("p usdt list /bin/sh", "p usdt list /bin/sh"),
            ("p trace -e sched:sched_switch help", "p trace -e sched:sched_switch --describe"),
            ("p profile --irqs_disabled -- sleep 1", "p profile --irqs_disabled -- sleep 1"),
            ("p report -g Cargo.toml --stdio", "p report Cargo.toml -g --stdio"),
            ("p top -p 7 -g", "p -p 7 -g"),
            ("p -g top -- sleep 1", "p -g -- sleep 1"),
            ("p top -e cs", "p top -e cs"),
            ("p report -g caller Cargo.toml", "p report -g caller Cargo.toml"),
            ("p record --call dwarf --no-inh ls --call x", "p record --call dwarf --no-inh -- ls --call x"),
            ("p script --field -comm --inl x.data", "p script --field -comm --inl x.data"),
            ("p --call fp -- ls --call", "p --call fp -- ls --call"),
        ] {
            assert_eq!(arranged(typed).as_deref(), Ok(meant));
        }
    }

    #[test]
    fn what_is_no_command_says_which_was_meant() {
        assert!(arranged("p opne x.data").expect_err("no command").contains("nearest: open"));
        assert!(arranged("p -a reprot").expect_err("no command").contains("report"));
        assert!(arranged("p sched latency").expect_err("no command").contains("rundelay"));
        assert!(arranged("p irq-off --than 10ms").expect_err("no unit").contains("hrtimer"));
        assert!(arranged("p expr -e a:b x").expect_err("no unit").contains("perf-prof expr"));
        assert!(arranged("p expr 1 + 1").expect_err("no unit").contains("perf-prof expr"));
        assert!(arranged("p trace ls").expect_err("no command").contains("syscalls"));
        assert!(arranged("p rundely").expect_err("no command").contains("rundelay"));
    }

    #[test]
    fn a_bare_word_starts_nothing_and_says_what_runs_by_it() {
        for (typed, line) in [
            ("p factor 1", "perfprof-tui -- factor 1"),
            ("p -F 99 factor 1", "perfprof-tui -F 99 -- factor 1"),
            ("p top factor", "perfprof-tui -- factor"),
            ("p offcpu factor 12", "perfprof-tui offcpu -- factor 12"),
            ("p -g offcpu -D factor", "perfprof-tui offcpu -g -D -- factor"),
            ("p unit stat -e cs factor", "perfprof-tui unit stat -e cs -- factor"),
            ("p profile --irqs_disabled /bin/factor", "perfprof-tui profile --irqs_disabled -- /bin/factor"),
        ] {
            let how = arranged(typed).expect_err(typed);
            assert_eq!(how.lines().last(), Some(line), "{how}");
        }
        // The process that runs these tests is found by its name, perhaps several times.
        let own = std::process::id() as i32;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = child.id().to_string();
        while crate::kernel::procfs::comm(child.id() as i32, child.id() as i32).is_none_or(|name| name != b"sleep") {
            std::thread::yield_now();
        }
        for (typed, begins) in [
            ("p sleep", "perfprof-tui -p "),
            ("p top sleep", "perfprof-tui -p "),
            ("p offcpu sleep 1", "perfprof-tui offcpu -p "),
        ] {
            let how = arranged(typed).expect_err(typed);
            let (first, line) = how.split_once('\n').expect("two lines");
            assert!(first.starts_with("sleep runs as ") && first.ends_with("-- sleep"), "{how}");
            let pids = line.trim().strip_prefix(begins).expect("the line to type");
            assert!(pids.split(',').any(|one| one == pid) && !pids.contains(&own.to_string()), "{how}");
        }
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert_eq!(arranged("p record sleep 1").as_deref(), Ok("p record -- sleep 1"));
    }
}
