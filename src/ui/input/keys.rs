//! Names of keys in the command table and in the help.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// Returns the name of a pressed key: `e`, `E`, `ctrl-c`, `enter`, `space`, `backtab`, `f1`.
pub(crate) fn name(event: &KeyEvent) -> Option<String> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let base = match event.code {
        KeyCode::Char(c) if c != ' ' => c.to_string(),
        KeyCode::F(n) => format!("f{n}"),
        code => NAMED.iter().find(|(own, ..)| *own == code)?.1.to_owned(),
    };
    let has = |modifier| event.modifiers.contains(modifier);
    Some(spelled(has(KeyModifiers::CONTROL), has(KeyModifiers::ALT), &base))
}

fn spelled(control: bool, alt: bool, key: &str) -> String {
    format!("{}{}{key}", if control { "ctrl-" } else { "" }, if alt { "alt-" } else { "" })
}

/// Parses keys, those of a chord separated by spaces: `ctrl-t`, `alt-enter`, `g g`. The error lists the valid names.
pub(crate) fn parse(text: &str) -> Result<String, String> {
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
        if !(one || function || NAMED.iter().any(|(_, name, _)| *name == rest)) {
            return Err(format!(
                "unknown key {word}: expected a character, f1 to f12, {}; ctrl- or alt- before it",
                NAMED.iter().map(|(_, name, _)| *name).collect::<Vec<_>>().join(", ")
            ));
        }
        out.push(spelled(control, alt, rest));
    }
    if out.is_empty() { Err("no key given".to_owned()) } else { Ok(out.join(" ")) }
}

/// Named keys: code, name and display text.
const NAMED: &[(KeyCode, &str, &str)] = &[
    (KeyCode::Char(' '), "space", "Space"),
    (KeyCode::Enter, "enter", "⏎"),
    (KeyCode::Esc, "esc", "Esc"),
    (KeyCode::Tab, "tab", "Tab"),
    (KeyCode::BackTab, "backtab", "S-Tab"),
    (KeyCode::Backspace, "backspace", "⌫"),
    (KeyCode::Delete, "del", "del"),
    (KeyCode::Up, "up", "↑"),
    (KeyCode::Down, "down", "↓"),
    (KeyCode::Left, "left", "←"),
    (KeyCode::Right, "right", "→"),
    (KeyCode::PageUp, "pgup", "PgUp"),
    (KeyCode::PageDown, "pgdn", "PgDn"),
    (KeyCode::Home, "home", "Home"),
    (KeyCode::End, "end", "End"),
];

pub(crate) fn shown(key: &str) -> String {
    if key.len() > 1 && key.contains(' ') {
        return key.split(' ').map(shown).collect::<Vec<_>>().join(" ");
    }
    if let Some((.., shown)) = NAMED.iter().find(|(_, name, _)| *name == key) {
        return (*shown).to_owned();
    }
    key.strip_prefix("ctrl-").map_or_else(|| key.to_owned(), |rest| format!("^{}", rest.to_uppercase()))
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
