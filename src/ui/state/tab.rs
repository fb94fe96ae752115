//! The screens with their names and purposes.

/// Lists the screens in the order of their tabs and digits: name, layer of keys in the configuration, and purpose.
macro_rules! tabs {
    ($($(#[$attribute:meta])* $tab:ident = ($name:literal, $layer:literal, $about:literal);)+) => {
        /// A screen.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Tab {
            $($(#[$attribute])* $tab,)+
        }

        impl Tab {
            /// All screens, in the order of their digits.
            pub(crate) const ALL: &[Self] = &[$(Self::$tab),+];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$tab => $name,)+
                }
            }

            /// Returns the name of its key bindings in the configuration.
            pub(crate) fn layer(self) -> &'static str {
                match self {
                    $(Self::$tab => $layer,)+
                }
            }

            /// Describes the purpose of the screen.
            pub(crate) fn about(self) -> &'static str {
                match self {
                    $(Self::$tab => $about,)+
                }
            }
        }
    };
}

tabs! {
    /// Findings about the machine.
    Overview = ("Overview", "overview",
        "Findings about the machine, the worst first: CPUs, waits for them, locks, disks, memory, network, \
         changes. Enter goes where it is examined, ⌫ comes back. A range of time (3, v) and filters count.");
    /// Functions and their call chains.
    #[default]
    Top = ("Top", "top",
        "The functions with the most samples. Self is the share of the function itself, Children includes its \
         callees. Enter unfolds its callers. Filters (f) and zooms (d for the DSO) also apply to earlier samples.");
    /// The flame graph.
    Flame = ("Flame", "flame",
        "Stacks side by side: the width of a frame is its share of the samples, callees are below their callers. \
         Enter zooms, ⌫ undoes; frames that are too narrow are combined as others.");
    /// The heat map of time.
    Time = ("Time", "time",
        "Samples over time: one column per second, its rows are offsets within it. Stripes and blocks are \
         bursts. v selects, Enter shows the selection on every screen, b compares with it.");
    /// The CPUs.
    Cpus = ("CPUs", "cpus",
        "The load of each CPU from the kernel's own counts, and its softirqs from samples. Anomalies \
         come first; Enter shows the functions behind a cell.");
    /// The events.
    Events = ("Events", "events",
        "The measured events with their cost, and below them all events of this machine. Changes take effect at \
         once, on all CPUs or on none.");
    /// Analysis units.
    Units = ("Units", "units",
        "Analysis units answer one question each, from the kernel's events: waits, wakers, latencies of \
         calls. Several can run at once.");
}
