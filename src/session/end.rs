//! The end of a session.

use std::fmt::{self, Display, Formatter};

/// Why a session has ended; displayed as a message for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The recording of this name was read completely.
    Complete(String),
    /// The user stopped it. For a recording, the place in words; empty for a live session.
    Stopped(String),
    /// The profiled command ended; how, in words.
    Command(String),
    /// All tasks of this target ended.
    Target(String),
    /// The source failed, for this reason.
    Failed(String),
}

impl Display for EndReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete(name) => write!(f, "end of {name}"),
            Self::Stopped(place) if place.is_empty() => f.write_str("stopped"),
            Self::Stopped(place) => write!(f, "stopped {place}"),
            Self::Command(how) => write!(f, "the command {how}"),
            Self::Target(target) => write!(f, "{target} has ended"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}
