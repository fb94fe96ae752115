//! The state of the event screen: event catalogue, search and cursor.

use std::sync::Arc;

use hashbrown::HashSet;

use crate::event::catalogue::{CatalogueEvent, EventKind};
use crate::event::format::Format;
use crate::lang::quantity;
use crate::panel::row_order::arrange_by_key;
use crate::query::answer::EventInfo;
use crate::source::{Rate, RunState};
use crate::ui::popups::fuzzy::Fuzzy;
use crate::ui::state::ListCursor;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventRow {
    Own(usize),
    Group(usize),
    Entry(usize),
}

/// Events of one kind and subsystem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CatalogueGroup {
    pub(crate) sort: EventKind,
    pub(crate) name: String,
    /// Its entries in the catalogue.
    pub(crate) entries: std::ops::Range<usize>,
}

impl CatalogueGroup {
    pub(crate) fn title(&self) -> String {
        match self.name.as_str() {
            "" => format!("{} events", self.sort.word()),
            name => name.to_owned(),
        }
    }
}

/// The event screen.
#[derive(Clone, Debug, Default)]
pub struct EventsState {
    pub(crate) groups: Vec<CatalogueGroup>,
    open: HashSet<usize>,
    pub(crate) search: String,
    /// Entries that match the search, the best first.
    matches: Vec<usize>,
    /// The cursor by line; it rests on the first one. Scrolls the catalogue only.
    pub(crate) list: ListCursor<EventRow>,
    /// The last tracepoint that was looked up, with its fields, which are read from a file.
    pub(crate) looked_up: Option<(String, Option<Arc<Format>>)>,
}

/// The reason why there are no tracepoints, with the remedy.
pub(crate) const NO_TRACEPOINTS: &str = "no tracepoints available: mount -t tracefs nodev /sys/kernel/tracing, as root";

impl EventsState {
    /// Groups the catalogue, which is sorted by kind and name.
    pub(crate) fn set_catalogue(&mut self, catalogue: &[CatalogueEvent]) {
        self.groups.clear();
        for (i, entry) in catalogue.iter().enumerate() {
            match self.groups.last_mut() {
                Some(last) if last.sort == entry.sort && last.name == entry.group => last.entries.end = i + 1,
                _ => {
                    self.groups.push(CatalogueGroup { sort: entry.sort, name: entry.group.clone(), entries: i..i + 1 })
                }
            }
        }
        let search = std::mem::take(&mut self.search);
        self.search(catalogue, search);
    }

    /// Searches names and descriptions fuzzily.
    pub(crate) fn search(&mut self, catalogue: &[CatalogueEvent], text: String) {
        self.search = text;
        self.matches.clear();
        if self.search.is_empty() {
            return;
        }
        let mut letters = Fuzzy::letters(&self.search);
        let mut scored: Vec<(u32, usize)> = Vec::new();
        for (i, entry) in catalogue.iter().enumerate() {
            // A name that contains the text precedes one that only contains its letters.
            let whole = if entry.name.contains(&self.search) { 1000 } else { 0 };
            if let Some(found) =
                letters.score(&entry.name).map(|s| s + 100 + whole).or_else(|| letters.score(&entry.about))
            {
                scored.push((found, i));
            }
        }
        arrange_by_key(&mut scored, |(score, i)| (std::cmp::Reverse(*score), catalogue[*i].name.len(), *i));
        self.matches = scored.into_iter().map(|(_, i)| i).collect();
    }

    pub(crate) fn n_matches(&self) -> usize {
        self.matches.len()
    }

    pub(crate) fn is_open(&self, group: usize) -> bool {
        self.open.contains(&group)
    }

    pub(crate) fn toggle(&mut self, group: usize) {
        if !self.open.remove(&group) {
            self.open.insert(group);
        }
    }

    /// Returns the session's events to list: stopped ones only while they have samples.
    pub(crate) fn own(events: &[EventInfo]) -> impl Iterator<Item = usize> + '_ {
        let shown = |event: &EventInfo| match event.meter.as_ref().map(|m| &m.state.run) {
            Some(RunState::Stopped) => event.total.samples > 0,
            Some(_) => true,
            None => !event.is_dummy,
        };
        events.iter().enumerate().filter(move |(_, e)| shown(e)).map(|(i, _)| i)
    }

    /// Returns the lines of the catalogue.
    pub(crate) fn listed(&self) -> Vec<EventRow> {
        if !self.search.is_empty() {
            return self.matches.iter().map(|i| EventRow::Entry(*i)).collect();
        }
        let mut items = Vec::new();
        for (g, group) in self.groups.iter().enumerate() {
            items.push(EventRow::Group(g));
            if self.is_open(g) {
                items.extend(group.entries.clone().map(EventRow::Entry));
            }
        }
        items
    }

    /// Returns all lines in their order on the screen.
    pub(crate) fn items(&self, events: &[EventInfo]) -> Vec<EventRow> {
        Self::own(events).map(EventRow::Own).chain(self.listed()).collect()
    }

    /// Returns the index of the line under the cursor. Returns the first one if that line disappeared.
    pub(crate) fn selected(&self, items: &[EventRow]) -> usize {
        self.list.id.as_ref().and_then(|cursor| items.iter().position(|item| item == cursor)).unwrap_or(0)
    }

    pub(crate) fn item(&self, events: &[EventInfo]) -> Option<EventRow> {
        let items = self.items(events);
        items.get(self.selected(&items)).cloned()
    }

    /// Moves the cursor and scrolls, with `height` catalogue lines below `own` others.
    pub(crate) fn go(&mut self, at: usize, items: &[EventRow], own: usize, height: usize) {
        let at = at.min(items.len().saturating_sub(1));
        self.list.go(items.get(at).cloned(), at.saturating_sub(own), items.len().saturating_sub(own), height);
    }
}

pub(crate) fn rate_text(rate: Rate) -> String {
    match rate {
        Rate::Frequency(hz) => hz.to_string(),
        Rate::Period(0) => "0".to_owned(),
        Rate::Period(period) => format!("1/{period}"),
    }
}

/// Parses `999`, `999 Hz`, or `1/100`: every hundredth hit.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    let parsed = match text.split_once('/') {
        None if text == "0" => Some(Rate::Period(0)),
        Some((one, period)) if one.trim() == "1" => quantity::count(period).ok().map(Rate::Period),
        Some(_) => None,
        None => quantity::hertz(text).ok().map(Rate::Frequency),
    };
    parsed.ok_or_else(|| {
        format!("{text}: expected a rate: 999 (samples per second), 1/100 (one in a hundred) or 0 (counted only)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, sort: EventKind, group: &str) -> CatalogueEvent {
        CatalogueEvent { name: name.into(), sort, group: group.into(), about: "counts".into(), missing: "" }
    }

    #[test]
    fn groups_unfold_and_a_search_finds_across_them() {
        let mut screen = EventsState::default();
        assert!(screen.items(&[]).is_empty());
        let catalogue = [
            entry("cpu-clock", EventKind::Software, ""),
            entry("irq:softirq_entry", EventKind::Tracepoint, "irq"),
            entry("sched:sched_stat_wait", EventKind::Tracepoint, "sched"),
            entry("sched:sched_switch", EventKind::Tracepoint, "sched"),
        ];
        screen.set_catalogue(&catalogue);
        assert_eq!(screen.items(&[]), [EventRow::Group(0), EventRow::Group(1), EventRow::Group(2)]);
        assert_eq!((screen.groups[0].title(), screen.groups[2].title()), ("software events".into(), "sched".into()));
        screen.toggle(2);
        assert_eq!(screen.items(&[])[3..], [EventRow::Entry(2), EventRow::Entry(3)]);
        screen.search(&catalogue, "schsw".into());
        assert_eq!(screen.items(&[]).first(), Some(&EventRow::Entry(3)));
        screen.search(&catalogue, "switch".into());
        assert_eq!(screen.items(&[]), [EventRow::Entry(3)]);
        screen.search(&catalogue, "zzz".into());
        assert_eq!((screen.n_matches(), screen.selected(&[])), (0, 0));
    }

    #[test]
    fn the_cursor_stays_in_sight() {
        let mut screen = EventsState::default();
        let items: Vec<EventRow> =
            [EventRow::Own(0), EventRow::Own(1)].into_iter().chain((0..50).map(EventRow::Entry)).collect();
        for (at, top) in [(0, 0), (2, 0), (12, 1), (51, 40), (45, 40), (30, 28), (1, 0)] {
            screen.go(at, &items, 2, 10);
            assert_eq!((screen.list.top, screen.selected(&items)), (top, at), "{at}");
        }
        screen.go(999, &items, 2, 10);
        assert_eq!(screen.selected(&items), 51);
    }

    #[test]
    fn rates() {
        assert_eq!(rate("99 Hz"), Ok(Rate::Frequency(99)));
        assert_eq!(rate("1/100"), Ok(Rate::Period(100)));
        assert!(rate("2/100").is_err() && rate("fast").is_err() && rate("").is_err());
        for same in [Rate::Period(7), Rate::Period(0), Rate::Frequency(3)] {
            assert_eq!(rate(&rate_text(same)), Ok(same));
        }
    }
}
