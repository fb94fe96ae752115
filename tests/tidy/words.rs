//! The language of the project, as a test: plain sentences with a subject in comments, texts and pages, and commit
//! subjects that say what changes. A line that reads well in spite of a rule carries `words: ok` in its comment.

use std::path::{Path, PathBuf};
use std::process::Command;

use regex::{Regex, RegexBuilder};

use super::root;

/// The rules of phrases, a line each: what to write instead, the pattern, and a sentence that breaks it.
const PHRASES: &str = include_str!("words.tsv");

/// The mark of a line that reads well in spite of a rule.
const EXEMPT: &str = "words: ok";

/// Words that do not begin a sentence, unless it is a question.
const STARTS: &[&str] =
    &["What", "Who", "Whose", "Whom", concat!("What", "ever"), concat!("Who", "ever"), "Whichever", "Which"];
/// Pairs of words likewise.
const START_PAIRS: &[(&str, &str)] = &[("That", "which"), ("Those", "who"), ("Those", "that")];

/// Words before and after which a negated noun is idiom, as in "there is no way".
const IDIOM_BEFORE: &str = "there ";
const IDIOMS_AFTER: &[&str] = &["longer", "more", "less", "way", "need", "doubt", "matter"];

struct Rules {
    negated: Regex,
    phrases: Vec<(&'static str, Regex)>,
}

/// Returns what to write instead, the pattern and the broken sentence of each rule.
fn phrases() -> impl Iterator<Item = [&'static str; 3]> {
    let rows = PHRASES.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split('\t').collect::<Vec<_>>().try_into().expect("three columns"))
}

/// Returns whether a sentence begins with a relative clause instead of its subject.
fn is_headless(text: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    !text.ends_with('?') && (STARTS.contains(&first) || START_PAIRS.contains(&(first, second)))
}

impl Rules {
    fn new() -> Self {
        let any_case = |text: &str| RegexBuilder::new(text).case_insensitive(true).build().expect("a rule");
        let phrases = phrases().map(|[plain, pattern, _]| (plain, any_case(pattern))).collect();
        Self { negated: any_case(r"\b(?:is|are|was|were) (?:no|none)\b"), phrases }
    }

    /// Adds a line to `found` for each rule that `text` breaks.
    fn check(&self, place: &str, text: &str, begins: bool, found: &mut Vec<String>) {
        let trimmed = text.trim();
        if text.contains(EXEMPT) {
            return;
        }
        let mut add = |rule: &str| found.push(format!("{place}: {rule}: {trimmed}"));
        if begins && is_headless(trimmed) {
            add("begin with the subject");
        }
        let idiom = |at: regex::Match| {
            let after = text[at.end()..].trim_start();
            text[..at.start()].to_ascii_lowercase().ends_with(IDIOM_BEFORE)
                || IDIOMS_AFTER.iter().any(|word| after.to_ascii_lowercase().starts_with(word))
        };
        if self.negated.find_iter(text).any(|at| !idiom(at)) {
            add("negate the verb");
        }
        for (plain, phrase) in &self.phrases {
            if phrase.is_match(text) {
                add(plain);
            }
        }
    }
}

/// Checks a page: its paragraphs, list items, titles and cells, without blocks of code.
fn page(rules: &Rules, name: &str, text: &str, found: &mut Vec<String>) {
    let (mut fenced, mut blank) = (false, true);
    for (number, line) in text.lines().enumerate() {
        let content = line.trim();
        let fence = content.starts_with("```");
        fenced ^= fence;
        if fenced || fence || line.starts_with("    ") || content.is_empty() {
            blank = true;
            continue;
        }
        rules.check(
            &format!("{name}:{}", number + 1),
            content,
            blank || content.starts_with(['-', '*', '#', '|']),
            found,
        );
        blank = false;
    }
}

/// Checks comments, and in Rust the string literals that look like sentences.
fn code(rules: &Rules, name: &str, text: &str, found: &mut Vec<String>) {
    let comment = Regex::new(r"^\s*(?://[/!]?|#)\s?(.*)").expect("a pattern");
    let literal = Regex::new(r#""((?:[^"\\]|\\.)*)""#).expect("a pattern");
    let behind = Regex::new(r"[;,{)] //\s(.*)").expect("a pattern");
    let wordy = Regex::new(r"[a-z]{3}").expect("a pattern");
    let mut above = String::new();
    for (number, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", number + 1);
        if let Some(said) = comment.captures(line) {
            let begins = above.is_empty() || above.ends_with(['.', ':']);
            rules.check(&place, &said[1], begins, found);
            above = said[1].trim().to_owned();
            continue;
        }
        above.clear();
        if !name.ends_with(".rs") || line.contains(EXEMPT) {
            continue;
        }
        for said in literal.captures_iter(line).filter(|said| said[1].contains(' ') && wordy.is_match(&said[1])) {
            rules.check(&place, &said[1], true, found);
        }
        if let Some(said) = behind.captures(line) {
            rules.check(&place, &said[1], true, found);
        }
    }
}

/// The files that speak: code, pages and settings; neither recorded data nor what a build leaves.
fn speaking(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let below = path.strip_prefix(root()).expect("below the root");
        if path.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci";
            if !hidden && name != "target" && below != Path::new("tests/data") && name != "corpus" {
                speaking(&path, files);
            }
            continue;
        }
        let is_text = name.ends_with(".rs") || name.ends_with(".md") || below == Path::new("Cargo.toml");
        if is_text || below.starts_with(".ci") || below.starts_with("themes") {
            files.push(path);
        }
    }
}

#[test]
fn texts_are_plain() {
    let rules = Rules::new();
    let (mut files, mut found) = (Vec::new(), Vec::new());
    speaking(root(), &mut files);
    files.sort();
    assert!(files.len() > 500, "{}", files.len());
    for path in &files {
        let name = path.strip_prefix(root()).expect("below the root").to_string_lossy();
        let Ok(text) = std::fs::read_to_string(path) else { continue };
        if name.ends_with(".md") {
            page(&rules, &name, &text, &mut found);
        } else {
            code(&rules, &name, &text, &mut found);
        }
    }
    assert!(found.is_empty(), "{} places\n{}", found.len(), found.join("\n"));
}

#[test]
fn each_rule_finds_its_sentence() {
    let rules = Rules::new();
    let checked = |text: &str| {
        let mut found = Vec::new();
        rules.check("here:1", text, true, &mut found);
        found
    };
    for [plain, _, broken] in phrases() {
        assert_eq!(checked(broken), [format!("here:1: {plain}: {broken}")]);
    }
    let headless = format!("{} sleeps gives no samples.", STARTS[1]);
    let negated = format!("foo {} key", "is no");
    for broken in [&headless, &negated] {
        assert_eq!(checked(broken).len(), 1, "{broken}");
    }
    for text in ["What burns the CPU?", "There is no way back.", "The event is no longer open.", "A plain sentence."] {
        assert!(checked(text).is_empty(), "{text}");
    }
}

/// Commits since this check exists: area, imperative verb, object.
#[test]
fn commit_subjects_say_what_changes() {
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root()).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let first = git(&["log", "--diff-filter=A", "--format=%H", "--", "tests/tidy/words.rs"]).unwrap_or_default();
    let Some(first) = first.lines().last() else { return };
    let subjects = git(&["log", "--no-merges", "--format=%s", &format!("{first}..HEAD")]).unwrap_or_default();
    let shape = Regex::new(r"^[a-z][\w/-]*(?:, ?[\w/-]+)?: [a-z]").expect("a pattern");
    let weak = Regex::new(r": (?:have|let|keep|hold|say|call|be|know|tell|expect|wait)\b").expect("a pattern");
    let wrong = |subject: &&str| !shape.is_match(subject) || weak.is_match(subject) || subject.chars().count() > 72;
    let wrong: Vec<&str> = subjects.lines().filter(wrong).collect();
    assert!(wrong.is_empty(), "area: imperative verb + object, at most 72 characters: {wrong:#?}");
}
