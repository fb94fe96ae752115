//! What commands and the mouse do on the flame graph.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use crate::filter::equals;
use crate::query::blocks::{Block, FlameSpec, Way};
use crate::query::find::{exactly, pattern};
use crate::query::flame::{Class, Edit};
use crate::query::{ChainMode, Key};
use crate::session::Origin;
use crate::ui::app::App;
use crate::ui::command::Command;
use crate::ui::draw::layout;
use crate::ui::prompt::Ask;
use crate::ui::selection::Zoom;
use crate::ui::view::flame::draw as drawn;

/// Rows of a page on the flame graph.
const PAGE: usize = 8;

impl App {
    fn flame_area(&self) -> Rect {
        let area = Rect { x: 0, y: 0, width: self.frame.size.0, height: self.frame.size.1.max(layout::MIN.1) };
        drawn::graph(layout::places(self.scene(), area).table)
    }

    pub(in crate::ui) fn flame_spec(&self) -> FlameSpec {
        let area = self.flame_area();
        // While samples come in, frames keep their places: by name.
        let by_weight = self.context.info.origin == Origin::Recorded && !self.context.info.flows
            || self.selection.frozen
            || self.context.answer.ended.is_some();
        // Some rows more than fit, so that the cursor finds what it moves to.
        self.views.flame.spec(area.width, area.height.saturating_mul(2), by_weight)
    }

    /// Runs a command on the flame graph; `false` when it is none of its own.
    pub(in crate::ui) fn run_flame(&mut self, command: &Command) -> bool {
        let Some(flame) = self.context.answer.flame.clone() else {
            return matches!(command, Command::Up | Command::Down | Command::FlameLeft | Command::FlameRight);
        };
        let sandwich = matches!(self.views.flame.place.way, Way::Around(_));
        let down = if self.views.flame.icicle || sandwich { 1 } else { -1 };
        match command {
            Command::Up => self.views.flame.along(&flame, -down),
            Command::Down => self.views.flame.along(&flame, down),
            Command::FlameLeft => self.views.flame.sideways(&flame, -1),
            Command::FlameRight => self.views.flame.sideways(&flame, 1),
            Command::PageUp => self.views.flame.far(&flame, -down, PAGE),
            Command::PageDown => self.views.flame.far(&flame, down, PAGE),
            Command::End => self.views.flame.far(&flame, 1, usize::from(u16::MAX)),
            Command::Home => self.views.flame.cursor = None,
            Command::FlameZoom => self.flame_zoom(),
            Command::Flip => self.views.flame.icicle = !self.views.flame.icicle,
            Command::Leaves => self.views.flame.change(|place| {
                place.way = if place.way == Way::Leaves { Way::Roots } else { Way::Leaves };
                place.zoom.clear();
            }),
            Command::Around(None) => match self.flame_function() {
                Some(name) => self.flame_around(exactly(&name)),
                None => self.ask_for(Ask::Around, String::new()),
            },
            Command::Around(Some(text)) => self.flame_around(text.clone()),
            Command::MarkAll => {
                let name = self.flame_frame().map(|block| exactly(&block.name));
                self.views.flame.find = if self.views.flame.find == name { None } else { name };
            }
            Command::Search(None) => self.ask_for(Ask::Search, self.views.flame.find.clone().unwrap_or_default()),
            Command::Search(Some(text)) => match pattern(text) {
                Ok(_) => (self.views.flame.find, self.views.flame.seeks) = (Some(text.clone()), true),
                Err(error) => self.error(error),
            },
            Command::NextMatch => self.views.flame.next_found(&flame, 1),
            Command::PreviousMatch => self.views.flame.next_found(&flame, -1),
            Command::Drop(name) => self.flame_drop(name.clone()),
            Command::Focus(_)
            | Command::Merge(_)
            | Command::MergeDso(_)
            | Command::Recursion
            | Command::Chains
            | Command::ByDso => self.flame_edit(command),
            Command::OffCpu => self.toggle_off_cpu(),
            Command::FlameTasks => self.next_ground(),
            Command::Fractal => {
                let of_all = self.selection.chain_mode == ChainMode::Fractal;
                self.selection.chain_mode = if of_all { ChainMode::Graph } else { ChainMode::Fractal };
                self.say(if of_all { "percent of all that is shown" } else { "percent of the frame below" });
            }
            Command::Zoom(key @ (Key::Dso | Key::Sym | Key::Comm)) => self.flame_filter(*key),
            _ => return false,
        }
        true
    }

    /// The frame under the cursor, a function's or a comm's.
    fn flame_frame(&self) -> Option<&Block> {
        self.views
            .flame
            .block(self.context.answer.flame.as_ref()?)
            .filter(|block| block.pooled == 0 && block.small == 0)
    }

    /// The function under the cursor.
    pub(in crate::ui) fn flame_function(&self) -> Option<String> {
        self.flame_frame().filter(|block| block.class != Class::Thread).map(|block| block.name.to_string())
    }

    /// Lets stacks stand on programs, on processes or on nothing.
    fn next_ground(&mut self) {
        let edits = &self.views.flame.place.edits;
        let (next, words) = match (edits.contains(&Edit::Processes), edits.contains(&Edit::AllTasks)) {
            (false, false) => (Some(Edit::Processes), "each process for itself"),
            (true, _) => (Some(Edit::AllTasks), "all tasks together"),
            _ => (None, "processes of one program together"),
        };
        self.views.flame.change(|place| {
            place.edits.retain(|edit| !matches!(edit, Edit::Processes | Edit::AllTasks));
            place.edits.extend(next);
            place.zoom.clear();
        });
        self.say(words);
    }

    fn flame_around(&mut self, text: String) {
        match pattern(&text) {
            Ok(_) => self.views.flame.change(|place| (place.way, place.zoom) = (Way::Around(text), Vec::new())),
            Err(error) => self.error(error),
        }
    }

    fn flame_zoom(&mut self) {
        let Some(flame) = self.context.answer.flame.clone() else { return };
        let Some(index) = self.views.flame.index(&flame) else { return };
        if matches!(self.views.flame.place.way, Way::Around(_)) {
            let name = flame.blocks[index].name.to_string();
            return self.flame_around(exactly(&name));
        }
        let id = flame.blocks[index].id;
        let names = self.views.flame.names(&flame, index);
        self.views.flame.change(|place| place.zoom = names);
        self.views.flame.cursor = Some(id);
    }

    /// Zooms by filter, as on the table, into what is under the cursor.
    fn flame_filter(&mut self, key: Key) {
        let Some(flame) = self.context.answer.flame.clone() else { return };
        let Some(index) =
            self.views.flame.index(&flame).filter(|i| flame.blocks[*i].pooled == 0 && flame.blocks[*i].small == 0)
        else {
            return;
        };
        let block = &flame.blocks[index];
        let comm = self.views.flame.names(&flame, index).first().cloned();
        let (field, value) = match key {
            Key::Dso => ("dso", (!block.dso.is_empty()).then(|| block.dso.clone())),
            Key::Comm => ("comm", comm.filter(|_| self.views.flame.place.way == Way::Roots)),
            _ => ("stack", Some(block.name.clone())),
        };
        match value {
            Some(value) => self.push_zoom(format!("{field} {value}"), equals(field, &value)),
            None => self.say(format!("the cursor is on no frame with a {field}")),
        }
    }

    fn flame_drop(&mut self, name: Option<String>) {
        let under = || self.flame_frame().map(|b| (b.name.to_string(), b.class == Class::Thread));
        let Some((name, is_comm)) = name.map(|name| (name, false)).or_else(under) else { return };
        let field = if is_comm { "comm" } else { "stack" };
        let zoom =
            Zoom { label: format!("without {name}"), expression: format!("!({})", equals(field, &name)), range: None };
        if !self.selection.zooms.contains(&zoom) {
            self.selection.zooms.push(zoom);
        }
    }

    fn flame_edit(&mut self, command: &Command) {
        let block = self.flame_frame().filter(|block| block.class != Class::Thread);
        let (name, dso) = (block.map(|b| b.name.clone()), block.map(|b| b.dso.clone()));
        let given = |text: &Option<String>, here: Option<std::sync::Arc<str>>| {
            text.as_deref().map(Into::into).or(here).filter(|t| !t.is_empty())
        };
        let edit = match command {
            Command::Focus(text) => given(text, name).map(Edit::Focus),
            Command::Merge(text) => given(text, name).map(Edit::MergeFunction),
            Command::MergeDso(text) => given(text, dso).map(Edit::MergeDso),
            Command::Recursion => Some(Edit::CollapseRecursion),
            Command::Chains => Some(Edit::CollapseChains),
            _ => Some(Edit::ByDso),
        };
        let Some(edit) = edit else { return self.say("the cursor is on no function") };
        self.views.flame.change(|place| {
            // The same again takes it back.
            if place.edits.contains(&edit) {
                place.edits.retain(|e| *e != edit);
            } else {
                place.edits.push(edit);
            }
        });
    }

    pub(in crate::ui) fn flame_mouse(&mut self, mouse: MouseEvent) {
        let Some(flame) = self.context.answer.flame.clone() else { return };
        let area = self.flame_area();
        let inside = mouse.row >= area.y && mouse.row < area.y + area.height;
        match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) if inside => {
                let y = mouse.row - area.y;
                let row = flame
                    .blocks
                    .iter()
                    .map(|b| b.row)
                    .find(|r| self.views.flame.y_of(&flame, *r, area.height) == Some(y));
                let hit = row.and_then(|row| self.views.flame.at(&flame, mouse.column - area.x, row));
                if hit.is_some() && hit == self.views.flame.block(&flame).map(|b| b.id) {
                    self.run(Command::FlameZoom);
                } else if hit.is_some() {
                    self.views.flame.cursor = hit;
                }
            }
            MouseEventKind::Down(MouseButton::Right) => self.run(Command::Undo),
            MouseEventKind::ScrollDown => self.run(Command::Down),
            MouseEventKind::ScrollUp => self.run(Command::Up),
            _ => {}
        }
    }
}
