//! The list of screens.

use crate::ui::screens::Views;
use crate::ui::screens::screen::Screen;
use crate::ui::state::Tab;

impl Views {
    /// Returns the screen of a tab.
    pub(crate) fn screen(&self, tab: Tab) -> &dyn Screen {
        match tab {
            Tab::Overview => &self.overview,
            Tab::Top => &self.top,
            Tab::Flame => &self.flame,
            Tab::Time => &self.time,
            Tab::Cpus => &self.cpus,
            Tab::Events => &self.events,
            Tab::Units => &self.units,
        }
    }

    pub(crate) fn screen_mut(&mut self, tab: Tab) -> &mut dyn Screen {
        match tab {
            Tab::Overview => &mut self.overview,
            Tab::Top => &mut self.top,
            Tab::Flame => &mut self.flame,
            Tab::Time => &mut self.time,
            Tab::Cpus => &mut self.cpus,
            Tab::Events => &mut self.events,
            Tab::Units => &mut self.units,
        }
    }
}
