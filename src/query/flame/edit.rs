//! Edits that change stacks before they become a tree.

use std::sync::Arc;

/// A change to every stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Edit {
    /// Stacks begin at this function; those without it are left out.
    Focus(Arc<str>),
    /// This function's time counts for its caller.
    MergeFunction(Arc<str>),
    /// All of a DSO's functions count for their callers.
    MergeDso(Arc<str>),
    /// A function that calls itself directly is one frame.
    CollapseRecursion,
    /// Frames that have one child only and no time of their own are drawn as one with it.
    CollapseChains,
    /// Frames are DSOs instead of functions.
    ByDso,
    /// Processes stand on the ground, each for itself, instead of programs.
    Processes,
    /// Containers, units and groups stand on the ground.
    Containers,
    /// All tasks together stand on the ground.
    AllTasks,
}

impl Edit {
    /// As a command, for the list of edits.
    pub(crate) fn as_command(&self) -> String {
        match self {
            Self::Focus(name) => format!("focus {name}"),
            Self::MergeFunction(name) => format!("merge {name}"),
            Self::MergeDso(name) => format!("merge-dso {name}"),
            Self::CollapseRecursion => "recursion".into(),
            Self::CollapseChains => "chains".into(),
            Self::ByDso => "by-dso".into(),
            Self::Processes => "processes".into(),
            Self::Containers => "containers".into(),
            Self::AllTasks => "all-tasks".into(),
        }
    }
}
