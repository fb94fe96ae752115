//! Initial settings of the interface from command line and configuration.

use std::time::Duration;

use crate::panel::charset::Charset;
use crate::query::rows::top_table::TopField;
use crate::query::time_range::TimeRange;
use crate::symbols::NameForm;
use crate::ui::input::Invocation;
use crate::ui::input::keymap::Keymap;
use crate::ui::state::{ProgramCall, SavedFilters};

/// An action that the command line requests.
#[derive(Clone, Debug, PartialEq)]
pub enum StartupAction {
    /// Runs a command of the screens.
    Command(Invocation),
    /// Selects a range of the samples' clock.
    Range {
        /// The range.
        range: TimeRange,
        /// The range as typed, for messages.
        typed: String,
    },
}

impl<T: Into<Invocation>> From<T> for StartupAction {
    fn from(command: T) -> Self {
        Self::Command(command.into())
    }
}

/// The initial settings of the interface.
#[derive(Clone, Debug)]
pub struct Start {
    /// The columns of the table.
    pub columns: Vec<TopField>,
    /// Whether the user chose them.
    pub sorted: bool,
    /// Whether functions include their callees.
    pub children: bool,
    /// The view filter.
    pub filter: Option<String>,
    /// Rows below this share in percent are hidden.
    pub limit: f64,
    /// The refresh interval of the screen.
    pub refresh: Duration,
    /// Percentage points that a CPU must exceed the others by to be a finding.
    pub points: f64,
    /// The command line.
    pub invocation: ProgramCall,
    /// Actions at the start, one after each answer.
    pub actions: Vec<StartupAction>,
    /// The format of symbols.
    pub form: NameForm,
    /// Whether inlined functions are frames.
    pub inlined: bool,
    /// Saved filters by name.
    pub saved: SavedFilters,
    /// The name of the theme.
    pub theme: String,
    /// The names of all themes.
    pub themes: Vec<String>,
    /// The user's key bindings.
    pub keymap: Keymap,
    /// Whether the tour is active.
    pub tour: bool,
    /// Whether the link to the terminal is slow.
    pub slow: bool,
    /// The characters that the terminal supports.
    pub charset: Charset,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            columns: TopField::FIRST.to_vec(),
            sorted: false,
            children: true,
            filter: None,
            limit: 0.0,
            refresh: Duration::from_secs(1),
            points: 10.0,
            invocation: ProgramCall::default(),
            actions: Vec::new(),
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
