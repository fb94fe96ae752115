//! CPU lists as the kernel prints them (`0-3,32`) and which CPUs are online.

use std::io;

/// Parses `0-3,8,10-11`. The error is the piece that is no CPU number or range.
pub fn parse_list(text: &str) -> Result<Vec<u32>, String> {
    let mut cpus = Vec::new();
    for piece in text.trim().split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let (from, to) = piece.split_once('-').unwrap_or((piece, piece));
        match (from.parse::<u32>(), to.parse::<u32>()) {
            (Ok(from), Ok(to)) if from <= to && to < 1 << 16 => cpus.extend(from..=to),
            _ => return Err(piece.to_owned()),
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// The shortest form of a sorted list: `0-3,32`.
pub(crate) fn format_list(cpus: &[u32]) -> String {
    let mut out = String::new();
    let mut rest = cpus;
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first..).take_while(|(cpu, want)| *cpu == want).count();
        if !out.is_empty() {
            out.push(',');
        }
        match run {
            1 => out.push_str(&first.to_string()),
            _ => out.push_str(&format!("{first}-{}", rest[run - 1])),
        }
        rest = &rest[run..];
    }
    out
}

/// The CPUs that are online now.
pub fn online() -> io::Result<Vec<u32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    parse_list(&text).map_err(io::Error::other)
}

/// The number of CPUs that the machine could have, for perf.data's NRCPUS.
pub(crate) fn possible() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    parse_list(&text).map_or(1, |cpus| cpus.len().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_printed() {
        assert_eq!(parse_list("0-3,32\n"), Ok(vec![0, 1, 2, 3, 32]));
        assert_eq!(parse_list("5,1,1"), Ok(vec![1, 5]));
        assert_eq!(parse_list("3-1"), Err("3-1".to_owned()));
        assert_eq!(parse_list("0,x"), Err("x".to_owned()));
        assert_eq!(parse_list("0-4294967295"), Err("0-4294967295".to_owned()));
        assert_eq!(format_list(&[0, 1, 2, 3, 32]), "0-3,32");
        assert_eq!(format_list(&[7]), "7");
    }
}
