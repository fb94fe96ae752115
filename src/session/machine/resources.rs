//! The formats of /proc/diskstats, /proc/vmstat, /proc/meminfo, /proc/net/snmp, /proc/PID/stat and /proc/PID/io
//! (Documentation/admin-guide/iostats.rst, proc_pid_stat(5), RFC 4022). Missing fields are 0.

use super::proc::{lines, number, split_words};

/// A block device's counters since boot, from a line of /proc/diskstats. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// The device's name, such as `vda`.
    pub name: String,
    /// Completed reads and writes, including discards.
    pub requests: u64,
    /// Sectors of 512 bytes that were read or written.
    pub sectors: u64,
    /// Time of all requests from their submission to their completion.
    pub waited_ms: u64,
    /// Time in which at least one request was under way.
    pub busy_ms: u64,
    /// Time multiplied by the number of requests under way.
    pub weighted_ms: u64,
}

/// Parses /proc/diskstats.
pub(crate) fn disks(text: &[u8]) -> Vec<DiskCounters> {
    lines(text).filter_map(disk).collect()
}

fn disk(line: &[u8]) -> Option<DiskCounters> {
    let mut words = split_words(line).skip(2);
    let name = std::str::from_utf8(words.next()?).ok()?.to_owned();
    let mut fields = [0u64; 15];
    let mut n = 0;
    for (slot, word) in fields.iter_mut().zip(words) {
        *slot = number(word)?;
        n += 1;
    }
    let sum = |places: [usize; 3]| places.iter().fold(0u64, |sum, at| sum.saturating_add(fields[*at]));
    (n >= 11).then(|| DiskCounters {
        name,
        requests: sum([0, 4, 11]),
        sectors: sum([2, 6, 13]),
        waited_ms: sum([3, 7, 14]),
        busy_ms: fields[9],
        weighted_ms: fields[10],
    })
}

/// Returns the values of the keys in a file with a key and a number per line. A key that ends in `*` is the sum of all
/// keys with that beginning.
pub(crate) fn keyed<const N: usize>(text: &[u8], keys: [&str; N]) -> [u64; N] {
    let mut out = [0u64; N];
    for line in lines(text) {
        let mut words = split_words(line);
        let Some(key) = words.next() else { continue };
        let is_key = |wanted: &&str| match wanted.strip_suffix('*') {
            Some(start) => key.starts_with(start.as_bytes()),
            None => key.strip_suffix(b":").unwrap_or(key) == wanted.as_bytes(),
        };
        if let Some(at) = keys.iter().position(is_key) {
            out[at] = out[at].saturating_add(words.next().and_then(number).unwrap_or(0));
        }
    }
    out
}

/// Returns counters of /proc/net/snmp or /proc/net/netstat by the prefix of their lines and their name.
pub(crate) fn net_counters<const N: usize>(text: &[u8], wanted: [(&str, &str); N]) -> [u64; N] {
    let mut out = [0u64; N];
    let mut names: &[u8] = b"";
    for line in lines(text) {
        let prefix = line.split(|b| *b == b':').next().unwrap_or_default();
        if !names.starts_with(prefix) || names.get(prefix.len()) != Some(&b':') {
            names = line;
            continue;
        }
        for (name, value) in split_words(names).zip(split_words(line)).skip(1) {
            let found = wanted.iter().position(|(own, key)| own.as_bytes() == prefix && key.as_bytes() == name);
            if let (Some(at), Some(value)) = (found, number(value)) {
                out[at] = value;
            }
        }
        names = b"";
    }
    out
}

/// A process's counters, from /proc/PID/stat. Times are in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounters {
    pub(crate) state: u8,
    pub(crate) parent: i32,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    /// User and system time.
    pub(crate) ticks: u64,
    /// The system time alone.
    pub(crate) system_ticks: u64,
    /// The same of children that have ended and were waited for.
    pub(crate) child_ticks: u64,
    pub(crate) threads: u64,
    /// The start since boot, which distinguishes processes that reuse a number.
    pub(crate) start: u64,
    /// Resident memory in pages.
    pub(crate) resident: u64,
}

/// Parses the line of /proc/PID/stat; returns the name and the counters.
pub(crate) fn process(line: &[u8]) -> Option<(&[u8], ProcessCounters)> {
    // The name may contain spaces and parentheses.
    let (from, until) = (memchr::memchr(b'(', line)?, memchr::memrchr(b')', line)?);
    let name = line.get(from + 1..until)?;
    let mut fields = split_words(line.get(until + 1..)?);
    let state = *fields.next()?.first()?;
    let parent = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    // Fields 10 to 24 of the line; the parent is field 4. Some may be negative, which are not used.
    let mut rest = [0u64; 15];
    for (slot, word) in rest.iter_mut().zip(fields.skip(5)) {
        *slot = number(word).unwrap_or(0);
    }
    let counters = ProcessCounters {
        state,
        parent,
        minor_faults: rest[0],
        major_faults: rest[2],
        ticks: rest[4].saturating_add(rest[5]),
        system_ticks: rest[5],
        child_ticks: rest[6].saturating_add(rest[7]),
        threads: rest[10],
        start: rest[12],
        resident: rest[14],
    };
    (counters.threads > 0).then_some((name, counters))
}

/// Parses /proc/PID/schedstat: nanoseconds on a CPU, nanoseconds of waiting for one, and the number of time slices.
pub(crate) fn schedstat(text: &[u8]) -> Option<[u64; 3]> {
    let mut words = split_words(text);
    Some([words.next().and_then(number)?, words.next().and_then(number)?, words.next().and_then(number)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_of_old_and_new_kernels() {
        let text = b" 254 0 vda 100 5 800 40 50 1 400 60 2 70 90 7 0 16 3 1 1\n   7 0 loop0 1 0 2 3 4 5 6 7 8 9 10\n\
                     8 0 sda 1 2 3\n8 1 bad x 0 0 0 0 0 0 0 0 0 0\n";
        let vda = DiskCounters {
            name: "vda".into(),
            requests: 157,
            sectors: 1216,
            waited_ms: 103,
            busy_ms: 70,
            weighted_ms: 90,
        };
        let old =
            DiskCounters { name: "loop0".into(), requests: 5, sectors: 8, waited_ms: 10, busy_ms: 9, weighted_ms: 10 };
        assert_eq!(disks(text), [vda, old]);
        assert_eq!(disks(b"\n x \n\xff\xff\xff 1"), []);
    }

    #[test]
    fn values_by_key() {
        let text = b"pgfault 7\nallocstall_dma 1\nallocstall_normal 2\nMemAvailable:   900 kB\nodd\noom_kill x\n";
        assert_eq!(keyed(text, ["pgfault", "allocstall_*", "MemAvailable", "oom_kill", "none"]), [7, 3, 900, 0, 0]);
    }

    #[test]
    fn counters_by_the_names_of_the_line_before() {
        let text = b"Ip: A B\nIp: 1 2\nTcp: ActiveOpens AttemptFails MaxConn\nTcp: 17 3 -1\nUdpLite: AttemptFails\n\
                     UdpLite: 9\nTcp: alone\n";
        let wanted = [("Tcp", "AttemptFails"), ("Tcp", "ActiveOpens"), ("Udp", "AttemptFails"), ("Tcp", "MaxConn")];
        assert_eq!(net_counters(text, wanted), [3, 17, 0, 0]);
        assert_eq!(net_counters(b"Tcp", wanted), [0; 4]);
    }

    #[test]
    fn a_process_line() {
        let line =
            b"42 (a) b (c) R 7 7 7 0 -1 4194304 11 12 13 14 20 30 40 50 20 0 3 0 999 123456 77 18446744073709551615";
        let counters = ProcessCounters {
            state: b'R',
            parent: 7,
            minor_faults: 11,
            major_faults: 13,
            ticks: 50,
            system_ticks: 30,
            child_ticks: 90,
            threads: 3,
            start: 999,
            resident: 77,
        };
        assert_eq!(process(line), Some((&b"a) b (c"[..], counters)));
        for wrong in [&b""[..], b"1 (x", b")(", b"1 (x) S", b"1 (x) S 1", b"1 (x) S 1 2 3"] {
            assert_eq!(process(wrong), None, "{wrong:?}");
        }
        assert_eq!((schedstat(b"5 6 7\n"), schedstat(b"5 6"), schedstat(b"a b c")), (Some([5, 6, 7]), None, None));
    }

    proptest::proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn no_text_panics(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let _ = (disks(&text), keyed(&text, ["a", "b*"]), net_counters(&text, [("Tcp", "a")]), process(&text), schedstat(&text));
        }
    }
}
