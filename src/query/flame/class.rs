//! The kinds of code that frames are of, by which flame graphs colour them.

use crate::profile::frames::INLINED;
use crate::query::context::{IRQ, SOFTIRQ, is_system_vector};
use crate::query::symbol_stacks::Name;
use crate::session::DsoKind;

/// The kind of code of a frame, by its file and by what it runs inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// What stands on the ground: a program, a process or a container.
    Thread,
    /// The kernel, its modules and BPF programs, in a task's own work.
    Kernel,
    /// Kernel code that a softirq runs.
    Softirq,
    /// Kernel code that an interrupt runs, outside of softirqs.
    Irq,
    /// A program's own file.
    User,
    /// A shared library, by its name, or the vDSO.
    Library,
    /// Memory without a file: what a JIT made.
    Jit,
    /// Inlined into the frame that it stands on.
    Inlined,
    /// Code of which no more is known, or of a guest.
    Unknown,
}

impl Class {
    /// The letter that says it without colour.
    pub(crate) fn letter(self) -> char {
        match self {
            Self::Thread => '#',
            Self::Kernel => 'k',
            Self::Softirq => 's',
            Self::Irq => 'h',
            Self::User => 'u',
            Self::Library => 'l',
            Self::Jit => 'j',
            Self::Inlined => 'i',
            Self::Unknown => '?',
        }
    }
}

/// The bearing of a name on a frame: its own class, and what it enters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Says {
    own: Class,
    softirq: bool,
    irq: bool,
}

impl Says {
    pub(super) fn of(name: &Name) -> Self {
        let enters = |list: &[&str]| name.text.split(" › ").any(|part| list.contains(&part));
        let irq = enters(IRQ) || is_system_vector(&name.text);
        Self { own: class_of(name), softirq: enters(SOFTIRQ), irq }
    }

    /// The class of a frame of this name, by that of its caller.
    pub(super) fn within(self, caller: Class) -> Class {
        match caller {
            _ if self.own != Class::Kernel => self.own,
            _ if self.softirq => Class::Softirq,
            Class::Softirq => Class::Softirq,
            _ if self.irq => Class::Irq,
            Class::Irq => Class::Irq,
            _ => self.own,
        }
    }
}

fn class_of(name: &Name) -> Class {
    match name.kind {
        kind if kind.is_kernel() => Class::Kernel,
        _ if name.text.ends_with(INLINED) => Class::Inlined,
        DsoKind::File | DsoKind::Vdso if name.dso.contains(".so") || name.kind == DsoKind::Vdso => Class::Library,
        DsoKind::File => Class::User,
        DsoKind::Anon => Class::Jit,
        _ => Class::Unknown,
    }
}
