//! Estimates the memory of a file's parsed DWARF: units, abbreviations, ranges and lines of a few bytes take hundreds.

use std::collections::BTreeSet;

use gimli::{AbbreviationsCacheStrategy, Dwarf, EndianSlice, Reader, RunTimeEndian, Section, SectionId, Unit};

use crate::perfdata::unpack::{UnpackBudget, UnpackError};

/// Unused sections; they are not decompressed.
pub(crate) const UNREAD: [SectionId; 4] =
    [SectionId::DebugLocLists, SectionId::DebugMacinfo, SectionId::DebugMacro, SectionId::DebugNames];

/// Bytes of DWARF items in memory, including the spare capacity of vectors.
/// The items are a unit, an abbreviation and one of its attributes, a range, a line and a file of the line table.
const UNIT: u64 = 1024;
const ABBREVIATION: u64 = 192;
const ATTRIBUTE: u64 = 32;
const RANGE: u64 = 64;
const LINE: u64 = 48;
const FILE: u64 = 192;
/// Bytes that a unit's functions may take for each byte of the unit.
const FUNCTIONS: u64 = 48;
/// The attribute form whose value is in the abbreviation (DWARF 5, 7.5.3).
const IMPLICIT_CONST: u64 = 0x21;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// Charges the budget for what is held as soon as a file is opened. Rejects units that would not fit once used, and
/// abbreviation tables that overlap: each is read to its end. Units that share abbreviations parse them once.
pub(crate) fn charge(dwarf: &mut Dwarf<Slice<'_>>, purse: &mut UnpackBudget) -> Result<(), UnpackError> {
    all_abbreviations(dwarf, purse)?;
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    purse.take(".debug_aranges", 2 * dwarf.debug_aranges.reader().len() as u64)?;
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        purse.take(".debug_info", UNIT)?;
        let size = header.length_including_self() as u64;
        let Ok(unit) = dwarf.unit(header) else { continue };
        let mut has_ranges = false;
        let mut ranges = dwarf.unit_ranges(&unit).ok();
        while let Some(Ok(Some(_))) = ranges.as_mut().map(gimli::RangeIter::next) {
            purse.take(".debug_ranges", RANGE)?;
            has_ranges = true;
        }
        lines(&unit, has_ranges, purse)?;
        if size.saturating_mul(FUNCTIONS) > purse.left() as u64 {
            for_a_moment(purse, |purse| functions(&unit, purse))?;
        }
    }
    Ok(())
}

/// Checks that memory needed later fits the budget, without charging it.
fn for_a_moment(
    purse: &mut UnpackBudget,
    take: impl FnOnce(&mut UnpackBudget) -> Result<(), UnpackError>,
) -> Result<(), UnpackError> {
    let before = purse.taken();
    take(purse)?;
    purse.give_back((purse.taken() - before) as u64);
    Ok(())
}

/// Accounts for a unit's lines. They are parsed when the unit is used, or at once if only they tell where its code is.
fn lines(unit: &Unit<Slice<'_>>, has_ranges: bool, purse: &mut UnpackBudget) -> Result<(), UnpackError> {
    let Some(program) = &unit.line_program else { return Ok(()) };
    let header = program.header();
    let names = header.file_names().len() + header.include_directories().len();
    purse.take(".debug_line", names as u64 * FILE)?;
    let take = |purse: &mut UnpackBudget| {
        let mut rows = program.clone().rows();
        while let Ok(Some(_)) = rows.next_row() {
            purse.take(".debug_line", LINE)?;
        }
        Ok(())
    };
    if !has_ranges {
        return take(purse);
    }
    // A line takes at least one byte.
    let most = (header.raw_program_buf().len() as u64).saturating_mul(LINE);
    if most > purse.left() as u64 { for_a_moment(purse, take) } else { Ok(()) }
}

fn functions(unit: &Unit<Slice<'_>>, purse: &mut UnpackBudget) -> Result<(), UnpackError> {
    let mut entries = unit.entries();
    while let Ok(Some(entry)) = entries.next_dfs() {
        if matches!(entry.tag(), gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine) {
            purse.take(".debug_info", FUNCTIONS + RANGE)?;
        }
    }
    Ok(())
}

fn all_abbreviations(dwarf: &Dwarf<Slice<'_>>, purse: &mut UnpackBudget) -> Result<(), UnpackError> {
    let mut tables = BTreeSet::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        for_a_moment(purse, |purse| purse.take(".debug_info", UNIT * (tables.len() as u64 + 1)))?;
        tables.insert(header.debug_abbrev_offset().0);
    }
    let all = dwarf.debug_abbrev.reader();
    let mut behind = 0;
    for at in tables {
        let mut table = *all;
        if at < behind || table.skip(at).is_err() {
            let why = "its abbreviation tables overlap".to_owned();
            return Err(UnpackError::Damaged { what: ".debug_abbrev".to_owned(), why });
        }
        while let Some(attributes) = abbreviation(&mut table) {
            purse.take(".debug_abbrev", ABBREVIATION + attributes * ATTRIBUTE)?;
        }
        behind = all.len() - table.len();
    }
    Ok(())
}

/// Skips an abbreviation. Returns its number of attributes, or `None` at the end of the table.
fn abbreviation(table: &mut Slice<'_>) -> Option<u64> {
    if table.read_uleb128().ok()? == 0 {
        return None;
    }
    table.skip_leb128().ok()?;
    table.read_u8().ok()?;
    let mut attributes = 0;
    loop {
        let (name, form) = (table.read_uleb128().ok()?, table.read_uleb128().ok()?);
        if form == IMPLICIT_CONST {
            table.skip_leb128().ok()?;
        }
        if (name, form) == (0, 0) {
            return Some(attributes);
        }
        attributes += 1;
    }
}
