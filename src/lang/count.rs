//! Numbers in messages, with the nouns that they count.

/// Formats `12,345,678`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats `1 sample`, `12,345 samples`, `2 entries`; the noun is in the singular.
pub fn counted(n: u64, noun: &str) -> String {
    let plural = match noun.strip_suffix('y') {
        _ if n == 1 => noun.to_owned(),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => format!("{noun}es"),
        _ => format!("{noun}s"),
    };
    format!("{} {plural}", thousands(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_follow_their_numbers() {
        for (n, noun, want) in [
            (1, "sample", "1 sample"),
            (0, "sample", "0 samples"),
            (12_345, "issued request", "12,345 issued requests"),
            (2, "entry", "2 entries"),
            (1, "entry", "1 entry"),
            (2, "process", "2 processes"),
            (3, "switch", "3 switches"),
            (3, "key", "3 keys"),
        ] {
            assert_eq!(counted(n, noun), want);
        }
    }
}
