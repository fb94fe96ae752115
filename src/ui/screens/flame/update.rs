//! Commands and mouse of the flame graph.

use std::sync::Arc;

use ratatui::layout::Rect;

use crate::filter::equals;
use crate::query::flame::layout::{Flame, FlameBlock, FlameDirection, FlameSpec};
use crate::query::flame::{Class, Edit, process_of};
use crate::query::rows::task_choices::TaskSamples;
use crate::query::search::{exactly, pattern};
use crate::query::{ChainMode, ColumnKey};
use crate::session::Origin;
use crate::session::containers::joined;
use crate::ui::app::App;
use crate::ui::draw::layout;
use crate::ui::input::commands::general;
use crate::ui::screens::flame::commands::AROUND;
use crate::ui::screens::flame::draw as drawn;
use crate::ui::screens::flame::state::FlameState;
use crate::ui::screens::top::split;
use crate::ui::state::{MIN, ZoomTarget};

/// The possible bottom rows of stacks instead of programs.
const GROUNDS: &[Edit] = &[Edit::Processes, Edit::Containers, Edit::AllTasks];

impl App {
    pub(crate) fn flame_area(&self) -> Rect {
        let area = Rect { x: 0, y: 0, width: self.frame.size.0, height: self.frame.size.1.max(MIN.1) };
        drawn::graph(layout::places(self.scene(), area).table)
    }

    pub(crate) fn flame_spec(&self) -> FlameSpec {
        let area = self.flame_area();
        // During recording, frames are sorted by name, so that they keep their places.
        let by_weight = self.context.info.origin == Origin::Recorded && !self.context.info.flows
            || self.selection.frozen
            || self.context.answer.ended.is_some();
        // Request more rows than fit, so that the cursor finds the next frame.
        self.views.flame.spec(area.width, area.height.saturating_mul(2), by_weight)
    }

    pub(crate) fn in_flame(&mut self, go: impl FnOnce(&mut FlameState, &Flame)) {
        if let Some(flame) = self.context.answer.view.flame.clone() {
            go(&mut self.views.flame, &flame);
        }
    }

    /// Moves along the stack by some rows, down (1) or up (-1) on the screen.
    pub(crate) fn along_flame(&mut self, down: i32, rows: usize) {
        let view = &self.views.flame;
        let roots_above = view.icicle || matches!(view.place.way, FlameDirection::Around(_));
        let step = if roots_above { down } else { -down };
        self.in_flame(|view, flame| view.far(flame, step, rows));
    }

    /// Searches frames; an empty text ends the search.
    pub(crate) fn flame_search(&mut self, text: Option<String>) {
        let Some(text) = text else {
            return self.ask_for(&general::SEARCH, self.views.flame.find.clone().unwrap_or_default());
        };
        match pattern(&text) {
            _ if text.is_empty() => self.views.flame.find = None,
            Ok(_) => (self.views.flame.find, self.views.flame.seeks) = (Some(text), true),
            Err(error) => self.error(error),
        }
    }

    pub(crate) fn flame_mark(&mut self) {
        let name = self.flame_frame().map(|block| exactly(&block.name));
        self.views.flame.find = if self.views.flame.find == name { None } else { name };
    }

    pub(crate) fn flame_percent(&mut self) {
        let of_all = self.selection.rows.chain_mode == ChainMode::Fractal;
        self.selection.rows.chain_mode = if of_all { ChainMode::Graph } else { ChainMode::Fractal };
        self.say(if of_all { "percent of all that is shown" } else { "percent of the frame below" });
    }

    /// Toggles between colours by instructions per cycle and by kind of code.
    pub(crate) fn flame_by_ipc(&mut self) {
        let told = self.context.partner(self.selection.event).is_some();
        if !told && !self.views.flame.by_ipc {
            return self.say("instructions per cycle need both events: -e cycles,instructions");
        }
        self.views.flame.by_ipc = !self.views.flame.by_ipc;
        self.say(if self.views.flame.by_ipc { "colours by instructions per cycle" } else { "colours by kind of code" });
    }

    /// Returns the frame under the cursor, of a function or a comm.
    fn flame_frame(&self) -> Option<&FlameBlock> {
        self.views
            .flame
            .block(self.context.answer.view.flame.as_ref()?)
            .filter(|block| block.pooled == 0 && block.small == 0)
    }

    pub(crate) fn flame_function(&self) -> Option<&FlameBlock> {
        self.flame_frame().filter(|block| block.class != Class::Thread)
    }

    /// Switches the bottom row of stacks: programs, processes, containers if there are any, or none.
    pub(crate) fn next_ground(&mut self) {
        let edits = &self.views.flame.place.edits;
        let now = edits.iter().find(|edit| GROUNDS.contains(edit));
        let contained =
            |whose: &TaskSamples| whose.group.text(ColumnKey::Container).is_some_and(|name| !name.is_empty());
        let (next, words) = match now {
            None => (Some(Edit::Processes), "one tower per process"),
            Some(Edit::Processes) if self.context.answer.view.tasks.iter().any(contained) => {
                (Some(Edit::Containers), "one tower per container, systemd unit or cgroup")
            }
            Some(Edit::Processes | Edit::Containers) => (Some(Edit::AllTasks), "one tower for all tasks"),
            Some(_) => (None, "one tower per program"),
        };
        self.views.flame.change(|place| {
            place.edits.retain(|edit| !GROUNDS.contains(edit));
            place.edits.extend(next);
            place.zoom.clear();
        });
        self.say(words);
    }

    /// Shows callers and callees of a function, by default the one under the cursor.
    pub(crate) fn flame_around(&mut self, text: Option<String>) {
        let here = || self.flame_function().map(|block| exactly(&block.name));
        let Some(text) = text.or_else(here) else { return self.ask_for(&AROUND, String::new()) };
        match pattern(&text) {
            Ok(_) => {
                self.views.flame.change(|place| (place.way, place.zoom) = (FlameDirection::Around(text), Vec::new()))
            }
            Err(error) => self.error(error),
        }
    }

    pub(crate) fn flame_zoom(&mut self) {
        if self.start_sampling() {
            return;
        }
        let Some(flame) = self.context.answer.view.flame.clone() else { return };
        let Some(index) = self.views.flame.index(&flame) else { return };
        if matches!(self.views.flame.place.way, FlameDirection::Around(_)) {
            let name = flame.blocks[index].name.to_string();
            return self.flame_around(Some(exactly(&name)));
        }
        let id = flame.blocks[index].id;
        let names = self.views.flame.names(&flame, index);
        self.views.flame.change(|place| place.zoom = names);
        self.views.flame.cursor = Some(id);
    }

    /// Filters by the frame under the cursor, like on the table.
    pub(crate) fn flame_filter(&mut self, key: ColumnKey) {
        let Some(flame) = self.context.answer.view.flame.clone() else { return };
        let Some(index) =
            self.views.flame.index(&flame).filter(|i| flame.blocks[*i].pooled == 0 && flame.blocks[*i].small == 0)
        else {
            return;
        };
        let block = &flame.blocks[index];
        let ground = self.views.flame.names(&flame, index).first().cloned();
        let only = match key {
            ColumnKey::Dso => Some(("dso", &block.dso)).filter(|(_, dso)| !dso.is_empty()),
            ColumnKey::Comm => None,
            _ => Some(("stack", &block.name)),
        };
        let only = only.map(|(field, value)| (format!("{field} {value}"), equals(field, value))).or_else(|| {
            let ground =
                ground.filter(|_| key == ColumnKey::Comm && self.views.flame.place.way == FlameDirection::Roots)?;
            self.of_ground(&ground)
        });
        match only {
            Some((label, expression)) => self.push_zoom(label, expression),
            None => self.say(format!("no frame with a {} under the cursor", key.name())),
        }
    }

    /// Returns label and filter of samples of a program or a process in the bottom row.
    fn of_ground(&self, ground: &str) -> Option<(String, String)> {
        let edits = &self.views.flame.place.edits;
        if edits.contains(&Edit::AllTasks) {
            return None;
        }
        if edits.contains(&Edit::Processes) {
            let pid = process_of(ground)?;
            return Some((format!("pid {pid}"), format!("pid == {pid}")));
        }
        if edits.contains(&Edit::Containers) {
            return self.of_container(ground);
        }
        Some((format!("program {ground}"), equals("program", ground)))
    }

    /// Returns label and filter of a container, by all parts of its name.
    fn of_container(&self, ground: &str) -> Option<(String, String)> {
        let part = |whose: &TaskSamples, key: ColumnKey| {
            whose.group.text(key).map(|text| text.to_string()).unwrap_or_default()
        };
        const KEYS: [ColumnKey; 3] = [ColumnKey::Namespace, ColumnKey::Pod, ColumnKey::Container];
        let parts = self.context.answer.view.tasks.iter().map(|whose| KEYS.map(|key| part(whose, key)));
        let found = parts.into_iter().find(|[namespace, pod, name]| joined(namespace, pod, name) == ground)?;
        Some(split::of_container(&found))
    }

    pub(crate) fn flame_drop(&mut self, name: Option<String>) {
        let of_stack = |name: String| (equals("stack", &name), name);
        let frame = || self.flame_frame().map(|b| (b.name.to_string(), b.class == Class::Thread));
        let (expression, label) = match name.map(|name| (name, false)).or_else(frame) {
            Some((name, false)) => of_stack(name),
            Some((ground, true)) => match self.of_ground(&ground) {
                Some((_, expression)) => (expression, ground),
                None => return self.say("these are all samples already"),
            },
            None => return,
        };
        let zoom = self.zoom_of(format!("without {label}"), &format!("!({expression})"), ZoomTarget::Clause);
        self.selection.zooms.extend(zoom.filter(|zoom| !self.selection.zooms.contains(zoom)));
    }

    /// Edits stacks by a name, by default that of the function under the cursor.
    pub(crate) fn edit_by(
        &mut self,
        name: Option<String>,
        own: fn(&FlameBlock) -> &Arc<str>,
        edit: fn(Arc<str>) -> Edit,
    ) {
        let name = name.map(Arc::from).or_else(|| self.flame_function().map(|block| own(block).clone()));
        match name.filter(|name| !name.is_empty()) {
            Some(name) => self.flame_edit(edit(name)),
            None => self.say("no function under the cursor"),
        }
    }

    pub(crate) fn flame_edit(&mut self, edit: Edit) {
        self.views.flame.change(|place| {
            // The same edit again reverts it.
            if place.edits.contains(&edit) {
                place.edits.retain(|e| *e != edit);
            } else {
                place.edits.push(edit);
            }
        });
    }
}
