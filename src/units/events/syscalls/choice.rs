//! The calls that are chosen by name, and the events that record their strings and stacks.

use std::collections::BTreeSet;

use crate::units::kit::prelude::*;

use super::arguments::uses_descriptor;
use super::names::{Call, CallTables};

/// The calls with a path, a socket address or a structure that their own events record, by the names of the events.
const WITH_TEXT: &str = "openat open openat2 execve execveat newfstatat statx newstat newlstat access faccessat \
                         faccessat2 readlink readlinkat unlink unlinkat mkdir mkdirat rename renameat renameat2 chdir \
                         truncate statfs creat rmdir link linkat symlink symlinkat chmod fchmodat chown lchown \
                         fchownat fchmodat2 utimensat chroot mknod mknodat umount inotify_add_watch getxattr \
                         lgetxattr fgetxattr setxattr lsetxattr fsetxattr listxattr removexattr connect bind clone3";

/// The calls that end what is known of a descriptor. They are recorded with chosen calls that use descriptors.
const FOLLOWED: [&str; 4] = ["close", "close_range", "dup2", "dup3"];

/// The number with which a signal handler returns through `rt_sigreturn`.
const NO_CALL: i64 = -1;

/// The two events of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallSide {
    Begin,
    Return,
}

/// The chosen calls.
#[derive(Clone, Debug, Default)]
pub(super) struct CallChoice {
    /// All calls if it is empty.
    names: BTreeSet<String>,
    has_texts: bool,
    /// Whether a chosen call uses a descriptor.
    uses_descriptors: bool,
}

impl CallChoice {
    /// Reads the names of calls among the events of `-e`. Returns the filters on `own`, the unit's events.
    pub(super) fn of(settings: &Settings, own: &[&str]) -> Result<(Self, Vec<Option<String>>), String> {
        let mut names = BTreeSet::new();
        let tables = CallTables::of("");
        let filters = select::own(settings, own, |one| {
            let is_call = one.filter.is_none() && tables.numbers(&one.event).next().is_some();
            names.extend(is_call.then(|| one.event.clone()));
            is_call
        });
        let filters = filters.map_err(|why| format!("{why}; names of system calls, such as openat, choose those"))?;
        let uses_descriptors = names.iter().any(|name| uses_descriptor(name));
        Ok((Self { names, has_texts: settings.has("paths"), uses_descriptors }, filters))
    }

    pub(super) fn is_narrow(&self) -> bool {
        !self.names.is_empty()
    }

    pub(super) fn has(&self, call: Call, tables: CallTables) -> bool {
        self.names.is_empty() || tables.known(call).is_some_and(|name| self.names.contains(name))
    }

    /// Whether a call is recorded although it is not chosen.
    pub(super) fn follows(&self, call: Call, tables: CallTables) -> bool {
        self.uses_descriptors && tables.known(call).is_some_and(|name| FOLLOWED.contains(&name))
    }

    /// Whether the calls that close descriptors are recorded.
    pub(super) fn sees_closes(&self) -> bool {
        self.names.is_empty() || self.uses_descriptors
    }

    /// Iterates over the recorded calls.
    fn recorded(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str).chain(FOLLOWED.into_iter().filter(|_| self.uses_descriptors))
    }

    /// Adds the numbers of the recorded calls to a filter. Other calls of another ABI may have them, too. Some calls
    /// return with another number.
    pub(super) fn filter(&self, own: Option<&String>, side: CallSide) -> Option<String> {
        let of = |name: &str| CallTables::of("").numbers(name).collect::<Vec<_>>();
        let returning = |name: &str| match name {
            _ if side == CallSide::Begin => Vec::new(),
            "execveat" => of("execve"),
            "rt_sigreturn" | "sigreturn" => vec![NO_CALL],
            _ => Vec::new(),
        };
        let numbers: BTreeSet<i64> = self.recorded().flat_map(|name| [of(name), returning(name)].concat()).collect();
        let numbers = numbers.iter().map(|number| format!("id == {number}")).collect::<Vec<_>>().join(" || ");
        match (own, numbers.is_empty()) {
            (own, true) => own.cloned(),
            (None, false) => Some(numbers),
            (Some(own), false) => Some(format!("({own}) && ({numbers})")),
        }
    }

    /// Requests the events of calls, which record texts, and stacks of chosen calls.
    pub(super) fn event_requests(&self) -> impl Iterator<Item = EventRequest> {
        let texts = WITH_TEXT.split(' ').filter(|_| self.has_texts && self.names.is_empty()).map(str::to_owned);
        let chosen = self.names.iter().map(|name| event_of(name));
        texts.chain(chosen).map(|event| {
            let request = EventRequest::new(format!("syscalls:sys_enter_{event}")).optional();
            request.with_stack(self.is_narrow())
        })
    }

    /// Fails for a recording of an architecture with other numbers: their filter would select other calls.
    pub(super) fn require(&self, arch: &str, tables: CallTables) -> Result<(), String> {
        let is_same = |name: &str| tables.numbers(name).eq(CallTables::of("").numbers(name));
        if self.recorded().all(is_same) {
            return Ok(());
        }
        Err(format!("system calls of {arch} have other numbers; open the recording on such a machine"))
    }
}

/// Returns the name of a call's event (the kernel's function).
fn event_of(call: &str) -> String {
    match call {
        "stat" | "lstat" | "fstat" | "uname" => format!("new{call}"),
        "umount2" => "umount".to_owned(),
        "sendfile" => "sendfile64".to_owned(),
        call => call.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::events::syscalls::{EVENTS, SPEC};

    fn choice(words: &[&str]) -> Result<(CallChoice, Vec<Option<String>>), String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        CallChoice::of(&Settings::parse(&words, &SPEC)?, &EVENTS)
    }

    #[test]
    fn calls_are_chosen_by_name() {
        let (of, filters) = choice(&["-e", "openat,connect", "-e", "raw_syscalls:sys_exit/ret < 0/"]).expect("chosen");
        assert!(of.is_narrow() && filters == [None, Some("ret < 0".to_owned())]);
        let events: Vec<(String, bool)> = of.event_requests().map(|request| (request.event, request.stack)).collect();
        let expected = ["syscalls:sys_enter_connect", "syscalls:sys_enter_openat"].map(|name| (name.to_owned(), true));
        assert_eq!(events, expected);
        let x86 = CallTables::of("x86_64");
        let of_call = |number| Call { number, abi: super::super::names::Abi::Native };
        assert_eq!([257, 42, 0].map(|number| of.has(of_call(number), x86)), [true, true, false]);
        if cfg!(target_arch = "x86_64") {
            // connect and openat, also those of 32-bit programs.
            assert_eq!(
                of.filter(None, CallSide::Return).as_deref(),
                Some("id == 42 || id == 257 || id == 295 || id == 362")
            );
            let both = of.filter(Some(&"ret < 0".to_owned()), CallSide::Return);
            assert!(both.is_some_and(|filter| filter.starts_with("(ret < 0) && (id == 42 || ")));
            assert!(of.require("x86_64", x86).is_ok() && of.require("aarch64", CallTables::of("aarch64")).is_err());
        }
        // Reads need what their descriptors refer to.
        let (reads, _) = choice(&["-e", "read"]).expect("chosen");
        assert!(reads.sees_closes() && !of.sees_closes());
        assert_eq!([3, 0, 42].map(|number| reads.follows(of_call(number), x86)), [true, false, false]);
        assert!(!reads.has(of_call(3), x86) && !of.follows(of_call(3), x86));
        if cfg!(target_arch = "x86_64") {
            assert!(
                reads.filter(None, CallSide::Begin).is_some_and(|filter| filter.starts_with("id == 0 || id == 3 || "))
            );
        }
        // These return with another number than they begin with.
        let (odd, _) = choice(&["-e", "execveat,rt_sigreturn"]).expect("chosen");
        if cfg!(target_arch = "x86_64") {
            let [begin, end] =
                [CallSide::Begin, CallSide::Return].map(|side| odd.filter(None, side).expect("a filter"));
            let has = |filter: &str, number: i64| filter.split(" || ").any(|part| part == format!("id == {number}"));
            assert_eq!([-1, 15, 59, 322].map(|number| has(&begin, number)), [false, true, false, true]);
            assert_eq!([-1, 15, 59, 322].map(|number| has(&end, number)), [true; 4]);
        }
        assert!(choice(&["-e", "openta"]).is_err() && choice(&["-e", "openat/ret < 0/"]).is_err());
        let (all, _) = choice(&["--paths"]).expect("chosen");
        assert!(!all.is_narrow() && all.filter(None, CallSide::Return).is_none() && all.has(of_call(0), x86));
        assert!(all.event_requests().any(|request| request.event == "syscalls:sys_enter_connect" && !request.stack));
        assert_eq!(choice(&[]).expect("chosen").0.event_requests().count(), 0);
        assert_eq!(["stat", "sendfile", "read"].map(event_of), ["newstat", "sendfile64", "read"]);
    }
}
