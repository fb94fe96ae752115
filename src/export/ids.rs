//! Build ids of the files that records map, read while they are there: containers and deleted programs go with their
//! processes.

use crate::perfdata::build_ids::{self, IdentifiedFile};
use crate::record::kinds::{FileId, Header, Mmap, Record, split, types};
use crate::session::{Dso, DsoKind, Dsos};
use crate::symbols::SymbolOptions;
use crate::symbols::debug_image;

/// `PROT_EXEC`.
const EXEC: u32 = 4;
/// Files beyond this number are not read: nobody's build may fill our memory.
const MAX_FILES: usize = 1 << 16;

/// The files met so far, with their build ids.
pub(crate) struct Identities {
    dsos: Dsos,
    options: SymbolOptions,
    list: Vec<IdentifiedFile>,
    /// How many of `dsos` were read.
    read: usize,
}

impl Identities {
    /// Begins with the files that are mapped already.
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

    /// Reads the files that records of ours map for the first time.
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
        let id_of = |dso: &Dso| {
            let id = debug_image::build_id(dso, &self.options)?;
            Some(IdentifiedFile { kernel: false, path: dso.path.to_string(), file: dso.file, id })
        };
        let fresh = self.dsos.all()[self.read..].iter().filter(|dso| dso.kind == DsoKind::File);
        self.list.extend(fresh.filter_map(id_of));
        self.read = self.dsos.all().len();
    }

    pub(crate) fn list(&self) -> &[IdentifiedFile] {
        &self.list
    }
}
