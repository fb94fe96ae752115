//! Fuzzy matching of what is typed.

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// The typed text, against which texts are scored.
pub(crate) struct Fuzzy {
    pattern: Pattern,
    matcher: Matcher,
    buffer: Vec<char>,
}

impl Fuzzy {
    /// Its letters, in their order, anywhere in a text.
    pub(crate) fn letters(typed: &str) -> Self {
        Self::of(Pattern::parse(typed, CaseMatching::Ignore, Normalization::Smart))
    }

    /// Its words as they are.
    pub(crate) fn words(typed: &str) -> Self {
        Self::of(Pattern::new(typed, CaseMatching::Ignore, Normalization::Smart, AtomKind::Substring))
    }

    fn of(pattern: Pattern) -> Self {
        Self { pattern, matcher: Matcher::new(Config::DEFAULT), buffer: Vec::new() }
    }

    /// The score of a text; `None` where it does not.
    pub(crate) fn score(&mut self, text: &str) -> Option<u32> {
        self.pattern.score(Utf32Str::new(text, &mut self.buffer), &mut self.matcher)
    }
}
