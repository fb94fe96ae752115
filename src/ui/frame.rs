//! The surroundings of a view: which screen is looked at, what is open over it, what was said, the terminal's size.

use crate::ui::popup::Popup;
use crate::ui::prompt::Prompt;
use crate::ui::tab::Tab;
use crate::ui::view::top::state::TopScreen;

/// The level of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Info,
    Error,
}

/// The frame of the screens.
#[derive(Debug, Default)]
pub struct Surroundings {
    pub tab: Tab,
    pub(crate) popups: Vec<Popup>,
    pub(crate) prompt: Option<Prompt>,
    /// Filters that were set, of the view and of events, the newest last.
    pub past_filters: Vec<String>,
    /// The table before a search began to be typed, so that each letter searches from there.
    pub(crate) before_search: Option<TopScreen>,
    /// Keys of an unfinished chord.
    pub(crate) chord: String,
    pub status: Option<(Level, String)>,
    pub size: (u16, u16),
    /// Whether the mouse is ours.
    pub(crate) mouse: bool,
    /// The step of the tour, where one is given.
    pub(crate) tour: Option<usize>,
    /// Whether the timeline is shown above table and flame graph.
    pub(crate) timeline: bool,
    /// The theme by name, and the one before others were looked at.
    pub(crate) theme: String,
    pub(crate) theme_before: Option<String>,
}

impl Surroundings {
    /// The frame at the start.
    pub(crate) fn new(theme: String, tour: bool) -> Self {
        let tour = tour.then_some(0);
        Self { size: (80, 24), mouse: true, timeline: true, theme, tour, ..Self::default() }
    }
}
