//! Updates of the time screen: cursor, selection, zoom and highlights.

use std::sync::Arc;

use crate::filter::equals;
use crate::query::heat::{Heat, HeatBy, HeatSpec, SECOND, Scale, offset_rows};
use crate::source::Rate;
use crate::ui::app::App;
use crate::ui::input::commands::general;
use crate::ui::screens::list::screen;
use crate::ui::screens::time::layout;
use crate::ui::screens::time::state::{MapPoint, fitting, usual};
use crate::ui::state::Tab;

impl App {
    /// Returns the specification of the map that fits on the screen.
    pub(crate) fn heat_spec(&self) -> HeatSpec {
        let by = self.views.time.by;
        let room = layout::room(self.scene(), &self.views.time);
        let lines = usize::from(layout::map_area(self.scene(), &self.views.time).height);
        let rows = match by {
            HeatBy::Offset => offset_rows(lines, room.1, self.event_rate(), self.views.time.length),
            _ => room.1,
        };
        let lit = self.views.time.highlight.as_ref().map(|(filter, _)| filter.clone());
        let length = self.views.time.length;
        // The cursor and the selection stay visible when new samples arrive.
        let pointed = [self.views.time.cursor, self.views.time.anchor]
            .into_iter()
            .flatten()
            .map(|spot| spot.at / length.max(1))
            .min();
        let newest = (self.context.answer.elapsed_ns / length.max(1) + 1).saturating_sub(room.0 as u64);
        let page = self.views.time.page.or(pointed.filter(|column| *column < newest));
        HeatSpec { by, length, page, columns: room.0, rows, lit }
    }

    /// Returns the sampling rate of the displayed event; 0 without one.
    fn event_rate(&self) -> u64 {
        let own = || self.scene().recorded_event().map(|event| Rate::of(&event.attr));
        self.context.meter(self.selection.event).map(|meter| meter.state.rate).or_else(own).map_or(0, Rate::hz)
    }

    pub(crate) fn turn_scale(&mut self) {
        let linear = self.views.time.scale == Scale::Rank;
        self.views.time.scale = if linear { Scale::Linear } else { Scale::Rank };
        self.say(if linear { "colours by share of the highest cell" } else { "colours by rank" });
        self.follow_heat();
    }

    pub(crate) fn drop_highlight(&mut self) {
        if self.views.time.highlight.take().is_none() {
            self.say("highlight a function: put the cursor on it in the table or flame graph, then 3");
        }
    }

    pub(crate) fn follow_heat(&mut self) {
        if let Some(heat) = self.context.answer.view.heat.clone() {
            self.views.time.take(&heat);
        }
    }

    /// Shows the time screen, with the samples of the function under the cursor highlighted.
    pub(crate) fn show_time(&mut self) {
        let name = screen(self.frame.tab).function(self).map(|found| found.function.to_string());
        if let Some(name) = name.filter(|name| !name.is_empty() && name != "[unknown]")
            && let Ok(filter) = self.context.parse(&equals("stack", &name))
        {
            self.views.time.highlight = Some((Arc::new(filter), name));
        }
        self.frame.tab = Tab::Time;
    }

    /// Highlights the samples of matching functions; an empty text ends the highlight.
    pub(crate) fn highlight_search(&mut self, text: Option<String>) {
        let Some(text) = text else { return self.ask_for(&general::SEARCH, String::new()) };
        let clause =
            format!("stack =~ {}", if text.contains('"') { format!("'{text}'") } else { format!("\"{text}\"") });
        match self.context.parse(&clause) {
            _ if text.is_empty() => self.views.time.highlight = None,
            Ok(filter) => self.views.time.highlight = Some((Arc::new(filter), format!("/{text}"))),
            Err(fault) => self.error(fault.line()),
        }
    }

    pub(crate) fn select_time(&mut self, whole: bool) {
        let Some(heat) = self.context.answer.view.heat.clone() else { return };
        let again = self.views.time.anchor.is_some() && self.views.time.whole == whole;
        self.views.time.anchor = (!again).then(|| self.views.time.anchor.unwrap_or(self.views.time.spot(&heat)));
        self.views.time.whole = whole;
    }

    fn has_durations(&self) -> bool {
        self.scene().event().is_some_and(|event| event.has_durations)
    }

    pub(crate) fn time_rows(&mut self, text: Option<&str>) {
        let next = match text.map(HeatBy::parse) {
            Some(Some(HeatBy::Latency)) if !self.has_durations() => {
                let with = self.context.answer.events.iter().filter(|event| event.has_durations);
                let names: Vec<&str> = with.map(|event| event.name.as_str()).collect();
                return self.error(match names.is_empty() {
                    true => "these samples have no durations; those of sched:sched_switch and irq:* have".to_owned(),
                    false => format!("these samples have no durations; select {} on screen 5", names.join(" or ")),
                });
            }
            Some(Some(by)) => by,
            Some(None) => {
                let known: Vec<&str> = HeatBy::ALL.iter().map(|row| row.1).collect();
                return self.error(format!("{}: expected one of {}", text.unwrap_or_default(), known.join(", ")));
            }
            None => match self.views.time.by.next() {
                HeatBy::Latency if !self.has_durations() => HeatBy::Latency.next(),
                next => next,
            },
        };
        self.views.time.by = next;
        (self.views.time.page, self.views.time.cursor, self.views.time.anchor) = (None, None, None);
        // With rows other than offsets, show a whole recording at once.
        let columns = layout::room(self.scene(), &self.views.time).0;
        self.views.time.length = match (&self.context.answer.ended, next) {
            (Some(_), by) if by != HeatBy::Offset => fitting(self.context.answer.elapsed_ns, columns),
            (Some(_), _) => usual(self.context.answer.elapsed_ns),
            (None, _) => SECOND,
        };
    }

    pub(crate) fn zoom_time(&mut self, step: isize) {
        let Some(heat) = self.context.answer.view.heat.clone() else { return };
        let at = self.views.time.spot(&heat).at;
        self.views.time.zoom(step, at, heat.columns);
    }

    /// Moves the cursor by columns and rows, also to other pages. With rows of offsets it moves in order of time.
    pub(crate) fn move_time(&mut self, columns: i64, rows: i64) {
        let Some(heat) = self.context.answer.view.heat.clone().filter(|heat| heat.rows > 0) else { return };
        let spot = self.views.time.spot(&heat);
        let n = heat.rows as i64;
        let (column, row) = match heat.by {
            HeatBy::Offset => {
                let at = self.views.time.cell(&heat) as i64 + columns * n + rows;
                (at.div_euclid(n), at.rem_euclid(n))
            }
            _ => (heat.column_at(spot.at) as i64 + columns, (spot.row as i64 + rows).clamp(0, n - 1)),
        };
        let Ok(column) = u64::try_from(heat.first as i64 + column) else { return };
        let width = heat.columns as u64;
        if !(heat.first..heat.first + width).contains(&column) {
            if column.saturating_mul(heat.length) > heat.until {
                return;
            }
            self.views.time.page = Some(column / width * width);
        }
        let there = Heat { first: column, columns: 1, lanes: Vec::new(), cells: Vec::new(), ..(*heat).clone() };
        self.views.time.cursor = Some(MapPoint { at: there.time(row as usize), row: row as usize });
    }

    pub(crate) fn turn_time(&mut self, by: i64) {
        let Some(heat) = self.context.answer.view.heat.clone() else { return };
        let next = heat.first.saturating_add_signed(by * heat.columns as i64);
        if next.saturating_mul(heat.length) <= heat.until && next != heat.first {
            self.views.time.page = Some(next);
            self.views.time.cursor =
                Some(MapPoint { at: next.saturating_mul(heat.length), row: self.views.time.spot(&heat).row });
        }
    }

    /// Filters all screens by the selection.
    pub(crate) fn enter_time(&mut self) {
        if self.start_sampling() {
            return;
        }
        let Some(heat) = self.context.answer.view.heat.clone().filter(|heat| heat.rows > 0) else { return };
        let selected = self.views.time.selected(&heat);
        self.go_to_range((selected.from, selected.until));
        if let Some(rows) = selected.rows.filter(|rows| *rows != (0..heat.rows)) {
            let lanes = &heat.lanes[rows];
            let clauses: Option<Vec<String>> = lanes.iter().map(|lane| lane.expression.clone()).collect();
            match clauses {
                Some(clauses) => {
                    let label =
                        if lanes.len() == 1 { lanes[0].label.to_string() } else { format!("{} rows", lanes.len()) };
                    self.push_zoom(label, clauses.iter().map(|c| format!("({c})")).collect::<Vec<_>>().join(" || "));
                }
                None => self.say("cannot filter by the remaining rows or an unknown function"),
            }
        }
        self.views.time.anchor = None;
        self.frame.tab = Tab::Top;
    }

    /// Makes the selected time the baseline.
    pub(crate) fn mark_range(&mut self) {
        let Some(heat) = self.context.answer.view.heat.clone().filter(|heat| heat.rows > 0) else { return };
        let selected = self.views.time.selected(&heat);
        self.compare_range((selected.from, selected.until));
        self.views.time.anchor = None;
        self.say("baseline set: select another range; ⏎ shows the difference, B ends it");
    }

    pub(crate) fn spot_at(&self, x: u16, y: u16) -> Option<MapPoint> {
        let heat = self.context.answer.view.heat.as_ref()?;
        let (column, row) = layout::hit(self.scene(), &self.views.time, x, y)?;
        let at = match heat.by {
            HeatBy::Offset => heat.time(column * heat.rows + row),
            _ => heat.column_time(column),
        };
        Some(MapPoint { at, row })
    }
}
