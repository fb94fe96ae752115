//! The list of screens.

use crate::ui::screens::cpus::screen::CpusScreen;
use crate::ui::screens::events::screen::EventsScreen;
use crate::ui::screens::flame::screen::FlameScreen;
use crate::ui::screens::screen::Screen;
use crate::ui::screens::time::screen::TimeScreen;
use crate::ui::screens::top::screen::TopScreen;
use crate::ui::screens::units::screen::UnitsScreen;
use crate::ui::state::Tab;

/// Returns the screen of a tab.
pub(crate) fn screen(tab: Tab) -> &'static dyn Screen {
    match tab {
        Tab::Top => &TopScreen,
        Tab::Flame => &FlameScreen,
        Tab::Time => &TimeScreen,
        Tab::Cpus => &CpusScreen,
        Tab::Events => &EventsScreen,
        Tab::Units => &UnitsScreen,
    }
}
