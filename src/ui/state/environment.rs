//! The surroundings of a view: the active screen, open popups, the message and the terminal size.

use crate::ui::popups::Popup;
use crate::ui::popups::prompt::Prompt;
use crate::ui::screens::top::state::TopState;
use crate::ui::state::Tab;

/// The level of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The result of a key or command.
    Info,
    /// The reason why a key or command did nothing.
    Error,
}

/// Limits of the drawn columns, rows and cells. They exceed the largest displays with the smallest fonts, and bound the
/// memory even if a terminal claims a larger size.
const MOST: (u16, u16) = (1000, 500);
const MOST_CELLS: u32 = 200_000;

/// Returns the part of a terminal that is drawn, from its upper left corner.
pub(crate) fn drawn_part(width: u16, height: u16) -> (u16, u16) {
    let width = width.min(MOST.0);
    let fits = MOST_CELLS / u32::from(width.max(1));
    (width, height.min(MOST.1).min(u16::try_from(fits).unwrap_or(u16::MAX)))
}

/// The surroundings of the screens.
#[derive(Debug, Default)]
pub struct Environment {
    pub tab: Tab,
    pub(crate) popups: Vec<Popup>,
    pub(crate) prompt: Option<Prompt>,
    /// Earlier filters of the view and of events, the newest last.
    pub past_filters: Vec<String>,
    /// The table before a search started: each typed letter searches from there.
    pub(crate) before_search: Option<TopState>,
    pub(crate) chord: String,
    pub status: Option<(Level, String)>,
    /// The recording to compare with, while it is read.
    pub(crate) reading: Option<String>,
    pub size: (u16, u16),
    pub(crate) mouse: bool,
    /// The step of the tour, if it is active.
    pub(crate) tour: Option<usize>,
    pub(crate) timeline: bool,
    /// The theme by name, and the previous one during a preview.
    pub(crate) theme: String,
    pub(crate) theme_before: Option<String>,
}

impl Environment {
    pub(crate) fn new(theme: String, tour: bool) -> Self {
        let tour = tour.then_some(0);
        Self { size: (80, 24), mouse: true, timeline: true, theme, tour, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_of_any_size_is_drawn_within_bounds() {
        for usual in [(80, 24), (0, 0), (1, 1), (960, 200), (640, 300), (24, 500)] {
            assert_eq!(drawn_part(usual.0, usual.1), usual);
        }
        for absurd in [(65_535, 24), (2000, 2000), (80, 65_535), (65_535, 65_535), (1000, 400)] {
            let (width, height) = drawn_part(absurd.0, absurd.1);
            assert!(u32::from(width) * u32::from(height) <= MOST_CELLS && width > 0 && height >= 24, "{absurd:?}");
        }
    }
}
