//! Folded stacks: `comm;root;…;leaf COUNT`, one per line, as written by FlameGraph's collapsers.

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;

use crate::session::DsoKind;
use crate::source::{Batch, NamedFrame, NamedSample};

use super::TextNames;
use super::counts::{CountForm, Period};

/// Suffixes of frames (FlameGraph, stackcollapse-perf.pl `--kernel --jit --inline`; async-profiler has one for
/// interpreted Java code and one for its first compiler's).
const MARKS: &[(&[u8], &str, DsoKind)] = &[
    (b"_[k]", "[kernel.kallsyms]", DsoKind::Kernel),
    (b"_[j]", "[jit]", DsoKind::Anon),
    (b"_[i]", "[inlined]", DsoKind::File),
    (b"_[w]", "[waker]", DsoKind::Unknown),
    (b"_[0]", "[interpreted]", DsoKind::Anon),
    (b"_[1]", "[jit]", DsoKind::Anon),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoldedLine {
    /// A stack, and whether one of its counts differs from its period.
    Stack {
        is_inexact: bool,
    },
    Other,
}

pub(crate) fn line(text: &[u8], form: CountForm, names: &mut TextNames, batch: &mut Batch) -> FoldedLine {
    let Some((stack, counts)) = form.split(text) else { return FoldedLine::Other };
    let (time, stack) = timestamp(stack);
    let (end, _) = name_end(stack, 0);
    let first = &stack[..end];
    let from = batch.named.frames.len();
    let thread = if is_java_frame(first) {
        frames(&[&b";"[..], stack].concat(), names, batch);
        (&b"java"[..], -1)
    } else {
        frames(&stack[end..], names, batch);
        java_thread(first).unwrap_or((first, -1))
    };
    let comm = names.comm(thread.0);
    let (pid, tid) = if comm.starts_with("swapper") { (0, 0) } else { (-1, thread.1) };
    batch.named.frames[from..].reverse();
    let frames = from as u32..batch.named.frames.len() as u32;
    let mut is_inexact = false;
    for (event, count) in (0..).zip(counts) {
        // A stack of only one of two profiles has no sample in the other.
        if form.has_two && count.is_zero() {
            continue;
        }
        let Period { period, is_inexact: is_rounded } = count.period(form.decimals);
        is_inexact |= is_rounded;
        let (comm, frames) = (comm.clone(), frames.clone());
        let sample =
            NamedSample { comm, pid, tid, cpu: 0, time, period, event, frames, closed: true, trace: None, raw: None };
        batch.named.samples.push(sample);
    }
    FoldedLine::Stack { is_inexact }
}

/// Returns whether the first name of a stack is a function, as in the output of async-profiler without threads: a Java
/// method, or a name with a suffix.
fn is_java_frame(name: &[u8]) -> bool {
    let is_identifier = |part: &[u8]| {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii();
        part.first().is_some_and(|byte| !byte.is_ascii_digit()) && part.iter().all(is_part)
    };
    let class = name.iter().rposition(|byte| *byte == b'.').map(|dot| &name[..dot]);
    let is_method = class.is_some_and(|class| class.contains(&b'/') && class.split(|b| *b == b'/').all(is_identifier));
    is_method || MARKS.iter().any(|(mark, ..)| name.ends_with(mark) && name.len() > mark.len())
}

/// Reads async-profiler's `[NAME tid=NUMBER]`: a thread's name and number.
fn java_thread(name: &[u8]) -> Option<(&[u8], i32)> {
    let inside = name.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let at = memchr::memmem::rfind(inside, b" tid=")?;
    Some((&inside[..at], i32::try_from(number(&inside[at + 5..])?).ok()?))
}

pub(crate) fn has_time(text: &[u8], form: CountForm) -> bool {
    form.split(text).is_some_and(|(stack, _)| timestamp(stack).0 > 0)
}

/// Reads the frames of `;root;…;leaf`. Lines are sorted in most files, so a stack has a common prefix with the previous
/// one, which is not looked up again.
fn frames(text: &[u8], names: &mut TextNames, batch: &mut Batch) {
    let mut last = std::mem::take(&mut names.last);
    let same = last.text.iter().zip(text).take_while(|(a, b)| a == b).count();
    // A name is equal only if both end there.
    let whole = |end: usize| end < same || end == same && text.get(end).is_none_or(|b| *b == b';');
    let kept = last.ends.iter().take_while(|(end, _)| whole(*end) && *end <= last.sure).count();
    last.ends.truncate(kept);
    last.sure = usize::MAX;
    let mut at = last.ends.last().map_or(0, |(end, _)| *end);
    last.text.truncate(at);
    last.text.extend_from_slice(&text[at..]);
    while at < text.len() {
        // The position of the semicolon before a name.
        let start = at + 1;
        let (end, is_sure) = name_end(text, start);
        at = end;
        if !is_sure {
            last.sure = last.sure.min(start);
        }
        let part = &text[start..at];
        if !part.is_empty() {
            let id = names.frame(part, batch, || describe(part));
            last.ends.push((at, id));
        }
    }
    batch.named.frames.extend(last.ends.iter().map(|(_, id)| *id));
    names.last = last;
}

#[derive(Debug, Default)]
pub(crate) struct LastStack {
    text: Vec<u8>,
    ends: Vec<(usize, u32)>,
    /// Names that start from here on may end elsewhere in another line: a bracket of the first of them is not closed.
    sure: usize,
}

/// Returns the end of the name that starts here, and whether it does not depend on what follows. A semicolon within `()`
/// or `[]` is part of the name (`[T; 4]`, `(Ljava/lang/String;)V`), unless the bracket is not closed.
fn name_end(text: &[u8], start: usize) -> (usize, bool) {
    let mut at = start;
    let mut is_sure = true;
    while let Some(n) = memchr::memchr3(b';', b'(', b'[', &text[at..]) {
        at += n;
        match text[at] {
            b';' => return (at, is_sure),
            _ => match closing(text, at) {
                Some(end) => at = end + 1,
                None => (at, is_sure) = (at + 1, false),
            },
        }
    }
    (text.len(), is_sure)
}

/// The bytes between two brackets of a name at most.
const MOST_BRACKETED: usize = 4096;

/// Returns the position of the bracket that closes another. Brackets of the other kind may be open: `([Ljava/lang/Long;)V`.
fn closing(text: &[u8], open: usize) -> Option<usize> {
    let (begin, end) = if text[open] == b'(' { (b'(', b')') } else { (b'[', b']') };
    let near = &text[open..text.len().min(open + MOST_BRACKETED)];
    let mut depth = 0usize;
    for at in memchr::memchr2_iter(begin, end, near) {
        depth = if near[at] == begin { depth + 1 } else { depth - 1 };
        if depth == 0 {
            return Some(open + at);
        }
    }
    None
}

fn describe(part: &[u8]) -> NamedFrame {
    let mark = MARKS.iter().find(|(mark, _, _)| part.ends_with(mark) && part.len() > mark.len());
    let (name, dso, kind) = match mark {
        Some((mark, dso, kind)) => (&part[..part.len() - mark.len()], *dso, *kind),
        None => (part, "[unknown]", DsoKind::Unknown),
    };
    NamedFrame::named(&String::from_utf8_lossy(name), dso, kind)
}

/// Returns a leading time in nanoseconds, and the rest. It is a date and a time as two frames, or decimal seconds.
fn timestamp(stack: &[u8]) -> (u64, &[u8]) {
    let first = |s: &[u8]| s.iter().position(|b| *b == b';');
    let Some(end) = first(stack) else { return (0, stack) };
    let (head, rest) = (&stack[..end], &stack[end + 1..]);
    if let Some(day) = date(head)
        && let Some(next) = first(rest)
        && let Some(time) = clock(&rest[..next])
    {
        return (day.saturating_add(time), &rest[next + 1..]);
    }
    if let Some(time) = clock(head) {
        return (time, rest);
    }
    match super::script::seconds(head) {
        Some(time) => (time, rest),
        None => (0, stack),
    }
}

fn number(bytes: &[u8]) -> Option<u64> {
    let digits = !bytes.is_empty() && bytes.len() < 19 && bytes.iter().all(u8::is_ascii_digit);
    digits.then(|| bytes.iter().fold(0, |n, b| n * 10 + u64::from(b - b'0')))
}

/// Returns nanoseconds from 1970 to the start of `YYYY-MM-DD`.
fn date(text: &[u8]) -> Option<u64> {
    let [y, m, d] = text.split(|b| *b == b'-').map(number).collect::<Option<Vec<_>>>()?[..] else { return None };
    let date = Date::new(y.try_into().ok()?, m.try_into().ok()?, d.try_into().ok()?).ok()?;
    TimeZone::UTC.to_timestamp(date.to_datetime(Time::midnight())).ok()?.as_nanosecond().try_into().ok()
}

/// Returns nanoseconds of `HH:MM:SS` with an optional fraction.
fn clock(text: &[u8]) -> Option<u64> {
    let [h, m, s] = text.split(|b| *b == b':').collect::<Vec<_>>()[..] else { return None };
    let (h, m) = (number(h)?, number(m)?);
    let s = super::script::seconds(s).or_else(|| number(s)?.checked_mul(1_000_000_000))?;
    (h < 24 && m < 60).then_some((h * 3600 + m * 60) * 1_000_000_000 + s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_in_brackets_are_parts_of_names() {
        let names = |text: &str| {
            let (mut found, mut at) = (Vec::new(), 0);
            while at <= text.len() {
                let (end, _) = name_end(text.as_bytes(), at);
                found.push(text[at..end].to_owned());
                at = end + 1;
            }
            found.join("|")
        };
        for (text, want) in [
            ("a;f([Ljava/lang/Long;I)V;b", "a|f([Ljava/lang/Long;I)V|b"),
            ("<[T; 4] as Foo>::bar;x", "<[T; 4] as Foo>::bar|x"),
            ("f(a;(b;c);d);x_[k]", "f(a;(b;c);d)|x_[k]"),
            ("f(a;b;c", "f(a|b|c"),
            ("[Lx;[unknown];y", "[Lx|[unknown]|y"),
            ("operator();x)", "operator()|x)"),
            ("", ""),
        ] {
            assert_eq!(names(text), want);
        }
        assert_eq!([name_end(b"f(;)", 0), name_end(b"f(;", 0)], [(4, true), (2, false)]);
        let long = format!("f({};)", "x".repeat(2 * MOST_BRACKETED));
        assert_eq!(name_end(long.as_bytes(), 0), (long.len() - 2, false));
    }

    #[test]
    fn times() {
        const DAY: u64 = 86_400_000_000_000;
        assert_eq!(date(b"1970-01-02"), Some(DAY));
        assert_eq!(date(b"2026-11-21"), Some(20_778 * DAY));
        assert_eq!((date(b"2000-02-29"), date(b"2001-02-29"), date(b"1969-12-31")), (Some(11_016 * DAY), None, None));
        assert_eq!(timestamp(b"12.5;a;b"), (12_500_000_000, &b"a;b"[..]));
        assert_eq!(timestamp(b"a;b"), (0, &b"a;b"[..]));
        assert_eq!(timestamp(b"00:00:01;a"), (1_000_000_000, &b"a"[..]));
    }
}
