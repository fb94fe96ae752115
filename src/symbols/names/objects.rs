//! Names of data: objects and functions at an offset of a file. Missing sizes are filled in as in perf.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::demangle::demangle;
use super::table::SymbolTable;
use crate::perfdata::unpack::UnpackBudget;
use crate::session::{Dso, DsoId, DsoKind};
use crate::symbols::debug_image::Image;
use crate::symbols::options::SymbolOptions;
use crate::symbols::trust::isolated::run_isolated;

/// The tables of the files that were requested.
#[derive(Debug)]
pub struct Objects {
    options: SymbolOptions,
    /// `None` for files that cannot be read.
    files: FxHashMap<DsoId, Option<SymbolTable>>,
}

impl Objects {
    pub(crate) fn new(options: SymbolOptions) -> Self {
        Self { options, files: FxHashMap::default() }
    }

    /// Returns the object at an offset of a file, and the offset into the object.
    pub(crate) fn find(&mut self, dso: &Dso, offset: u64) -> Option<(Arc<str>, u64)> {
        if dso.kind != DsoKind::File {
            return None;
        }
        let table = self.files.entry(dso.id).or_insert_with(|| {
            let (dso, options) = (dso.clone(), self.options.clone());
            let read = move || Image::open(&dso, &options).ok()?.objects(&mut UnpackBudget::new(options.budget)).ok();
            run_isolated(read).ok().flatten()
        });
        let found = table.as_ref()?.find(offset)?;
        Some((demangle(found.name, self.options.form).into(), offset - found.start))
    }
}
