//! The program in the kernel: loaded once, attached to events and at hooks.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use super::offsets;
use super::runtime::SEEN_BYTES;
use crate::kernel::bpf::btf::Btf;
use crate::kernel::bpf::calls::{self, LoadError, MapKind, PROG_ARRAY, ProgramType};
use crate::kernel::bpf::object::LoadedObject;
use crate::kernel::perf_event::sys::Errno;
use crate::kernel::process::own_memory;

#[cfg(target_arch = "x86_64")]
pub(super) const OBJECT: &[u8] = include_bytes!("walk.x86_64.o");
#[cfg(not(target_arch = "x86_64"))]
pub(super) const OBJECT: &[u8] = include_bytes!("walk.aarch64.o");

/// The place where tasks are walked for a tracepoint or probe.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hook {
    /// A tracepoint, by its name without its system.
    Tracepoint(String),
    /// The tracepoint of all system calls at their start or end, and the number of the only call to walk.
    Call(&'static str, u32),
    /// A probe that belongs to the session, by the number of its event.
    Probe(u64),
}

impl Hook {
    /// Returns the name of its tracepoint.
    pub(crate) fn tracepoint(&self) -> Option<&str> {
        match self {
            Self::Tracepoint(name) => Some(name),
            Self::Call(name, _) => Some(name),
            Self::Probe(_) => None,
        }
    }

    pub(crate) fn call(&self) -> Option<u32> {
        match self {
            Self::Call(_, number) => Some(*number),
            Self::Tracepoint(_) | Self::Probe(_) => None,
        }
    }

    /// Returns the hook of all events that one attachment of the program serves.
    pub(crate) fn place(&self) -> Self {
        match self {
            Self::Call(name, _) => Self::Call(name, 0),
            other => other.clone(),
        }
    }
}

/// The program in the kernel, as events need it.
#[derive(Debug)]
pub struct Program {
    pub(super) object: LoadedObject,
    program: OwnedFd,
    /// The same for each kind of hook, loaded when first needed.
    at_hooks: [OnceLock<OwnedFd>; 3],
    /// A program array with this program, for filter programs that end with a jump to it.
    next: OwnedFd,
    settings: Settings,
    pub(super) thread_pointer: Option<u32>,
}

/// `struct settings` of walk.bpf.c.
#[derive(Clone, Copy, Debug)]
struct Settings {
    address: u64,
    copies: bool,
    /// The offset of a task's own perf events; 0 if it is unknown.
    task_events: u32,
}

impl Settings {
    fn words(&self, only_measured_tasks: bool) -> [u32; 4] {
        let events = if only_measured_tasks { self.task_events } else { 0 };
        [self.address as u32, (self.address >> 32) as u32, self.copies.into(), events]
    }
}

impl Program {
    /// Loads the program that writes, before each sample with a copied stack, the return addresses that the copy lacks
    /// (`RETURNS`). [`LoadError`] has the end of the verifier's log.
    pub fn for_copies() -> Result<Arc<Self>, LoadError> {
        Ok(Arc::new(Self::load(true)?))
    }

    pub(super) fn load(copies: bool) -> Result<Self, LoadError> {
        let object = LoadedObject::load(OBJECT)?;
        let program = object.program("perf_event", ProgramType::Sample)?;
        let array = MapKind { kind: PROG_ARRAY, key: 4, value: 4, entries: 1, flags: 0 };
        let next = calls::map(&array, None)?;
        calls::put(next.as_fd(), 0, [program.as_raw_fd() as u32, 0, 0, 0])?;
        let mut settings = Settings { address: address_bits(), copies, task_events: 0 };
        let mut thread_pointer = None;
        // Without the offsets, a return address that a probe has replaced stays unknown.
        if let Ok(types) = Btf::system() {
            if let Ok(found) = offsets::pending(&types) {
                calls::put(object.map("pendings")?, 0, found)?;
            }
            settings.task_events = offsets::task_events(&types).unwrap_or(0);
            if let Ok(found) = offsets::family(&types) {
                calls::put(object.map("families")?, 0, found)?;
            }
            thread_pointer = offsets::thread_pointer(&types).ok();
        }
        // The kernel's types take some 6 MB and are not needed again.
        own_memory::give_back();
        calls::put(object.map("settings")?, 0, settings.words(false))?;
        Ok(Self { object, program, at_hooks: [const { OnceLock::new() }; 3], next, settings, thread_pointer })
    }

    /// A program that was not loaded.
    #[cfg(test)]
    pub(crate) fn staged() -> Arc<Self> {
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").expect("there"));
        let settings = Settings { address: 0, copies: false, task_events: 0 };
        let at_hooks = Default::default();
        let object = LoadedObject::staged(file());
        Arc::new(Self { object, program: file(), at_hooks, next: file(), settings, thread_pointer: None })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    pub(crate) fn next(&self) -> BorrowedFd<'_> {
        self.next.as_fd()
    }

    /// Returns the program for a hook.
    pub(crate) fn at(&self, hook: &Hook) -> Result<BorrowedFd<'_>, LoadError> {
        let (cell, section, runs) = match hook {
            Hook::Tracepoint(_) => (0, "raw_tp", ProgramType::RawTracepoint),
            Hook::Call(..) => (1, "raw_tp_call", ProgramType::RawTracepoint),
            Hook::Probe(_) => (2, "probe", ProgramType::Probe),
        };
        let cell = &self.at_hooks[cell];
        if cell.get().is_none() {
            let program = self.object.program(section, runs)?;
            cell.get_or_init(|| program);
        }
        cell.get().map(AsFd::as_fd).ok_or(LoadError::from(Errno::NOENT))
    }

    /// Walks the stack of each task that passes a tracepoint, as long as the returned descriptor is open. Fails with
    /// [`Errno::NOENT`] if the kernel has no such tracepoint.
    pub(crate) fn attach(&self, hook: &Hook, tracepoint: &str) -> Result<OwnedFd, LoadError> {
        let name = CString::new(tracepoint).map_err(|_| Errno::INVAL)?;
        Ok(calls::attach(self.at(hook)?, &name)?)
    }

    /// Walks at the tracepoints of this system call, or no more.
    pub(crate) fn trace_call(&self, number: u32, on: bool) -> Result<(), LoadError> {
        Ok(calls::put(self.object.map("calls")?, number, [on.into(), 0, 0, 0])?)
    }

    /// Lets the programs at tracepoints walk only tasks with perf events of their own, or all tasks.
    pub(crate) fn walk_measured_tasks_only(&self, only: bool) -> Result<(), LoadError> {
        Ok(calls::put(self.object.map("settings")?, 0, self.settings.words(only))?)
    }

    /// Returns whether the program can find out which tasks have perf events of their own.
    pub(crate) fn knows_measured_tasks(&self) -> bool {
        self.settings.task_events != 0
    }

    /// Returns whether the program has the tables of a process, by its kernel number.
    pub(crate) fn knows(&self, number: u32) -> bool {
        self.object.map("spaces").is_ok_and(|spaces| calls::get(spaces, number).is_ok())
    }

    /// Lets the program write the names of all functions again.
    pub(crate) fn forget_names(&self) {
        // It fails only if the map does not exist.
        let _ = self.object.map("seen").map(|seen| calls::put_bytes(seen, 0, &vec![0; SEEN_BYTES]));
    }

    /// Lets an event of type `SW_BPF_OUTPUT` write the records of its CPU.
    pub(crate) fn write_by(&self, cpu: u32, event: BorrowedFd<'_>) -> Result<(), Errno> {
        self.object.write_by(cpu, event)
    }

    /// Returns the number of the program's instructions that the verifier processed; 0 before Linux 5.16.
    pub fn verified(&self) -> Result<u32, Errno> {
        calls::verified(self.fd())
    }
}

/// Returns a mask of the address bits of user code. Kernels for AArch64 are built for 36 to 48 bits, and the bits above
/// may hold a signature. A kernel for 52 bits maps such addresses only on explicit request
/// (Documentation/arm64/memory.rst). A program's arguments are at the end of its memory.
fn address_bits() -> u64 {
    let last = rustix::param::linux_execfn().as_ptr() as u64;
    u64::MAX >> last.leading_zeros().clamp(12, 28)
}
