//! Commands and mouse of the flame graph.

use std::sync::Arc;

use ratatui::layout::Rect;

use crate::filter::equals;
use crate::query::flame::layout::{Flame, FlameBlock, FlameDirection, FlameSpec};
use crate::query::flame::{Class, Edit, process_of};
use crate::query::rows::partner::PairKind;
use crate::query::rows::task_choices::TaskSamples;
use crate::query::search::{exactly, pattern};
use crate::query::{ChainMode, ColumnKey};
use crate::session::Origin;
use crate::session::containers::joined;
use crate::ui::draw::layout;
use crate::ui::input::commands::general;
use crate::ui::screens::flame::commands::{AROUND, FOOTER, ZOOM};
use crate::ui::screens::flame::details;
use crate::ui::screens::flame::draw as drawn;
use crate::ui::screens::flame::state::FlameState;
use crate::ui::screens::screen::{AnnotatedFunction, Canvas, Command, CursorStep, Hints, Model, Question, Screen};
use crate::ui::screens::top::split;
use crate::ui::state::{MIN, ZoomTarget};

/// The possible bottom rows of stacks instead of programs.
const GROUNDS: &[Edit] = &[Edit::Processes, Edit::Containers, Edit::AllTasks];

/// Rows of a page in the flame graph.
const PAGE: usize = 8;

impl Screen for FlameState {
    fn draw(&self, model: &Model, on: &mut Canvas<'_>) {
        drawn::draw(model, self, on);
    }

    fn draw_details(&self, model: &Model, on: &mut Canvas<'_>) {
        details::details(model, self, on);
    }

    fn hints(&self, _origin: Origin) -> Hints {
        FOOTER
    }

    fn text(&self, model: &Model) -> Option<String> {
        model.context.answer.view.flame.as_ref().map(|flame| details::text(model, self, flame))
    }

    fn add_commands(&self, model: &Model, commands: &mut Vec<String>) {
        commands.push("flame".to_owned());
        commands.extend(self.edits_as_commands());
        commands.extend(model.selection.off_cpu.then(|| "off-cpu".to_owned()));
    }

    fn click(&mut self, model: &mut Model, x: u16, y: u16) -> Option<&'static Command> {
        let flame = model.context.answer.view.flame.clone()?;
        let area = self.area(model);
        let y = y.checked_sub(area.y).filter(|y| *y < area.height)?;
        let mut rows = flame.blocks.iter().map(|b| b.row);
        let row = rows.find(|row| self.y_of(&flame, *row, area.height) == Some(y))?;
        let hit = self.at(&flame, x - area.x, row)?;
        if Some(hit) == self.block(&flame).map(|b| b.id) {
            return Some(&ZOOM);
        }
        self.cursor = Some(hit);
        None
    }

    fn move_cursor(&mut self, model: &mut Model, step: CursorStep) {
        match step {
            CursorStep::Lines(n) => self.move_along(model, n, 1),
            CursorStep::Pages(n) => self.move_along(model, n, PAGE),
            CursorStep::Home => self.cursor = None,
            CursorStep::End => self.in_flame(model, |view, flame| view.far(flame, 1, usize::from(u16::MAX))),
        }
    }

    fn scroll(&mut self, model: &mut Model, by: i32) {
        self.move_cursor(model, CursorStep::Lines(by));
    }

    fn leave(&mut self, _model: &mut Model) -> bool {
        self.find.take().is_some()
    }

    fn function(&self, model: &Model) -> Option<AnnotatedFunction> {
        let block = self.function_here(model)?;
        Some(AnnotatedFunction { function: block.name.clone(), dso: block.dso.clone() })
    }

    fn question(&self, model: &Model, question: Question) -> Question {
        Question { pair: self.by_ipc.then_some(PairKind::Ipc), flame: Some(self.spec_of(model)), ..question }
    }
}

impl FlameState {
    /// Follows a new graph: the cursor goes to the first match of a new search, and rows adapt to its depth.
    pub(crate) fn follow(&mut self, model: &Model, flame: &Flame) {
        if flame.found.is_some() && std::mem::take(&mut self.seeks) {
            self.seek_found(flame);
        }
        self.fit(flame, self.area(model).height);
    }

    fn area(&self, model: &Model) -> Rect {
        let area = Rect { x: 0, y: 0, width: model.frame.size.0, height: model.frame.size.1.max(MIN.1) };
        drawn::graph(layout::places(model, area).table)
    }

    fn spec_of(&self, model: &Model) -> FlameSpec {
        let area = self.area(model);
        // During recording, frames are sorted by name, so that they keep their places.
        let by_weight = model.context.info.origin == Origin::Recorded && !model.context.info.flows
            || model.selection.frozen
            || model.context.answer.ended.is_some();
        // Request more rows than fit, so that the cursor finds the next frame.
        self.spec(area.width, area.height.saturating_mul(2), by_weight)
    }

    pub(crate) fn in_flame(&mut self, model: &Model, go: impl FnOnce(&mut FlameState, &Flame)) {
        if let Some(flame) = model.context.answer.view.flame.clone() {
            go(self, &flame);
        }
    }

    /// Moves along the stack by some rows, down (1) or up (-1) on the screen.
    fn move_along(&mut self, model: &Model, down: i32, rows: usize) {
        let roots_above = self.icicle || matches!(self.place.way, FlameDirection::Around(_));
        let step = if roots_above { down } else { -down };
        self.in_flame(model, |view, flame| view.far(flame, step, rows));
    }

    /// Searches frames; an empty text ends the search.
    pub(crate) fn search(&mut self, model: &mut Model, text: Option<String>) {
        let Some(text) = text else {
            return model.ask_for(&general::SEARCH, self.find.clone().unwrap_or_default());
        };
        match pattern(&text) {
            _ if text.is_empty() => self.find = None,
            Ok(_) => (self.find, self.seeks) = (Some(text), true),
            Err(error) => model.error(error),
        }
    }

    pub(crate) fn mark(&mut self, model: &Model) {
        let name = self.frame(model).map(|block| exactly(&block.name));
        self.find = if self.find == name { None } else { name };
    }

    pub(crate) fn turn_percent(&self, model: &mut Model) {
        let of_all = model.selection.rows.chain_mode == ChainMode::Fractal;
        model.selection.rows.chain_mode = if of_all { ChainMode::Graph } else { ChainMode::Fractal };
        model.say(if of_all { "percent of all that is shown" } else { "percent of the frame below" });
    }

    /// Toggles between colours by instructions per cycle and by kind of code.
    pub(crate) fn turn_ipc(&mut self, model: &mut Model) {
        let told = model.context.has_pair(PairKind::Ipc, model.selection.event);
        if !told && !self.by_ipc {
            return model.say("instructions per cycle need both events: -e cycles,instructions");
        }
        self.by_ipc = !self.by_ipc;
        model.say(if self.by_ipc { "colours by instructions per cycle" } else { "colours by kind of code" });
    }

    /// Returns the frame under the cursor, of a function or a comm.
    fn frame<'a>(&self, model: &'a Model) -> Option<&'a FlameBlock> {
        self.block(model.context.answer.view.flame.as_ref()?).filter(|block| block.pooled == 0 && block.small == 0)
    }

    fn function_here<'a>(&self, model: &'a Model) -> Option<&'a FlameBlock> {
        self.frame(model).filter(|block| block.class != Class::Thread)
    }

    /// Switches the bottom row of stacks: programs, processes, containers if there are any, or none.
    pub(crate) fn next_ground(&mut self, model: &mut Model) {
        let edits = &self.place.edits;
        let now = edits.iter().find(|edit| GROUNDS.contains(edit));
        let contained =
            |whose: &TaskSamples| whose.group.text(ColumnKey::Container).is_some_and(|name| !name.is_empty());
        let (next, words) = match now {
            None => (Some(Edit::Processes), "one tower per process"),
            Some(Edit::Processes) if model.context.answer.view.tasks.iter().any(contained) => {
                (Some(Edit::Containers), "one tower per container, systemd unit or cgroup")
            }
            Some(Edit::Processes | Edit::Containers) => (Some(Edit::AllTasks), "one tower for all tasks"),
            Some(_) => (None, "one tower per program"),
        };
        self.change(|place| {
            place.edits.retain(|edit| !GROUNDS.contains(edit));
            place.edits.extend(next);
            place.zoom.clear();
        });
        model.say(words);
    }

    /// Shows callers and callees of a function, by default the one under the cursor.
    pub(crate) fn around(&mut self, model: &mut Model, text: Option<String>) {
        let here = || self.function_here(model).map(|block| exactly(&block.name));
        let Some(text) = text.or_else(here) else { return model.ask_for(&AROUND, String::new()) };
        match pattern(&text) {
            Ok(_) => self.change(|place| (place.way, place.zoom) = (FlameDirection::Around(text), Vec::new())),
            Err(error) => model.error(error),
        }
    }

    pub(crate) fn zoom(&mut self, model: &mut Model) {
        if model.start_sampling() {
            return;
        }
        let Some(flame) = model.context.answer.view.flame.clone() else { return };
        let Some(index) = self.index(&flame) else { return };
        if matches!(self.place.way, FlameDirection::Around(_)) {
            let name = flame.blocks[index].name.to_string();
            return self.around(model, Some(exactly(&name)));
        }
        let id = flame.blocks[index].id;
        let names = self.names(&flame, index);
        self.change(|place| place.zoom = names);
        self.cursor = Some(id);
    }

    /// Filters by the frame under the cursor, like on the table.
    pub(crate) fn filter_by(&mut self, model: &mut Model, key: ColumnKey) {
        let Some(flame) = model.context.answer.view.flame.clone() else { return };
        let Some(index) = self.index(&flame).filter(|i| flame.blocks[*i].pooled == 0 && flame.blocks[*i].small == 0)
        else {
            return;
        };
        let block = &flame.blocks[index];
        let ground = self.names(&flame, index).first().cloned();
        let only = match key {
            ColumnKey::Dso => Some(("dso", &block.dso)).filter(|(_, dso)| !dso.is_empty()),
            ColumnKey::Comm => None,
            _ => Some(("stack", &block.name)),
        };
        let only = only.map(|(field, value)| (format!("{field} {value}"), equals(field, value))).or_else(|| {
            let ground = ground.filter(|_| key == ColumnKey::Comm && self.place.way == FlameDirection::Roots)?;
            self.of_ground(model, &ground)
        });
        match only {
            Some((label, expression)) => model.push_zoom(label, expression),
            None => model.say(format!("no frame with a {} under the cursor", key.name())),
        }
    }

    /// Returns label and filter of samples of a program or a process in the bottom row.
    fn of_ground(&self, model: &Model, ground: &str) -> Option<(String, String)> {
        let edits = &self.place.edits;
        if edits.contains(&Edit::AllTasks) {
            return None;
        }
        if edits.contains(&Edit::Processes) {
            let pid = process_of(ground)?;
            return Some((format!("pid {pid}"), format!("pid == {pid}")));
        }
        if edits.contains(&Edit::Containers) {
            return self.of_container(model, ground);
        }
        Some((format!("program {ground}"), equals("program", ground)))
    }

    /// Returns label and filter of a container, by all parts of its name.
    fn of_container(&self, model: &Model, ground: &str) -> Option<(String, String)> {
        let part = |whose: &TaskSamples, key: ColumnKey| {
            whose.group.text(key).map(|text| text.to_string()).unwrap_or_default()
        };
        const KEYS: [ColumnKey; 3] = [ColumnKey::Namespace, ColumnKey::Pod, ColumnKey::Container];
        let parts = model.context.answer.view.tasks.iter().map(|whose| KEYS.map(|key| part(whose, key)));
        let found = parts.into_iter().find(|[namespace, pod, name]| joined(namespace, pod, name) == ground)?;
        Some(split::of_container(&found))
    }

    pub(crate) fn exclude(&mut self, model: &mut Model, name: Option<String>) {
        let of_stack = |name: String| (equals("stack", &name), name);
        let frame = || self.frame(model).map(|b| (b.name.to_string(), b.class == Class::Thread));
        let (expression, label) = match name.map(|name| (name, false)).or_else(frame) {
            Some((name, false)) => of_stack(name),
            Some((ground, true)) => match self.of_ground(model, &ground) {
                Some((_, expression)) => (expression, ground),
                None => return model.say("these are all samples already"),
            },
            None => return,
        };
        let zoom = model.zoom_of(format!("without {label}"), &format!("!({expression})"), ZoomTarget::Clause);
        model.selection.zooms.extend(zoom.filter(|zoom| !model.selection.zooms.contains(zoom)));
    }

    /// Edits stacks by a name, by default that of the function under the cursor.
    pub(crate) fn edit_by(
        &mut self,
        model: &mut Model,
        name: Option<String>,
        own: fn(&FlameBlock) -> &Arc<str>,
        edit: fn(Arc<str>) -> Edit,
    ) {
        let name = name.map(Arc::from).or_else(|| self.function_here(model).map(|block| own(block).clone()));
        match name.filter(|name| !name.is_empty()) {
            Some(name) => self.edit(edit(name)),
            None => model.say("no function under the cursor"),
        }
    }

    pub(crate) fn edit(&mut self, edit: Edit) {
        self.change(|place| {
            // The same edit again reverts it.
            if place.edits.contains(&edit) {
                place.edits.retain(|e| *e != edit);
            } else {
                place.edits.push(edit);
            }
        });
    }
}
