//! Commands that filter, zoom, group and sort the table.

use std::sync::Arc;

use crate::filter::{Filter, equals};
use crate::profile::frames::SymState;
use crate::query::answer::FoldMark;
use crate::query::column::ColumnValue;
use crate::query::rows::top_table::TopField;
use crate::query::{ColumnKey, Order};
use crate::ui::input::commands::general;
use crate::ui::popups::Popup;
use crate::ui::screens::top::split::{self, RowSplit, split_key};
use crate::ui::state::{Effect, Model, OutsideRequest, Zoom, ZoomTarget};

impl Model {
    /// Sets the view filter; an empty text removes it.
    pub(crate) fn set_filter(&mut self, text: String) {
        match self.context.parse(&text) {
            _ if text.is_empty() => self.selection.filter = None,
            Ok(filter) => self.selection.filter = Some(Arc::new(filter)),
            Err(fault) => self.error(fault.line()),
        }
    }

    pub(crate) fn save_filter(&mut self, name: String) {
        let Some(text) = self.selection.filter_text() else {
            return self.say("there is no filter to save: f sets one");
        };
        self.context.saved.insert(name, text);
        self.effects.push(Effect::Outside(OutsideRequest::SaveFilters(self.context.saved.clone())));
    }

    pub(crate) fn use_filter(&mut self, name: Option<String>) {
        match name.as_ref().map(|name| self.context.saved.get(name).cloned()) {
            Some(Some(text)) => self.set_filter(text),
            Some(None) => {
                let names: Vec<&str> = self.context.saved.keys().map(String::as_str).collect();
                let known = if names.is_empty() {
                    "none is saved: :save-filter".to_owned()
                } else {
                    format!("saved: {}", names.join(", "))
                };
                self.error(format!("no filter is saved as {}; {known}", name.unwrap_or_default()));
            }
            None if self.context.saved.is_empty() => {
                self.refuse(&general::SAVED, "no filter is saved: Esc, then :save-filter NAME saves the current one")
            }
            None => self.ask_for(&general::SAVED, String::new()),
        }
    }

    pub(crate) fn forget_filter(&mut self, name: Option<String>) {
        match name.and_then(|name| self.context.saved.remove(&name)) {
            Some(_) => self.effects.push(Effect::Outside(OutsideRequest::SaveFilters(self.context.saved.clone()))),
            None => self.say("name a saved filter: ^S lists them"),
        }
    }

    pub(crate) fn push_zoom(&mut self, label: String, expression: String) {
        if let Some(zoom) = self.zoom_of(label, &expression, ZoomTarget::Clause) {
            self.push(zoom);
        }
    }

    /// Returns a zoom by a filter; reports a filter that is not valid.
    pub(crate) fn zoom_of(
        &mut self,
        label: String,
        expression: &str,
        to: fn(Arc<Filter>) -> ZoomTarget,
    ) -> Option<Zoom> {
        match self.context.parse(expression) {
            Ok(filter) => return Some(Zoom { label, to: to(Arc::new(filter)) }),
            Err(fault) => self.error(fault.line()),
        }
        None
    }

    pub(crate) fn push(&mut self, zoom: Zoom) {
        if self.selection.zooms.contains(&zoom) {
            return self.say("already zoomed in there: ⌫ goes back");
        }
        self.selection.zooms.push(zoom);
        self.top.home();
    }

    /// Filters by the value of a column in the line under the cursor, or excludes it.
    pub(crate) fn zoom(&mut self, key: ColumnKey, exclude: bool) {
        let Some(line) = self.line().cloned() else { return };
        // A filter by a placeholder would match nothing.
        if key == ColumnKey::Sym && line.state == SymState::Sought && !line.sym.is_empty() {
            return self.say(format!("the name of this function in {} is still looked up", line.dso));
        }
        // If rows are not split by thread, use the nearest available field.
        let near = match key {
            ColumnKey::Tid => vec![ColumnKey::Tid, ColumnKey::Comm, ColumnKey::Pid],
            // Rows by the text of a tracepoint or by program have no function: their own columns identify them.
            ColumnKey::Sym if line.depth == 0 && !self.rows_are_functions() => {
                line.group.traced().chain(self.row_keys()).collect()
            }
            ColumnKey::Sym if line.sym.is_empty() => line.group.traced().collect(),
            key => vec![key],
        };
        let found = match key {
            ColumnKey::Container => line.value(key).map(|_| {
                let part =
                    |key| line.value(key).map(|value: ColumnValue| value.text().into_owned()).unwrap_or_default();
                split::of_container(&[ColumnKey::Namespace, ColumnKey::Pod, key].map(part))
            }),
            _ => near.iter().find_map(|key| key.entry().only(&line.value(*key)?)),
        };
        match found {
            Some((label, expression)) if exclude => {
                self.push_zoom(format!("not {label}"), format!("!({expression})"));
                self.say(format!("samples of {label} are excluded; ⌫ brings them back"));
            }
            Some((label, expression)) => {
                let to = if key == ColumnKey::Cpu { ZoomTarget::Cpu } else { ZoomTarget::Clause };
                if let Some(zoom) = self.zoom_of(label, &expression, to) {
                    self.push(zoom);
                }
            }
            None => self.split_for(key),
        }
    }

    /// Returns the columns that identify a row without a function, the last one first.
    fn row_keys(&self) -> impl Iterator<Item = ColumnKey> {
        let keys = self.selection.rows.columns.iter().rev().filter_map(|field| match field {
            TopField::Key(key) => Some(*key),
            _ => None,
        });
        // Names and command lines may be those of several tasks.
        let (ids, names): (Vec<_>, Vec<_>) = keys.partition(|key| matches!(key, ColumnKey::Pid | ColumnKey::Tid));
        ids.into_iter().chain(names)
    }

    /// Splits rows by a column first, because the value of one row is required.
    fn split_for(&mut self, key: ColumnKey) {
        let splits = self.splits();
        let now = self.split_now(&splits).map_or("", |at| splits[at].words);
        let fits = |split: &RowSplit| split.keys.contains(&key) && split.words != now && !split.is_of_processes();
        match splits.into_iter().find(fits) {
            Some(split) => {
                self.split_by(&split);
                self.say(format!("a row is a function {} now; the same key again zooms into one row", split.words));
            }
            None => self.say(format!("this row has no known {}", key.name())),
        }
    }

    /// Filters by the value of a field: `pid 1`, `comm nginx`.
    pub(crate) fn zoom_to(&mut self, text: &str) {
        let (field, value) = text.trim().split_once([' ', '=']).unwrap_or((text, ""));
        let value = value.trim().trim_start_matches('=').trim();
        if value.is_empty() {
            return self.error(format!("{text}: expected a field and its value, such as pid 1 or comm nginx"));
        }
        let is_list = value.chars().all(|c| c.is_ascii_digit() || "-,".contains(c));
        let clauses = [equals(field, value), format!("{field} in {value}")];
        let parsed = clauses.iter().skip(usize::from(is_list)).find_map(|clause| self.context.parse(clause).ok());
        match parsed {
            Some(filter) => {
                let label = format!("{field} {value}");
                self.push(Zoom { label, to: ZoomTarget::Clause(Arc::new(filter)) });
            }
            None => {
                let why = self.context.parse(&clauses[0]).err().map(|fault| fault.line()).unwrap_or_default();
                self.error(format!("{text}: {why}"));
            }
        }
    }

    pub(crate) fn zoom_cpu(&mut self, text: Option<String>) {
        let own = self.line().and_then(|l| l.group.id(ColumnKey::Cpu)).map(|cpu| cpu.to_string());
        let Some(text) = text.or(own) else { return self.ask_for(&general::ZOOM_CPU, String::new()) };
        self.push_zoom(format!("CPU {text}"), format!("cpu in {text}"));
    }

    pub(crate) fn sort(&mut self, text: Option<String>) {
        let Some(text) = text else { return self.frame.popups.push(Popup::Columns { cursor: 0 }) };
        match ColumnKey::parse_list(&text) {
            Ok(keys) => {
                self.selection.rows.columns.retain(|f| !matches!(f, TopField::Key(_)));
                self.selection.rows.columns.extend(keys.into_iter().map(TopField::Key));
                self.selection.rows.sorted = true;
            }
            Err(why) => self.error(why.to_string()),
        }
    }

    /// Switches to the next or previous split of rows.
    pub(crate) fn split(&mut self, step: isize) {
        let mut splits = self.splits();
        let now = self.split_now(&splits);
        let next = now.map_or(0, |at| (at as isize + step).rem_euclid(splits.len() as isize) as usize);
        let split = splits.swap_remove(next);
        self.split_by(&split);
        let words = split.words;
        self.say(match split.is_whole {
            true if split.is_of_processes() => "a row is a process; Enter shows its functions".to_owned(),
            true => format!("rows {words}"),
            false if split.keys == [ColumnKey::Comm] => {
                format!("a row is a function {words}; :sort comm has a row for each comm")
            }
            false => format!("a row is a function {words}").trim_end().to_owned(),
        });
    }

    /// Replaces the columns of tasks and places.
    fn split_by(&mut self, split: &RowSplit) {
        let is_kept =
            |field: &TopField| split_key(field).is_none() && !(split.is_whole && matches!(field, TopField::Key(_)));
        let rows = &mut self.selection.rows;
        rows.columns.retain(is_kept);
        let is_key = |field: &TopField| matches!(field, TopField::Key(_));
        if !split.is_whole && !rows.columns.iter().any(is_key) {
            rows.columns.extend([TopField::Key(ColumnKey::Sym), TopField::Key(ColumnKey::Dso)]);
        }
        let at = rows.columns.iter().position(is_key).unwrap_or(rows.columns.len());
        rows.columns.splice(at..at, split.keys.iter().map(|key| TopField::Key(*key)));
        if matches!(rows.order, Order::By(key) if !rows.columns.contains(&TopField::Key(key))) {
            rows.set_order(Order::SelfTime);
        }
        self.top.home();
    }

    pub(crate) fn order_by(&mut self, field: TopField) {
        self.selection.rows.order_by(field);
        // After sorting, show the first rows.
        self.top.home();
    }

    pub(crate) fn move_order(&mut self, step: isize) {
        self.selection.rows.move_order(step);
        self.top.home();
    }

    pub(crate) fn toggle_children(&mut self) {
        if !self.context.info.chains {
            return self.say("no call chains were recorded (--call-graph none)");
        }
        let rows = &mut self.selection.rows;
        rows.children = !rows.children;
        rows.toggled.clear();
        if rows.children {
            let at = rows.columns.iter().position(|field| *field == TopField::SelfTime).map_or(0, |at| at + 1);
            rows.columns.insert(at, TopField::Children);
            rows.set_order(Order::Children);
        } else {
            rows.columns.retain(|f| *f != TopField::Children);
            rows.set_order(Order::SelfTime);
        }
        self.top.home();
    }

    /// Goes to another event, skipping dummy events that only carry side-band records.
    pub(crate) fn move_event(&mut self, step: isize) {
        let events = &self.context.answer.events;
        let n = events.len() as isize;
        let around = (1..n).map(|i| (self.selection.event as isize + i * step).rem_euclid(n) as usize);
        let next = around.into_iter().find(|i| !events[*i].is_dummy);
        match next {
            Some(event) => {
                (self.selection.event, self.selection.off_cpu) = (event, false);
                self.top.home();
            }
            None => self.say("there is only one event; -e accepts several"),
        }
    }

    pub(crate) fn toggle(&mut self) {
        if self.start_sampling() {
            return;
        }
        let Some(id) = self.line().map(|l| l.id) else { return };
        if !self.context.info.chains {
            return self.say("no call chains were recorded (--call-graph none)");
        }
        if self.line().is_some_and(|line| line.depth == 0 && line.state == SymState::Sought) {
            return self.say("symbols are still being resolved; this row then disappears");
        }
        if !self.selection.rows.toggled.remove(&id) {
            self.selection.rows.toggled.insert(id);
        }
        self.top.list.id = Some(id);
    }

    /// Collapses the row under the cursor, or goes to its parent. Returns `false` if there is no row.
    pub(crate) fn fold(&mut self) -> bool {
        let Some(line) = self.line() else { return false };
        if line.mark == FoldMark::Open {
            self.toggle();
            return true;
        }
        let before = &self.context.answer.view.lines[..self.top.selected];
        let parent = before.iter().rposition(|above| above.depth < line.depth);
        if let Some(at) = parent {
            self.top.go(at, &self.context.answer);
        }
        parent.is_some()
    }

    pub(crate) fn toggle_row(&mut self) {
        let lines = &self.context.answer.view.lines;
        let row = (0..=self.top.selected).rev().find(|i| lines.get(*i).is_some_and(|l| l.depth == 0));
        if let Some(row) = row {
            self.top.go(row, &self.context.answer);
            self.toggle();
        }
    }

    pub(crate) fn search(&mut self, text: Option<String>) {
        let Some(text) = text else {
            self.frame.before_search = Some(self.top.clone());
            return self.ask_for(&general::SEARCH, String::new());
        };
        match self.top.search(&text, &self.context.answer) {
            Ok(()) if self.top.search.as_ref().is_some_and(|s| s.matches == 0) => {
                self.say(format!("{text} matches nothing"))
            }
            Ok(()) => {}
            Err(error) => self.error(error),
        }
    }
}
