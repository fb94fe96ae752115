//! Reads `.eh_frame` as compilers write it for 64-bit machines: addresses relative to their own place, and instructions
//! that need no expressions. gimli takes several times as long for these, and reads everything else.

use gimli::{
    BaseAddresses, CallFrameInstruction as Instruction, CommonInformationEntry, EhFrame, Endianity,
    FrameDescriptionEntry, Reader, Section, UnwindSection, constants,
};
use rustc_hash::FxHashMap;

use super::Registers;
use super::rules::{SavedPlace, combined};
use crate::kernel::walk::rule::{Cfa, Rule, Saved};
use crate::symbols::elf::section::Slice;

/// Addresses of the section's rows are below this.
const FAR: u64 = 1 << 40;
/// States that a function remembers at a time; most remember one.
const REMEMBERED: usize = 4;

/// A function of the section.
pub(super) enum Entry<'a, 'h> {
    Usual(UsualFunction<'a, 'h>),
    Other(FrameDescriptionEntry<Slice<'a>>),
}

pub(super) struct UsualFunction<'a, 'h> {
    pub(super) start: u64,
    pub(super) len: u64,
    head: &'h Head,
    code: &'a [u8],
    offset: gimli::EhFrameOffset,
}

/// The part that functions have in common.
#[derive(Debug)]
struct Head {
    code_factor: u64,
    data_factor: i64,
    first: State,
}

/// The location of the CFA, and of the registers that the caller's frame needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    base: u16,
    offset: i64,
    fp: SavedPlace,
    caller: SavedPlace,
}

/// Calls `each` for every readable function of a section. `false` if gimli must read the whole section.
pub(super) fn each_function<'a, E>(
    frames: &EhFrame<Slice<'a>>,
    bases: &BaseAddresses,
    machine: Registers,
    mut each: impl FnMut(Entry<'a, '_>) -> Result<(), E>,
) -> Result<bool, E> {
    let section: &'a [u8] = frames.reader().slice();
    let (is_little, Some(address)) = (frames.reader().endian().is_little_endian(), bases.eh_frame.section) else {
        return Ok(false);
    };
    if !is_little || machine.word != 8 {
        return Ok(false);
    }
    let mut heads: FxHashMap<usize, Option<Head>> = FxHashMap::default();
    let mut at = 0;
    while let Some(len) = word(section, at) {
        let content = at + 4;
        let Some(id) = word(section, content).filter(|_| len >= 4) else { return Ok(len == 0) };
        // Longer entries have 64-bit lengths.
        let next = content + len as usize;
        if next > section.len() || len >= 0xffff_fff0 {
            return Ok(false);
        }
        let offset = gimli::EhFrameOffset(at);
        if id == 0 {
            let Ok(cie) = frames.cie_from_offset(bases, offset) else { return Ok(false) };
            heads.insert(at, Head::of(&cie, frames, bases, machine));
        } else {
            let Some(head) = content.checked_sub(id as usize) else { return Ok(false) };
            let head = heads.get(&head).and_then(Option::as_ref);
            let usual = head.and_then(|head| UsualFunction::of(head, offset, &section[content + 4..next], address));
            match usual {
                Some(usual) => each(Entry::Usual(usual))?,
                None => {
                    let entry = frames.fde_from_offset(bases, offset, EhFrame::cie_from_offset);
                    entry.map_or(Ok(()), |entry| each(Entry::Other(entry)))?;
                }
            }
        }
        at = next;
    }
    Ok(at >= section.len())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Head {
    fn of<'a>(
        cie: &CommonInformationEntry<Slice<'a>>,
        frames: &EhFrame<Slice<'a>>,
        bases: &BaseAddresses,
        machine: Registers,
    ) -> Option<Self> {
        let encoding = cie.fde_address_encoding()?;
        let is_usual = encoding.application() == constants::DW_EH_PE_pcrel
            && encoding.format() == constants::DW_EH_PE_sdata4
            && !encoding.is_indirect();
        if !is_usual || cie.is_signal_trampoline() || cie.address_size() != 8 {
            return None;
        }
        let (code_factor, data_factor) = (cie.code_alignment_factor(), cie.data_alignment_factor());
        let mut first = None;
        let (mut fp, mut caller) = (SavedPlace::Unset, SavedPlace::Unset);
        let mut instructions = cie.instructions(frames, bases);
        while let Some(one) = instructions.next().ok()? {
            match one {
                Instruction::DefCfa { register, offset } => first = Some((register.0, offset as i64)),
                Instruction::Offset { register, factored_offset } => {
                    let at = SavedPlace::At((factored_offset as i64).wrapping_mul(data_factor));
                    if register == machine.fp {
                        fp = at;
                    } else if register == machine.ra {
                        caller = at;
                    }
                }
                Instruction::Nop => {}
                _ => return None,
            }
        }
        let (base, offset) = first?;
        Some(Self { code_factor, data_factor, first: State { base, offset, fp, caller } })
    }
}

impl<'a, 'h> UsualFunction<'a, 'h> {
    /// Reads the bytes after the reference to the head, of the entry at an offset of a section with this address.
    fn of(head: &'h Head, offset: gimli::EhFrameOffset, bytes: &'a [u8], section: u64) -> Option<Self> {
        let distance = word(bytes, 0)? as i32;
        let len = i64::from(word(bytes, 4)? as i32) as u64;
        let mut code = Code(bytes.get(8..)?);
        let augmentation = usize::try_from(code.number()?).ok()?;
        let code = code.0.get(augmentation..)?;
        let start = section.wrapping_add(offset.0 as u64 + 8).wrapping_add_signed(distance.into());
        Some(Self { start, len, head, code, offset })
    }

    /// Returns the function as gimli reads it.
    pub(super) fn whole(
        &self,
        frames: &EhFrame<Slice<'a>>,
        bases: &BaseAddresses,
    ) -> Option<FrameDescriptionEntry<Slice<'a>>> {
        frames.fde_from_offset(bases, self.offset, EhFrame::cie_from_offset).ok()
    }

    /// Adds the rows of the function, at its addresses relative to the base of rows. `None` if gimli must read it; then
    /// some rows may have been added.
    pub(super) fn rows(&self, start: u32, end: u32, machine: Registers, rows: &mut Vec<u64>) -> Option<()> {
        let first = self.head.first;
        let (mut state, mut at, mut code) = (first, u64::from(start), Code(self.code));
        let (mut remembered, mut depth) = ([first; REMEMBERED], 0);
        let mut last = None;
        let mut put = |state: &State, at: u64| {
            if last != Some(*state) && at < u64::from(end) {
                rows.push(state.rule(machine).from(at as u32));
                last = Some(*state);
            }
        };
        let factor = self.head.data_factor;
        while let Some(opcode) = code.byte() {
            let (high, low) = (opcode >> 6, u64::from(opcode & 0x3f));
            let advance = match (high, opcode) {
                (1, _) => low,
                (_, 0x02) => code.byte()?.into(),
                (_, 0x03) => u16::from_le_bytes(code.array()?).into(),
                (_, 0x04) => u32::from_le_bytes(code.array()?).into(),
                (2, _) => {
                    let n = code.number()? as i64;
                    state.set(low, SavedPlace::At(n.wrapping_mul(factor)), machine);
                    continue;
                }
                (3, _) => {
                    state.restore(low, &first, machine);
                    continue;
                }
                // DW_CFA_nop to DW_CFA_expression, in the order of their numbers (DWARF 5, section 7.24).
                (_, 0x00) => continue,
                (_, 0x05) => {
                    let (register, n) = (code.number()?, code.number()? as i64);
                    state.set(register, SavedPlace::At(n.wrapping_mul(factor)), machine);
                    continue;
                }
                (_, 0x06) => {
                    state.restore(code.number()?, &first, machine);
                    continue;
                }
                (_, 0x07) => {
                    state.set(code.number()?, SavedPlace::Undefined, machine);
                    continue;
                }
                (_, 0x08) => {
                    state.set(code.number()?, SavedPlace::Same, machine);
                    continue;
                }
                (_, 0x09) => {
                    let (register, other) = (code.number()?, u16::try_from(code.number()?).ok()?);
                    state.set(register, SavedPlace::In(other), machine);
                    continue;
                }
                (_, 0x0a) => {
                    *remembered.get_mut(depth)? = state;
                    depth += 1;
                    continue;
                }
                (_, 0x0b) => {
                    depth = depth.checked_sub(1)?;
                    state = remembered[depth];
                    continue;
                }
                (_, 0x0c) => {
                    state.base = u16::try_from(code.number()?).ok()?;
                    state.offset = code.number()? as i64;
                    continue;
                }
                (_, 0x0d) => {
                    state.base = u16::try_from(code.number()?).ok()?;
                    continue;
                }
                (_, 0x0e) => {
                    state.offset = code.number()? as i64;
                    continue;
                }
                (_, 0x10) => {
                    let register = code.number()?;
                    let len = usize::try_from(code.number()?).ok()?;
                    code.0 = code.0.get(len..)?;
                    State::is_irrelevant(register, machine).then_some(())?;
                    continue;
                }
                // DW_CFA_GNU_args_size
                (_, 0x2e) => {
                    code.number()?;
                    continue;
                }
                _ => return None,
            };
            put(&state, at);
            at = at.checked_add(advance.wrapping_mul(self.head.code_factor)).filter(|at| *at < FAR)?;
        }
        put(&state, at);
        Some(())
    }
}

impl State {
    fn set(&mut self, register: u64, place: SavedPlace, machine: Registers) {
        if register == u64::from(machine.fp.0) {
            self.fp = place;
        } else if register == u64::from(machine.ra.0) {
            self.caller = place;
        }
    }

    fn restore(&mut self, register: u64, first: &Self, machine: Registers) {
        if register == u64::from(machine.fp.0) {
            self.fp = first.fp;
        } else if register == u64::from(machine.ra.0) {
            self.caller = first.caller;
        }
    }

    fn is_irrelevant(register: u64, machine: Registers) -> bool {
        register != u64::from(machine.fp.0) && register != u64::from(machine.ra.0)
    }

    fn rule(&self, machine: Registers) -> Rule {
        if self.caller == SavedPlace::Undefined {
            return Rule::End;
        }
        let cfa = match self.base {
            base if base == machine.sp.0 => Some(Cfa::Sp(self.offset)),
            base if base == machine.fp.0 => Some(Cfa::Fp(self.offset)),
            base => u8::try_from(base).ok().map(|base| Cfa::Register(base, self.offset)),
        };
        let saved = match self.fp {
            SavedPlace::At(n) => Saved::At(n),
            _ => Saved::Same,
        };
        combined(cfa, saved, self.caller, machine)
    }
}

/// Instructions that are not read yet.
struct Code<'a>(&'a [u8]);

impl Code<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    /// Reads an unsigned LEB128 number (DWARF 5, section 7.6).
    fn number(&mut self) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(first.into());
        }
        let mut number = u64::from(first & 0x7f);
        for shift in (7..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}
