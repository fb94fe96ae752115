//! Facts about a place in which a thread sleeps, from the functions of its stack.

use std::sync::Arc;

use crate::panel::stacks::FrameName;
use crate::panel::text::BELOW;
use crate::session::DsoKind;
use crate::units::kit::waits::sleep;

/// Facts about a place.
#[derive(Clone, Debug, Default)]
pub(super) struct SpotFacts {
    /// The system call, or the first other function of the kernel.
    pub(super) call: Arc<str>,
    /// Whether the functions of the program are not known.
    pub(super) is_broken: bool,
    /// Whether the stack has only kernel functions.
    pub(super) is_of_kernel: bool,
    /// Whether the thread sleeps until its own timer expires.
    pub(super) is_of_timer: bool,
    /// Whether the thread waits for the end of a process.
    pub(super) is_of_process: bool,
    /// Whether the thread is a worker without work.
    pub(super) is_idle_worker: bool,
    /// The functions from the first one of an interpreted program on.
    pub(super) of_program: Option<Arc<str>>,
}

impl SpotFacts {
    /// From the functions of a stack, root first.
    pub(super) fn of(frames: &[FrameName]) -> Self {
        // A library without frame pointers may end a stack at its first function, so that it looks complete.
        let user = frames.iter().filter(|name| !name.kind.is_kernel()).count();
        let is_cut = frames.first().is_none_or(|name| name.kind == DsoKind::Cut);
        let of_program = program_place(frames);
        Self {
            call: sleep::served(frames),
            is_broken: of_program.is_none() && (is_cut || user == 1),
            is_of_kernel: user == 0 && !frames.is_empty(),
            is_of_timer: sleep::is_of_timer(frames),
            is_of_process: sleep::is_of_process(frames),
            is_idle_worker: sleep::is_idle_worker(frames),
            of_program,
        }
    }

    /// Returns the functions that identify the place, of a stack with this line.
    pub(super) fn place(&self, line: &Arc<str>) -> Arc<str> {
        self.of_program.as_ref().unwrap_or(line).clone()
    }
}

/// Returns the functions from the first one of an interpreted program on, as text. They identify the place, although the
/// stack of the interpreter's own start may be broken. `None` if the stack is broken within them.
fn program_place(frames: &[FrameName]) -> Option<Arc<str>> {
    let from = frames.iter().position(|name| matches!(name.kind, DsoKind::Interpreted(_)))?;
    let inner = &frames[from..];
    if inner.iter().any(|name| name.kind == DsoKind::Cut) {
        return None;
    }
    let seen = sleep::seen_by_user(inner);
    Some(seen.iter().map(|name| &*name.text).collect::<Vec<_>>().join(BELOW).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::interpreted::Language;

    /// A stack through an interpreter has the same place, whether or not the interpreter's own start is known.
    #[test]
    fn the_functions_of_an_interpreted_program_are_a_place() {
        let facts = |stack: &[(&str, DsoKind)]| {
            let name = |(text, kind): &(&str, DsoKind)| FrameName { text: (*text).into(), kind: *kind, dso: "".into() };
            let facts = SpotFacts::of(&stack.iter().map(name).collect::<Vec<_>>());
            (facts.is_broken, facts.of_program)
        };
        let python = DsoKind::Interpreted(Language::Python);
        let broken = ("[broken]", DsoKind::Cut);
        let inner = [("<module>", python), ("wait", python), ("__select", DsoKind::File)];
        let call = [("__x64_sys_pselect6", DsoKind::Kernel), ("schedule", DsoKind::Kernel)];
        let whole = facts(&[&[("_start", DsoKind::File), ("main", DsoKind::File)][..], &inner[..], &call].concat());
        assert!(!whole.0 && whole.1.is_some(), "{whole:?}");
        assert_eq!(facts(&[&[broken][..], &inner[..], &call].concat()), whole);
        // The break may hide functions of the program.
        assert_eq!(facts(&[&[broken][..], &inner[..1], &[broken], &inner[2..], &call].concat()), (true, None));
        assert_eq!(facts(&[&[broken][..], &inner[2..], &call].concat()), (true, None));
        assert_eq!(facts(&[&inner[2..], &call].concat()), (true, None));
    }
}
