//! The unit chooser: a searchable list of questions, with the requirements of each unit and whether they are available.

use crate::ingest::unit_events::{is_named, shown};
use crate::lang::find::{found, nearest_words};
use crate::panel::unit::percent;
use crate::session::Origin;
use crate::source::live::throttle;
use crate::ui::popups::fuzzy::Fuzzy;
use crate::ui::popups::{Chooser, Popup};
use crate::ui::screens::events::state::NO_TRACEPOINTS;
use crate::ui::screens::units::state::UnitsState;
use crate::ui::state::{Model, SessionContext, Tab};
use crate::units::kit::options::settings::{OPTIONS, Settings};
use crate::units::kit::{EventRequest, Spec};
use crate::units::{self, UNITS};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// A unit's name, or an option of the typed unit.
    pub(crate) name: String,
    pub(crate) about: String,
    /// The text of the completion.
    pub(crate) text: String,
    /// The reason why it cannot run here; empty if it can, or if that is unknown.
    pub(crate) missing: String,
}

impl UnitsState {
    pub(crate) fn choose_unit(model: &mut Model) {
        model.load_catalogue();
        model.frame.tab = Tab::Units;
        model.frame.popups.push(Popup::Units(Chooser::default()));
    }
}

/// Returns the unit to start: the typed one, or the one under the cursor if the name is partial. The chooser then shows
/// it, so that the user can type a missing part after the name.
pub(crate) fn chosen_unit(context: &SessionContext, chooser: &mut Chooser) -> String {
    let typed = chooser.input.value().trim().to_owned();
    let name = typed.split_whitespace().next().unwrap_or_default();
    let choices = unit_choices(context, &typed);
    let Some(choice) = choices.get(chooser.cursor).or(choices.first()) else { return typed };
    chooser.input = tui_input::Input::new(format!("{} ", choice.text));
    let is_whole = units::find(name).is_some() && (typed.len() > name.len() || chooser.cursor == 0);
    if is_whole { typed } else { choice.text.clone() }
}

/// Returns the units that match, the best first, or the nearest ones. After a name, its options.
pub(crate) fn unit_choices(context: &SessionContext, typed: &str) -> Vec<Choice> {
    let typed = typed.trim_start();
    if let Some(options) = option_choices(typed) {
        return options;
    }
    let mut found = units_about(typed);
    if let (true, Some(word)) = (found.is_empty(), nearest_units(typed).first()) {
        found = units_about(word);
    }
    let choice = |spec: &'static Spec| Choice {
        name: spec.name.to_owned(),
        about: spec.about.to_owned(),
        text: spec.name.to_owned(),
        missing: lacks(context, spec).unwrap_or_default(),
    };
    found.into_iter().map(choice).collect()
}

/// Returns the units that a text finds, the best first; all units without a text.
fn units_about(typed: &str) -> Vec<&'static Spec> {
    if typed.trim().is_empty() {
        return UNITS.to_vec();
    }
    let found = found(typed, UNITS.iter().copied(), Spec::findable);
    if !found.is_empty() {
        return found;
    }
    let mut letters = Fuzzy::letters(typed);
    UNITS.iter().copied().filter(|spec| letters.score(spec.name).is_some()).collect()
}

/// Returns the nearest words if a text finds no unit.
pub(crate) fn nearest_units(typed: &str) -> Vec<String> {
    let name = typed.split_whitespace().next().unwrap_or_default();
    match units_about(typed).is_empty() && units::find(name).is_none() {
        true => nearest_words(typed.trim(), UNITS.iter().map(|spec| spec.findable())),
        false => Vec::new(),
    }
}

fn option_choices(typed: &str) -> Option<Vec<Choice>> {
    let spec = units::find(typed.split_once(char::is_whitespace)?.0)?;
    let last = typed.rsplit(char::is_whitespace).next().unwrap_or_default();
    let before = &typed[..typed.len() - last.len()];
    let wanted = last.trim_start_matches('-');
    let fits = |name: &&&str| name.starts_with(wanted) && (last.is_empty() || last.starts_with('-'));
    let choice = |name: &&str| {
        let option = OPTIONS.iter().find(|option| option.name == *name)?;
        let name = format!("--{name}");
        Some(Choice { text: format!("{before}{name}"), name, about: option.help.to_owned(), missing: String::new() })
    };
    Some(spec.options.iter().filter(fits).filter_map(choice).collect())
}

/// Describes a unit and its events.
pub(crate) fn about_unit(context: &SessionContext, name: &str) -> Option<String> {
    let spec = units::find(name)?;
    let needs = match units::make(spec, &Settings::default()) {
        Ok(unit) => {
            let wants = unit.event_requests();
            let names: Vec<&str> = wants.iter().filter(|want| !want.optional).map(|w| shown(&w.event)).collect();
            let more = if names.len() > 4 { ", …" } else { "" };
            match names.is_empty() {
                true => String::new(),
                false => format!(" From {}{more}.", names[..names.len().min(4)].join(", ")),
            }
        }
        Err(why) => format!(" It needs an argument: {why}, as in {}.", spec.example),
    };
    let cost = cost(context, spec).map_or_else(String::new, |cost| {
        format!(" To record its events costs about {} of each CPU here.", percent(cost))
    });
    Some(format!("{name}: {}.{needs}{cost} {}", spec.about, spec.story()))
}

/// Returns the cost of recording a unit's events, in percent of each CPU, if the rates of all of them are known.
pub(crate) fn cost(context: &SessionContext, spec: &'static Spec) -> Option<f64> {
    let wants = units::make(spec, &Settings::default()).ok()?.event_requests();
    let cost = |want: &EventRequest| {
        let meters = context.answer.events.iter().filter(|event| is_named(want, &event.name));
        let mut costs = meters.filter_map(|event| event.meter.as_ref()).map(|meter| meter.cost_percent);
        costs.find(|cost| *cost > 0.0).or_else(|| cost_of_switches(context, want))
    };
    let costs: Option<Vec<f64>> = wants.iter().filter(|want| !want.optional).map(cost).collect();
    costs.filter(|costs| !costs.is_empty()).map(|costs| costs.iter().sum())
}

/// Returns the cost of an event that occurs at each context switch, by the current rate of switches.
fn cost_of_switches(context: &SessionContext, want: &EventRequest) -> Option<f64> {
    const ONE_EACH: [&str; 3] = ["sched:sched_switch", "sched:sched_waking", "sched:sched_wakeup"];
    let host = context.host.as_ref().filter(|host| host.switches > 0.0)?;
    let cpus = host.rows.iter().filter(|row| row.online).count().max(1);
    let comes = ONE_EACH.iter().any(|name| is_named(want, name));
    comes.then(|| throttle::percent(f64::from(host.switches) / cpus as f64, want.stack))
}

/// Returns whether a recording lacks the events of a unit; false while its events are not known.
pub(crate) fn is_absent(context: &SessionContext, spec: &'static Spec) -> bool {
    let is_known = context.info.origin == Origin::Recorded && !context.answer.events.is_empty();
    is_known && lacks(context, spec).is_some()
}

/// Returns the requirements of a unit that are not available.
fn lacks(context: &SessionContext, spec: &'static Spec) -> Option<String> {
    let wants = units::make(spec, &Settings::default()).ok()?.event_requests();
    let there = |want: &&EventRequest| lacks_event(context, want).is_none();
    let is_recorded = context.info.origin == Origin::Recorded;
    let is_needed = |want: &&EventRequest| !(want.optional || is_recorded && want.only_live);
    let must: Vec<&EventRequest> = wants.iter().filter(is_needed).collect();
    if must.is_empty() {
        let nothing = !wants.is_empty() && !wants.iter().any(|want| there(&want));
        return if nothing { lacks_event(context, wants.first()?) } else { None };
    }
    must.iter().find_map(|want| lacks_event(context, want))
}

fn lacks_event(context: &SessionContext, want: &EventRequest) -> Option<String> {
    let name = shown(&want.event).trim_start_matches('~');
    if context.info.origin == Origin::Recorded {
        let has = context.answer.events.iter().any(|event| is_named(want, &event.name));
        return (!has).then(|| format!("{name} is not in this recording"));
    }
    let catalogue = context.catalogue.as_ref().filter(|_| want.probe.is_none())?;
    let mut known = catalogue.iter().filter(|entry| is_named(want, &entry.name)).peekable();
    if known.peek().is_none() {
        // The list is complete only for tracepoints.
        let is_tracepoint = name.split_once(':').is_some_and(|(system, _)| system != "mem");
        return is_tracepoint.then(|| match context.has_tracepoints() {
            true => format!("no {name} here"),
            false => NO_TRACEPOINTS.to_owned(),
        });
    }
    let why = known.peek().map(|entry| entry.missing).unwrap_or_default();
    (!known.any(|entry| entry.missing.is_empty())).then(|| why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_by_what_people_type() {
        let first = |typed: &str| units_about(typed).first().map(|spec| spec.name);
        for (typed, name) in [
            ("slow", "waits"),
            ("where", "waits"),
            ("wall", "waits"),
            ("latency", "rundelay"),
            ("network", "tcp"),
            ("sleep", "waits"),
            ("idle", "waits"),
            ("which file is missing", "files"),
            ("tcp", "tcp"),
            ("refused", "tcp"),
            ("dns", "dns"),
            ("resolver", "dns"),
            ("nslookup", "dns"),
            ("lookup", "dns"),
            ("file", "files"),
            ("enoent", "files"),
            ("lock", "locks"),
            ("locks", "locks"),
            ("futex", "offcpu"),
            ("contention", "locks"),
            ("malloc", "kmemprof"),
            ("memory", "kmemleak"),
            ("leak", "kmemleak"),
            ("gc", "usdt"),
            ("throttle", "rundelay"),
            ("io", "blktrace"),
            ("disk", "blktrace"),
            ("why", "waits"),
            ("strace", "syscalls"),
            ("oom", "kmemleak"),
            ("deadlock", "locks"),
            ("errno", "syscalls"),
            ("rundelay", "rundelay"),
            ("", "waits"),
        ] {
            assert_eq!(first(typed), Some(name), "{typed}");
        }
        assert!(units_about("lock").iter().all(|spec| spec.name != "blktrace"), "a part of another word");
        assert_eq!(nearest_units("netwrok").first().map(String::as_str), Some("network"));
        assert_eq!(nearest_units("qqqq"), Vec::<String>::new());
    }

    #[test]
    fn options_are_offered_behind_a_units_name() {
        let texts =
            |typed: &str| Some(option_choices(typed)?.into_iter().map(|choice| choice.text).collect::<Vec<_>>());
        assert_eq!(texts("rundelay --th").and_then(|texts| texts.first().cloned()).as_deref(), Some("rundelay --than"));
        assert_eq!((texts("rundelay"), texts("nothing --x")), (None, None));
    }
}
