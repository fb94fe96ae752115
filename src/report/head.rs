//! The header of a recording in perf's words: machine, command, events. It is shown by `--header` and `--header-only`.

use crate::kernel::local_time;
use crate::panel::row_order::arrange_by_key;
use crate::panel::text::clean;
use crate::perfdata::attr_words;
use crate::perfdata::bytes::{ByteReader, MAX_ENTRIES};
use crate::perfdata::features::{NAMES, bit};
use crate::perfdata::read::Recording;
use crate::perfdata::topology::CpuTopology;

use super::text::time_of_day;

/// Features that are shown only on request, and the text instead.
const LONG: &[u8] = &[13, 14, 20, 22];

/// The newest feature whose absence is shown. Older perf versions do not write newer ones.
const LAST_TOLD: u8 = 30;

/// Formats the header. `full` includes the machine's topology, and `written` is the file's time in seconds since 1970.
pub(crate) fn text(rec: &Recording, written: i64, full: bool) -> String {
    let mut lines =
        vec!["========".to_owned(), format!("captured on    : {}", time(written)), "header version : 1".to_owned()];
    let stream = rec.data.end == u64::MAX;
    let (start, size) = if stream { (0, 0) } else { (rec.data.start, rec.data.end - rec.data.start) };
    lines.push(format!("data offset    : {start}"));
    lines.push(format!("data size      : {size}"));
    lines.push(format!("feat offset    : {}", start + size));
    let mut list: Vec<&(u8, Vec<u8>)> = rec.features.list.iter().collect();
    arrange_by_key(&mut list, |(bit, _)| *bit);
    for (bit, bytes) in list {
        if LONG.contains(bit) && !full {
            let name = NAMES.iter().find(|(b, _)| b == bit).map_or("", |(_, name)| name);
            lines.push(format!("{name} info available, use -I to display"));
            continue;
        }
        let told = feature(*bit, &mut ByteReader::new(bytes, rec.big), rec);
        lines.extend(told.unwrap_or_else(|| vec![format!("feature {bit} is not readable")]));
    }
    if !stream {
        let is_missing =
            |bit: &u8| *bit != bit::BPF_PROG_INFO && *bit != bit::BPF_BTF && rec.features.get(*bit).is_none();
        let missing = NAMES.iter().filter(|(bit, _)| *bit <= LAST_TOLD && is_missing(bit));
        let names: String = missing.map(|(_, name)| format!("{name} ")).collect();
        lines.push(format!("missing features: {names}"));
    }
    lines.push("========".to_owned());
    let mut out: String = lines.iter().map(|line| format!("# {}\n", clean(line))).collect();
    out.push_str("#\n");
    out
}

/// Formats `Wed Nov 25 09:22:23 2026`, as ctime(3) does.
pub(crate) fn time(seconds: i64) -> String {
    local_time(seconds).unwrap_or_default().strftime("%a %b %e %H:%M:%S %Y").to_string()
}

/// Formats a feature; empty if it is shown elsewhere.
fn feature(bit: u8, b: &mut ByteReader<'_>, rec: &Recording) -> Option<Vec<String>> {
    let named = |name: &str, b: &mut ByteReader<'_>| Some(vec![format!("{name} : {}", b.string()?)]);
    Some(match bit {
        bit::HOSTNAME => named("hostname", b)?,
        bit::OSRELEASE => named("os release", b)?,
        bit::VERSION => named("perf version", b)?,
        bit::ARCH => named("arch", b)?,
        bit::CPUDESC => named("cpudesc", b)?,
        bit::CPUID => named("cpuid", b)?,
        bit::NRCPUS => {
            let (available, online) = (b.u32()?, b.u32()?);
            vec![format!("nrcpus online : {online}"), format!("nrcpus avail : {available}")]
        }
        bit::TOTAL_MEM => vec![format!("total memory : {} kB", b.u64()?)],
        bit::CMDLINE => {
            let words: String = b.list(|b| b.string())?.iter().map(|word| format!("{word} ")).collect();
            vec![format!("cmdline : {words}")]
        }
        bit::EVENT_DESC => events(rec),
        bit::CPU_TOPOLOGY => topology(rec)?,
        14 => b
            .list(|b| {
                let (node, total, free) = (b.u32()?, b.u64()?, b.u64()?);
                let memory = format!("node{node} meminfo  : total = {total} kB, free = {free} kB");
                Some([memory, format!("node{node} cpu list : {}", b.string()?)])
            })?
            .concat(),
        15 => vec!["contains samples with branch stack".to_owned()],
        16 => {
            let one = |b: &mut ByteReader<'_>| {
                let number = b.u32()?;
                Some(format!("{} = {number}", b.string()?))
            };
            vec![format!("pmu mappings: {}", b.list(one)?.join(", "))]
        }
        bit::GROUP_DESC => groups(rec)?,
        18 => vec!["contains AUX area data (e.g. instruction trace)".to_owned()],
        19 => vec!["contains stat data".to_owned()],
        20 => caches(b)?,
        bit::SAMPLE_TIME => sample_time(b.u64()?, b.u64()?),
        22 => memory(b)?,
        bit::CLOCKID => vec![format!("clockid frequency: {} MHz", 1000 / b.u64()?.max(1))],
        24 => vec![format!("directory data version : {}", b.u64()?)],
        27 => {
            let (_, kind, level, ratio) = (b.u32()?, b.u32()?, b.u32()?, b.u32()?);
            let kind = if kind == 1 { "Zstd" } else { "Unknown" };
            vec![format!("compressed : {kind}, level = {level}, ratio = {ratio}")]
        }
        28 => {
            let caps = b.list(|b| Some(format!("{}={}", b.string()?, b.string()?)))?;
            vec![format!("cpu pmu capabilities: {}", caps.join(", "))]
        }
        bit::CLOCK_DATA => clock(b)?,
        30 => vec!["hybrid cpu system:".to_owned()]
            .into_iter()
            .chain(b.list(|b| Some(format!("{} cpu list : {}", b.string()?, b.string()?)))?)
            .collect(),
        _ => Vec::new(),
    })
}

fn events(rec: &Recording) -> Vec<String> {
    let one = |(event, size): (&crate::perfdata::EventDesc, u32)| {
        let ids: Vec<String> = event.ids.iter().map(u64::to_string).collect();
        let ids = if ids.is_empty() { String::new() } else { format!(", id = {{ {} }}", ids.join(", ")) };
        let words = attr_words::fields(&event.attr, size);
        let words: String = words.iter().map(|(name, value)| format!(", {name} = {value}")).collect();
        format!("event : name = {}, {ids}{words}", event.name)
    };
    rec.events.iter().zip(rec.attr_sizes.iter().copied().chain(std::iter::repeat(0))).map(one).collect()
}

fn topology(rec: &Recording) -> Option<Vec<String>> {
    let told = CpuTopology::of(rec)?;
    let mut out = Vec::new();
    let first = if told.dies.is_some() { "sibling sockets" } else { "sibling cores  " };
    out.extend(told.siblings.iter().map(|cpus| format!("{first} : {cpus}")));
    out.extend(told.dies.iter().flatten().map(|cpus| format!("sibling dies    : {cpus}")));
    out.extend(told.threads.iter().map(|cpus| format!("sibling threads : {cpus}")));
    for (cpu, (core, socket)) in told.places.iter().enumerate() {
        let die = told.die_of.get(cpu).map(|die| format!("Die ID {die}, "));
        out.push(format!("CPU {cpu}: Core ID {core}, {}Socket ID {socket}", die.unwrap_or_default()));
    }
    Some(out)
}

pub(crate) struct EventGroup {
    /// Empty if the group does not have a name.
    pub(crate) name: String,
    /// The index of its leader.
    pub(crate) leader: usize,
    pub(crate) members: usize,
}

impl EventGroup {
    pub(crate) fn list(rec: &Recording) -> Option<Vec<Self>> {
        ByteReader::new(rec.features.get(bit::GROUP_DESC)?, rec.big).list(|b| {
            let name = b.string()?;
            let (leader, members) = (b.u32()? as usize, b.u32()? as usize);
            Some(Self { name: if name == "{anon_group}" { String::new() } else { name }, leader, members })
        })
    }
}

fn groups(rec: &Recording) -> Option<Vec<String>> {
    let line = |group: EventGroup| {
        let names = rec.events.iter().skip(group.leader).take(group.members).map(|event| event.name.as_str());
        format!("group: {}{{{}}}", group.name, names.collect::<Vec<_>>().join(","))
    };
    Some(EventGroup::list(rec)?.into_iter().map(line).collect())
}

fn caches(b: &mut ByteReader<'_>) -> Option<Vec<String>> {
    b.u32()?;
    let lines = b.list(|b| {
        let level = b.u32()?;
        b.take(12)?;
        let (kind, size, cpus) = (b.string()?, b.string()?, b.string()?);
        Some(format!(" L{level} {kind:<15} {size:>8} [{cpus}]"))
    })?;
    Some(std::iter::once("CPU cache info:".to_owned()).chain(lines).collect())
}

/// Formats seconds with six digits.
fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000)
}

fn sample_time(first: u64, last: u64) -> Vec<String> {
    let millis = last.saturating_sub(first) as f64 / 1e6;
    vec![
        format!("time of first sample : {}", seconds(first)),
        format!("time of last sample : {}", seconds(last)),
        format!("sample duration : {millis:10.3} ms"),
    ]
}

fn memory(b: &mut ByteReader<'_>) -> Option<Vec<String>> {
    let (_version, block, nodes) = (b.u64()?, b.u64()?, b.u64()?);
    let mut out = vec![format!("memory nodes (nr {nodes}, block size {block:#x}):")];
    for _ in 0..nodes.min(u64::from(MAX_ENTRIES)) {
        // The size is stored twice.
        let (node, _, bits) = (b.u64()?, b.u64()?, b.u64()?);
        let words = bits.div_ceil(64).min(u64::from(MAX_ENTRIES));
        let words: Vec<u64> = (0..words).map(|_| b.u64()).collect::<Option<_>>()?;
        let set = |(at, word): (usize, &u64)| {
            let word = *word;
            (0..64u32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| 64 * at as u32 + bit)
        };
        let blocks: Vec<u32> = words.iter().enumerate().flat_map(set).collect();
        let size = block.saturating_mul(blocks.len() as u64);
        let ranges = crate::kernel::cpus::format_list(&blocks);
        out.push(format!(" {node:3} [{}]: {ranges}", human(size)));
    }
    Some(out)
}

/// Formats sizes like `24G`.
fn human(bytes: u64) -> String {
    let units = [(1u64 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    let unit = units.iter().find(|(unit, _)| bytes >= *unit);
    unit.map_or_else(|| format!("{bytes}B"), |(unit, letter)| format!("{}{letter}", bytes / unit))
}

/// Formats the clock of times, and a pair of clock time and time of day.
fn clock(b: &mut ByteReader<'_>) -> Option<Vec<String>> {
    const NAMES: &str = "realtime monotonic process_cputime thread_cputime monotonic_raw realtime_coarse \
                         monotonic_coarse boottime realtime_alarm boottime_alarm sgi_cycle tai";
    b.u32()?;
    let (id, wall, at) = (b.u32()?, b.u64()?, b.u64()?);
    let name = NAMES.split(' ').nth(id as usize).unwrap_or("unknown");
    let (shown, tod) = (time_of_day(wall), seconds(wall));
    let (whole, rest) = (at / 1_000_000_000, at % 1_000_000_000);
    let reference = format!("reference time: {shown} = {tod} (TOD) = {whole}.{rest:09} ({name})");
    Some(vec![format!("clockid: {name} ({id})"), reference])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_as_ctime_has_it() {
        // Noon in Greenwich is on that day, or in the far east on the next one.
        let shown = time(1_678_017_600);
        let is_of = |day: &str| shown.starts_with(day) && shown.ends_with(" 2023") && shown.len() == 24;
        assert!(is_of("Sun Mar  5 ") || is_of("Mon Mar  6 "), "{shown}");
    }

    #[test]
    fn what_is_not_readable_is_said_and_what_lacks_is_named() {
        let mut rec = Recording { data: 264..364, ..Recording::default() };
        rec.features.set(bit::NRCPUS, vec![1, 0, 0]);
        rec.features.set(bit::TOTAL_MEM, 77u64.to_le_bytes().to_vec());
        rec.features.set(13, Vec::new());
        let text = text(&rec, 0, false);
        for line in [
            "# data size      : 100\n",
            "# feat offset    : 364\n",
            "# feature 7 is not readable\n",
            "# total memory : 77 kB\n",
            "# CPU_TOPOLOGY info available, use -I to display\n",
            "BUILD_ID HOSTNAME OSRELEASE VERSION ARCH CPUDESC ",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
