//! Branches of samples, or the address and source of their data, by the positions of the profile's samples.

use rustc_hash::FxHashMap;

use crate::profile::{Frame, FrameId, Profile};
use crate::record::Sample;
use crate::record::hardware::branches;
use crate::record::rare::RareFields;
use crate::session::{MapId, Session};

/// The data that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardwareWords {
    /// Each branch of a sample separately.
    Branches,
    /// The addresses and the source of its data, the sizes of its pages, its cost, and its transaction.
    Accesses,
}

/// A branch, or an access to memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Detail {
    pub(crate) from: Option<FrameId>,
    pub(crate) to: Option<FrameId>,
    pub(crate) flags: u64,
    /// The address of the data, and its source.
    pub(crate) data: Option<FrameId>,
    pub(crate) source: u64,
    pub(crate) weight: u64,
    pub(crate) latency: u16,
    pub(crate) transaction: u64,
    /// The physical address of the data, and the sizes of its page and of the code's page.
    pub(crate) phys_addr: u64,
    pub(crate) data_page: u64,
    pub(crate) code_page: u64,
}

/// All details: each distinct one once, and the numbers of each sample's details.
#[derive(Debug)]
pub struct HardwareLog {
    wanted: HardwareWords,
    list: Vec<Detail>,
    numbers: FxHashMap<Detail, u32>,
    samples: Vec<(u64, usize)>,
    of_samples: Vec<u32>,
}

impl HardwareLog {
    pub(crate) fn new(wanted: HardwareWords) -> Self {
        let (list, numbers) = (Vec::new(), FxHashMap::default());
        Self { wanted, list, numbers, samples: Vec::new(), of_samples: Vec::new() }
    }

    pub(crate) fn take(
        &mut self,
        session: &Session,
        profile: &mut Profile,
        (sample, rare): (&Sample<'_>, &RareFields<'_>),
        position: u64,
    ) {
        self.samples.push((position, self.of_samples.len()));
        let (latency, transaction) = (sample.latency, sample.transaction);
        let told = Detail { latency, transaction, code_page: rare.code_page_size, ..Detail::default() };
        match self.wanted {
            HardwareWords::Branches => {
                // As in perf, a branch's weight is the cycles of the newest branch of its sample.
                let weight =
                    branches(sample.branches).next().and_then(|branch| branch.flags.cycles()).map_or(1, u64::from);
                for branch in branches(sample.branches) {
                    let mut place = |ip: u64| Some(profile.frames.intern(code(session, sample.pid, ip)));
                    let (from, to) = (place(branch.from), place(branch.to));
                    self.add(Detail { from, to, flags: branch.flags.0, weight, ..told });
                }
            }
            HardwareWords::Accesses => {
                let map = session.data_map(sample.pid, sample.addr);
                let data = profile.frames.intern(Frame { map, caller: false, ip: sample.addr });
                self.add(Detail {
                    data: Some(data),
                    source: sample.data_src,
                    weight: sample.weight,
                    phys_addr: rare.phys_addr,
                    data_page: rare.data_page_size,
                    ..told
                });
            }
        }
    }

    fn add(&mut self, detail: Detail) {
        let next = self.list.len() as u32;
        let number = *self.numbers.entry(detail).or_insert(next);
        if number == next {
            self.list.push(detail);
        }
        self.of_samples.push(number);
    }

    pub(crate) fn get(&self, number: u32) -> Detail {
        self.list.get(number as usize).copied().unwrap_or_default()
    }

    pub(crate) fn of(&self, position: u64) -> &[u32] {
        let Ok(at) = self.samples.binary_search_by_key(&position, |(position, _)| *position) else { return &[] };
        let until = self.samples.get(at + 1).map_or(self.of_samples.len(), |(_, from)| *from);
        &self.of_samples[self.samples[at].1..until]
    }
}

fn code(session: &Session, pid: i32, ip: u64) -> Frame {
    let mut places = session.places(pid);
    // Kernel addresses have the highest bit set.
    let (map, ip) = match ip >> 63 {
        1 => places.kernel(ip),
        _ => places.user(ip).unwrap_or((MapId::UNKNOWN, ip)),
    };
    Frame { map, caller: false, ip }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kinds::tests::bytes;
    use crate::session::Origin;

    #[test]
    fn each_sample_has_its_own() {
        let (session, mut profile) = (Session::new(Origin::Recorded), Profile::default());
        let mut log = HardwareLog::new(HardwareWords::Branches);
        let (one, two) = (bytes(&[1, 2, 3]), bytes(&[4, 5, 6, 1, 2, 3]));
        for (position, branches) in [(3, &one[..]), (4, &[]), (9, &two[..])] {
            let sample = Sample { branches, ..Sample::default() };
            log.take(&session, &mut profile, (&sample, &RareFields::default()), position);
        }
        assert_eq!(
            [0, 3, 4, 5, 9, 10].map(|position| log.of(position).to_vec()),
            [vec![], vec![0], vec![], vec![], vec![1, 0], vec![]]
        );
        assert_eq!((log.get(1).flags, log.get(0).flags, log.get(7)), (6, 3, Detail::default()));
    }
}
