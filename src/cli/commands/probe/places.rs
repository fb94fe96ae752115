//! Resolves places of probes that are given by a glob, a source line or a line pattern.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use globset::GlobMatcher;

use crate::event::probe::dwarf::DebugInfo;
use crate::event::probe::elf::{self, ProbedFile};
use crate::event::probe::lines::ProbeLine;
use crate::event::spec::LookupPaths;
use crate::symbols::door::{FileKind, TrustedFileOpener, TrustedUids};

use crate::cli::Usage;
use crate::cli::args::ProbeArgs;
use crate::cli::output::complain;

/// Maximum number of probes for one glob.
const MAX_PROBES: usize = 128;

/// Returns the definitions that a place stands for; a function name stands for itself.
pub(crate) fn named(args: &ProbeArgs, spec: &str) -> anyhow::Result<Vec<String>> {
    let (place, rest) = spec.split_once(' ').unwrap_or((spec, ""));
    let (names, place) = place.split_once('=').map_or(("", place), |(names, place)| (names, place));
    let again = |place: &str| {
        let equals = if names.is_empty() { "" } else { "=" };
        format!("{names}{equals}{place} {rest}").trim_end().to_owned()
    };
    if let Some((function, pattern)) = place.split_once(';') {
        return Ok(vec![again(&with_line(args, function, pattern)?)]);
    }
    if args.exec.is_none() {
        return Ok(vec![spec.to_owned()]);
    }
    // The file of a function follows an @ (`FUNCTION@FILE:LINE`); its name may contain a dot (`read.part.0`).
    let is_function = |name: &str| {
        let elf = exec(args).ok().and_then(|path| ProbedFile::open(path).ok());
        elf.is_some_and(|elf| elf.functions().any(|(function, _)| function == name))
    };
    let is_file = |name: &str| name.contains('.') && !name.contains('@') && !is_function(name);
    if let Some((file, line)) = place.rsplit_once(':').filter(|(file, _)| is_file(file))
        && let Ok(line) = line.parse()
    {
        let found = debug_info(exec(args)?, "; source lines need it")?.function_at(file, line);
        let exec = exec(args)?.display();
        let (function, relative) =
            found.ok_or_else(|| anyhow::anyhow!("line {line} of {file} has no code in {exec}"))?;
        return Ok(vec![again(&format!("{function}:{relative}"))]);
    }
    let (pattern, behind) = match place.find(['+', '%', '@', ':']) {
        Some(at) => place.split_at(at),
        None => (place, ""),
    };
    if !pattern.contains(['*', '?', '[']) {
        return Ok(vec![spec.to_owned()]);
    }
    let file = ProbedFile::open(exec(args)?).map_err(anyhow::Error::msg)?;
    let matcher = glob(pattern)?;
    let mut found: Vec<&str> = file.functions().map(|(name, _)| name).filter(|name| matcher.is_match(name)).collect();
    found.dedup();
    match found.len() {
        0 => anyhow::bail!("--add {spec}: no such function; list functions with probe -F {pattern}"),
        n if n > MAX_PROBES => {
            anyhow::bail!(
                "--add {spec}: matches {n} functions; at most {MAX_PROBES} can be probed, use a narrower pattern"
            )
        }
        _ => Ok(found.into_iter().map(|name| again(&format!("{name}{behind}"))).collect()),
    }
}

/// Directory where the kernel takes and lists probes.
pub(crate) fn root() -> anyhow::Result<PathBuf> {
    LookupPaths::system().tracefs.map_err(|why| anyhow::anyhow!("{why}"))
}

pub(crate) fn exec(args: &ProbeArgs) -> anyhow::Result<&PathBuf> {
    args.exec.as_ref().ok_or_else(|| Usage("name the program or library with -x".to_owned()).into())
}

/// Returns a program's debug information; `else_` completes the error if there is none.
pub(crate) fn debug_info(path: &Path, else_: &str) -> anyhow::Result<DebugInfo> {
    // An unreadable file is a different error.
    elf::static_probes(path).map_err(anyhow::Error::msg)?;
    let none = || anyhow::anyhow!("{}: no debug information{else_}", path.display());
    DebugInfo::open(path).ok_or_else(none)
}

/// Returns the text of a source file, if the owners of the program may read it.
pub(crate) fn source(exec: &Path, path: &Path) -> Option<String> {
    let mut namers = TrustedUids::default();
    namers.add_writers(&File::open(exec).ok()?);
    let file = TrustedFileOpener::here(namers).ok()?.open(path, FileKind::Source).ok()?;
    let mut bytes = Vec::new();
    file.take(FileKind::Source.limit()).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn glob(text: &str) -> anyhow::Result<GlobMatcher> {
    let glob = globset::Glob::new(text).map_err(|e| Usage(format!("{text}: not a glob: {}", e.kind())))?;
    Ok(glob.compile_matcher())
}

/// Returns the line of a function that matches a pattern, ignoring spaces, or the function itself if none matches.
fn with_line(args: &ProbeArgs, function: &str, pattern: &str) -> anyhow::Result<String> {
    let glob = glob(pattern.trim())?;
    let name = function.split('@').next().unwrap_or_default();
    let exec = exec(args)?;
    let lines = debug_info(exec, "")?.lines(name).unwrap_or_default();
    let text = lines.first().and_then(|line| source(exec, Path::new(&line.file))).unwrap_or_default();
    let text: Vec<&str> = text.lines().collect();
    let shown = |line: &ProbeLine| {
        let text = (line.number as usize).checked_sub(1).and_then(|at| text.get(at));
        text.map_or(String::new(), |text| text.split_whitespace().collect())
    };
    let found = lines.iter().find(|line| glob.is_match(shown(line)));
    let Some(line) = found else {
        // perf does the same without a message.
        complain(&format!(
            "no line with code in {name} matches {pattern}, so its entry is probed; list lines with probe -L {name}"
        ));
        return Ok(function.to_owned());
    };
    Ok(format!("{function}:{}", line.relative))
}

/// A function and a range of its lines, counted from its first: `FUNCTION[:FROM[-TO|+COUNT]]`.
pub(crate) fn range(text: &str) -> (&str, std::ops::RangeInclusive<u64>) {
    let all = (text, 0..=u64::MAX);
    let Some((function, range)) = text.rsplit_once(':') else { return all };
    let two = |by: char| {
        let (from, to) = range.split_once(by)?;
        Some((from.parse::<u64>().ok()?, to.parse::<u64>().ok()?))
    };
    match (range.parse::<u64>(), two('-'), two('+')) {
        (Ok(from), ..) => (function, from..=u64::MAX),
        (_, Some((from, to)), _) => (function, from..=to),
        (_, _, Some((from, count))) => (function, from..=from.saturating_add(count)),
        _ => all,
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;

    fn probe(words: &[&str]) -> ProbeArgs {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bin/probed.so");
        let typed = [&["p", "probe", "-x", path], words].concat();
        let matches = crate::cli::args::Args::command().try_get_matches_from(typed).expect("parses");
        ProbeArgs::from_arg_matches(matches.subcommand().expect("probe").1).expect("read")
    }

    #[test]
    fn places_are_functions_by_patterns_and_lines_of_files() {
        let args = probe(&[]);
        let of = |spec: &str| named(&args, spec).map_err(|error| error.to_string());
        assert_eq!(of("send_message arg1"), Ok(vec!["send_message arg1".to_owned()]));
        assert_eq!(of("mine=send_mess*%return $retval"), Ok(vec!["mine=send_message%return $retval".to_owned()]));
        assert_eq!(of("probed.c:8 arg1"), Ok(vec!["send_message:2 arg1".to_owned()]));
        for whole in ["send_message@probed.c:2 arg1", "send_message:2 arg1"] {
            assert_eq!(of(whole), Ok(vec![whole.to_owned()]));
        }
        assert!(of("nobody*").is_err_and(|why| why.contains("no such function")));
        assert!(of("probed.c:7777").is_err_and(|why| why.contains("has no code")));
    }

    #[test]
    fn lines_of_a_function_are_a_range() {
        assert_eq!(range("main"), ("main", 0..=u64::MAX));
        assert_eq!(range("main:3"), ("main", 3..=u64::MAX));
        assert_eq!(range("main:3-5"), ("main", 3..=5));
        assert_eq!(range("main:3+5"), ("main", 3..=8));
        assert_eq!(range("ns::main"), ("ns::main", 0..=u64::MAX));
    }
}
