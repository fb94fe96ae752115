//! Recordings of other machines: what a sample means depends on the machine that took it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::{data, program, run};

/// The bit of HEADER_ARCH, and of perf 7.0's HEADER_E_MACHINE.
const ARCH: u32 = 6;
const E_MACHINE: u32 = 33;
/// The place of the feature bits in the header of a file.
const BITS: usize = 72;

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Replaces the name of the architecture by the number of its ELF files, or removes it.
fn with_machine(recording: &Path, machine: Option<u32>) -> Vec<u8> {
    let mut bytes = std::fs::read(recording).expect("recording");
    let features = word(&bytes, BITS);
    assert!(features & 1 << ARCH != 0 && features >> E_MACHINE == 0, "{features:x}");
    let sections = (word(&bytes, 40) + word(&bytes, 48)) as usize;
    let mut list: Vec<[u64; 2]> = (0..features.count_ones() as usize)
        .map(|n| [word(&bytes, sections + 16 * n), word(&bytes, sections + 16 * n + 8)])
        .collect();
    list.remove((features & ((1 << ARCH) - 1)).count_ones() as usize);
    let mut bits = features & !(1 << ARCH);
    if let Some(machine) = machine {
        bits |= 1 << E_MACHINE;
        list.push([bytes.len() as u64, 8]);
        bytes.extend(machine.to_le_bytes());
        bytes.extend([0; 4]);
    }
    bytes[BITS..BITS + 8].copy_from_slice(&bits.to_le_bytes());
    let words = list.iter().flatten().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    bytes[sections..sections + words.len()].copy_from_slice(&words);
    bytes
}

/// Returns the system calls of a recording by name.
fn calls(recording: &Path) -> BTreeSet<String> {
    let output = run(program().args(["syscalls", "--batch", "--format", "json"]).arg(recording));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let rows = answer["panels"][0]["rows"].as_array().expect("rows");
    rows.iter().map(|row| row["call"].as_str().expect("call").to_owned()).collect()
}

#[test]
fn numbers_of_calls_are_those_of_the_machine_in_the_header() {
    let folder = tempfile::tempdir().expect("folder");
    let original = data("units/syscalls.data");
    let named = calls(&original);
    let of = |machine| {
        let file = folder.path().join("machine.data");
        std::fs::write(&file, with_machine(&original, machine)).expect("written");
        calls(&file)
    };
    // EM_X86_64.
    assert_eq!(of(Some(62)), named);
    // EM_AARCH64, where other calls have their numbers: 0 is read on x86-64, 61 wait4, 230 clock_nanosleep.
    let arm = of(Some(183));
    for (here, there) in [("read", "io_setup"), ("wait4", "getdents64"), ("clock_nanosleep", "mlockall")] {
        assert!(named.contains(here) && !named.contains(there) && arm.contains(there), "{here} {there}: {arm:?}");
    }
    // Without either, as on this machine.
    assert_eq!(of(None) == named, cfg!(target_arch = "x86_64"));
}
