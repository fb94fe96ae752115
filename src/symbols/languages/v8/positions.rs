//! Tables of positions of compiled code (source-position-table.cc, source-position.h).

use super::translations::number;

/// A position in the source of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SourcePosition {
    /// The number of the inlined call that has it, from 1 on; 0 for the function's own code.
    pub(super) call: u16,
    /// The character in the function's script, if it is known.
    pub(super) character: Option<u32>,
}

impl SourcePosition {
    pub(super) fn of(word: u64) -> Self {
        // The lowest bit is set for other files than scripts. Characters count from 1; 0 stands for an unknown one.
        let character = (word >> 1 & 0x3fff_ffff) as u32;
        Self { call: (word >> 31) as u16, character: character.checked_sub(1).filter(|_| word & 1 == 0) }
    }
}

/// Returns the last position up to an offset of code; `None` without one.
pub(super) fn at(table: &[u8], offset: u64) -> Option<SourcePosition> {
    // Offsets count from that of the function's entry.
    let (mut rest, mut code, mut source, mut found) = (table, -1i64, 0i64, None);
    while !rest.is_empty() {
        let Some((delta, position)) = signed(&mut rest).zip(signed(&mut rest)) else { break };
        // A statement's is not negative.
        code = code.saturating_add(if delta < 0 { -(delta + 1) } else { delta });
        source = source.wrapping_add(position);
        if u64::try_from(code).is_ok_and(|code| code > offset) {
            break;
        }
        found = Some(SourcePosition::of(source as u64));
    }
    found
}

/// Reads a number whose lowest bit is its sign.
fn signed(rest: &mut &[u8]) -> Option<i64> {
    number(rest, 10).map(|sum| (sum >> 1) as i64 ^ -((sum & 1) as i64))
}
