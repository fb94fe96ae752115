//! Build IDs of the files in mapping records.
//! They are read during recording, because containers and deleted programs disappear with their processes.

use crate::perfdata::build_ids::{self, IdentifiedFile};
use crate::record::kinds::{FileId, Header, Mmap, Record, split, types};
use crate::session::{Dso, DsoKind, Dsos};
use crate::symbols::SymbolOptions;
use crate::symbols::debug_image;

const EXEC: u32 = 4;
/// The limit of files that are read, which bounds the memory that other users' files can take.
const MAX_FILES: usize = 1 << 16;

/// The files mapped so far, with their build IDs.
pub(crate) struct Identities {
    dsos: Dsos,
    options: SymbolOptions,
    list: Vec<IdentifiedFile>,
    /// The number of `dsos` read so far.
    read: usize,
}

impl Identities {
    /// Starts with the files that are already mapped.
    pub(crate) fn new(dsos: Dsos) -> Self {
        let list = build_ids::of_kernel().map(|id| IdentifiedFile {
            kernel: true,
            path: "[kernel.kallsyms]".to_owned(),
            file: FileId::None,
            id,
        });
        let mut new = Self { dsos, options: SymbolOptions::live(), list: list.into_iter().collect(), read: 0 };
        new.read_on();
        new
    }

    pub(crate) fn follow(&mut self, header: Header, record: &[u8]) {
        if header.kind != types::MMAP2 || self.dsos.all().len() >= MAX_FILES {
            return;
        }
        let Ok(Some((header, body, _))) = split(record) else { return };
        if let Ok(Record::Mmap(map @ Mmap { prot, pid: 1.., .. })) = Record::decode(header, body, false)
            && prot & EXEC != 0
        {
            self.dsos.of_record(&map);
            self.read_on();
        }
    }

    fn read_on(&mut self) {
        let fresh = self.dsos.all()[self.read..].iter().filter(|dso| dso.kind == DsoKind::File);
        self.list.extend(fresh.filter_map(|dso| identified(dso, &self.options)));
        self.read = self.dsos.all().len();
    }

    /// Returns whether a file was mapped.
    pub(crate) fn has_mapped(&self, path: &str) -> bool {
        self.dsos.all().iter().any(|dso| &*dso.path == path)
    }

    pub(crate) fn list(&self) -> &[IdentifiedFile] {
        &self.list
    }
}

/// Returns a DSO with its build ID: the recorded one, or else that of its file or the running kernel.
pub(crate) fn identified(dso: &Dso, options: &SymbolOptions) -> Option<IdentifiedFile> {
    let id = match dso.kind {
        DsoKind::Kernel if options.is_own_kernel(dso) => build_ids::of_kernel(),
        DsoKind::File => dso.build_id.or_else(|| debug_image::build_id(dso, options)),
        _ => None,
    };
    Some(IdentifiedFile { kernel: dso.kind == DsoKind::Kernel, path: dso.path.to_string(), file: dso.file, id: id? })
}
