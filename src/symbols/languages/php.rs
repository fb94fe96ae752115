//! PHP 7.4 to 8.4 without thread safety: its files by their symbols, and where they keep the innermost frame.

use object::{Object, ObjectSection};

use super::interpreter_code::{InterpreterCode, dynamic_symbols};
use super::{NotWalked, ProcessMemory, RepeatedMemory, ThreadSlot, major_minor};
use crate::kernel::procfs::ProcMapping;
use crate::kernel::walk::LanguageRuntime;
use crate::kernel::walk::runtime::{InterpreterKind, RuntimeLayout};
use crate::symbols::elf::program::ElfProgram;

mod lines;

pub(super) use lines::PhpLines;

/// A file that contains PHP, with addresses as linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PhpFile {
    /// The pointer to the innermost frame.
    frame: u64,
    code: InterpreterCode,
    layout: RuntimeLayout,
    lines: PhpLines,
}

/// The position of `current_execute_data` in `executor_globals`.
const FRAME: u64 = 488;

/// Layouts of `zend_execute_data`, `zend_function` and `zend_string` (Zend/zend_compile.h, Zend/zend_types.h).
fn known(version: (u8, u8)) -> Option<RuntimeLayout> {
    let file = match version {
        (7, 4) => 136,
        (8, 0 | 1 | 3) => 144,
        (8, 2) => 152,
        (8, 4) => 168,
        _ => return None,
    };
    /// `ZEND_CALL_TOP` in the third byte of a frame's flags: C code called it.
    const TOP: u8 = 2;
    Some(RuntimeLayout {
        frame_size: 56,
        code: 24,
        next: 48,
        kind: InterpreterKind::Php,
        entry: (42, TOP, TOP),
        code_size: file + 16,
        first_line: file + 8,
        arguments: 32,
        flags: 4,
        name: 8,
        file,
        head: 8,
        ascii: 24,
        wide: 24,
        ..RuntimeLayout::default()
    })
}

impl PhpFile {
    /// Recognizes PHP by its symbols; `None` for other files. Returns its version; fails if the types of that are
    /// unknown.
    pub(super) fn of(program: &ElfProgram<'_>) -> Option<((u8, u8), Result<Self, NotWalked>)> {
        let (mut globals, mut execute, mut has_offset) = (None, None, false);
        let prefixes: &[&[u8]] = &[b"zend", b"php", b"_z", b"zif", b"_php"];
        // The linker may have merged the marker with the end of a longer name.
        let counts = dynamic_symbols(program, b"execute_ex\0", prefixes, |name, address, size| match name {
            b"executor_globals" if size > FRAME => globals = Some(address),
            b"executor_globals_offset" => has_offset = true,
            b"execute_ex" if size > 0 => execute = Some((address, size)),
            _ => {}
        })?;
        let (globals, execute) = (place(globals, has_offset)?, execute?);
        let version = version(program.elf.as_ref()?.section_by_name(".rodata")?.data().ok()?)?;
        let globals = match globals {
            Ok(globals) => globals,
            Err(why) => return Some((version, Err(why))),
        };
        let Some((layout, (operations, list))) = known(version).zip(lines::known(version)) else {
            return Some((version, Err(NotWalked::Version)));
        };
        let lines = PhpLines { layout, operations, list };
        let code = InterpreterCode::of(program, [execute, (0, 0)], counts.own * 2 >= counts.all)?;
        Some((version, Ok(Self { frame: globals.checked_add(FRAME)?, code, layout, lines })))
    }

    pub(super) fn bias(&self, map: &ProcMapping) -> Option<u64> {
        self.code.bias(map)
    }

    pub(super) fn slot(&self, bias: u64, memory: &impl ProcessMemory) -> Result<ThreadSlot, NotWalked> {
        let frame = memory.word(bias.wrapping_add(self.frame)).ok_or(NotWalked::Unreadable)?;
        if frame % 8 == 0 { Ok(ThreadSlot::default()) } else { Err(NotWalked::NotFound) }
    }

    /// Returns how the lines of functions are found.
    pub(super) fn lines(&self) -> PhpLines {
        self.lines
    }

    /// Returns where all code of PHP is, with that which its JIT writes: start and length. `None` if the JIT is off, has no
    /// shared memory yet, or if other code lies between.
    pub(super) fn text_with_jit(&self, bias: u64, maps: &[ProcMapping]) -> Option<(u64, u64)> {
        const EXEC: u32 = libc::PROT_EXEC as u32;
        let own = self.code.text.0.wrapping_add(bias);
        let own = (own, own.checked_add(self.code.text.1)?);
        let is_code = |map: &&ProcMapping| map.prot & EXEC != 0;
        let jit = maps.iter().filter(is_code).find(|map| map.name.starts_with(b"/dev/zero"))?;
        let (start, end) = (own.0.min(jit.start), own.1.max(jit.end));
        let is_in = |map: &ProcMapping, (start, end): (u64, u64)| map.start < end && start < map.end;
        let is_other = |map: &ProcMapping| is_in(map, (start, end)) && !is_in(map, own) && map != jit;
        (!maps.iter().filter(is_code).any(is_other)).then_some((start, end - start))
    }

    pub(super) fn runtime(&self, bias: u64, id: u32) -> LanguageRuntime {
        let global = self.frame.wrapping_add(bias);
        LanguageRuntime { global, ..self.code.runtime(bias, ThreadSlot::default(), id, self.layout) }
    }
}

/// Returns where the globals are. With thread safety each thread has its own, at an offset that is a variable; `None` if
/// there is neither.
fn place(globals: Option<u64>, has_offset: bool) -> Option<Result<u64, NotWalked>> {
    globals.map(Ok).or(has_offset.then_some(Err(NotWalked::ThreadSafe)))
}

/// Reads the lines of a function in memory that has these bytes.
pub(super) fn read_untrusted(bytes: &[u8]) {
    if let Some((layout, (operations, list))) = known((8, 2)).zip(lines::known((8, 2))) {
        PhpLines { layout, operations, list }.read_untrusted(&RepeatedMemory(bytes));
    }
}

/// Returns the version in the header that PHP adds to responses.
fn version(rodata: &[u8]) -> Option<(u8, u8)> {
    const HEADER: &[u8] = b"X-Powered-By: PHP/";
    let rest = rodata.get(memchr::memmem::find(rodata, HEADER)? + HEADER.len()..)?;
    major_minor(&rest[..rest.len().min(8)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::bytes::Bytes;

    #[test]
    fn a_build_with_thread_safety_is_named() {
        assert_eq!(place(Some(7), false), Some(Ok(7)));
        assert_eq!(place(None, true), Some(Err(NotWalked::ThreadSafe)));
        assert_eq!(place(None, false), None);
    }

    #[test]
    fn versions_are_those_of_the_response_header() {
        assert_eq!(version(b"..X-Powered-By: PHP/8.2.36\0..."), Some((8, 2)));
        assert_eq!(version(b"X-Powered-By: PHP/8.10.1"), Some((8, 10)));
        for other in [&b"X-Powered-By: PHP/"[..], b"X-Powered-By: PHP/8", b"X-Powered-By: PHP/%s.%s.", b"PHP/8.2.1"] {
            assert_eq!(version(other), None);
        }
        assert_eq!([(7, 4), (8, 4)].map(|version| known(version).map(|layout| layout.file)), [Some(136), Some(168)]);
        assert_eq!([(7, 3), (8, 5), (9, 0)].map(known), [None; 3]);
    }

    /// The PHP of this machine, if it has one.
    #[test]
    fn the_program_of_this_machine_is_recognized() {
        let Ok(bytes) = std::fs::read("/usr/bin/php").map(Bytes::from) else { return };
        let (version, found) = PhpFile::of(&ElfProgram::of(&bytes).expect("a program")).expect("it is PHP");
        assert_eq!(found.err(), known(version).is_none().then_some(NotWalked::Version));
    }

    struct Word(u64, u64);

    impl ProcessMemory for Word {
        fn read(&self, at: u64, to: &mut [u8]) -> Option<()> {
            (at == self.0).then(|| to.copy_from_slice(&self.1.to_le_bytes()[..to.len()]))
        }
    }

    fn file() -> PhpFile {
        let layout = known((8, 2)).expect("known");
        let code = InterpreterCode { loops: [(0x100, 0x80), (0, 0)], offset: 0x100, text: (0x100, 0x80) };
        PhpFile { frame: 0x1000, code, layout, lines: PhpLines { layout, operations: 80, list: 88 } }
    }

    #[test]
    fn code_of_the_jit_is_phps_own_if_no_other_lies_between() {
        let map = |line: &str| crate::kernel::procfs::parse_maps_line(line.as_bytes()).expect("a line");
        let php = map("505000-506000 r-xp 00000000 08:01 7 /usr/bin/php");
        let jit = map("400000-480000 r-xs 08000000 00:01 9 /dev/zero (deleted)");
        let text = |maps: &[&ProcMapping]| {
            let maps: Vec<ProcMapping> = maps.iter().map(|map| (*map).clone()).collect();
            file().text_with_jit(0x50_5000, &maps)
        };
        let both = Some((0x40_0000, 0x50_5180 - 0x40_0000));
        assert_eq!(text(&[&php, &jit]), both);
        let later = map("600000-680000 r-xs 08000000 00:01 9 /dev/zero (deleted)");
        assert_eq!(text(&[&php, &later]), Some((0x50_5100, 0x68_0000 - 0x50_5100)));
        let other = map("490000-491000 r-xp 00000000 08:01 8 /lib/x.so");
        let outside = map("700000-701000 r-xp 00000000 08:01 8 /lib/x.so");
        assert_eq!(text(&[&php, &jit, &other]), None);
        assert_eq!(text(&[&php, &jit, &outside]), both);
        let being_written = map("400000-480000 rw-s 08000000 00:01 9 /dev/zero (deleted)");
        assert_eq!([text(&[&php]), text(&[&php, &being_written])], [None; 2]);
    }

    #[test]
    fn a_process_must_be_readable() {
        let file = file();
        assert_eq!(file.slot(0x5000, &Word(0x6000, 0)), Ok(ThreadSlot::default()));
        assert_eq!(file.slot(0x5000, &Word(0x6000, 0x7ff8)), Ok(ThreadSlot::default()));
        assert_eq!(file.slot(0x5000, &Word(0x6000, 0x7ff1)), Err(NotWalked::NotFound));
        assert_eq!(file.slot(0x5000, &Word(0, 0)), Err(NotWalked::Unreadable));
        let runtime = file.runtime(0x5000, 17);
        assert_eq!((runtime.global, runtime.loops[0], runtime.id), (0x6000, (0x5100, 0x80), 17));
    }
}
