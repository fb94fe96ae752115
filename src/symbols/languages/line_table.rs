//! The lines of a function's instructions.

use super::ProcessMemory;
use crate::kernel::walk::runtime::{RuntimeLayout, code_cookie};
use crate::record::interpreted::FunctionSource;

/// Where a function's source text is, and the lines of its instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionLines {
    pub(crate) source: FunctionSource,
    /// Where instructions begin, as walks count them modulo 2³², and bytes of one step.
    pub(super) start: u32,
    pub(super) step: u32,
    pub(super) table: LineTable,
}

impl FunctionLines {
    /// Returns the line of an instruction as a walk has it; `None` without a line.
    pub(crate) fn at(&self, at: u32) -> Option<u32> {
        // No instruction is at an odd byte: walks have these where an instruction is not known.
        let at = at.wrapping_sub(self.start).checked_mul(self.step).filter(|at| at.is_multiple_of(2))?;
        self.table.find(at)
    }

    /// Returns the lines of a function in a script, which begin at these bytes.
    #[cfg(test)]
    pub(crate) fn made(file: &str, lines: std::ops::RangeInclusive<u32>, starts: &[(u32, u32)]) -> Self {
        let table = LineTable { ranges: starts.to_vec(), end: u32::MAX };
        let (first, last) = (*lines.start(), *lines.end());
        let source = FunctionSource { file: file.into(), first, last, pid: 7, uid: 1000 };
        Self { source, start: 0, step: 1, table }
    }

    /// Returns about how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.source.file.len() + 8 * self.table.ranges.len() + 128
    }
}

/// The lines of ranges of bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LineTable {
    /// The start of each range, and its line; 0 for none. Sorted.
    ranges: Vec<(u32, u32)>,
    end: u32,
}

impl LineTable {
    /// Adds the range from the end of the last one.
    pub(super) fn push(&mut self, len: u32, line: Option<u32>) {
        let line = line.unwrap_or(0);
        if len > 0 && self.ranges.last().is_none_or(|(_, last)| *last != line) {
            self.ranges.push((self.end, line));
        }
        self.end = self.end.saturating_add(len);
    }

    fn find(&self, at: u32) -> Option<u32> {
        if at >= self.end {
            return None;
        }
        let after = self.ranges.partition_point(|(start, _)| *start <= at);
        self.ranges.get(after.checked_sub(1)?).map(|(_, line)| *line).filter(|line| *line > 0)
    }

    /// Returns the last line, if it has any.
    pub(super) fn last(&self) -> Option<u32> {
        self.ranges.iter().map(|(_, line)| *line).filter(|line| (1..u32::MAX).contains(line)).max()
    }
}

/// Returns the hash of what identifies the function at an address, as the kernel's walk computes it. `string` returns the
/// number of a string's bytes, and where they are.
pub(super) fn cookie(
    layout: &RuntimeLayout,
    code: u64,
    memory: &impl ProcessMemory,
    string: impl Fn(u64) -> Option<(u64, u64)>,
) -> Option<u32> {
    /// Characters of a name that identify it.
    const NAME: usize = 64;
    let mut object = vec![0; usize::from(layout.code_size)];
    memory.read(code, &mut object)?;
    let word = |at: u8| Some(u64::from_le_bytes(object.get(at.into()..)?.get(..8)?.try_into().ok()?));
    let half = |at: u8| Some(u32::from_le_bytes(object.get(at.into()..)?.get(..4)?.try_into().ok()?));
    let name = word(layout.name)?;
    let start_of_name = || {
        let (bytes, characters) = string(name)?;
        let mut start = [0; NAME];
        let len = usize::try_from(bytes).map_or(NAME, |bytes| bytes.min(NAME));
        memory.read(characters, &mut start[..len])?;
        Some((bytes, start))
    };
    let content = if name == 0 { None } else { Some(start_of_name()?) };
    let numbers = [half(layout.first_line)?, half(layout.flags)?, half(layout.arguments)?];
    Some(code_cookie(numbers, [name, word(layout.file)?], content))
}
