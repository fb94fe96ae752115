//! The branch types of `perf record -j`, as bits of `branch_sample_type`. See perf-record(1).

use crate::lang::nearest_hint;
pub(crate) use crate::perf_abi::branch::ANY;

/// Bits that select only the privilege level: user, kernel, hypervisor.
const WHOSE: u64 = 0b111;

const WORDS: &[(&str, u64)] = &[
    ("u", 1),
    ("k", 1 << 1),
    ("hv", 1 << 2),
    ("any", ANY),
    ("any_call", 1 << 4),
    ("any_ret", 1 << 5),
    ("ind_call", 1 << 6),
    ("abort_tx", 1 << 7),
    ("in_tx", 1 << 8),
    ("no_tx", 1 << 9),
    ("cond", 1 << 10),
    ("stack", 1 << 11),
    ("ind_jmp", 1 << 12),
    ("call", 1 << 13),
    ("no_flags", 1 << 14),
    ("no_cycles", 1 << 15),
    ("save_type", 1 << 16),
    ("hw_index", 1 << 17),
    ("priv", 1 << 18),
    ("counter", 1 << 19),
];

/// Parses comma-separated names to bits. If only privilege levels are named, branches of any type are selected.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let mut mask = 0;
    for word in text.split(',') {
        let found = WORDS.iter().find(|(name, _)| *name == word);
        mask |= found.map(|(_, bit)| *bit).ok_or_else(|| {
            let names: Vec<&str> = WORDS.iter().map(|(name, _)| *name).collect();
            let hint = nearest_hint(word, names.iter().copied());
            format!("{word} is not a branch type; available: {}{hint}", names.join(", "))
        })?;
    }
    Ok(if mask & !WHOSE == 0 { mask | ANY } else { mask })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_bits() {
        assert_eq!(parse("any,u"), Ok(0b1001));
        assert_eq!(parse("u,k"), Ok(0b1011));
        assert_eq!(parse("any_ret,save_type"), Ok(1 << 5 | 1 << 16));
        assert!(parse("any_cal").is_err_and(|why| why.contains("nearest: any_call")));
    }
}
