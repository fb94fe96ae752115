//! The formats of /proc/stat, /proc/softirqs, /proc/interrupts, /proc/net/softnet_stat and /proc/pressure
//! (proc_stat(5), Documentation/filesystems/proc.rst, Documentation/accounting/psi.rst, net/core/net-procfs.c). Parsers
//! reuse the memory of their output, and allocate only when there is more than before. Malformed lines are skipped;
//! missing fields are 0.

/// Time of a CPU by activity, in ticks, in the order of /proc/stat's columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks(pub [u64; Ticks::N]);

impl Ticks {
    pub(crate) const USER: usize = 0;
    pub(crate) const NICE: usize = 1;
    pub(crate) const SYSTEM: usize = 2;
    pub(crate) const IDLE: usize = 3;
    pub(crate) const IOWAIT: usize = 4;
    pub(crate) const IRQ: usize = 5;
    pub(crate) const SOFTIRQ: usize = 6;
    pub(crate) const STEAL: usize = 7;
    pub(crate) const GUEST: usize = 8;
    pub(crate) const GUEST_NICE: usize = 9;
    pub(crate) const N: usize = 10;

    /// Returns the total. `user` and `nice` already include the guests' time.
    pub(crate) fn total(&self) -> u64 {
        self.0[..Self::GUEST].iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Returns the ticks that were neither idle nor waiting for a disk.
    pub(crate) fn busy(&self) -> u64 {
        self.total().saturating_sub(self.0[Self::IDLE]).saturating_sub(self.0[Self::IOWAIT])
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].saturating_add(other.0[i])))
    }

    /// Returns the difference to an earlier reading. Counters that went backwards, like some kernels' idle, count as 0.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].saturating_sub(before.0[i])))
    }
}

/// The counters of /proc/stat that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    pub(crate) cpus: Vec<(u32, Ticks)>,
    /// Runnable tasks, including running ones.
    pub(crate) running: u64,
    /// Tasks that wait for a disk.
    pub(crate) blocked: u64,
    /// Context switches since boot.
    pub(crate) switches: u64,
    /// Processes and threads started since boot.
    pub(crate) forks: u64,
}

impl Stat {
    /// Replaces the content by that of the text of /proc/stat.
    pub fn parse(&mut self, text: &[u8]) {
        self.cpus.clear();
        (self.running, self.blocked, self.switches, self.forks) = (0, 0, 0, 0);
        for line in lines(text) {
            if let Some(rest) = line.strip_prefix(b"cpu") {
                let mut words = split_words(rest);
                // The first line, without a number, is the sum of the others.
                if rest.first().is_some_and(u8::is_ascii_digit)
                    && let Some(cpu) = words.next().and_then(number)
                {
                    let mut ticks = Ticks::default();
                    ticks.0.iter_mut().zip(words).for_each(|(slot, word)| *slot = number(word).unwrap_or(0));
                    self.cpus.push((cpu as u32, ticks));
                }
            } else if let Some(rest) = line.strip_prefix(b"procs_running") {
                self.running = split_words(rest).next().and_then(number).unwrap_or(0);
            } else if let Some(rest) = line.strip_prefix(b"procs_blocked") {
                self.blocked = split_words(rest).next().and_then(number).unwrap_or(0);
            } else if let Some(rest) = line.strip_prefix(b"ctxt") {
                self.switches = split_words(rest).next().and_then(number).unwrap_or(0);
            } else if let Some(rest) = line.strip_prefix(b"processes") {
                self.forks = split_words(rest).next().and_then(number).unwrap_or(0);
            }
        }
    }
}

/// Counts by line and CPU: /proc/softirqs, with all possible CPUs, and /proc/interrupts, with those that are online.
/// The first line has the CPU of each column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix {
    /// The number of each column's CPU.
    pub cpus: Vec<u32>,
    /// The lines in the file's order.
    pub rows: Vec<MatrixRow>,
}

/// A line of a [`Matrix`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatrixRow {
    /// `TIMER`, `24`, `LOC`.
    pub(crate) label: Vec<u8>,
    /// The text after the counts: chip, trigger, devices.
    pub(crate) about: Vec<u8>,
    /// The count of each of the matrix's CPUs.
    pub counts: Vec<u64>,
}

impl Matrix {
    /// Replaces the content by that of the text of the file, reusing memory.
    pub fn parse(&mut self, text: &[u8]) {
        let mut lines = lines(text);
        self.cpus.clear();
        let head = lines.next().unwrap_or_default();
        self.cpus.extend(split_words(head).filter_map(|w| number(w.strip_prefix(b"CPU")?).map(|n| n as u32)));
        let mut n = 0;
        for line in lines {
            let Some(colon) = memchr::memchr(b':', line) else { continue };
            if self.rows.len() == n {
                self.rows.push(MatrixRow::default());
            }
            self.rows[n].parse(line[..colon].trim_ascii(), &line[colon + 1..], self.cpus.len());
            n += 1;
        }
        self.rows.truncate(n);
    }
}

impl MatrixRow {
    fn parse(&mut self, label: &[u8], mut rest: &[u8], n: usize) {
        self.counts.clear();
        while self.counts.len() < n {
            let start = rest.iter().position(|b| *b != b' ').unwrap_or(rest.len());
            let (mut at, mut value) = (start, 0u64);
            while let Some(digit) = rest.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d < 10) {
                value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
                at += 1;
            }
            if at == start || rest.get(at).is_some_and(|b| *b != b' ') {
                break;
            }
            self.counts.push(value);
            rest = &rest[at..];
        }
        // Some lines have a single count for the whole machine.
        self.counts.resize(n, 0);
        for (slot, now) in [(&mut self.label, label), (&mut self.about, rest.trim_ascii())] {
            if slot.as_slice() != now {
                slot.clear();
                slot.extend_from_slice(now);
            }
        }
    }
}

/// A CPU's line of /proc/net/softnet_stat: packets since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softnet {
    pub(crate) cpu: u32,
    pub(crate) processed: u64,
    /// Dropped because the backlog was full.
    pub(crate) dropped: u64,
    /// How often net_rx_action had to stop with work left.
    pub(crate) squeezed: u64,
    /// How often another CPU was woken to receive (RPS).
    pub(crate) rps: u64,
}

/// Parses /proc/net/softnet_stat. Before Linux 5.10 a line's CPU is the one at its position in `online`.
pub(crate) fn softnet(text: &[u8], online: impl Iterator<Item = u32>, out: &mut Vec<Softnet>) {
    out.clear();
    let mut online = online.fuse();
    for line in lines(text) {
        let mut fields = [0u64; 13];
        let mut n = 0;
        for (slot, word) in fields.iter_mut().zip(split_words(line)) {
            *slot = hex(word).unwrap_or(0);
            n += 1;
        }
        let place = online.next();
        let Some(cpu) = (if n > 12 { u32::try_from(fields[12]).ok() } else { place }) else { continue };
        if n >= 3 {
            out.push(Softnet { cpu, processed: fields[0], dropped: fields[1], squeezed: fields[2], rps: fields[9] });
        }
    }
}

/// Returns the received and outgoing packets that all devices dropped: columns 4 and 12 of /proc/net/dev.
pub(crate) fn drops(text: &[u8]) -> (u64, u64) {
    let mut sum = (0u64, 0u64);
    for line in lines(text) {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let mut columns = split_words(&line[colon + 1..]).map(|word| number(word).unwrap_or(0));
        sum.0 = sum.0.saturating_add(columns.nth(3).unwrap_or(0));
        sum.1 = sum.1.saturating_add(columns.nth(7).unwrap_or(0));
    }
    sum
}

/// The time that tasks waited for a resource (PSI), in percent of the last ten seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// At least one task waited.
    pub(crate) some: f32,
    /// All tasks waited.
    pub(crate) full: f32,
}

impl Pressure {
    /// Parses a file of /proc/pressure; returns `None` if it is malformed.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut out = None;
        for line in lines(text) {
            let line = std::str::from_utf8(line).ok()?;
            let value = line.split_whitespace().find_map(|w| w.strip_prefix("avg10=")).and_then(|v| v.parse().ok());
            match (line.split_whitespace().next(), value) {
                (Some("some"), Some(some)) => out = Some(Self { some, full: 0.0 }),
                (Some("full"), Some(full)) => out = out.map(|p: Self| Self { full, ..p }),
                _ => {}
            }
        }
        out
    }
}

pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        Some(line)
    })
}

pub(super) fn split_words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty())
}

/// Parses a decimal number; the kernel's counters may use all 64 bits and wrap.
pub(super) fn number(word: &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for b in word {
        value = value.wrapping_mul(10).wrapping_add(u64::from(b.is_ascii_digit().then(|| b - b'0')?));
    }
    (!word.is_empty()).then_some(value)
}

fn hex(word: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;
    use proptest::prelude::*;

    #[test]
    fn stat_of_old_and_new_kernels() {
        let mut stat = Stat::default();
        stat.parse(
            b"cpu  10 0 0 0\ncpu0 4705 356 584 3699 23 23 0 0 0 0 7\ncpu32 1 2 3 4\nintr 1 2 3\n\
              ctxt 77\nprocesses 9\nprocs_running 3\nprocs_blocked 1\nsoftirq 1 2\n",
        );
        assert_eq!(stat.cpus[0], (0, Ticks([4705, 356, 584, 3699, 23, 23, 0, 0, 0, 0])));
        assert_eq!(stat.cpus[1], (32, Ticks([1, 2, 3, 4, 0, 0, 0, 0, 0, 0])));
        assert_eq!((stat.cpus.len(), stat.running, stat.blocked, stat.switches, stat.forks), (2, 3, 1, 77, 9));
        assert_eq!(stat.cpus[0].1.since(&Ticks([4700, 400, 0, 0, 0, 0, 0, 0, 0, 0])).0[..2], [5, 0]);
        stat.parse(b"");
        assert_eq!(stat, Stat::default());
    }

    #[test]
    fn a_total_is_without_guests_who_are_users() {
        let ticks = Ticks(std::array::from_fn(|i| 1 << i));
        assert_eq!(ticks.total(), 0xff);
        assert_eq!(Ticks([u64::MAX; Ticks::N]).total(), u64::MAX);
        let before = Ticks([1, 1, 5, 0, 16, 0, 0, 100, 0, 2]);
        assert_eq!(ticks.since(&before).0, [0, 1, 0, 8, 0, 32, 64, 28, 256, 510]);
    }

    #[test]
    fn columns_are_named_by_the_first_line() {
        let mut matrix = Matrix::default();
        matrix.parse(
            b"           CPU0       CPU3\n  0:         44          1   IO-APIC   2-edge      timer\n\
              NMI:          0          7   Non-maskable interrupts\nERR:          5\nno line of it\n 9: 1 2 3x\n\
              8: 1 3x\n7: 4 2: x\n6: 1 2 3 edge\n5: 12",
        );
        assert_eq!(matrix.cpus, [0, 3]);
        let row = |i: usize| {
            let row: &MatrixRow = &matrix.rows[i];
            (std::str::from_utf8(&row.label).expect("text"), row.counts.clone(), row.about.clone())
        };
        assert_eq!(row(0), ("0", vec![44, 1], b"IO-APIC   2-edge      timer".to_vec()));
        assert_eq!(row(1), ("NMI", vec![0, 7], b"Non-maskable interrupts".to_vec()));
        assert_eq!(row(2), ("ERR", vec![5, 0], Vec::new()));
        assert_eq!(row(3), ("9", vec![1, 2], b"3x".to_vec()));
        assert_eq!(row(4), ("8", vec![1, 0], b"3x".to_vec()));
        assert_eq!(row(5), ("7", vec![4, 0], b"2: x".to_vec()));
        assert_eq!(row(6), ("6", vec![1, 2], b"3 edge".to_vec()));
        assert_eq!((row(7), matrix.rows.len()), (("5", vec![12, 0], Vec::new()), 8));
        matrix.parse(b"CPU1\nHI: 18446744073709551615\n");
        assert_eq!((matrix.cpus[0], matrix.rows.len(), matrix.rows[0].counts[0]), (1, 1, u64::MAX));
    }

    #[test]
    fn softnet_with_and_without_the_cpu() {
        let mut list = Vec::new();
        let new = b"00000010 00000002 00000003 0 0 0 0 0 0 00000004 0 00000000 00000005\n";
        softnet(new, [0].into_iter(), &mut list);
        assert_eq!(list, [Softnet { cpu: 5, processed: 16, dropped: 2, squeezed: 3, rps: 4 }]);
        softnet(b"a 1 2 0 0 0 0 0 0 7\nb 0 0 0 0 0 0 0 0 0\nc\n", [1, 4].into_iter(), &mut list);
        assert_eq!(list.iter().map(|s| (s.cpu, s.processed)).collect::<Vec<_>>(), [(1, 10), (4, 11)]);
        // The thirteenth column is the CPU, and three columns are enough.
        softnet(b"a 1 2 3 4 5 6 7 8 9 10 11\na 1 2\na 1\n", [6, 7, 8].into_iter(), &mut list);
        assert_eq!(list.iter().map(|s| (s.cpu, s.rps)).collect::<Vec<_>>(), [(6, 9), (7, 0)]);
    }

    #[test]
    fn drops_of_all_devices() {
        let text = b"Inter-| Receive | Transmit\n face |bytes\n  lo: 1 2 3 4 5 6 7 8 9 10 11 12 13\neth0:1 2 3 40 5 6 7 8 9 10 11 120\n";
        assert_eq!(drops(text), (44, 132));
    }

    #[test]
    fn pressure_lines() {
        let text = b"some avg10=1.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(Pressure::parse(text), Some(Pressure { some: 1.5, full: 0.25 }));
        assert_eq!(Pressure::parse(b"Operation not supported"), None);
    }

    #[test]
    fn no_bytes_panic() {
        let whole: &[&[u8]] = &[
            b"cpu  10 0 0 0\ncpu0 4705 356 584 3699 23 23 0 0 0 0 7\ncpu32 1 2 3 4\nprocs_running 3\nsoftirq 1 2\n",
            b"           CPU0       CPU3\n  0:   44    1   IO-APIC   2-edge   timer\nNMI: 0 7 Non-maskable\nERR: 5\n",
            b"00000010 00000002 00000003 0 0 0 0 0 0 00000004 0 00000000 00000005\na 1 2 0 0 0 0 0 0 7\n",
            b"some avg10=1.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=0\n",
        ];
        let text = damage::bytes(4, proptest::sample::select(whole).prop_map(<[u8]>::to_vec));
        damage::reaching(512, 40, text, |text| {
            let (mut stat, mut matrix, mut packets) = (Stat::default(), Matrix::default(), Vec::new());
            stat.parse(&text);
            matrix.parse(&text);
            assert!(matrix.rows.iter().all(|row| row.counts.len() == matrix.cpus.len()));
            softnet(&text, 0..9, &mut packets);
            let counts = text.starts_with(b"0") && packets.len() == 2;
            !stat.cpus.is_empty()
                || !matrix.rows.is_empty() && !matrix.cpus.is_empty()
                || counts
                || Pressure::parse(&text).is_some()
        });
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn what_is_printed_is_read(rows in proptest::collection::vec((0u32..600, proptest::array::uniform10(any::<u64>())), 0..20)) {
            let line = |(cpu, t): &(u32, [u64; 10])| {
                format!("cpu{cpu} {}\n", t.iter().map(u64::to_string).collect::<Vec<_>>().join(" "))
            };
            let mut stat = Stat::default();
            stat.parse(format!("cpu  1 2\n{}", rows.iter().map(line).collect::<String>()).as_bytes());
            let read: Vec<_> = stat.cpus.iter().map(|(cpu, t)| (*cpu, t.0)).collect();
            prop_assert_eq!(read, rows);
        }
    }
}
