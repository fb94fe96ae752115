//! Symbols: functions, or addresses without one.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use crate::record::interpreted::NAME_NOT_READ;
use crate::session::{DsoId, DsoKind};
use crate::symbols::jit::reuse::untagged;

/// Returns an address of a DSO without the tag that a JIT's code has.
pub(super) fn in_memory(kind: DsoKind, at: u64) -> u64 {
    if kind == DsoKind::Anon { untagged(at) } else { at }
}

/// A function, or an address without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sym {
    pub(crate) dso: DsoId,
    pub(crate) kind: DsoKind,
    pub(crate) dso_name: Arc<str>,
    /// The function, if known: its name, or `0x…` of its start. [`Sym::name`] has labels for the others.
    pub(crate) function: Option<Arc<str>>,
    /// The start in the DSO; the address itself for an unknown function.
    pub(crate) start: u64,
    /// Bytes of code; 0 if unknown.
    pub(crate) size: u64,
    pub(crate) state: SymState,
    /// A small number for each distinct DSO name, for grouping.
    pub(crate) dso_label: u32,
}

impl Sym {
    /// Returns the distance of an address of its DSO from its start; `None` before the start.
    pub(crate) fn offset(&self, at: u64) -> Option<u64> {
        in_memory(self.kind, at).checked_sub(in_memory(self.kind, self.start))
    }

    /// Returns the function; `0x…` (16 digits) if it is finally unknown, `dso …` while it is being symbolized. All
    /// pending addresses of a DSO have the same name, and so have all unknown ones of a JIT's code.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        match &self.function {
            Some(name) => Cow::Borrowed(name),
            None if self.state == SymState::Sought => Cow::Owned(format!("{} …", self.dso_name)),
            None if self.is_any_code() => Cow::Borrowed(UNNAMED_CODE),
            None => Cow::Owned(format!("{:#018x}", self.start)),
        }
    }

    /// Returns whether it stands for all code of a JIT that has no names.
    fn is_any_code(&self) -> bool {
        (self.kind, self.state, self.start) == (DsoKind::Anon, SymState::Unknown, ANY_CODE)
    }

    /// Returns whether it has no name of its own: only bounds, an address, or a mark that its name was not read.
    pub(crate) fn is_unnamed(&self) -> bool {
        let is_not_read = || self.function.as_deref() == Some(NAME_NOT_READ);
        matches!(self.state, SymState::Bounded | SymState::Unknown)
            || matches!(self.kind, DsoKind::Interpreted(_)) && is_not_read()
    }

    /// Returns the file of an interpreted function; followed by its line, where the name has that: `shop.js:12`.
    pub(crate) fn file_of_interpreted(&self) -> Option<&str> {
        let name = self.function.as_deref().filter(|_| matches!(self.kind, DsoKind::Interpreted(_)))?;
        name.strip_suffix(')')?.rsplit_once(" (").map(|(_, file)| file)
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.function.clone().unwrap_or_else(|| self.name().into())
    }

    /// Compares by DSO, name and start, without formatting names.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let names = match (&self.function, &other.function) {
            (Some(a), Some(b)) => compare_shared(a, b),
            (None, None) if self.state == other.state => self.start.cmp(&other.start),
            _ => self.name().cmp(&other.name()),
        };
        compare_shared(&self.dso_name, &other.dso_name).then(names).then(self.start.cmp(&other.start))
    }
}

/// Compares names, which are mostly shared if they are equal.
fn compare_shared(a: &Arc<str>, b: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(a, b) { Ordering::Equal } else { a.cmp(b) }
}

/// The state of a symbol's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SymState {
    Sought,
    Known,
    /// The function's bounds are known but not its name; it is labeled by its start.
    Bounded,
    Unknown,
}

impl SymState {
    /// Returns the source of a name as a word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Sought => "sought",
            Self::Known => "symbol",
            Self::Bounded => "bounds",
            Self::Unknown => "none",
        }
    }
}

/// The row of a JIT's code without names: each address would be a row otherwise. Its start is that of no code.
pub(super) const UNNAMED_CODE: &str = "0x… (code without names)";
pub(super) const ANY_CODE: u64 = 0;
