//! Frames that a pprof profile declares as uninteresting (`drop_frames` of profile.proto), such as the functions of an
//! allocator: a stack ends at the caller of the first of them. `go tool pprof` leaves them out, too.

use regex::{Regex, RegexBuilder};
use rustc_hash::FxHashMap;

/// Brackets that belong to names of C++.
const ANONYMOUS: &str = "(anonymous namespace)";
/// The bytes of a compiled pattern, which the file has chosen.
const MOST_BYTES: usize = 1 << 20;

/// Decides by its name whether a function is left out.
#[derive(Debug)]
pub(super) struct FramePruning {
    drop: Regex,
    keep: Option<Regex>,
    known: FxHashMap<String, bool>,
}

/// The frames of a location, from the innermost inlined function on, without those that are left out.
#[derive(Debug, Default)]
pub(super) struct LocationFrames {
    pub(super) frames: Vec<u32>,
    pub(super) end: StackEnd,
}

/// Whether stacks end at a location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StackEnd {
    #[default]
    No,
    /// After its frames, which are callers of a function that is left out.
    Here,
    /// Before it: all of its frames are left out.
    Before,
}

impl FramePruning {
    /// Compiles the patterns of a profile; `None` for profiles without patterns.
    pub(super) fn of(drop: &str, keep: &str) -> Result<Option<Self>, regex::Error> {
        let compile = |text: &str| RegexBuilder::new(&format!("^({text})$")).size_limit(MOST_BYTES).build();
        if drop.is_empty() {
            return Ok(None);
        }
        let keep = if keep.is_empty() { None } else { Some(compile(keep)?) };
        Ok(Some(Self { drop: compile(drop)?, keep, known: FxHashMap::default() }))
    }

    /// Returns how many of a location's functions are left out, from the innermost on, and where stacks end.
    pub(super) fn of_location(&mut self, names: &[String]) -> (usize, StackEnd) {
        match names.iter().rposition(|name| self.is_left_out(name)) {
            None => (0, StackEnd::No),
            // These are shown if nothing calls them.
            Some(last) if last + 1 == names.len() => (0, StackEnd::Before),
            Some(last) => (last + 1, StackEnd::Here),
        }
    }

    fn is_left_out(&mut self, name: &str) -> bool {
        if let Some(known) = self.known.get(name) {
            return *known;
        }
        let function = without_arguments(name);
        let is_kept = || self.keep.as_ref().is_some_and(|keep| keep.is_match(function));
        let is_left_out = self.drop.is_match(function) && !is_kept();
        self.known.insert(name.to_owned(), is_left_out);
        is_left_out
    }
}

/// Returns the number of a stack's first location, from the leaf on, that is shown. Stacks of left-out functions alone
/// are shown.
pub(super) fn first_shown(ends: impl DoubleEndedIterator<Item = StackEnd> + ExactSizeIterator) -> usize {
    let mut has_caller = false;
    for (at, end) in ends.enumerate().rev() {
        match end {
            StackEnd::No => has_caller = true,
            StackEnd::Here if has_caller => return at,
            StackEnd::Before if has_caller => return at + 1,
            StackEnd::Here | StackEnd::Before => {}
        }
    }
    0
}

/// Returns a function's name without its argument list, and without the dot that PowerPC's ELF adds.
fn without_arguments(name: &str) -> &str {
    let name = name.strip_prefix('.').unwrap_or(name);
    let is_of_name = |at: usize| {
        let rest = &name[at..];
        rest.starts_with(ANONYMOUS) || rest.starts_with("()") && name[..at].ends_with("operator")
    };
    let mut brackets = name.match_indices('(').map(|(at, _)| at);
    brackets.find(|at| !is_of_name(*at)).map_or(name, |at| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_end_at_the_callers_of_left_out_functions() {
        let mut pruning = FramePruning::of("malloc|.*::allocate", "my::allocate").expect("patterns").expect("pruning");
        let mut of =
            |names: &[&str]| pruning.of_location(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["malloc"]), (0, StackEnd::Before));
        assert_eq!(of(&["malloc(unsigned long)", "grow", "main"]), (1, StackEnd::Here));
        assert_eq!(of(&["inner", "std::allocate", "main"]), (2, StackEnd::Here));
        assert_eq!(of(&["my::allocate", "xmalloc", "mallocx"]), (0, StackEnd::No));
        assert_eq!(of(&[]), (0, StackEnd::No));
        let first = |ends: &[StackEnd]| first_shown(ends.iter().copied());
        use StackEnd::{Before, Here, No};
        assert_eq!(first(&[No, Before, No]), 2);
        assert_eq!(first(&[No, Here, No]), 1);
        // The outermost one counts; without a caller, it stays.
        assert_eq!(first(&[No, Before, No, Before, No, Before]), 4);
        assert_eq!((first(&[No, Before]), first(&[Before]), first(&[])), (0, 0, 0));
        assert!(FramePruning::of("", "x").expect("no pattern").is_none());
        assert!(FramePruning::of("(", "").is_err() && FramePruning::of("(x{1000}){1000}", "").is_err());
    }

    #[test]
    fn names_lose_their_arguments() {
        let cases = [
            ("f(int)", "f"),
            (".f", "f"),
            ("(anonymous namespace)::g(char)", "(anonymous namespace)::g"),
            ("A::operator()(int)", "A::operator()"),
            ("main.(*T).Burn", "main."),
            ("plain", "plain"),
        ];
        for (name, without) in cases {
            assert_eq!(without_arguments(name), without);
        }
    }
}
