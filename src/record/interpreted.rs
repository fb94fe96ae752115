//! Frames of interpreted functions, as addresses above all of user code: the language, the function, and its line.
//! A process has a mapping of each of its languages, and a function is named by the record of a symbol there.

use super::kinds::{Mmap, encode, types};

/// The addresses of Python's functions.
pub(crate) const PYTHON: u64 = 1 << 56 | 1 << 48;
/// The addresses of a language, and those of a function.
pub(crate) const LANGUAGE_LEN: u64 = 1 << 48;
pub(crate) const FUNCTION_LEN: u64 = 1 << 16;
/// The name of the mapping of Python's functions.
pub(crate) const PYTHON_NAME: &[u8] = b"[python]";
/// Where functions begin in a file that describes them.
const OFFSET: u64 = 1 << 16;

/// Returns the address of a function in the file that would describe it.
pub(crate) fn to_dso(address: u64) -> u64 {
    address.wrapping_sub(PYTHON).wrapping_add(OFFSET)
}

/// Returns an address in a function of Python by its number. Callers are looked up one byte before: its first byte is
/// not used.
pub(crate) fn python(function: u32) -> u64 {
    PYTHON | u64::from(function) << 16 | 1
}

/// Returns the address of a function that has this one in such a file.
pub(crate) fn of_dso(address: u64) -> u64 {
    address.wrapping_sub(OFFSET).wrapping_add(PYTHON)
}

/// Returns whether an address is that of an interpreted function.
pub(crate) fn is_function(address: u64) -> bool {
    address >> 48 == PYTHON >> 48
}

/// Appends the record that names a function.
pub(crate) fn encode_function(out: &mut Vec<u8>, address: u64, name: &str, trailer: &[u8]) -> Option<()> {
    encode(out, types::KSYMBOL, 0, |out| {
        out.extend(address.to_le_bytes());
        out.extend((FUNCTION_LEN as u32).to_le_bytes());
        out.extend([0; 4]);
        out.extend(name.bytes().filter(|byte| *byte != 0));
        out.resize((out.len() / 8 + 1) * 8, 0);
        out.extend(trailer);
    })
}

/// Appends the record of a process's mapping of Python's functions.
pub(crate) fn encode_mapping(out: &mut Vec<u8>, pid: i32, trailer: &[u8]) -> Option<()> {
    let (start, len, pgoff, name) = (PYTHON, LANGUAGE_LEN, OFFSET, PYTHON_NAME);
    Mmap { pid, tid: pid, start, len, pgoff, prot: 5, name, ..Mmap::default() }.encode(out, trailer)
}
