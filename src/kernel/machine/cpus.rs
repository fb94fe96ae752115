//! CPU lists as the kernel prints them (`0-3,32`), and the CPUs that are online.

use std::io;

/// Parses `0-3,8,10-11`. The error is the part that is not a CPU number or range.
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

/// Formats a sorted list in its shortest form: `0-3,32`.
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

const ONLINE: &str = "/sys/devices/system/cpu/online";
const STAT: &str = "/proc/stat";

/// Returns the CPUs that are online now, from /sys, else from /proc/stat, else from the affinity of this thread. Fails
/// if none of the three is available.
pub fn online() -> io::Result<Vec<u32>> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let some = |cpus: Vec<u32>| (!cpus.is_empty()).then_some(cpus);
    let found = some(parse_list(&read(ONLINE)).unwrap_or_default())
        .or_else(|| some(of_stat(&read(STAT))))
        .or_else(|| some(allowed()));
    found.ok_or_else(|| io::Error::other(format!("neither {ONLINE} nor {STAT} lists CPUs")))
}

/// Returns the CPUs with a line in /proc/stat, which are the online ones (proc_stat(5)).
fn of_stat(text: &str) -> Vec<u32> {
    let number = |line: &str| line.strip_prefix("cpu")?.split(' ').next()?.parse().ok();
    text.lines().filter_map(number).collect()
}

fn allowed() -> Vec<u32> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
    cpus.filter_map(|cpu| u32::try_from(cpu).ok()).collect()
}

pub(crate) fn possible() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let listed = parse_list(&text).map_or(0, |cpus| cpus.len());
    let highest = || online().ok().and_then(|cpus| cpus.last().copied()).unwrap_or_default();
    if listed > 0 { listed } else { highest() as usize + 1 }
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

    #[test]
    fn cpus_are_found_without_sys() {
        let online = online().expect("CPUs");
        assert_eq!(of_stat(&std::fs::read_to_string(STAT).expect("proc")), online);
        assert_eq!(of_stat("cpu  1 2\ncpu0 1 2\ncpu17 1 2\ncpux 3\nintr 9 cpu4\n"), [0, 17]);
        assert!(!allowed().is_empty() && allowed().iter().all(|cpu| online.contains(cpu)));
        assert!(possible() >= online.len());
    }
}
