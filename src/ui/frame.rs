//! What lies around a view: which screen is looked at, what is open over it, what was said, the terminal's size.

use crate::ui::popup::Popup;
use crate::ui::prompt::Prompt;
use crate::ui::tour::Tour;
use crate::ui::view::top::state::TopScreen;
use crate::ui::view::{cpus, events, flame, time, units};

/// How a message is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Info,
    Error,
}

/// Which screen is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    Top,
    Flame,
    Time,
    Cpus,
    Events,
    Units,
}

impl Tab {
    pub const ALL: [Self; 6] = [Self::Top, Self::Flame, Self::Time, Self::Cpus, Self::Events, Self::Units];

    pub fn name(self) -> &'static str {
        match self {
            Self::Top => "Top",
            Self::Flame => "Flame",
            Self::Time => "Time",
            Self::Cpus => "CPUs",
            Self::Events => "Events",
            Self::Units => "Units",
        }
    }

    /// What the screen is for.
    pub fn about(self) -> &'static str {
        match self {
            Self::Top => {
                "The functions that were sampled most. Self is the share in the function itself, Children with what it \
                 calls. Enter unfolds who called it; the one-key zooms and f narrow what counts, also of the past."
            }
            Self::Flame => {
                "Stacks side by side: as wide as their share of the samples, callees below their callers. Enter zooms, \
                 ⌫ undoes; what is too narrow to be drawn stands together as others."
            }
            Self::Time => {
                "When the samples came: a column for each second, its rows the time inside it. Stripes and blocks are \
                 bursts. v selects, Enter shows what was selected on every screen, b compares with it."
            }
            Self::Cpus => {
                "What each CPU does by the kernel's own counts, and its softirqs by samples. Anomalies \
                 come first; Enter shows the functions behind a cell."
            }
            Self::Events => {
                "What is measured and what it costs, and below it what this machine could measure. Changes hold from now \
                 on, on all CPUs or on none."
            }
            Self::Units => {
                "Analysis units answer one question each, from the kernel's events: who waits, who wakes whom, which \
                 calls take how long. Several run at once."
            }
        }
    }

    /// The group of commands that work on this screen only.
    pub fn group(self) -> Option<&'static str> {
        match self {
            Self::Top => None,
            Self::Flame => Some(flame::commands::GROUP.title),
            Self::Time => Some(time::commands::GROUP.title),
            Self::Cpus => Some(cpus::commands::GROUP.title),
            Self::Events => Some(events::commands::GROUP.title),
            Self::Units => Some(units::commands::GROUP.title),
        }
    }
}

/// The frame of the screens.
#[derive(Debug)]
pub struct Surroundings {
    pub tab: Tab,
    pub popups: Vec<Popup>,
    pub prompt: Option<Prompt>,
    /// Filters that were set, of the view and of events, the newest last.
    pub past_filters: Vec<String>,
    /// The table before a search began to be typed, so that each letter searches from there.
    pub before_search: Option<TopScreen>,
    /// Keys of an unfinished chord.
    pub chord: String,
    pub status: Option<(Level, String)>,
    pub size: (u16, u16),
    /// Whether the mouse is ours.
    pub mouse: bool,
    pub tour: Option<Tour>,
    /// Whether the timeline is shown above table and flame graph.
    pub timeline: bool,
    /// The theme by name, and the one before others were looked at.
    pub theme: String,
    pub theme_before: Option<String>,
}

impl Surroundings {
    /// The frame at the start.
    pub fn new(theme: String, tour: bool) -> Self {
        Self {
            tab: Tab::Top,
            popups: Vec::new(),
            prompt: None,
            past_filters: Vec::new(),
            before_search: None,
            chord: String::new(),
            status: None,
            size: (80, 24),
            mouse: true,
            tour: tour.then(Tour::default),
            timeline: true,
            theme,
            theme_before: None,
        }
    }
}
