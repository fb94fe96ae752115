//! Unwind tables of a program with an arbitrary `.eh_frame`: rows must be sorted and within the limit.

#![no_main]

use libfuzzer_sys::fuzz_target;
use object::{Object, ObjectSection};
use perfprof_tui::symbols::bytes::Bytes;
use perfprof_tui::symbols::unwind::rows;

const PROGRAM: &[u8] = include_bytes!("../../tests/data/bin/spin-nopie");
/// The offset of the machine in an ELF file, and AArch64's number (elf(5)).
const MACHINE: usize = 18;
const AARCH64: u8 = 183;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let file = object::File::parse(PROGRAM).expect("program");
    let (from, size) = file.section_by_name(".eh_frame").and_then(|s| s.file_range()).expect("tables");
    let mut program = PROGRAM.to_vec();
    if kind % 2 == 1 {
        program[MACHINE] = AARCH64;
    }
    let section = &mut program[from as usize..(from + size) as usize];
    let n = bytes.len().min(section.len());
    section[..n].copy_from_slice(&bytes[..n]);
    if let Ok(table) = rows::of(&Bytes::from(program)) {
        assert!(table.rows.is_sorted_by_key(|row| *row as u32));
        assert!(table.rows.len() as u64 <= 2 * size);
        assert!(table.rows.last().is_none_or(|row| row >> 32 == 0));
    }
});
