//! Updates of the time screen: cursor, selection, zoom and highlights.

use std::sync::Arc;

use crate::engine::Request;
use crate::filter::equals;
use crate::panel::unit::clock;
use crate::query::heat::{Heat, HeatBy, HeatSpec, SECOND, Scale, offset_rows};
use crate::session::{Origin, TimeMark, marks};
use crate::source::Rate;
use crate::ui::input::commands::general;
use crate::ui::popups::Popup;
use crate::ui::screens::screen::{AnnotatedFunction, Canvas, Command, CursorStep, Hints, Model, Question, Screen};
use crate::ui::screens::time::commands::FOOTER;
use crate::ui::screens::time::draw as drawn;
use crate::ui::screens::time::layout;
use crate::ui::screens::time::state::{MapPoint, TimeState, fitting, usual};
use crate::ui::state::Tab;

impl Screen for TimeState {
    fn draw(&self, model: &Model, on: &mut Canvas<'_>) {
        drawn::draw(model, self, on);
    }

    fn hints(&self, _origin: Origin) -> Hints {
        FOOTER
    }

    fn text(&self, model: &Model) -> Option<String> {
        model.context.answer.view.heat.as_ref().map(|heat| drawn::text(heat))
    }

    fn add_commands(&self, _model: &Model, commands: &mut Vec<String>) {
        commands.insert(0, "time".to_owned());
        commands.push(format!("time-rows {}", self.by.word()));
    }

    fn click(&mut self, model: &mut Model, x: u16, y: u16) -> Option<&'static Command> {
        let spot = self.spot_at(model, x, y)?;
        let heat = model.context.answer.view.heat.clone()?;
        let before = self.cell(&heat);
        self.cursor = Some(spot);
        let again = self.anchor.is_none() && self.cell(&heat) == before;
        (self.anchor, self.whole) = (None, false);
        if again {
            self.enter(model);
        }
        None
    }

    fn drag(&mut self, model: &mut Model, x: u16, y: u16) {
        let (Some(heat), Some(spot)) = (&model.context.answer.view.heat, self.spot_at(model, x, y)) else { return };
        let here = self.spot(heat);
        self.anchor.get_or_insert(here);
        self.cursor = Some(spot);
    }

    fn move_cursor(&mut self, model: &mut Model, step: CursorStep) {
        match step {
            CursorStep::Lines(n) => self.step(model, 0, n.into()),
            CursorStep::Pages(n) => self.turn_page(model, n.into()),
            CursorStep::Home => {
                self.page = Some(0);
                self.cursor = Some(MapPoint { at: model.context.answer.kept_from, row: 0 });
            }
            CursorStep::End => (self.page, self.cursor) = (None, None),
        }
    }

    fn scroll(&mut self, model: &mut Model, by: i32) {
        self.zoom_by(model, by as isize);
    }

    fn leave(&mut self, _model: &mut Model) -> bool {
        self.anchor.take().is_some()
    }

    /// Leaves rows of durations for an event without durations.
    fn prepare(&mut self, model: &Model) {
        if self.by == HeatBy::Latency && model.event().is_some_and(|event| !event.meaning.durations) {
            self.by = HeatBy::Offset;
        }
    }

    fn question(&self, model: &Model, question: Question) -> Question {
        Question { heat: Some(self.heat_spec(model)), ..question }
    }
}

impl TimeState {
    /// Returns the specification of the map that fits on the screen.
    fn heat_spec(&self, model: &Model) -> HeatSpec {
        let by = self.by;
        let room = layout::room(model, self);
        let lines = usize::from(layout::map_area(model, self).height);
        let rows = match by {
            HeatBy::Offset => offset_rows(lines, room.1, Self::event_rate(model), self.length),
            _ => room.1,
        };
        let lit = self.highlight.as_ref().map(|(filter, _)| filter.clone());
        let length = self.length;
        // The cursor and the selection stay visible when new samples arrive.
        let pointed = [self.cursor, self.anchor].into_iter().flatten().map(|spot| spot.at / length.max(1)).min();
        let newest = (model.context.answer.elapsed_ns / length.max(1) + 1).saturating_sub(room.0 as u64);
        let page = self.page.or(pointed.filter(|column| *column < newest));
        HeatSpec { by, length, page, columns: room.0, rows, lit }
    }

    /// Returns the sampling rate of the displayed event; 0 without one.
    fn event_rate(model: &Model) -> u64 {
        let own = || model.recorded_event().map(|event| Rate::of(&event.attr));
        model.context.meter(model.selection.event).map(|meter| meter.state.rate).or_else(own).map_or(0, Rate::hz)
    }

    pub(crate) fn turn_scale(&mut self, model: &mut Model) {
        let linear = self.scale == Scale::Rank;
        self.scale = if linear { Scale::Linear } else { Scale::Rank };
        model.say(if linear { "colours by share of the highest cell" } else { "colours by rank" });
        self.follow(model);
    }

    pub(crate) fn drop_highlight(&mut self, model: &mut Model) {
        if self.highlight.take().is_none() {
            model.say("highlight a function: put the cursor on it in the table or flame graph, then 3");
        }
    }

    pub(crate) fn follow(&mut self, model: &Model) {
        if let Some(heat) = &model.context.answer.view.heat {
            self.take(heat);
        }
    }

    /// Shows the time screen, with the samples of the function under the cursor highlighted.
    pub(crate) fn show(&mut self, model: &mut Model, here: Option<AnnotatedFunction>) {
        let name = here.map(|found| found.function.to_string());
        if let Some(name) = name.filter(|name| !name.is_empty() && name != "[unknown]")
            && let Ok(filter) = model.context.parse(&equals("stack", &name))
        {
            self.highlight = Some((Arc::new(filter), name));
        }
        model.frame.tab = Tab::Time;
    }

    /// Highlights the samples of matching functions; an empty text ends the highlight.
    pub(crate) fn highlight_search(&mut self, model: &mut Model, text: Option<String>) {
        let Some(text) = text else { return model.ask_for(&general::SEARCH, String::new()) };
        let clause =
            format!("stack =~ {}", if text.contains('"') { format!("'{text}'") } else { format!("\"{text}\"") });
        match model.context.parse(&clause) {
            _ if text.is_empty() => self.highlight = None,
            Ok(filter) => self.highlight = Some((Arc::new(filter), format!("/{text}"))),
            Err(fault) => model.error(fault.line()),
        }
    }

    pub(crate) fn select(&mut self, model: &Model, whole: bool) {
        let Some(heat) = model.context.answer.view.heat.clone() else { return };
        let again = self.anchor.is_some() && self.whole == whole;
        self.anchor = (!again).then(|| self.anchor.unwrap_or(self.spot(&heat)));
        self.whole = whole;
    }

    fn has_durations(model: &Model) -> bool {
        model.event().is_some_and(|event| event.meaning.durations)
    }

    pub(crate) fn set_rows(&mut self, model: &mut Model, text: Option<&str>) {
        let next = match text.map(HeatBy::parse) {
            Some(Some(HeatBy::Latency)) if !Self::has_durations(model) => {
                let with = model.context.answer.events.iter().filter(|event| event.meaning.durations);
                let names: Vec<&str> = with.map(|event| event.name.as_str()).collect();
                return model.error(match names.is_empty() {
                    true => "these samples have no durations; those of sched:sched_switch and irq:* have".to_owned(),
                    false => format!("these samples have no durations; select {} on screen 5", names.join(" or ")),
                });
            }
            Some(Some(by)) => by,
            Some(None) => {
                let known: Vec<&str> = HeatBy::ALL.iter().map(|row| row.1).collect();
                return model.error(format!("{}: expected one of {}", text.unwrap_or_default(), known.join(", ")));
            }
            None => match self.by.next() {
                HeatBy::Latency if !Self::has_durations(model) => HeatBy::Latency.next(),
                next => next,
            },
        };
        self.by = next;
        (self.page, self.cursor, self.anchor) = (None, None, None);
        // With rows other than offsets, show a whole recording at once.
        let columns = layout::room(model, self).0;
        self.length = match (&model.context.answer.ended, next) {
            (Some(_), by) if by != HeatBy::Offset => fitting(model.context.answer.elapsed_ns, columns),
            (Some(_), _) => usual(model.context.answer.elapsed_ns),
            (None, _) => SECOND,
        };
    }

    pub(crate) fn zoom_by(&mut self, model: &Model, step: isize) {
        let Some(heat) = model.context.answer.view.heat.clone() else { return };
        let at = self.spot(&heat).at;
        self.zoom(step, at, heat.columns);
    }

    /// Moves the cursor by columns and rows, also to other pages. With rows of offsets it moves in order of time.
    pub(crate) fn step(&mut self, model: &Model, columns: i64, rows: i64) {
        let Some(heat) = model.context.answer.view.heat.clone().filter(|heat| heat.rows > 0) else { return };
        let spot = self.spot(&heat);
        let n = heat.rows as i64;
        let (column, row) = match heat.by {
            HeatBy::Offset => {
                let at = self.cell(&heat) as i64 + columns * n + rows;
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
            self.page = Some(column / width * width);
        }
        let there = Heat { first: column, columns: 1, lanes: Vec::new(), cells: Vec::new(), ..(*heat).clone() };
        self.cursor = Some(MapPoint { at: there.time(row as usize), row: row as usize });
    }

    fn turn_page(&mut self, model: &Model, by: i64) {
        let Some(heat) = model.context.answer.view.heat.clone() else { return };
        let next = heat.first.saturating_add_signed(by * heat.columns as i64);
        if next.saturating_mul(heat.length) <= heat.until && next != heat.first {
            self.page = Some(next);
            self.cursor = Some(MapPoint { at: next.saturating_mul(heat.length), row: self.spot(&heat).row });
        }
    }

    /// Filters all screens by the selection.
    pub(crate) fn enter(&mut self, model: &mut Model) {
        if model.start_sampling() {
            return;
        }
        let Some(heat) = model.context.answer.view.heat.clone().filter(|heat| heat.rows > 0) else { return };
        let selected = self.selected(&heat);
        model.go_to_range((selected.from, selected.until));
        if let Some(rows) = selected.rows.filter(|rows| *rows != (0..heat.rows)) {
            let lanes = &heat.lanes[rows];
            let clauses: Option<Vec<String>> = lanes.iter().map(|lane| lane.expression.clone()).collect();
            match clauses {
                Some(clauses) => {
                    let label =
                        if lanes.len() == 1 { lanes[0].label.to_string() } else { format!("{} rows", lanes.len()) };
                    model.push_zoom(label, clauses.iter().map(|c| format!("({c})")).collect::<Vec<_>>().join(" || "));
                }
                None => model.say("cannot filter by the remaining rows or an unknown function"),
            }
        }
        self.anchor = None;
        model.frame.tab = Tab::Top;
    }

    /// Makes the selected time the baseline.
    pub(crate) fn mark_baseline(&mut self, model: &mut Model) {
        let Some(heat) = model.context.answer.view.heat.clone().filter(|heat| heat.rows > 0) else { return };
        let selected = self.selected(&heat);
        model.compare_range((selected.from, selected.until));
        self.anchor = None;
        model.say("baseline set: select another range; ⏎ shows the difference, B ends it");
    }

    fn spot_at(&self, model: &Model, x: u16, y: u16) -> Option<MapPoint> {
        let heat = model.context.answer.view.heat.as_ref()?;
        let (column, row) = layout::hit(model, self, x, y)?;
        let at = match heat.by {
            HeatBy::Offset => heat.time(column * heat.rows + row),
            _ => heat.column_time(column),
        };
        Some(MapPoint { at, row })
    }

    /// Returns the time for a mark: under the cursor on the time screen, otherwise now or the end.
    fn moment(&self, model: &Model) -> u64 {
        match (&model.context.answer.view.heat, model.frame.tab) {
            (Some(heat), Tab::Time) => self.spot(heat).at,
            _ => model.context.answer.elapsed_ns,
        }
    }

    /// `'x`: goes to the mark x, or sets it if it does not exist. `:mark x text` sets it with a note.
    pub(crate) fn mark(&mut self, model: &mut Model, text: Option<String>) {
        let Some(text) = text else {
            "'".clone_into(&mut model.frame.chord);
            return;
        };
        let (name, note) = text.split_once(' ').map_or((text.as_str(), None), |(name, note)| (name, Some(note.trim())));
        if name == "'" {
            return model.frame.popups.push(Popup::Marks { cursor: 0 });
        }
        let mut letters = name.chars();
        let (Some(letter), None) = (letters.next().filter(|c| marks::is_name(*c)), letters.next()) else {
            return model.error(format!("{name}: a mark is one letter or digit"));
        };
        let known = model.context.answer.marks.iter().find(|mark| mark.name == name).cloned();
        match (known, note) {
            (Some(known), None) => self.go_to_mark(model, &known),
            (_, note) => {
                let at = self.moment(model);
                let note = note.unwrap_or_default().to_owned();
                model.request(Request::Mark(TimeMark { at, name: letter.to_string(), note }));
                model.say(format!(
                    "mark {letter} is set at {:.3} s: '{letter} goes there, :marks lists all",
                    at as f64 / 1e9
                ));
            }
        }
    }

    pub(crate) fn note_moment(&self, model: &mut Model, note: String) {
        let at = self.moment(model);
        model.request(Request::Mark(TimeMark { at, name: String::new(), note }));
        model.say(format!("noted at {}: :marks lists, S saves", clock(at)));
    }

    pub(crate) fn go_to_mark(&mut self, model: &mut Model, mark: &TimeMark) {
        let columns = layout::room(model, self).0 as u64;
        let column = mark.at / self.length.max(1);
        self.page = Some(column / columns * columns);
        self.cursor = Some(MapPoint { at: mark.at, row: 0 });
        self.anchor = None;
        model.frame.tab = Tab::Time;
        let kept = mark.at >= model.context.answer.kept_from || model.context.info.origin == Origin::Recorded;
        model.say(match (kept, mark.note.is_empty()) {
            (false, _) => format!("{}: its samples are no longer kept (--keep, --memory)", mark.note),
            (true, true) => format!("mark {}", mark.name),
            (true, false) => mark.note.clone(),
        });
    }
}
