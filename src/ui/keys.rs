//! Names of keys, as the command table and the help spell them.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The name of a pressed key: `e`, `E`, `ctrl-c`, `enter`, `space`, `backtab`, `f1`.
pub fn name(event: &KeyEvent) -> Option<String> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let base = match event.code {
        KeyCode::Char(' ') => "space".to_owned(),
        KeyCode::Char(c) => c.to_string(),
        KeyCode::Enter => "enter".to_owned(),
        KeyCode::Esc => "esc".to_owned(),
        KeyCode::Tab => "tab".to_owned(),
        KeyCode::BackTab => "backtab".to_owned(),
        KeyCode::Backspace => "backspace".to_owned(),
        KeyCode::Delete => "del".to_owned(),
        KeyCode::Up => "up".to_owned(),
        KeyCode::Down => "down".to_owned(),
        KeyCode::Left => "left".to_owned(),
        KeyCode::Right => "right".to_owned(),
        KeyCode::PageUp => "pgup".to_owned(),
        KeyCode::PageDown => "pgdn".to_owned(),
        KeyCode::Home => "home".to_owned(),
        KeyCode::End => "end".to_owned(),
        KeyCode::F(n) => format!("f{n}"),
        _ => return None,
    };
    let mut out = String::new();
    if event.modifiers.contains(KeyModifiers::CONTROL) {
        out.push_str("ctrl-");
    }
    if event.modifiers.contains(KeyModifiers::ALT) {
        out.push_str("alt-");
    }
    out.push_str(&base);
    Some(out)
}

/// Keys as they are written, those of a chord separated by spaces: `ctrl-t`, `alt-enter`, `g g`. The error says
/// what keys are called.
pub fn parse(text: &str) -> Result<String, String> {
    let mut out: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let (mut rest, mut control, mut alt) = (word, false, false);
        loop {
            match rest.split_once('-') {
                Some(("ctrl", after)) if !control && !after.is_empty() => (rest, control) = (after, true),
                Some(("alt", after)) if !alt && !after.is_empty() => (rest, alt) = (after, true),
                _ => break,
            }
        }
        let one = rest.chars().count() == 1 && !rest.contains(char::is_control);
        let function = rest.strip_prefix('f').and_then(|n| n.parse::<u8>().ok()).is_some_and(|n| (1..=12).contains(&n));
        if !(one || function || NAMES.contains(&rest)) {
            return Err(format!(
                "{word} is no key: expected a character, f1 to f12, {}; ctrl- or alt- before it",
                NAMES.join(", ")
            ));
        }
        out.push(format!("{}{}{rest}", if control { "ctrl-" } else { "" }, if alt { "alt-" } else { "" }));
    }
    if out.is_empty() { Err("no key is named".to_owned()) } else { Ok(out.join(" ")) }
}

/// Keys that have names.
const NAMES: &[&str] = &[
    "space",
    "enter",
    "esc",
    "tab",
    "backtab",
    "backspace",
    "del",
    "up",
    "down",
    "left",
    "right",
    "pgup",
    "pgdn",
    "home",
    "end",
];

/// As shown in the footer and the help.
pub fn shown(key: &str) -> String {
    if key.len() > 1 && key.contains(' ') {
        return key.split(' ').map(shown).collect::<Vec<_>>().join(" ");
    }
    match key {
        "enter" => "⏎".to_owned(),
        "backspace" => "⌫".to_owned(),
        "space" => "Space".to_owned(),
        "tab" => "Tab".to_owned(),
        "backtab" => "S-Tab".to_owned(),
        "up" => "↑".to_owned(),
        "down" => "↓".to_owned(),
        "left" => "←".to_owned(),
        "right" => "→".to_owned(),
        "pgup" => "PgUp".to_owned(),
        "pgdn" => "PgDn".to_owned(),
        "home" => "Home".to_owned(),
        "end" => "End".to_owned(),
        "esc" => "Esc".to_owned(),
        other => match other.strip_prefix("ctrl-") {
            Some(rest) => format!("^{}", rest.to_uppercase()),
            None => other.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let key = |code, mods| name(&KeyEvent::new(code, mods)).expect("named");
        assert_eq!(key(KeyCode::Char('E'), KeyModifiers::SHIFT), "E");
        assert_eq!(key(KeyCode::Char('c'), KeyModifiers::CONTROL), "ctrl-c");
        assert_eq!(key(KeyCode::Char(' '), KeyModifiers::NONE), "space");
        assert_eq!(shown("ctrl-c"), "^C");
        assert_eq!(shown("r +"), "r +");
    }

    #[test]
    fn keys_are_written_as_they_are_named() {
        for text in ["x", "ctrl-t", "ctrl-alt-del", "g g", "-", "ctrl--", "f12", "é"] {
            assert_eq!(parse(text).as_deref(), Ok(text));
        }
        assert_eq!(parse("  r   + ").as_deref(), Ok("r +"));
        assert!(["", "f13", "hyper-x", "ctrl-", "xy"].iter().all(|text| parse(text).is_err()));
    }
}
