//! Tests of names in files, in the kernel and in the memory of JITs.

use super::*;
use crate::record::kinds::FileId;
use crate::session::{Origin, Session};
use crate::symbols::ProblemKind;
use crate::symbols::jit::reuse::{CodeChange, tagged};
use crate::symbols::trust::find_file::tests::dso;
use std::sync::Arc;

#[test]
fn names_of_this_very_process() {
    let mut session = Session::new(Origin::Live);
    let pid = std::process::id() as i32;
    session.task(pid, pid);
    let mut resolver = Resolver::new(SymbolOptions::live());
    let here = names_of_this_very_process as fn() as usize as u64;
    let map = session.user_map(pid, here);
    let found = resolver.resolve(session.dsos.of_map(map), session.dsos.map_of(map).to_dso(here)).expect("name");
    assert!(found.name.contains("names_of_this_very_process"), "{found:?}");
    let raw = Resolver::new(SymbolOptions { form: NameForm::Raw, ..SymbolOptions::live() })
        .resolve(session.dsos.of_map(map), session.dsos.map_of(map).to_dso(here))
        .expect("name");
    assert!(raw.name.starts_with("_ZN") || raw.name.starts_with("_R"), "{raw:?}");
    let vdso = session.dsos.all().iter().find(|d| d.kind == DsoKind::Vdso).expect("vdso").clone();
    assert!((0..0x2000).any(|a| resolver.resolve(&vdso, a).is_some_and(|f| f.name.contains("clock_gettime"))));
}

/// In the chain of an interrupt, the interrupted address is exact, but looks like a return address.
#[test]
fn the_byte_before_an_interrupted_function_belongs_to_it() {
    use std::io::Write;
    let mut file = tempfile::NamedTempFile::new().expect("file");
    let text = "ffffffff81000000 T before\nffffffff81000030 t __pfx_spin\nffffffff81000040 T spin\n";
    file.write_all(text.as_bytes()).expect("written");
    let kallsyms = Some(file.path().to_owned());
    let mut resolver = Resolver::new(SymbolOptions { live: false, kallsyms, ..SymbolOptions::live() });
    let kernel = Dso { kind: DsoKind::Kernel, ..dso(Path::new("[kernel.kallsyms]"), FileId::None) };
    let mut name = |low: u64| resolver.resolve(&kernel, 0xffff_ffff_8100_0000 + low).map(|f| f.name.to_string());
    // A call at the end of a function that has no padding after it stays in that function.
    let names = [0x2f, 0x30, 0x3e, 0x3f, 0x40].map(|low| name(low).expect("name"));
    assert_eq!(names, ["before", "__pfx_spin", "__pfx_spin", "spin", "spin"]);
}

#[test]
fn memory_with_a_name_has_no_file() {
    for (name, said) in [("/memfd:pool (deleted)", 0), ("/[aio] (deleted)", 0), ("/none", 1)] {
        let mut resolver = Resolver::new(SymbolOptions { live: false, kallsyms: None, ..SymbolOptions::live() });
        let dso = dso(Path::new(name), FileId::None);
        assert_eq!((&*dso.raw_path, resolver.resolve(&dso, 0x10)), (name.as_bytes(), None));
        assert_eq!(resolver.take_problems().len(), said, "{}", dso.path);
    }
}

#[test]
fn code_at_a_used_address_is_told_while_its_process_runs() {
    use std::io::Write;
    let pid = std::process::id() as i32;
    let mut file = tempfile::NamedTempFile::new().expect("file");
    let mut head: Vec<u8> = [0x4a69_5444u32, 1, 40, 62, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    head.resize(40, 0);
    file.write_all(&head).expect("written");
    let dump: Arc<[u8]> = file.path().as_os_str().as_encoded_bytes().into();
    let mut load = |time: u64, name: &str| {
        let size = 16 + 40 + name.len() as u32 + 1;
        let mut record: Vec<u8> = [0, size].iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        let words = [time, 0, 0x1000, 0x1000, 0x40, 1];
        record.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
        record.extend(name.bytes().chain([0]));
        file.write_all(&record).expect("written");
    };
    load(10, "first");
    let path = format!("/tmp/perf-none-{pid}.map");
    let of = dso(Path::new(&path), FileId::None);
    let of = Dso { kind: DsoKind::Anon, via: Some((pid, 0, 0x10000)), dump: Some(dump), ..of };
    let mut resolver = Resolver::new(SymbolOptions::live());
    let name = |resolver: &mut Resolver, at| resolver.resolve(&of, at).map(|found| found.name.to_string());
    assert_eq!(name(&mut resolver, 0x1004).as_deref(), Some("first"));
    assert!(resolver.jits.follow_code() && resolver.jits.take_changes().is_empty());
    load(20, "second");
    let begun = std::time::Instant::now();
    let changes = loop {
        resolver.read_on();
        let changes = resolver.jits.take_changes();
        if !changes.is_empty() {
            break changes;
        }
        assert!(begun.elapsed().as_secs() < 60, "never");
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let change = CodeChange { time: 20, start: 0x1000, end: 0x1040, at: tagged(0x1000, 2) };
    assert_eq!(changes, [(of.id, change)]);
    let names = [0x1004, tagged(0x1004, 2)].map(|at| name(&mut resolver, at));
    assert_eq!(names, [Some("second".to_owned()), Some("second".to_owned())]);
}

#[test]
fn a_replaced_file_is_not_believed() {
    let wrong = BuildId::new(&[1; 20]).expect("id");
    let dso = dso(&std::env::current_exe().expect("path"), FileId::BuildId(wrong));
    let mut resolver = Resolver::new(SymbolOptions { live: false, kallsyms: None, ..SymbolOptions::live() });
    assert_eq!(resolver.resolve(&dso, 0x10), None);
    let problems = resolver.take_problems();
    assert!(problems.len() == 1 && problems[0].1.kind == ProblemKind::OtherBuild, "{problems:?}");
}
