//! Compiled code, and the functions that were inlined into it.

use std::cell::Cell;

use super::layout::V8Layout;
use super::positions::{self, SourcePosition};
use super::strings::number;
use super::translations;
use crate::kernel::walk::runtime::CodePlace;
use crate::symbols::languages::ProcessMemory;

/// How far code may begin before an address, read in pieces of this size.
const MOST_CODE: u64 = 1 << 18;
const PIECE: u64 = 4096;
/// Bytes of a table, and inlined calls at an address, at most.
const TABLE: u32 = 1 << 20;
const DEPTH: usize = 64;

/// The shared part of a function, and the character of its script that is executed, if it is known.
pub(super) type PlacedFunction = (u64, Option<u32>);

/// Returns the functions at an address of compiled code, the innermost first; `None` if the code is not known to be that
/// of this function.
pub(super) fn functions(
    place: CodePlace,
    shared: u64,
    layout: &V8Layout,
    stream: &Cell<u64>,
    memory: &impl ProcessMemory,
) -> Option<Vec<PlacedFunction>> {
    inlined(find(place.address, layout, stream, memory)?, place, shared, layout, memory)
}

/// The same, given the code.
pub(super) fn inlined(
    code: u64,
    place: CodePlace,
    shared: u64,
    layout: &V8Layout,
    memory: &impl ProcessMemory,
) -> Option<Vec<PlacedFunction>> {
    let field = |offset: u8| layout.field(code, offset.into(), memory);
    if field(layout.code.flags)? as u8 & 15 <= layout.code.baseline {
        return None;
    }
    let data = field(layout.code.deoptimization)?;
    let element = |array: u64, index: u64| layout.field(array, 16 + 8 * index, memory);
    let mut owner = element(data, layout.code.owner.into())?;
    if layout.code.is_wrapped {
        owner = layout.field(owner, 8, memory)?;
    }
    (owner == shared).then_some(())?;
    let offset = place.address.checked_sub(start_of(code, layout, memory)?)?;
    let table = bytes_of(field(layout.code.positions)?, layout, memory)?;
    if table.is_empty() && layout.code.has_translations {
        let found = translated(code, place, layout, memory).filter(|found| found.last() == Some(&shared))?;
        return Some(found.into_iter().map(|function| (function, None)).collect());
    }
    let mut next = positions::at(&table, offset)?;
    let (literals, calls) = (element(data, layout.code.literals.into())?, element(data, layout.code.inlined.into())?);
    let mut found = Vec::new();
    while next.call != 0 {
        // Outer calls come first.
        let at = 16 * u64::from(next.call - 1);
        let caller = SourcePosition::of(layout.field(calls, 16 + at, memory)?);
        let function = layout.field(calls, 24 + at, memory)? as u32;
        // Pointers may be weak.
        found.push((element(literals, function.into())? & !2, next.character));
        if caller.call >= next.call || found.len() > DEPTH {
            return None;
        }
        next = caller;
    }
    found.push((shared, next.character));
    Some(found)
}

/// Returns the functions at an address of code that has no positions, by the frames that it returns to if its
/// assumptions fail.
fn translated(code: u64, place: CodePlace, layout: &V8Layout, memory: &impl ProcessMemory) -> Option<Vec<u64>> {
    /// Indexes in the data for deoptimization: translations, and three words of each exit.
    const TRANSLATIONS: u64 = 0;
    const EXITS: u64 = 12;
    let field = |offset: u8| layout.field(code, offset.into(), memory);
    let element = |array: u64, index: u64| layout.field(array, 16 + 8 * index, memory);
    let (start, size) = (start_of(code, layout, memory)?, field(layout.code.size)? as u32);
    let at = start.checked_add(size.into())?;
    let mut head = [0; 16];
    memory.read(at, &mut head)?;
    let mut table = vec![0; translations::table_len(head)];
    if memory.read(at, &mut table).is_none() {
        // The end of the memory is nearer.
        table.truncate((PIECE - at % PIECE) as usize);
        memory.read(at, &mut table)?;
    }
    let exit = translations::exit(&table, place.address.checked_sub(start)?, place.is_sampled)?;
    let data = field(layout.code.deoptimization)?;
    let begin = number(element(data, EXITS + 3 * u64::from(exit) + 1)?)?;
    let bytes = bytes_of(element(data, TRANSLATIONS)?, layout, memory)?;
    let literals = element(data, layout.code.literals.into())?;
    let functions = translations::functions(&bytes, usize::try_from(begin).ok()?)?;
    functions.into_iter().rev().map(|function| Some(element(literals, function.into())? & !2)).collect()
}

/// Returns where the instructions of code begin.
fn start_of(code: u64, layout: &V8Layout, memory: &impl ProcessMemory) -> Option<u64> {
    match layout.code.has_instructions {
        true => code.checked_sub(1)?.checked_add(layout.code.start.into()),
        false => layout.field(code, layout.code.start.into(), memory),
    }
}

/// Finds the code that has an address: its instructions follow an object that points to it, or its own fields. The map
/// of all such objects of a process is the same: it is 0 until it is known.
fn find(address: u64, layout: &V8Layout, stream: &Cell<u64>, memory: &impl ProcessMemory) -> Option<u64> {
    let is_stream = |map: u64| match stream.get() {
        0 => {
            let kind = layout.field(map, layout.engine.instance_type.into(), memory);
            kind.is_some_and(|kind| kind as u16 == layout.types.stream)
        }
        known => map == known,
    };
    let last = address & !7;
    let mut page = last & !(PIECE - 1);
    let mut bytes = vec![0; PIECE as usize];
    while last - page < MOST_CODE {
        memory.read(page, &mut bytes)?;
        let words = bytes.as_chunks::<8>().0;
        for i in (0..words.len()).rev().filter(|i| page + 8 * *i as u64 <= last) {
            let map = u64::from_le_bytes(words[i]);
            if map & 3 != 1 || !is_stream(map) {
                continue;
            }
            let object = page + 8 * i as u64;
            let code = if layout.code.has_instructions { object + 1 } else { memory.word(object + 8)? };
            if layout.kind(code, memory) == Some(layout.types.code) {
                let start = start_of(code, layout, memory)?;
                let size = layout.field(code, layout.code.size.into(), memory)? as u32;
                stream.set(map);
                return (address.checked_sub(start)? < size.into()).then_some(code);
            }
        }
        page = page.checked_sub(PIECE)?;
    }
    None
}

/// Returns the bytes of an array of bytes.
fn bytes_of(array: u64, layout: &V8Layout, memory: &impl ProcessMemory) -> Option<Vec<u8>> {
    let len = number(layout.field(array, 8, memory)?).filter(|len| *len <= TABLE)?;
    let mut bytes = vec![0; len as usize];
    memory.read(array.checked_add(15)?, &mut bytes)?;
    Some(bytes)
}
