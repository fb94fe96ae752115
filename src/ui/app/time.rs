//! What the time screen does: the cursor, a selection in order of time, and the way into it.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use crate::query::heat::{HeatSpec, SECOND};
use crate::ui::command::Command;
use crate::ui::draw::time as drawn;
use crate::ui::time::cell_at;

use super::{App, Tab};

impl App {
    /// The map that the screen has room for.
    pub(super) fn heat_spec(&self) -> HeatSpec {
        let (columns, rows) = drawn::room(self, self.size);
        HeatSpec { page: self.time.page, columns, rows }
    }

    pub(super) fn run_time(&mut self, command: &Command) -> bool {
        let rows = self.answer.heat.as_ref().map_or(1, |heat| heat.rows.max(1)) as i64;
        match command {
            Command::Up => self.move_time(-1),
            Command::Down => self.move_time(1),
            Command::TimeLeft => self.move_time(-rows),
            Command::TimeRight => self.move_time(rows),
            Command::PageUp => self.turn_time(-1),
            Command::PageDown => self.turn_time(1),
            Command::End => (self.time.page, self.time.cursor) = (None, None),
            Command::Home => {
                self.time.page = Some(0);
                self.time.cursor = Some(0);
            }
            Command::TimeSelect => {
                let here = self.answer.heat.as_ref().map(|heat| heat.time(self.time.cell(heat)));
                self.time.anchor = if self.time.anchor.is_some() { None } else { here };
            }
            Command::TimeEnter => self.enter_time(),
            _ => return false,
        }
        true
    }

    /// Moves the cursor by cells in order of time, over to other pages where it leads there.
    fn move_time(&mut self, by: i64) {
        let Some(heat) = self.answer.heat.clone().filter(|heat| heat.rows > 0) else { return };
        let at = self.time.cell(&heat) as i64 + by;
        let all = (heat.columns * heat.rows) as i64;
        if (0..all).contains(&at) {
            self.time.cursor = Some(heat.time(at as usize));
            return;
        }
        let (rows, first) = (heat.rows as i64, heat.first as i64);
        let (second, row) = (first + at.div_euclid(rows), at.rem_euclid(rows));
        let Ok(second) = u64::try_from(second) else { return };
        if second * SECOND <= heat.until {
            let width = heat.columns as u64;
            self.time.page = Some(second / width * width);
            self.time.cursor = Some(second * SECOND + (row as u64 * SECOND).div_ceil(heat.rows as u64));
        }
    }

    fn turn_time(&mut self, by: i64) {
        let Some(heat) = self.answer.heat.clone() else { return };
        let width = heat.columns as u64;
        let next = heat.first.saturating_add_signed(by * width as i64);
        if next * SECOND <= heat.until && next != heat.first {
            self.time.page = Some(next);
            self.time.cursor = Some(next * SECOND);
        }
    }

    /// Shows only what came in the selected time, on every screen.
    fn enter_time(&mut self) {
        let Some(heat) = self.answer.heat.clone().filter(|heat| heat.rows > 0) else { return };
        let cells = self.time.selected(&heat);
        let (from, until) = (heat.time(cells.start), heat.time(cells.end));
        let seconds = |ns: u64| ns as f64 / 1e9;
        let label = format!("{:.3}–{:.3} s", seconds(from), seconds(until));
        // A range replaces the one that was entered before.
        self.zooms.retain(|zoom| !zoom.expression.starts_with("time >= "));
        self.push_zoom(label, format!("time >= {from}ns && time < {until}ns"));
        self.time.anchor = None;
        self.tab = Tab::Top;
    }

    pub(super) fn time_mouse(&mut self, mouse: MouseEvent) {
        let Some(heat) = self.answer.heat.clone() else { return };
        let at = drawn::hit(self, mouse.column, mouse.row);
        match (mouse.kind, at) {
            (MouseEventKind::Down(MouseButton::Left), Some(cell)) => {
                let again = self.time.anchor.is_none() && cell_at(&heat, heat.time(cell)) == self.time.cell(&heat);
                self.time.cursor = Some(heat.time(cell));
                self.time.anchor = None;
                if again {
                    self.enter_time();
                }
            }
            (MouseEventKind::Drag(MouseButton::Left), Some(cell)) => {
                let here = self.time.cell(&heat);
                self.time.anchor.get_or_insert(heat.time(here));
                self.time.cursor = Some(heat.time(cell));
            }
            (MouseEventKind::Down(MouseButton::Right), _) => self.run(Command::Back),
            _ => {}
        }
    }
}
