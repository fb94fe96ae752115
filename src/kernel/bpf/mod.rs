//! BPF programs that decide whether an event's sample is taken (bpf(2)). They are loaded from instructions generated in
//! this process. Their parameters are in a mapped array, so that changing them is a plain store.

pub(crate) mod alternating_maps;
pub mod btf;
pub(crate) mod calls;
pub(crate) mod object;
pub(crate) mod strings;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use calls::{BpfCode, CALL, EXIT, LD_MAP, LoadError, MOV_K, MOV_X, MappedValue, ProgramType, op};

pub(crate) const MAX_CONSTANTS: usize = 255;
/// Bytes of a bank. Programs read one of two banks, so that a change is seen whole or not at all.
pub(crate) const BANK: usize = 8 * (MAX_CONSTANTS + 1);
/// The offset of the banks, after the number of the active one.
pub(crate) const BANKS_AT: usize = 8;
const VALUE_SIZE: usize = 4096 * 2;

/// A program that is not loaded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterProgram {
    /// Instructions in the kernel's encoding: opcode, registers, offset, immediate.
    pub(crate) instructions: Vec<u64>,
    /// The index of the two instructions that load the address of the parameters.
    pub(crate) map_at: usize,
    pub(crate) constants: Vec<u64>,
}

/// A program in the kernel.
#[derive(Debug)]
pub struct LoadedProgram {
    fd: OwnedFd,
    parameters: MappedValue,
}

/// The helper that jumps to another program (bpf-helpers(7)).
const TAIL_CALL: i32 = 12;

/// The last instructions of every program: return 1.
pub(crate) const YES: [u64; 2] = [op(MOV_K, 0, 0, 0, 1), op(EXIT, 0, 0, 0, 0)];

impl LoadedProgram {
    /// Loads a program (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN). With `next`, an accepted sample jumps to the first
    /// program of that program array. r6 holds the context.
    pub(crate) fn new(program: &FilterProgram, next: Option<BorrowedFd<'_>>) -> Result<Self, LoadError> {
        let parameters = MappedValue::new(VALUE_SIZE)?;
        let mut code = program.instructions.clone();
        let fd = parameters.fd().as_raw_fd() as u64;
        match code.get_mut(program.map_at) {
            Some(half) => *half = *half & 0xffff_ffff | fd << 32,
            None => return Err(Errno::INVAL.into()),
        }
        if let (Some(next), true) = (next, code.ends_with(&YES)) {
            code.truncate(code.len() - YES.len());
            // The call returns if the array is empty.
            code.extend([op(MOV_X, 1, 6, 0, 0), op(LD_MAP, 2, 0, 0, next.as_raw_fd()), 0, op(MOV_K, 3, 0, 0, 0)]);
            code.push(op(CALL, 0, 0, 0, TAIL_CALL));
            code.extend(YES);
        }
        let fd = calls::load(&BpfCode {
            runs: ProgramType::Sample,
            instructions: &code,
            licence: c"GPL",
            types: None,
            caller: None,
        })?;
        let loaded = Self { fd, parameters };
        loaded.store(&program.constants);
        Ok(loaded)
    }

    /// Replaces the parameters from the next sample on: fills the inactive bank, then activates it.
    pub(crate) fn store(&self, constants: &[u64]) {
        let word = |at: usize| self.parameters.word(at / 8);
        let next = word(0).load(Ordering::Relaxed) & 1 ^ 1;
        let bank = BANKS_AT + next as usize * BANK;
        for (i, constant) in constants.iter().take(MAX_CONSTANTS).enumerate() {
            word(bank + 8 * i).store(*constant, Ordering::Relaxed);
        }
        word(0).store(next, Ordering::Release);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
