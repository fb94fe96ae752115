//! The screens, a folder for each.

pub(crate) mod annotate;
pub(crate) mod cpus;
pub(crate) mod events;
pub mod flame;
pub(crate) mod list;
pub(crate) mod overview;
pub(crate) mod screen;
pub(crate) mod time;
pub(crate) mod top;
pub(crate) mod units;

/// The state of each screen.
#[derive(Debug, Default)]
pub struct Views {
    /// Findings about the machine.
    pub overview: overview::state::OverviewState,
    /// The table of functions.
    pub top: top::screen::TopScreen,
    /// The flame graph.
    pub flame: flame::state::FlameState,
    /// The heat map of time.
    pub time: time::state::TimeState,
    /// The CPUs.
    pub cpus: cpus::state::CpusState,
    /// The events.
    pub events: events::state::EventsState,
    /// Analysis units.
    pub units: units::state::UnitsState,
}
