//! Tables of positions of compiled code (source-position-table.cc).

/// Returns the number of the inlined call that an offset of code belongs to, from 1 on: that of the last position up to
/// it; 0 for the function's own code. `None` without a position.
pub(super) fn at(table: &[u8], offset: u64) -> Option<u16> {
    let (mut rest, mut code, mut source, mut found) = (table, 0i64, 0i64, None);
    while !rest.is_empty() {
        let Some((delta, position)) = number(&mut rest).zip(number(&mut rest)) else { break };
        // A statement's is not negative.
        code = code.saturating_add(if delta < 0 { -(delta + 1) } else { delta });
        source = source.wrapping_add(position);
        if code.unsigned_abs() > offset {
            break;
        }
        found = Some((source >> 31) as u16);
    }
    found
}

/// Reads a number of 7 bits a byte, the lowest first, whose lowest bit is its sign.
fn number(rest: &mut &[u8]) -> Option<i64> {
    let mut sum = 0u64;
    for i in 0..10 {
        let (first, after) = rest.split_first()?;
        *rest = after;
        sum |= u64::from(first & 0x7f).checked_shl(7 * i)?;
        if first & 0x80 == 0 {
            return Some((sum >> 1) as i64 ^ -((sum & 1) as i64));
        }
    }
    None
}
