//! Probes created by a session: they are removed at its end. Those of a killed session are recognized by their name.

use std::path::PathBuf;

use crate::event::probe::{self, ProbeError, tracefs};
use crate::event::spec::LookupPaths;

/// The prefix of sessions' groups, before the process id.
const GROUP: &str = "perfprof_";

#[derive(Debug, Default)]
pub(crate) struct Probes {
    root: Option<PathBuf>,
    made: Vec<(String, String)>,
}

fn own_group() -> String {
    format!("{GROUP}{}", std::process::id())
}

/// Returns whether probes of a group belong to this session.
pub(super) fn is_own(group: &str) -> bool {
    group.strip_prefix(GROUP).is_some_and(|pid| pid.parse() == Ok(std::process::id()))
}

impl Probes {
    /// Creates a probe; returns the name of its event.
    pub(crate) fn add(&mut self, text: &str) -> Result<String, ProbeError> {
        let root = LookupPaths::system().tracefs?;
        let probe = probe::parse(text, &own_group())?;
        let known = tracefs::list(&root).map_err(|error| error.to_string())?;
        if known.iter().any(|k| k.event() == probe.event()) {
            return Err(format!("{} exists already", probe.event()).into());
        }
        tracefs::add(&root, &probe)?;
        self.made.push((probe.group.clone(), probe.name.clone()));
        self.root = Some(root);
        Ok(probe.event())
    }

    /// Removes the session's probes, which must be closed.
    pub(crate) fn remove(&mut self) {
        let made = std::mem::take(&mut self.made);
        if let Some(root) = &self.root {
            for (group, name) in &made {
                // Another user may have removed it, or uses it.
                let _ = tracefs::remove(root, &|known| known.group == *group && known.name == *name);
            }
        }
    }
}

/// Returns probes of sessions that ended without removing them.
pub(crate) fn left_over() -> Vec<tracefs::ExistingProbe> {
    let Ok(root) = LookupPaths::system().tracefs else { return Vec::new() };
    let mut known = tracefs::list(&root).unwrap_or_default();
    known.retain(is_left_over);
    known
}

pub(crate) fn is_left_over(known: &tracefs::ExistingProbe) -> bool {
    let pid = known.group.strip_prefix(GROUP).and_then(|pid| pid.parse::<i32>().ok());
    pid.is_some_and(|pid| crate::kernel::procfs::threads(pid).is_empty())
}
