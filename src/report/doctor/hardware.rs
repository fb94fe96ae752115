//! The doctor's checks of the CPU's PMU: events, counters, precision levels and branch records.

use std::path::Path;

use crate::event::pmu;
use crate::event::supported::Supported;
use crate::kernel::sys::Sys;

use super::{Check, bad, good, limited};

/// Returns the items of the PMUs in a sysfs tree.
pub(super) fn checks(root: &Path, sys: &dyn Sys) -> Vec<Check> {
    let pmus = pmu::of_cpus(root);
    let Some(name) = pmus.first() else { return vec![without().named("hardware counters")] };
    let Some(has) = Supported::ask(sys) else {
        let found = format!("this user may not query the events of the PMU ({})", pmus.join(", "));
        return vec![bad(found, "Apply the remedy of perf_event_open.").named("hardware counters")];
    };
    vec![
        counters(&pmus.join(", "), &has).named("hardware counters"),
        caches(&has).named("cache events"),
        raw(root, &pmus).named("raw events"),
        precision(root, name, &has).named("precise samples"),
        branches(&has).named("branch stacks"),
    ]
}

fn without() -> Check {
    limited(
        "no CPU PMU (usual in virtual machines): cycles becomes cpu-clock, a timer; samples of code with interrupts off are attributed to where they are enabled again",
        "On a VM host, expose the PMU (KVM: -cpu host,pmu=on).",
    )
}

fn counters(pmus: &str, has: &Supported) -> Check {
    let (counted, lacks) = (has.events.0.join(" "), has.events.1.join(" "));
    let at_a_time = match has.counters {
        0 => String::new(),
        n => format!("; {n} events at a time; more are multiplexed and scaled"),
    };
    let lacking = if lacks.is_empty() { String::new() } else { format!("; it has no {lacks}") };
    let found = format!("{pmus} counts {}{lacking}{at_a_time}", if counted.is_empty() { "none" } else { &counted });
    match (has.events.0.iter().any(|name| name == "cycles"), has.samples) {
        (false, _) => limited(
            format!("{found}; cycles becomes cpu-clock, a timer"),
            "On a VM host, expose the whole PMU (KVM: -cpu host,pmu=on).",
        ),
        (true, false) => limited(
            format!("{found}; it has no interrupt for sampling: cycles becomes cpu-clock, a timer"),
            "`perfprof-tui stat` works; the firmware must report the PMU's interrupt to the kernel.",
        ),
        (true, true) => good(found),
    }
}

fn caches(has: &Supported) -> Check {
    let (counted, lacks) = (&has.caches.0, has.caches.1.len());
    match counted.is_empty() {
        true => limited(
            format!(
                "none: the kernel does not support any of {lacks} events on this PMU (L1-dcache-loads, LLC-loads…)"
            ),
            "Use -e rHEX for events in the CPU's manual.",
        ),
        false => good(counted.join(" ")),
    }
}

fn raw(root: &Path, pmus: &[String]) -> Check {
    let spelled = pmus.iter().map(|name| {
        let terms: Vec<String> = pmu::formats(root, name).iter().map(|term| format!("{term}=")).collect();
        format!("{name}/{}/", terms.join(","))
    });
    let spelled: Vec<String> = spelled.collect();
    let found = format!("-e rHEX from the CPU's manual, and the terms {}", spelled.join(" "));
    good(found)
}

fn precision(root: &Path, name: &str, has: &Supported) -> Check {
    let levels = &["none", ":p", ":p :pp", ":p :pp :ppp"][usize::from(has.precise.min(3))];
    match (has.precise, pmu::max_precise(root, name)) {
        (0, _) => limited("none: cycles:p is not precise; samples are some instructions late", ""),
        (_, Some(0)) | (_, None) => limited(
            format!("{levels} are accepted without effect: {name} reports no precision level (caps/max_precise)"),
            "",
        ),
        (_, Some(_)) => good(format!("cycles{levels}")),
    }
}

fn branches(has: &Supported) -> Check {
    match has.branches {
        true => good("-b, -j and --call-graph lbr"),
        false => limited("none: this CPU or VM has no branch records; -b, -j and --call-graph lbr do not work", ""),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;
    use crate::kernel::attr::{TYPE_HARDWARE, TYPE_HW_CACHE};
    use crate::kernel::fake::FakeSys;
    use crate::kernel::sys::Errno;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("dir");
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        dir
    }

    fn said(root: &Path, sys: &FakeSys) -> Vec<(String, CheckState, String)> {
        let list = checks(root, sys);
        list.into_iter().map(|check| (check.name.to_owned(), check.state, check.found)).collect()
    }

    #[test]
    fn each_event_is_told_as_the_kernel_answers() {
        let arm = tree(&[("armv8_pmuv3_0/format/event", "config:0-15"), ("armv8_pmuv3_0/format/long", "config1:0")]);
        let sys = FakeSys::new(|attr, _, _| match (attr.kind, attr.config) {
            _ if attr.branch_sample_type != 0 => Err(Errno::OPNOTSUPP),
            (TYPE_HARDWARE, 0 | 1) => Ok(()),
            _ => Err(Errno::NOENT),
        });
        let list = said(arm.path(), &sys);
        let of = |name: &str| list.iter().find(|one| one.0 == name).expect("an item").clone();
        let counters = of("hardware counters");
        assert_eq!(counters.1, CheckState::Good);
        assert!(counters.2.starts_with("armv8_pmuv3_0 counts cycles instructions; it has no cache-references "));
        assert!(of("cache events").2.starts_with("none"));
        assert!(of("raw events").2.ends_with(" armv8_pmuv3_0/event=,long=/"));
        assert!(of("precise samples").2.starts_with(":p :pp :ppp are accepted without effect"));
        assert!(of("branch stacks").2.starts_with("none"));

        let x86 = tree(&[("cpu/format/event", "config:0-7"), ("cpu/caps/max_precise", "3")]);
        let sys = FakeSys::new(|attr, _, _| match (attr.kind, attr.config) {
            _ if attr.precise() > 2 => Err(Errno::OPNOTSUPP),
            (TYPE_HARDWARE, _) | (TYPE_HW_CACHE, 0) => Ok(()),
            _ => Err(Errno::NOENT),
        });
        let list = said(x86.path(), &sys);
        assert!(list.iter().all(|one| one.1 == CheckState::Good), "{list:?}");
        assert_eq!((list[1].2.as_str(), list[3].2.as_str()), ("L1-dcache-loads", "cycles:p :pp"));
    }

    #[test]
    fn what_lacks_is_told_with_what_comes_instead() {
        let none = tree(&[("software/type", "1")]);
        let sys = |errno| FakeSys::new(move |_, _, _| Err(errno));
        assert!(said(none.path(), &sys(Errno::NOENT))[0].2.contains("no CPU PMU"));
        let cpu = tree(&[("cpu/type", "4")]);
        assert_eq!(said(cpu.path(), &sys(Errno::ACCESS)).len(), 1, "one item without permission");
        let blind = said(cpu.path(), &sys(Errno::NOENT));
        assert!(blind[0].1 == CheckState::Limited && blind[0].2.contains("becomes cpu-clock"), "{blind:?}");
        assert!(blind[3].2.starts_with("none"), "{blind:?}");
        let counts = FakeSys::new(|attr, _, _| if attr.period_or_freq > 0 { Err(Errno::OPNOTSUPP) } else { Ok(()) });
        let list = said(cpu.path(), &counts);
        assert!(list[0].1 == CheckState::Limited && list[0].2.contains("no interrupt"), "{list:?}");
    }
}
