//! Options that all units share: the samples that a unit receives, and the grouping of its rows.

use crate::filter::expr;
use crate::units::kit::options::settings::{DECIDED_LIVE, OF_TASKS, is_number_list, samples_tasks};
use crate::units::kit::options::target::excluded;
use crate::units::kit::{EventRequest, Settings, Spec, UnitSample};

/// Replaces option aliases by the options that they stand for.
pub(crate) fn spelled_out(spec: &Spec, settings: &Settings) -> Settings {
    let mut out = settings.clone();
    if settings.has("perins") {
        let has = |name: &str| spec.options.contains(&name);
        let by_thread = has("per-thread") && (!has("per-cpu") || settings.target.is_tasks());
        let name = ["per-thread", "per-cpu"].into_iter().find(|name| has(name) && (*name == "per-thread") == by_thread);
        name.into_iter().for_each(|name| out.set(name, ""));
    }
    out
}

/// Returns the shared options that have no effect on this unit, with the reason.
pub fn idle(spec: &Spec, settings: &Settings, requests: &[EventRequest]) -> Vec<String> {
    let name = spec.name;
    let mut out = Vec::new();
    let given = |list: &[&str]| -> Vec<String> {
        list.iter().filter(|name| settings.has(name)).map(|name| format!("--{name}")).collect()
    };
    let of_samples = given(&[DECIDED_LIVE, MODES].concat());
    if !of_samples.is_empty() && !requests.iter().any(may_be_sampled) {
        let list = of_samples.join(", ");
        out.push(format!(
            "{name}: {list}: no effect here. It chooses among samples of what runs; this unit is told of events, \
             which -e EVENT/FILTER/ and --comm choose from"
        ));
    }
    if spec.name == "misc" && settings.has_choice() {
        out.push(format!("{name}: the target has no effect here. What changes in the kernel belongs to no thread"));
    }
    if settings.has("perins") && !["per-thread", "per-cpu"].iter().any(|name| spec.options.contains(name)) {
        out.push(format!("{name}: --perins: no effect here. Its rows can only be split in one way"));
    }
    out
}

const MODES: &[&str] = &["exclude-user", "exclude-kernel", "exclude-guest", "exclude-host"];

/// Returns whether optional events or probes, which are opened after all others, have stacks.
pub fn samples_later(requests: &[EventRequest]) -> bool {
    requests.iter().any(|want| want.stack && (want.optional || want.probe.is_some()))
}

/// Whether an event samples running code, in contrast to hits of a tracepoint or probe.
pub(crate) fn may_be_sampled(want: &EventRequest) -> bool {
    let named = want.event.split('|').next().unwrap_or_default();
    want.probe.is_none() && !want.counted && (!named.contains(':') || named.starts_with("mem:"))
}

/// The samples to omit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Whether samples of user code, of the kernel, of guests and of the host are omitted.
    user: bool,
    kernel: bool,
    guest: bool,
    pub(crate) host: bool,
    pub(crate) pids: Vec<i32>,
    pub(crate) cpus: Option<Vec<u32>>,
    /// Number of events until the end.
    pub(crate) left: Option<u64>,
    /// A filter for the kernel, in the filter language.
    pub(crate) capture: Option<String>,
}

impl Scope {
    pub(crate) fn of(spec: &Spec, settings: &Settings) -> Result<Self, String> {
        let pids = excluded(settings)?;
        let mut clauses = Vec::new();
        for (name, word) in [("irqs_disabled", "irqs_off"), ("tif_need_resched", "need_resched")] {
            match settings.get(name) {
                None => {}
                Some("1") => clauses.push(word.to_owned()),
                Some("0") => clauses.push(format!("!{word}")),
                Some(other) => return Err(format!("--{name}={other}: expected 0 or 1")),
            }
        }
        for (name, sign) in [("nr_running_min", ">="), ("nr_running_max", "<=")] {
            if settings.has(name) {
                clauses.push(format!("nr_running {sign} {}", settings.number(name, 0)?));
            }
        }
        for (name, word) in OF_TASKS.iter().filter(|(name, _)| samples_tasks(spec) && settings.has(name)) {
            let list = settings.get(name).unwrap_or_default();
            let clause = format!("{word} in {list}");
            if !is_number_list(list) || expr::parse(&clause).is_err() {
                return Err(format!("--{name} {list}: expected numbers, such as 0-99,120"));
            }
            clauses.push(clause);
        }
        let [user, kernel, guest, host] =
            ["exclude-user", "exclude-kernel", "exclude-guest", "exclude-host"].map(|name| settings.has(name));
        if user && kernel || guest && host {
            return Err("nothing would be left: all samples are of user or kernel code".to_owned());
        }
        clauses.extend(user.then(|| "!user".to_owned()));
        clauses.extend(kernel.then(|| "!kernel".to_owned()));
        clauses.extend(pids.iter().map(|pid| format!("pid != {pid}")));
        let capture = (!clauses.is_empty()).then(|| clauses.join(" && "));
        let left = settings.has("exit-N").then(|| settings.number("exit-N", 0)).transpose()?;
        if left == Some(0) {
            return Err("-N 0: expected a number of events".to_owned());
        }
        Ok(Self { user, kernel, guest, host, pids, cpus: settings.cpus()?, left, capture })
    }

    /// Whether the mode in which a CPU was sampled is selected.
    pub(crate) fn takes_mode(&self, hit: &UnitSample<'_>) -> bool {
        !(if hit.user { self.user } else { self.kernel } || if hit.guest { self.guest } else { self.host })
    }

    pub(crate) fn takes_cpu(&self, cpu: u32) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.binary_search(&cpu).is_ok())
    }
}
