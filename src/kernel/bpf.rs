//! BPF programs that decide whether an event's sample is taken: loaded from instructions made in this
//! process, their parameters in a mapped array, so that changing them is a store (bpf(2)).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::bpf_calls::{self, Code, LoadError, MappedValue, ProgramType};

/// Parameters that one program may have.
pub(crate) const MAX_CONSTANTS: usize = 255;
/// Bytes of a bank: programs read one of two, so that a change is seen whole or not at all.
pub(crate) const BANK: usize = 8 * (MAX_CONSTANTS + 1);
/// The offset of the banks, behind the number of the one that is read.
pub(crate) const BANKS_AT: usize = 8;
const VALUE_SIZE: usize = 4096 * 2;

/// A program that is not loaded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// As the kernel takes them: opcode, registers, offset, immediate.
    pub(crate) instructions: Vec<u64>,
    /// Where the two halves of the parameters' address begin.
    pub(crate) map_at: usize,
    pub(crate) constants: Vec<u64>,
}

/// A program in the kernel.
#[derive(Debug)]
pub struct LoadedProgram {
    fd: OwnedFd,
    parameters: Parameters,
}

// Instructions of what follows the verdict, as [`crate::kernel::bpf`]'s users make theirs.
const MOV_K: u64 = 0xb7;
const MOV_X: u64 = 0xbf;
const LD_MAP: u64 = 0x18 | 1 << 12;
const CALL: u64 = 0x85;
const TAIL_CALL: u64 = 12;

/// Instructions with which every program ends: return 1.
pub(crate) const YES: [u64; 2] = [MOV_K | 1 << 32, 0x95];

impl LoadedProgram {
    /// Loads a program (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN). Where it takes the sample, the program that an
    /// array of programs has first goes on in its place; the context is in r6.
    pub(crate) fn new(program: &Program, next: Option<BorrowedFd<'_>>) -> Result<Self, LoadError> {
        let parameters = Parameters::new()?;
        parameters.store(&program.constants);
        let mut code = program.instructions.clone();
        let fd = parameters.shared.fd().as_raw_fd() as u64;
        match code.get_mut(program.map_at) {
            Some(half) => *half = *half & 0xffff_ffff | fd << 32,
            None => return Err(Errno::INVAL.into()),
        }
        if let (Some(next), true) = (next, code.ends_with(&YES)) {
            code.truncate(code.len() - YES.len());
            let array = next.as_raw_fd() as u64;
            // An array that is empty has the call return.
            code.extend([MOV_X | 1 << 8 | 6 << 12, LD_MAP | 2 << 8 | array << 32, 0, MOV_K | 3 << 8]);
            code.push(CALL | TAIL_CALL << 32);
            code.extend(YES);
        }
        let fd =
            bpf_calls::load(&Code { runs: ProgramType::Sample, instructions: &code, licence: c"GPL", types: None })?;
        Ok(Self { fd, parameters })
    }

    /// Gives it other parameters, from the next sample on.
    pub(crate) fn store(&self, constants: &[u64]) {
        self.parameters.store(constants);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The mapped array.
#[derive(Debug)]
struct Parameters {
    shared: MappedValue,
}

impl Parameters {
    fn new() -> Result<Self, Errno> {
        Ok(Self { shared: MappedValue::new(VALUE_SIZE)? })
    }

    /// Fills the bank that is not read, then has it read.
    fn store(&self, constants: &[u64]) {
        let word = |at: usize| self.shared.word(at / 8);
        let next = word(0).load(Ordering::Relaxed) & 1 ^ 1;
        let bank = BANKS_AT + next as usize * BANK;
        for (i, constant) in constants.iter().take(MAX_CONSTANTS).enumerate() {
            word(bank + 8 * i).store(*constant, Ordering::Relaxed);
        }
        word(0).store(next, Ordering::Release);
    }
}
