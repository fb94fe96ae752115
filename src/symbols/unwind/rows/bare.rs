//! AArch64 code without tables whose callers are known anyway: PLT stubs, and the few functions of the vDSO.

use object::{Object, ObjectSection, ObjectSymbol};

use super::Found;
use crate::kernel::walk::rule::{Caller, Cfa, Rule, Saved};
use crate::symbols::elf::Elf;

pub(super) const SECTIONS: [&str; 4] = [".plt", ".iplt", ".dynsym", ".dynstr"];

/// The function that signal handlers return to. The instruction before it is included, because callers are looked up
/// there, and so is the one after it, where the system call is reported.
const TRAMPOLINE: &str = "__kernel_rt_sigreturn";
const TRAMPOLINE_BYTES: u64 = 8;
const INSTRUCTION: u64 = 4;

/// The link register holds the return address.
const LINKED: Rule = Rule::Frame { cfa: Cfa::Sp(0), saved: Saved::Same, caller: Caller::Link };

/// Adds such functions of a file, relative to a base address.
pub(super) fn add(file: &Elf<'_>, base: u64, found: &mut Found) {
    for name in &SECTIONS[..2] {
        let Some(section) = file.section_by_name(name) else { continue };
        if let (Some(start), Ok(code)) = (section.address().checked_sub(base), section.data()) {
            stubs(start, code, found);
        }
    }
    let exported = file.dynamic_symbols().filter_map(|symbol| {
        let section = file.section_by_index(symbol.section_index()?).ok()?;
        let bytes = if symbol.name() == Ok(TRAMPOLINE) { TRAMPOLINE_BYTES } else { symbol.size() };
        let code = section.data_range(symbol.address(), bytes).ok()??;
        Some(Exported { name: symbol.name().ok()?, start: symbol.address().checked_sub(base)?, code })
    });
    if file.dynamic_symbols().any(|symbol| symbol.name() == Ok(TRAMPOLINE)) {
        vdso(exported.collect(), found);
    }
}

/// Adds PLT stubs, which jump at once. The first one calls the resolver and pushes the link register before.
fn stubs(start: u64, code: &[u8], found: &mut Found) {
    /// stp x16, x30, [sp, #-16]!
    const PUSH: u32 = 0xa9bf_7bf0;
    const FIRST_BYTES: u64 = 32;
    let (words, _) = code.as_chunks::<4>();
    let pushed = words.iter().take(2).position(|word| u32::from_le_bytes(*word) == PUSH);
    let mut rows = vec![(LINKED, start)];
    if let Some(at) = pushed {
        let above = Rule::Frame { cfa: Cfa::Sp(16), saved: Saved::Same, caller: Caller::Alone(-8) };
        let behind = start.saturating_add(INSTRUCTION * (at as u64 + 1));
        rows.extend([(above, behind), (LINKED, start.saturating_add(FIRST_BYTES))]);
    }
    found.push(start, start.saturating_add(code.len() as u64), &rows);
}

#[derive(Debug)]
struct Exported<'a> {
    name: &'a str,
    start: u64,
    code: &'a [u8],
}

fn vdso(mut exported: Vec<Exported<'_>>, found: &mut Found) {
    exported.sort_by_key(|function| function.start);
    exported.dedup_by_key(|function| function.start);
    for Exported { name, start, code } in exported {
        let end = start.saturating_add(code.len() as u64);
        match name {
            TRAMPOLINE => {
                let start = start.saturating_sub(INSTRUCTION);
                found.push(start, end.saturating_add(INSTRUCTION), &[(Rule::Signal(0), start)]);
            }
            _ if keeps_the_stack(code) => found.push(start, end, &[(LINKED, start)]),
            // Padding before the next function could be taken for the end of the first one.
            _ => found.push(start, end, &[(Rule::Gap, start)]),
        }
    }
}

/// Returns whether code leaves the stack pointer and the link register unchanged. It does not push or reserve stack
/// space, which it would do before any call (Arm Architecture Reference Manual, C4.1).
fn keeps_the_stack(code: &[u8]) -> bool {
    let (words, _) = code.as_chunks::<4>();
    words.iter().all(|word| {
        let word = u32::from_le_bytes(*word);
        let to_sp = word & 0x1f == 31;
        let from_sp = word >> 5 & 0x1f == 31;
        // Add and subtract, immediate and extended; stores of one or two registers with write-back.
        let makes_room = to_sp && (word & 0x7f80_0000 == 0x5100_0000 || word & 0x7fe0_0000 == 0x4b20_0000);
        let pair = word & 0x3ac0_0000 == 0x2880_0000;
        let one = word & 0x3b20_0400 == 0x3800_0400;
        let calls = word >> 26 == 0b100101 || word & 0xffff_fc1f == 0xd63f_0000;
        !(makes_room || from_sp && (pair || one) || calls)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pushes_makes_room_or_calls_does_not_keep_the_stack() {
        for (word, keeps) in [
            (0xd503_233f, true),  // paciasp
            (0xf940_009f, true),  // ldr xzr, [x4]
            (0xa940_a86b, true),  // ldp x11, x10, [x3, #8]
            (0xa900_0026, true),  // stp x6, x0, [x1]
            (0x8b24_63e4, true),  // add x4, sp, x4
            (0xf100_041f, true),  // cmp x0, #1
            (0xeb03_001f, true),  // cmp x0, x3
            (0xf900_07e0, true),  // str x0, [sp, #8]
            (0xd65f_03c0, true),  // ret
            (0xd400_0001, true),  // svc #0
            (0xa9bf_7bfd, false), // stp x29, x30, [sp, #-16]!
            (0xf81f_0ffe, false), // str x30, [sp, #-16]!
            (0x6dbf_27e8, false), // stp d8, d9, [sp, #-16]!
            (0xfc1f_0fe8, false), // str d8, [sp, #-16]!
            (0xd100_83ff, false), // sub sp, sp, #32
            (0xd140_07ff, false), // sub sp, sp, #1, lsl #12
            (0xcb30_63ff, false), // sub sp, sp, x16
            (0x9400_0010, false), // bl
            (0xd63f_0040, false), // blr x2
        ] {
            let mut code = [0x1f, 0x20, 0x03, 0xd5, 0, 0, 0, 0];
            code[4..].copy_from_slice(&u32::to_le_bytes(word));
            assert_eq!(keeps_the_stack(&code), keeps, "{word:#x}");
        }
    }

    fn rows(found: &Found) -> (Vec<u64>, Vec<u32>) {
        (found.rows.clone(), found.functions.iter().map(|function| function.end).collect())
    }

    #[test]
    fn functions_of_the_vdso_have_a_row_each() {
        let (plain, pushes) = (0xd65f_03c0_u32.to_le_bytes(), 0xa9bf_7bfd_u32.to_le_bytes());
        let code = [plain, plain].concat();
        let one = |name, start, code| Exported { name, start, code };
        let all = vec![
            one("__kernel_b", 0x40, &pushes[..]),
            one("__kernel_a", 0x20, &code[..]),
            one(TRAMPOLINE, 0x80, &code[..]),
        ];
        let mut found = Found::default();
        vdso(all, &mut found);
        let expected = [LINKED.from(0x20), Rule::Gap.from(0x40), Rule::Signal(0).from(0x7c)];
        assert_eq!(rows(&found), (expected.to_vec(), vec![0x28, 0x44, 0x8c]));
    }

    #[test]
    fn stubs_jump_on_and_the_first_one_pushes() {
        let (nop, push) = (0xd503_201f_u32, 0xa9bf_7bf0_u32);
        let pushed = Rule::Frame { cfa: Cfa::Sp(16), saved: Saved::Same, caller: Caller::Alone(-8) };
        let of = |words: &[u32]| {
            let mut found = Found::default();
            stubs(0x100, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>(), &mut found);
            rows(&found)
        };
        assert_eq!(of(&[nop; 4]), (vec![LINKED.from(0x100)], vec![0x110]));
        for at in 0..2 {
            let mut words = [nop; 12];
            words[at] = push;
            let from = 0x104 + 4 * at as u32;
            assert_eq!(of(&words), (vec![LINKED.from(0x100), pushed.from(from), LINKED.from(0x120)], vec![0x130]));
        }
    }
}
