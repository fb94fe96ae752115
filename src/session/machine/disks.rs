//! Block devices by name (Documentation/ABI/stable/sysfs-block).

use std::path::Path;

const CLASS: &str = "/sys/class/block";

/// Major and minor number of a disk or partition of this machine.
pub fn block_device(name: &str) -> Option<(u32, u32)> {
    if name.is_empty() || name.contains(['/', '.']) {
        return None;
    }
    let text = std::fs::read_to_string(Path::new(CLASS).join(name).join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// All of them, in order.
pub fn block_devices() -> Vec<String> {
    let entries = std::fs::read_dir(CLASS).map(|dir| dir.flatten().collect::<Vec<_>>()).unwrap_or_default();
    let mut names: Vec<String> = entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
