//! Rows of unwind tables for the BPF program that walks stacks: eight bytes with a start address and a rule.
//!
//! The low half of a row is the address in the file, relative to the page of its first loaded segment. The high half is
//! the rule: its kind in 8 bits; the saved frame register's offset from the CFA in words in 8 bits (0: the register is
//! unchanged, 1: it is saved at the address that it holds); and the kind's operand in 16 bits. A word is 8 bytes. The
//! CFA is the stack pointer of the caller before its call (DWARF 5, section 6.4.1).

/// Bytes of a word. 32-bit x86 code has words of half the size; its rows count them in the same way.
const WORD: i64 = 8;
/// The maximum number of bits that special kinds add to an offset.
const WIDE: u8 = 11;
/// The bit of kinds whose offsets are relative to sp or fp instead of the CFA.
const FAR: u8 = 16;

/// The rule that finds the caller of some code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Kind 0: not covered by any table; use the frame pointer.
    Gap,
    /// Kind 3: a stub of the procedure linkage table (x86-64). The CFA is sp+8, and sp+16 from the instruction at this
    /// offset of 16 on.
    Stub(u8),
    /// Kind 4: the kernel's frame of a signal handler, which holds all registers. In 32-bit x86 code they are this many
    /// bytes above sp; n/8 in 16 bits.
    Signal(i64),
    /// Kind 5: the first function of a thread, which has no caller.
    End,
    /// Kind 31: a function of Go that calls another one on another stack (x86-64). 0: its frame has the frame pointer, with
    /// the caller's at CFA-16. Otherwise, this many bytes above sp is the goroutine; n/8 in 16 bits. The return address is
    /// as far below the end of the goroutine's stack as the word before it says; without a goroutine, at the address that
    /// the word is.
    GoCall(i64),
    /// Kind 15: a table row that no rule can express.
    Unsupported,
    Frame {
        cfa: Cfa,
        saved: Saved,
        caller: Caller,
    },
}

/// The location of the CFA, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cfa {
    /// Kind 1: sp+n; n/8 in 16 bits. Kinds 16 to 26 (x86-64): the same with more bits of n/8, which are the kind minus
    /// 15. Such a function may have half a MiB on its stack and be the caller of all others.
    Sp(i64),
    /// Kind 2: fp+n; encoded likewise.
    Fp(i64),
    /// Kind 6: *(sp+n)+m; n/8 in the lower 12 bits with a sign, m/8 in the 4 above.
    AtSp(i64, i64),
    /// Kind 7: *(fp+n)+m; encoded likewise.
    AtFp(i64, i64),
    /// Kind 8: register r+n: n/8 in the lower 12 bits, the register's DWARF number (below 16) in the 4 above. Such
    /// registers are known only in the interrupted frame.
    Register(u8, i64),
}

/// The location of the caller's frame register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saved {
    Same,
    /// At CFA+n, in bytes; n is negative.
    At(i64),
    /// At the address that it holds.
    AtItself,
}

/// The location of the return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// At CFA-8 (x86-64).
    OnTop,
    /// Kind 9: in a register (DWARF number), CFA sp+n; encoded like `Register`. Only in the interrupted frame.
    In(u8),
    /// Kind 10: in the link register, with CFA sp+n (AArch64). Only in the interrupted frame.
    Link,
    /// Kinds 11, 12: one word above the saved frame register, with CFA sp+n, fp+n (AArch64). Kinds 27, 28: the same for
    /// a frame register too far below the CFA: its offset is relative to sp, fp, in words, in 8 bits.
    Beside,
    /// Kinds 13, 14: where other rules save the frame register, which is unchanged here, with CFA sp+n, fp+n (AArch64).
    /// Kinds 29, 30: the same, relative to sp, fp.
    Alone(i64),
}

impl Rule {
    /// Returns the rule in 32 bits; [`Rule::Unsupported`] where it does not fit.
    pub(crate) fn bits(self) -> u32 {
        self.packed().unwrap_or(15)
    }

    fn packed(self) -> Option<u32> {
        let (kind, saved, what) = match self {
            Self::Gap => (0, 0, 0),
            Self::Stub(from) => (3, from, 0),
            Self::Signal(above) => (4, 0, u16::try_from(whole_words(above)?).ok()?),
            Self::End => (5, 0, 0),
            Self::GoCall(at) => (31, if at == 0 { 0xfe } else { 0 }, u16::try_from(whole_words(at)?).ok()?),
            Self::Unsupported => (15, 0, 0),
            Self::Frame { cfa, saved, caller } => {
                let own = caller;
                if let Some((kind, above)) = far(cfa, saved, own) {
                    return Some(kind | u32::from(above) << 8 | u32::from(cfa.packed(own)?) << 16);
                }
                let saved = saved.packed()?;
                let (kind, saved) = match (cfa, own) {
                    (Cfa::Sp(n), Caller::OnTop) if whole_words(n)? >= 1 << 16 => {
                        let (above, low) = (whole_words(n)? >> 16, whole_words(n)? as u16);
                        let kind = u8::try_from(above).ok().filter(|above| *above <= WIDE)? + 15;
                        return Some(u32::from(kind) | u32::from(saved) << 8 | u32::from(low) << 16);
                    }
                    (Cfa::Sp(_), Caller::OnTop) => (1, saved),
                    (Cfa::Fp(_), Caller::OnTop) => (2, saved),
                    (Cfa::AtSp(..), Caller::OnTop) => (6, saved),
                    (Cfa::AtFp(..), Caller::OnTop) => (7, saved),
                    (Cfa::Register(..), Caller::OnTop) => (8, saved),
                    (Cfa::Sp(_), Caller::In(_)) => (9, saved),
                    (Cfa::Sp(_), Caller::Link) => (10, saved),
                    (Cfa::Sp(_), Caller::Beside) => (11, saved),
                    (Cfa::Fp(_), Caller::Beside) => (12, saved),
                    (Cfa::Sp(_), Caller::Alone(at)) if saved == 0 => (13, Saved::At(at).packed()?),
                    (Cfa::Fp(_), Caller::Alone(at)) if saved == 0 => (14, Saved::At(at).packed()?),
                    _ => return None,
                };
                (kind, saved, cfa.packed(own)?)
            }
        };
        Some(kind | u32::from(saved) << 8 | u32::from(what) << 16)
    }

    pub(crate) fn of(bits: u32) -> Self {
        let [kind, saved, low, high] = bits.to_le_bytes();
        let what = u16::from_le_bytes([low, high]);
        let (plain, upper) = (i64::from(what) * WORD, (what >> 12) as u8);
        let (signed, lower) = (i64::from((what << 4) as i16 >> 4) * WORD, i64::from(what & 0xfff) * WORD);
        let (at, above) = (i64::from(saved as i8) * WORD, i64::from(saved) * WORD - plain);
        let (cfa, caller) = match kind {
            0 => return Self::Gap,
            3 => return Self::Stub(saved),
            4 => return Self::Signal(plain),
            5 => return Self::End,
            31 => return Self::GoCall(plain),
            1 => (Cfa::Sp(plain), Caller::OnTop),
            2 => (Cfa::Fp(plain), Caller::OnTop),
            6 => (Cfa::AtSp(signed, i64::from(upper) * WORD), Caller::OnTop),
            7 => (Cfa::AtFp(signed, i64::from(upper) * WORD), Caller::OnTop),
            8 => (Cfa::Register(upper, lower), Caller::OnTop),
            9 => (Cfa::Sp(lower), Caller::In(upper)),
            10 => (Cfa::Sp(plain), Caller::Link),
            11 => (Cfa::Sp(plain), Caller::Beside),
            12 => (Cfa::Fp(plain), Caller::Beside),
            13 => (Cfa::Sp(plain), Caller::Alone(at)),
            14 => (Cfa::Fp(plain), Caller::Alone(at)),
            16..=26 => (Cfa::Sp(plain + (i64::from(kind - 15) << 16) * WORD), Caller::OnTop),
            27 => (Cfa::Sp(plain), Caller::Beside),
            28 => (Cfa::Fp(plain), Caller::Beside),
            29 => (Cfa::Sp(plain), Caller::Alone(above)),
            30 => (Cfa::Fp(plain), Caller::Alone(above)),
            _ => return Self::Unsupported,
        };
        let saved = match (caller, saved) {
            (Caller::Beside, _) if kind >= FAR => Saved::At(above),
            (Caller::Alone(_), _) | (_, 0) => Saved::Same,
            (_, 1) => Saved::AtItself,
            _ => Saved::At(at),
        };
        Self::Frame { cfa, saved, caller }
    }

    pub(crate) fn from(self, address: u32) -> u64 {
        u64::from(address) | u64::from(self.bits()) << 32
    }
}

/// Returns the kind of a rule whose saved registers are too far from the CFA for an offset, and their location.
fn far(cfa: Cfa, saved: Saved, caller: Caller) -> Option<(u32, u8)> {
    let (kind, at) = match (caller, saved) {
        (Caller::Beside, Saved::At(at)) => (11, at),
        (Caller::Alone(at), Saved::Same) => (13, at),
        _ => return None,
    };
    let (kind, n) = match cfa {
        Cfa::Sp(n) => (kind, n),
        Cfa::Fp(n) => (kind + 1, n),
        _ => return None,
    };
    let above = u8::try_from(whole_words(n.checked_add(at)?)?).ok()?;
    Saved::At(at).packed().is_none().then_some((u32::from(FAR) + kind, above))
}

impl Cfa {
    fn packed(self, caller: Caller) -> Option<u16> {
        let above = |part: u8, lower: u16| (part < 16).then(|| u16::from(part) << 12 | lower & 0xfff);
        match (self, caller) {
            (Self::Sp(n), Caller::In(register)) | (Self::Register(register, n), _) => {
                above(register, u16::try_from(whole_words(n)?).ok().filter(|n| *n < 1 << 12)?)
            }
            (Self::Sp(n) | Self::Fp(n), _) => u16::try_from(whole_words(n)?).ok(),
            (Self::AtSp(n, m) | Self::AtFp(n, m), _) => {
                let n = whole_words(n).filter(|n| (-(1 << 11)..1 << 11).contains(n))?;
                above(u8::try_from(whole_words(m)?).ok()?, n as u16)
            }
        }
    }
}

impl Saved {
    fn packed(self) -> Option<u8> {
        match self {
            Self::Same => Some(0),
            Self::AtItself => Some(1),
            Self::At(n) => i8::try_from(whole_words(n)?).ok().filter(|n| *n < 0).map(|n| n as u8),
        }
    }
}

fn whole_words(bytes: i64) -> Option<i64> {
    (bytes % WORD == 0).then_some(bytes / WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_does_not_fit_is_unsupported() {
        let frame = |cfa, saved| Rule::Frame { cfa, saved, caller: Caller::OnTop };
        for (rule, fits) in [
            (frame(Cfa::Sp(524_280), Saved::At(-1024)), true),
            (frame(Cfa::Sp(524_288), Saved::At(-16)), true),
            (frame(Cfa::Sp(540_080), Saved::AtItself), true),
            (frame(Cfa::Sp(12 * 524_288 - 8), Saved::Same), true),
            (frame(Cfa::Sp(12 * 524_288), Saved::Same), false),
            (frame(Cfa::Fp(524_288), Saved::Same), false),
            (frame(Cfa::Sp(12), Saved::Same), false),
            (frame(Cfa::Sp(-8), Saved::Same), false),
            (frame(Cfa::Fp(16), Saved::At(-1032)), false),
            (frame(Cfa::Fp(16), Saved::At(8)), false),
            (frame(Cfa::AtSp(-16_384, 120), Saved::At(-24)), true),
            (frame(Cfa::AtFp(-8, 0), Saved::AtItself), true),
            (frame(Cfa::AtFp(-8, 128), Saved::AtItself), false),
            (frame(Cfa::Register(11, 32_760), Saved::Same), true),
            (frame(Cfa::Register(16, 8), Saved::Same), false),
            (Rule::Frame { cfa: Cfa::Sp(0), saved: Saved::Same, caller: Caller::In(5) }, true),
            (Rule::Frame { cfa: Cfa::Fp(0), saved: Saved::Same, caller: Caller::In(5) }, false),
            (Rule::Frame { cfa: Cfa::Fp(48), saved: Saved::Same, caller: Caller::Alone(-40) }, true),
            (Rule::Frame { cfa: Cfa::Fp(48), saved: Saved::At(-8), caller: Caller::Alone(-40) }, false),
            (Rule::Frame { cfa: Cfa::Sp(65_600), saved: Saved::At(-65_600), caller: Caller::Beside }, true),
            (Rule::Frame { cfa: Cfa::Fp(4096), saved: Saved::At(-2056), caller: Caller::Beside }, true),
            (Rule::Frame { cfa: Cfa::Fp(4096), saved: Saved::At(-2048), caller: Caller::Beside }, false),
            (Rule::Frame { cfa: Cfa::Sp(2048), saved: Saved::Same, caller: Caller::Alone(-2032) }, true),
            (Rule::Frame { cfa: Cfa::Fp(2048), saved: Saved::Same, caller: Caller::Alone(-2040) }, true),
            (Rule::Frame { cfa: Cfa::Fp(2048), saved: Saved::Same, caller: Caller::Alone(-2056) }, false),
        ] {
            assert_eq!(Rule::of(rule.bits()), if fits { rule } else { Rule::Unsupported }, "{rule:?}");
        }
        assert_eq!(Rule::End.from(0x1234), 0x5_0000_1234);
        assert_eq!([0, 0x30].map(|at| Rule::of(Rule::GoCall(at).bits())), [0, 0x30].map(Rule::GoCall));
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn bits_are_rules(bits in any::<u32>()) {
            // Decoding again results in the same rule: unused bits are ignored.
            let rule = Rule::of(bits);
            prop_assert!(Rule::of(rule.bits()) == rule || rule.bits() == 15);
        }
    }
}
