//! Names of what a session creates in tracefs: groups of probes, and instances. A name contains the process ID of the
//! session, so that those of killed sessions are recognized.

use crate::kernel::procfs;

/// The prefix of the process ID.
const PREFIX: &str = "perfprof_";

/// Returns the name that this process uses.
pub(crate) fn name() -> String {
    format!("{PREFIX}{}", std::process::id())
}

/// Returns whether a name is that of this process.
pub(crate) fn is_own(name: &str) -> bool {
    owner(name).is_some_and(|pid| u32::try_from(pid) == Ok(std::process::id()))
}

/// Returns whether a name is that of a session whose process no longer exists. A process that has got the same ID counts
/// as the session.
pub(crate) fn is_left_over(name: &str) -> bool {
    owner(name).is_some_and(|pid| procfs::threads(pid).is_empty())
}

fn owner(name: &str) -> Option<i32> {
    let digits = name.strip_prefix(PREFIX)?;
    digits.parse().ok().filter(|pid: &i32| *pid > 0 && pid.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_recognized_by_their_names() {
        assert!(is_own(&name()) && !is_left_over(&name()));
        // The first process never ends.
        assert!(!is_own("perfprof_1") && !is_left_over("perfprof_1"));
        // Above PID_MAX_LIMIT.
        assert!(is_left_over("perfprof_2000000000"));
        for other in ["perfprof_", "perfprof_0", "perfprof_-3", "perfprof_+3", "perfprof_03", "perfprof_x_3", "probe_3"]
        {
            assert!(owner(other).is_none(), "{other}");
        }
    }
}
