//! Wishes of the command line and the configuration that the interface starts with.

use std::time::Duration;

use crate::panel::charset::Charset;
use crate::panel::top::Field;
use crate::symbols::NameForm;
use crate::ui::context::SavedFilters;
use crate::ui::keymap::Keymap;

/// The settings that the interface starts with.
#[derive(Clone, Debug)]
pub struct Start {
    /// The columns of the table.
    pub columns: Vec<Field>,
    /// Whether those were asked for.
    pub sorted: bool,
    /// Whether functions count with what they call.
    pub children: bool,
    /// The filter of the view.
    pub filter: Option<String>,
    /// Rows below this share, in percent, are hidden.
    pub limit: f64,
    /// How often the screen is brought up to date.
    pub refresh: Duration,
    /// How many points a CPU must stand above the others to be a finding.
    pub points: f64,
    /// The command line without its filters and commands.
    pub invocation: Vec<String>,
    /// Commands to run, one after each answer.
    pub exec: Vec<String>,
    /// How names are made readable.
    pub form: NameForm,
    /// Whether inlined functions are frames.
    pub inlined: bool,
    /// Filters that were kept, by their names.
    pub saved: SavedFilters,
    /// The theme by name.
    pub theme: String,
    /// The names of all themes.
    pub themes: Vec<String>,
    /// The user's bindings of keys.
    pub keymap: Keymap,
    /// Whether a tour is given.
    pub tour: bool,
    /// Whether the link to the terminal is slow.
    pub slow: bool,
    /// The characters that the terminal shows.
    pub charset: Charset,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            columns: Field::FIRST.to_vec(),
            sorted: false,
            children: true,
            filter: None,
            limit: 0.0,
            refresh: Duration::from_secs(1),
            points: 10.0,
            invocation: vec!["perfprof-tui".to_owned()],
            exec: Vec::new(),
            form: NameForm::Plain,
            inlined: true,
            saved: SavedFilters::new(),
            theme: String::new(),
            themes: Vec::new(),
            keymap: Keymap::default(),
            tour: false,
            slow: false,
            charset: Charset::Utf8,
        }
    }
}
