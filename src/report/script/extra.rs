//! The fields that only a sample's record has: data addresses, registers, branches and costs.

use std::fmt::Write;
use std::sync::Arc;

use crate::kernel::attr::{Attr, TYPE_SOFTWARE};
use crate::panel::text::clean;
use crate::record::Sample;
use crate::record::hardware::{BranchFlags, DataSource, branches, page_size};
use crate::record::rare::RareFields;
use crate::record::registers;
use crate::record::sample::UserState;
use crate::session::{DsoKind, MapId, Session};
use crate::symbols::Resolver;

use super::super::text::{register_values, row_of_bytes};
use super::{ScriptField, Shape};

pub(crate) struct RecordSample<'a> {
    pub(crate) sample: Sample<'a>,
    pub(crate) rare: RareFields<'a>,
    pub(crate) misc: u16,
    pub(crate) session: &'a Session,
    pub(crate) addresses: &'a mut Addresses,
}

/// Resolves addresses other than the sample's own.
pub(crate) struct Addresses(pub(crate) Resolver);

/// An address by its function and DSO.
struct NamedAddress {
    function: Option<(Arc<str>, u64)>,
    dso: Arc<str>,
    /// The address in the DSO.
    at: u64,
}

impl Addresses {
    fn at(&mut self, session: &Session, pid: i32, ip: u64) -> NamedAddress {
        let map = if (ip as i64) < 0 { session.kernel_map(ip) } else { session.user_map(pid, ip) };
        let dso = session.dsos.of_map(map);
        let at = session.dsos.map_of(map).to_dso(ip);
        let found = Some(map).filter(|map| *map != MapId::UNKNOWN).and_then(|_| self.0.resolve(dso, at));
        let function = found.filter(|found| found.is_symbol).map(|found| (found.name, at.wrapping_sub(found.start)));
        NamedAddress {
            function,
            dso: if dso.kind == DsoKind::Module { dso.short.clone() } else { dso.path.clone() },
            at,
        }
    }
}

impl NamedAddress {
    /// Formats `function+0x1f`, or that it is unknown.
    fn function(&self, with_offset: bool) -> String {
        match &self.function {
            Some((name, offset)) if with_offset => format!("{}+{offset:#x}", clean(name)),
            Some((name, _)) => clean(name).into_owned(),
            None => "[unknown]".to_owned(),
        }
    }
}

/// Returns whether the address of an event's samples is its subject, as for page and alignment faults.
pub(super) fn names_addr(attr: &Attr) -> bool {
    const FAULTS: [u64; 3] = [2, 5, 6];
    attr.kind == TYPE_SOFTWARE && FAULTS.contains(&attr.config)
}

impl RecordSample<'_> {
    /// Writes the fields before the code address.
    pub(super) fn before_address(&mut self, shape: &Shape, memory_width: &mut usize, out: &mut String) {
        let sample = self.sample;
        // Writing into a string cannot fail.
        if shape.set.has(ScriptField::Addr) {
            let _ = write!(out, "{:16x}", sample.addr);
            if shape.names_addr {
                self.name_of_data(shape, out);
            }
        }
        if shape.set.has(ScriptField::DataSrc) {
            let text = data_source(DataSource(sample.data_src));
            *memory_width = text.len().max(*memory_width);
            let _ = write!(out, "{:16x} {text:<width$}", sample.data_src, width = *memory_width);
        }
        if shape.set.has(ScriptField::Weight) {
            let _ = write!(out, "{:16}", sample.weight);
        }
        if shape.set.has(ScriptField::InsLat) {
            let _ = write!(out, "{:16}", sample.latency);
        }
    }

    fn name_of_data(&mut self, shape: &Shape, out: &mut String) {
        let named = self.addresses.at(self.session, self.sample.pid, self.sample.addr);
        if shape.set.has(ScriptField::Sym) {
            let _ = write!(out, " {}", named.function(shape.set.has(ScriptField::Symoff)));
        }
        if shape.set.has(ScriptField::Dso) {
            let _ = write!(out, " ({})", clean(&named.dso));
        }
    }

    /// Writes the fields after the call chain.
    pub(super) fn behind_address(&mut self, shape: &Shape, arm: bool, out: &mut String) {
        if shape.set.has(ScriptField::Iregs) {
            put_registers(&self.rare.interrupted, arm, out);
        }
        if shape.set.has(ScriptField::Uregs) {
            put_registers(&self.sample.user, arm, out);
        }
        let forms = [ScriptField::Brstack, ScriptField::Brstacksym, ScriptField::Brstackoff];
        if let Some(form) = forms.into_iter().find(|form| shape.set.has(*form)) {
            self.branches(shape, form, out);
        }
        if shape.set.has(ScriptField::BpfOutput) && !self.sample.raw.is_empty() {
            bpf_output(self.sample.raw, out);
        }
    }

    /// Writes the fields at the end of a line: the accessed page, and that of the code.
    pub(super) fn pages(&self, shape: &Shape, out: &mut String) {
        if shape.set.has(ScriptField::PhysAddr) {
            let _ = write!(out, "{:16x}", self.rare.phys_addr);
        }
        for (field, size) in [
            (ScriptField::DataPageSize, self.rare.data_page_size),
            (ScriptField::CodePageSize, self.rare.code_page_size),
        ] {
            if shape.set.has(field) {
                let _ = write!(out, " {}", page_size(size));
            }
        }
    }

    fn branches(&mut self, shape: &Shape, form: ScriptField, out: &mut String) {
        let with_dso = shape.set.has(ScriptField::Dso);
        let before = if form == ScriptField::Brstacksym { "" } else { " " };
        for branch in branches(self.sample.branches) {
            for (ip, before) in [(branch.from, before), (branch.to, "/")] {
                let named = self.addresses.at(self.session, self.sample.pid, ip);
                out.push_str(before);
                let _ = match form {
                    ScriptField::Brstack => write!(out, "{ip:#x}"),
                    ScriptField::Brstacksym => write!(out, "{}", named.function(true)),
                    _ => write!(out, "{:#x}", named.at),
                };
                if with_dso {
                    let _ = write!(out, "({})", clean(&named.dso));
                }
            }
            out.push_str(&flags(branch.flags));
        }
    }
}

/// Formats `|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A`.
fn data_source(source: DataSource) -> String {
    format!(
        "|OP {}|LVL {}|SNP {}|TLB {}|LCK {}|BLK  {}",
        source.operation(),
        source.level(),
        source.snoop(),
        source.tlb(),
        source.locked(),
        source.blocked()
    )
}

/// Formats `P` or `M`, `X`, `A`, cycles and the branch's type.
fn flags(flags: BranchFlags) -> String {
    let predicted = flags.is_mispredicted().map_or('-', |wrong| if wrong { 'M' } else { 'P' });
    let in_transaction = if flags.is_in_transaction() { 'X' } else { '-' };
    let abort = if flags.is_abort() { 'A' } else { '-' };
    let (cycles, kind) = (flags.cycles().unwrap_or(0), flags.kind().unwrap_or_default());
    format!("/{predicted}/{in_transaction}/{abort}/{cycles}/{kind} ")
}

fn put_registers(state: &UserState<'_>, arm: bool, out: &mut String) {
    if state.regs.is_empty() {
        return;
    }
    let _ = write!(out, " ABI:{} ", state.abi);
    for (place, value) in register_values(state) {
        let _ = write!(out, "{:>5}:{value:#x} ", registers::name(place, arm));
    }
}

/// Writes the output bytes of a BPF program, in rows of eight.
fn bpf_output(raw: &[u8], out: &mut String) {
    out.push('\n');
    for (row, bytes) in raw.chunks(8).enumerate() {
        let _ = write!(out, "{:>16} {:04x}:", if row == 0 { "BPF output:" } else { "" }, 8 * row);
        row_of_bytes(bytes, 8, out);
    }
    let is_text = raw.last() == Some(&0) && raw[..raw.len() - 1].iter().all(|byte| matches!(byte, b' '..=b'~'));
    if is_text {
        let _ = writeln!(out, "{:>16} \"{}\"", "BPF string:", String::from_utf8_lossy(&raw[..raw.len() - 1]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_data_and_flags_of_branches_are_told_in_words() {
        // As in perf 6.1 for a software event.
        let source = data_source(DataSource(0x1e_0508_0021));
        assert_eq!(source, "|OP N/A|LVL N/A or N/A|SNP N/A|TLB N/A|LCK N/A|BLK  N/A");
        assert_eq!([0, 1, 2].map(|word| flags(BranchFlags(word))), ["/-/-/-/0/ ", "/M/-/-/0/ ", "/P/-/-/0/ "]);
        assert_eq!(flags(BranchFlags(0b1110 | 77 << 4 | 4 << 20)), "/P/X/A/77/CALL ");
    }

    #[test]
    fn registers_are_listed_with_their_abi() {
        let regs: Vec<u8> = [1u64, 0x1f].iter().flat_map(|n| n.to_le_bytes()).collect();
        let state = UserState { abi: 2, mask: 0b1_0000_0001, regs: &regs, ..UserState::default() };
        let mut out = String::new();
        put_registers(&state, false, &mut out);
        assert_eq!(out, " ABI:2    AX:0x1    IP:0x1f ");
    }
}
