//! Rows of unwind tables for the program that walks stacks in the kernel: made once of a file's `.eh_frame`, or of its
//! `.debug_frame` (LSB Core, "Exception Frames"; DWARF 5, section 6.4).

mod bare;

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, Encoding, Expression, FrameDescriptionEntry, Operation, Register, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection, UnwindTableRow,
};
use object::{Architecture, Object, ObjectSection, ObjectSegment};
use thiserror::Error;

use super::bounds::{Section, Shape, Slice, bases, each_function};
use super::bytes::Bytes;
use super::elf::{self, ElfError};
use crate::kernel::walk::rule::{Caller, Cfa, Rule, Saved};

/// Files with more rows than these are refused: the largest that are known have a twelfth.
const MAX_ROWS: usize = 1 << 24;
/// Code begins at a multiple of this: so little between two functions is what fills it up.
const FILLING: u32 = 15;
/// A page, or a part of one: what mappings begin at is a multiple of it.
const PAGE: u64 = 1 << 12;

/// A file's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwindRows {
    /// In order of their addresses (see [`Rule`]), the last of them a gap.
    pub rows: Vec<u64>,
    /// The address as linked that those are counted from.
    pub(crate) base: u64,
    /// The section that they are made of.
    pub(crate) section: &'static str,
}

/// All that rows and their places depend on, to be hashed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contents<'a> {
    /// What the head of the file says of its machine.
    head: &'a [u8],
    /// Offset, size and address.
    segments: Vec<(u64, u64, u64)>,
    /// Where sections lie that pointers may be relative to.
    sections: Vec<Option<u64>>,
    table: &'a [u8],
    /// What tells of code without a table, where that is looked for.
    bare: Vec<&'a [u8]>,
}

/// The contents that a file's rows are made of; `None` where there is no table.
pub(crate) fn contents(bytes: &Bytes) -> Option<Contents<'_>> {
    let file = elf::parse(bytes).ok()?;
    let section = SECTIONS.iter().find_map(|name| Section::of(&file, name))?;
    let segments = file.segments().map(|segment| {
        let (offset, size) = segment.file_range();
        (offset, size, segment.address())
    });
    let address = |name| file.section_by_name(name).map(|section| section.address());
    let names = [".eh_frame", ".debug_frame", ".eh_frame_hdr", ".text", ".got", ".plt", ".iplt"];
    let head = bytes.get(..HEAD)?;
    let sections = names.into_iter().map(address).collect();
    let bare = match file.architecture() {
        Architecture::Aarch64 => bare::SECTIONS.iter().filter_map(|name| Section::of(&file, name)).collect(),
        _ => Vec::new(),
    };
    let bare = bare.iter().map(|section: &Section| section.bytes(bytes)).collect();
    Some(Contents { head, segments: segments.collect(), sections, table: section.bytes(bytes), bare })
}

/// The reason why a file has no rows.
#[derive(Debug, Error)]
pub enum NoRows {
    /// A file that is no ELF object, or a damaged one.
    #[error(transparent)]
    NotElf(#[from] ElfError),
    /// An architecture whose tables are not read.
    #[error("it is for another machine than x86-64 and AArch64")]
    Machine,
    /// A file without tables for unwinding, as of code with frame pointers.
    #[error("it has no .eh_frame and no .debug_frame")]
    NoTable,
    /// More than `MAX_ROWS` rows, the most that is taken of one file.
    #[error("its tables have more than {MAX_ROWS} rows")]
    TooMany,
}

/// Of these the first that a file has is read.
const SECTIONS: [&str; 2] = [".eh_frame", ".debug_frame"];
/// Bytes of a file's head that say which machine it is for: identification, type and machine.
const HEAD: usize = 20;

/// The registers that tables speak of, by their DWARF numbers.
#[derive(Clone, Copy, Debug)]
struct Machine {
    sp: Register,
    fp: Register,
    ra: Register,
}

const X86_64: Machine = Machine { sp: Register(7), fp: Register(6), ra: Register(16) };
const AARCH64: Machine = Machine { sp: Register(31), fp: Register(29), ra: Register(30) };

/// Makes a file's rows. An entry that cannot be read is left out: its code is a gap.
///
/// # Errors
/// Why there are none.
pub fn of(bytes: &Bytes) -> Result<UnwindRows, NoRows> {
    let file = elf::parse(bytes)?;
    let machine = match file.architecture() {
        Architecture::X86_64 if file.is_64() => X86_64,
        Architecture::Aarch64 => AARCH64,
        _ => return Err(NoRows::Machine),
    };
    let base = file.segments().map(|segment| segment.address()).min().unwrap_or(0) & !(PAGE - 1);
    let (bases, shape) = (bases(&file), Shape::of(&file));
    let mut found = Found::default();
    let section = SECTIONS.iter().find_map(|name| Some((*name, Section::of(&file, name)?)));
    let (name, is_read) = match section {
        Some((name, section)) if name == SECTIONS[0] => {
            (name, read(&section.eh_frames(bytes, shape), &bases, machine, base, &mut found))
        }
        Some((name, section)) => (name, read(&section.debug_frames(bytes, shape), &bases, machine, base, &mut found)),
        None => ("its code", Err(NoRows::NoTable)),
    };
    if machine.ra == AARCH64.ra {
        bare::add(&file, base, &mut found);
    }
    match is_read {
        Err(NoRows::NoTable) if !found.functions.is_empty() => {}
        read => read?,
    }
    found.functions.sort_by_key(|function| function.start);
    Ok(UnwindRows { rows: merged(&found.functions, &found.rows), base, section: name })
}

/// A function, and its place among the rows that were read.
#[derive(Clone, Debug)]
struct Function {
    start: u32,
    end: u32,
    rows: Range<usize>,
}

/// The functions of a file, and their rows.
#[derive(Debug, Default)]
struct Found {
    functions: Vec<Function>,
    rows: Vec<u64>,
}

impl Found {
    /// Adds a function with the rules that hold in it and where each begins.
    fn push(&mut self, start: u64, end: u64, rules: &[(Rule, u64)]) {
        let first = self.rows.len();
        let near = |address: u64| u32::try_from(address).ok();
        let Some((start, end)) = near(start).zip(near(end)).filter(|(start, end)| start < end) else { return };
        let within =
            |(rule, at): &(Rule, u64)| near(*at).filter(|at| (start..end).contains(at)).map(|at| rule.from(at));
        self.rows.extend(rules.iter().filter_map(within));
        self.functions.push(Function { start, end, rows: first..self.rows.len() });
    }
}

/// Reads all entries.
fn read<'a, S: UnwindSection<Slice<'a>>>(
    frames: &S,
    bases: &BaseAddresses,
    machine: Machine,
    base: u64,
    Found { functions, rows }: &mut Found,
) -> Result<(), NoRows>
where
    S::Offset: std::hash::Hash + Eq,
{
    let mut context = UnwindContext::new();
    each_function(frames, bases, |entry| {
        let near = |address: u64| u32::try_from(address.checked_sub(base)?).ok();
        let end = entry.initial_address().checked_add(entry.len()).and_then(near);
        let Some((start, end)) = near(entry.initial_address()).zip(end).filter(|(start, end)| start < end) else {
            return Ok(());
        };
        let first = rows.len();
        if entry.is_signal_trampoline() {
            rows.push(Rule::Signal.from(start));
        } else if each_row(&entry, frames, bases, &mut context, |row| {
            let at = near(row.start_address()).filter(|at| (start..end).contains(at));
            rows.extend(at.map(|at| rule(row, frames, entry.cie().encoding(), machine).from(at)));
        })
        .is_err()
        {
            rows.truncate(first);
            return Ok(());
        }
        functions.push(Function { start, end, rows: first..rows.len() });
        if rows.len() > MAX_ROWS { Err(NoRows::TooMany) } else { Ok(()) }
    })
}

fn each_row<'a, S: UnwindSection<Slice<'a>>>(
    entry: &FrameDescriptionEntry<Slice<'a>>,
    frames: &S,
    bases: &BaseAddresses,
    context: &mut UnwindContext<usize>,
    mut each: impl FnMut(&UnwindTableRow<usize>),
) -> gimli::Result<()> {
    let mut table = entry.rows(frames, bases, context)?;
    while let Some(row) = table.next_row()? {
        each(row);
    }
    Ok(())
}

/// One table of all functions: of two at one place the first counts; what is between two is a gap, unless it is but
/// filled up; equal rows that follow each other are one.
fn merged(functions: &[Function], rows: &[u64]) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::with_capacity(rows.len());
    let mut end = None;
    for function in functions {
        let free = end.unwrap_or(function.start);
        if function.start < free {
            continue;
        }
        if function.start - free > FILLING {
            all.push(Rule::Gap.from(free));
        }
        for row in &rows[function.rows.clone()] {
            if all.last().is_none_or(|last| last >> 32 != row >> 32) {
                all.push(*row);
            }
        }
        end = Some(function.end);
    }
    all.extend(end.map(|end| Rule::Gap.from(end)));
    all.shrink_to_fit();
    all
}

/// The rule of a row.
fn rule<'a>(
    row: &UnwindTableRow<usize>,
    frames: &impl UnwindSection<Slice<'a>>,
    encoding: Encoding,
    machine: Machine,
) -> Rule {
    let read = |at: &UnwindExpression<usize>| Some(Operations::of(at.get(frames).ok()?, encoding));
    let caller = row.register(machine.ra);
    if caller == Some(RegisterRule::Undefined) {
        return Rule::End;
    }
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } if *register == machine.sp => Some(Cfa::Sp(*offset)),
        CfaRule::RegisterAndOffset { register, offset } if *register == machine.fp => Some(Cfa::Fp(*offset)),
        CfaRule::RegisterAndOffset { register, offset } => {
            u8::try_from(register.0).ok().map(|register| Cfa::Register(register, *offset))
        }
        CfaRule::Expression(at) => match read(at) {
            Some(said) => match said.stub() {
                Some(from) => return Rule::Stub(from),
                None => said.cfa(machine),
            },
            None => None,
        },
    };
    let at_itself = |at: &_| read(at).is_some_and(|said| said.0 == [Said::Register(machine.fp, 0)]);
    let saved = match row.register(machine.fp) {
        Some(RegisterRule::Offset(at)) => Saved::At(at),
        Some(RegisterRule::Expression(at)) if at_itself(&at) => Saved::AtItself,
        _ => Saved::Same,
    };
    let (caller, saved) = match (machine.ra == AARCH64.ra, caller) {
        (false, Some(RegisterRule::Offset(-8))) => (Caller::OnTop, saved),
        (false, Some(RegisterRule::Register(register))) => match u8::try_from(register.0) {
            Ok(register) => (Caller::In(register), saved),
            Err(_) => return Rule::Unsupported,
        },
        (true, None | Some(RegisterRule::SameValue)) => (Caller::Link, saved),
        (true, Some(RegisterRule::Offset(at))) => match saved {
            Saved::At(fp) if fp.checked_add(8) == Some(at) => (Caller::Beside, saved),
            Saved::Same => (Caller::Alone(at), saved),
            _ => return Rule::Unsupported,
        },
        _ => return Rule::Unsupported,
    };
    cfa.map_or(Rule::Unsupported, |cfa| Rule::Frame { cfa, saved, caller })
}

/// An operation of an expression, of those that are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Register(Register, i64),
    Memory,
    Number(u64),
    Plus,
    PlusNumber(u64),
    And,
    AtLeast,
    Shifted,
    Other,
}

/// An expression's operations, no more than are looked for.
#[derive(Debug)]
struct Operations(Vec<Said>);

impl Operations {
    fn of(expression: Expression<Slice<'_>>, encoding: Encoding) -> Self {
        const MOST: usize = 10;
        let mut operations = expression.operations(encoding);
        let next = || operations.next().unwrap_or(Some(Operation::Nop));
        let said = std::iter::from_fn(next).take(MOST).map(|operation| match operation {
            Operation::RegisterOffset { register, offset, .. } => Said::Register(register, offset),
            Operation::Deref { size: 8, space: false, .. } => Said::Memory,
            Operation::UnsignedConstant { value } => Said::Number(value),
            Operation::PlusConstant { value } => Said::PlusNumber(value),
            Operation::Plus => Said::Plus,
            Operation::And => Said::And,
            Operation::Ge => Said::AtLeast,
            Operation::Shl => Said::Shifted,
            _ => Said::Other,
        });
        Self(said.collect())
    }

    /// From which instruction on a stub of the procedure linkage table has pushed a word: linkers write one expression
    /// for all, sp + 8 + ((pc & 15) >= N) * 8.
    fn stub(&self) -> Option<u8> {
        use Said::{And, AtLeast, Number, Plus, Register as At, Shifted};
        match *self.0.as_slice() {
            [At(sp, 8), At(pc, 0), Number(15), And, Number(from), AtLeast, Number(3), Shifted, Plus]
                if (sp, pc) == (X86_64.sp, X86_64.ra) =>
            {
                u8::try_from(from).ok()
            }
            _ => None,
        }
    }

    /// A CFA that lies in memory, and some more.
    fn cfa(&self, machine: Machine) -> Option<Cfa> {
        use Said::{Memory, Number, Plus, PlusNumber, Register as At};
        let (register, n, m) = match *self.0.as_slice() {
            [At(register, n), Memory] => (register, n, 0),
            [At(register, n), Memory, PlusNumber(m)] | [At(register, n), Memory, Number(m), Plus] => (register, n, m),
            _ => return None,
        };
        let m = i64::try_from(m).ok()?;
        if register == machine.sp {
            return Some(Cfa::AtSp(n, m));
        }
        (register == machine.fp).then_some(Cfa::AtFp(n, m))
    }
}

#[cfg(test)]
mod tests;
