//! Functions at an address of compiled code, also those that the compiler inlined (debugInfo.hpp, pcDesc.hpp).

/// Inlined functions at an address at most.
const DEPTH: usize = 64;
/// Versions up to this one also use zeros in numbers.
const WITH_ZEROS: u8 = 18;

/// A position of compiled code, relative to the code's start, and the offset of its scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) at: i32,
    pub(super) scope: i32,
}

/// Returns the positions of a table, which has them in order.
pub(super) fn positions(table: &[u8]) -> Vec<Position> {
    let half = |bytes: &[u8]| i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    table.as_chunks::<16>().0.iter().map(|entry| Position { at: half(entry), scope: half(&entry[4..]) }).collect()
}

/// A method in a scope by its index from 1 on, and the index of its bytecode; `None` before the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScopedMethod {
    pub(super) method: u32,
    pub(super) index: Option<u32>,
}

/// Returns the methods of a scope, the innermost first; `None` if they are damaged.
pub(super) fn functions(scopes: &[u8], first: i32, version: u8) -> Option<Vec<ScopedMethod>> {
    let (mut found, mut offset) = (Vec::new(), usize::try_from(first).ok()?);
    while offset != 0 {
        let mut rest = scopes.get(offset..)?;
        let outer = number(&mut rest, version)? as usize;
        let method = number(&mut rest, version)?;
        found.push(ScopedMethod { method, index: number(&mut rest, version)?.checked_sub(1) });
        // A caller was written before what it calls.
        if outer >= offset || found.len() > DEPTH {
            return None;
        }
        offset = outer;
    }
    Some(found)
}

/// Reads a number of one to five bytes (unsigned5.hpp): bytes below 192 end it, each next one counts 64 times more.
pub(super) fn number(rest: &mut &[u8], version: u8) -> Option<u32> {
    const LOW: u32 = 192;
    let unused = u32::from(version > WITH_ZEROS);
    let mut sum = 0u32;
    for i in 0..5 {
        let (first, after) = rest.split_first()?;
        *rest = after;
        let digit = u32::from(*first).checked_sub(unused)?;
        sum = sum.wrapping_add(digit << (6 * i));
        if u32::from(*first) < LOW || i == 4 {
            return Some(sum);
        }
    }
    None
}
