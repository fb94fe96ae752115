//! `perf script` text with any selection of fields (perf-script(1), `-F`): a line for each sample, and with call chains
//! the frames below it, leaf first, each after a tab.

mod extras;

use crate::event::base_name;
use crate::kernel::attr::{
    Attr, SW_BPF_OUTPUT, SW_DUMMY, TYPE_HARDWARE, TYPE_SOFTWARE, TYPE_TRACEPOINT, sample as field,
};
use crate::perfdata::EventDesc;
use crate::session::DsoKind;
use crate::source::{Batch, NamedFrame, NamedSample};

use super::TextNames;
use super::counts::integer;
pub(crate) use extras::without_extras;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ScriptHeader<'a> {
    pub(crate) comm: &'a [u8],
    /// -1 if absent.
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) cpu: Option<u32>,
    /// Nanoseconds; 0 if absent.
    pub(crate) time: u64,
    /// 1 if absent.
    pub(crate) period: u64,
    pub(crate) event: &'a [u8],
    /// The frame on the same line, for samples without a call chain.
    pub(crate) frame: Option<&'a [u8]>,
    /// The text after a tracepoint event: its fields.
    pub(crate) trace: &'a [u8],
    /// Whether it has so few fields that only frames below it prove that it is a sample.
    pub(crate) is_bare: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScriptLine<'a> {
    Sample(ScriptHeader<'a>),
    /// A record of another kind (`--show-task-events` and similar); following lines with tabs belong to it.
    Record,
    Other,
}

impl ScriptHeader<'_> {
    pub(crate) fn is_comm_alone(&self) -> bool {
        self.says_little() && self.frame.is_none()
    }

    pub(crate) fn is_frame_alone(&self) -> bool {
        self.says_little() && self.frame.is_some() && self.comm.is_empty()
    }

    fn says_little(&self) -> bool {
        self.tid < 0 && self.time == 0 && self.event.is_empty()
    }
}

fn split_words(line: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + line[at..].iter().position(|b| *b != b' ' && *b != b'\t')?;
        let end = line[start..].iter().position(|b| *b == b' ' || *b == b'\t').map_or(line.len(), |n| start + n);
        at = end;
        Some((start, &line[start..end]))
    })
}

/// Parses `12.000345` as nanoseconds; returns `None` for other text.
pub(crate) fn seconds(bytes: &[u8]) -> Option<u64> {
    let dot = memchr::memchr(b'.', bytes)?;
    let (whole, fraction) = (&bytes[..dot], &bytes[dot + 1..]);
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let whole = u64::try_from(integer::<i64>(whole)?).ok()?;
    let padded = (0..9).fold(0, |n, i| n * 10 + u64::from(fraction.get(i).map_or(0, |b| b - b'0')));
    whole.checked_mul(1_000_000_000)?.checked_add(padded)
}

/// Parses a line without a leading tab: `[comm] [pid[/tid]] [cpu] [misc] [time:] [period] [event:] [frame]`. A comm may
/// contain any text, so parsing starts at the time, or without a time at the numbers of the task.
pub(crate) fn line(line: &[u8]) -> ScriptLine<'_> {
    if memchr::memmem::find(line, b"PERF_RECORD_").is_some_and(|at| at == 0 || line[at - 1] == b' ') {
        return ScriptLine::Record;
    }
    let list: Vec<(usize, &[u8])> = split_words(line).take(40).collect();
    timed(line, &list).or_else(|| untimed(line, &list)).map_or(ScriptLine::Other, ScriptLine::Sample)
}

/// Returns whether a line can only be a frame, `ip sym (dso)`, although it has no tab, as in perf before 3.9.
pub(crate) fn is_frame_alone(line: &[u8]) -> bool {
    let end = memchr::memchr(b' ', line).unwrap_or(line.len());
    let is_address = (6..=16).contains(&end) && line[..end].iter().all(u8::is_ascii_hexdigit);
    is_address && matching_paren(line).is_some() && !split_words(line).any(|(_, word)| word.ends_with(b":"))
}

fn time_of(word: &[u8]) -> Option<u64> {
    word.strip_suffix(b":").and_then(seconds)
}

fn timed<'a>(line: &'a [u8], list: &[(usize, &'a [u8])]) -> Option<ScriptHeader<'a>> {
    let is_time = |i: &usize| time_of(list[*i].1).is_some();
    let task = (1..list.len()).filter(is_time).find_map(|t| ids(&list[..t]).map(|task| (t, task)));
    let (t, (at, pid, tid, cpu)) = match task {
        Some(found) => found,
        // `-F time,…` or `-F comm,time,…`.
        None => {
            let t = (0..list.len()).find(is_time)?;
            (t, (t, -1, -1, None))
        }
    };
    let comm = line[..list[at].0].trim_ascii();
    let (header, _) = after(line, list, t + 1, true);
    Some(ScriptHeader { comm, pid, tid, cpu, time: time_of(list[t].1)?, is_bare: false, ..header })
}

fn untimed<'a>(line: &'a [u8], list: &[(usize, &'a [u8])]) -> Option<ScriptHeader<'a>> {
    if let Some(comm) = aligned(line) {
        let from = list.iter().position(|word| word.0 > COMM).unwrap_or(list.len());
        let (header, _) = fields(line, list, from);
        return Some(ScriptHeader { comm, is_bare: false, ..header });
    }
    let (header, is_understood) = fields(line, list, 0);
    if is_understood && is_event(header.event) {
        return Some(header);
    }
    // The most reliable field first: a task before an event, whose name could contain the task.
    for is_sure in [|header: &ScriptHeader<'_>| header.tid >= 0, |header: &ScriptHeader<'_>| !header.event.is_empty()] {
        for (i, (at, _)) in list.iter().enumerate() {
            let (header, is_understood) = fields(line, list, i);
            if is_understood && (is_sure(&header) || (header.frame.is_some() && line[0] == b' ')) {
                return Some(ScriptHeader { comm: line[..*at].trim_ascii(), ..header });
            }
        }
    }
    // A leading blank indicates a line of source code (`-F +srcline`).
    line.first().is_some_and(|b| !b.is_ascii_whitespace()).then(|| ScriptHeader { comm: line.trim_ascii(), ..BARE })
}

/// The width of a comm in columns without call chains.
const COMM: usize = 16;

/// Returns the comm of a line without call chains, which ends at a fixed column.
fn aligned(line: &[u8]) -> Option<&[u8]> {
    let comm = line.get(..COMM)?;
    let is_aligned = comm[0] == b' ' && comm[COMM - 1] != b' ' && line.get(COMM).is_none_or(|b| *b == b' ');
    is_aligned.then(|| comm.trim_ascii())
}

const BARE: ScriptHeader<'_> = ScriptHeader {
    comm: &[],
    pid: -1,
    tid: -1,
    cpu: None,
    time: 0,
    period: 1,
    event: &[],
    frame: None,
    trace: &[],
    is_bare: true,
};

/// The width of a period in columns.
const PERIOD: usize = 10;
/// The width of an address and the blank before it in columns.
const ADDRESS: usize = 17;

/// Parses the fields from a word on, `[pid[/tid]] [cpu] [misc] [period] [event:] [frame]`. `false` if it cannot.
fn fields<'a>(line: &'a [u8], list: &[(usize, &'a [u8])], from: usize) -> (ScriptHeader<'a>, bool) {
    let narrow = list.get(from).filter(|word| word.1.contains(&b'/') || width(list, from) <= PERIOD);
    let task = narrow.and_then(|word| task(word.1));
    let mut next = from + usize::from(task.is_some());
    let cpu = list.get(next).and_then(|word| cpu(word.1));
    next += usize::from(cpu.is_some());
    let (header, is_understood) = after(line, list, next, false);
    let (pid, tid) = task.unwrap_or((-1, -1));
    let is_bare = cpu.is_none() && header.frame.is_none() && !is_event(header.event);
    (ScriptHeader { pid, tid, cpu, is_bare, ..header }, is_understood || cpu.is_some())
}

/// Returns whether a name can only be an event's: a tracepoint's, or a name that perf defines.
fn is_event(name: &[u8]) -> bool {
    let is_word = |word: &[u8]| !word.is_empty() && word.iter().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(b));
    let Some(colon) = memchr::memchr(b':', name) else {
        return std::str::from_utf8(name).is_ok_and(|name| crate::event::names::perf_names::find(name).is_some());
    };
    is_word(&name[..colon]) && is_word(&name[colon + 1..])
}

/// Parses the fields after the time: the period, the event and the frame. Returns whether it understood all of them.
fn after<'a>(line: &'a [u8], list: &[(usize, &'a [u8])], mut next: usize, is_timed: bool) -> (ScriptHeader<'a>, bool) {
    // `-F +misc`: kernel, user, hypervisor, guest, and the kind of a switch.
    let is_misc = |word: &[u8]| word.len() <= 3 && word.iter().all(|b| b"KUHGgMESs".contains(b));
    if !is_timed && list.len() > next + 1 && is_misc(list[next].1) {
        next += 1;
    }
    let mut header = BARE;
    let ends_event = |i: usize| list.get(i).is_some_and(|word| word.1.ends_with(b":"));
    let is_address =
        |i: usize| list.get(i).is_some_and(|word| word.1.len() >= 6) && frame_from(line, list, i).is_some();
    let is_period = |i: usize| ends_event(i + 1) || is_address(i + 1) || !is_address(i);
    if let Some(period) = list.get(next).and_then(|word| period(word.1)).filter(|_| is_period(next)) {
        header.period = period;
        next += 1;
    }
    header.frame = last_frame(line, list, next);
    if next < list.len() && header.frame.is_none() {
        // Without a time before it, an event is a single word.
        let end = if is_timed { list.len() } else { next + 1 };
        let Some((event, end)) = event(line, &list[next..end]) else { return (header, false) };
        header.event = event;
        next = list.iter().position(|word| word.0 >= end).unwrap_or(list.len());
        header.frame = last_frame(line, list, next);
        if header.frame.is_none() && is_tracepoint(&String::from_utf8_lossy(event)) {
            header.trace = line[end..].trim_ascii();
        }
    }
    let is_understood = next >= list.len() || header.frame.is_some() || is_event(header.event);
    (header, is_understood)
}

/// Returns the frame from a word to the end of a line, if it looks like one or is in an address's column.
fn frame_from<'a>(line: &'a [u8], list: &[(usize, &'a [u8])], i: usize) -> Option<&'a [u8]> {
    let (at, _) = *list.get(i)?;
    let rest = line[at..].trim_ascii();
    (is_frame(rest) || is_in_column(list, i)).then_some(rest)
}

/// Like [`frame_from`], but the frame may follow other fields in columns, such as `-F +addr,+data_src,+weight`.
fn last_frame<'a>(line: &'a [u8], list: &[(usize, &'a [u8])], i: usize) -> Option<&'a [u8]> {
    let first = frame_from(line, list, i)?;
    let rest = |at: usize| line[list[at].0..].trim_ascii();
    let is_last = |at: &usize| is_in_column(list, *at) && (at + 1 == list.len() || is_frame(rest(*at)));
    Some((i + 1..list.len()).rev().find(is_last).map_or(first, rest))
}

fn is_in_column(list: &[(usize, &[u8])], i: usize) -> bool {
    let is_address = |word: &[u8]| word.len() < ADDRESS && word.iter().all(u8::is_ascii_hexdigit);
    list.get(i).is_some_and(|word| is_address(word.1)) && width(list, i) >= ADDRESS
}

/// Parses a period; one that exceeds 64 bits is the greatest.
fn period(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // Without a meaning, a negative number counts as 1.
    Some(if digits.len() < word.len() { 1 } else { std::str::from_utf8(word).ok()?.parse().unwrap_or(u64::MAX) })
}

fn width(list: &[(usize, &[u8])], i: usize) -> usize {
    let end = |word: &(usize, &[u8])| word.0 + word.1.len();
    let before = i.checked_sub(1).and_then(|i| list.get(i)).map_or(0, end);
    list.get(i).map_or(0, end) - before
}

fn task(word: &[u8]) -> Option<(i32, i32)> {
    let (pid, tid) = match memchr::memchr(b'/', word) {
        Some(slash) => (integer::<i64>(&word[..slash])?, integer::<i64>(&word[slash + 1..])?),
        None => (integer::<i64>(word)?, integer::<i64>(word)?),
    };
    Some((i32::try_from(pid).ok()?, i32::try_from(tid).ok()?))
}

/// Parses `[001]`.
fn cpu(word: &[u8]) -> Option<u32> {
    let number = word.strip_prefix(b"[")?.strip_suffix(b"]")?;
    integer::<i64>(number).and_then(|number| u32::try_from(number).ok())
}

/// Returns the index of the word `pid` or `pid/tid` before the time, its numbers, and the CPU.
fn ids(before: &[(usize, &[u8])]) -> Option<(usize, i32, i32, Option<u32>)> {
    let mut last = before.len().checked_sub(1)?;
    // Before the time there may be flags (`-F +misc`).
    if cpu(before[last].1).is_none() && task(before[last].1).is_none() {
        last = last.checked_sub(1)?;
    }
    let on = cpu(before[last].1);
    if on.is_some() {
        last = last.checked_sub(1)?;
    }
    let (pid, tid) = task(before[last].1)?;
    Some((last, pid, tid, on))
}

/// Returns the event's name and its end. Names of events with terms may contain spaces.
fn event<'a>(line: &'a [u8], list: &[(usize, &'a [u8])]) -> Option<(&'a [u8], usize)> {
    let (start, _) = *list.first()?;
    let (end, word) = list.iter().find(|(_, w)| w.ends_with(b":"))?;
    let end = end + word.len();
    Some((&line[start..end - 1], end))
}

/// Returns whether a text is `ip sym+0xoff (dso)`; only the address is required, with perf's width.
fn is_frame(text: &[u8]) -> bool {
    let end = memchr::memchr(b' ', text).unwrap_or(text.len());
    let is_address = (1..=16).contains(&end) && text[..end].iter().all(u8::is_ascii_hexdigit);
    // A short word of hexadecimal digits may also be a number or a comm.
    is_address && (end >= 12 || text.ends_with(b")") || text[end..].starts_with(b" [unknown]"))
}

pub(crate) fn sample(header: &ScriptHeader<'_>, names: &mut TextNames, batch: &mut Batch) -> NamedSample {
    let from = batch.named.frames.len() as u32;
    let trace = (!header.trace.is_empty()).then(|| String::from_utf8_lossy(header.trace).into());
    if let Some(frame) = header.frame.and_then(frame) {
        let id = frame.id(names, batch);
        batch.named.frames.push(id);
    }
    let frames = from..batch.named.frames.len() as u32;
    let name = if header.event.is_empty() { NAMELESS } else { header.event };
    NamedSample {
        comm: names.comm(header.comm),
        pid: header.pid,
        tid: header.tid,
        cpu: header.cpu.unwrap_or(0),
        time: header.time,
        period: header.period,
        event: names.event(name, batch, |name| describe_event(name, header)),
        frames,
        closed: header.frame.is_some(),
        trace,
        raw: None,
    }
}

fn is_tracepoint(name: &str) -> bool {
    let name = base_name(name);
    name.split_once(':').is_some_and(|(system, own)| !system.is_empty() && !own.is_empty() && !name.contains('/'))
}

fn describe_event(name: &str, first: &ScriptHeader<'_>) -> EventDesc {
    let (kind, config) = match crate::event::names::perf_names::find(base_name(name)) {
        // Some names of times are aliases of the dummy event; no samples are of it.
        Some((kind, config)) if (kind, config) != (TYPE_SOFTWARE, SW_DUMMY) => (kind, config),
        _ if is_tracepoint(name) => (TYPE_TRACEPOINT, u64::MAX),
        _ if name == "offcpu-time" => (TYPE_SOFTWARE, SW_BPF_OUTPUT),
        _ => (TYPE_HARDWARE, 0),
    };
    let fields = [
        (field::IP, true),
        (field::TID, first.tid >= 0),
        (field::TIME, first.time > 0),
        (field::CPU, first.cpu.is_some()),
        // A frame on the line itself is the whole stack.
        (field::CALLCHAIN, first.frame.is_none()),
    ];
    let sample_type = fields.iter().filter(|(_, has)| *has).fold(0, |all, (field, _)| all | field);
    EventDesc { name: name.to_owned(), attr: Attr { kind, config, sample_type, ..Attr::default() }, ids: Vec::new() }
}

const NAMELESS: &[u8] = b"samples";

pub(crate) fn anonymous(names: &mut TextNames, batch: &mut Batch) -> NamedSample {
    sample(&BARE, names, batch)
}

/// A frame's line, `ip [sym[+0xoff]] [(dso)]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScriptFrame<'a> {
    text: &'a [u8],
    ip: u64,
    name: &'a [u8],
    offset: Option<u64>,
    dso: Option<&'a [u8]>,
}

const UNKNOWN: &[u8] = b"[unknown]";

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|digit| digit.is_ascii_hexdigit()));
    text.and_then(|text| u64::from_str_radix(text, 16).ok())
}

pub(crate) fn frame(line: &[u8]) -> Option<ScriptFrame<'_>> {
    let text = line.trim_ascii();
    let end = memchr::memchr(b' ', text).unwrap_or(text.len());
    let ip = hexadecimal(&text[..end])?;
    let rest = text[end..].trim_ascii();
    let (name, dso) = match matching_paren(rest) {
        Some(open) => (rest[..open].trim_ascii(), Some(&rest[open + 1..rest.len() - 1])),
        None => (rest, None),
    };
    let name = if name.is_empty() { UNKNOWN } else { name };
    let plus = name.windows(3).rposition(|w| w == b"+0x");
    let offset = plus.and_then(|at| hexadecimal(&name[at + 3..]));
    let name = plus.filter(|_| offset.is_some()).map_or(name, |at| &name[..at]);
    Some(ScriptFrame { text, ip, name, offset, dso })
}

impl ScriptFrame<'_> {
    pub(crate) fn is_user(&self) -> bool {
        self.ip < KERNEL
    }

    /// Returns whether it is a user address for which perf knows no code.
    pub(crate) fn is_nowhere(&self) -> bool {
        self.is_user() && self.name == UNKNOWN && self.dso == Some(UNKNOWN)
    }

    pub(crate) fn id(&self, names: &mut TextNames, batch: &mut Batch) -> u32 {
        let dso = self.dso.unwrap_or(if self.is_user() { UNKNOWN } else { b"[kernel.kallsyms]" });
        names.frame(self.text, batch, || describe(self, dso))
    }
}

/// Returns the frame for all callers outside of code.
pub(crate) fn nowhere(names: &mut TextNames, batch: &mut Batch) -> u32 {
    let name = String::from_utf8_lossy(UNKNOWN);
    names.frame(b"", batch, || NamedFrame::named(&name, &name, DsoKind::Cut))
}

/// The first address of 64-bit kernels.
const KERNEL: u64 = 0xffff_8000_0000_0000;

/// Returns the start of the last parenthesis group of a line, after a blank. A DSO's path may contain parentheses
/// itself, such as ` (deleted)`, and a function without a DSO may end with its arguments.
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
            return (i == 0 || text[i - 1] == b' ').then_some(i);
        }
    }
    None
}

fn describe(frame: &ScriptFrame<'_>, dso: &[u8]) -> NamedFrame {
    let dso = String::from_utf8_lossy(dso);
    let kind = match &*dso {
        "[kernel.kallsyms]" | "[kernel]" | "[kernel.vmlinux]" => DsoKind::Kernel,
        "[vdso]" => DsoKind::Vdso,
        "[guest.kernel.kallsyms]" => DsoKind::Guest,
        d if d.starts_with("bpf_prog_") => DsoKind::Bpf,
        d if d.ends_with(".ko") || d.contains(".ko.") => DsoKind::Module,
        d if d.starts_with('[') && frame.ip >= KERNEL => DsoKind::Module,
        d if d.starts_with("/tmp/perf-") && d.ends_with(".map") => DsoKind::Anon,
        d if d.starts_with('/') => DsoKind::File,
        _ => DsoKind::Unknown,
    };
    NamedFrame {
        ip: frame.ip,
        offset: frame.offset,
        is_unknown: frame.name == UNKNOWN,
        ..NamedFrame::named(&String::from_utf8_lossy(frame.name), &dso, kind)
    }
}

#[cfg(test)]
mod tests;
