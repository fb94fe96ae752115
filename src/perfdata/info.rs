//! A recording's header as readable lines: (label, value).

use crate::lang::counted;

use super::bytes::ByteReader;
use super::features::{NAMES, bit};
use super::read::Recording;

pub(crate) fn lines(rec: &Recording) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    for event in &rec.events {
        let a = &event.attr;
        let rate = match a.has(crate::kernel::attr::Flag::Freq) {
            true => format!("{} Hz", a.period_or_freq),
            false => format!("{} per sample", counted(a.period_or_freq, "event")),
        };
        out.push((
            "event".into(),
            format!(
                "{}: type {}, config {:#x}, {rate}, sample_type {:#x}, read_format {:#x}, {}",
                event.name,
                a.kind,
                a.config,
                a.sample_type,
                a.read_format,
                counted(event.ids.len() as u64, "id")
            ),
        ));
    }
    for (bit, bytes) in &rec.features.list {
        let name = NAMES.iter().find(|(b, _)| b == bit).map_or_else(|| format!("feature {bit}"), |(_, n)| label(n));
        let mut rest = ByteReader::new(bytes, rec.big);
        let values = values(*bit, &mut rest)
            .unwrap_or_else(|| vec![format!("{}, not readable", counted(bytes.len() as u64, "byte"))]);
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

/// Formats `CPU_TOPOLOGY` as `cpu topology`.
fn label(name: &str) -> String {
    name.to_lowercase().replace('_', " ")
}

fn values(bit: u8, b: &mut ByteReader<'_>) -> Option<Vec<String>> {
    Some(match bit {
        bit::HOSTNAME..=bit::ARCH | bit::CPUDESC | bit::CPUID => vec![b.string()?],
        bit::NRCPUS => {
            let (available, online) = (b.u32()?, b.u32()?);
            vec![format!("{online} online, {available} available")]
        }
        bit::TOTAL_MEM => vec![format!("{} KiB", b.u64()?)],
        bit::CMDLINE => vec![b.list(ByteReader::string)?.join(" ")],
        bit::EVENT_DESC => vec![counted(b.u32()?.into(), "event")],
        bit::CPU_TOPOLOGY => {
            let cores = b.list(ByteReader::string)?;
            let threads = b.list(ByteReader::string)?;
            vec![format!("cores {}; threads {}", cores.join(" | "), threads.join(" | "))]
        }
        bit::NUMA_TOPOLOGY => b.list(|b| {
            let (node, total, free) = (b.u32()?, b.u64()?, b.u64()?);
            Some(format!("node {node}: {total} KiB, {free} KiB free, CPUs {}", b.string()?))
        })?,
        bit::PMU_MAPPINGS => vec![
            b.list(|b| {
                let number = b.u32()?;
                Some(format!("{} = {number}", b.string()?))
            })?
            .join(", "),
        ],
        bit::GROUP_DESC => b.list(|b| {
            let name = b.string()?;
            Some(format!("{{{name}}} from event {} on, {}", b.u32()?, counted(b.u32()?.into(), "member")))
        })?,
        bit::CACHE => {
            b.u32()?;
            b.list(|b| {
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
        bit::COMPRESSED => {
            let (_, kind, level, ratio) = (b.u32()?, b.u32()?, b.u32()?, b.u32()?);
            let kind = if kind == 1 { "zstd".to_owned() } else { format!("type {kind}") };
            vec![format!("{kind}, level {level}, ratio {ratio}")]
        }
        bit::CPU_PMU_CAPS => vec![b.list(|b| Some(format!("{} = {}", b.string()?, b.string()?)))?.join(", ")],
        bit::E_MACHINE => vec![format!("ELF machine {}", b.u32()?)],
        _ => vec![counted(b.rest.len() as u64, "byte")],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::attr::{Attr, Flag};
    use crate::perfdata::EventDesc;
    use crate::perfdata::bytes::MAX_ENTRIES;
    use crate::perfdata::features::{Features, string};

    fn u32_bytes(list: &[u32]) -> Vec<u8> {
        list.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn longs(list: &[u64]) -> Vec<u8> {
        list.iter().flat_map(|long| long.to_le_bytes()).collect()
    }

    fn list(strings: &[&str]) -> Vec<u8> {
        [u32_bytes(&[strings.len() as u32]), strings.iter().flat_map(|text| string(text)).collect()].concat()
    }

    #[test]
    fn each_feature_in_words() {
        let node = |number: u32, sizes: &[u64], cpus: &str| [u32_bytes(&[number]), longs(sizes), string(cpus)].concat();
        let cache =
            |numbers: &[u32], kind: &str| [u32_bytes(numbers), string(kind), string("32K"), string("0-1")].concat();
        let rows: &[(u8, Vec<u8>, &[&str])] = &[
            (3, string("node-7"), &["node-7"]),
            (6, string("x86_64"), &["x86_64"]),
            (8, string("A CPU"), &["A CPU"]),
            (9, string("Vendor,6,7,8"), &["Vendor,6,7,8"]),
            (bit::NRCPUS, u32_bytes(&[64, 60]), &["60 online, 64 available"]),
            (bit::TOTAL_MEM, longs(&[77]), &["77 KiB"]),
            (bit::CMDLINE, list(&["perf", "record", "-a"]), &["perf record -a"]),
            (bit::EVENT_DESC, u32_bytes(&[5]), &["5 events"]),
            (13, [list(&["0-3", "4-7"]), list(&["0,4", "1,5"])].concat(), &["cores 0-3 | 4-7; threads 0,4 | 1,5"]),
            (
                14,
                [u32_bytes(&[2]), node(0, &[100, 40], "0-1"), node(1, &[200, 50], "2-3")].concat(),
                &["node 0: 100 KiB, 40 KiB free, CPUs 0-1", "node 1: 200 KiB, 50 KiB free, CPUs 2-3"],
            ),
            (
                16,
                [u32_bytes(&[2, 4]), string("cpu"), u32_bytes(&[1]), string("software")].concat(),
                &["cpu = 4, software = 1"],
            ),
            (17, [u32_bytes(&[1]), string("a,b"), u32_bytes(&[3, 2])].concat(), &["{a,b} from event 3 on, 2 members"]),
            (
                20,
                [u32_bytes(&[1, 2]), cache(&[1, 64, 128, 8], "Data"), cache(&[2, 32, 9, 4], "Unified")].concat(),
                &["L1 Data 32K, lines of 64, 8 ways, CPUs 0-1", "L2 Unified 32K, lines of 32, 4 ways, CPUs 0-1"],
            ),
            (bit::SAMPLE_TIME, longs(&[2_000_000_003, 5_123_456_789]), &["2.000000003 to 5.123456789 s"]),
            (bit::CLOCKID, longs(&[4]), &["resolution 4 ns"]),
            (
                bit::CLOCK_DATA,
                [u32_bytes(&[1, 7]), longs(&[900, 30])].concat(),
                &["clock 7: 30 ns was 900 ns since 1970"],
            ),
            (27, u32_bytes(&[1, 1, 3, 5, 0]), &["zstd, level 3, ratio 5"]),
            (27, u32_bytes(&[1, 2, 3, 5]), &["type 2, level 3, ratio 5"]),
            (
                28,
                [u32_bytes(&[2]), string("branches"), string("32"), string("max_precise"), string("3")].concat(),
                &["branches = 32, max_precise = 3"],
            ),
            (33, u32_bytes(&[62]), &["ELF machine 62"]),
            (99, vec![0; 5], &["5 bytes"]),
        ];
        for (bit, bytes, want) in rows {
            let told = |bytes: &[u8]| values(*bit, &mut ByteReader::new(bytes, false));
            assert_eq!(told(bytes).expect("readable"), *want, "feature {bit}");
            assert_eq!(told(&bytes[..3]).is_some(), *bit == 99, "feature {bit} is cut");
        }
    }

    #[test]
    fn facts_are_told_in_their_order() {
        let event = |name: &str, flags: u64, rate: u64, ids: &[u64]| EventDesc {
            name: name.into(),
            attr: Attr {
                kind: 4,
                config: 0x1a,
                period_or_freq: rate,
                sample_type: 7,
                read_format: 12,
                flags,
                ..Attr::default()
            },
            ids: ids.to_vec(),
        };
        let all_but = [3, bit::CLOCK_DATA];
        let mut list: Vec<_> = (4..bit::CLOCK_DATA).rev().map(|bit| (bit, Vec::new())).collect();
        list.extend([(1, Vec::new()), (2, Vec::new()), (200, vec![1, 2])]);
        let rec = Recording {
            events: vec![event("cycles", 1 << Flag::Freq as u8, 99, &[5, 6]), event("faults", 0, 1000, &[])],
            features: Features { list },
            big: true,
            ..Recording::default()
        };
        let told = lines(&rec);
        let line = |at: usize| (told[at].0.as_str(), told[at].1.as_str());
        let tail = "sample_type 0x7, read_format 0xc";
        assert_eq!(line(0), ("event", &*format!("cycles: type 4, config 0x1a, 99 Hz, {tail}, 2 ids")));
        assert_eq!(
            line(1),
            ("event", &*format!("faults: type 4, config 0x1a, 1,000 events per sample, {tail}, 0 ids"))
        );
        assert_eq!(line(2), ("cpu pmu caps", "0 bytes, not readable"));
        let names: Vec<&str> = told[2..told.len() - 3].iter().map(|(name, _)| name.as_str()).collect();
        let of = |bit: &u8| NAMES.iter().find(|(b, _)| b == bit).map(|(_, name)| label(name)).expect("a name");
        let want: Vec<String> = (4..bit::CLOCK_DATA).rev().chain([1, 2]).map(|bit| of(&bit)).collect();
        assert_eq!(names, want);
        assert_eq!(line(told.len() - 3), ("feature 200", "2 bytes"));
        assert_eq!(line(told.len() - 2), ("byte order", "big-endian"));
        assert_eq!(line(told.len() - 1), ("not recorded", &*all_but.map(|bit| of(&bit)).join(", ")));
    }

    #[test]
    fn a_list_that_is_too_long_is_cut_and_damage_is_not_believed() {
        let features = vec![
            (3, string("node-7")),
            (20, u32::MAX.to_le_bytes().repeat(4)),
            (bit::CMDLINE, [u32_bytes(&[u32::MAX]), [0; 4].repeat(MAX_ENTRIES as usize)].concat()),
        ];
        let rec = Recording { features: Features { list: features }, ..Recording::default() };
        let told = lines(&rec);
        let spaces = " ".repeat(MAX_ENTRIES as usize - 1);
        let want = [("hostname", "node-7"), ("cache", "16 bytes, not readable"), ("cmdline", &*spaces)];
        assert_eq!(told.iter().map(|(name, value)| (&**name, &**value)).collect::<Vec<_>>()[..3], want);
        assert_eq!((told.len(), &*told[3].0), (4, "not recorded"));
    }
}
