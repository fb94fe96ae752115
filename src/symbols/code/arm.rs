//! AArch64 instructions.

use yaxpeax_arch::{Arch, Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{ARMv8, Opcode, Operand};

use super::{Flow, Instruction};

/// Disassembles code linked for an address. Invalid words are shown as numbers.
pub(crate) fn decode(code: &[u8], address: u64) -> Vec<Instruction> {
    let decoder = <ARMv8 as Arch>::Decoder::default();
    let mut out = Vec::new();
    for (word, i) in code.chunks(4).zip(0u64..) {
        let at = address.wrapping_add(4 * i);
        let decoded = decoder.decode(&mut U8Reader::new(word)).ok().filter(|_| word.len() == 4);
        let (text, flow) = match decoded {
            Some(one) => (one.to_string(), flow(one.opcode, &one.operands, at)),
            None => (undecoded(word), Flow::On),
        };
        out.push(Instruction { at, bytes: word.to_vec(), text, flow, ..Instruction::default() });
    }
    out
}

fn undecoded(word: &[u8]) -> String {
    let number = word.iter().rev().fold(0u32, |n, b| n << 8 | u32::from(*b));
    format!(".inst {number:#010x}")
}

fn flow(opcode: Opcode, operands: &[Operand; 4], at: u64) -> Flow {
    let target = operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(by) => Some(at.wrapping_add_signed(*by)),
        _ => None,
    });
    match (opcode, target) {
        (Opcode::BL, Some(target)) => Flow::Call(target),
        (Opcode::B | Opcode::Bcc(_) | Opcode::CBZ | Opcode::CBNZ | Opcode::TBZ | Opcode::TBNZ, Some(target)) => {
            Flow::Jump(target)
        }
        (Opcode::RET, _) => Flow::Return,
        (Opcode::BR | Opcode::BLR, _) => Flow::Away,
        _ => Flow::On,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;

    #[test]
    fn instructions_and_where_they_lead() {
        let words: [u32; 6] = [0xa9bf_7bfd, 0x9400_0004, 0x54ff_ffc0, 0xb400_0040, 0xd65f_03c0, 0xffff_ffff];
        let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let list = decode(&code, 0x1000);
        assert!(list[0].text.starts_with("stp x29, x30"), "{}", list[0].text);
        let flows: Vec<Flow> = list.iter().map(|i| i.flow).collect();
        let want = [Flow::On, Flow::Call(0x1014), Flow::Jump(0x1000), Flow::Jump(0x1014), Flow::Return, Flow::On];
        assert_eq!(flows, want);
        assert_eq!(list[5].text, ".inst 0xffffffff");
    }

    #[test]
    fn no_word_panics() {
        damage::reaching(512, 30, proptest::collection::vec(proptest::num::u8::ANY, 0..40), |code| {
            decode(&code, 0).iter().any(|one| !one.text.starts_with(".inst"))
        });
    }
}
