//! The probes of a session, which are removed at its end. Those of killed sessions, and their instances of tracefs, are
//! recognized by their names.

use std::path::PathBuf;

use crate::event::probe::{self, ProbeError, tracefs};
use crate::event::spec::LookupPaths;
use crate::event::{instance, own_names};
use crate::lang::counted;

#[derive(Debug, Default)]
pub(crate) struct Probes {
    root: Option<PathBuf>,
    made: Vec<(String, String)>,
}

impl Probes {
    /// Creates a probe; returns the name of its event.
    pub(crate) fn add(&mut self, text: &str) -> Result<String, ProbeError> {
        let root = LookupPaths::system().tracefs?;
        let probe = probe::parse(text, &own_names::name())?;
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

/// Returns a note about what killed sessions left.
pub(super) fn left_over_note() -> Option<String> {
    let root = LookupPaths::system().tracefs.ok()?;
    let probes = tracefs::list(&root).unwrap_or_default().iter().filter(|known| is_left_over(known)).count();
    let left = described(probes, instance::left_over(&root).len())?;
    Some(format!("killed sessions left {left}; remove them with perfprof-tui probe --clean"))
}

/// Describes a number of probes and of instances: `2 probes and 1 instance of tracefs`.
pub(crate) fn described(probes: usize, instances: usize) -> Option<String> {
    let count = |n: usize, noun| (n > 0).then(|| counted(n as u64, noun));
    let instances = count(instances, "instance").map(|count| format!("{count} of tracefs"));
    let parts: Vec<String> = count(probes, "probe").into_iter().chain(instances).collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

/// Returns whether a probe is that of a session that ended without removing it.
pub(crate) fn is_left_over(known: &tracefs::ExistingProbe) -> bool {
    own_names::is_left_over(&known.group)
}

#[cfg(test)]
mod tests {
    use super::described;

    #[test]
    fn what_is_left_is_counted_by_kind() {
        assert_eq!(described(0, 0), None);
        assert_eq!(described(1, 0).as_deref(), Some("1 probe"));
        assert_eq!(described(0, 2).as_deref(), Some("2 instances of tracefs"));
        assert_eq!(described(2, 1).as_deref(), Some("2 probes and 1 instance of tracefs"));
    }
}
