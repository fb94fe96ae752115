//! The writer of all output text. It replaces control characters from any source.

use std::io::{self, Write};

use super::charset::{self, Charset};
use super::text::printable;

/// How control characters are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapeForm {
    /// As a control picture.
    Text,
    /// As a JSON escape, which keeps the meaning.
    Json,
}

/// Writes text. Newlines, tabs and CSV's CR LF are kept.
/// Names must be cleaned of them before they become part of a line, because names are not distinguishable here.
#[derive(Debug)]
pub struct Printable<W: Write> {
    out: W,
    form: EscapeForm,
    charset: Charset,
    /// An incomplete character or a CR; the rest comes with the next write.
    rest: Vec<u8>,
}

impl<W: Write> Printable<W> {
    /// Creates a writer to `out`.
    pub fn new(form: EscapeForm, out: W) -> Self {
        Self::with_charset(form, Charset::Utf8, out)
    }

    pub(crate) fn with_charset(form: EscapeForm, charset: Charset, out: W) -> Self {
        Self { out, form, charset, rest: Vec::new() }
    }

    /// Writes an incomplete character, and flushes.
    pub fn finish(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            let text = String::from_utf8_lossy(&rest);
            self.text(&text)?;
        }
        self.out.flush()
    }

    pub(crate) fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        // The common case.
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
            return self.out.write_all(text.as_bytes());
        }
        let mut shown = String::with_capacity(text.len());
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match (c, printable(c)) {
                ('\n' | '\t', _) => shown.push(c),
                ('\r', _) if chars.peek() == Some(&'\n') => shown.push(c),
                (_, None) => shown.push(c),
                (_, Some(picture)) if self.form == EscapeForm::Text => shown.push(picture),
                (_, Some(_)) => {
                    c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}")));
                }
            }
        }
        if self.charset == Charset::Ascii {
            let mut ascii = String::with_capacity(shown.len());
            shown.chars().for_each(|c| charset::push(&mut ascii, c));
            shown = ascii;
        }
        self.out.write_all(shown.as_bytes())
    }
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.rest.is_empty() && bytes.iter().all(|b| matches!(b, 0x20..0x7f | b'\n' | b'\t')) {
            self.out.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        // A character or a CR LF may continue in the next write.
        let whole = match std::str::from_utf8(&all) {
            Ok(text) => text.len(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => {
                let tail = all.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
                let cut =
                    tail > 0 && std::str::from_utf8(&all[all.len() - tail..]).is_err_and(|e| e.error_len().is_none());
                all.len() - if cut { tail } else { 0 }
            }
        };
        let whole = whole - usize::from(whole == all.len() && all.ends_with(b"\r"));
        self.rest = all.split_off(whole);
        let text = String::from_utf8_lossy(&all);
        self.text(&text)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Drop for Printable<W> {
    fn drop(&mut self) {
        // Callers that need the result call `finish` before.
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn through(form: EscapeForm, pieces: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut sink = Printable::new(form, &mut out);
        pieces.iter().for_each(|piece| sink.write_all(piece).expect("written"));
        drop(sink);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn controls_become_pictures_and_in_json_escapes() {
        let hostile = "a\u{1b}[2J\u{7}\r\u{9b}\u{202e}\u{7f}ä\tb\r\nc\n";
        assert_eq!(through(EscapeForm::Text, &[hostile.as_bytes()]), "a␛[2J␇␍\u{fffd}\u{fffd}␡ä\tb\r\nc\n");
        let json = serde_json::to_string(hostile).expect("JSON");
        let shown = through(EscapeForm::Json, &[json.as_bytes()]);
        assert!(shown.chars().all(|c| printable(c).is_none()), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).expect("JSON"), hostile);
        assert_eq!(
            through(EscapeForm::Text, &[b"\xff\x1b\xe2\x82", b"\xac\r", b"\n\r", b"x\xe2"]),
            "\u{fffd}␛€\r\n␍x\u{fffd}"
        );
    }

    #[test]
    fn people_without_utf8_get_ascii() {
        let through = |charset| {
            let mut out = Vec::new();
            Printable::with_charset(EscapeForm::Text, charset, &mut out)
                .write_all("a…\t3 µs → é語\u{1b}\r\n".as_bytes())
                .expect("written");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(through(Charset::Utf8), "a…\t3 µs → é語␛\r\n");
        assert_eq!(through(Charset::Ascii), "a~\t3 us > e\\u{8a9e}\\u{241b}\r\n");
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn where_writes_are_cut_changes_nothing(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(0xe2), Just(0x9b)], 0..40),
            at in 0usize..40,
        ) {
            let (a, b) = bytes.split_at(at.min(bytes.len()));
            let cut = through(EscapeForm::Text, &[a, b]);
            prop_assert_eq!(&cut, &through(EscapeForm::Text, &[&bytes]));
            let lines = cut.replace("\r\n", "\n").replace(['\n', '\t'], "");
            prop_assert!(lines.chars().all(|c| printable(c).is_none()), "{:?}", lines);
        }
    }
}
