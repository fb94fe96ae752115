//! Damaged, foreign and empty files: no panic, one clear message, and all samples before the damage.

use crate::common::transcript::Transcript;
use crate::common::{self, data, our_rows, program};

/// Runs a report; returns exit code, number of samples and standard error.
fn report(path: &std::path::Path) -> (i32, u64, String) {
    let output = program()
        .arg("report")
        .arg(path)
        .args(["--format", "json", "-s", "comm,dso,sym", "--kallsyms"])
        .arg(data("kallsyms"))
        .output()
        .expect("runs");
    let samples = if output.status.success() { our_rows(&output.stdout).values().sum() } else { 0 };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().expect("not ended by a signal"), samples, said)
}

fn damaged(name: &str) -> (i32, u64, String) {
    report(&data("damaged").join(name))
}

/// The number of samples that the file still contains.
fn salvageable(name: &str) -> u64 {
    let text = std::fs::read_to_string(data("damaged").join(format!("{name}.salvage.tsv"))).expect("tsv");
    common::perf_rows(&text).values().sum()
}

#[test]
fn an_interrupted_recording_is_shown_whole() {
    for name in ["killed", "size0-made", "trunc-half", "trunc-features"] {
        let (code, samples, said) = damaged(&format!("{name}.data"));
        assert_eq!((code, samples), (0, salvageable(name)), "{name}: {said}");
    }
}

/// Reads each damaged file again for its messages; samples before the damage are kept.
#[test]
fn damage_is_named_with_its_place() {
    let (code, samples, said) = damaged("rec-size-zero.data");
    assert!(code == 0 && samples > 0, "{said}");
    let mut transcript = Transcript::new();
    let with_samples = ["killed", "size0-made", "trunc-half", "trunc-features", "rec-size-zero"];
    let without = ["zero-length", "text", "elf", "trunc-attr", "attr-size-zero"];
    for (names, code) in [(with_samples, 0), (without, 1)] {
        for name in names {
            let output = transcript.add(program().arg("report").arg(data("damaged").join(format!("{name}.data"))));
            assert_eq!(output.status.code(), Some(code), "{name}");
        }
    }
    insta::assert_snapshot!("damage", transcript.text());
}

#[test]
fn every_damaged_file_ends_in_an_ordinary_way() {
    for entry in std::fs::read_dir(data("damaged")).expect("dir") {
        let path = entry.expect("entry").path();
        if path.extension().is_some_and(|e| e == "data") {
            let (code, _, said) = report(&path);
            assert!(code <= 1 && !said.contains("panicked"), "{}: {code} {said}", path.display());
        }
    }
}

#[test]
fn a_file_cut_anywhere_and_with_any_byte_flipped_is_survived() {
    let whole = std::fs::read(data("fp-spin.data")).expect("read");
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("x.data");
    let mut seed = 12345u32;
    let mut random = |n: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed as usize % n
    };
    for round in 0..60 {
        let mut bytes = whole.clone();
        if round % 2 == 0 {
            bytes.truncate(random(whole.len()));
        } else {
            for _ in 0..8 {
                let at = if round % 4 == 1 { random(600) } else { random(whole.len()) };
                bytes[at] ^= 1 << random(8);
            }
        }
        std::fs::write(&path, &bytes).expect("write");
        let (code, _, said) = report(&path);
        assert!(code <= 1 && !said.contains("panicked"), "round {round}: {said}");
    }
}
