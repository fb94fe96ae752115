//! Lists of register names for samples.

use crate::kernel::perf_event::attr::REGS_USER;
use crate::lang::nearest_hint;
use crate::record::registers::name;

/// Parses a list of names, case-insensitively, to a mask. An empty list selects all registers.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let arm = cfg!(target_arch = "aarch64");
    let known: Vec<(u32, String)> =
        (0..64).filter(|place| REGS_USER >> place & 1 == 1).map(|place| (place, name(place, arm))).collect();
    let names = || known.iter().map(|(_, name)| name.as_str());
    if text.is_empty() {
        return Ok(REGS_USER);
    }
    text.split(',').map(str::trim).try_fold(0, |mask, word| {
        let found = known.iter().find(|(_, name)| name.eq_ignore_ascii_case(word));
        let place = found.map(|(place, _)| *place).ok_or_else(|| {
            let hint = if word == "?" { String::new() } else { nearest_hint(&word.to_uppercase(), names()) };
            format!("unknown register; available: {}{hint}", names().collect::<Vec<_>>().join(" "))
        })?;
        Ok(mask | 1 << place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_registers_are_masks() {
        let of = |place| name(place, cfg!(target_arch = "aarch64"));
        assert_eq!(parse(""), Ok(REGS_USER));
        assert_eq!(parse(&format!("{},{}", of(0).to_lowercase(), of(7))), Ok(1 | 1 << 7));
        for wrong in ["?", "ax,,", "rax"] {
            assert!(
                parse(wrong)
                    .is_err_and(|said| said.starts_with("unknown register; available: ") && said.contains(&of(8))),
                "{wrong}"
            );
        }
    }
}
