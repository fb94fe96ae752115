//! Property tests: their settings, inputs that are mostly damaged in a few places, and a count of the inputs that reach
//! the tested code: a parser that rejects every input proves nothing about later code.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};

/// Returns settings with which a failing input is stored next to the test's file, and tried first in later runs.
pub(crate) fn kept() -> Config {
    let beside = FileFailurePersistence::WithSource("proptest-regressions");
    Config { failure_persistence: Some(Box::new(beside)), ..Config::default() }
}

/// Runs a test on `cases` inputs. It returns whether the input reached the tested code; `least` percent must.
pub(crate) fn reaching<S: Strategy>(cases: u32, least: u32, inputs: S, test: impl Fn(S::Value) -> bool) {
    let (all, reached) = (Cell::new(0u32), Cell::new(0u32));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&inputs, |input| {
        let there = test(input);
        all.set(all.get() + 1);
        reached.set(reached.get() + u32::from(there));
        Ok(())
    });
    if let Err(fault) = outcome {
        panic!("{fault}");
    }
    let (all, reached) = (all.get(), reached.get());
    assert!(100 * reached >= least * all, "only {reached} of {all} inputs reach what is tested");
    assert!(reached < all, "all of {all} inputs reach it: none is refused");
}

/// Returns texts from the list: a third unchanged, the rest with up to three edits: parts removed, repeated, taken from
/// other texts, or characters inserted.
pub(crate) fn texts(whole: &'static [&'static str]) -> impl Strategy<Value = String> {
    let edit = (0..4, any::<Index>(), 1usize..12, proptest::sample::select(whole), any::<char>());
    (proptest::sample::select(whole), proptest::collection::vec(edit, 0..4)).prop_map(|(whole, edits)| {
        let mut text: Vec<char> = whole.chars().collect();
        for (kind, at, len, other, c) in edits {
            let at = at.index(text.len() + 1);
            let piece = at..(at + len).min(text.len());
            match kind {
                0 => drop(text.drain(piece)),
                1 => drop(text.splice(at..at, text[piece.clone()].to_vec())),
                2 => drop(text.splice(at.., other.chars().skip(at))),
                _ => text.insert(at, c),
            }
        }
        text.into_iter().collect()
    })
}

/// Returns bytes with fewer than `changes` changed bytes, sometimes truncated.
pub(crate) fn bytes(changes: usize, whole: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<Index>(), any::<u8>()), 0..changes);
    (whole, changes, proptest::option::weighted(0.2, any::<Index>())).prop_map(|(mut bytes, changes, cut)| {
        let n = bytes.len();
        changes.into_iter().filter(|_| n > 0).for_each(|(at, byte)| bytes[at.index(n)] = byte);
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len() + 1));
        }
        bytes
    })
}

/// Returns some bytes truncated at each position, and with each byte inverted.
pub(crate) fn each_byte(whole: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let odd = |at: usize| {
        let mut odd = whole.to_vec();
        odd[at] ^= 0xff;
        odd
    };
    let all = 0..whole.len();
    all.clone().map(|len| whole[..len].to_vec()).chain(all.map(odd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "inputs reach what is tested")]
    fn a_test_of_nothing_is_found() {
        reaching(256, 1, any::<u64>(), |number| number == 7);
    }

    #[test]
    #[should_panic(expected = "minimal failing input")]
    fn what_fails_is_made_small() {
        reaching(256, 1, any::<u64>(), |number| {
            assert!(number < 1000);
            number > 9
        });
    }

    #[test]
    fn some_are_whole_and_some_are_not() {
        reaching(256, 15, texts(&["comm == nginx && pid == 7", "cpu in 0-3"]), |text| {
            text == "cpu in 0-3" || text.len() > 23
        });
        reaching(256, 10, bytes(4, Just(vec![7; 20])), |bytes| bytes == [7; 20]);
    }
}
