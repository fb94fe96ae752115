//! Fuzzy matching of typed text.

use nucleo_matcher::pattern::{AtomKind, CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

pub(crate) struct Fuzzy {
    pattern: Pattern,
    matcher: Matcher,
    buffer: Vec<char>,
}

impl Fuzzy {
    /// Matches the letters in order, anywhere in a text.
    pub(crate) fn letters(typed: &str) -> Self {
        Self::of(Pattern::parse(typed, CaseMatching::Ignore, Normalization::Smart))
    }

    /// Matches the words literally.
    pub(crate) fn words(typed: &str) -> Self {
        Self::of(Pattern::new(typed, CaseMatching::Ignore, Normalization::Smart, AtomKind::Substring))
    }

    fn of(pattern: Pattern) -> Self {
        Self { pattern, matcher: Matcher::new(Config::DEFAULT), buffer: Vec::new() }
    }

    pub(crate) fn score(&mut self, text: &str) -> Option<u32> {
        self.pattern.score(Utf32Str::new(text, &mut self.buffer), &mut self.matcher)
    }
}
