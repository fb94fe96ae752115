//! Block devices by name (Documentation/ABI/stable/sysfs-block).

use std::path::Path;

const CLASS: &str = "/sys/class/block";

/// Returns the major and minor number of a disk or partition of this machine.
pub fn block_device(name: &str) -> Option<(u32, u32)> {
    if name.is_empty() || name.contains(['/', '.']) {
        return None;
    }
    let text = std::fs::read_to_string(Path::new(CLASS).join(name).join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the name of a disk or partition by its numbers.
pub fn block_device_of(major: u32, minor: u32) -> Option<String> {
    let place = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    place.file_name()?.to_str().map(str::to_owned)
}

/// Returns the number of incomplete requests of a disk, by its numbers.
pub(crate) fn inflight(major: u32, minor: u32) -> Option<u64> {
    inflight_of(&std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/inflight")).ok()?)
}

/// Reads and writes (Documentation/block/stat.rst).
fn inflight_of(text: &str) -> Option<u64> {
    let mut words = text.split_ascii_whitespace();
    let (reads, writes): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    reads.checked_add(writes)
}

/// Returns all block devices, sorted.
pub fn block_devices() -> Vec<String> {
    let entries = std::fs::read_dir(CLASS).map(|dir| dir.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let mut names: Vec<String> = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_disk_are_reads_and_writes() {
        let max = format!("{} 1", u64::MAX);
        for (text, sum) in [("       3       14\n", Some(17)), ("0 0", Some(0)), ("3", None), ("", None), (&max, None)]
        {
            assert_eq!(inflight_of(text), sum, "{text:?}");
        }
        assert_eq!(inflight(u32::MAX, 0), None);
    }

    /// Compares them with the kernel's list of partitions and their numbers.
    #[test]
    fn disks_are_those_of_the_partition_table() {
        let text = std::fs::read_to_string("/proc/partitions").unwrap_or_default();
        let names = block_devices();
        assert!(names.is_sorted());
        // sysfs replaces a slash in a name by another character.
        for line in text.lines().skip(2).filter(|line| !line.contains('/')) {
            let [major, minor, _, name] = *line.split_whitespace().collect::<Vec<_>>() else { panic!("{line}") };
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
            let numbers = major.parse().ok().zip(minor.parse().ok());
            assert_eq!(block_device(name), numbers);
            assert_eq!(block_device(&format!("{name}/../{name}")), None);
        }
        assert_eq!([block_device(""), block_device("no-disk"), block_device("..")], [None; 3]);
    }
}
