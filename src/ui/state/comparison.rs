//! The baseline of the view, and the age of samples.

use std::path::PathBuf;
use std::sync::Arc;

use crate::lang::quantity::{self, SECOND};
use crate::panel::unit::clock;
use crate::query::diff::NormalizeBy;
use crate::query::rows::top_table::TopField;
use crate::query::{Age, Order};
use crate::session::Origin;
use crate::ui::state::range::label;
use crate::ui::state::{BaselineSource, ComparedWith, Effect, Model, OutsideRequest, Tab, WINDOWS, describe_age};

impl Model {
    /// Sets the baseline to now, a filter or a file, or removes it.
    pub(crate) fn set_baseline(&mut self, text: Option<String>) {
        let Some(text) = text else { return self.mark_now() };
        if text == "off" {
            return self.drop_baseline();
        }
        if let Some(range) = text.strip_prefix("range ") {
            return match self.typed_range(range) {
                Ok(range) => self.compare_range(range),
                Err(wrong) => self.error(wrong),
            };
        }
        match self.context.parse(&text) {
            Ok(filter) => {
                self.compare(ComparedWith { label: text, of: BaselineSource::View(Some(Arc::new(filter))) });
            }
            Err(_) => {
                self.read_baseline(text.into());
            }
        }
    }

    /// Reads a recording to compare with; the header names it until it is read.
    pub fn read_baseline(&mut self, path: PathBuf) {
        self.frame.reading = Some(path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned());
        self.effects.push(Effect::Outside(OutsideRequest::Baseline(path)));
    }

    fn mark_now(&mut self) {
        if self.context.info.origin == Origin::Live && self.context.answer.ended.is_none() {
            let at = self.context.answer.elapsed_ns;
            if let Some(range) = self.selection.range().filter(|(_, until)| *until <= at) {
                return self.error(format!(
                    "no new samples can come into {}: u leaves that range, then b; 3 selects another time to compare with",
                    label(range)
                ));
            }
            self.compare(ComparedWith { label: format!("before {}", clock(at)), of: BaselineSource::Past(at) });
            return self.say("baseline: earlier samples; B ends it, P compares times instead of shares");
        }
        let filter = self.selection.filter.clone();
        let label = filter.as_ref().map_or("all samples", |filter| filter.text()).to_owned();
        self.compare(ComparedWith { label, of: BaselineSource::View(filter) });
        self.say("baseline set: change the filter (f) to see the difference; B ends it");
    }

    pub(crate) fn compare_range(&mut self, range: (u64, u64)) {
        self.compare(ComparedWith { label: label(range), of: BaselineSource::Range(range) });
    }

    /// Reports why a file to compare with was not read.
    pub fn baseline_failed(&mut self, why: String) {
        self.frame.reading = None;
        self.error(why);
    }

    /// Compares with a file that was read.
    pub(crate) fn compare_with_file(&mut self, path: PathBuf) {
        let label = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        (self.frame.status, self.frame.reading) = (None, None);
        self.compare(ComparedWith { label, of: BaselineSource::File(path) });
    }

    fn compare(&mut self, mark: ComparedWith) {
        if self.selection.baseline.is_none() {
            self.selection.rows.columns.splice(0..0, [TopField::Delta, TopField::Old]);
            self.selection.order_before = Some((self.selection.rows.order, self.selection.rows.reversed));
        }
        self.selection.rows.set_order(Order::Delta);
        self.selection.rows.reversed = false;
        self.selection.baseline = Some(mark);
        self.top.home();
    }

    pub(crate) fn drop_baseline(&mut self) {
        if self.selection.baseline.take().is_none() {
            return self.say("there is no baseline: b marks now, :baseline FILE reads a recording");
        }
        self.selection.rows.columns.retain(|f| !matches!(f, TopField::Delta | TopField::Old));
        let (order, reversed) = self.selection.order_before.take().unwrap_or((Order::SelfTime, false));
        if self.selection.rows.order == Order::Delta {
            self.selection.rows.set_order(order);
            self.selection.rows.reversed = reversed;
        }
        self.top.home();
    }

    pub(crate) fn set_per(&mut self, text: Option<String>) {
        const ALL: [NormalizeBy; 3] = [NormalizeBy::Total, NormalizeBy::Second, NormalizeBy::Nothing];
        let found = match text.as_deref().map(str::trim) {
            None => ALL.iter().position(|per| *per == self.selection.per).map(|at| (at + 1) % ALL.len()),
            Some(text) => ALL.iter().position(|per| per.word() == text),
        };
        let Some(at) = found else {
            let text = text.unwrap_or_default();
            return self.error(format!("{}: expected total, second or nothing", text.trim()));
        };
        self.selection.per = ALL[at];
        let unit = self.selection.per.unit_label();
        self.say(match self.selection.baseline {
            Some(_) => format!("differences are shown as {unit}"),
            None => format!("no comparison yet (b starts one): its differences will be shown as {unit}"),
        });
    }

    pub(crate) fn set_window(&mut self, text: Option<String>) {
        let Some(text) = text else {
            let at =
                WINDOWS.iter().position(|a| std::mem::discriminant(a) == std::mem::discriminant(&self.selection.age));
            (self.selection.age, self.selection.age_chosen) = (WINDOWS[(at.unwrap_or(0) + 1) % WINDOWS.len()], true);
            return self.say(describe_age(self.selection.age));
        };
        match parse_age(&text) {
            Some(age) => {
                (self.selection.age, self.selection.age_chosen) = (age, true);
                self.say(describe_age(age));
            }
            None => self.error(format!("{text}: expected all, last SECONDS or half SECONDS")),
        }
    }

    /// Returns the commands that reproduce the view, except for what the screens add.
    pub(crate) fn view_commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        if !self.selection.hide_idle {
            commands.push("idle".to_owned());
        }
        let capture = self.event().and_then(|event| event.filter.as_ref());
        if let Some(filter) = capture.filter(|_| !self.context.invocation.has_filters) {
            commands.push(format!("capture {filter}"));
        }
        if self.selection.age_chosen {
            commands.push(format!("window {}", age_argument(self.selection.age)));
        }
        if self.selection.off_cpu && self.frame.tab != Tab::Flame {
            commands.push("wall wall".to_owned());
        } else if self.context.off_cpu_event() == Some(self.selection.event) {
            commands.push("wall off-cpu".to_owned());
        }
        commands.extend(self.selection.baseline_command(&self.context));
        commands
    }
}

fn age_argument(age: Age) -> String {
    match age {
        Age::All => "all".into(),
        Age::Last(ns) => format!("last {}", ns as f64 / 1e9),
        Age::Half(ns) => format!("half {}", ns as f64 / 1e9),
    }
}

fn parse_age(text: &str) -> Option<Age> {
    let mut words = text.split_whitespace();
    let word = words.next()?;
    let ns =
        words.next().map(|time| quantity::time(time).ok().filter(|ns| (1_000_000..1_000_000 * SECOND).contains(ns)));
    match (word, ns, words.next()) {
        ("all", None, None) => Some(Age::All),
        ("last", Some(Some(ns)), None) => Some(Age::Last(ns)),
        ("half", Some(Some(ns)), None) => Some(Age::Half(ns)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        assert_eq!(parse_age("last 5"), Some(Age::Last(5_000_000_000)));
        assert_eq!(parse_age("half 0.5s"), Some(Age::Half(500_000_000)));
        assert_eq!(parse_age("all"), Some(Age::All));
        for bad in ["", "last", "last x", "half -1", "last 1 2", "all 3"] {
            assert_eq!(parse_age(bad), None, "{bad}");
        }
    }
}
