//! The screens with their names and purposes.

/// A screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    /// Findings about the machine.
    Overview,
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
            Self::Overview => "Overview",
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
            Self::Overview => {
                "Findings about the machine, the worst first: CPUs, waits for them, locks, disks, memory, network, \
                 changes. Enter goes where it is examined, ⌫ comes back. A range of time (3, v) and filters count."
            }
            Self::Top => {
                "The functions with the most samples. Self is the share of the function itself, Children includes its \
                 callees. Enter unfolds its callers. Filters (f) and zooms (d for the DSO) also apply to earlier samples."
            }
            Self::Flame => {
                "Stacks side by side: the width of a frame is its share of the samples, callees are below their callers. \
                 Enter zooms, ⌫ undoes; frames that are too narrow are combined as others."
            }
            Self::Time => {
                "Samples over time: one column per second, its rows are offsets within it. Stripes and blocks are \
                 bursts. v selects, Enter shows the selection on every screen, b compares with it."
            }
            Self::Cpus => {
                "The load of each CPU from the kernel's own counts, and its softirqs from samples. Anomalies \
                 come first; Enter shows the functions behind a cell."
            }
            Self::Events => {
                "The measured events with their cost, and below them all events of this machine. Changes take effect at \
                 once, on all CPUs or on none."
            }
            Self::Units => {
                "Analysis units answer one question each, from the kernel's events: waits, wakers, latencies of \
                 calls. Several can run at once."
            }
        }
    }
}
