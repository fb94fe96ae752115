//! The display types of all output: screens, text, CSV and JSON, so that a figure looks the same everywhere.

pub mod charset;
pub(crate) mod function_name;
pub mod heatmap;
pub mod histogram;
pub mod measure;
pub mod printable;
pub mod row_order;
pub mod rows;
pub mod series;
pub(crate) mod stack_line;
pub mod stacks;
pub mod table;
pub mod text;
pub mod unit;

pub use heatmap::Heatmap;
pub use histogram::Histogram;
pub use measure::Measure;
pub use rows::{Rest, Rows};
pub use series::TimeSeries;
pub use stacks::Stacks;
pub use table::{Align, Cell, Column, Table};

use std::sync::Arc;

/// A titled part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// The title, one or two words.
    pub title: String,
    /// An explanation of the figures; empty if not needed.
    pub note: String,
    /// The figures.
    pub body: Body,
}

/// The content of a panel.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Sorted rows.
    Table(Rows),
    /// Rows below others, which can be folded.
    Tree(Rows),
    /// Rows in time order, the newest last.
    Log(Rows),
    /// The distribution of values.
    Histogram(Histogram),
    /// Values over time, with a row per item.
    Heatmap(Heatmap),
    /// Values over time.
    Series(TimeSeries),
    /// Stacks, drawn as a flame graph.
    Flame(Arc<Stacks>),
}

impl Panel {
    /// Creates a panel without a note.
    pub fn new(title: impl Into<String>, body: Body) -> Self {
        Self { title: title.into(), note: String::new(), body }
    }

    /// Creates a flame graph.
    pub fn flame(title: impl Into<String>, measure: Measure, stacks: Vec<stacks::Stack>) -> Self {
        Self::new(title, Body::Flame(Arc::new(Stacks::new(measure, stacks))))
    }

    /// Adds a note.
    pub fn noted(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// Returns whether the panel is empty.
    pub fn is_empty(&self) -> bool {
        match &self.body {
            Body::Table(rows) | Body::Tree(rows) | Body::Log(rows) => rows.table.rows.is_empty(),
            Body::Histogram(histogram) => histogram.bars.is_empty(),
            Body::Heatmap(map) => map.rows.is_empty(),
            Body::Series(series) => series.lines.is_empty(),
            Body::Flame(stacks) => stacks.stacks.is_empty(),
        }
    }

    /// Returns the rows of a table, a tree or a log.
    pub fn rows(&self) -> Option<&Rows> {
        match &self.body {
            Body::Table(rows) | Body::Tree(rows) | Body::Log(rows) => Some(rows),
            _ => None,
        }
    }

    /// Formats plain text: title, body, note.
    pub fn to_text(&self) -> String {
        let body = match &self.body {
            _ if self.is_empty() => "nothing yet\n".to_owned(),
            Body::Table(rows) | Body::Tree(rows) | Body::Log(rows) => rows.to_text(),
            Body::Histogram(histogram) => histogram.to_text(),
            Body::Heatmap(map) => map.to_text(),
            Body::Series(series) => series.to_text(),
            Body::Flame(stacks) => stacks.folded(""),
        };
        let note = if self.note.is_empty() { String::new() } else { format!("! {}\n", text::clean(&self.note)) };
        format!("{}\n{body}{note}", text::clean(&self.title))
    }

    /// Returns `{title, kind, note, …}`; further fields depend on the kind.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::json;
        let (kind, body) = match &self.body {
            Body::Table(rows) => ("table", rows.to_json()),
            Body::Tree(rows) => ("tree", json!({ "rows": rows.table.to_json(), "depth": rows.depth })),
            Body::Log(rows) => ("log", json!({ "rows": rows.table.to_json() })),
            Body::Histogram(h) => {
                let mut body = json!({ "unit": h.measure.name(), "bars": h.bars });
                if !h.steps.is_empty() {
                    body["steps"] = json!(h.steps);
                }
                ("histogram", body)
            }
            // Unknown values are null.
            Body::Heatmap(map) => {
                let unit = map.measure.name();
                ("heatmap", json!({ "unit": unit, "start_ns": map.start, "step_ns": map.step, "rows": map.rows }))
            }
            Body::Series(series) => {
                let (unit, lines) = (series.measure.name(), &series.lines);
                ("series", json!({ "unit": unit, "start_ns": series.start, "step_ns": series.step, "lines": lines }))
            }
            Body::Flame(stacks) => {
                let stack = |stack: &stacks::Stack| {
                    let frames: Vec<&str> = stack.frames.iter().map(|name| &*name.text).collect();
                    json!({ "frames": frames, "weight": stack.weight, "count": stack.count })
                };
                let list: Vec<_> = stacks.stacks.iter().map(stack).collect();
                ("flame", json!({ "unit": stacks.measure.name(), "stacks": list }))
            }
        };
        let mut object = json!({ "title": self.title, "kind": kind });
        if !self.note.is_empty() {
            object["note"] = json!(self.note);
        }
        if let (Some(all), serde_json::Value::Object(body)) = (object.as_object_mut(), body) {
            all.extend(body);
        }
        object
    }
}
