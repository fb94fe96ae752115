//! Moments that the user or a trigger has marked, and their file format.
//!
//! Marks are a header feature with a bit far above perf's, because perf skips unknown features. Its content is text,
//! one mark per line: time, name and note, separated by tabs.

use crate::perfdata::features::bit;

use super::containers::limited;

/// The maximum number of marks, and of bytes in a note.
const MAX: usize = 1000;
const MAX_NOTE: usize = 1000;
const HEAD: &str = "perfprof-tui marks 1";

/// A marked moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeMark {
    /// Nanoseconds of the session's clock.
    pub at: u64,
    /// The letter to return to it; empty for marks with only a note.
    pub name: String,
    /// The user's text; may be empty.
    pub note: String,
}

/// Returns whether a letter is a valid name of a mark, which a user can type to return to it.
pub(crate) fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric()
}

/// Sets a mark, in order of time; an existing one of the same name moves.
pub fn set(marks: &mut Vec<TimeMark>, mut mark: TimeMark) {
    mark.note = limited(&mark.note, MAX_NOTE);
    marks.retain(|old| mark.name.is_empty() || old.name != mark.name);
    if marks.len() < MAX {
        let place = marks.partition_point(|old| old.at <= mark.at);
        marks.insert(place, mark);
    }
}

pub(crate) fn encode(marks: &[TimeMark]) -> Vec<u8> {
    let mut out = format!("{HEAD}\n");
    for mark in marks {
        out.push_str(&format!("{}\t{}\t{}\n", mark.at, mark.name, limited(&mark.note, MAX_NOTE)));
    }
    out.into_bytes()
}

/// Decodes the marks in a file's header features, given as (bit, bytes).
pub(crate) fn decode_from(features: &[(u8, Vec<u8>)]) -> Vec<TimeMark> {
    features.iter().find(|(bit, _)| *bit == bit::MARKS).map(|(_, bytes)| decode(bytes)).unwrap_or_default()
}

/// Decodes the marks in a file; malformed lines and names are skipped.
pub(crate) fn decode(bytes: &[u8]) -> Vec<TimeMark> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let mut marks = Vec::new();
    if lines.next() != Some(HEAD) {
        return marks;
    }
    for line in lines.take(MAX) {
        let mut parts = line.splitn(3, '\t');
        let (at, name, note) = (parts.next(), parts.next(), parts.next());
        if let (Some(Ok(at)), Some(name), Some(note)) = (at.map(str::parse), name, note) {
            let name = name.chars().take(1).filter(|letter| is_name(*letter)).collect();
            set(&mut marks, TimeMark { at, name, note: note.to_owned() });
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;
    use proptest::prelude::*;

    fn mark(at: u64, name: &str, note: &str) -> TimeMark {
        TimeMark { at, name: name.into(), note: note.into() }
    }

    #[test]
    fn a_name_is_one_moment_and_notes_are_many() {
        let mut marks = Vec::new();
        for (at, name, note) in [(5, "a", "deploy"), (9, "", "slow"), (7, "a", "again"), (9, "", "still\tslow\n")] {
            set(&mut marks, mark(at, name, note));
        }
        assert_eq!(marks, [mark(7, "a", "again"), mark(9, "", "slow"), mark(9, "", "still slow ")]);
        assert_eq!(decode(&encode(&marks)), marks);
    }

    #[test]
    fn there_are_no_more_marks_and_no_longer_notes_than_may_be() {
        let mut marks = Vec::new();
        (0..MAX as u64 + 5).for_each(|at| set(&mut marks, mark(at, "", "x")));
        assert_eq!((marks.len(), marks[MAX - 1].at), (MAX, MAX as u64 - 1));
        assert_eq!(decode(&encode(&marks)), marks);
        for (note, kept) in [("x".repeat(MAX_NOTE), MAX_NOTE), ("ö".repeat(600), MAX_NOTE), ("öx".repeat(400), 999)] {
            assert_eq!(limited(&note, MAX_NOTE), note[..kept], "{kept}");
        }
    }

    #[test]
    fn a_files_marks_are_in_the_feature_of_their_own() {
        let (some, other) = ([mark(7, "a", "note")], [mark(8, "b", "other")]);
        let features = [(bit::MARKS - 1, encode(&other)), (bit::MARKS, encode(&some))];
        assert_eq!(decode_from(&features), some);
        assert_eq!(decode_from(&features[..1]), []);
    }

    /// Lines with arbitrary times, names and notes, and a few bytes changed.
    fn file() -> impl Strategy<Value = Vec<u8>> {
        let name = prop_oneof!["[a-c]", any::<char>().prop_map(String::from), "\\PC{0,3}"];
        let line = (prop_oneof![0u64..9, any::<u64>()], name, any::<String>());
        let line = line.prop_map(|(at, name, note)| format!("{at}\t{name}\t{note}\n"));
        damage::bytes(
            4,
            proptest::collection::vec(line, 0..6).prop_map(|lines| {
                [HEAD.to_owned(), "\n".to_owned()].into_iter().chain(lines).collect::<String>().into_bytes()
            }),
        )
    }

    #[test]
    fn whatever_a_file_has_is_read() {
        damage::reaching(256, 40, file(), |bytes| {
            let marks = decode(&bytes);
            assert_eq!(decode(&encode(&marks)), marks);
            assert!(marks.is_sorted_by_key(|mark| mark.at));
            for TimeMark { name, note, .. } in &marks {
                assert!(name.len() <= 1 && name.chars().all(is_name), "{name:?}");
                assert!(note.len() <= MAX_NOTE && !note.contains(char::is_control), "{note:?}");
            }
            !marks.is_empty()
        });
    }
}
