//! The rule of a row of `.eh_frame` or `.debug_frame`, if the program that walks stacks knows it.

use gimli::{
    CfaRule, Encoding, Expression, Operation, Register, RegisterRule, UnwindContextStorage, UnwindExpression,
    UnwindSection, UnwindTableRow,
};

use crate::kernel::walk::rule::{Caller, Cfa, Rule, Saved};
use crate::symbols::elf::section::Slice;

use super::{AARCH64, I386, Registers};

/// Bytes from the context in a 32-bit signal frame to its instruction pointer.
const CONTEXT_IP: i64 = 56;

/// Returns the rule of a row of a table: where the caller's registers are.
pub(super) fn rule<'a>(
    row: &UnwindTableRow<usize, impl UnwindContextStorage<usize>>,
    frames: &impl UnwindSection<Slice<'a>>,
    encoding: Encoding,
    machine: Registers,
) -> Rule {
    let read = |at: &UnwindExpression<usize>| Some(Operations::of(at.get(frames).ok()?, encoding));
    let caller = row.register(machine.ra);
    if caller == Some(RegisterRule::Undefined) {
        return Rule::End;
    }
    // Rules count each word as eight bytes.
    let (sp, fp) = (machine.sp, machine.fp);
    let bytes = |n: i64| n.saturating_mul(8 / machine.word);
    if let (true, Some(RegisterRule::Expression(at))) = (machine.word == I386.word, &caller) {
        // Only signal frames have it in another place than on top.
        let at = read(at).and_then(|said| said.above(sp)).and_then(|at| at.checked_sub(CONTEXT_IP));
        return at.map_or(Rule::Unsupported, |above| Rule::Signal(bytes(above)));
    }
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } if *register == sp => Some(Cfa::Sp(bytes(*offset))),
        CfaRule::RegisterAndOffset { register, offset } if *register == fp => Some(Cfa::Fp(bytes(*offset))),
        CfaRule::RegisterAndOffset { register, offset } => {
            machine.number(*register).map(|register| Cfa::Register(register, bytes(*offset)))
        }
        CfaRule::Expression(at) => match read(at) {
            Some(said) => match said.stub(machine) {
                Some(from) => return Rule::Stub(from),
                None => said.cfa(machine),
            },
            None => None,
        },
    };
    let at_itself = |at: &_| read(at).is_some_and(|said| said.above(fp) == Some(0));
    let saved = match row.register(fp) {
        Some(RegisterRule::Offset(at)) => Saved::At(bytes(at)),
        Some(RegisterRule::Expression(at)) if at_itself(&at) => Saved::AtItself,
        _ => Saved::Same,
    };
    combined(cfa, saved, caller.map_or(SavedPlace::Unset, |caller| SavedPlace::of(&caller)), machine)
}

/// The location of a register's value in the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SavedPlace {
    Unset,
    Undefined,
    Same,
    /// At CFA+n.
    At(i64),
    In(u16),
    Other,
}

impl SavedPlace {
    fn of(rule: &RegisterRule<usize>) -> Self {
        match rule {
            RegisterRule::Undefined => Self::Undefined,
            RegisterRule::SameValue => Self::Same,
            RegisterRule::Offset(n) => Self::At(*n),
            RegisterRule::Register(register) => Self::In(register.0),
            _ => Self::Other,
        }
    }
}

/// Returns the rule of these locations, if there is one.
pub(super) fn combined(cfa: Option<Cfa>, saved: Saved, caller: SavedPlace, machine: Registers) -> Rule {
    let (caller, saved) = match (machine.ra == AARCH64.ra, caller) {
        (false, SavedPlace::At(at)) if at == -machine.word => (Caller::OnTop, saved),
        (false, SavedPlace::In(register)) => match machine.number(Register(register)) {
            Some(register) => (Caller::In(register), saved),
            None => return Rule::Unsupported,
        },
        (true, SavedPlace::Unset | SavedPlace::Same) => (Caller::Link, saved),
        (true, SavedPlace::At(at)) => match saved {
            Saved::At(fp) if fp.checked_add(8) == Some(at) => (Caller::Beside, saved),
            Saved::Same => (Caller::Alone(at), saved),
            _ => return Rule::Unsupported,
        },
        _ => return Rule::Unsupported,
    };
    cfa.map_or(Rule::Unsupported, |cfa| Rule::Frame { cfa, saved, caller })
}

/// A known operation of an expression.
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

/// An expression's operations, up to a maximum number.
#[derive(Debug)]
struct Operations(Vec<Said>);

impl Operations {
    fn of(expression: Expression<Slice<'_>>, encoding: Encoding) -> Self {
        const MOST: usize = 10;
        let mut operations = expression.operations(encoding);
        let next = || operations.next().unwrap_or(Some(Operation::Nop));
        let said = std::iter::from_fn(next).take(MOST).map(|operation| match operation {
            Operation::RegisterOffset { register, offset, .. } => Said::Register(register, offset),
            Operation::Deref { size, space: false, .. } if size == encoding.address_size => Said::Memory,
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

    /// Returns from which instruction on a PLT stub has pushed a word.
    /// Linkers write one expression for all stubs: sp + 8 + ((pc & 15) >= N) * 8; with four-byte words, 4 instead of 8.
    fn stub(&self, machine: Registers) -> Option<u8> {
        use Said::{And, AtLeast, Number, Plus, Register as At, Shifted};
        let shift = u64::from(machine.word.trailing_zeros());
        match *self.0.as_slice() {
            [At(sp, word), At(pc, 0), Number(15), And, Number(from), AtLeast, Number(by), Shifted, Plus]
                if (sp, pc, word, by) == (machine.sp, machine.ra, machine.word, shift) =>
            {
                u8::try_from(from).ok()
            }
            _ => None,
        }
    }

    /// Returns the offset from a register, if the expression is only that.
    fn above(&self, register: Register) -> Option<i64> {
        match *self.0.as_slice() {
            [Said::Register(own, n)] if own == register => Some(n),
            _ => None,
        }
    }

    fn cfa(&self, machine: Registers) -> Option<Cfa> {
        use Said::{Memory, Number, Plus, PlusNumber, Register as At};
        let (register, n, m) = match *self.0.as_slice() {
            [At(register, n), Memory] => (register, n, 0),
            [At(register, n), Memory, PlusNumber(m)] | [At(register, n), Memory, Number(m), Plus] => (register, n, m),
            _ => return None,
        };
        let bytes = |n: i64| n.checked_mul(8 / machine.word);
        let (n, m) = (bytes(n)?, bytes(i64::try_from(m).ok()?)?);
        if register == machine.sp {
            return Some(Cfa::AtSp(n, m));
        }
        (register == machine.fp).then_some(Cfa::AtFp(n, m))
    }
}
