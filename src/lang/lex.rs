//! The tokenizer of all small languages. A grammar defines operators and word characters by its [`Lexicon`].

use super::Diagnostic;
use std::ops::Range;

use super::quantity::{self, Number};

/// The tokens of a language.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lexicon {
    /// Operators and punctuation, without letters and digits. The longest match wins.
    pub(crate) marks: &'static [&'static str],
    /// Whether a word may begin with, or continue with, a character.
    pub(crate) begins: fn(char) -> bool,
    pub(crate) goes_on: fn(char) -> bool,
    /// Whether a token that begins with a digit is a number with a unit.
    pub(crate) numbers: bool,
    /// Whether a backslash in quoted text escapes the next character. It remains part of the token.
    pub(crate) escapes: bool,
    /// Messages for characters that do not begin a token.
    pub(crate) hints: &'static [(char, &'static str)],
}

/// A token; quoted text is without its quotes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'t> {
    Word(&'t str),
    Quoted(&'t str),
    Number(Number),
    Mark(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Piece<'t> {
    pub(crate) token: Token<'t>,
    pub(crate) at: usize,
    pub(crate) len: usize,
}

impl Piece<'_> {
    pub(crate) fn end(&self) -> usize {
        self.at + self.len
    }

    pub(crate) fn is(&self, mark: &str) -> bool {
        matches!(self.token, Token::Mark(own) if own == mark)
    }
}

/// A text that is read token by token.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'t> {
    pub(crate) text: &'t str,
    pieces: Vec<Piece<'t>>,
    at: usize,
    pub(super) depth: usize,
}

/// The limit of nesting, so that no text can overflow the stack.
pub(crate) const MAX_DEPTH: usize = 100;

impl Lexicon {
    /// Words without numbers, escapes and hints: the default of each part.
    pub(crate) const WORDS: Self =
        Self { marks: &[], begins: |_| false, goes_on: |_| false, numbers: false, escapes: false, hints: &[] };

    /// Splits a text into tokens. The error is at the first character that does not begin one.
    pub(crate) fn pieces<'t>(&self, text: &'t str) -> Result<Vec<Piece<'t>>, Diagnostic> {
        let mut pieces = Vec::new();
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            if c.is_whitespace() {
                at += c.len_utf8();
                continue;
            }
            let piece = self.piece(text, at, c)?;
            at = piece.end();
            pieces.push(piece);
        }
        Ok(pieces)
    }

    /// Splits a range of a text at marks outside of quotes and parentheses.
    pub(crate) fn split(&self, text: &str, within: Range<usize>, mark: &str) -> Result<Vec<Range<usize>>, Diagnostic> {
        let (mut parts, mut start, mut open) = (Vec::new(), within.start, Vec::new());
        for piece in self.pieces(&text[..within.end])?.into_iter().filter(|piece| piece.at >= within.start) {
            if piece.is("(") {
                open.push(piece);
            } else if piece.is(")") && open.pop().is_none() {
                return Err(Diagnostic::new(text, piece.at, 1, "this ) has no ("));
            } else if piece.is(mark) && open.is_empty() {
                parts.push(start..piece.at);
                start = piece.end();
            }
        }
        if let Some(piece) = open.pop() {
            return Err(Diagnostic::new(text, piece.at, 1, "this ( is not closed"));
        }
        parts.push(start..within.end);
        Ok(parts)
    }

    fn piece<'t>(&self, text: &'t str, at: usize, c: char) -> Result<Piece<'t>, Diagnostic> {
        let rest = &text[at..];
        let run = |part: &dyn Fn(char) -> bool| rest.find(|c| !part(c)).unwrap_or(rest.len());
        let marks = if c.is_alphanumeric() { &[] } else { self.marks };
        let mark = marks.iter().filter(|mark| rest.starts_with(**mark)).max_by_key(|mark| mark.len());
        let (token, len) = if let Some(mark) = mark {
            (Token::Mark(mark), mark.len())
        } else if c == '"' || c == '\'' {
            let mut is_escaped = false;
            let end = rest[1..].find(|next| {
                let ends = next == c && !is_escaped;
                is_escaped = self.escapes && next == '\\' && !is_escaped;
                ends
            });
            let end = end.ok_or_else(|| Diagnostic::new(text, at, rest.len(), "this string is not closed"))?;
            (Token::Quoted(&rest[1..=end]), end + 2)
        } else if self.numbers && c.is_ascii_digit() {
            let len = run(&|c| c.is_alphanumeric() || c == '.' || c == '_');
            let number = quantity::literal(&rest[..len]).map_err(|_| {
                let why = format!("not a number; units: {}", quantity::LITERAL_UNITS);
                Diagnostic::new(text, at, len, why)
            })?;
            (Token::Number(number), len)
        } else if (self.begins)(c) {
            let len = run(&self.goes_on);
            (Token::Word(&rest[..len]), len)
        } else {
            let hint = self.hints.iter().find(|(known, _)| *known == c);
            let why = hint.map_or("this character has no meaning here", |(_, why)| why);
            return Err(Diagnostic::new(text, at, c.len_utf8(), why));
        };
        Ok(Piece { token, at, len })
    }
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str, lexicon: &Lexicon) -> Result<Self, Diagnostic> {
        Ok(Self { text, pieces: lexicon.pieces(text)?, at: 0, depth: 0 })
    }

    pub(crate) fn peek(&self) -> Option<Piece<'t>> {
        self.peek_at(0)
    }

    pub(crate) fn peek_at(&self, n: usize) -> Option<Piece<'t>> {
        self.pieces.get(self.at + n).copied()
    }

    pub(crate) fn is_at(&self, mark: &str) -> bool {
        self.peek().is_some_and(|piece| piece.is(mark))
    }

    pub(crate) fn eat(&mut self, mark: &str) -> bool {
        let found = self.is_at(mark);
        self.at += usize::from(found);
        found
    }

    pub(crate) fn skip(&mut self) {
        self.at += 1;
    }

    /// Returns the next token and skips it. At the end of the text, an error with the expected token.
    pub(crate) fn next(&mut self, expected: &str) -> Result<Piece<'t>, Diagnostic> {
        let piece = self.peek().ok_or_else(|| self.fault(format!("expected {expected} here")))?;
        self.at += 1;
        Ok(piece)
    }

    pub(crate) fn expect(&mut self, mark: &str) -> Result<(), Diagnostic> {
        if self.eat(mark) { Ok(()) } else { Err(self.fault(format!("expected {mark} here"))) }
    }

    pub(super) fn deeper(&mut self) -> Result<(), Diagnostic> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.fault("this is nested too deeply")) } else { Ok(()) }
    }

    pub(crate) fn fault(&self, message: impl Into<String>) -> Diagnostic {
        let (at, len) = self.peek().map_or((self.text.len(), 1), |piece| (piece.at, piece.len));
        Diagnostic::new(self.text, at, len, message)
    }

    pub(crate) fn fault_at(&self, piece: Piece<'_>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(self.text, piece.at, piece.len, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEXICON: Lexicon = Lexicon {
        marks: &["&", "&&", "!", "!~", "<", "<=", "(", ")", ","],
        begins: |c| c.is_alphabetic() || c == '_',
        goes_on: |c| c.is_alphanumeric() || "_-".contains(c),
        numbers: true,
        hints: &[('=', "use == for equality")],
        ..Lexicon::WORDS
    };

    #[test]
    fn tokens_with_their_places() {
        let got = LEXICON.pieces("a!~ 'é b'&(é-1&& \"\" ,_<=1.5ms)").expect("tokens");
        let got: Vec<_> = got.into_iter().map(|piece| (piece.token, piece.at, piece.len)).collect();
        let want = [
            (Token::Word("a"), 0, 1),
            (Token::Mark("!~"), 1, 2),
            (Token::Quoted("é b"), 4, 6),
            (Token::Mark("&"), 10, 1),
            (Token::Mark("("), 11, 1),
            (Token::Word("é-1"), 12, 4),
            (Token::Mark("&&"), 16, 2),
            (Token::Quoted(""), 19, 2),
            (Token::Mark(","), 22, 1),
            (Token::Word("_"), 23, 1),
            (Token::Mark("<="), 24, 2),
            (Token::Number(Number::Int(1_500_000)), 26, 5),
            (Token::Mark(")"), 31, 1),
        ];
        assert_eq!(got, want);
        for (text, at, len, words) in [
            ("a = b", 2, 1, "use =="),
            ("a ; b", 2, 1, "no meaning"),
            ("a € b", 2, 3, "no meaning"),
            ("a 'bc", 2, 3, "not closed"),
            ("a 7x b", 2, 2, "units:"),
        ] {
            let fault = LEXICON.pieces(text).expect_err(text);
            assert!((fault.at, fault.len) == (at, len) && fault.message.contains(words), "{fault:?}");
        }
        let escaping = Lexicon { escapes: true, ..LEXICON };
        let text = r#""a\"b\\" 'c\"'"#;
        let got = [LEXICON, escaping].map(|lexicon| lexicon.pieces(text).map(|pieces| pieces.len()).ok());
        assert_eq!(got, [None, Some(2)]);
        let mut cursor = Cursor::new("a ,", &LEXICON).expect("tokens");
        assert!(!cursor.eat(",") && cursor.next("a word").is_ok() && cursor.eat(",") && cursor.peek().is_none());
        assert!(cursor.next("a word").is_err_and(|fault| fault.at == 3 && fault.message == "expected a word here"));
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn tokens_are_the_text(text in "[a&!~<(,'\" =0-9µé.m-]{0,40}|\\PC{0,20}") {
            let (pieces, end) = match LEXICON.pieces(&text) {
                Ok(pieces) => (pieces, text.len()),
                Err(fault) => (LEXICON.pieces(&text[..fault.at]).expect("up to the fault"), fault.at),
            };
            let mut at = 0;
            for piece in pieces {
                prop_assert!(text[at..piece.at].trim().is_empty() && piece.len > 0);
                at = piece.end();
            }
            prop_assert!(text[at..end].trim().is_empty());
        }
    }
}
