//! Reads the functions of a section with unwind tables and evaluates their instructions.

use std::hash::Hash;

use gimli::{
    BaseAddresses, EhFrame, FrameDescriptionEntry, Reader, Register, RegisterRule, Section, UnwindContext,
    UnwindContextStorage, UnwindSection, UnwindTableRow,
};

use super::rules::rule;
use super::usual::{self, Entry};
use super::{Found, Function, MAX_ROWS, NoRows, Registers};
use crate::kernel::walk::rule::Rule;
use crate::symbols::elf::bounds::each_function;
use crate::symbols::elf::section::Slice;

/// Typical bytes of `.eh_frame` for a row and for a function.
const ROW_BYTES: usize = 5;
const FUNCTION_BYTES: usize = 40;

/// Room for the registers that nearly all functions save. gimli's own storage, which is copied for each function, has
/// room for 192 of them.
#[derive(Debug, PartialEq, Eq)]
struct FewRegisters;

const FEW: usize = if cfg!(target_arch = "x86_64") { 8 } else { 16 };

impl UnwindContextStorage<usize> for FewRegisters {
    type Rules = [(Register, RegisterRule<usize>); FEW];
    type Stack = Box<[UnwindTableRow<usize, Self>; 4]>;
}

pub(super) struct TableReader<'b> {
    pub(super) bases: &'b BaseAddresses,
    pub(super) machine: Registers,
    /// The linked address that rows are relative to.
    pub(super) base: u64,
}

/// Contexts for gimli, created when first needed.
#[derive(Default)]
struct Contexts {
    few: Option<UnwindContext<usize, FewRegisters>>,
    many: Option<UnwindContext<usize>>,
}

impl TableReader<'_> {
    /// Adds the functions of `.eh_frame`.
    pub(super) fn read_eh_frame(&self, frames: &EhFrame<Slice<'_>>, found: &mut Found) -> Result<(), NoRows> {
        let (functions, rows) = (found.functions.len(), found.rows.len());
        // Not as much as a sparse file claims.
        let len = frames.reader().len().min(MAX_ROWS);
        found.rows.reserve(len / ROW_BYTES);
        found.functions.reserve(len / FUNCTION_BYTES);
        let mut contexts = Contexts::default();
        let is_read = usual::each_function(frames, self.bases, self.machine, |entry| match entry {
            Entry::Other(entry) => self.evaluate(&entry, frames, &mut contexts, found),
            Entry::Usual(usual) => {
                let Some((start, end)) = self.near(usual.start, usual.len) else { return Ok(()) };
                let first = found.rows.len();
                match usual.rows(start, end, self.machine, &mut found.rows) {
                    Some(()) => found.put(start, end, first),
                    None => {
                        found.rows.truncate(first);
                        let entry = usual.whole(frames, self.bases);
                        entry.map_or(Ok(()), |entry| self.evaluate(&entry, frames, &mut contexts, found))
                    }
                }
            }
        })?;
        if is_read {
            return Ok(());
        }
        found.functions.truncate(functions);
        found.rows.truncate(rows);
        self.read(frames, found)
    }

    /// Adds the functions of any section, as gimli reads them.
    pub(super) fn read<'a, S: UnwindSection<Slice<'a>>>(&self, frames: &S, found: &mut Found) -> Result<(), NoRows>
    where
        S::Offset: Hash + Eq,
    {
        let mut contexts = Contexts::default();
        each_function(frames, self.bases, |entry| self.evaluate(&entry, frames, &mut contexts, found))
    }

    /// Returns start and end of a function relative to the base.
    fn near(&self, start: u64, len: u64) -> Option<(u32, u32)> {
        let near = |address: u64| u32::try_from(address.checked_sub(self.base)?).ok();
        near(start).zip(start.checked_add(len).and_then(near)).filter(|(start, end)| start < end)
    }

    fn evaluate<'a, S: UnwindSection<Slice<'a>>>(
        &self,
        entry: &FrameDescriptionEntry<Slice<'a>>,
        frames: &S,
        contexts: &mut Contexts,
        found: &mut Found,
    ) -> Result<(), NoRows> {
        let Some((start, end)) = self.near(entry.initial_address(), entry.len()) else { return Ok(()) };
        let (first, rows) = (found.rows.len(), &mut found.rows);
        if entry.is_signal_trampoline() && self.machine.word == 8 {
            rows.push(Rule::Signal(0).from(start));
        } else {
            let few = contexts.few.get_or_insert_with(UnwindContext::new_in);
            let mut done = self.read_function((entry, frames), (start, end), few, rows);
            if matches!(done, Err(gimli::Error::TooManyRegisterRules)) {
                rows.truncate(first);
                let many = contexts.many.get_or_insert_with(UnwindContext::new);
                done = self.read_function((entry, frames), (start, end), many, rows);
            }
            if done.is_err() {
                rows.truncate(first);
                return Ok(());
            }
        }
        found.put(start, end, first)
    }

    fn read_function<'a, S: UnwindSection<Slice<'a>>, T: UnwindContextStorage<usize>>(
        &self,
        (entry, frames): (&FrameDescriptionEntry<Slice<'a>>, &S),
        (start, end): (u32, u32),
        context: &mut UnwindContext<usize, T>,
        rows: &mut Vec<u64>,
    ) -> gimli::Result<()> {
        let near = |address: u64| u32::try_from(address.checked_sub(self.base)?).ok();
        let mut table = entry.rows(frames, self.bases, context)?;
        while let Some(row) = table.next_row()? {
            let at = near(row.start_address()).filter(|at| (start..end).contains(at));
            rows.extend(at.map(|at| rule(row, frames, entry.cie().encoding(), self.machine).from(at)));
        }
        Ok(())
    }
}

impl Found {
    /// Adds a function whose rows, from `first` on, are the last ones.
    fn put(&mut self, start: u32, end: u32, first: usize) -> Result<(), NoRows> {
        self.functions.push(Function { start, end, rows: first..self.rows.len() });
        if self.rows.len() > MAX_ROWS { Err(NoRows::TooMany) } else { Ok(()) }
    }
}

/// Calls `each` with start and length of each function of `.eh_frame`.
pub(super) fn each_of_eh_frame<E>(
    frames: &EhFrame<Slice<'_>>,
    bases: &BaseAddresses,
    machine: Registers,
    mut each: impl FnMut(u64, u64) -> Result<(), E>,
) -> Result<(), E> {
    let is_read = usual::each_function(frames, bases, machine, |entry| match entry {
        Entry::Usual(usual) => each(usual.start, usual.len),
        Entry::Other(entry) => each(entry.initial_address(), entry.len()),
    })?;
    if is_read {
        return Ok(());
    }
    // Functions that come twice do not matter to the caller.
    each_function(frames, bases, |entry| each(entry.initial_address(), entry.len()))
}
