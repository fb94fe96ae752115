//! The characters that a terminal can show, by its locale. Others have a replacement in plain ASCII.

/// The characters that may be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Charset {
    /// All of Unicode.
    #[default]
    Utf8,
    /// Printable ASCII only.
    Ascii,
}

impl Charset {
    /// Returns the character set of the environment's locale (locale(7)). That is the first nonempty one of `LC_ALL`,
    /// `LC_CTYPE` and `LANG`. If none is set, as in most containers, UTF-8 is assumed.
    pub(crate) fn of_locale(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let Some(locale) = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set) else { return Self::Utf8 };
        let locale = locale.split('@').next().unwrap_or_default();
        // macOS sends LC_CTYPE=UTF-8, without a language.
        let codeset = locale.rsplit('.').next().unwrap_or_default();
        let letters = codeset.chars().filter(char::is_ascii_alphanumeric);
        match letters.collect::<String>().eq_ignore_ascii_case("utf8") {
            true => Self::Utf8,
            false => Self::Ascii,
        }
    }

    /// Spells out keys whose symbols ASCII lacks.
    pub(crate) fn key_names(self, text: &str) -> std::borrow::Cow<'_, str> {
        match self {
            Self::Ascii if text.contains(['⏎', '⌫']) => text.replace('⏎', "Enter").replace('⌫', "Bksp").into(),
            _ => text.into(),
        }
    }
}

/// Characters that the program draws, and their ASCII replacements.
const DRAWN: [(&str, char); 33] = [
    ("…", '~'),
    ("µμ", 'u'),
    ("›→▸⇥»", '>'),
    ("‹←«", '<'),
    ("↑▲▴˄", '^'),
    ("↓▼▾˅", 'v'),
    ("⏎", '$'),
    ("⌫", '\\'),
    ("–—−‒─━╴╶╌┄╼", '-'),
    ("│┃‖┆┇╎▐▕", '|'),
    ("┊┋╵╷", ':'),
    ("├┝┣┤┫┬┴┼╭╮╯┌┐┘╔╗╝╠╣╬", '+'),
    ("└╰┗╚", '`'),
    ("═", '='),
    ("█▇▓■▉▊▋▮", '#'),
    ("▆▌", '*'),
    ("▅▒", '+'),
    ("▄▃▍", '-'),
    ("▂▎░", '.'),
    ("▁▏", '_'),
    ("▀‾", '"'),
    ("×✗✘", 'x'),
    ("·∙", '.'),
    ("•●★√✓", '*'),
    ("○◐◦", 'o'),
    ("ΔΔ∆", 'D'),
    ("±", '+'),
    ("≤", '<'),
    ("≥", '>'),
    ("↻", '@'),
    ("‘’", '\''),
    ("“”", '"'),
    ("\u{a0}\u{2009}\u{202f}", ' '),
];

/// Latin 1 letters and their ASCII replacements.
const LATIN: [(&str, char); 18] = [
    ("ÀÁÂÃÄÅÆ", 'A'),
    ("Ç", 'C'),
    ("ÈÉÊË", 'E'),
    ("ÌÍÎÏ", 'I'),
    ("Ñ", 'N'),
    ("ÒÓÔÕÖØ", 'O'),
    ("ÙÚÛÜ", 'U'),
    ("Ý", 'Y'),
    ("àáâãäåæ", 'a'),
    ("ç", 'c'),
    ("èéêë", 'e'),
    ("ìíîï", 'i'),
    ("ñ", 'n'),
    ("òóôõöø", 'o'),
    ("ß", 's'),
    ("ùúûü", 'u'),
    ("ýÿ", 'y'),
    ("€", 'E'),
];

/// Returns the ASCII replacement of a drawn or Latin 1 character. `None` for others.
fn stand_in(c: char) -> Option<char> {
    match c {
        ' '..='~' => Some(c),
        _ => DRAWN.iter().chain(&LATIN).find(|(list, _)| list.contains(c)).map(|(_, ascii)| *ascii),
    }
}

pub(crate) fn in_cell(c: char) -> char {
    stand_in(c).unwrap_or('?')
}

/// Appends a character as ASCII. Without a replacement as `\u{…}`, so that names stay distinct.
pub(crate) fn push(out: &mut String, c: char) {
    match stand_in(c) {
        Some(ascii) => out.push(ascii),
        None if c.is_ascii() => out.push(c),
        None => out.extend(c.escape_unicode()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_decides() {
        let of = |vars: &[(&str, &str)]| {
            Charset::of_locale(|name| vars.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned()))
        };
        for utf8 in ["C.UTF-8", "de_DE.utf8", "en_US.UTF-8@euro", "UTF-8", "ca_ES.UTF8@valencia"] {
            assert_eq!(of(&[("LANG", utf8)]), Charset::Utf8, "{utf8}");
        }
        for ascii in ["C", "POSIX", "de_DE.ISO-8859-1", "de_DE@euro", "en_US", "ru_RU.KOI8-R", "ja_JP.eucJP"] {
            assert_eq!(of(&[("LANG", ascii)]), Charset::Ascii, "{ascii}");
        }
        assert_eq!(of(&[]), Charset::Utf8);
        assert_eq!(of(&[("LC_ALL", ""), ("LC_CTYPE", "C"), ("LANG", "C.UTF-8")]), Charset::Ascii);
        assert_eq!(of(&[("LC_ALL", "C.UTF-8"), ("LC_CTYPE", "C")]), Charset::Utf8);
    }

    #[test]
    fn every_character_has_printable_ascii_for_it() {
        let all = (0..=0x1_ffff).filter_map(char::from_u32);
        assert!(all.clone().map(in_cell).all(|c| matches!(c, ' '..='~')));
        let mut text = String::new();
        all.for_each(|c| push(&mut text, c));
        assert!(text.is_ascii());
        // All drawn characters have a replacement.
        let drawn = "…µ›█▇▁–→│↑×▸·▼↓▾░▅■←●▄├└▲▏▒±‖╭╰╴─▓▎▍▌▋▊▉▃•↻◐✗▀≤┊▴▐√▂▆⇥−Δ⏎⌫";
        assert_eq!(drawn.chars().find(|c| in_cell(*c) == '?'), None);
        text.clear();
        "12 µs é\n語".chars().for_each(|c| push(&mut text, c));
        assert_eq!(text, "12 us e\n\\u{8a9e}");
        assert_eq!(Charset::Ascii.key_names("⌫ undoes, ⏎ opens"), "Bksp undoes, Enter opens");
    }
}
