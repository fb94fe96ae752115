//! Code of Go without a frame, by the table of functions of a Go program.

use super::{Found, MAX_ROWS};
use crate::kernel::walk::rule::{Caller, Cfa, Rule, Saved};
use crate::symbols::bytes::Bytes;
use crate::symbols::elf::go_table::{GoFrame, GoTable, SECTIONS};
use crate::symbols::elf::program::{ElfProgram, Machine};

pub(super) fn is_go(program: &ElfProgram<'_>) -> bool {
    SECTIONS.iter().any(|name| program.section(name).is_some())
}

/// Returns the table of functions of a Go program, if rows are built from it.
pub(super) fn table(program: &ElfProgram<'_>, bytes: &Bytes) -> Option<GoTable> {
    let elf = program.elf.as_ref().filter(|_| program.machine == Machine::X86_64 && is_go(program))?;
    GoTable::of(elf, bytes)
}

/// Adds the code of Go that has no frame: the start and the end of functions, and whole functions that call no others.
/// There the frame pointer is the caller's, and leads to the caller's caller. Also adds the functions that begin a stack,
/// because frames below them are not Go's, and the one that calls C on another stack. Other code of Go stays a gap.
pub(super) fn add(table: &GoTable, base: u64, found: &mut Found) {
    let on_top = Rule::Frame { cfa: Cfa::Sp(8), saved: Saved::Same, caller: Caller::OnTop };
    let mut rules = Vec::new();
    table.each_function(|start, end, parts| {
        rules.clear();
        for (from, frame) in parts {
            let rule = match frame {
                GoFrame::Pointed => Rule::Gap,
                GoFrame::OnTop => on_top,
                GoFrame::Signal => Rule::Signal(0),
                GoFrame::First => Rule::End,
                GoFrame::OtherStack(at) => Rule::GoCall((*at).into()),
            };
            rules.extend(from.checked_sub(base).map(|from| (rule, from)));
        }
        if let Some((start, end)) = start.checked_sub(base).zip(end.checked_sub(base))
            && found.rows.len() < MAX_ROWS
        {
            found.push(start, end, &rules);
        }
    });
}
