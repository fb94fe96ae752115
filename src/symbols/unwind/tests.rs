//! Handmade stacks of a program with handmade tables. The words on the stack give the expected result.

use super::*;
use crate::session::Dsos;

/// Offset in the file, linked address and mapped address of the program's code.
const OFFSET: u64 = 0x1000;
const LINKED: u64 = 0x1_1000;
const MAPPED: u64 = 0x7000_0000_1000;
const SP: u64 = 0x7fff_0000;
/// The length of the code.
const TEXT: u64 = 0x100;

const RBP: u8 = 6;
const RSP: u8 = 7;
const X29: u8 = 29;
const X30: u8 = 30;
const X31: u8 = 31;

/// DW_CFA_def_cfa.
fn cfa(register: u8, offset: u8) -> Vec<u8> {
    vec![0x0c, register, offset]
}

/// DW_CFA_offset: a register is saved this many words below the CFA.
fn saved(register: u8, words: u8) -> Vec<u8> {
    vec![0x80 | register, words]
}

/// DW_CFA_undefined.
fn undefined(register: u8) -> Vec<u8> {
    vec![0x07, register]
}

/// DW_CFA_advance_loc.
fn after(bytes: u8) -> Vec<u8> {
    vec![0x40 | bytes]
}

/// A function: its offset from the first function, its length, its rules.
type Function = (u64, u32, Vec<Vec<u8>>);

fn entry(mut body: Vec<u8>) -> Vec<u8> {
    body.resize(body.len().next_multiple_of(4), 0);
    let len = body.len() as u32;
    [len.to_le_bytes().to_vec(), body].concat()
}

/// An `.eh_frame` at an address, with pc-relative pointers.
fn tables(at: u64, ra: u8, functions: &[Function]) -> Vec<u8> {
    // CIE 0, version 1, "zR"; code in bytes, data in words below; DW_EH_PE_pcrel | DW_EH_PE_sdata4.
    let mut out = entry([&[0; 4][..], &[1, b'z', b'R', 0, 1, 0x78, ra, 1, 0x1b]].concat());
    for (start, len, rules) in functions {
        let id = out.len() as u32 + 4;
        let from = (LINKED + start).wrapping_sub(at + out.len() as u64 + 8) as u32;
        let head = [&id.to_le_bytes()[..], &from.to_le_bytes(), &len.to_le_bytes(), &[0]].concat();
        out.extend(entry([head, rules.concat()].concat()));
    }
    out.extend([0; 4]);
    out
}

/// An ELF file of one segment with `.text` and `.eh_frame` (elf(5)).
fn program(machine: u16, text: u64, frames: &[u8]) -> Vec<u8> {
    let names = b"\0.text\0.eh_frame\0.shstrtab\0";
    let (frames_at, names_at) = (OFFSET + text, OFFSET + text + frames.len() as u64);
    let table_at = names_at + names.len() as u64;
    let half = |n: u16| n.to_le_bytes().to_vec();
    let word = |n: u32| n.to_le_bytes().to_vec();
    let long = |n: u64| n.to_le_bytes().to_vec();
    let mut out = [&b"\x7fELF\x02\x01\x01"[..], &[0; 9]].concat();
    out.extend([half(3), half(machine), word(1), long(0), long(64), long(table_at), word(0)].concat());
    out.extend([half(64), half(56), half(1), half(64), half(4), half(3)].concat());
    let size = text + frames.len() as u64;
    out.extend([word(1), word(5), long(OFFSET), long(LINKED), long(LINKED), long(size), long(size), long(1)].concat());
    out.resize(frames_at as usize, 0);
    out.extend(frames);
    out.extend(names);
    let section = |name: u32, kind: u32, addr: u64, at: u64, size: u64| {
        [word(name), word(kind), long(2), long(addr), long(at), long(size), long(0), long(1), long(0)].concat()
    };
    out.extend([0; 64]);
    out.extend(section(1, 1, LINKED, OFFSET, text));
    out.extend(section(7, 1, LINKED + text, frames_at, frames.len() as u64));
    out.extend(section(17, 3, 0, names_at, names.len() as u64));
    out
}

struct Stage {
    file: tempfile::NamedTempFile,
    stacks: UnwindSpace,
}

impl Stage {
    fn new(machine: u16, ra: u8, functions: &[Function]) -> Self {
        let file = tempfile::NamedTempFile::new().expect("file");
        let program = program(machine, TEXT, &tables(LINKED + TEXT, ra, functions));
        std::fs::write(file.path(), program).expect("written");
        Self { file, stacks: UnwindSpace::new(SymbolOptions { live: false, ..SymbolOptions::live() }) }
    }

    /// Walks up a stack from registers (index, value). Addresses in the program are relative to its first function.
    fn walk(&mut self, registers: &[(u32, u64)], stack: &[u64], full: bool) -> Option<(Vec<u64>, ChainEnd)> {
        let mut registers = registers.to_vec();
        registers.sort_unstable();
        let bytes = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        let (regs, stack) = (bytes(&registers.iter().map(|r| r.1).collect::<Vec<_>>()), bytes(stack));
        let mask = registers.iter().fold(0, |mask, (place, _)| mask | 1 << place);
        let asked = stack.len() as u64 + u64::from(!full);
        let state = UserState { abi: 2, mask, regs: &regs, stack: &stack, asked };
        let mut dsos = Dsos::default();
        let dso = dsos.named(self.file.path().to_str().expect("a path"), DsoKind::File);
        let dso = dsos.all().iter().find(|d| *d.path == *dso.path).expect("a file");
        let find = |ip: u64| (MAPPED..MAPPED + 0x100).contains(&ip).then(|| (dso, ip - MAPPED + OFFSET));
        let mut out = Vec::new();
        let end = self.stacks.unwind(&state, &find, &mut out)?;
        Some((out.into_iter().map(|ip| ip.wrapping_sub(MAPPED)).collect(), end))
    }
}

/// Four functions with different rules.
/// One is unwound by the stack pointer; another one, too, with a different rule for its last byte, a call that does not
/// return; one by the frame pointer; and the last one is the first one of a thread.
fn x86_64() -> Stage {
    let ra = || saved(16, 1);
    let functions = [
        (0x00, 0x10, vec![cfa(RSP, 16), ra()]),
        (0x10, 0x10, vec![cfa(RSP, 8), ra(), after(15), cfa(RSP, 24), saved(RBP, 2)]),
        (0x20, 0x10, vec![cfa(RBP, 16), saved(RBP, 2), ra()]),
        (0x30, 0x10, vec![cfa(RSP, 8), undefined(16)]),
    ];
    Stage::new(62, 16, &functions)
}

fn x86_64_stack() -> Vec<u64> {
    let frame = SP + 8 * 6;
    // Of the first function; of the second, with the saved frame pointer; of the third.
    vec![7, MAPPED + 0x20, 7, frame, MAPPED + 0x28, 7, 0xbad, MAPPED + 0x38, 7]
}

#[test]
fn each_caller_by_the_rule_of_its_call() {
    let registers = [(x86::BP, 0xdead_0000), (x86::SP, SP), (x86::IP, MAPPED + 4), (0, 1), (3, 3), (16, 8)];
    let whole = x86_64().walk(&registers, &x86_64_stack(), true);
    assert_eq!(whole, Some((vec![0x04, 0x20, 0x28, 0x38], ChainEnd::Root)));
}

/// Tables of a large file take seconds. Until then, stacks are marked, and the first caller is not guessed.
#[test]
fn stacks_do_not_wait_for_the_tables_of_a_live_session() {
    let registers = [(x86::BP, 0xdead_0000), (x86::SP, SP), (x86::IP, MAPPED + 4)];
    let mut stage = x86_64();
    let (builder, jobs, done) = ModuleBuilder::new();
    stage.stacks.x86_64.builder = Some(builder);
    for _ in 0..2 {
        assert_eq!(stage.walk(&registers, &x86_64_stack(), true), Some((vec![0x04], ChainEnd::Pending)));
    }
    let job = jobs.try_recv().expect("ordered");
    assert!(jobs.is_empty(), "ordered once");
    let image = Image::open(&job.dso, &job.options).expect("a file");
    done.send((job.dso.id, tables_of(&image, 1 << 20))).expect("taken");
    let whole = Some((vec![0x04, 0x20, 0x28, 0x38], ChainEnd::Root));
    assert_eq!(stage.walk(&registers, &x86_64_stack(), true), whole);
    // The threads do the same.
    let mut stage = x86_64();
    stage.stacks.x86_64.builder = Some(ModuleBuilder::start().expect("threads"));
    while stage.walk(&registers, &x86_64_stack(), true) != whole {
        std::thread::yield_now();
    }
}

#[test]
fn what_was_not_copied_is_told_from_what_leads_nowhere() {
    let registers = [(x86::BP, 0), (x86::SP, SP), (x86::IP, MAPPED + 4)];
    let mut stack = x86_64_stack();
    stack.truncate(7);
    // The third function's return address is directly after the copy.
    assert_eq!(x86_64().walk(&registers, &stack, true), Some((vec![0x04, 0x20, 0x28], ChainEnd::Cut)));
    assert_eq!(x86_64().walk(&registers, &stack, false), Some((vec![0x04, 0x20, 0x28], ChainEnd::Lost)));
    // A frame pointer below the stack pointer is invalid, however much of the stack was copied.
    stack[3] = SP - 8;
    assert_eq!(x86_64().walk(&registers, &stack, true), Some((vec![0x04, 0x20, 0x28], ChainEnd::Lost)));
    assert_eq!(x86_64().walk(&registers[..2], &stack, true), None, "the sampled address is unknown");
}

#[test]
fn code_without_a_file_is_walked_by_frame_pointers() {
    let code = MAPPED + 0x5_0000;
    let chain = |n: u64| (1..=n).flat_map(|i| [SP + 16 * i, code + i]).collect::<Vec<u64>>();
    let registers = [(x86::BP, SP), (x86::SP, SP), (x86::IP, code)];
    let mut three = chain(3);
    // The first function of a thread does not have a caller.
    three[5] = 0;
    assert_eq!(x86_64().walk(&registers, &three, true), Some((vec![0x5_0000, 0x5_0001, 0x5_0002], ChainEnd::Root)));
    let (deep, end) = x86_64().walk(&registers, &chain(2000), true).expect("a walk");
    assert_eq!((deep.len(), end), (1024, ChainEnd::Cut));
}

#[test]
fn arm_goes_by_link_register_frame_and_stack_pointer() {
    let functions = [
        (0x00, 0x10, vec![cfa(X31, 0)]),
        (0x10, 0x10, vec![cfa(X29, 16), saved(X29, 2), saved(X30, 1)]),
        (0x20, 0x10, vec![cfa(X31, 32), saved(X29, 4), saved(X30, 3)]),
        (0x30, 0x10, vec![cfa(X31, 16), saved(X29, 2), saved(X30, 1)]),
    ];
    // A leaf that keeps its return address in a register; a frame two words up; one of four words; the first function.
    let stack = [7, 7, SP + 0x100, MAPPED + 0x28, SP + 0x200, MAPPED + 0x38, 7, 7, 0, 0];
    let registers = [(arm::FP, SP + 16), (arm::LR, MAPPED + 0x18), (arm::SP, SP), (arm::PC, MAPPED + 4), (3, 9)];
    let walked = Stage::new(183, X30, &functions).walk(&registers, &stack, true);
    assert_eq!(walked, Some((vec![0x04, 0x18, 0x28, 0x38], ChainEnd::Root)));
}

/// A chain of frame pointers misses the caller of a function without a frame; the link register holds it.
#[test]
fn the_link_register_has_the_caller_of_a_leaf() {
    let functions = [
        (0x00, 0x10, vec![cfa(X31, 0)]),
        (0x10, 0x10, vec![cfa(X29, 16), saved(X29, 2), saved(X30, 1)]),
        (0x20, 0x10, vec![cfa(X31, 0), after(4), cfa(X31, 16), saved(X29, 2), saved(X30, 1)]),
    ];
    let mut stage = Stage::new(183, X30, &functions);
    let mut dsos = Dsos::default();
    let dso = dsos.named(stage.file.path().to_str().expect("a path"), DsoKind::File);
    let find = |ip: u64| (MAPPED..MAPPED + 0x100).contains(&ip).then_some((&dso, ip.wrapping_sub(MAPPED) + OFFSET));
    let regs = (MAPPED + 0x18).to_le_bytes();
    let state = UserState { abi: 2, mask: 1 << arm::LR, regs: &regs, stack: &[], asked: 0 };
    let mut caller = |at: u64| stage.stacks.caller_of_leaf(&state, MAPPED + at, &find).map(|ip| ip - MAPPED);
    // A leaf; a function with a frame; one before it creates its frame, and after.
    assert_eq!([0x04, 0x18, 0x20, 0x28].map(&mut caller), [Some(0x18), None, Some(0x18), None]);
    assert_eq!(caller(0x5_0000), None, "code without a file has no tables");
}

#[test]
fn only_64_bits_have_tables() {
    let find = |_: u64| None;
    let state = UserState { abi: 1, mask: 1 << x86::IP, regs: &[0; 8], stack: &[], asked: 0 };
    let mut out = Vec::new();
    assert_eq!(UnwindSpace::new(SymbolOptions::live()).unwind(&state, &find, &mut out), Some(ChainEnd::Lost));
    assert_eq!(out, [0], "the sampled address is known");
}

/// Tables of other files do not wait until functions are found in code.
#[test]
fn files_with_much_code_outside_of_their_tables_are_slow() {
    const TEXT: u64 = 0x4_0000;
    let is_slow = |covered: u32| {
        let functions: Vec<Function> = (0..800).map(|n| (n * 300, covered, vec![cfa(RSP, 8)])).collect();
        let frames = tables(LINKED + TEXT, 16, &functions);
        assert!((TEXT / 40..TEXT / 10).contains(&(frames.len() as u64)), "{}", frames.len());
        rows::is_slow(&Bytes::from(program(62, TEXT, &frames)))
    };
    assert_eq!([300, 20].map(is_slow), [false, true]);
}
