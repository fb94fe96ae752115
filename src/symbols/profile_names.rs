//! Functions at addresses of other tools' profiles, which have no mappings.

use std::sync::Arc;

use super::debug_image::Image;
use super::names::demangle::NameForm;
use super::names::loaded::LoadedFiles;
use super::options::SymbolOptions;
use super::problem::Problem;
use super::trust::isolated::run_isolated;
use crate::perfdata::unpack::UnpackBudget;
use crate::record::kinds::BuildId;
use crate::session::{DsoKind, Dsos};

/// An address of a file's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodeAddress {
    /// An offset in the file.
    Offset(u64),
    /// An address as linked, relative to the start of the first segment.
    Linked(u64),
}

/// Returns the mangled names of the functions at addresses of a file; `None` for addresses without a symbol. Fails if
/// this machine's file at the path has another build ID.
pub(crate) fn functions_at(
    path: &str,
    build_id: BuildId,
    addresses: Vec<CodeAddress>,
    options: &SymbolOptions,
) -> Result<Vec<Option<Arc<str>>>, Problem> {
    let mut dso = Dsos::default().named(path, DsoKind::File);
    dso.build_id = Some(build_id);
    let options = options.clone();
    let find = move || -> Result<Vec<Option<Arc<str>>>, Problem> {
        let image = Image::open(&dso, &options)?;
        let functions = image.functions(&mut UnpackBudget::new(options.budget)).map_err(|error| error.to_string())?;
        let mut loaded = LoadedFiles::new(functions.tables);
        let name = |address: CodeAddress| {
            let offset = match address {
                CodeAddress::Offset(offset) => offset,
                CodeAddress::Linked(at) => image.segments.to_offset(image.segments.base().wrapping_add(at))?,
            };
            loaded.find(offset, NameForm::Raw).ok().flatten().map(|found| found.name)
        };
        let names = addresses.into_iter().map(name).collect();
        image.rest();
        Ok(names)
    };
    run_isolated(find)?
}
