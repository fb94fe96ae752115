//! The catalogue of all events that this machine can measure. Each has a one-line description.

use std::fs;

use crate::kernel::perf_event::attr::{TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_SOFTWARE};
use crate::kernel::perf_event::sys::Sys;

use super::perf_names;
use super::pmu;
use super::spec::LookupPaths;
use super::supported;
use crate::event::tracepoint;
use crate::event::tracepoint::format::Format;

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// A generic hardware event of the kernel (`PERF_COUNT_HW_*`).
    Hardware,
    /// A software event of the kernel (`PERF_COUNT_SW_*`).
    Software,
    /// A cache access or miss (`PERF_COUNT_HW_CACHE_*`).
    Cache,
    /// An event of a PMU in sysfs.
    Pmu,
    /// A tracepoint in tracefs.
    Tracepoint,
    /// A hardware breakpoint at an address.
    Breakpoint,
    /// A raw event number from the CPU's manual.
    Raw,
}

impl EventKind {
    /// Returns the word for the type in event lists, which are searchable by it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Software => "software",
            Self::Cache => "cache",
            Self::Pmu => "pmu",
            Self::Tracepoint => "tracepoint",
            Self::Breakpoint => "breakpoint",
            Self::Raw => "raw",
        }
    }
}

/// An event of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueEvent {
    /// As typed after `-e`.
    pub name: String,
    /// The section of the list.
    pub sort: EventKind,
    /// The subsystem of a tracepoint or the PMU of its events; empty for others.
    pub group: String,
    /// A one-line description; the terms of PMU events; empty for tracepoints.
    pub about: String,
    /// Why it cannot be measured here; empty if it can.
    pub missing: &'static str,
}

impl CatalogueEvent {
    fn new(name: String, sort: EventKind, about: String) -> Self {
        Self { name, sort, group: String::new(), about, missing: "" }
    }

    fn of(self, group: String) -> Self {
        Self { group, ..self }
    }
}

const NO_COUNTERS: &str = "no hardware counters here";
const NOT_COUNTED: &str = "not supported by this machine's PMU";

/// Lists all events by type, then by name. Tracepoints come without their fields, because there are thousands of them
/// with a file each ([`fields`]). The kernel reports which hardware events are available.
pub(crate) fn all(places: &LookupPaths, sys: &dyn Sys) -> Vec<CatalogueEvent> {
    let counters = pmu::has_hardware(&places.pmus);
    let mut out: Vec<CatalogueEvent> = fixed(|kind, config| match kind {
        TYPE_SOFTWARE => "",
        _ if !counters => NO_COUNTERS,
        _ if supported::is_lacking(sys, kind, config) => NOT_COUNTED,
        _ => "",
    });
    for name in pmu::all(&places.pmus) {
        out.extend(of_pmu(places, &name));
    }
    if let Ok(root) = &places.tracefs {
        out.extend(tracepoint::all(root).into_iter().map(|(group, name)| {
            CatalogueEvent::new(format!("{group}:{name}"), EventKind::Tracepoint, String::new()).of(group)
        }));
    }
    let about = "accesses to an address: read, write or execute";
    out.push(CatalogueEvent::new("mem:ADDR[/LEN][:rwx]".into(), EventKind::Breakpoint, about.into()));
    let about = "a raw event of the CPU, by its number in the manual";
    let missing = if counters { "" } else { NO_COUNTERS };
    out.push(CatalogueEvent { missing, ..CatalogueEvent::new("rHEX".into(), EventKind::Raw, about.into()) });
    out.sort_by(|a, b| (a.sort, &a.name).cmp(&(b.sort, &b.name)));
    out
}

fn fixed(missing: impl Fn(u32, u64) -> &'static str) -> Vec<CatalogueEvent> {
    let mut out: Vec<CatalogueEvent> = Vec::new();
    let mut seen = Vec::new();
    for (name, kind, config) in perf_names::all() {
        let sort = match kind {
            TYPE_HARDWARE => EventKind::Hardware,
            TYPE_SOFTWARE => EventKind::Software,
            _ => EventKind::Cache,
        };
        // Other names of the same event are listed with the first one.
        if let Some(at) = seen.iter().position(|known| *known == (kind, config)) {
            let first: &mut CatalogueEvent = &mut out[at];
            first.about.push_str(&format!(", also {name}"));
            continue;
        }
        seen.push((kind, config));
        let about = match kind {
            TYPE_HW_CACHE => cache_about(&name),
            _ => perf_names::about(&name).to_owned(),
        };
        out.push(CatalogueEvent { missing: missing(kind, config), ..CatalogueEvent::new(name, sort, about) });
    }
    out
}

fn cache_about(name: &str) -> String {
    let split = name.rfind("-load").or_else(|| name.rfind("-store")).or_else(|| name.rfind("-prefetch"));
    let (cache, what) = name.split_at(split.unwrap_or(name.len()));
    format!("{} in the {cache}", what.trim_start_matches('-').replace('-', " "))
}

fn of_pmu(places: &LookupPaths, name: &str) -> Vec<CatalogueEvent> {
    let dir = places.pmus.join(name);
    let text = |path: &str| fs::read_to_string(dir.join(path)).unwrap_or_default().trim().to_owned();
    let event = |event: String, about| {
        CatalogueEvent::new(format!("{name}/{event}/"), EventKind::Pmu, about).of(name.to_owned())
    };
    let mut out: Vec<CatalogueEvent> = pmu::all(&dir.join("events"))
        .into_iter()
        .filter(|e| !e.contains('.'))
        .map(|e| {
            let terms = text(&format!("events/{e}"));
            event(e, terms)
        })
        .collect();
    let terms = pmu::all(&dir.join("format"));
    // Software PMUs do not have events in terms syntax.
    if !terms.is_empty() && !["tracepoint", "software", "breakpoint"].contains(&name) {
        let spelled = terms.iter().map(|t| format!("{t}=N")).collect::<Vec<_>>().join(",");
        out.push(event(spelled, "any event of this PMU by its terms".to_owned()));
    }
    out
}

/// Returns a tracepoint's own fields as `type name`; `None` if they cannot be read.
pub(crate) fn fields(places: &LookupPaths, name: &str) -> Option<Vec<String>> {
    let (system, event) = name.split_once(':')?;
    let text = tracepoint::format(places.tracefs.as_ref().ok()?, system, event).ok()?;
    let format = Format::parse(system, &text, cfg!(target_endian = "big"))?;
    Some(format.own_fields().map(|f| format!("{} {}", f.kind, f.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeSys;
    use crate::kernel::perf_event::sys::Errno;

    #[test]
    fn everything_by_sort_with_its_meaning() {
        let dir = tempfile::tempdir().expect("dir");
        for (path, text) in [
            ("pmu/cpu/type", "4"),
            ("pmu/cpu/format/event", "config:0-7"),
            ("pmu/cpu/events/slots", "event=0x00,umask=0x4"),
            ("pmu/cpu/events/slots.scale", "1"),
            ("pmu/software/type", "1"),
            (
                "t/events/irq/softirq_entry/format",
                "name: softirq_entry\nID: 42\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n",
            ),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
            fs::write(path, text).expect("write");
        }
        let places = LookupPaths { pmus: dir.path().join("pmu"), tracefs: Ok(dir.path().join("t")) };
        let sys = FakeSys::new(|attr, _, _| match (attr.kind, attr.config) {
            (TYPE_HARDWARE, 0) | (TYPE_HW_CACHE, 3) => Ok(()),
            _ => Err(Errno::NOENT),
        });
        let list = all(&places, &sys);
        let find = |name: &str| list.iter().find(|e| e.name == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(find("cycles").about, "CPU cycles, which slow down with the clock, also cpu-cycles");
        assert_eq!(find("dTLB-load-misses").about, "load misses in the dTLB");
        assert_eq!(
            (find("cpu/slots/").about.as_str(), find("cpu/event=N/").group.as_str()),
            ("event=0x00,umask=0x4", "cpu")
        );
        assert_eq!(find("irq:softirq_entry").sort, EventKind::Tracepoint);
        assert!(list.iter().all(|e| !e.name.contains(".scale")));
        assert_eq!(fields(&places, "irq:softirq_entry"), Some(vec!["unsigned int vec".to_owned()]));
        assert_eq!(fields(&places, "irq:nothing"), None);
        let here = ["cycles", "dTLB-loads", "page-faults"].map(|name| find(name).missing);
        assert!(here.iter().all(|missing| missing.is_empty()), "{here:?}");
        assert_eq!(["instructions", "LLC-loads"].map(|name| find(name).missing), [NOT_COUNTED; 2]);
        let none = LookupPaths { pmus: dir.path().join("none"), tracefs: Err("no".into()) };
        assert_eq!(all(&none, &sys).iter().find(|e| e.name == "cycles").map(|e| e.missing), Some(NO_COUNTERS));
    }
}
