//! Wishes of the command line and the configuration that the interface starts with.

use std::time::Duration;

use crate::panel::top::Field;
use crate::symbols::Form;
use crate::ui::context::SavedFilters;
use crate::ui::keymap::Keymap;

/// How the interface starts.
#[derive(Clone, Debug)]
pub struct Start {
    pub columns: Vec<Field>,
    /// Whether those were asked for.
    pub sorted: bool,
    pub children: bool,
    pub filter: Option<String>,
    pub limit: f64,
    pub refresh: Duration,
    /// How many points a CPU must stand above the others to be a finding.
    pub points: f64,
    /// The command line without its filters and commands.
    pub invocation: Vec<String>,
    /// Commands to run, one after each answer.
    pub exec: Vec<String>,
    /// How names are made readable, and whether inlined functions are frames.
    pub form: Form,
    pub inlined: bool,
    pub saved: SavedFilters,
    /// The theme by name, and all that there are.
    pub theme: String,
    pub themes: Vec<String>,
    pub keymap: Keymap,
    /// Whether a tour is given.
    pub tour: bool,
    /// Whether the link to the terminal is slow.
    pub slow: bool,
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
            form: Form::Plain,
            inlined: true,
            saved: SavedFilters::new(),
            theme: String::new(),
            themes: Vec::new(),
            keymap: Keymap::default(),
            tour: false,
            slow: false,
        }
    }
}
