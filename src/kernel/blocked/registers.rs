//! The frame pointers of all threads, from a BPF program that the kernel runs for each of them. /proc shows only the stack
//! pointer and the program counter.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;

use rustc_hash::FxHashMap;
use rustix::io::Errno;

use crate::kernel::bpf::btf::{Btf, BtfError};
use crate::kernel::bpf::calls::{self, ADD_K, BpfCode, CALL, EXIT, LDX_DW, LoadError, MOV_K, MOV_X, ProgramType, op};

/// Helpers (bpf-helpers(7)): `bpf_seq_write` and `bpf_task_pt_regs`, the latter since Linux 5.15.
const SEQ_WRITE: i32 = 127;
const TASK_REGISTERS: i32 = 175;
/// Opcodes: a load of 4 bytes, a store of 8, and a jump if a register has a value.
const LDX_W: u64 = 0x61;
const STX_DW: u64 = 0x7b;
const JEQ_K: u64 = 0x15;
/// Offsets in `struct pt_regs` (arch/x86/include/uapi/asm/ptrace.h).
const BP_AT: i32 = 32;
const IP_AT: i32 = 128;
const SP_AT: i32 = 152;
/// Numbers in the output of a thread: thread number, program counter, stack pointer, frame pointer.
const NUMBERS: usize = 4;
const SIZE: i32 = 8 * NUMBERS as i32;

/// The state of a thread in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UserPlace {
    pub(crate) tid: i32,
    pub(crate) ip: u64,
    pub(crate) sp: u64,
}

/// Returns the frame pointer of each thread. Thread numbers are those of the first PID namespace.
pub(crate) fn frame_pointers() -> Result<FxHashMap<UserPlace, u64>, LoadError> {
    let unknown = |error: BtfError| LoadError { log: error.to_string(), errno: Errno::NOENT };
    let types = Btf::system().map_err(unknown)?;
    let code = program(types.offset("task_struct", &["pid"]).map_err(unknown)? as i32);
    let caller = types.function("bpf_iter_task");
    let code = BpfCode { runs: ProgramType::Iterator, instructions: &code, licence: c"GPL", types: None, caller };
    let program = calls::load(&code)?;
    let mut output = Vec::new();
    let read = File::from(calls::iterate(program.as_fd())?).read_to_end(&mut output);
    read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(parse(&output).collect())
}

/// Returns the program. The context of an iterator over tasks has the output and the task; the latter is null at the end
/// (`struct bpf_iter__task`).
fn program(tid_at: i32) -> [u64; 21] {
    [
        op(LDX_DW, 6, 1, 0, 0),
        op(LDX_DW, 7, 1, 8, 0),
        op(JEQ_K, 7, 0, 16, 0),
        op(LDX_DW, 6, 6, 0, 0),
        op(MOV_X, 1, 7, 0, 0),
        op(CALL, 0, 0, 0, TASK_REGISTERS),
        op(LDX_W, 1, 7, tid_at, 0),
        op(STX_DW, 10, 1, -SIZE, 0),
        op(LDX_DW, 1, 0, IP_AT, 0),
        op(STX_DW, 10, 1, 8 - SIZE, 0),
        op(LDX_DW, 1, 0, SP_AT, 0),
        op(STX_DW, 10, 1, 16 - SIZE, 0),
        op(LDX_DW, 1, 0, BP_AT, 0),
        op(STX_DW, 10, 1, 24 - SIZE, 0),
        op(MOV_X, 1, 6, 0, 0),
        op(MOV_X, 2, 10, 0, 0),
        op(ADD_K, 2, 0, 0, -SIZE),
        op(MOV_K, 3, 0, 0, SIZE),
        op(CALL, 0, 0, 0, SEQ_WRITE),
        op(MOV_K, 0, 0, 0, 0),
        op(EXIT, 0, 0, 0, 0),
    ]
}

fn parse(output: &[u8]) -> impl Iterator<Item = (UserPlace, u64)> {
    output.chunks_exact(SIZE as usize).map(|one| {
        let number = |i: usize| calls::word(one, 8 * i);
        (UserPlace { tid: number(0) as i32, ip: number(1), sp: number(2) }, number(3))
    })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_frame_pointer_of_a_sleeping_thread_is_on_its_stack() {
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || receive.recv().is_err());
        let own = std::process::id() as i32;
        let place = |tid: i32| {
            let line = crate::kernel::blocked::system_call(own, tid)?;
            let mut words = line.split_ascii_whitespace().rev();
            let mut word = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
            Some(UserPlace { tid, ip: word()?, sp: word()? })
        };
        let is_asleep = |tid: &i32| crate::kernel::blocked::one(own, *tid).is_some_and(|one| one.state == 'S');
        let sleepers = || crate::kernel::procfs::threads(own).into_iter().filter(is_asleep).filter_map(place);
        let place = std::iter::repeat_with(|| sleepers().next()).flatten().next().expect("asleep");
        let found = calls::or_skipped(frame_pointers());
        drop(send);
        assert!(thread.join().is_ok_and(|ended| ended));
        let Some(found) = found else { return };
        assert!(found.contains_key(&place), "{place:x?}: {found:x?}");
    }

    #[test]
    fn output_has_four_numbers_a_thread() {
        let output: Vec<u8> = [7u64, 8, 9, 10, 11].iter().flat_map(|number| number.to_ne_bytes()).collect();
        assert_eq!(parse(&output).collect::<Vec<_>>(), [(UserPlace { tid: 7, ip: 8, sp: 9 }, 10)]);
    }
}
