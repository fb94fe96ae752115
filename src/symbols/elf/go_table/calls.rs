//! The functions of Go programs that call others on the stack of the thread: C, and parts of the runtime
//! (runtime/asm_amd64.s, asmcgocall and systemstack).

use super::GoFrame;

/// The longest code that may be this function.
const MOST: usize = 1 << 10;
/// Since Go 1.21, they have a frame with a frame pointer, push %rbp and mov %rsp,%rbp.
const FRAME: &[u8] = &[0x55, 0x48, 0x89, 0xe5];
/// Loads the thread's stack pointer, mov disp8(%rsi),%rsp, and its length with the displacement.
const SWITCH: (&[u8], usize) = (&[0x48, 0x8b, 0x66], 4);
/// Makes room on it, sub $n,%rsp.
const ROOM: (&[u8], usize) = (&[0x48, 0x83, 0xec], 4);
/// Returns to the stack of before, mov %rsi,%rsp.
const BACK: &[u8] = &[0x48, 0x89, 0xf4];

/// Returns how callers are found in such a function, from which linked addresses on; `None` if its code has another
/// form. Before Go 1.21, the one that calls C has stored the goroutine and how deep its stack is, or no goroutine and its
/// stack pointer. The other one has nothing on the thread's stack.
pub(super) fn parts(code: &[u8], start: u64) -> Option<Vec<(u64, GoFrame)>> {
    let of = |found: &[(usize, GoFrame)]| found.iter().map(|(at, frame)| (start + *at as u64, *frame)).collect();
    if code.starts_with(FRAME) {
        return Some(of(&[(0, GoFrame::OnTop), (1, GoFrame::Pointed), (FRAME.len(), GoFrame::OtherStack(0))]));
    }
    let code = code.get(..code.len().min(MOST))?;
    let only = |range: &[u8], pattern: &[u8]| {
        let mut all = memchr::memmem::find_iter(range, pattern);
        all.next().filter(|_| all.next().is_none())
    };
    let switched = only(code, SWITCH.0)? + SWITCH.1;
    let back = switched + memchr::memmem::find(code.get(switched..)?, BACK)?;
    let without = back + memchr::memmem::find(code.get(back..)?, ROOM.0)? + ROOM.1;
    let end = without + only(code.get(without..)?, BACK)?;
    // mov %rdi,goroutine(%rsp), mov %rdi,depth(%rsp)
    let (goroutine, stored) = stores(&code[switched..back], &[0x48, 0x89, 0x7c, 0x24], 0, 0x7c)?;
    // movq $0,goroutine(%rsp), mov %rdx,depth(%rsp)
    let other = stores(&code[without..end], &[0x48, 0xc7, 0x44, 0x24], 4, 0x54)?;
    if other.0 != goroutine {
        return None;
    }
    let found = [
        (0, GoFrame::OnTop),
        (switched, GoFrame::Pointed),
        (switched + stored, GoFrame::OtherStack(goroutine)),
        (back + BACK.len(), GoFrame::OnTop),
        (without, GoFrame::Pointed),
        (without + other.1, GoFrame::OtherStack(goroutine)),
        (end + BACK.len(), GoFrame::OnTop),
    ];
    Some(of(&found))
}

/// Finds where a word is stored on the stack by an instruction with so many bytes after the displacement, and then a
/// register in the word before. Returns the displacement, and where the second instruction ends.
fn stores(code: &[u8], first: &[u8], more: usize, register: u8) -> Option<(u8, usize)> {
    let at = memchr::memmem::find(code, first)? + first.len();
    let goroutine = *code.get(at)?;
    let depth = goroutine.checked_sub(8).filter(|depth| depth % 8 == 0 && *depth < 0x80 - 8)?;
    let from = at + 1 + more;
    let rest = code.get(from..)?;
    // Without a displacement if that is 0.
    let wide = [0x48, 0x89, register, 0x24, depth];
    let bare = [0x48, 0x89, register - 0x40, 0x24];
    let second: &[u8] = if depth == 0 { &bare } else { &wide };
    Some((goroutine, from + memchr::memmem::find(rest, second)? + second.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of Go 1.19, from the call that saves the goroutine's registers on, and with less room on the stack.
    const OLD: &[u8] = &[
        0xe8, 0x6a, 0xd3, 0xff, 0xff, 0x48, 0x8b, 0x66, 0x38, 0x48, 0x83, 0xec, 0x40, 0x48, 0x83, 0xe4, 0xf0, 0x48,
        0x89, 0x7c, 0x24, 0x30, 0x48, 0x8b, 0x7f, 0x08, 0x48, 0x29, 0xd7, 0x48, 0x89, 0x7c, 0x24, 0x28, 0xff, 0xd0,
        0x48, 0x8b, 0x7c, 0x24, 0x30, 0x48, 0x8b, 0x77, 0x08, 0x48, 0x2b, 0x74, 0x24, 0x28, 0x48, 0x89, 0xf4, 0x89,
        0x44, 0x24, 0x18, 0xc3, 0x48, 0x83, 0xec, 0x40, 0x48, 0x83, 0xe4, 0xf0, 0x48, 0xc7, 0x44, 0x24, 0x30, 0, 0, 0,
        0, 0x48, 0x89, 0x54, 0x24, 0x28, 0xff, 0xd0, 0x48, 0x8b, 0x74, 0x24, 0x28, 0x48, 0x89, 0xf4, 0x89, 0x44, 0x24,
        0x18, 0xc3,
    ];
    const NEW: &[u8] = &[
        0x48, 0x8b, 0x66, 0x38, 0x48, 0x83, 0xec, 0x10, 0x48, 0x83, 0xe4, 0xf0, 0x48, 0x89, 0x7c, 0x24, 0x08, 0x48,
        0x8b, 0x7f, 0x08, 0x48, 0x29, 0xd7, 0x48, 0x89, 0x3c, 0x24, 0xe8, 0, 0, 0, 0, 0x48, 0x8b, 0x7c, 0x24, 0x08,
        0x48, 0x8b, 0x77, 0x08, 0x48, 0x2b, 0x34, 0x24, 0x48, 0x89, 0xf4, 0xc3, 0x48, 0x83, 0xec, 0x10, 0x48, 0x83,
        0xe4, 0xf0, 0x48, 0xc7, 0x44, 0x24, 0x08, 0, 0, 0, 0, 0x48, 0x89, 0x14, 0x24, 0xe8, 0, 0, 0, 0, 0x48, 0x8b,
        0x34, 0x24, 0x48, 0x89, 0xf4, 0xc3,
    ];

    #[test]
    fn calls_of_c_have_the_goroutine_on_the_stack() {
        use GoFrame::{OnTop, OtherStack, Pointed};
        let of = |code: &[u8]| parts(code, 0x1000).expect("known code");
        let at = |from: u64, frame| (0x1000 + from, frame);
        let old =
            [(0, OnTop), (9, Pointed), (34, OtherStack(0x30)), (53, OnTop), (62, Pointed), (80, OtherStack(0x30))];
        let mut old: Vec<_> = old.into_iter().map(|(from, frame)| at(from, frame)).collect();
        old.push(at(90, OnTop));
        assert_eq!(of(OLD), old);
        let new = [(0, OnTop), (4, Pointed), (28, OtherStack(8)), (49, OnTop), (54, Pointed), (71, OtherStack(8))];
        let mut new: Vec<_> = new.into_iter().map(|(from, frame)| at(from, frame)).collect();
        new.push(at(83, OnTop));
        assert_eq!(of(NEW), new);
        let framed = [FRAME, NEW].concat();
        assert_eq!(of(&framed), [at(0, OnTop), at(1, Pointed), at(4, OtherStack(0))]);
    }

    #[test]
    fn other_code_is_not_understood() {
        for len in 0..NEW.len() - 2 {
            assert_eq!(parts(&NEW[..len], 0), None, "{len}");
        }
        // Another displacement without a goroutine than with one.
        let mut other = OLD.to_vec();
        other[70] = 0x20;
        assert_eq!(parts(&other, 0), None);
        for at in 0..OLD.len() {
            _ = parts(&[&OLD[..at], &[0x48], &OLD[at..]].concat(), 0);
        }
    }
}
