//! The kinds of code that determine the colors of flame graphs.

use crate::panel::stacks::FrameName;
use crate::profile::frames::INLINED;
use crate::query::cpus::context::{AFTER_IRQ, IRQ, SOFTIRQ, is_system_vector};
use crate::session::DsoKind;

/// The kind of code of a frame, from its file and its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The base frame: a program, a process or a container.
    Thread,
    /// The kernel, its modules and BPF programs, in a task's own context.
    Kernel,
    /// Kernel code of a softirq.
    Softirq,
    /// Kernel code of an interrupt, outside of softirqs.
    Irq,
    /// A program's own file.
    User,
    /// A shared library, by its name, or the vDSO.
    Library,
    /// Memory without a file: code of a JIT.
    Jit,
    /// A function of an interpreted language, or of a virtual machine's.
    Interpreted,
    /// Inlined into the frame below.
    Inlined,
    /// Unknown code, or code of a guest.
    Unknown,
}

impl Class {
    /// Returns the letter that represents it without color.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Thread => '#',
            Self::Kernel => 'k',
            Self::Softirq => 's',
            Self::Irq => 'h',
            Self::User => 'u',
            Self::Library => 'l',
            Self::Jit => 'j',
            Self::Interpreted => 'p',
            Self::Inlined => 'i',
            Self::Unknown => '?',
        }
    }
}

/// The effect of a name on the class of frames. It has a class of its own, and a context that it enters.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClassEffect {
    own: Class,
    softirq: bool,
    irq: bool,
    /// Whether it leaves an interrupt.
    task: bool,
}

impl ClassEffect {
    pub(super) fn of(name: &FrameName) -> Self {
        let enters = |list: &[&str]| name.text.split(" › ").any(|part| list.contains(&part));
        let irq = enters(IRQ) || is_system_vector(&name.text);
        Self { own: class_of(name), softirq: enters(SOFTIRQ), irq, task: enters(AFTER_IRQ) }
    }

    /// Returns the class of a frame with this name, given its caller's class.
    pub(super) fn within(self, caller: Class) -> Class {
        match caller {
            _ if self.own != Class::Kernel || self.task => self.own,
            _ if self.softirq => Class::Softirq,
            Class::Softirq => Class::Softirq,
            _ if self.irq => Class::Irq,
            Class::Irq => Class::Irq,
            _ => self.own,
        }
    }
}

fn class_of(name: &FrameName) -> Class {
    match name.kind {
        kind if kind.is_kernel() => Class::Kernel,
        _ if name.text.ends_with(INLINED) => Class::Inlined,
        DsoKind::File | DsoKind::Vdso if name.dso.contains(".so") || name.kind == DsoKind::Vdso => Class::Library,
        DsoKind::File => Class::User,
        DsoKind::Anon => Class::Jit,
        DsoKind::Interpreted(_) => Class::Interpreted,
        _ => Class::Unknown,
    }
}
