//! Search by words: in names, in keywords, and in descriptions. Used by menus, the palette and the command line.

use super::{is_misspelled, nearest};

/// Words of a question that say nothing about its subject: `which file is missing`.
const OF_QUESTIONS: [&str; 14] =
    ["a", "do", "does", "how", "in", "is", "it", "my", "of", "the", "what", "which", "who", "whom"];

/// An item that can be found.
#[derive(Clone, Copy, Debug)]
pub struct Findable<'a> {
    /// The name; dashes and underscores separate its parts.
    pub name: &'a str,
    /// Keywords, the most fitting first.
    pub words: &'a str,
    /// The description.
    pub about: &'a str,
}

impl<'a> Findable<'a> {
    /// Returns the rank of the item for the typed words; lower is better. `None` if one of the words does not occur in
    /// the item. Words match at the beginning of a word: `lock` does not match `block`.
    pub fn rank(&self, typed: &str) -> Option<u32> {
        let words: Vec<String> = typed.split_whitespace().map(str::to_lowercase).collect();
        let is_word = |word: &&String| words.len() == 1 || !OF_QUESTIONS.contains(&word.as_str());
        let mut words = words.iter().filter(is_word).peekable();
        words.peek()?;
        words.map(|word| self.rank_of(word)).sum()
    }

    fn rank_of(&self, word: &str) -> Option<u32> {
        let name = self.name.to_lowercase();
        if name == word {
            return Some(0);
        }
        let place = |is: &dyn Fn(&str) -> bool| self.words().position(is).map(|at| at as u32);
        let singular = word.strip_suffix('s').filter(|one| one.len() > 2).unwrap_or(word);
        if name.split(['-', '_']).any(|part| part == word || part == singular) {
            return Some(5);
        }
        if let Some(at) = place(&|own| own == word || own == singular) {
            return Some(10 + at);
        }
        if name.starts_with(word) {
            return Some(90);
        }
        let begins = |text: &str| {
            let mut parts = text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
            parts.any(|part| part.to_lowercase().starts_with(word))
        };
        if begins(self.name) {
            return Some(100);
        }
        // Two letters match too many words.
        if let Some(at) = place(&|own| word.len() > 2 && own.starts_with(word)) {
            return Some(110 + at);
        }
        begins(self.about).then_some(200)
    }

    /// Returns the keywords.
    pub fn words(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.words.split_whitespace()
    }
}

/// Returns the items that match a text, the best first.
pub fn found<'a, T: Copy>(typed: &str, things: impl Iterator<Item = T>, of: impl Fn(T) -> Findable<'a>) -> Vec<T> {
    let mut list: Vec<(u32, T)> = things.filter_map(|thing| Some((of(thing).rank(typed)?, thing))).collect();
    list.sort_by_key(|(rank, _)| *rank);
    list.into_iter().map(|(_, thing)| thing).collect()
}

/// Returns the first keyword or name that a text probably misspells.
pub fn misspelled<'a>(typed: &str, things: impl Iterator<Item = Findable<'a>>) -> Option<&'a str> {
    let mut words = things.flat_map(|thing| std::iter::once(thing.name).chain(thing.words()));
    words.find(|word| is_misspelled(typed, word))
}

/// Returns the keywords and names most similar to a text that does not match.
pub fn nearest_words<'a>(typed: &str, things: impl Iterator<Item = Findable<'a>>) -> Vec<String> {
    nearest(&typed.to_lowercase(), things.flat_map(|thing| std::iter::once(thing.name).chain(thing.words())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THINGS: [Findable<'_>; 3] = [
        Findable { name: "syscalls", words: "slow strace network", about: "what calls cost, and those that block" },
        Findable { name: "offcpu", words: "slow lock futex", about: "where tasks block" },
        Findable { name: "page-faults", words: "memory", about: "which code touches memory" },
    ];

    fn names(typed: &str) -> Vec<&'static str> {
        found(typed, THINGS.iter(), |thing| *thing).iter().map(|thing| thing.name).collect()
    }

    #[test]
    fn words_are_found_where_they_begin() {
        assert_eq!(names("lock"), ["offcpu"], "the end of a word does not match");
        assert_eq!(names("locks"), ["offcpu"]);
        assert_eq!(names("SLOW"), ["syscalls", "offcpu"]);
        assert_eq!(names("slow fut"), ["offcpu"]);
        assert_eq!(names("faults"), ["page-faults"]);
        assert_eq!(names("block"), ["syscalls", "offcpu"]);
        assert_eq!(names("off"), ["offcpu"]);
        assert_eq!(names("which memory is slow"), [""; 0], "each other word must match");
        assert_eq!(names("who is the slow futex"), ["offcpu"]);
        assert!(names("who is").is_empty());
        assert!(names("zzz").is_empty() && names("").is_empty() && names("slow zzz").is_empty());
    }

    #[test]
    fn what_finds_nothing_has_near_words() {
        assert_eq!(nearest_words("netwrok", THINGS.into_iter()).first().map(String::as_str), Some("network"));
        assert!(nearest_words("qqqq", THINGS.into_iter()).is_empty());
    }
}
