//! The capture filters of open events: text for the kernel's own parser on tracepoints, BPF programs on others.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::event::spec::{Capture, LookupPaths};
use crate::event::{Event, filter_error};
use crate::kernel::bpf::calls::LoadError;
use crate::kernel::limits::Rights;
use crate::kernel::privilege::obtain;
use crate::kernel::sys::{Errno, Ioctl, Sys};
use crate::kernel::walk::Program as Walk;

use super::error::OpenError;
use super::event_slot::Slot;

fn fail(event: &Event, filter: &Capture, reason: impl Into<String>, remedy: &str) -> OpenError {
    OpenError::new(format!("the filter {} of {}", filter.text, event.name), "set", reason, remedy)
}

/// Returns why a program was not loaded (bpf(2), ERRORS), and the remedies: the missing rights, or an alternative.
pub(super) fn refused_program(error: &LoadError, no_bpf: &str) -> (String, String) {
    match error.errno {
        Errno::PERM | Errno::ACCESS if error.log.is_empty() => {
            let remedies = [obtain(&Rights::read()), no_bpf.to_owned()].into_iter().filter(|one| !one.is_empty());
            ("BPF programs are not allowed to this user".to_owned(), remedies.collect::<Vec<_>>().join("; "))
        }
        Errno::NOSYS => ("this kernel has no BPF".to_owned(), no_bpf.to_owned()),
        errno if error.log.is_empty() => (format!("the kernel says {errno}"), String::new()),
        errno => (format!("the kernel's verifier reports {}: {errno}", error.log), String::new()),
    }
}

/// Sets a tracepoint's text filter, if any. Errnos are of the kernel's parser (kernel/trace/trace_events_filter.c).
pub(crate) fn set_text(sys: &dyn Sys, fd: &OwnedFd, event: &Event) -> Result<(), OpenError> {
    let Some(filter) = &event.filter else { return Ok(()) };
    let Some(text) = &filter.trace else { return Ok(()) };
    let words = std::ffi::CString::new(text.as_str()).unwrap_or_default();
    let reason = match sys.ioctl(fd.as_fd(), Ioctl::SetFilter(&words)) {
        Ok(_) => return Ok(()),
        Err(Errno::PERM) => "it has too many terms".to_owned(),
        Err(Errno::NOENT) => "it has too many parentheses".to_owned(),
        Err(Errno::INVAL) => "the kernel does not understand it".to_owned(),
        Err(errno) => format!("the kernel says {errno}"),
    };
    let root = LookupPaths::system().tracefs.ok();
    let said =
        root.zip(event.tracepoint.as_ref()).and_then(|(root, (s, n))| filter_error::kernel_message(&root, s, n, text));
    Err(fail(event, filter, reason, said.as_deref().unwrap_or_default()))
}

impl Slot {
    /// Sets the filter of an event that was just opened for this slot, and the program that walks the stacks of
    /// accepted samples. An event has only one program, so the filter jumps to the other one.
    pub(crate) fn set_programs(&mut self, sys: &dyn Sys, fd: &OwnedFd, walk: Option<&Walk>) -> Result<(), OpenError> {
        // The program of a traced event is attached to its hook.
        let walk = walk.filter(|_| !self.event.is_walked);
        let Self { event, program, .. } = self;
        let filter = event.filter.as_ref().filter(|filter| filter.program.is_some());
        if let (Some(walk), None) = (walk, filter) {
            let set = sys.ioctl(fd.as_fd(), Ioctl::SetBpf(walk.fd()));
            let words = || format!("the program that walks stacks for {}", event.name);
            set.map_err(|errno| OpenError::new(words(), "set", format!("the kernel says {errno}"), "--call-graph fp"))?;
        }
        let Some(filter) = &event.filter else { return Ok(()) };
        if let Some(wanted) = &filter.program {
            let next = walk.map(Walk::next);
            let (loaded, _) = match program {
                Some(loaded) if loaded.1 == next.is_some() => loaded,
                _ => program.insert((
                    Arc::new(sys.load(wanted, next).map_err(|error| {
                        let (reason, remedy) = refused_program(&error, "--where and f filter what is shown.");
                        fail(event, filter, reason, &remedy)
                    })?),
                    next.is_some(),
                )),
            };
            let set = sys.ioctl(fd.as_fd(), Ioctl::SetBpf(loaded.fd()));
            set.map_err(|errno| fail(event, filter, format!("the kernel says {errno}"), ""))?;
        }
        set_text(sys, fd, event)
    }

    /// Returns a message about a replaced filter, and whether it is active: an equal shape only needs new parameters.
    pub(crate) fn describe_filter(&mut self, before: Option<&Capture>) -> (String, bool) {
        let name = &self.event.name;
        let Some(filter) = &self.event.filter else {
            self.program = None;
            return (format!("all of {name} is recorded again"), false);
        };
        let mut words = format!("the kernel now records only hits of {name} with {}", filter.text);
        words.extend(filter.note.iter().map(|note| format!("; {note}")));
        let same = before.is_some_and(|before| {
            let shape = |c: &Capture| c.program.as_ref().map(|p| p.instructions.clone());
            shape(before).is_some()
                && shape(before) == shape(filter)
                && (before.exclude_user, before.exclude_kernel) == (filter.exclude_user, filter.exclude_kernel)
                && before.cpus == filter.cpus
        });
        match (&self.program, &filter.program) {
            (Some((loaded, _)), Some(program)) if same => {
                loaded.store(&program.constants);
                (words, true)
            }
            _ => {
                self.program = None;
                (words, false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::fake::FakeSys;
    use crate::source::live::attach::EventTarget;
    use crate::source::live::attach::tests::attachment;

    #[test]
    fn a_filter_is_set_before_the_event_runs_and_its_errnos_are_its_own() {
        let filter = Capture { text: "a == 1".into(), trace: Some("a == 1".into()), ..Capture::default() };
        let event = Event { name: "sched:x".into(), filter: Some(filter), ..Event::cpu_clock() };
        let sys = FakeSys::new(|_, _, _| Ok(()));
        let log = sys.log.clone();
        let mut a = attachment(sys, vec![event.clone()], 0);
        assert_eq!(a.open(0, EventTarget::Task(-1)), Ok(true));
        a.enable_all();
        let log = log.lock().join("; ");
        let (set, run) = (log.find("filter a == 1").expect("set"), log.rfind("enable").expect("enabled"));
        assert!(set < run, "{log}");
        for (errno, words) in [
            (Errno::PERM, "too many terms"),
            (Errno::NOENT, "too many parentheses"),
            (Errno::INVAL, "does not understand"),
        ] {
            let mut a = attachment(FakeSys::new(|_, _, _| Ok(())).refuse_filters(errno), vec![event.clone()], 0);
            let error = a.open(0, EventTarget::Task(-1)).expect_err("refused").to_string();
            assert!(error.contains(words) && error.contains("a == 1"), "{error}");
        }
    }

    #[test]
    fn a_program_that_is_refused_is_said_with_its_reason() {
        let program = crate::kernel::bpf::FilterProgram { instructions: Vec::new(), map_at: 0, constants: Vec::new() };
        let filter = Capture { text: "pid == 1".into(), program: Some(program), ..Capture::default() };
        let event = Event { filter: Some(filter), ..Event::cpu_clock() };
        let verifier = LoadError { errno: Errno::INVAL, log: "R1 is bad".into() };
        for (error, words) in [
            (Errno::PERM.into(), "BPF programs are not allowed"),
            (Errno::NOSYS.into(), "has no BPF"),
            (verifier, "verifier reports R1 is bad"),
            (Errno::NOMEM.into(), "the kernel says"),
        ] {
            let sys = FakeSys::new(|_, _, _| Ok(())).refuse_programs(error);
            let said = attachment(sys, vec![event.clone()], 0)
                .open(0, EventTarget::Task(-1))
                .expect_err("refused")
                .to_string();
            assert!(said.contains(words) && said.contains("pid == 1"), "{said}");
        }
    }
}
