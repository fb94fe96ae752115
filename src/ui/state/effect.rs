//! Actions outside of the model, which the main loop executes.

use std::path::PathBuf;
use std::time::Duration;

use crate::engine::{Request, UnitRequest};
use crate::ui::state::SavedFilters;
use crate::units::kit::{Settings, Spec};

/// An action outside of the model.
#[derive(Debug)]
pub enum Effect {
    /// Sends a request to the engine.
    Engine(Request),
    /// Changes analysis units; for a recording, its records are read again.
    Unit(UnitRequest),
    /// Sets the refresh interval.
    Refresh(Duration),
    /// Requests an action on files and processes.
    Outside(OutsideRequest),
    /// Redraws the whole screen.
    Redraw,
    /// Enables or disables mouse capture.
    Mouse(bool),
    /// Starts or stops the measurement of softirq time.
    Softirqs(bool),
    /// Starts or stops the PMU counters of the CPUs.
    CountWork(bool),
    /// Follows processes in the figures of /proc, even if others have larger ones.
    Follow(Vec<i32>),
    /// Loads the catalogue of the machine's events.
    Catalogue,
    /// Copies a text to the clipboard.
    Copy(String),
    /// Leaves the program.
    Quit,
}

/// An action on files and processes, which the owner of the session carries out.
#[derive(Debug)]
pub enum OutsideRequest {
    /// Saves a snapshot under a name or a generated one: of all kept samples, or of a range of the session's clock.
    Save(Option<PathBuf>, Option<(u64, u64)>),
    /// The same, and one page about it next to it.
    SaveWithDigest(Option<PathBuf>, Option<(u64, u64)>),
    /// Writes a text to a file.
    Write(PathBuf, String),
    /// Saves the named filters.
    SaveFilters(SavedFilters),
    /// Reads a recording and passes it to the engine for comparison.
    Baseline(PathBuf),
    /// Reads the recording for a unit and passes it to the engine.
    Unit(&'static Spec, Settings),
    /// Stops the process, like Ctrl-Z.
    Suspend,
}
