//! Keys and commands that texts name: each is in the command table, and a key does what the text says.

use std::collections::BTreeSet;

use perfprof_tui::ui::input::commands::table::{parse, rows};
use regex::Regex;

use super::{root, sources, texts};

/// Verbs after a key ("S saves a file"), and the commands that do this.
const VERBS: &[(&str, &[&str])] = &[
    ("adds", &["columns", "unit", "event"]),
    ("annotates", &["annotate"]),
    ("brings", &["undo"]),
    ("chooses", &["columns", "next-event", "previous-event", "event-cpus"]),
    ("compares", &["baseline", "time-baseline", "unit-baseline", "per"]),
    ("copies", &["copy", "command-line"]),
    ("dismisses", &["dismiss"]),
    ("ends", &["baseline-off", "softirq-time", "unit-stop"]),
    ("excludes", &["not-symbol", "not-dso", "not-host", "not-container", "drop"]),
    ("explains", &["help"]),
    ("filters", &["filter"]),
    ("finds", &["palette"]),
    ("freezes", &["freeze"]),
    ("goes", &["finding", "undo"]),
    ("hides", &["timeline", "inlined", "idle", "limit"]),
    ("lists", &["saved", "palette", "marks", "losses"]),
    ("leaves", &["quit", "undo", "not-symbol", "drop"]),
    ("makes", &["baseline", "time-baseline", "unit-baseline", "probe", "names", "fractal"]),
    ("marks", &["baseline", "time-baseline", "unit-baseline", "mark-all", "search"]),
    ("measures", &["softirq-time", "event", "unit", "probe"]),
    ("pauses", &["pause", "event-pause", "freeze"]),
    ("redoes", &["redo"]),
    ("saves", &["save"]),
    ("searches", &["search"]),
    ("selects", &["time-select", "time-columns"]),
    (
        "shows",
        &[
            "annotate",
            "flame",
            "time",
            "events",
            "units",
            "window",
            "idle",
            "info",
            "losses",
            "help",
            "cpu-screen",
            "names",
            "off-cpu",
            "split",
            "home",
            "unit-panel",
        ],
    ),
    ("sorts", &["order-right", "order-left", "cpu-order", "children"]),
    ("starts", &["unit", "time-select", "leaves", "baseline"]),
    ("stops", &["event-stop"]),
    ("takes", &["undo", "event"]),
    ("undoes", &["undo"]),
    ("unfolds", &["toggle", "expand", "expand-all"]),
    ("writes", &["write"]),
    ("zooms", &["zoom-container", "flame-zoom", "zoom-dso", "zoom-symbol"]),
];

/// Signs and operators in code spans of one character that are not keys.
const SIGNS: &[&str] = &["#", "×", "·", "&", "▲", "▼", "Δ"];

/// The pages of the manual in which a code span of one character is a key.
const PAGES: &[&str] = &["README.md", "screens.md", "containers.md", "names.md", "units.md", "open.md", "probe.md"];

/// Returns a key as the command table spells it: `ctrl-r` for `^R`, `enter` for `⏎`.
fn spelled(key: &str) -> String {
    let one = |word: &str| match word {
        "⏎" | "Enter" => "enter".to_owned(),
        "⌫" => "backspace".to_owned(),
        "↑" => "up".to_owned(),
        "↓" => "down".to_owned(),
        _ => match word.strip_prefix('^').filter(|rest| !rest.is_empty()) {
            Some(rest) => format!("ctrl-{}", rest.to_lowercase()),
            None if word.chars().count() == 1 => word.to_owned(),
            None => word.to_lowercase(),
        },
    };
    key.split(' ').map(one).collect::<Vec<_>>().join(" ")
}

/// Returns the string literals of a source file, without those of its tests.
fn literals(code: &str) -> Vec<String> {
    let code = code.split("#[cfg(test)]").next().unwrap_or_default().replace("'\"'", "");
    let lines: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let joined = Regex::new(r"\\\n\s*").expect("a pattern").replace_all(&lines.join("\n"), "").into_owned();
    let literal = Regex::new(r#""((?:[^"\\]|\\.)*)""#).expect("a pattern");
    literal.captures_iter(&joined).map(|found| found[1].replace("\\n", "\n")).collect()
}

/// Returns all texts that name keys or commands: pages, and string literals of the source.
fn named() -> Vec<(String, String)> {
    let mut all = texts();
    for path in sources(&root().join("src")).into_iter().filter(|path| !path.ends_with("tests.rs")) {
        let code = std::fs::read_to_string(&path).expect("read");
        all.extend(literals(&code).into_iter().map(|text| (path.display().to_string(), text)));
    }
    all
}

#[test]
fn keys_in_texts_do_what_the_texts_say() {
    let verbs = VERBS.iter().map(|(verb, _)| *verb).collect::<Vec<_>>().join("|");
    let key = r"[A-Za-z?:!~+*/\[\]{}<>%.@;]|[erW-] \S|\^[A-Z]|⏎|⌫|Tab|Space|Enter";
    let named_key = format!(r"(?:^|[\s;,(])`?({key})`?  ?(?:(?:on the screen|on a row|there|then) )?({verbs})\b");
    let named_key = Regex::new(&named_key).expect("a pattern");
    let (mut found, mut wrong) = (0, Vec::new());
    for (name, text) in named() {
        for place in named_key.captures_iter(&text) {
            let (key, verb) = (spelled(&place[1]), &place[2]);
            let (_, commands) = VERBS.iter().find(|(own, _)| own == &verb).expect("a verb");
            let bound: Vec<&str> = rows().filter(|row| row.keys.contains(&&*key)).map(|row| row.name).collect();
            // The meaning of Enter depends on the popup or list, and `~` also marks differences within chance.
            let fits = key == "enter" || bound.iter().any(|row| commands.contains(row));
            if !fits && (&*key, verb) != ("~", "marks") {
                wrong.push(format!("{name}: {:?}: {key} runs {bound:?}", &place[0]));
            }
            found += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(found > 60, "{found}");
}

#[test]
fn keys_in_pages_exist() {
    let span = Regex::new("`([^`\n]+)`").expect("a pattern");
    let key = Regex::new(r"^(?:[^0-9\s]|[1-6]|[er'-] \S+|\^[A-Z]|(?:alt|ctrl)-[a-z]|Tab|Space|Esc|Enter)$")
        .expect("a pattern");
    let keys: BTreeSet<&str> = rows().flat_map(|row| row.keys).copied().collect();
    let (mut found, mut wrong) = (0, Vec::new());
    for (name, text) in texts().iter().filter(|(name, _)| PAGES.iter().any(|page| name.ends_with(page))) {
        for place in span.captures_iter(text) {
            if key.is_match(&place[1]) && !SIGNS.contains(&&place[1]) {
                found += 1;
                if !keys.contains(&*spelled(&place[1])) {
                    wrong.push(format!("{name}: {}", &place[0]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(found > 150, "{found}");
}

#[test]
fn commands_in_texts_exist() {
    // A name of one letter, or of the letter p alone, is an event's modifier.
    let command = Regex::new(r"(?m)(?:^|^    |[ `(']):([a-z][a-z-]+)(?:$|[ `)',.;])").expect("a pattern");
    let (mut found, mut wrong) = (0, Vec::new());
    for (name, text) in named() {
        for place in
            command.captures_iter(&text).filter(|place| !place[1].trim_matches('p').is_empty() && &place[1] != "rwx")
        {
            found += 1;
            if let Err(why) = parse(&place[1]) {
                wrong.push(format!("{name}: {:?}: {why}", &place[0]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(found > 25, "{found}");
}
