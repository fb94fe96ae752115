//! Function tables for a stream: of the files with samples, each sent once, before the first samples that need it.

use rustc_hash::FxHashSet;

use crate::perfdata::unpack::UnpackBudget;
use crate::record::kinds::{misc, split, types};
use crate::record::sample::{CONTEXT_MAX, CONTEXT_USER, Layout};
use crate::record::{Record, SampleId};
use crate::session::{Dso, DsoId, DsoKind, Session};
use crate::symbols::SymbolOptions;
use crate::symbols::debug_image::Image;
use crate::symbols::kallsyms::Kallsyms;
use crate::symbols::shipped::{KERNEL, PackedFunctions};

/// Follows the records of a stream and writes the function tables that they need.
#[derive(Debug)]
pub(crate) struct TableWriter {
    session: Session,
    options: SymbolOptions,
    layout: Layout,
    sent: FxHashSet<DsoId>,
    kernel: bool,
}

impl TableWriter {
    /// Creates a writer for records of this layout. `session` has the processes that ran before.
    pub(crate) fn new(session: Session, options: SymbolOptions, layout: Layout) -> Self {
        Self { session, options, layout, sent: FxHashSet::default(), kernel: false }
    }

    /// Appends to `out` the tables of files in these records that were not sent yet.
    pub(crate) fn follow(&mut self, records: &[u8], out: &mut Vec<u8>) -> std::io::Result<()> {
        let mut needed: Vec<DsoId> = Vec::new();
        let mut rest = records;
        while let Ok(Some((header, body, _))) = split(rest) {
            rest = &rest[usize::from(header.size).max(8)..];
            if header.kind != types::SAMPLE {
                let time = self.layout.trailer(body).map_or(0, |id: SampleId| id.time);
                if let Ok(side) = Record::decode(header, body, false) {
                    self.session.apply(&side, time);
                }
                continue;
            }
            let Ok(sample) = self.layout.sample(header, body) else { continue };
            self.session.task(sample.pid, sample.tid);
            let mut user = header.misc & misc::CPUMODE_MASK == misc::USER;
            for ip in std::iter::once(sample.ip).chain(sample.chain()) {
                if ip >= CONTEXT_MAX {
                    user = ip == CONTEXT_USER;
                    continue;
                }
                let map = if user { self.session.user_map(sample.pid, ip) } else { self.session.kernel_map(ip) };
                let dso = self.session.dsos.of_map(map);
                if !self.sent.contains(&dso.id) && !needed.contains(&dso.id) {
                    needed.push(dso.id);
                }
            }
        }
        for id in needed {
            self.sent.insert(id);
            let dso = self.session.dsos.get(id).clone();
            self.send(&dso, out)?;
        }
        Ok(())
    }

    fn send(&mut self, dso: &Dso, out: &mut Vec<u8>) -> std::io::Result<()> {
        match dso.kind {
            DsoKind::Kernel | DsoKind::Module | DsoKind::Bpf => {
                let path = self.options.kallsyms.as_ref().filter(|_| !std::mem::replace(&mut self.kernel, true));
                let Some(Ok(known)) = path.map(|path| Kallsyms::read(path)) else { return Ok(()) };
                if known.restricted {
                    return Ok(());
                }
                let mut packed = PackedFunctions::default();
                packed.add(&known.table);
                packed.encode(KERNEL, known.text.unwrap_or(0), out)
            }
            DsoKind::File | DsoKind::Vdso => {
                let Ok(functions) = Image::open(dso, &self.options)
                    .map(|image| image.functions(&mut UnpackBudget::new(self.options.budget / 2)))
                else {
                    return Ok(());
                };
                let mut packed = PackedFunctions::default();
                functions.iter().flat_map(|functions| &functions.tables).for_each(|table| packed.add(table));
                packed.encode(&dso.path, 0, out)
            }
            _ => Ok(()),
        }
    }
}
