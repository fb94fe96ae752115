//! The table of offsets with which the state of CPython 3.13 and 3.14 begins (`_Py_DebugOffsets`).

use super::NotWalked;
use crate::kernel::walk::runtime::{InterpreterKind, RuntimeLayout};

/// Offsets on the way to the states of threads: of the first interpreter in the global state, of the first thread in an
/// interpreter, of the next thread in a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) interpreter: u64,
    pub(super) thread: u64,
    pub(super) next: u64,
}

/// Bytes of the table that are read.
pub(super) const BYTES: usize = 8 * 50;
const COOKIE: &[u8] = b"xdebugpy";

/// Parses the table of this minor version. Fails if it is another's, if its values cannot be true, or if the build has
/// no global lock: then all objects have other heads, and code has an array of copies of its instructions.
pub(super) fn parse(minor: u8, bytes: &[u8]) -> Result<(RuntimeLayout, Tree), NotWalked> {
    const FREE_THREADED: usize = 2;
    if matches!(minor, 13 | 14) && word(bytes, FREE_THREADED) == Some(1) {
        return Err(NotWalked::FreeThreaded);
    }
    layout(minor, bytes).ok_or(NotWalked::Version)
}

fn word(bytes: &[u8], i: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(8 * i..8 * i + 8)?.try_into().ok()?))
}

fn layout(minor: u8, bytes: &[u8]) -> Option<(RuntimeLayout, Tree)> {
    let word = |i: usize| word(bytes, i);
    // Groups of words: state, interpreter, thread, frame, code.
    let (interpreter, thread, frame, code) = match minor {
        13 => (6, 19, 28, 34),
        14 => (6, 22, 31, 39),
        _ => return None,
    };
    let version = word(1)?;
    if bytes.get(..8)? != COOKIE || version >> 16 != 0x0300 | u64::from(minor) || word(2)? != 0 {
        return None;
    }
    // Offsets of fields of a size in objects of another.
    let within = |group: usize, field: usize, size: u64| {
        let (all, at) = (word(group)?, word(group + field)?);
        (at.is_multiple_of(size.min(4)) && at.checked_add(size)? <= all).then_some(at)
    };
    let small = |group, field, size| u8::try_from(within(group, field, size)?).ok();
    let owner = small(frame, 5, 1)?;
    let (name, file) = (small(code, 3, 8)?, small(code, 1, 8)?);
    let layout = RuntimeLayout {
        thread_id: u16::try_from(within(thread, 5, 8)?).ok()?,
        hops: (u16::try_from(within(thread, 4, 8)?).ok()?, None),
        frame_size: owner.checked_add(8)? & !7,
        code: small(frame, 2, 8)?,
        next: small(frame, 1, 8)?,
        instruction: small(frame, 3, 8)?,
        kind: InterpreterKind::Cpython,
        entry: (owner, 3, u8::MAX),
        is_shim: true,
        is_index: false,
        code_size: name.max(file).checked_add(8)?,
        first_line: small(code, 5, 4)?,
        line_shift: 0,
        name_apart: false,
        arguments: small(code, 6, 4)?,
        flags: 48,
        name,
        file,
        start: small(code, 9, 1)?,
        line_table: small(code, 4, 8)?,
        head: 24,
        kind_shift: 2,
        ascii: 40,
        wide: 56,
    };
    // One read must contain all fields.
    let is_whole = layout.frame_size < 128
        && [layout.code, layout.next, layout.instruction].iter().all(|at| at.saturating_add(8) <= layout.frame_size)
        && [layout.first_line, layout.arguments, layout.flags].iter().all(|at| *at < layout.code_size);
    let tree = Tree { interpreter: word(5)?, thread: within(interpreter, 3, 8)?, next: within(thread, 2, 8)? };
    is_whole.then_some((layout, tree))
}
