//! Moments that somebody, or a trigger, has marked, and how a file keeps them.
//!
//! They are a feature of the file's head with a bit of its own, far above perf's, which steps over features
//! that it does not know. Its content is text, a mark a line: time, name and note, with tabs between.

/// The feature's bit.
pub const FEATURE: u8 = 250;
/// Marks that are kept, and bytes of a note.
const MAX: usize = 1000;
const MAX_NOTE: usize = 1000;
const HEAD: &str = "perfprof-tui marks 1";

/// A marked moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeMark {
    /// Nanoseconds of the session's clock.
    pub at: u64,
    /// The letter that leads back to it; empty for those that have only a note.
    pub name: String,
    pub note: String,
}

/// Sets a mark, in order of time; one of the same name moves.
pub fn set(marks: &mut Vec<TimeMark>, mut mark: TimeMark) {
    mark.note = limited(&mark.note);
    marks.retain(|old| mark.name.is_empty() || old.name != mark.name);
    if marks.len() < MAX {
        let place = marks.partition_point(|old| old.at <= mark.at);
        marks.insert(place, mark);
    }
}

/// One line without control characters.
fn limited(note: &str) -> String {
    let mut out: String = note.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    while out.len() > MAX_NOTE {
        out.pop();
    }
    out
}

/// As a file keeps them.
pub fn encode(marks: &[TimeMark]) -> Vec<u8> {
    let mut out = format!("{HEAD}\n");
    for mark in marks {
        out.push_str(&format!("{}\t{}\t{}\n", mark.at, limited(&mark.name), limited(&mark.note)));
    }
    out.into_bytes()
}

/// From the features of a file's head, as (bit, bytes).
pub fn decode_from(features: &[(u8, Vec<u8>)]) -> Vec<TimeMark> {
    features.iter().find(|(bit, _)| *bit == FEATURE).map(|(_, bytes)| decode(bytes)).unwrap_or_default()
}

/// From a file; lines that are none are left out.
pub fn decode(bytes: &[u8]) -> Vec<TimeMark> {
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
            set(&mut marks, TimeMark { at, name: name.chars().take(1).collect(), note: note.to_owned() });
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
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

    proptest! {
        #[test]
        fn whatever_a_file_has_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let marks = decode(&[HEAD.as_bytes(), b"\n", &bytes].concat());
            prop_assert_eq!(decode(&encode(&marks)), marks);
            decode(&bytes);
        }
    }
}
