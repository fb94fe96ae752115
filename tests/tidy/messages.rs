//! No decision is taken on a text for people: a message, a note, a command line, the name of an event. Decisions are
//! taken on types.

use std::sync::LazyLock;

use regex::Regex;

use super::{root, sources, without_tests};

/// Forms of such decisions, and what each tests.
const FORMS: &[(&str, &str)] = &[
    ("a sentence", r#"\.TEST\("(?:[^"\\]*[a-z] [a-z=<>!][^"\\]*| [a-z]+ )"\)"#),
    ("a message", r#"\bMESSAGE(?:\.\w+(?:\(\))?)*\.TEST\((?:"|[A-Z_]{2,}\b)"#),
    ("a message", r#"\bMESSAGE(?:\.\w+(?:\(\))?)* [=!]= ""#),
    ("the start or end of a message", r#"\bMESSAGE(?:\.\w+(?:\(\))?)*\.(?:starts|ends|strip)_\w+\("#),
    ("a part of a message", r#"\bMESSAGE(?:\.\w+(?:\(\))?)*\.r?split\w*\(['"]"#),
    ("a part of a label", r#"\.(?:label|title)\(\)\.(?:TEST|r?split\w*|trim_(?:start|end)_matches)\(['"]"#),
    ("a sentence", r#"[=!]= "[^"\\]*[a-z] [a-z][^"\\]*""#),
    ("an option in a text", r#"\.TEST\("-[-a-z]+ "\)"#),
    ("a text with a name of one letter", r#"\|&*([a-z])\| !?\(?([a-z])\.(?:contains|starts_with|ends_with)\(""#),
    ("the name of an event", r#"\bname\)?\.TEST\("[^"]*(?:dummy|clock)"#),
];

const TESTS: &str = "(?:contains|starts_with|ends_with|strip_prefix|strip_suffix)";
const MESSAGES: &str =
    "(?:notes?|messages?|warning|fault|why|said|error|complaint|notice|reason|remedy|ended|invocation)";

/// The patterns of [`FORMS`], compiled once for all files.
static PATTERNS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let pattern =
        |form: &str| Regex::new(&form.replace("TEST", TESTS).replace("MESSAGE", MESSAGES)).expect("a pattern");
    FORMS.iter().map(|(what, form)| (*what, pattern(form))).collect()
});

/// Returns the decisions of a source file, without its tests and comments.
fn decisions(code: &str) -> Vec<String> {
    let code = without_tests(code);
    let lines: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let mut found = Vec::new();
    for (what, form) in PATTERNS.iter() {
        for line in &lines {
            let is_it = |groups: regex::Captures<'_>| {
                groups.get(1).map(|one| one.as_str()) == groups.get(2).map(|other| other.as_str())
            };
            if form.captures_iter(line).any(is_it) {
                found.push(format!("{what}: {}", line.trim()));
            }
        }
    }
    found
}

#[test]
fn nothing_is_decided_on_a_text_for_people() {
    let mut wrong = Vec::new();
    for path in sources(&root().join("src"))
        .iter()
        .filter(|path| !path.iter().any(|part| part == "tests" || part == "tests.rs"))
    {
        let code = std::fs::read_to_string(path).expect("read");
        wrong.extend(decisions(&code).into_iter().map(|line| format!("{}: {line}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn such_decisions_are_found() {
    let examples = include_str!("messages.tsv").lines().filter(|line| !line.starts_with('#'));
    for (kind, line) in examples.map(|line| line.split_once('\t').expect("two columns")) {
        assert_eq!(decisions(line).is_empty(), kind == "right", "{line}");
    }
}
