//! The known state of the stack before an instruction. Instructions change the state.

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use crate::kernel::walk::rule::{Caller, Cfa, Rule, Saved};

/// Bytes of a return address.
const WORD: i64 = 8;
/// The limit of a function's stack.
const MAX_DEPTH: i64 = 1 << 30;

/// The stack before an instruction. The CFA is the caller's stack pointer after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Bytes from the stack pointer to the CFA; `None` if a computed value was added.
    depth: Option<i64>,
    frame: FrameRegister,
    /// Bytes from the saved frame register of the caller to the CFA.
    saved: Option<i64>,
    /// Whether this is the program's entry point, which does not have a caller.
    is_root: bool,
}

/// The content of the frame register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameRegister {
    /// The caller's value.
    Callers,
    /// An address this many bytes below the CFA.
    Below(i64),
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Next(State),
    Jump(u64),
    Either(u64),
    /// The next instruction with the same state, if the call returns.
    Call,
    Return,
    /// Unknown.
    End,
}

impl State {
    pub(super) const ENTRY: Self =
        Self { depth: Some(WORD), frame: FrameRegister::Callers, saved: None, is_root: false };
    pub(super) const ROOT: Self = Self { is_root: true, ..Self::ENTRY };

    /// Returns whether two paths that meet have the same stack.
    /// The content of the frame register, once saved, matters only if the stack pointer is unknown.
    pub(super) fn agrees(self, other: Self) -> bool {
        let same_frame = self.frame == other.frame || self.saved.is_some() && self.depth.is_some();
        let same_stack = self.depth == other.depth && self.saved == other.saved && same_frame;
        self.is_root == other.is_root && (self.is_root || same_stack)
    }

    pub(super) fn rule(self) -> Rule {
        if self.is_root {
            return Rule::End;
        }
        let cfa = match (self.frame, self.depth) {
            // Functions of V8 remove their arguments when they return, which changes the depth after a call.
            (FrameRegister::Below(n), _) if self.saved == Some(n) => Cfa::Fp(n),
            (_, Some(depth)) => Cfa::Sp(depth),
            (FrameRegister::Below(n), None) => Cfa::Fp(n),
            _ => return Rule::Unsupported,
        };
        // Another path may have changed the register since.
        let saved = match (self.frame, self.saved) {
            (_, Some(below)) => Saved::At(-below),
            (FrameRegister::Callers, None) => Saved::Same,
            _ => return Rule::Unsupported,
        };
        Rule::Frame { cfa, saved, caller: Caller::OnTop }
    }

    fn may_return(self) -> bool {
        self.depth == Some(WORD) && self.frame == FrameRegister::Callers && !self.is_root
    }

    /// Returns the state, unless it is impossible in code that returns.
    /// Such code does not drop the return address, or lose the caller's frame register or both ways to the CFA.
    fn checked(self) -> Option<Self> {
        if self.is_root {
            return Some(self);
        }
        let is_deep = self.depth.is_none_or(|depth| (WORD..MAX_DEPTH).contains(&depth));
        let keeps_frame = self.frame == FrameRegister::Callers
            || self.saved.is_some_and(|saved| self.depth.is_none_or(|depth| saved <= depth));
        let has_cfa = self.depth.is_some() || matches!(self.frame, FrameRegister::Below(_));
        // Data below the stack pointer is overwritten.
        let saved = self.saved.filter(|saved| self.depth.is_none_or(|depth| *saved <= depth));
        (is_deep && keeps_frame && has_cfa).then_some(Self { saved, ..self })
    }

    /// Returns whether the frame register has the caller's value, not saved elsewhere.
    fn is_unsaved(self) -> bool {
        self.frame == FrameRegister::Callers && self.saved.is_none()
    }

    fn down(self, bytes: i64) -> Self {
        Self { depth: self.depth.and_then(|depth| depth.checked_add(bytes)), ..self }
    }

    /// Returns the bytes from an address (register and displacement) to the CFA.
    fn below(self, base: Register, displacement: i64) -> Option<i64> {
        let from = match base.full_register() {
            Register::RSP => self.depth,
            Register::RBP => match self.frame {
                FrameRegister::Below(n) => Some(n),
                _ => None,
            },
            _ => None,
        };
        from?.checked_sub(displacement)
    }
}

pub(super) struct Effects(InstructionInfoFactory);

impl Default for Effects {
    fn default() -> Self {
        Self(InstructionInfoFactory::new())
    }
}

impl Effects {
    /// Returns what follows an instruction. `None` if code that returns does not contain it.
    pub(super) fn of(&mut self, one: &Instruction, state: State) -> Option<Step> {
        let is_near = matches!(one.op0_kind(), OpKind::NearBranch64 | OpKind::NearBranch32 | OpKind::NearBranch16);
        match one.flow_control() {
            FlowControl::Return => state.may_return().then_some(Step::Return),
            FlowControl::UnconditionalBranch if is_near => Some(Step::Jump(one.near_branch_target())),
            FlowControl::ConditionalBranch if is_near => Some(Step::Either(one.near_branch_target())),
            FlowControl::IndirectBranch => Some(Step::End),
            FlowControl::Call if one.mnemonic() == Mnemonic::Call => Some(Step::Call),
            FlowControl::IndirectCall => Some(Step::Call),
            // A system call.
            FlowControl::Call => Some(Step::Next(state)),
            FlowControl::Interrupt if one.mnemonic() == Mnemonic::Int => Some(Step::Next(state)),
            FlowControl::Interrupt | FlowControl::Exception => Some(Step::End),
            FlowControl::Next if one.mnemonic() == Mnemonic::Hlt => Some(Step::End),
            FlowControl::Next => self.after(one, state)?.checked().map(Step::Next),
            _ => None,
        }
    }

    fn after(&mut self, one: &Instruction, state: State) -> Option<State> {
        let (first, second) = (one.op0_register(), one.op1_register());
        let is = |register: Register, which: Register| register.full_register() == which;
        let (sp, fp) = (Register::RSP, Register::RBP);
        match one.mnemonic() {
            Mnemonic::Push if is(first, fp) && one.op0_kind() == OpKind::Register => {
                let after = state.down(WORD);
                Some(State { saved: if state.is_unsaved() { after.depth } else { state.saved }, ..after })
            }
            Mnemonic::Pop if is(first, fp) => {
                let is_saved = state.saved.is_some() && state.saved == state.depth;
                Some(restored(state, is_saved).down(-WORD))
            }
            Mnemonic::Pop if is(first, sp) => None,
            Mnemonic::Leave => {
                let FrameRegister::Below(n) = state.frame else { return None };
                Some(restored(state, state.saved == Some(n)).with_depth(Some(n - WORD)))
            }
            Mnemonic::Enter => None,
            Mnemonic::Sub | Mnemonic::Add if is(first, sp) && one.op0_kind() == OpKind::Register => {
                let Some(bytes) = immediate(one) else { return Some(state.with_depth(None)) };
                Some(state.down(if one.mnemonic() == Mnemonic::Sub { bytes } else { bytes.checked_neg()? }))
            }
            Mnemonic::Lea if is(first, sp) => Some(state.with_depth(place(one, state))),
            Mnemonic::Mov if is(first, sp) && one.op1_kind() == OpKind::Register => {
                Some(state.with_depth(state.below(second, 0)))
            }
            Mnemonic::Lea if is(first, fp) => Some(pointed(state, place(one, state))),
            Mnemonic::Mov if is(first, fp) && one.op1_kind() == OpKind::Register => {
                Some(pointed(state, state.below(second, 0)))
            }
            Mnemonic::Mov if is(first, fp) && one.op1_kind() == OpKind::Memory => {
                let at = place(one, state);
                Some(restored(state, at.is_some() && at == state.saved))
            }
            Mnemonic::Mov if one.op0_kind() == OpKind::Memory && second == fp => {
                Some(State { saved: if state.is_unsaved() { place(one, state) } else { state.saved }, ..state })
            }
            _ => Some(self.otherwise(one, state)),
        }
    }

    /// Returns the state after an instruction without special handling of the stack.
    fn otherwise(&mut self, one: &Instruction, state: State) -> State {
        let moved = i64::from(one.stack_pointer_increment());
        let mut state = state.down(-moved);
        let writes = |access| {
            matches!(access, OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite)
        };
        for used in self.0.info(one).used_registers().iter().filter(|used| writes(used.access())) {
            match used.register().full_register() {
                Register::RSP if moved == 0 => state.depth = None,
                Register::RBP => state.frame = FrameRegister::Other,
                _ => {}
            }
        }
        state
    }
}

impl State {
    fn with_depth(self, depth: Option<i64>) -> Self {
        Self { depth, ..self }
    }
}

/// Returns the state after a pop of the frame register. It has the caller's value, or another one.
fn restored(state: State, is_callers: bool) -> State {
    let frame = if is_callers { FrameRegister::Callers } else { FrameRegister::Other };
    State { frame, ..state }
}

/// Returns the state after the frame register was set. It has a stack address, or another value.
fn pointed(state: State, below: Option<i64>) -> State {
    State { frame: below.map_or(FrameRegister::Other, FrameRegister::Below), ..state }
}

/// Returns the bytes from an instruction's memory operand to the CFA.
fn place(one: &Instruction, state: State) -> Option<i64> {
    let is_plain = one.memory_index() == Register::None && one.segment_prefix() == Register::None;
    state.below(one.memory_base(), one.memory_displacement64() as i64).filter(|_| is_plain)
}

fn immediate(one: &Instruction) -> Option<i64> {
    let is_number = matches!(
        one.op1_kind(),
        OpKind::Immediate8
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
            | OpKind::Immediate32
    );
    is_number.then(|| one.immediate(1) as i64)
}
