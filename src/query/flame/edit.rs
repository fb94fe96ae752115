//! Edits that change stacks before they become a tree.

use std::sync::Arc;

/// A change of every stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Edit {
    /// Stacks begin at this function; those without it are left out.
    Focus(Arc<str>),
    /// This function's time counts for its caller.
    MergeFunction(Arc<str>),
    /// The functions of this DSO count for their callers.
    MergeDso(Arc<str>),
    /// Direct recursion is merged into one frame.
    CollapseRecursion,
    /// Frames with a single child and without time of their own are merged with it.
    CollapseChains,
    /// Frames are DSOs instead of functions.
    ByDso,
    /// Each process has a base frame, instead of each program.
    Processes,
    /// Each container, unit or cgroup has a base frame.
    Containers,
    /// All tasks share one base frame.
    AllTasks,
}

impl Edit {
    /// Formats it as a command, for the list of edits.
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
