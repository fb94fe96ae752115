//! The processes whose functions of interpreted languages can be shown.

use std::collections::BTreeMap;

use super::{Check, good, limited};
use crate::symbols::languages::NotWalked;
use crate::symbols::languages::survey::{SurveyedProcess, survey};

pub(super) fn python() -> Check {
    check(&survey())
}

fn check(processes: &[SurveyedProcess]) -> Check {
    /// Processes of a reason that are named.
    const PIDS: usize = 3;
    let mut walked: BTreeMap<u8, usize> = BTreeMap::new();
    let mut others: BTreeMap<NotWalked, Vec<i32>> = BTreeMap::new();
    for process in processes {
        match (process.version, process.walked) {
            (Some(minor), Ok(())) => *walked.entry(minor).or_default() += 1,
            (_, Err(why)) => others.entry(why).or_default().push(process.pid),
            (None, Ok(())) => {}
        }
    }
    let versions: Vec<String> = walked.iter().map(|(minor, n)| format!("{n} × 3.{minor}")).collect();
    let versions = versions.join(", ");
    let Some((why, _)) = others.first_key_value() else {
        return good(if versions.is_empty() { "no process runs CPython".to_owned() } else { versions });
    };
    let mut parts: Vec<String> = (!versions.is_empty()).then_some(versions).into_iter().collect();
    for (why, pids) in &others {
        let list: Vec<String> = pids.iter().take(PIDS).map(i32::to_string).collect();
        let more = if pids.len() > PIDS { format!(" and {} more", pids.len() - PIDS) } else { String::new() };
        parts.push(format!("native frames of pid {}{more}: {why}", list.join(", ")));
    }
    limited(parts.join("; "), remedy(*why))
}

fn remedy(why: NotWalked) -> &'static str {
    match why {
        NotWalked::Version(12..) => "Start the program with python -X perf: its functions are in a perf map then.",
        NotWalked::Version(_) => "Run the program with CPython 3.8 or later.",
        NotWalked::Unreadable => "Run as root or as the user of the process; see kernel.yama.ptrace_scope.",
        NotWalked::NotBegun | NotWalked::Delayed | NotWalked::NoRoom => "Try again when the program runs.",
        NotWalked::NotFound => "Start the program with python -X perf (3.12 and later).",
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    #[test]
    fn processes_are_counted_by_version_and_reason() {
        let one = |pid, version, walked| SurveyedProcess { pid, version, walked };
        assert_eq!(check(&[]).state, CheckState::Good);
        let walked = [one(1, Some(11), Ok(())), one(2, Some(8), Ok(())), one(3, Some(11), Ok(()))];
        let found = check(&walked);
        assert_eq!((found.state, &*found.found), (CheckState::Good, "1 × 3.8, 2 × 3.11"));
        let mut all = walked.to_vec();
        all.extend((4..9).map(|pid| one(pid, Some(12), Err(NotWalked::Unreadable))));
        all.push(one(9, None, Err(NotWalked::Version(14))));
        let found = check(&all);
        assert_eq!(found.state, CheckState::Limited);
        assert_eq!(
            found.found,
            "1 × 3.8, 2 × 3.11; native frames of pid 9: version 3.14 is not supported; native frames of pid 4, 5, 6 \
             and 2 more: this user may not read its memory"
        );
        assert_eq!(found.remedy, remedy(NotWalked::Version(14)));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_process_of_this_machine_is_found() {
        use std::process::{Command, Stdio};
        let mut sleep = Command::new("python3");
        sleep.args(["-c", "import sys; print(flush=True); sys.stdin.read()"]).stdin(Stdio::piped());
        let Ok(mut child) = sleep.stdout(Stdio::piped()).spawn() else { return };
        let mut first = [0];
        std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut first).expect("it runs");
        let found = survey().into_iter().find(|process| process.pid == child.id() as i32);
        let _ = child.kill();
        let _ = child.wait();
        // A user without rights cannot open what is mapped.
        let is_known = found.as_ref().is_some_and(|process| process.version.is_some());
        assert!(!is_known || found.is_some_and(|process| process.walked == Ok(())));
    }
}
