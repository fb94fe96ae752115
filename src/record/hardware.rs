//! Hardware data of samples in perf's words: branches (`struct perf_branch_entry`), sources of data
//! (`union perf_mem_data_src`) and transactions (`PERF_TXN_*`). Layout: linux/perf_event.h.

use super::sample::u64s;

const BRANCH: usize = 24;

/// A taken branch, with the CPU's data about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Branch {
    /// The address of the branch instruction.
    pub from: u64,
    /// The target address.
    pub to: u64,
    /// The third word of `struct perf_branch_entry`: prediction, transaction, cycles, type.
    pub flags: BranchFlags,
}

/// The flag word of a branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BranchFlags(pub u64);

/// Returns the branches of a sample, newest first.
pub(crate) fn branches(bytes: &[u8]) -> impl DoubleEndedIterator<Item = Branch> + '_ {
    bytes.chunks_exact(BRANCH).map(|entry| {
        let mut words = u64s(entry);
        let mut next = || words.next().unwrap_or_default();
        Branch { from: next(), to: next(), flags: BranchFlags(next()) }
    })
}

impl BranchFlags {
    fn bit(self, at: u32) -> bool {
        self.0 >> at & 1 == 1
    }

    /// Returns whether it was mispredicted; `None` if the CPU does not report it.
    pub(crate) fn is_mispredicted(self) -> Option<bool> {
        match (self.bit(0), self.bit(1)) {
            (_, true) => Some(false),
            (true, false) => Some(true),
            (false, false) => None,
        }
    }

    pub(crate) fn is_in_transaction(self) -> bool {
        self.bit(2)
    }

    pub(crate) fn is_abort(self) -> bool {
        self.bit(3)
    }

    /// Returns the kind of branch (`PERF_BR_*`); `None` if the CPU does not report it.
    pub(crate) fn kind(self) -> Option<&'static str> {
        const KINDS: &[&str] = &[
            "COND",
            "UNCOND",
            "IND",
            "CALL",
            "IND_CALL",
            "RET",
            "SYSCALL",
            "SYSRET",
            "COND_CALL",
            "COND_RET",
            "ERET",
            "IRQ",
        ];
        let kind = (self.0 >> 20 & 15) as usize;
        KINDS.get(kind.checked_sub(1)?).copied()
    }

    /// Returns cycles since the previous branch; `None` if the CPU does not count them.
    pub(crate) fn cycles(self) -> Option<u16> {
        Some((self.0 >> 4) as u16).filter(|cycles| *cycles > 0)
    }
}

/// The source of an access's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataSource(pub u64);

const NOTHING: &str = "N/A";
const LEVELS: &[&str] = &[
    NOTHING,
    "",
    "",
    "L1",
    "LFB/MAB",
    "L2",
    "L3",
    "Local RAM",
    "Remote RAM (1 hop)",
    "Remote RAM (2 hops)",
    "Remote Cache (1 hop)",
    "Remote Cache (2 hops)",
    "I/O",
    "Uncached",
];
const SNOOPS: &[&str] = &[NOTHING, "None", "Hit", "Miss", "HitM"];
const MORE_SNOOPS: &[&str] = &["Fwd", "Peer"];
const TLBS: &[&str] = &[NOTHING, "", "", "L1", "L2", "Walker", "Fault"];
const HOPS: &[&str] = &["", "core, same node", "node, same socket", "socket, same board", "board"];

fn named<'a>(bits: u64, names: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let set = names.iter().enumerate().filter(move |(at, name)| bits >> at & 1 == 1 && !name.is_empty());
    set.map(|(_, name)| *name)
}

fn either<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    if words.is_empty() { NOTHING.to_owned() } else { words.join(" or ") }
}

fn outcome(bits: u64) -> String {
    let words = [(2, " hit"), (4, " miss")];
    words.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, word)| *word).collect()
}

impl DataSource {
    fn part(self, at: u32, bits: u32) -> u64 {
        self.0 >> at & ((1 << bits) - 1)
    }

    /// Returns the operation: `LOAD`.
    pub(crate) fn operation(self) -> &'static str {
        const OPERATIONS: &[&str] = &[NOTHING, "LOAD", "STORE", "PFETCH", "EXEC"];
        named(self.part(0, 5), OPERATIONS).next().unwrap_or("No")
    }

    /// Returns the level of memory that had the data: `L1 or L1 hit`.
    pub(crate) fn level(self) -> String {
        let (level, hops) = (self.part(5, 14), self.part(43, 3));
        let number = match self.part(33, 4) {
            0 => None,
            0xb => Some("Any cache".to_owned()),
            0xc => Some("LFB/MAB".to_owned()),
            0xd => Some("RAM".to_owned()),
            0xe => Some("PMEM".to_owned()),
            0xf => Some(NOTHING.to_owned()),
            n => Some(format!("L{n}")),
        };
        // The distance replaces the levels, which would repeat it.
        let levels = named(if hops == 0 { level } else { 0 }, LEVELS).map(str::to_owned);
        let places: Vec<String> = levels.chain(number).collect();
        let remote = if self.part(37, 1) == 1 { "Remote " } else { "" };
        let far = match HOPS.get(hops as usize) {
            Some(name) if hops > 0 => format!("{name} "),
            _ => String::new(),
        };
        let place = format!("{remote}{far}{}", places.join(" or "));
        format!("{}{}", if place.is_empty() { NOTHING } else { &place }, outcome(level))
    }

    pub(crate) fn snoop(self) -> String {
        let more = named(self.part(38, 2), MORE_SNOOPS);
        either(named(self.part(19, 5), SNOOPS).chain(more))
    }

    /// Returns the TLB that had the address: `L1 hit`.
    pub(crate) fn tlb(self) -> String {
        let bits = self.part(26, 7);
        either(named(bits, TLBS)) + &outcome(bits)
    }

    pub(crate) fn locked(self) -> &'static str {
        match self.part(24, 2) {
            bits if bits & 1 == 1 => NOTHING,
            bits if bits & 2 == 2 => "Yes",
            _ => "No",
        }
    }

    pub(crate) fn blocked(self) -> &'static str {
        match self.part(40, 3) {
            bits if bits & 1 == 1 => NOTHING,
            2 => "Data",
            4 => "Addr",
            6 => "Data Addr",
            _ => NOTHING,
        }
    }
}

/// Formats the size of a page like perf, with the larger unit only from two of it on: `4K`, `2M`, `1024M`.
pub(crate) fn page_size(size: u64) -> String {
    let units = [(30, 'G'), (20, 'M'), (10, 'K'), (0, 'B')];
    let unit = units.into_iter().find(|(shift, _)| size >> shift > u64::from(*shift > 0));
    unit.map_or_else(|| NOTHING.to_owned(), |(shift, letter)| format!("{}{letter}", size >> shift))
}

/// Returns the reasons of a transaction's abort: `TX SYNC CON :4`.
pub(crate) fn transaction(word: u64) -> String {
    const NAMES: &[&str] = &["EL", "TX", "SYNC", "ASYNC", "RETRY", "CON", "CAP-WRITE", "CAP-READ"];
    const SYNC_OR_ASYNC: u64 = 4 | 8;
    let mut words: Vec<String> = named(word, NAMES).map(str::to_owned).collect();
    words.extend((word != 0 && word & SYNC_OR_ASYNC == 0).then(|| "NEITHER".to_owned()));
    words.extend(Some(word >> 32).filter(|code| *code > 0).map(|code| format!(":{code:x}")));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_branches() {
        let of = |flags: u64| {
            let flags = BranchFlags(flags);
            (flags.is_mispredicted(), flags.is_in_transaction(), flags.is_abort(), flags.cycles())
        };
        assert_eq!(of(0), (None, false, false, None));
        assert_eq!(of(1 | 4 | 8), (Some(true), true, true, None));
        assert_eq!(of(2 | 0xffff << 4 | 7 << 20), (Some(false), false, false, Some(0xffff)));
        let kinds = [0u64, 1, 6, 12, 13].map(|kind| BranchFlags(kind << 20).kind());
        assert_eq!(kinds, [None, Some("COND"), Some("RET"), Some("IRQ"), None]);
        assert_eq!([0, 1, 2, 6].map(|word| DataSource(word).operation()), ["No", "N/A", "LOAD", "LOAD"]);
        let bytes = crate::record::kinds::tests::bytes(&[1, 2, 3, 4, 5, 6, 7]);
        let list: Vec<_> = branches(&bytes).map(|branch| (branch.from, branch.to, branch.flags.0)).collect();
        assert_eq!(list, [(1, 2, 3), (4, 5, 6)], "a truncated entry is ignored");
    }

    #[test]
    fn sizes_of_pages_are_short() {
        let sizes = [0, 100, 1024, 4096, 65536, 1 << 20, 2 << 20, 1 << 30, 16 << 30];
        let words = ["N/A", "100B", "1024B", "4K", "64K", "1024K", "2M", "1024M", "16G"];
        assert_eq!(sizes.map(page_size), words);
    }

    #[test]
    fn nothing_breaks_the_words() {
        for at in 0..64 {
            for word in [1u64 << at, u64::MAX >> at, u64::MAX << at] {
                let source = DataSource(word);
                assert!(![source.level(), source.snoop(), source.tlb()].iter().any(String::is_empty), "{word:#x}");
                let _ = (source.operation(), source.locked(), source.blocked(), transaction(word));
            }
        }
        assert_eq!(
            (DataSource(0).level(), DataSource(0).locked(), transaction(0)),
            ("N/A".into(), "No", String::new())
        );
    }
}
