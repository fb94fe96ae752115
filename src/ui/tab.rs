//! The screens with their names and purposes.

/// A screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// Functions and their call chains.
    #[default]
    Top,
    /// The flame graph.
    Flame,
    /// The heat map of time.
    Time,
    /// The CPUs.
    Cpus,
    /// The events.
    Events,
    /// Analysis units.
    Units,
}

impl Tab {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Top => "Top",
            Self::Flame => "Flame",
            Self::Time => "Time",
            Self::Cpus => "CPUs",
            Self::Events => "Events",
            Self::Units => "Units",
        }
    }

    /// Describes the purpose of the screen.
    pub(crate) fn about(self) -> &'static str {
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
}
