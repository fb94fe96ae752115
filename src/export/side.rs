//! SideBandEvent-band history (forks, comms, mappings) as records.

use std::collections::HashSet;

use crate::record::interpreted;
use crate::record::kinds::{Mmap, encode_cgroup, encode_comm, encode_task};
use crate::record::{Layout, SampleId};
use crate::session::layouts::Layouts;
use crate::session::log::{Fork, History};
use crate::session::{DsoKind, Dsos, Placed, SideBandEvent, SideLog};

/// Writes history as records, in time order.
pub(crate) struct SideWriter<'a> {
    dsos: &'a Dsos,
    layout: Layout,
    history: History<'a>,
    /// Processes whose mappings readers know.
    known: HashSet<i32>,
    /// Whether the names of interpreted functions were written.
    is_named: bool,
    /// The address spaces of processes as written so far.
    pub(crate) layouts: Layouts<'a>,
}

impl<'a> SideWriter<'a> {
    pub(crate) fn new(dsos: &'a Dsos, log: &'a SideLog, layout: Layout) -> Self {
        Self {
            dsos,
            layout,
            history: log.in_order(),
            known: HashSet::new(),
            is_named: false,
            layouts: Layouts::new(dsos),
        }
    }

    pub(crate) fn until(&mut self, time: u64, out: &mut Vec<u8>) {
        while self.history.next_at().is_some_and(|at| at <= time) {
            let Some((at, side)) = self.history.next() else { break };
            self.layouts.follow(at, &side);
            self.write(at, &side, out);
        }
    }

    fn write(&mut self, time: u64, side: &SideBandEvent, out: &mut Vec<u8>) {
        let trailer = |pid, tid| self.layout.encode_trailer(&SampleId { pid, tid, time, id: 0, cpu: 0 });
        if !std::mem::replace(&mut self.is_named, true) {
            for dso in self.dsos.all() {
                let DsoKind::Interpreted(language) = dso.kind else { continue };
                for (at, function) in dso.functions.all() {
                    let (address, source) = (language.address_of(at), function.source.as_deref());
                    interpreted::encode_function(out, address, &function.name, source, &trailer(-1, -1));
                }
            }
        }
        match side {
            SideBandEvent::Map { pid, tid, at, prot, flags } => {
                let trailer = trailer(*pid, *tid);
                self.map(*pid, *tid, *at, *prot, *flags, &trailer, out);
            }
            SideBandEvent::Comm { pid, tid, exec, comm } => {
                encode_comm(out, *pid, *tid, *exec, comm.as_bytes(), &trailer(*pid, *tid));
            }
            SideBandEvent::Fork(fork) => {
                let Fork { task, inherited } = &**fork;
                let trailer = trailer(task.pid, task.tid);
                encode_task(out, false, task, &trailer);
                // The parent's history may have been dropped; then readers do not have mappings to inherit.
                if !self.known.contains(&task.ppid) {
                    for map in inherited.maps() {
                        self.map(task.pid, task.tid, map, 5, 2, &trailer, out);
                    }
                }
            }
            SideBandEvent::Cgroup { id, path } => {
                encode_cgroup(out, *id, path.as_bytes(), &trailer(0, 0));
            }
            SideBandEvent::Exit(task) => {
                encode_task(out, true, task, &trailer(task.pid, task.tid));
                if task.pid == task.tid {
                    // The next process with this PID is another one.
                    self.known.remove(&task.pid);
                    return;
                }
            }
            SideBandEvent::Ran { .. } => {}
        }
        self.known.insert(side.pid());
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one record")]
    fn map(&self, pid: i32, tid: i32, at: Placed, prot: u32, flags: u32, trailer: &[u8], out: &mut Vec<u8>) {
        let Placed { map, start } = at;
        let mapping = self.dsos.map_of(map);
        let dso = self.dsos.get(mapping.dso);
        let kernel_name;
        let (name, pgoff): (&[u8], u64) = match dso.kind {
            crate::session::DsoKind::Kernel => {
                kernel_name = format!("{}{}", dso.path, dso.text_symbol.as_deref().unwrap_or("_text"));
                (kernel_name.as_bytes(), start)
            }
            crate::session::DsoKind::Anon => (b"//anon", 0),
            _ => (&dso.raw_path, mapping.pgoff),
        };
        let record = Mmap { pid, tid, start, len: mapping.len, pgoff, file: dso.file, prot, flags, name };
        record.encode(out, trailer);
    }
}
