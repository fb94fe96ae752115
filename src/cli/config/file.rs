//! Reads `config.toml`. Each error is reported with its line; the valid rest is in force.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::filter::{Filter, KnownFields};
use crate::lang::nearest;
use crate::lang::quantity;
use crate::query::rows::top_table::TopField;
use crate::ui::popups::columns;
use crate::ui::theme::parse_depth;

use super::{Config, OptionDefault};

const TOP: &[&str] = &["theme", "color", "mouse", "ascii", "columns", "options", "keys", "filters", "thresholds"];

struct ConfigReader<'a> {
    text: &'a str,
    config: Config,
}

impl Config {
    /// Parses a configuration.
    pub fn parse(text: &str) -> Self {
        let mut reader = ConfigReader { text, config: Self::default() };
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let line = error.span().map_or(1, |span| reader.line(span.start));
            reader.config.faults.push(format!("{line}: {}", error.message()));
        }
        reader.table(table.get_ref());
        reader.config
    }

    /// Adds the file name to the errors.
    pub(crate) fn at(mut self, path: &str) -> Self {
        self.faults.iter_mut().for_each(|fault| *fault = format!("{path}:{fault}"));
        self
    }
}

pub(crate) fn column_name(field: TopField) -> String {
    field.column().name.trim_end_matches("_pct").to_owned()
}

impl ConfigReader<'_> {
    fn line(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|b| **b == b'\n').count() + 1
    }

    fn fault(&mut self, at: &Spanned<DeValue<'_>>, why: impl std::fmt::Display) {
        let line = self.line(at.span().start);
        self.config.faults.push(format!("{line}: {why}"));
    }

    fn table(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "theme" => self.config.theme = self.string("theme", value),
                "color" => {
                    self.config.color = self.string("color", value);
                    if let Some(Err(why)) = self.config.color.as_deref().map(parse_depth) {
                        self.config.color = None;
                        self.fault(value, why);
                    }
                }
                "mouse" => {
                    self.config.mouse = self.expected("mouse", value, value.get_ref().as_bool(), "true or false")
                }
                "ascii" => {
                    self.config.ascii = self.expected("ascii", value, value.get_ref().as_bool(), "true or false")
                }
                "columns" => self.columns(value),
                "options" => self.options(value),
                "keys" => self.layers(value),
                "filters" => self.filters(value),
                "thresholds" => self.thresholds(value),
                other => {
                    let near = nearest(other, TOP.iter().copied());
                    let near = if near.is_empty() { TOP.join(", ") } else { near.join(", ") };
                    self.fault(value, format!("unknown key {other}; did you mean {near}?"));
                }
            }
        }
    }

    fn string(&mut self, name: &str, value: &Spanned<DeValue<'_>>) -> Option<String> {
        let text = value.get_ref().as_str().map(str::to_owned);
        self.expected(name, value, text, "a string in quotes")
    }

    fn expected<T>(&mut self, name: &str, at: &Spanned<DeValue<'_>>, found: Option<T>, what: &str) -> Option<T> {
        if found.is_none() {
            self.fault(at, format!("{name}: expected {what}"));
        }
        found
    }

    fn entries<'t, 'i>(
        &mut self,
        name: &str,
        value: &'t Spanned<DeValue<'i>>,
    ) -> Vec<(&'t str, &'t Spanned<DeValue<'i>>)> {
        match value.get_ref().as_table() {
            Some(table) => table.iter().map(|(key, value)| (key.get_ref().as_ref(), value)).collect(),
            None => {
                self.fault(value, format!("[{name}]: expected a table"));
                Vec::new()
            }
        }
    }

    fn columns(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(list) = value.get_ref().as_array() else {
            return self.fault(value, "columns: expected a list of names");
        };
        let mut chosen: Vec<TopField> = Vec::new();
        for item in list.iter() {
            let name = item.get_ref().as_str().unwrap_or_default();
            match columns().find(|field| column_name(*field) == name) {
                Some(field) if !chosen.contains(&field) => chosen.push(field),
                Some(_) => {}
                None => {
                    let names: Vec<String> = columns().map(column_name).collect();
                    self.fault(item, format!("columns: unknown column {name}; available: {}", names.join(", ")));
                }
            }
        }
        if chosen.iter().any(|field| matches!(field, TopField::Key(_))) {
            self.config.columns = Some(chosen);
        } else {
            self.fault(value, "columns: expected at least one of cpu, comm, pid, tid, cgroup, trace, dso, sym");
        }
    }

    fn options(&mut self, value: &Spanned<DeValue<'_>>) {
        for (name, value) in self.entries("options", value) {
            match value.get_ref().as_table() {
                Some(own) => {
                    for (option, value) in own {
                        self.option(Some(name), option.get_ref().as_ref(), value);
                    }
                }
                None => self.option(None, name, value),
            }
        }
    }

    fn option(&mut self, command: Option<&str>, name: &str, value: &Spanned<DeValue<'_>>) {
        let values: Option<Vec<String>> = match value.get_ref() {
            DeValue::Array(list) => list.iter().map(|item| scalar(item.get_ref())).collect(),
            other => scalar(other).map(|value| vec![value]),
        };
        let Some(values) = values else {
            return self.fault(value, format!("{name}: expected a string, a number, true, false, or a list of them"));
        };
        let option = OptionDefault { command: command.map(str::to_owned), name: name.to_owned(), values };
        match super::options::check(&option) {
            Ok(()) => self.config.options.push(option),
            Err(why) => self.fault(value, why),
        }
    }

    fn layers(&mut self, value: &Spanned<DeValue<'_>>) {
        for (layer, bindings) in self.entries("keys", value) {
            for (keys, value) in self.entries(&format!("keys.{layer}"), bindings) {
                let (run, when) = match value.get_ref() {
                    DeValue::Table(table) => {
                        let get = |name: &str| {
                            let found = table.iter().find(|(key, _)| key.get_ref() == name);
                            found.and_then(|(_, value)| value.get_ref().as_str()).unwrap_or_default()
                        };
                        if let Some((odd, _)) =
                            table.iter().find(|(key, _)| !matches!(key.get_ref().as_ref(), "run" | "when"))
                        {
                            self.fault(value, format!("{keys}: expected run and when, not {}", odd.get_ref()));
                        }
                        (get("run"), get("when"))
                    }
                    DeValue::String(run) => (run.as_ref(), ""),
                    _ => {
                        self.fault(value, format!("{keys}: expected a command, or {{ run = \"…\", when = \"…\" }}"));
                        continue;
                    }
                };
                if let Err(why) = self.config.keymap.bind(layer, keys, run, when) {
                    self.fault(value, why);
                }
            }
        }
    }

    fn filters(&mut self, value: &Spanned<DeValue<'_>>) {
        for (name, value) in self.entries("filters", value) {
            let Some(text) = self.string(name, value) else { continue };
            match Filter::parse_with(&text, KnownFields::Any) {
                Ok(_) => drop(self.config.filters.insert(name.to_owned(), text)),
                Err(fault) => self.fault(value, format!("{name}: {}", fault.line())),
            }
        }
    }

    fn thresholds(&mut self, value: &Spanned<DeValue<'_>>) {
        for (name, value) in self.entries("thresholds", value) {
            let number = scalar(value.get_ref()).and_then(|text| quantity::share(&text).ok());
            let number = number.filter(|number| (0.0..=100.0).contains(number));
            let Some(number) = self.expected(name, value, number, "a number from 0 to 100") else { continue };
            match name {
                "hot" => self.config.hot = Some(number),
                "warm" => self.config.warm = Some(number),
                "cpu" => {
                    let option =
                        OptionDefault { command: None, name: "threshold".to_owned(), values: vec![number.to_string()] };
                    self.config.options.push(option);
                }
                other => self.fault(
                    value,
                    format!("unknown threshold {other}; available: hot, warm (shares in percent) and cpu (points)"),
                ),
            }
        }
    }
}

/// Returns a string, number, true or false as it would be typed.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(on) => Some(on.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;
    use crate::ui::input::commands::program;
    use crate::ui::input::key_lookup::Lookup;
    use crate::ui::input::keymap::ScreenState;
    use crate::ui::state::tab::Tab;

    #[test]
    fn all_that_can_be_configured() {
        let config = Config::parse(
            "theme = 'nord'\ncolor = '256'\nmouse = false\nascii = true\ncolumns = ['self', 'comm', 'sym']\n\
             [options]\nfreq = 499\ncall-graph = 'dwarf'\nevent = ['cpu-clock', 'page-faults']\n[options.record]\nquiet = true\n\
             [keys.all]\nctrl-t = 'time'\n[keys.flame]\nx = { run = 'chains', when = 'live' }\n\
             [filters]\nweb = 'comm == nginx'\n[thresholds]\nhot = 10\nwarm = 1.5\ncpu = 7\n",
        );
        assert!(config.faults.is_empty(), "{:?}", config.faults);
        assert_eq!(
            (config.theme.as_deref(), config.mouse, config.hot, config.warm),
            (Some("nord"), Some(false), Some(10.0), Some(1.5))
        );
        assert_eq!((config.ascii, config.columns.as_ref().map(Vec::len)), (Some(true), Some(3)));
        let mut options: Vec<(Option<&str>, &str, usize)> =
            config.options.iter().map(|o| (o.command.as_deref(), o.name.as_str(), o.values.len())).collect();
        options.sort_unstable();
        let wanted = [
            (None, "call-graph", 1),
            (None, "event", 2),
            (None, "freq", 1),
            (None, "threshold", 1),
            (Some("record"), "quiet", 1),
        ];
        assert_eq!(options, wanted);
        assert_eq!(
            config.keymap.lookup("ctrl-t", Tab::Top, &ScreenState::default()),
            Lookup::Run((&program::TIME).into())
        );
        assert_eq!(config.filters["web"], "comm == nginx");
    }

    #[test]
    fn faults_have_lines_and_what_is_right_counts() {
        let config = Config::parse(
            "theme = 'nord'\nthem = 'x'\ncolor = 'many'\n[options]\nfrequency = 1\nfreq = 'x y'\ndelay = 'never'\n\
             [keys.all]\nz = 'qiut'\n[filters]\nbad = 'comm =='\n[thresholds]\nhot = 200\n",
        );
        assert_eq!(config.theme.as_deref(), Some("nord"));
        let mut lines: Vec<usize> =
            config.faults.iter().filter_map(|fault| fault.split(':').next()?.parse().ok()).collect();
        lines.sort_unstable();
        assert_eq!(lines, [2, 3, 5, 7, 9, 11, 13], "{:?}", config.faults);
        assert!(config.faults.iter().any(|fault| fault.contains("theme")), "{:?}", config.faults);
        let broken = Config::parse("theme = 'nord'\n[keys\nx = 1");
        assert!(broken.faults[0].starts_with("2: "), "{:?}", broken.faults);
    }

    #[test]
    fn any_text_is_read_or_refused() {
        const FILES: &[&str] = &[
            "theme = 'nord'\nmouse = false\ncolumns = ['self', 'comm', 'sym']\n[options]\nfreq = 499",
            "[options]\nevent = ['cpu-clock', 'page-faults']\n[options.record]\nquiet = true\n[thresholds]\nhot = 10",
            "[keys.all]\nctrl-t = 'time'\n[keys.flame]\nx = { run = 'chains', when = 'live && !frozen' }",
            "[filters]\nweb = 'comm == nginx'\n[thresholds]\nwarm = 1.5\ncpu = 7\n[keys.all]\n'g g' = 'home'",
        ];
        damage::reaching(256, 15, damage::texts(FILES), |text| {
            let config = Config::parse(&text);
            let line = |fault: &String| fault.split(':').next().is_some_and(|n| n.parse::<usize>().is_ok());
            assert!(config.faults.iter().all(line), "{:?}", config.faults);
            config.faults.is_empty()
        });
    }
}
