//! The screens, a folder for each.

pub(crate) mod annotate;
pub(crate) mod cpus;
pub(crate) mod events;
pub mod flame;
pub(crate) mod time;
pub(crate) mod top;
pub(crate) mod units;

/// The state of each screen.
#[derive(Debug, Default)]
pub struct Views {
    /// The table of functions.
    pub top: top::state::TopScreen,
    /// The flame graph.
    pub flame: flame::state::FlameScreen,
    /// The heat map of time.
    pub time: time::state::TimeScreen,
    /// The CPUs.
    pub cpus: cpus::state::CpusScreen,
    /// The events.
    pub events: events::state::EventsScreen,
    /// Analysis units.
    pub units: units::state::UnitsScreen,
}
