//! Draws the tab line: the screens, and next to them the filters of the view or the load of the machine.

use crate::lang::counted;
use crate::machine::sampler::CpuRow;
use crate::panel::text::{clean, fit_end, width};
use crate::panel::unit::{cpus, percent};
use crate::query::diff::DiffSide;
use crate::session::Origin;
use crate::session::machine::Ticks;
use crate::ui::input::Command;
use crate::ui::input::commands::program;
use crate::ui::state::{Model, Tab};
use crate::ui::widgets::Canvas;

/// Returns the command that shows a screen.
fn shown_by(tab: Tab) -> &'static Command {
    match tab {
        Tab::Overview => &program::OVERVIEW,
        Tab::Top => &program::TOP,
        Tab::Flame => &program::FLAME,
        Tab::Time => &program::TIME,
        Tab::Cpus => &program::CPUS,
        Tab::Events => &program::EVENTS,
        Tab::Units => &program::UNITS,
    }
}

/// Returns the importance of a screen's name: where room is short, the least important ones become digits first.
fn importance(tab: Tab) -> u8 {
    match tab {
        Tab::Overview => 0,
        Tab::Events => 1,
        Tab::Time => 2,
        Tab::Cpus => 3,
        Tab::Units => 4,
        Tab::Flame => 5,
        Tab::Top => 6,
    }
}

/// The width below which the overview is a digit unless it is shown.
const NARROW: u16 = 100;
/// The cells that tabs leave to filters or to the load.
const TRAIL: usize = 12;

/// Returns the screens that are digits because room is short.
fn unnamed_tabs(here: Tab, room: u16) -> Vec<Tab> {
    let mut used: usize = 1 + Tab::ALL.iter().map(|tab| width(tab.name()) + 4).sum::<usize>();
    let mut others: Vec<Tab> = Tab::ALL.iter().copied().filter(|tab| *tab != here).collect();
    others.sort_by_key(|tab| importance(*tab));
    let mut unnamed = Vec::new();
    for tab in others {
        // On a narrow screen, what is shown matters more than this name.
        let is_narrow = tab == Tab::Overview && room < NARROW;
        if is_narrow || used + TRAIL > usize::from(room) {
            used -= width(tab.name()) + 1;
            unnamed.push(tab);
        }
    }
    unnamed
}

/// Returns the screens with their names, or with digits alone if room is short.
fn tab_names(model: &Model, room: u16) -> impl Iterator<Item = (Tab, &'static Command, String)> {
    let here = model.frame.tab;
    let unnamed = unnamed_tabs(here, room);
    (0..).zip(Tab::ALL).map(move |(n, &tab)| {
        let name = if unnamed.contains(&tab) { n.to_string() } else { format!("{n} {}", tab.name()) };
        (tab, shown_by(tab), if tab == here { format!("[{name}]") } else { format!(" {name} ") })
    })
}

pub(crate) fn tab_at(model: &Model, room: u16, column: u16) -> Option<&'static Command> {
    let mut x = 1;
    let mut found = tab_names(model, room).map(|(_, row, name)| {
        x += width(&name) as u16;
        (row, x)
    });
    found.find(|(_, end)| (1..*end).contains(&column)).map(|(row, _)| row)
}

pub(crate) fn draw(model: &Model, on: &mut Canvas<'_>) {
    let mut x = 1;
    for (tab, _, text) in tab_names(model, on.area.width) {
        let style = if tab == model.frame.tab { on.theme.title } else { on.theme.dim };
        x += on.put(x, 0, &text, style);
    }
    let trail = trail(model, true);
    let room = usize::from(on.area.width.saturating_sub(x + 3));
    let (right, style) = match trail.is_empty() {
        true => (machine(model, room + 1), on.theme.text),
        false => (narrowed(model, [trail, self::trail(model, false)], room), on.theme.warning),
    };
    let at = on.area.width.saturating_sub(width(&right) as u16 + 1).max(x);
    on.put(at, 0, &right, style);
}

/// Returns the steps that led to the view; `with_unit` adds the unit of a comparison.
fn trail(model: &Model, with_unit: bool) -> Vec<String> {
    let mut trail: Vec<String> = model.selection.zooms.iter().map(|z| z.label.clone()).collect();
    if let Some(filter) = &model.selection.filter {
        trail.push(format!("view: {}", filter.text()));
    }
    if let Some(mark) = &model.selection.baseline {
        let unit = if with_unit { format!(", {}", model.selection.per.unit_label()) } else { String::new() };
        trail.push(format!("against {}{unit}", mark.label));
    }
    trail
}

/// Returns whether a screen shows filtered samples; others show all.
fn is_narrowed(tab: Tab) -> bool {
    matches!(tab, Tab::Top | Tab::Flame | Tab::Time)
}

/// Describes the load that shares refer to, of the CPUs or the target, in the longest form that fits.
fn machine(model: &Model, room: usize) -> String {
    let (seen, all) = (model.context.answer.view.total, model.context.answer.view.shown);
    let whole = model.context.answer.target.is_empty() && model.context.answer.cpus.is_empty();
    let host = model
        .context
        .host
        .as_ref()
        .filter(|host| whole && !host.rows.is_empty() && model.context.answer.ended.is_none());
    let by_cpu = &model.context.answer.by_cpu;
    let used = model.context.answer.view.cpu_use;
    let of_target = model.context.info.origin == Origin::Live && !model.context.answer.target.is_empty();
    let words = match (host, by_cpu.busy) {
        (Some(host), _) => {
            let mean = |of: &dyn Fn(&CpuRow) -> f32| {
                let online = host.rows.iter().filter(|row| row.online);
                online.clone().map(of).sum::<f32>() / online.count().max(1) as f32
            };
            let share = |state: usize| mean(&|row| row.shares[state]);
            let busy = format!("CPU busy {:.0} %", mean(&CpuRow::busy));
            let user = share(Ticks::USER) + share(Ticks::NICE);
            let (system, soft) = (share(Ticks::SYSTEM), share(Ticks::IRQ) + share(Ticks::SOFTIRQ));
            let of = used.filter(|used| used.of_machine && used.sampled > 0);
            let of = of.map_or_else(String::new, |used| format!("shares of {}  ", counted(used.sampled as u64, "CPU")));
            vec![
                format!("{of}{busy}: user {user:.0}  system {system:.0}  softirq {soft:.0}"),
                format!("{of}{busy}"),
                busy,
            ]
        }
        (None, _) if used.is_some() && model.context.answer.cpus.is_empty() && is_narrowed(model.frame.tab) => {
            used.map(|used| used.words().to_vec()).unwrap_or_default()
        }
        (None, Some(busy)) if of_target => vec![cpus(busy / 100.0 * by_cpu.sampled as f64)],
        (None, Some(busy)) if !model.context.answer.cpus.is_empty() => {
            let of = |cpus: &str| format!("{cpus} busy {busy:.0} %");
            vec![of(&format!("CPU {}", model.context.answer.cpus)), of("these CPUs")]
        }
        (None, Some(busy)) => vec![format!("CPU busy {busy:.0} %")],
        (None, None) if model.selection.hide_idle && seen.period < all.period && is_narrowed(model.frame.tab) => {
            let hidden = format!("idle hidden: {}", percent(100.0 - seen.percent_of(&all)));
            vec![format!("{hidden} of samples"), hidden]
        }
        (None, None) => Vec::new(),
    };
    words.into_iter().find(|text| width(text) <= room).unwrap_or_default()
}

/// Describes the filters of the view, in a long or a brief form, and the share of samples that pass.
fn narrowed(model: &Model, trails: [Vec<String>; 2], room: usize) -> String {
    let (seen, all) = (model.context.answer.view.total, model.context.answer.view.shown);
    let by = trails.each_ref().map(|trail| clean(&format!("all › {}", trail.join(" › "))).into_owned());
    let is_part = all.samples > 0 && seen.samples < all.samples;
    let share = match is_part {
        true => format!("  shown: {} of samples", percent(seen.percent_of(&all))),
        false => String::new(),
    };
    let used = model.context.answer.view.cpu_use.filter(|_| is_narrowed(model.frame.tab));
    let words = used.map(|used| compared_use(model).map_or_else(|| used.words(), |words| [words.clone(), words]));
    let [long, brief] = words.map_or_else(Default::default, |words| words.map(|words| format!("  {words}")));
    // The CPU time goes before the share of samples, and its number before the steps that led here.
    let all = [format!("{share}{long}"), long, format!("{share}{brief}"), brief.clone()];
    let all = if used.is_some() { all.to_vec() } else { vec![share] };
    let mut ways = by.iter().flat_map(|by| all.iter().map(move |figures| format!("{by}{figures}")));
    let fitting = ways.find(|text| width(text) <= room);
    let [_, steps] = &trails;
    let is_compared = model.selection.baseline.is_some() && steps.len() > 1;
    fitting.unwrap_or_else(|| match is_compared {
        // A range that is compared goes before the CPU time of both sides.
        true => compared_steps(&by[1], steps, room),
        false => format!("{}{brief}", last_steps(&by[1], steps, room.saturating_sub(width(&brief)))),
    })
}

/// Returns the breadcrumb of a comparison, or its last steps. If room is short, the baseline is cut before the range.
fn compared_steps(whole: &str, steps: &[String], room: usize) -> String {
    let last = clean(&steps[steps.len().saturating_sub(2)..].join(" › ")).into_owned();
    let ways = [whole.to_owned(), format!("… › {last}")];
    ways.into_iter().find(|way| width(way) <= room).unwrap_or_else(|| fit_end(&last, room + 1).into_owned())
}

/// Describes the CPU time of both sides of a comparison, whose shares do not show whether the sum changed; `None` if
/// the samples tell no time.
fn compared_use(model: &Model) -> Option<String> {
    // Time off the CPUs is the other side of the flame graph, not a baseline.
    let is_off_cpu = model.selection.off_cpu && model.frame.tab == Tab::Flame;
    model.selection.baseline.as_ref().filter(|_| !is_off_cpu)?;
    let (old, new) = model.context.answer.view.sides?;
    let is_time = model.event().is_some_and(|event| event.meaning.unit.is_time());
    let used = |side: DiffSide| cpus(side.total.period as f64 / 1e9 / side.seconds);
    let is_known = is_time && old.seconds > 0.0 && new.seconds > 0.0;
    let now = model.context.answer.view.cpu_use?.cpus;
    is_known.then(|| format!("{} → {}", used(old), cpus(now)))
}

/// Returns the breadcrumb, or its last steps if room is short. A truncated one needs no trailing space.
fn last_steps(whole: &str, trail: &[String], room: usize) -> String {
    let from = |first: usize| clean(&format!("… › {}", trail[first..].join(" › "))).into_owned();
    let alone = trail.last().map(|step| clean(step).into_owned());
    let mut ways = std::iter::once(whole.to_owned()).chain((1..trail.len()).map(from)).chain(alone);
    let found = ways.find(|way| width(way) <= room + 1);
    let last = || if trail.len() > 1 { from(trail.len() - 1) } else { whole.to_owned() };
    found.unwrap_or_else(|| fit_end(&last(), room + 1).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_lose_their_names_one_by_one() {
        let named = |here: Tab, room: u16| {
            let unnamed = unnamed_tabs(here, room);
            Tab::ALL
                .iter()
                .map(|tab| tab.name())
                .filter(|name| !unnamed.iter().any(|tab| tab.name() == *name))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(named(Tab::Top, 100), "Overview Top Flame Time CPUs Events Units");
        assert_eq!(named(Tab::Top, 80), "Top Flame Time CPUs Events Units");
        assert_eq!(named(Tab::Overview, 80), "Overview Top Flame Time CPUs Events Units");
        assert_eq!(named(Tab::Top, 60), "Top Flame Time CPUs Units");
        assert_eq!(named(Tab::Events, 60), "Top Flame Events Units");
        assert_eq!(named(Tab::Flame, 50), "Top Flame Units");
        for room in [0, 20, 40] {
            assert_eq!(named(Tab::Flame, room), "Flame");
        }
    }

    #[test]
    fn the_range_of_a_comparison_is_cut_last() {
        let steps = ["comm nginx", "1.000–2.000 s", "against 0.000–1.000 s"].map(str::to_owned);
        let at = |room| compared_steps(&format!("all › {}", steps.join(" › ")), &steps, room);
        assert_eq!(at(60), "all › comm nginx › 1.000–2.000 s › against 0.000–1.000 s");
        assert_eq!(at(45), "… › 1.000–2.000 s › against 0.000–1.000 s");
        assert!(at(25).starts_with("1.000–2.000 s › against") && width(&at(25)) <= 26, "{}", at(25));
    }
}
