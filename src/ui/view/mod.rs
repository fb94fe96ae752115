//! The screens, a folder for each.

pub mod annotate;
pub mod cpus;
pub mod events;
pub mod flame;
pub mod time;
pub mod top;
pub mod units;

/// The state of each screen.
#[derive(Debug, Default)]
pub struct Views {
    pub top: top::state::TopScreen,
    pub flame: flame::state::FlameScreen,
    pub time: time::state::TimeScreen,
    pub cpus: cpus::state::CpusScreen,
    pub events: events::state::EventsScreen,
    pub units: units::state::UnitsScreen,
}
