//! The topology of CPUs (Documentation/admin-guide/cputopology.rst, ABI/testing/sysfs-devices-system-cpu).

use std::path::Path;

use crate::kernel::cpus::{format_list, parse_list};

/// The position of a CPU in the topology.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuPlace {
    pub(crate) node: Option<u32>,
    pub(crate) package: Option<u32>,
    pub(crate) die: Option<u32>,
    pub(crate) core: Option<u32>,
    /// The CPUs that share its core, including itself; empty if unknown.
    pub(crate) siblings: String,
}

/// The machine's CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    pub(crate) online: Vec<u32>,
    pub(crate) offline: Vec<u32>,
    pub(crate) isolated: Vec<u32>,
    pub(crate) nohz_full: Vec<u32>,
    /// By the number of the CPU.
    pub(crate) places: Vec<CpuPlace>,
}

impl Topology {
    /// Reads the topology; missing parts stay empty.
    pub(crate) fn read(sys: &Path) -> Self {
        let dir = sys.join("devices/system/cpu");
        let list = |name: &str| {
            let text = std::fs::read_to_string(dir.join(name)).unwrap_or_default();
            parse_list(&text).unwrap_or_default()
        };
        let (online, present) = (Self::online(sys), list("present"));
        let offline = present.iter().filter(|cpu| !online.contains(cpu)).copied().collect();
        let last = online.iter().chain(&present).max().map_or(0, |cpu| *cpu as usize + 1);
        let mut places: Vec<CpuPlace> = (0..last).map(|cpu| place(&dir.join(format!("cpu{cpu}/topology")))).collect();
        for (node, cpus) in nodes(&sys.join("devices/system/node")) {
            for cpu in cpus {
                if let Some(place) = places.get_mut(cpu as usize) {
                    place.node = Some(node);
                }
            }
        }
        Self { online, offline, isolated: list("isolated"), nohz_full: list("nohz_full"), places }
    }

    pub(crate) fn online(sys: &Path) -> Vec<u32> {
        let text = std::fs::read_to_string(sys.join("devices/system/cpu/online")).unwrap_or_default();
        parse_list(&text).unwrap_or_default()
    }

    pub(crate) fn place(&self, cpu: u32) -> CpuPlace {
        self.places.get(cpu as usize).cloned().unwrap_or_default()
    }
}

fn place(dir: &Path) -> CpuPlace {
    let text = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
    let number = |name: &str| text(name).trim().parse().ok();
    let siblings = parse_list(&text("thread_siblings_list")).unwrap_or_default();
    CpuPlace {
        node: None,
        package: number("physical_package_id"),
        die: number("die_id"),
        core: number("core_id"),
        siblings: format_list(&siblings),
    }
}

fn nodes(dir: &Path) -> Vec<(u32, Vec<u32>)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let node = |entry: std::fs::DirEntry| {
        let node = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        let cpus = std::fs::read_to_string(entry.path().join("cpulist")).ok()?;
        Some((node, parse_list(&cpus).ok()?))
    };
    let mut found: Vec<(u32, Vec<u32>)> = entries.flatten().filter_map(node).collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_two_nodes_and_an_offline_cpu() {
        let dir = tempfile::tempdir().expect("dir");
        for (path, text) in [
            ("devices/system/cpu/online", "0-1,3"),
            ("devices/system/cpu/present", "0-3"),
            ("devices/system/cpu/isolated", "3"),
            ("devices/system/cpu/nohz_full", "(null)"),
            ("devices/system/cpu/cpu1/topology/physical_package_id", "1"),
            ("devices/system/cpu/cpu1/topology/core_id", "7"),
            ("devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3"),
            ("devices/system/node/node2/cpulist", "1,3"),
            ("devices/system/node/has_cpu", "0-1"),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
            std::fs::write(path, format!("{text}\n")).expect("write");
        }
        let topology = Topology::read(dir.path());
        assert_eq!((topology.online.as_slice(), topology.offline.as_slice()), (&[0, 1, 3][..], &[2][..]));
        assert_eq!((topology.isolated.as_slice(), topology.nohz_full.is_empty()), (&[3][..], true));
        let one = CpuPlace { node: Some(2), package: Some(1), die: None, core: Some(7), siblings: "1,3".into() };
        assert_eq!((topology.place(1), topology.place(0)), (one, CpuPlace::default()));
        assert_eq!((topology.places.len(), topology.place(3).node), (4, Some(2)));
        assert_eq!(topology.place(99), CpuPlace::default());
        assert_eq!(Topology::read(Path::new("/nowhere")), Topology::default());
    }
}
