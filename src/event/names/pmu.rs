//! PMU events (`cpu/event=0x3c,umask=1/`), with terms and aliases from sysfs
//! (Documentation/ABI/testing/sysfs-bus-event_source-devices-format and -events).

use std::fs;
use std::path::Path;

use crate::kernel::perf_event::attr::Attr;
use crate::lang::quantity;

pub(crate) const SYSFS: &str = "/sys/bus/event_source/devices";

/// The reason why a term cannot be set; with the known names if its name is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TermError {
    pub(crate) message: String,
    pub(crate) known: Vec<String>,
}

pub(crate) fn all(root: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

pub(crate) fn kind(root: &Path, pmu: &str) -> Option<u32> {
    fs::read_to_string(root.join(pmu).join("type")).ok()?.trim().parse().ok()
}

/// Returns the PMUs of the CPUs: none on most virtual machines, several with several types of CPUs.
pub(crate) fn of_cpus(root: &Path) -> Vec<String> {
    let is = |name: &String| name == "cpu" || name.starts_with("cpu_") || name.starts_with("armv");
    all(root).into_iter().filter(is).collect()
}

pub(crate) fn has_hardware(root: &Path) -> bool {
    !of_cpus(root).is_empty()
}

/// Returns the highest `:p` level that a PMU reports. `None` if it does not report it.
pub(crate) fn max_precise(root: &Path, pmu: &str) -> Option<u8> {
    fs::read_to_string(root.join(pmu).join("caps/max_precise")).ok()?.trim().parse().ok()
}

pub(crate) fn formats(root: &Path, pmu: &str) -> Vec<String> {
    all(&root.join(pmu).join("format"))
}

/// Returns the terms of a PMU's alias, such as `cache-misses`.
pub(crate) fn alias(root: &Path, pmu: &str, name: &str) -> Option<Vec<(String, String)>> {
    let text = fs::read_to_string(root.join(pmu).join("events").join(name)).ok().filter(|_| !name.contains('/'))?;
    let term =
        |term: &str| term.split_once('=').map_or((term.to_owned(), "1".to_owned()), |(n, v)| (n.into(), v.into()));
    Some(text.trim().split(',').map(term).collect())
}

/// Sets one of a PMU's own terms in an attr.
pub(crate) fn set(root: &Path, pmu: &str, (name, value): (&str, &str), attr: &mut Attr) -> Result<(), TermError> {
    let dir = root.join(pmu);
    let fault = |message: String| TermError { message, known: Vec::new() };
    let number = quantity::count(value).map_err(|_| fault(format!("{value} is not a number, as {name} requires")))?;
    let format = (!name.contains('/')).then(|| fs::read_to_string(dir.join("format").join(name)).ok()).flatten();
    let Some(format) = format else {
        return Err(TermError { message: format!("unknown term {name} of this PMU"), known: terms(&dir) });
    };
    let (word, ranges) =
        format.trim().split_once(':').ok_or_else(|| fault(format!("{name} has an unsupported format")))?;
    let bits = spread(number, ranges).ok_or_else(|| fault(format!("{value} does not fit {name} ({ranges})")))?;
    match word {
        "config" => attr.config |= bits,
        "config1" => attr.config1 |= bits,
        "config2" => attr.config2 |= bits,
        other => return Err(fault(format!("{name} is in the unsupported field {other}"))),
    }
    Ok(())
}

/// Distributes the low bits of a value to bit ranges such as `0-7,32-35`. `None` if it does not fit.
fn spread(mut value: u64, ranges: &str) -> Option<u64> {
    let mut bits = 0;
    for range in ranges.split(',') {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to): (u32, u32) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        for bit in from..=to.min(63) {
            bits |= (value & 1).checked_shl(bit)?;
            value >>= 1;
        }
    }
    (value == 0).then_some(bits)
}

fn terms(dir: &Path) -> Vec<String> {
    let mut names = all(&dir.join("format"));
    names.extend(all(&dir.join("events")).into_iter().filter(|n| !n.contains('.')));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("dir");
        for (path, text) in [
            ("cpu/type", "4\n"),
            ("cpu/format/event", "config:0-7,32-35\n"),
            ("cpu/format/umask", "config:8-15\n"),
            ("cpu/format/ldlat", "config1:0-15\n"),
            ("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n"),
            ("cpu/caps/max_precise", "3\n"),
            ("software/type", "1\n"),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
            fs::write(path, text).expect("write");
        }
        dir
    }

    #[test]
    fn terms_and_aliases() {
        let dir = tree();
        let mut attr = Attr::default();
        for term in [("event", "0x1c2"), ("umask", "3")] {
            set(dir.path(), "cpu", term, &mut attr).expect("a term");
        }
        assert_eq!(attr.config, 1 << 32 | 0x3c2);
        let loads = alias(dir.path(), "cpu", "mem-loads").expect("an alias");
        assert_eq!(
            loads.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>(),
            ["event=0xcd", "umask=0x1", "ldlat=3"]
        );
        assert_eq!(alias(dir.path(), "cpu", "../type"), None);
        assert_eq!(kind(dir.path(), "cpu"), Some(4));
        assert!(has_hardware(dir.path()));
        assert_eq!(of_cpus(dir.path()), ["cpu"]);
        assert_eq!(formats(dir.path(), "cpu"), ["event", "ldlat", "umask"]);
        assert_eq!((max_precise(dir.path(), "cpu"), max_precise(dir.path(), "software")), (Some(3), None));
    }

    #[test]
    fn faults_name_the_term() {
        let dir = tree();
        let set = |term| set(dir.path(), "cpu", term, &mut Attr::default());
        let error = set(("evnt", "1")).expect_err("unknown");
        assert!(error.message.contains("unknown term evnt") && error.known.contains(&"event".to_owned()));
        for term in [("umask", "0x100"), ("umask", "x"), ("../type", "1")] {
            assert!(set(term).is_err(), "{term:?}");
        }
    }
}
