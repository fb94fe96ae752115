//! The bytecode frames that optimized code returns to (V8 13).
//!
//! Sources: safepoint-table.h, translated-state.h.

/// Kinds of frames (the first two have a function), of the beginning of a translation, and of repetitions.
const FRAMES: u8 = 11;
const FUNCTIONS: u8 = 2;
const BEGIN: [u8; 2] = [14, 15];
const REPEAT: u8 = 44;
const KINDS: u8 = 45;
/// Frames and instructions of a translation at most.
const DEPTH: i64 = 64;
const INSTRUCTIONS: usize = 1 << 14;

/// Returns the number of operands of an instruction.
fn operands(kind: u8) -> usize {
    match kind {
        0 => 6,
        1 | 7 => 4,
        2 | 3 | 6 | 8 | 9 | 14 | 15 => 3,
        4 | 10 | 43 => 2,
        12 | 13 | 19 | 37 => 0,
        _ => 1,
    }
}

/// Returns the functions of a translation that begins at an offset, the outermost first, as indexes of literals.
pub(super) fn functions(bytes: &[u8], start: usize) -> Option<Vec<u32>> {
    let mut rest = bytes.get(start..)?;
    let (back, frames) = begin(&mut rest)?;
    // Others repeat the instructions of an earlier one, which repeats none.
    let mut basis = bytes.get(start.checked_sub(back)?..)?;
    begin(&mut basis)?;
    let mut found = Found { functions: Vec::new(), left: frames };
    for _ in 0..INSTRUCTIONS {
        if found.left <= 0 {
            return Some(found.functions);
        }
        let (&kind, after) = rest.split_first()?;
        if kind < REPEAT {
            found.add(&mut rest)?;
            if back > 0 {
                skip(&mut basis);
            }
            continue;
        }
        rest = after;
        let n = if kind == REPEAT { unsigned(&mut rest)? } else { u64::from(kind - KINDS) };
        (back > 0 && n <= INSTRUCTIONS as u64).then_some(())?;
        for _ in 0..n {
            (*basis.first()? < REPEAT).then_some(())?;
            found.add(&mut basis)?;
        }
    }
    None
}

struct Found {
    functions: Vec<u32>,
    left: i64,
}

impl Found {
    /// Reads an instruction.
    fn add(&mut self, rest: &mut &[u8]) -> Option<()> {
        let (kind, after) = rest.split_first()?;
        *rest = after;
        let mut all = [0; 6];
        let n = operands(*kind);
        for operand in &mut all[..n] {
            *operand = unsigned(rest)?;
        }
        if *kind < FRAMES && self.left > 0 {
            self.left -= 1;
            // Numbers have their sign in the lowest bit.
            self.functions.extend((*kind < FUNCTIONS).then_some((all[1] >> 1) as u32));
        }
        Some(())
    }
}

/// Leaves an instruction out, if there is one.
fn skip(rest: &mut &[u8]) {
    let mut after = *rest;
    let _ = Found { functions: Vec::new(), left: 0 }.add(&mut after);
    *rest = after;
}

/// Reads the beginning of a translation: the distance from the one whose instructions it repeats, and its frames.
fn begin(rest: &mut &[u8]) -> Option<(usize, i64)> {
    let (kind, after) = rest.split_first()?;
    *rest = after;
    BEGIN.contains(kind).then_some(())?;
    let (back, frames, _) = (unsigned(rest)?, unsigned(rest)? as i64 >> 1, unsigned(rest)?);
    Some((usize::try_from(back).ok()?, Some(frames).filter(|n| (1..=DEPTH).contains(n))?))
}

fn unsigned(rest: &mut &[u8]) -> Option<u64> {
    number(rest, 5)
}

/// Reads a number of 7 bits a byte, the lowest first; `None` if it has more bytes than `most`, which are 10 at most.
pub(super) fn number(rest: &mut &[u8], most: u32) -> Option<u64> {
    let mut sum = 0;
    for i in 0..most {
        let (first, after) = rest.split_first()?;
        *rest = after;
        sum |= u64::from(first & 0x7f) << (7 * i);
        if first & 0x80 == 0 {
            return Some(sum);
        }
    }
    None
}

/// Returns the exit of code at an offset, given its table of safepoints: that of the call which returns there; of the
/// next safepoint if the offset was sampled.
pub(super) fn exit(table: &[u8], offset: u64, is_sampled: bool) -> Option<u32> {
    /// Bytes before the entries.
    const HEAD: usize = 16;
    let half = |at: usize| Some(u32::from_le_bytes(table.get(at..at + 4)?.try_into().ok()?));
    let (n, sizes) = (half(4)?, half(8)?);
    (sizes & 1 == 1).then_some(())?;
    let bits = |shift: u32| (sizes >> shift & 7) as usize;
    let (registers, address, index) = (bits(1), bits(4), bits(7));
    (address > 0 && address <= 4 && index <= 4).then_some(())?;
    let size = 2 * address + index + registers + 1;
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    let mut last = None;
    let entries = table.get(HEAD..)?.chunks_exact(size).take(n as usize);
    for entry in entries {
        let (at, exit) = (number(&entry[..address]), number(&entry[address..address + index]));
        let exit = u32::try_from(exit).ok()?.checked_sub(1);
        if !is_sampled {
            // The address is in the call.
            if at == offset + 1 {
                return exit;
            }
        } else if exit.is_some() {
            if at >= offset {
                return exit;
            }
            last = exit;
        }
    }
    last
}

/// Returns how many bytes a table of safepoints has at most, given its beginning.
pub(super) fn table_len(head: [u8; 16]) -> usize {
    let n = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    /// Bytes of an entry, and entries, at most.
    const ENTRY: usize = 24;
    const MOST: usize = 1 << 14;
    16 + n.min(MOST) * ENTRY
}
