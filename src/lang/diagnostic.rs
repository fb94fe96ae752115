//! An error in a typed text, with its position: shown with a caret below it.

/// An error in an event list or a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub(crate) text: String,
    /// Byte offset of the invalid piece.
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) message: String,
    pub(crate) nearest: Vec<String>,
}

impl Diagnostic {
    pub(crate) fn new(text: &str, at: usize, len: usize, message: impl Into<String>) -> Self {
        Self { text: text.to_owned(), at: at.min(text.len()), len, message: message.into(), nearest: Vec::new() }
    }

    pub(crate) fn offer<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let word = self.text.get(self.at..self.at + self.len).unwrap_or_default().to_owned();
        self.nearest = nearest(&word, names);
        self
    }

    /// Returns the message and its suggestions on one line, for a status bar.
    pub(crate) fn line(&self) -> String {
        match self.nearest.as_slice() {
            [] => self.message.clone(),
            names => format!("{}; nearest: {}", self.message, names.join(", ")),
        }
    }
}

impl std::fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let before = self.text.get(..self.at).map_or(0, |t| t.chars().count());
        let under = self.text.get(self.at..self.at + self.len).map_or(1, |t| t.chars().count().max(1));
        writeln!(f, "{}", self.line())?;
        writeln!(f, "  {}", self.text)?;
        write!(f, "  {}{}", " ".repeat(before), "^".repeat(under))
    }
}

impl std::error::Error for Diagnostic {}

/// Returns up to three names similar to `word`, by Jaro-Winkler similarity. Ties by name.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    nearest_of(word, &mut names.into_iter())
}

/// Not generic, so that it is compiled only once.
fn nearest_of(word: &str, names: &mut dyn Iterator<Item = &str>) -> Vec<String> {
    let mut scored: Vec<(f64, &str)> =
        names.map(|n| (strsim::jaro_winkler(word, n), n)).filter(|(score, _)| *score > 0.75).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(3).map(|(_, n)| n.to_owned()).collect()
}

/// Returns whether a typed word is probably a misspelling of a name: at most one letter in four is wrong, missing,
/// superfluous or swapped with the next one.
pub fn is_misspelled(word: &str, name: &str) -> bool {
    let (word, name) = (word.to_lowercase(), name.to_lowercase());
    let letters = word.chars().count().min(name.chars().count());
    letters > 2 && strsim::osa_distance(&word, &name) <= (letters / 4).max(1)
}

/// Returns `; nearest: a, b` to append after an unknown word.
/// Empty if no name is similar.
pub fn nearest_hint<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let near = nearest(word, names);
    if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_word_has_few_wrong_letters() {
        for (word, name) in [("netwrok", "network"), ("sleap", "sleep"), ("nginxx", "nginx"), ("Jaba", "java")] {
            assert!(is_misspelled(word, name), "{word} {name}");
        }
        for (word, name) in [("nosuchprog", "no-group"), ("pythn3", "python"), ("zsh", "bash"), ("io", "ip"), ("", "a")]
        {
            assert!(!is_misspelled(word, name), "{word} {name}");
        }
    }

    #[test]
    fn the_caret_stands_under_the_fault() {
        let fault = Diagnostic::new("cycles,cpu-clok", 7, 8, "unknown event cpu-clok").offer([
            "cpu-clock",
            "cpu-cycles",
            "zebra",
        ]);
        let text = fault.to_string();
        assert!(text.starts_with("unknown event cpu-clok; nearest: cpu-clock"), "{text}");
        assert!(text.ends_with("\n  cycles,cpu-clok\n         ^^^^^^^^"), "{text}");
    }
}
