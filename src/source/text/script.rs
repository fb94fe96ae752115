//! `perf script` text in its default layout: a header line for each sample, frames below it, leaf
//! first (perf-script(1)).

use crate::session::DsoKind;
use crate::source::{Batch, NamedFrame, NamedSample};

use super::Names;

/// The parts of a sample's first line.
#[derive(Debug, PartialEq, Eq)]
pub struct Header<'a> {
    pub comm: &'a [u8],
    pub pid: i32,
    pub tid: i32,
    pub cpu: u32,
    /// Nanoseconds.
    pub time: u64,
    /// 1 where the line has none.
    pub period: u64,
    pub event: &'a [u8],
    /// The frame on the same line, for samples without a call chain.
    pub frame: Option<&'a [u8]>,
}

/// Words of a line with their places.
fn words(line: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + line[at..].iter().position(|b| *b != b' ' && *b != b'\t')?;
        let end = line[start..].iter().position(|b| *b == b' ' || *b == b'\t').map_or(line.len(), |n| start + n);
        at = end;
        Some((start, &line[start..end]))
    })
}

fn integer(bytes: &[u8]) -> Option<i64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// `12.000345` in nanoseconds; `None` for anything else.
pub fn seconds(bytes: &[u8]) -> Option<u64> {
    let dot = memchr::memchr(b'.', bytes)?;
    let (whole, fraction) = (&bytes[..dot], &bytes[dot + 1..]);
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let whole = u64::try_from(integer(whole)?).ok()?;
    let padded = (0..9).fold(0, |n, i| n * 10 + u64::from(fraction.get(i).map_or(0, |b| b - b'0')));
    whole.checked_mul(1_000_000_000)?.checked_add(padded)
}

/// Reads a sample's first line: `comm pid[/tid] [cpu] time: [period] event: [frame]`. A comm may
/// hold anything, so the line is anchored at its time.
pub fn header(line: &[u8]) -> Option<Header<'_>> {
    let list: Vec<(usize, &[u8])> = words(line).take(40).collect();
    let t = (2..list.len()).find(|i| {
        let word = list[*i].1;
        word.strip_suffix(b":").is_some_and(|w| seconds(w).is_some()) && ids(&list[..*i]).is_some()
    })?;
    let (at, pid, tid, cpu) = ids(&list[..t])?;
    let comm = line[..list[at].0].trim_ascii();
    let time = seconds(list[t].1.strip_suffix(b":")?)?;
    let mut next = t + 1;
    let mut period = 1;
    if let Some(n) = list.get(next).and_then(|w| integer(w.1)) {
        period = u64::try_from(n).unwrap_or(1);
        next += 1;
    }
    let (event, after) = event(line, &list[next..])?;
    let rest = line[after..].trim_ascii();
    let frame = is_frame(rest).then_some(rest);
    Some(Header { comm, pid, tid, cpu, time, period, event, frame })
}

/// The word of `pid` or `pid/tid` before the time, its numbers, and the CPU.
fn ids(before: &[(usize, &[u8])]) -> Option<(usize, i32, i32, u32)> {
    let mut last = before.len().checked_sub(1)?;
    let mut cpu = 0;
    // Between CPU and time there may be flags (`-F +flags`, `-F +misc`).
    for _ in 0..2 {
        let word = before[last].1;
        if let Some(number) = word.strip_prefix(b"[").and_then(|w| w.strip_suffix(b"]")).and_then(integer) {
            cpu = u32::try_from(number).ok()?;
            last = last.checked_sub(1)?;
            break;
        }
    }
    let word = before[last].1;
    let (pid, tid) = match memchr::memchr(b'/', word) {
        Some(slash) => (integer(&word[..slash])?, integer(&word[slash + 1..])?),
        None => (integer(word)?, integer(word)?),
    };
    (last > 0).then_some((last, i32::try_from(pid).ok()?, i32::try_from(tid).ok()?, cpu))
}

/// The event's name and where it ends. Names of events with terms may hold spaces.
fn event<'a>(line: &'a [u8], list: &[(usize, &'a [u8])]) -> Option<(&'a [u8], usize)> {
    let (start, _) = *list.first()?;
    let (end, word) = list.iter().find(|(_, w)| w.ends_with(b":"))?;
    let end = end + word.len();
    Some((&line[start..end - 1], end))
}

/// `ip sym+0xoff (dso)`.
fn is_frame(text: &[u8]) -> bool {
    let Some(space) = memchr::memchr(b' ', text) else { return false };
    text.ends_with(b")") && space >= 1 && text[..space].iter().all(u8::is_ascii_hexdigit)
}

/// The sample that a first line begins.
pub fn sample(header: &Header<'_>, names: &mut Names, batch: &mut Batch) -> NamedSample {
    let from = batch.stack_frames.len() as u32;
    if let Some(id) = header.frame.and_then(|f| frame(f, names, batch)) {
        batch.stack_frames.push(id);
    }
    let frames = from..batch.stack_frames.len() as u32;
    NamedSample {
        comm: names.comm(header.comm),
        pid: header.pid,
        tid: header.tid,
        cpu: header.cpu,
        time: header.time,
        period: header.period,
        event: names.event(header.event, batch),
        frames,
        closed: header.frame.is_some(),
    }
}

/// Takes in a frame's line; `None` when it is none.
pub fn frame(line: &[u8], names: &mut Names, batch: &mut Batch) -> Option<u32> {
    let text = line.trim_ascii();
    let space = memchr::memchr(b' ', text)?;
    let ip = u64::from_str_radix(std::str::from_utf8(&text[..space]).ok()?, 16).ok()?;
    let rest = text[space + 1..].trim_ascii();
    let open = matching_paren(rest)?;
    let (name, dso) = (rest[..open].trim_ascii(), &rest[open + 1..rest.len() - 1]);
    let plus = name.windows(3).rposition(|w| w == b"+0x");
    let name = match plus {
        Some(at) if name[at + 3..].iter().all(u8::is_ascii_hexdigit) => &name[..at],
        _ => name,
    };
    if name == b"[unknown]" {
        // Unknown addresses are told apart, as perf does.
        return Some(names.frame(text, batch, || describe(name, dso, ip, true)));
    }
    let mut key = Vec::with_capacity(name.len() + dso.len() + 1);
    key.extend_from_slice(name);
    key.push(0);
    key.extend_from_slice(dso);
    Some(names.frame(&key, batch, || describe(name, dso, ip, false)))
}

/// Where the last parenthesis group of a line opens: a DSO's path may hold parentheses itself, such
/// as ` (deleted)`.
fn matching_paren(text: &[u8]) -> Option<usize> {
    if !text.ends_with(b")") {
        return None;
    }
    let mut depth = 0;
    for (i, b) in text.iter().enumerate().rev() {
        match b {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(i);
        }
    }
    None
}

fn describe(name: &[u8], dso: &[u8], ip: u64, unknown: bool) -> NamedFrame {
    let dso = String::from_utf8_lossy(dso);
    let kind = match &*dso {
        "[kernel.kallsyms]" | "[kernel]" | "[kernel.vmlinux]" => DsoKind::Kernel,
        "[vdso]" => DsoKind::Vdso,
        "[guest.kernel.kallsyms]" => DsoKind::Guest,
        d if d.starts_with("bpf_prog_") => DsoKind::Bpf,
        d if d.ends_with(".ko") || d.contains(".ko.") => DsoKind::Module,
        d if d.starts_with('[') && ip >= 0xffff_8000_0000_0000 => DsoKind::Module,
        d if d.starts_with("/tmp/perf-") && d.ends_with(".map") => DsoKind::Anon,
        d if d.starts_with('/') => DsoKind::File,
        _ => DsoKind::Unknown,
    };
    NamedFrame { name: String::from_utf8_lossy(name).into(), dso: dso.into(), kind, ip: unknown.then_some(ip) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comms_of_any_shape() {
        let h = header(b"a 1 [b] 12/13 [002] 7.000001: 99 cycles: ").expect("header");
        assert_eq!((h.comm, h.pid, h.tid, h.cpu, h.time, h.period), (&b"a 1 [b]"[..], 12, 13, 2, 7_000_001_000, 99));
        let h = header(b"spin-nofp 11118  2918.902178462:  1   page-faults/call-graph=fp/: ").expect("header");
        assert_eq!((h.event, h.period), (&b"page-faults/call-graph=fp/"[..], 1));
        assert_eq!(header(b"hello 12 world"), None);
        assert_eq!(header(b""), None);
    }

    #[test]
    fn a_deleted_file_keeps_its_parentheses() {
        let mut batch = Batch::default();
        let mut names = Names::default();
        assert_eq!(frame(b"\t 12 f(int)+0x3 (/tmp/a (deleted))", &mut names, &mut batch), Some(0));
        assert_eq!((&*batch.names[0].name, &*batch.names[0].dso), ("f(int)", "/tmp/a (deleted)"));
        assert_eq!(frame(b"\tnonsense", &mut names, &mut batch), None);
    }
}
