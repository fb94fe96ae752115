//! The outermost function of goroutines, which Go's own profiles leave out and recordings of the same program have.

use crate::profile::SymId;
use crate::query::data::Data;
use crate::query::rows::top::{Top, TopRow};

/// Its name, and the prefix of the functions of Go's runtime.
pub(crate) const GO_EXIT: &str = "runtime.goexit";
const GO_RUNTIME: &str = "runtime.";

/// Returns whether only one of two profiles of Go programs has that function. A comparison leaves it out then: otherwise,
/// it would be all new or all gone, and the stacks of the two sides would have no frame in common.
pub(crate) fn is_missing(new: Data<'_>, old: Data<'_>) -> bool {
    let [(a, a_is_go), (b, b_is_go)] = [new, old].map(|data| {
        let syms = (0..data.profile.frames.n_syms() as u32).map(|sym| data.profile.frames.sym(SymId(sym)));
        syms.filter_map(|sym| sym.function.as_deref()).fold((false, false), |(exit, is_go), name| {
            (exit || name == GO_EXIT, is_go || name.starts_with(GO_RUNTIME))
        })
    });
    a != b && a_is_go && b_is_go
}

/// Returns whether a row is that function without samples of its own.
pub(crate) fn is_row(data: Data<'_>, top: &Top, row: &TopRow) -> bool {
    let name = || top.symbol(data, row.label).and_then(|sym| sym.function.as_deref());
    top.is_by_function() && row.own.is_zero() && name() == Some(GO_EXIT)
}
