//! Makes external text safe and fits it. Control characters do not reach a terminal, and long names lose their middle.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Replaces characters that could control or confuse a terminal.
/// C0 and C1 controls become their pictures; bidirectional and other invisible format characters become U+FFFD, and so
/// do noncharacters, which XML forbids (w3.org/TR/xml, "Char").
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| (0x20..0x7f).contains(&b)) || !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| printable(c).unwrap_or(c)).collect())
}

/// Returns the replacement of an unprintable character; `None` for all others.
pub fn printable(c: char) -> Option<char> {
    match c {
        '\0'..='\u{1f}' => Some(char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}')),
        '\u{7f}' => Some('\u{2421}'),
        c => is_unsafe(c).then_some('\u{fffd}'),
    }
}

fn is_unsafe(c: char) -> bool {
    // The last two code points of each plane are noncharacters.
    let is_noncharacter = c as u32 & 0xfffe == 0xfffe || matches!(c, '\u{fdd0}'..='\u{fdef}');
    c.is_control()
        || is_noncharacter
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the width of a text in cells.
pub fn width(text: &str) -> usize {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) { text.len() } else { text.width() }
}

/// Shortens the middle of a text to fit. The beginning of a name is its namespace, the end its identity.
pub fn fit(text: &str, cells: usize) -> Cow<'_, str> {
    if width(text) <= cells {
        return Cow::Borrowed(text);
    }
    if cells == 0 {
        return Cow::Borrowed("");
    }
    let head = (cells - 1) / 2;
    let tail = cells - 1 - head;
    let start = prefix(text.chars(), head);
    let end: String = prefix(text.chars().rev(), tail).chars().rev().collect();
    Cow::Owned(format!("{start}…{end}"))
}

/// The separator of frames on one line, leaf first.
pub const BELOW: &str = " < ";

/// Fits a list, whose items commas or two blanks divide, into some cells: its first items stay whole. Where not even
/// one fits, its name loses its middle, and its figure stays.
pub fn fit_list(text: &str, cells: usize) -> Cow<'_, str> {
    fit_items(text, cells, false)
}

/// Does the same, and counts the items that are left out: `+3 more`. A single one may be a remark on the item before it.
pub fn fit_counted_list(text: &str, cells: usize) -> Cow<'_, str> {
    fit_items(text, cells, true)
}

fn fit_items(text: &str, cells: usize, is_counted: bool) -> Cow<'_, str> {
    if width(text) <= cells {
        return Cow::Borrowed(text);
    }
    let divider = if text.contains(", ") { ", " } else { "  " };
    let items: Vec<&str> = text.split(divider).collect();
    let start = |n: usize, rest: &str| format!("{}{divider}{rest}", items[..n].join(divider));
    let counted = |n: usize| match items.len() - n {
        more if more > 1 && is_counted => start(n, &format!("+{more} more")),
        _ => start(n, "…"),
    };
    let mut starts = (1..items.len()).rev().map(counted).chain((items.len() > 1).then(|| start(1, "…")));
    if let Some(start) = starts.find(|start| width(start) <= cells) {
        return Cow::Owned(start);
    }
    let mut words = words(items[0]);
    let figure = words.pop().filter(|word| !words.is_empty() && word.starts_with(|c: char| c.is_ascii_digit()));
    match figure.map(|figure| (cells.saturating_sub(width(&figure) + 1), figure)) {
        Some((room, figure)) if room > 1 => Cow::Owned(format!("{} {figure}", fit(&words.join(" "), room))),
        _ => fit_end(items[0], cells),
    }
}

/// Cuts the end of a text to fit, for text whose beginning matters most.
pub fn fit_end(text: &str, cells: usize) -> Cow<'_, str> {
    if width(text) <= cells {
        return Cow::Borrowed(text);
    }
    match cells {
        0 => Cow::Borrowed(""),
        // A name may end with an ellipsis of its own.
        n => Cow::Owned(format!("{}…", prefix(text.chars(), n - 1).trim_end_matches('…'))),
    }
}

/// Units that stay with the preceding number.
const UNITS: &[&str] =
    &["%", "ns", "µs", "ms", "s", "Hz", "kHz", "MHz", "GHz", "B", "kB", "MB", "GB", "KiB", "MiB", "GiB"];

/// Splits text into words, and numbers with their units.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let unit = word.trim_end_matches([',', ';', ':', '.', ')']);
        match words.last_mut().filter(|last| UNITS.contains(&unit) && last.ends_with(|c: char| c.is_ascii_digit())) {
            Some(figure) => *figure = format!("{figure} {word}"),
            None => words.push(word.to_owned()),
        }
    }
    words
}

/// Wraps words into lines; a longer word has its own line.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words(text) {
        let last = lines.len() - 1;
        let line = &mut lines[last];
        if line.is_empty() {
            line.push_str(&word);
        } else if width(line) + 1 + width(&word) <= room {
            line.push(' ');
            line.push_str(&word);
        } else {
            lines.push(word);
        }
    }
    lines
}

fn prefix(chars: impl Iterator<Item = char>, cells: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= cells
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_keep_both_ends() {
        assert_eq!(fit("std::collections::HashMap::insert", 13), "std::c…insert");
        assert_eq!(fit("short", 5), "short");
        assert_eq!(fit("abc", 1), "…");
        assert_eq!(fit_end("a long word", 5), "a lo…");
        assert_eq!(fit_end("libLLVM.so … 9 %", 13), "libLLVM.so …");
        assert_eq!(wrap("busy 10.5 %, and 3 ms", 9), ["busy", "10.5 %,", "and 3 ms"]);
        assert_eq!(wrap("all the % of it", 7), ["all the", "% of it"]);
        assert_eq!(clean("a\x1b[31m\u{9b}\u{202e}"), "a␛[31m\u{fffd}\u{fffd}");
        assert_eq!(
            clean("a\u{fffe}\u{ffff}\u{fdd0}\u{1fffe}\u{10ffff}\u{fffd}ö"),
            "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}ö"
        );
    }

    #[test]
    fn lists_lose_their_end() {
        let wakers = "postgres 45.3 %, pgbench 30.0 %, 20 more";
        assert_eq!(fit_list(wakers, 40), wakers);
        assert_eq!(fit_list(wakers, 36), "postgres 45.3 %, pgbench 30.0 %, …");
        assert_eq!(fit_list(wakers, 24), "postgres 45.3 %, …");
        assert_eq!(fit_list(wakers, 14), "pos…res 45.3 %");
        assert_eq!(fit_list("hog-10 90.0 %  victim-20 10.0 %", 20), "hog-10 90.0 %  …");
        assert_eq!(fit_list("a long name without a figure", 10), "a long na…");
    }

    #[test]
    fn the_items_that_a_list_loses_are_counted() {
        let culprits = "deploy.sh ×2 1.00, backup.sh 0.50, cc1plus 0.40, ld 0.30";
        assert_eq!(fit_counted_list(culprits, 99), culprits);
        assert_eq!(fit_counted_list(culprits, 50), "deploy.sh ×2 1.00, backup.sh 0.50, cc1plus 0.40, …");
        assert_eq!(fit_counted_list(culprits, 45), "deploy.sh ×2 1.00, backup.sh 0.50, +2 more");
        assert_eq!(fit_counted_list(culprits, 30), "deploy.sh ×2 1.00, +3 more");
        assert_eq!(fit_counted_list(culprits, 20), "deploy.sh ×2 1.00, …");
        assert_eq!(fit_counted_list(culprits, 15), "depl…sh ×2 1.00");
        assert_eq!(fit_counted_list("by make 5, children 0.50 CPUs", 20), "by make 5, …");
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn nothing_unsafe_is_left_and_nothing_is_too_wide(text in "\\PC{0,30}|[\\x00-\\x1f\\x7f-\\u{9f}a-z漢\\u{202e}]{0,30}", cells in 0usize..20) {
            let safe = clean(&text);
            prop_assert!(!safe.chars().any(is_unsafe));
            prop_assert!(width(&fit(&safe, cells)) <= cells);
            prop_assert!(width(&fit_end(&safe, cells)) <= cells);
            prop_assert!(width(&fit_list(&safe, cells)) <= cells);
            prop_assert!(width(&fit_counted_list(&safe, cells)) <= cells);
        }
    }

    #[test]
    fn words_are_broken_between_them() {
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable a b", 3), ["unbreakable", "a b"]);
        assert_eq!(wrap("", 3), [""]);
    }
}
