//! Sampling of the running machine by the commands: its source, units, retention and snapshots.

pub(crate) mod flight_recorder;
pub(crate) mod snapshot;
pub(crate) mod source_config;
pub(crate) mod unit_source;
