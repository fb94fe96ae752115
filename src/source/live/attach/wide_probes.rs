//! Notes about probes in programs that slow down processes outside the target. The kernel puts such a probe into the code
//! of a task if its event is opened on the task, and else into that of all processes that map the file.

use std::collections::BTreeSet;

use crate::event::Event;
use crate::event::probe::tracefs::{self, ExistingProbe, USER};
use crate::event::spec::LookupPaths;

use super::Attachment;

impl Attachment {
    /// Notes which of these events slow down processes outside the target, once for each file with such probes.
    pub(crate) fn note_wide_probes(&mut self, which: &[usize]) {
        let by_cgroup = !self.common.tasks;
        let events = which.iter().map(|at| &self.slots[*at]).filter(|slot| slot.is_open()).map(|slot| &slot.event);
        let is_wide = |event: &&Event| event.tracepoint.is_some() && (by_cgroup || event.machine_wide);
        let wide: Vec<&Event> = events.filter(is_wide).collect();
        if !self.is_narrow || wide.is_empty() {
            return;
        }
        let known = LookupPaths::system().tracefs.ok().and_then(|root| tracefs::list(&root).ok()).unwrap_or_default();
        let mut files = files(&wide, &known);
        files.retain(|file| !self.wide_files.contains(file));
        self.notes.extend(note(&files, by_cgroup));
        self.wide_files.append(&mut files);
    }
}

/// Returns the files whose code has the probes of these events.
fn files(events: &[&Event], known: &[ExistingProbe]) -> BTreeSet<String> {
    let is_measured = |probe: &&ExistingProbe| {
        let is_it = |(group, name): &(String, String)| probe.group == *group && probe.name == *name;
        probe.file == USER && events.iter().any(|event| event.tracepoint.as_ref().is_some_and(is_it))
    };
    // FILE:OFFSET and the arguments; FILE has no blanks.
    let file = |probe: &ExistingProbe| probe.what.split(' ').next()?.rsplit_once(':').map(|(file, _)| file.to_owned());
    known.iter().filter(is_measured).filter_map(file).collect()
}

fn note(files: &BTreeSet<String>, by_cgroup: bool) -> Option<String> {
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    let why = if by_cgroup {
        "the kernel limits probes to processes (-p), not to cgroups or containers"
    } else {
        "this unit measures the whole machine"
    };
    (!names.is_empty()).then(|| {
        format!(
            "the probes of {} also slow down processes outside the target, by about a microsecond per call: {why}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_those_of_measured_probes_of_programs() {
        let probe = |group: &str, name: &str, what: &str, file| ExistingProbe {
            group: group.into(),
            name: name.into(),
            what: what.into(),
            file,
        };
        let known = [
            probe("perfprof_1", "malloc", "/lib/libc.so.6:0x0000000000001000 bytes=%di:u64", USER),
            probe("perfprof_1", "free", "/lib/libc.so.6:0x0000000000002000", USER),
            probe("perfprof_2", "malloc", "/lib/other.so:0x0000000000001000", USER),
            probe("perfprof_1", "tcp_sendmsg", "tcp_sendmsg+0", tracefs::KERNEL),
        ];
        let event = |group: &str, name: &str| Event {
            tracepoint: Some((group.to_owned(), name.to_owned())),
            ..Event::cpu_clock()
        };
        let of = |events: &[Event]| files(&events.iter().collect::<Vec<_>>(), &known);
        let (malloc, free) = (event("perfprof_1", "malloc"), event("perfprof_1", "free"));
        let libc = BTreeSet::from(["/lib/libc.so.6".to_owned()]);
        assert_eq!(of(&[malloc, free]), libc);
        assert!(of(&[event("perfprof_1", "tcp_sendmsg"), event("sched", "malloc"), Event::cpu_clock()]).is_empty());
        assert!(note(&libc, true).is_some_and(|text| text.contains("of /lib/libc.so.6 ")));
        assert_eq!(note(&BTreeSet::new(), true), None);
    }
}
