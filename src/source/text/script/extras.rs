//! The fields that `perf script` prints behind frames: instructions, registers, branches.

use super::split_words;

/// Removes what `-F` adds behind a frame: instructions (`+insn`, `+insnlen`), registers (`+iregs`, `+uregs`) and branches
/// (`+brstack` and similar). Below a chain this is a separate line that ends the sample.
pub(crate) fn without_extras(line: &[u8]) -> &[u8] {
    let line = &line[..branches(line).unwrap_or(line.len())];
    let mut marks = memchr::memmem::find_iter(line, b" ABI:");
    let line = &line[..marks.find(|at| is_registers(&line[at + 5..])).unwrap_or(line.len())];
    let cut = |line: &'_ [u8], mark: &[u8], digit: fn(&u8) -> bool| {
        let at = memchr::memmem::rfind(line, mark).filter(|at| line[at + mark.len()..].iter().all(digit));
        at.unwrap_or(line.len())
    };
    let line = &line[..cut(line, b" insn: ", |b| b.is_ascii_hexdigit() || *b == b' ')];
    &line[..cut(line, b" ilen: ", u8::is_ascii_digit)]
}

/// Returns whether a text is `2 AX:0x11 BX:0x22`; user registers may follow those of the kernel.
fn is_registers(text: &[u8]) -> bool {
    let mut words = split_words(text).map(|(_, word)| word);
    words.next().is_some_and(|abi| abi.iter().all(u8::is_ascii_digit)) && words.all(|word| word.contains(&b':'))
}

/// Returns where branches begin, `0x1(/b)/0x2(/b)/P/-/-/0` or `f+0x1(/b)/g(/b)/P/-/-/0`. Symbols directly follow the
/// frame's DSO, or are a line of their own.
fn branches(line: &[u8]) -> Option<usize> {
    let is_flags = |at: &usize| {
        matches!(line[*at..], [b'/', b'P' | b'M' | b'-', b'/', b'X' | b'-', b'/', b'A' | b'-', b'/', b'0'..=b'9', ..])
    };
    let flags = memchr::memchr_iter(b'/', line).find(is_flags).filter(|_| line[0] != b'\t')?;
    let is_address = |at: &usize| {
        let end = line[at + 3..].iter().find(|b| !b.is_ascii_hexdigit());
        matches!(end, Some(b'(' | b'/'))
    };
    let address = memchr::memmem::find_iter(&line[..flags], b" 0x").find(is_address);
    let behind_dso = || {
        let dso =
            [" (/", " (["].iter().filter_map(|open| memchr::memmem::find(&line[..flags], open.as_bytes())).min()?;
        let end = line[dso..flags].windows(2).position(|w| w[0] == b')' && !b") /".contains(&w[1]))?;
        Some(dso + end + 1)
    };
    let is_alone = || line[0] != b' ' && memchr::memmem::find(&line[..flags], b": ").is_none();
    address.or_else(behind_dso).or_else(|| is_alone().then_some(0))
}
