//! Code with known tables, analyzed without them. There are also small handmade pieces of code.

use super::*;
use crate::kernel::walk::rule::{Caller, Cfa, Saved};
use crate::symbols::elf;
use crate::symbols::trust::find_file::tests::map;
use crate::symbols::unwind::rows;

const BASE: u64 = 0x1000;

fn rules(code: &[u8], starts: &[u64]) -> Vec<(u64, Rule)> {
    let code = UncoveredCode { parts: vec![(BASE, code)], entry: 0 };
    let mut tracer = Tracer::new(&code, Vec::new());
    tracer.trace_all(0, &starts.iter().map(|at| BASE + at).collect::<Vec<u64>>());
    let mut all: Vec<_> = tracer.claimed.iter().map(|(at, claim)| (at - BASE, claim.state.rule())).collect();
    all.sort_unstable_by_key(|(at, _)| *at);
    all
}

fn sp(n: i64, saved: Saved) -> Rule {
    Rule::Frame { cfa: Cfa::Sp(n), saved, caller: Caller::OnTop }
}

fn plain(n: i64) -> Rule {
    sp(n, Saved::Same)
}

/// The rule after the frame register was saved, by the stack pointer.
fn saved(n: i64) -> Rule {
    sp(n, Saved::At(-16))
}

/// The rule of a function whose frame register has the address of the caller's value.
const FRAMED: Rule = Rule::Frame { cfa: Cfa::Fp(16), saved: Saved::At(-16), caller: Caller::OnTop };

/// Adds padding: code that is too short is not analyzed.
fn filled(code: &[u8]) -> Vec<u8> {
    [code, &[0x90; 16]].concat()
}

#[test]
fn pushes_and_room_are_counted() {
    // push rbx; sub rsp,0x20; call +0; add rsp,0x20; pop rbx; ret
    let code = [0x53, 0x48, 0x83, 0xec, 0x20, 0xe8, 0x20, 0, 0, 0, 0x48, 0x83, 0xc4, 0x20, 0x5b, 0xc3];
    let expected = [(0, plain(8)), (1, plain(16)), (5, plain(48)), (10, plain(48)), (14, plain(16)), (15, plain(8))];
    assert_eq!(rules(&filled(&code), &[0]), expected);
}

#[test]
fn a_frame_register_holds_where_the_stack_pointer_is_computed() {
    // push rbp; mov rbp,rsp; and rsp,-32; sub rsp,rax; leave; ret
    let code = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xe0, 0x48, 0x29, 0xc4, 0xc9, 0xc3];
    let expected = [(0, plain(8)), (1, saved(16)), (4, FRAMED), (8, FRAMED), (11, FRAMED), (12, plain(8))];
    assert_eq!(rules(&filled(&code), &[0]), expected);
}

/// Functions of V8 remove their arguments, which the code after a call cannot know.
#[test]
fn a_frame_register_holds_where_a_called_function_removes_its_arguments() {
    // push rbp; mov rbp,rsp; push rsi; push rdi; call +0x20; mov rsp,rbp; pop rbp; ret
    let code = [0x55, 0x48, 0x89, 0xe5, 0x56, 0x57, 0xe8, 0x20, 0, 0, 0, 0x48, 0x8b, 0xe5, 0x5d, 0xc3];
    let framed = [4, 5, 6, 11, 14].map(|at| (at, FRAMED));
    let expected = [&[(0, plain(8)), (1, saved(16))][..], &framed, &[(15, plain(8))]].concat();
    assert_eq!(rules(&filled(&code), &[0]), expected);
    // push rbp; sub rsp,16; lea rbp,[rsp+8]; call +0x20; add rsp,16; pop rbp; ret: not the address of the saved one.
    let code = [
        0x55, 0x48, 0x83, 0xec, 0x10, 0x48, 0x8d, 0x6c, 0x24, 8, 0xe8, 0x20, 0, 0, 0, 0x48, 0x83, 0xc4, 0x10, 0x5d,
        0xc3,
    ];
    let below = |at| (at, sp(32, Saved::At(-16)));
    let expected = [(0, plain(8)), (1, saved(16)), below(5), below(10), below(15), (19, saved(16)), (20, plain(8))];
    assert_eq!(rules(&filled(&code), &[0]), expected);
}

#[test]
fn a_function_that_returns_with_more_on_its_stack_is_not_believed() {
    // push rbx; ret
    assert!(rules(&filled(&[0x53, 0xc3]), &[0]).iter().all(|(at, _)| *at > 0));
    // mov rbp,rsi; ret: the caller's frame register is lost.
    assert!(rules(&filled(&[0x48, 0x89, 0xf5, 0xc3]), &[0]).iter().all(|(at, _)| *at == 3));
    // test eax,eax; je +1; push rbx; ret: two paths meet with different stacks.
    assert!(rules(&filled(&[0x85, 0xc0, 0x74, 0x01, 0x53, 0xc3]), &[0]).iter().all(|(at, _)| *at == 5));
}

/// The cases of a switch have the stack of its jump; the next function has its own.
#[test]
fn what_a_computed_jump_leads_to_has_the_stack_of_the_jump() {
    // push rbx; push rcx; jmp *rax | xor eax,eax; pop rcx; pop rbx; ret | xor eax,eax; ret
    let code = [0x53, 0x51, 0xff, 0xe0, 0x31, 0xc0, 0x59, 0x5b, 0xc3, 0x31, 0xc0, 0xc3];
    let expected = [
        (0, plain(8)),
        (1, plain(16)),
        (2, plain(24)),
        (4, plain(24)),
        (6, plain(24)),
        (7, plain(16)),
        (8, plain(8)),
        (9, plain(8)),
        (11, plain(8)),
    ];
    assert_eq!(rules(&filled(&code), &[0]), expected);
    // A case that joins the default case after a call.
    let code =
        [0x53, 0x51, 0x74, 0x09, 0xff, 0xe0, 0x31, 0xc0, 0xe8, 3, 0, 0, 0, 0x59, 0x5b, 0xc3, 0x31, 0xd2, 0xc3, 0x90];
    let found = rules(&filled(&code), &[0, 16]);
    assert!(found.contains(&(6, plain(24))) && found.contains(&(8, plain(24))), "{found:?}");
    // A case that never returns may belong to either state: it gets no rule.
    let code = [0x53, 0xff, 0xe0, 0x31, 0xc0, 0x0f, 0x0b];
    assert!(rules(&filled(&code), &[0]).iter().all(|(at, _)| *at < 3));
}

/// Once saved, the frame register may hold anything. Paths with different values can meet.
#[test]
fn paths_meet_where_one_of_them_has_used_the_frame_register() {
    // push rbp; test eax,eax; je +2; xor ebp,ebp; nop; pop rbp; ret
    let code = [0x55, 0x85, 0xc0, 0x74, 0x02, 0x31, 0xed, 0x90, 0x5d, 0xc3];
    let saved = [1, 3, 5, 7, 8].map(|at| (at, saved(16)));
    let expected = [&[(0, plain(8))][..], &saved, &[(9, plain(8))]].concat();
    assert_eq!(rules(&filled(&code), &[0]), expected);
}

/// qsort of musl passes a function on that only jumps to the comparison.
#[test]
fn a_function_whose_address_is_taken_may_be_one_jump() {
    // lea rcx,[rip+9]; ret | jmp *rdx
    let code = [&[0x48, 0x8d, 0x0d, 9, 0, 0, 0, 0xc3][..], &[0x90; 8], &[0xff, 0xe2]].concat();
    assert_eq!(rules(&filled(&code), &[0]), [(0, plain(8)), (7, plain(8)), (16, plain(8))]);
}

#[test]
fn nobody_called_the_first_function() {
    let code = filled(&[0x31, 0xed, 0x48, 0x89, 0xe7, 0xe8, 0, 0, 0, 0, 0xf4]);
    let all = UncoveredCode { parts: vec![(BASE, &code)], entry: BASE };
    let mut tracer = Tracer::new(&all, Vec::new());
    tracer.trace_all(BASE, &[]);
    assert!([0, 2, 5].iter().all(|at| tracer.claimed[&(BASE + at)].state.rule() == Rule::End));
}

/// Returns whether both rules find the same place. One may use the frame register.
fn same(ours: Rule, theirs: Rule) -> bool {
    let (Rule::Frame { cfa, saved, .. }, Rule::Frame { cfa: other, saved: other_saved, .. }) = (ours, theirs) else {
        return ours == theirs;
    };
    let is_one = std::mem::discriminant(&cfa) == std::mem::discriminant(&other);
    // Just before a function returns, some tables still name where the register was saved.
    (!is_one || cfa == other) && (saved == other_saved || saved == Saved::Same || other_saved == Saved::Same)
}

/// Returns the bytes of a file's code traced without tables. Also returns the bytes with a table, and the differences.
fn traced(path: &std::path::Path, with_symbols: bool) -> (u64, u64, Vec<(u64, Rule, Rule)>) {
    let bytes = map(path);
    let table = rows::of(&bytes).expect("rows");
    let program = rows::ElfProgram::of(&bytes).expect("elf");
    let elf = program.elf.as_ref().expect("sections");
    let symbols = elf::starts_of_functions(elf, &bytes, &|_| true);
    let code = rows::code(&program);
    let mut tracer = Tracer::new(&code, Vec::new());
    // A library's own tables do not mark its entry point as without a caller.
    let entry = if with_symbols { 0 } else { program.entry };
    tracer.trace_all(entry, if with_symbols { &symbols } else { &[] });
    let (mut found, mut differ) = (0, Vec::new());
    for (at, claim) in tracer.claimed.iter().filter(|(at, _)| !tracer.disputed.contains(at)) {
        match table.rule(*at) {
            Rule::Gap | Rule::Unsupported | Rule::Stub(_) | Rule::Signal(_) | Rule::End | Rule::GoCall(_) => {}
            theirs if same(claim.state.rule(), theirs) => found += u64::from(claim.len),
            theirs => differ.push((*at, claim.state.rule(), theirs)),
        }
    }
    let rows = table.rows.windows(2).filter(|pair| pair[0] >> 32 != 0);
    let all = rows.map(|pair| u64::from(pair[1] as u32 - pair[0] as u32)).sum();
    differ.sort_unstable_by_key(|(at, ..)| *at);
    (found, all, differ)
}

#[test]
fn code_says_what_its_tables_say() {
    for (path, with_symbols, least) in [("/lib64/ld-linux-x86-64.so.2", true, 40), ("/bin/dash", false, 50)] {
        let path = std::path::Path::new(path);
        if !path.exists() {
            continue;
        }
        let (found, all, differ) = traced(path, with_symbols);
        assert!(differ.is_empty(), "{path:?}: {differ:#x?}");
        assert!(found * 100 >= all * least, "{path:?}: {found} of {all} bytes");
    }
}
