//! What a recording's head says, as lines for people: (what, value).

use super::bytes::Bytes;
use super::features::{NAMES, bit};
use super::read::Recording;

/// Lists are cut here: a header may claim any number of entries.
const MAX_ENTRIES: u32 = 4096;

/// All facts in the head.
pub fn lines(rec: &Recording) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    for event in &rec.events {
        let a = &event.attr;
        let rate = if a.has(crate::kernel::attr::Flag::Freq) { "Hz" } else { "events a sample" };
        out.push((
            "event".into(),
            format!(
                "{}: type {}, config {:#x}, {} {rate}, sample_type {:#x}, read_format {:#x}, {} ids",
                event.name,
                a.kind,
                a.config,
                a.period_or_freq,
                a.sample_type,
                a.read_format,
                event.ids.len()
            ),
        ));
    }
    for (bit, bytes) in &rec.features.list {
        let name = NAMES.iter().find(|(b, _)| b == bit).map_or_else(|| format!("feature {bit}"), |(_, n)| label(n));
        let mut rest = Bytes::new(bytes, rec.big);
        let values = values(*bit, &mut rest).unwrap_or_else(|| vec![format!("{} bytes, not readable", bytes.len())]);
        out.extend(values.into_iter().map(|value| (name.clone(), value)));
    }
    if rec.big {
        out.push(("byte order".into(), "big-endian".into()));
    }
    let missing: Vec<String> = NAMES
        .iter()
        .filter(|(b, _)| *b <= bit::CLOCK_DATA && rec.features.get(*b).is_none())
        .map(|(_, n)| label(n))
        .collect();
    out.push(("not recorded".into(), missing.join(", ")));
    out
}

/// `CPU_TOPOLOGY` as `cpu topology`.
fn label(name: &str) -> String {
    name.to_lowercase().replace('_', " ")
}

fn values(bit: u8, b: &mut Bytes<'_>) -> Option<Vec<String>> {
    let list = |b: &mut Bytes<'_>, one: &mut dyn FnMut(&mut Bytes<'_>) -> Option<String>| {
        let n = b.u32()?.min(MAX_ENTRIES);
        (0..n).map(|_| one(b)).collect::<Option<Vec<String>>>()
    };
    Some(match bit {
        3..=6 | 8 | 9 => vec![b.string()?],
        bit::NRCPUS => {
            let (available, online) = (b.u32()?, b.u32()?);
            vec![format!("{online} online, {available} available")]
        }
        bit::TOTAL_MEM => vec![format!("{} KiB", b.u64()?)],
        bit::CMDLINE => vec![list(b, &mut |b| b.string())?.join(" ")],
        bit::EVENT_DESC => vec![format!("{} events", b.u32()?)],
        13 => {
            let cores = list(b, &mut |b| b.string())?;
            let threads = list(b, &mut |b| b.string())?;
            vec![format!("cores {}; threads {}", cores.join(" | "), threads.join(" | "))]
        }
        14 => list(b, &mut |b| {
            let (node, total, free) = (b.u32()?, b.u64()?, b.u64()?);
            Some(format!("node {node}: {total} KiB, {free} KiB free, CPUs {}", b.string()?))
        })?,
        16 => vec![
            list(b, &mut |b| {
                let number = b.u32()?;
                Some(format!("{} = {number}", b.string()?))
            })?
            .join(", "),
        ],
        17 => list(b, &mut |b| {
            let name = b.string()?;
            Some(format!("{{{name}}} from event {} on, {} members", b.u32()?, b.u32()?))
        })?,
        20 => {
            b.u32()?;
            list(b, &mut |b| {
                let (level, line, _sets, ways) = (b.u32()?, b.u32()?, b.u32()?, b.u32()?);
                let (kind, size, cpus) = (b.string()?, b.string()?, b.string()?);
                Some(format!("L{level} {kind} {size}, lines of {line}, {ways} ways, CPUs {cpus}"))
            })?
        }
        bit::SAMPLE_TIME => {
            let (first, last) = (b.u64()?, b.u64()?);
            let seconds = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
            vec![format!("{} to {} s", seconds(first), seconds(last))]
        }
        bit::CLOCKID => vec![format!("resolution {} ns", b.u64()?)],
        bit::CLOCK_DATA => {
            let (_, clock, wall, at) = (b.u32()?, b.u32()?, b.u64()?, b.u64()?);
            vec![format!("clock {clock}: {at} ns was {wall} ns since 1970")]
        }
        27 => {
            let (_, kind, level, ratio) = (b.u32()?, b.u32()?, b.u32()?, b.u32()?);
            let kind = if kind == 1 { "zstd".to_owned() } else { format!("type {kind}") };
            vec![format!("{kind}, level {level}, ratio {ratio}")]
        }
        28 => vec![list(b, &mut |b| Some(format!("{} = {}", b.string()?, b.string()?)))?.join(", ")],
        33 => vec![format!("ELF machine {}", b.u32()?)],
        _ => vec![format!("{} bytes", b.rest.len())],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfdata::features::{Features, string};

    #[test]
    fn facts_are_told_and_damage_is_not_believed() {
        let features = vec![
            (3, string("node-7")),
            (bit::NRCPUS, [64u32.to_le_bytes(), 60u32.to_le_bytes()].concat()),
            (20, u32::MAX.to_le_bytes().repeat(4)),
        ];
        let rec = Recording { features: Features { list: features }, ..Recording::default() };
        let text = format!("{:?}", lines(&rec));
        for part in ["(\"hostname\", \"node-7\")", "60 online, 64 available", "(\"cache\", \"16 bytes, not readable\")"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}
