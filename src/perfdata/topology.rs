//! The CPU topology section (`HEADER_CPU_TOPOLOGY`): reading it, and writing that of this machine.

use std::path::Path;

use crate::kernel::cpus;

use super::bytes::{ByteReader, MAX_ENTRIES};
use super::features::{FeatureSection, bit, string};
use super::read::Recording;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTopology {
    /// CPU lists of each socket (old recorders: core); `dies` has those of dies, if recorded, `threads` those of cores.
    pub(crate) siblings: Vec<String>,
    pub(crate) dies: Option<Vec<String>>,
    pub(crate) threads: Vec<String>,
    /// The core and the socket of each CPU; empty if not recorded.
    pub(crate) places: Vec<(u32, u32)>,
    /// The die of each CPU.
    pub(crate) die_of: Vec<u32>,
}

impl CpuTopology {
    pub(crate) fn of(rec: &Recording) -> Option<Self> {
        let available = rec.features.get(bit::NRCPUS).and_then(|bytes| ByteReader::new(bytes, rec.big).u32());
        Self::read(&mut ByteReader::new(rec.features.get(bit::CPU_TOPOLOGY)?, rec.big), available.unwrap_or(0))
    }

    fn read(b: &mut ByteReader<'_>, cpus: u32) -> Option<Self> {
        let cpus = cpus.min(MAX_ENTRIES);
        let (siblings, threads) = (b.list(ByteReader::string)?, b.list(ByteReader::string)?);
        let places: Option<Vec<(u32, u32)>> = (0..cpus).map(|_| Some((b.u32()?, b.u32()?))).collect();
        let dies = b.list(ByteReader::string);
        let die_of: Option<Vec<u32>> = dies.as_ref().and_then(|_| (0..cpus).map(|_| b.u32()).collect());
        let (places, die_of) = (places.unwrap_or_default(), die_of.unwrap_or_default());
        Some(Self { siblings, dies, threads, places, die_of })
    }

    /// Returns the section of a machine, from the directories of its CPUs below `dir`.
    pub(crate) fn section(dir: &Path, cpus: usize) -> FeatureSection {
        let file = |cpu: usize, names: &[&str]| {
            let at = |name: &&str| std::fs::read_to_string(dir.join(format!("cpu{cpu}/topology/{name}"))).ok();
            names.iter().find_map(at).map(|text| text.trim().to_owned())
        };
        let lists = |names: &[&str]| {
            let mut all: Vec<String> = (0..cpus).filter_map(|cpu| file(cpu, names)).collect();
            all.sort();
            all.dedup();
            all.truncate(MAX_ENTRIES as usize);
            let listed = all.iter().flat_map(|list| string(list));
            (all.len() as u32).to_le_bytes().into_iter().chain(listed).collect::<Vec<u8>>()
        };
        let mut out = lists(&["package_cpus_list", "core_siblings_list"]);
        out.extend(lists(&["core_cpus_list", "thread_siblings_list"]));
        for cpu in 0..cpus {
            // The core and the socket of an offline CPU are unknown; perf writes -1.
            let number = |name| file(cpu, &[name]).and_then(|text| text.parse::<i32>().ok()).unwrap_or(-1);
            out.extend(number("core_id").to_le_bytes());
            out.extend(number("physical_package_id").to_le_bytes());
        }
        // perf reads dies whenever the section has bytes left. In a stream it always has, because of padding.
        out.extend(lists(&["die_cpus_list", "package_cpus_list", "core_siblings_list"]));
        for cpu in 0..cpus {
            let die = file(cpu, &["die_id"]).and_then(|text| text.parse::<u32>().ok()).unwrap_or(0);
            out.extend(die.to_le_bytes());
        }
        (bit::CPU_TOPOLOGY, out)
    }

    pub(crate) fn here() -> FeatureSection {
        Self::section(Path::new("/sys/devices/system/cpu"), cpus::possible())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_of_a_machine_is_read_again() {
        let dir = tempfile::tempdir().expect("a folder");
        for (cpu, core, socket) in [(0, 0, 0), (1, 4, 1)] {
            let place = dir.path().join(format!("cpu{cpu}/topology"));
            std::fs::create_dir_all(&place).expect("made");
            let files = [
                ("package_cpus_list", cpu.to_string()),
                ("thread_siblings_list", cpu.to_string()),
                ("core_id", core.to_string()),
                ("physical_package_id", socket.to_string()),
            ];
            files
                .iter()
                .for_each(|(name, text)| std::fs::write(place.join(name), format!("{text}\n")).expect("written"));
        }
        let (_, bytes) = CpuTopology::section(dir.path(), 3);
        let told = CpuTopology::read(&mut ByteReader::new(&bytes, false), 3).expect("readable");
        let lists = || vec!["0".to_owned(), "1".to_owned()];
        let places = vec![(0, 0), (4, 1), (u32::MAX, u32::MAX)];
        let (dies, die_of) = (Some(lists()), vec![0; 3]);
        assert_eq!(told, CpuTopology { siblings: lists(), dies, threads: lists(), places: places.clone(), die_of });
        let cut = CpuTopology::read(&mut ByteReader::new(&bytes[..bytes.len() - 4], false), 3).expect("readable");
        assert!(cut.die_of.is_empty() && cut.places == places && cut.threads == lists());
        // Older recordings have no dies.
        let dies = 4 + 2 * 68 + 3 * 4;
        let old = CpuTopology::read(&mut ByteReader::new(&bytes[..bytes.len() - dies], false), 3).expect("readable");
        assert!(old.dies.is_none() && old.places == places);
        assert_eq!(CpuTopology::read(&mut ByteReader::new(&[9, 0], false), 3), None);
    }
}
