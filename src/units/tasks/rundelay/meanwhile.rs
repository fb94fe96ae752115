//! Waits for a CPU with other events in between: the events of `rundelay` as pairs of `multi-trace`.

use crate::units::kit::prelude::*;

/// The unit's own events, as users may name them.
const OWN: &[&str] = &["sched:sched_wakeup", "sched:sched_wakeup_new", "sched:sched_switch"];
/// The fields with the names and ids of tasks.
const WOKEN: Task = Task { tid: "pid", comm: "comm" };
const PREV: Task = Task { tid: "prev_pid", comm: "prev_comm" };
const NEXT: Task = Task { tid: "next_pid", comm: "next_comm" };
/// A task that leaves its CPU but remains runnable.
const PUT_ASIDE: &str = "(prev_state == 0 || prev_state & 0x100)";

struct Task {
    tid: &'static str,
    comm: &'static str,
}

impl Task {
    /// Returns the filter on events of a task that belongs to the selection.
    fn clause(&self, settings: &Settings) -> String {
        let Self { tid, comm } = self;
        let mut out = format!("{tid} > 0");
        let mut any = |list: Vec<String>| {
            if !list.is_empty() {
                out.push_str(&format!(" && ({})", list.join(" || ")));
            }
        };
        let names = settings.get("comm").into_iter().flat_map(|list| list.split(','));
        any(names.map(|name| format!("{comm} ~ \"{}\"", name.trim().replace(['"', '\\'], "?"))).collect());
        out
    }
}

/// Returns the equivalent settings of `multi-trace` with the additional events; none if there are none.
/// Fails if other events than the unit's own are to be paired.
pub(super) fn asked(settings: &Settings) -> Result<Option<Settings>, String> {
    let lists = select::named(settings)?;
    let is_beside = |one: &SelectedEvent| one.has("untraced") || !one.event.contains(':');
    let of_own = |one: &SelectedEvent| OWN.iter().any(|own| select::is_named(&one.event, own));
    if let Some(other) = lists.iter().flatten().find(|one| !is_beside(one) && !of_own(one)) {
        return Err(format!(
            "{}: not an event of a wait for a CPU; available: {}; add others as EVENT//untraced/",
            other.event,
            OWN.join(", ")
        ));
    }
    if !lists.iter().flatten().any(|one| is_beside(one) || one.filter.is_some()) && !settings.has("detail") {
        return Ok(None);
    }
    let mut begins = vec![
        paired("sched:sched_wakeup", &WOKEN, None, settings),
        paired("sched:sched_wakeup_new", &WOKEN, None, settings),
        paired("sched:sched_switch", &PREV, Some(PUT_ASIDE), settings),
    ];
    let mut ends = vec![paired("sched:sched_switch", &NEXT, None, settings)];
    for (at, list) in lists.iter().enumerate() {
        for one in list {
            let place = if at == 0 { &mut begins } else { &mut ends };
            match is_beside(one) {
                true => place.push(one.to_string()),
                // A typed filter is combined with the conditions of a wait.
                false => {
                    place.iter_mut().filter(|own| one.filter.is_some() && is_of(own, &one.event)).for_each(|own| {
                        *own = with_filter(own, one.filter.as_deref().unwrap_or_default());
                    })
                }
            }
        }
    }
    let mut out = settings.without(&["event", "comm", "key", "per-cpu"]);
    for list in [begins, ends] {
        out.set("event", &list.join(","));
    }
    out.set("key", "pid");
    Ok(Some(out))
}

fn paired(event: &str, task: &Task, also: Option<&str>, settings: &Settings) -> String {
    let clauses: Vec<String> = [task.clause(settings)].into_iter().chain(also.map(str::to_owned)).collect();
    format!("{event}/{}/key={}/", clauses.join(" && "), task.tid)
}

fn is_of(own: &str, typed: &str) -> bool {
    own.split('/').next().is_some_and(|event| select::is_named(typed, event))
}

fn with_filter(own: &str, filter: &str) -> String {
    own.replacen('/', &format!("/({filter}) && "), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(events: &[&str], more: &[(&'static str, &str)]) -> Result<Option<Vec<String>>, String> {
        let mut settings = Settings::default().among(crate::units::UNITS);
        for (name, value) in events.iter().map(|list| ("event", *list)).chain(more.iter().copied()) {
            settings.set(name, value);
        }
        let asked = asked(&settings)?;
        Ok(asked.map(|settings| settings.all("event").map(str::to_owned).collect()))
    }

    #[test]
    fn what_is_named_beside_makes_pairs() {
        let own = ["sched:sched_wakeup*,sched:sched_switch", "sched:sched_switch"];
        assert_eq!(of(&own, &[("comm", "java")]), Ok(None), "the default events need no pairs");
        assert_eq!(of(&[], &[]), Ok(None));
        let beside = ["sched:sched_wakeup*,sched:sched_switch", "sched:sched_switch,profile/-F 500 -g/untraced/"];
        let lists = of(&beside, &[("comm", "java,py*")]).expect("right").expect("pairs");
        assert_eq!(
            lists[1],
            "sched:sched_switch/next_pid > 0 && (next_comm ~ \"java\" || next_comm ~ \"py*\")/key=next_pid/,\
             profile/-F 500 -g/untraced/"
        );
        assert!(lists[0].contains("sched:sched_wakeup_new/pid > 0 && (comm ~ \"java\""), "{}", lists[0]);
        assert!(lists[0].contains("prev_pid > 0") && lists[0].contains("& 0x100)/key=prev_pid/"), "{}", lists[0]);
        let typed = of(&["sched:sched_wakeup", "sched:sched_switch/prio < 5/"], &[]).expect("right").expect("pairs");
        assert!(typed[1].starts_with("sched:sched_switch/(prio < 5) && next_pid > 0/"), "{}", typed[1]);
        assert!(of(&own, &[("detail", "samecpu")]).expect("right").is_some());
        assert!(
            of(&["irq:irq_handler_entry", "sched:sched_switch"], &[]).expect_err("no wait").contains("//untraced/")
        );
    }
}
