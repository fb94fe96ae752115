//! The lines of a program's functions, and their addresses. See DWARF 5, section 6.2.

use std::ops::Range;
use std::path::{Path, PathBuf};

use gimli::{FileEntry, LineProgramHeader, Unit, constants};

use super::dwarf::{DebugEntry, DebugInfo, DebugReader};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProbeLine {
    /// The line relative to the function's first line, as in perf probe.
    pub(crate) relative: u64,
    pub(crate) number: u64,
    /// The file's path at compile time.
    pub(crate) file: String,
    /// The linked address of its first instruction.
    pub(crate) address: u64,
}

impl DebugInfo {
    /// Returns the lines of a function, in order. Each has the first instruction of a statement.
    pub(crate) fn lines(&self, function: &str) -> Option<Vec<ProbeLine>> {
        let (unit, entry) = self.function(function)?;
        let code = self.code(&unit, &entry)?;
        let first = entry.attr_value(constants::DW_AT_decl_line).and_then(|v| v.udata_value()).unwrap_or(1);
        let program = unit.line_program.clone()?;
        let mut rows = program.rows();
        let mut lines: Vec<ProbeLine> = Vec::new();
        while let Ok(Some((header, row))) = rows.next_row() {
            let inside = code.contains(&row.address()) && row.is_stmt() && !row.end_sequence();
            let Some(number) = row.line().map(std::num::NonZero::get).filter(|n| inside && *n >= first) else {
                continue;
            };
            if lines.iter().any(|line| line.number == number) {
                continue;
            }
            let file = row.file(header).map(|file| self.path(&unit, header, file)).unwrap_or_default();
            let file = file.display().to_string();
            lines.push(ProbeLine { relative: number - first, number, file, address: row.address() });
        }
        lines.sort_by_key(|line| line.number);
        Some(lines)
    }

    /// Returns the code range of a function, if it is contiguous.
    fn code(&self, unit: &Unit<DebugReader>, entry: &DebugEntry) -> Option<Range<u64>> {
        let low = match entry.attr_value(constants::DW_AT_low_pc)? {
            gimli::AttributeValue::Addr(address) => address,
            other => self.dwarf.attr_address(unit, other).ok()??,
        };
        let high = match entry.attr_value(constants::DW_AT_high_pc)? {
            gimli::AttributeValue::Addr(address) => address,
            other => low.checked_add(other.udata_value()?)?,
        };
        Some(low..high)
    }

    fn path(
        &self,
        unit: &Unit<DebugReader>,
        header: &LineProgramHeader<DebugReader>,
        file: &FileEntry<DebugReader>,
    ) -> PathBuf {
        let text = |value| self.dwarf.attr_string(unit, value).ok().map(|s| String::from_utf8_lossy(&s).into_owned());
        let above = unit.comp_dir.as_ref().map(|dir| String::from_utf8_lossy(dir).into_owned());
        let folder = file.directory(header).and_then(text);
        above.into_iter().chain(folder).chain(text(file.path_name())).collect()
    }

    /// Returns the function with the first code of a line, and the relative line. Files match by the end of the path.
    pub(crate) fn function_at(&self, source: &str, line: u64) -> Option<(String, u64)> {
        self.units().find_map(|unit| {
            let mut rows = unit.line_program.clone()?.rows();
            let mut address = None;
            while let Ok(Some((header, row))) = rows.next_row() {
                let is_line = row.is_stmt() && !row.end_sequence() && row.line().is_some_and(|own| own.get() == line);
                let is_source = |file| self.path(&unit, header, file).ends_with(Path::new(source));
                if is_line && row.file(header).is_some_and(is_source) {
                    address = Some(address.map_or(row.address(), |first: u64| first.min(row.address())));
                }
            }
            let address = address?;
            let mut entries = unit.entries();
            while let Ok(Some(entry)) = entries.next_dfs() {
                let is_function = entry.tag() == constants::DW_TAG_subprogram;
                if !is_function || !self.code(&unit, entry).is_some_and(|code| code.contains(&address)) {
                    continue;
                }
                let name = [constants::DW_AT_linkage_name, constants::DW_AT_name];
                let name = name.iter().find_map(|at| self.text(&unit, entry, *at))?;
                let first = entry.attr_value(constants::DW_AT_decl_line).and_then(|v| v.udata_value()).unwrap_or(1);
                return Some((name, line.checked_sub(first)?));
            }
            None
        })
    }

    /// Returns the address of a function's line; the error lists the lines with code.
    pub(crate) fn address_of(&self, function: &str, relative: u64) -> Result<u64, String> {
        let lines = self.lines(function).ok_or_else(|| format!("the lines of {function} are unknown"))?;
        lines.iter().find(|line| line.relative == relative).map(|line| line.address).ok_or_else(|| {
            let known: Vec<String> = lines.iter().map(|line| line.relative.to_string()).collect();
            format!("line {relative} of {function} has no code; lines with code: {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_function_and_their_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bin/probed.so");
        let info = DebugInfo::open(path.as_ref()).expect("debug information");
        let lines = info.lines("send_message").expect("known");
        assert!(
            lines.iter().any(|line| line.relative == 2 && line.number == 8 && line.file.ends_with("/probed.c")),
            "{lines:?}"
        );
        assert!(info.address_of("send_message", 2).expect("code") > 0);
        assert!(info.address_of("send_message", 77).expect_err("none").contains("lines with code: "));
        assert!(info.lines("nobody").is_none());
        assert_eq!(info.function_at("probed.c", 8), Some(("send_message".to_owned(), 2)));
        assert_eq!((info.function_at("robed.c", 8), info.function_at("probed.c", 7777)), (None, None));
    }
}
