//! ELF and DWARF, perf's map files and jitdump files: with any content, names, lines, unwinding and disassembly must
//! return.

#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use perfprof_tui::record::Record;
use perfprof_tui::record::kinds::{FileId, Mmap};
use perfprof_tui::record::sample::UserState;
use perfprof_tui::session::{Origin, Session};
use perfprof_tui::symbols::jit;
use perfprof_tui::symbols::jit::functions::JitFunctions;
use perfprof_tui::symbols::jit::jitdump;
use perfprof_tui::symbols::jit::slice::VisitBudget;
use perfprof_tui::symbols::lines::Lines;
use perfprof_tui::symbols::unwind::UnwindSpace;
use perfprof_tui::symbols::{Resolver, SymbolOptions, code};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let mut file = tempfile::NamedTempFile::new().expect("file");
    file.write_all(bytes).expect("write");
    match kind % 4 {
        0 => {
            let mut told = JitFunctions::new(1 << 20);
            let _ = jit::read_map(file.as_file(), &mut 0, &mut told, &mut VisitBudget::default());
            told.find(0x1000);
        }
        1 => {
            let mut told = JitFunctions::new(1 << 20);
            let _ = jitdump::read_on(file.as_file(), &mut 0, &mut told, &mut VisitBudget::default());
            told.find(0x1000);
        }
        _ => elf(file.path().to_str().expect("path"), bytes),
    }
});

fn elf(path: &str, bytes: &[u8]) {
    let name = path.as_bytes();
    let mut session = Session::new(Origin::Recorded);
    let map = Mmap { pid: 1, tid: 1, start: 0, len: u64::MAX, pgoff: 0, file: FileId::None, prot: 5, flags: 2, name };
    session.apply(&Record::Mmap(map), 0);
    let dso = session.dsos.of_map(session.user_map(1, 0x10)).clone();
    let options = SymbolOptions { live: false, kallsyms: None, ..SymbolOptions::live() };
    let (mut resolver, mut lines) = (Resolver::new(options.clone()), Lines::new(options.clone()));
    let mut stacks = UnwindSpace::new(options.clone());
    let registers: Vec<u8> = (0..24u64).flat_map(|i| (0x1000 + 8 * i).to_le_bytes()).collect();
    for at in (0..bytes.len() as u64).step_by(bytes.len() / 8 + 1) {
        resolver.resolve(&dso, at);
        lines.places(&dso, at);
        let user = UserState { abi: 2, mask: 0xff_0fff, regs: &registers, stack: bytes, asked: bytes.len() as u64 };
        stacks.unwind(&user, &|ip| Some((&dso, ip.wrapping_add(at))), &mut Vec::new());
    }
    let _ = code::list(&dso, bytes.len() as u64 / 3, &mut resolver, &mut lines, &options);
}
