//! x86 instructions in GNU's syntax, as perf and objdump show them.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, OpKind};

use super::{Flow, Instruction};

pub(crate) fn decode(code: &[u8], address: u64, bits: u32) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(bits, code, address, DecoderOptions::NONE);
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_branch_leading_zeros(false);
    options.set_uppercase_hex(false);
    options.set_rip_relative_addresses(false);
    options.set_gas_show_mnemonic_size_suffix(false);
    let mut out = Vec::new();
    while decoder.can_decode() {
        let from = decoder.position();
        let one = decoder.decode();
        let mut text = String::new();
        formatter.format(&one, &mut text);
        let near = [OpKind::NearBranch16, OpKind::NearBranch32, OpKind::NearBranch64].contains(&one.op0_kind());
        let flow = match one.flow_control() {
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch if near => {
                Flow::Jump(one.near_branch_target())
            }
            FlowControl::Call if near => Flow::Call(one.near_branch_target()),
            FlowControl::Return => Flow::Return,
            FlowControl::Next => Flow::On,
            _ => Flow::Away,
        };
        let bytes = code[from..decoder.position()].to_vec();
        out.push(Instruction { at: one.ip(), bytes, text, flow, ..Instruction::default() });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_and_where_they_lead() {
        // push %rbp; mov %rsp,%rbp; je +2; call +0; ret
        let code = [0x55, 0x48, 0x89, 0xe5, 0x74, 0x02, 0xe8, 0, 0, 0, 0, 0xc3];
        let list = decode(&code, 0x1000, 64);
        let texts: Vec<&str> = list.iter().map(|i| &*i.text).collect();
        assert_eq!(texts, ["push %rbp", "mov %rsp, %rbp", "je 0x1008", "call 0x100b", "ret"]);
        let flows: Vec<Flow> = list.iter().map(|i| i.flow).collect();
        assert_eq!(flows, [Flow::On, Flow::On, Flow::Jump(0x1008), Flow::Call(0x100b), Flow::Return]);
        assert_eq!(list[3].bytes.len(), 5);
    }

    proptest::proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn no_byte_is_lost(code in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let all: Vec<u8> = decode(&code, 0x40_0000, 64).into_iter().flat_map(|i| i.bytes).collect();
            proptest::prop_assert_eq!(all, code);
        }
    }
}
