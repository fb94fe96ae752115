//! Running processes by name.

use std::collections::{BTreeMap, BTreeSet};

use crate::kernel::procfs;
use crate::lang::is_misspelled;

/// The maximum bytes of a name in the kernel (TASK_COMM_LEN in include/linux/sched.h, without the zero).
const COMM_BYTES: usize = 15;
const LISTED: usize = 8;

/// Processes whose first thread's name, or whose file's name, is a word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedProcesses {
    word: String,
    /// Processes in order, with the parent of each.
    pids: BTreeMap<i32, i32>,
}

impl NamedProcesses {
    /// Finds running processes; `None` if there are none. Excludes this program.
    pub(crate) fn find(word: &str) -> Option<Self> {
        let own = std::process::id() as i32;
        let is_called = |pid: i32| {
            let comm = procfs::comm(pid, pid).unwrap_or_default();
            is_comm(word, &comm) || procfs::exe_name(pid).is_some_and(|name| name == word)
        };
        let list = procfs::processes_as_listed().filter(|pid| *pid != own && is_called(*pid));
        let pids: BTreeMap<i32, i32> =
            list.filter(|pid| procfs::is_running(*pid)).map(|pid| (pid, procfs::parent(pid).unwrap_or(0))).collect();
        (!word.is_empty() && !pids.is_empty()).then(|| Self { word: word.to_owned(), pids })
    }

    /// Returns their `-p` value. Of many, it lists those whose parent is not among them; the others descend from these.
    pub(crate) fn list(&self) -> String {
        let is_root = |parent: &i32| self.pids.len() <= LISTED || !self.pids.contains_key(parent);
        let pids = self.pids.iter().filter(|(_, parent)| is_root(parent)).map(|(pid, _)| pid.to_string());
        pids.collect::<Vec<_>>().join(",")
    }
}

/// Formats `nginx runs as 29169, 29171`; of many `nginx runs in 40 processes, started by 29169`.
impl std::fmt::Display for NamedProcesses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pids = self.list().replace(',', ", ");
        match self.pids.len() {
            ..=LISTED => write!(f, "{} runs as {pids}", self.word),
            n => write!(f, "{} runs in {n} processes; the others descend from {pids}", self.word),
        }
    }
}

/// Returns the names of running programs that a word probably misspells, in order. Excludes threads of the kernel.
pub(crate) fn misspelled(word: &str) -> Vec<String> {
    let name = |pid: i32| procfs::exe_name(pid).filter(|name| is_misspelled(word, name));
    let found: BTreeSet<String> = procfs::processes_as_listed().filter_map(name).collect();
    found.into_iter().take(LISTED).collect()
}

/// Returns whether a thread's name is a word, truncated to the kernel's length.
fn is_comm(word: &str, comm: &[u8]) -> bool {
    let word = word.as_bytes();
    comm == &word[..word.len().min(COMM_BYTES)] && !comm.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(pids: &[(i32, i32)]) -> NamedProcesses {
        NamedProcesses { word: "nginx".into(), pids: pids.iter().copied().collect() }
    }

    #[test]
    fn a_word_is_answered_with_the_processes_that_it_names() {
        assert_eq!(named(&[(29169, 1), (29171, 29169)]).to_string(), "nginx runs as 29169, 29171");
        let many: Vec<(i32, i32)> = [(10, 1), (50, 1)].into_iter().chain((11..20).map(|pid| (pid, 10))).collect();
        let text = named(&many).to_string();
        assert_eq!(text, "nginx runs in 11 processes; the others descend from 10, 50");
    }

    #[test]
    fn names_are_compared_as_far_as_the_kernel_keeps_them() {
        assert!(is_comm("a-very-long-program-name", b"a-very-long-pro") && is_comm("java", b"java"));
        assert!(!is_comm("java", b"javac") && !is_comm("a-very-long-pro", b"a-very-long-pr") && !is_comm("", b""));
    }

    #[test]
    fn a_process_is_found_by_its_file_also_where_it_calls_itself_otherwise() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = child.id() as i32;
        while procfs::comm(pid, pid).is_none_or(|name| name != b"sleep") {
            std::thread::yield_now();
        }
        let found = NamedProcesses::find("sleep").expect("one runs");
        assert!(found.pids.contains_key(&pid) && found.list().contains(&pid.to_string()));
        assert!(misspelled("sleeep").contains(&"sleep".to_owned()));
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert_eq!(NamedProcesses::find("no-such-program-runs"), None);
        assert_eq!(NamedProcesses::find(""), None);
    }
}
