//! Tests of names, kinds and positions of code.

use super::*;

fn map(pid: i32, name: &str) -> Mmap<'_> {
    Mmap { pid, tid: pid, start: 0x4000, len: 0x1000, pgoff: 0x200, prot: 5, name: name.as_bytes(), ..Mmap::default() }
}

#[test]
fn names_and_kinds_as_perf_has_them() {
    let mut dsos = Dsos::default();
    for (pid, name, short, kind) in [
        (1, "/usr/lib/libc.so.6", "libc.so.6", DsoKind::File),
        (1, "/tmp/x (deleted)", "x (deleted)", DsoKind::File),
        (1, "[vdso]", "[vdso]", DsoKind::Vdso),
        (9, "//anon", "[JIT] tid 9", DsoKind::Anon),
        (-1, "[kernel.kallsyms]_text", "[kernel.kallsyms]", DsoKind::Kernel),
        (-1, "[ip_vs]", "[ip_vs]", DsoKind::Module),
        (-1, "/lib/modules/6.1/kernel/net/nf-tables.ko.xz", "[nf_tables]", DsoKind::Module),
        (-1, "bpf_prog_6deef7357e7b4530_x", "bpf_prog_6deef7357e7b4530_x", DsoKind::Bpf),
    ] {
        let id = dsos.map(&map(pid, name), None);
        let dso = dsos.of_map(id);
        assert_eq!((&*dso.short, dso.kind), (short, kind));
    }
}

#[test]
fn equal_mappings_are_one_and_offsets_are_the_files() {
    let mut dsos = Dsos::default();
    let a = dsos.map(&map(1, "/bin/a"), None);
    assert_eq!(a, dsos.map(&map(2, "/bin/a"), None));
    assert_eq!(dsos.map_of(a).to_dso(0x4010), 0x210);
    let kernel = dsos.map(&map(-1, "[kernel.kallsyms]_text"), None);
    assert_eq!(dsos.map_of(kernel).to_dso(0x4010), 0x4010);
    assert_eq!(dsos.of_map(MapId::UNKNOWN).kind, DsoKind::Unknown);
    assert_eq!(dsos.of_map(MapId::KERNEL).kind, DsoKind::Kernel);
}

#[test]
fn what_code_is_by_its_name() {
    for (kind, kernel) in [
        (DsoKind::Kernel, true),
        (DsoKind::Module, true),
        (DsoKind::Bpf, true),
        (DsoKind::File, false),
        (DsoKind::Guest, false),
        (DsoKind::Vdso, false),
        (DsoKind::Anon, false),
        (DsoKind::Unknown, false),
        (DsoKind::Cut, false),
    ] {
        assert_eq!(kind.is_kernel(), kernel, "{kind:?}");
    }
    for (pid, path, kind) in [
        (1, "bpf_x", DsoKind::Unknown),
        (-1, "/a/b.ko", DsoKind::Module),
        (1, "/a/b.ko", DsoKind::File),
        (1, "/tmp/perf-7.map", DsoKind::Anon),
        (1, "/tmp/perf-7.data", DsoKind::File),
        (1, "/var/perf-7.map", DsoKind::File),
        (1, "x", DsoKind::Unknown),
        (-1, "[vdso]", DsoKind::Vdso),
    ] {
        assert_eq!(kind_of(pid, path), kind, "{pid} {path}");
    }
    for name in [
        "",
        "//anon",
        "/dev/zero (deleted)",
        "/anon_hugepage",
        "[stack]",
        "[stack:7]",
        "/SYSV0001",
        "[heap]",
        "[anon:x]",
        "/memfd:doublemapper",
    ] {
        assert!(is_anonymous(name.as_bytes()), "{name}");
    }
    for name in ["/bin/a", "[vdso]", "anon", "/memfd:other"] {
        assert!(!is_anonymous(name.as_bytes()), "{name}");
    }
    for (path, is) in [
        ("/tmp/jit-7.dump", true),
        ("jit-7.dump", true),
        ("/tmp/jit-.dump", false),
        ("/tmp/jit-7x.dump", false),
        ("/tmp/jit-7.dumps", false),
        ("/tmp/xjit-7.dump", false),
    ] {
        assert_eq!(is_jitdump(path.as_bytes()), is, "{path}");
    }
    assert_eq!(module_name(1, "/a/b.ko"), None);
    assert_eq!(&*short_name(&"/tmp/perf-x.map".into()), "perf-x.map");
}

#[test]
fn the_kernels_addresses_are_its_own() {
    let mut dsos = Dsos::default();
    let text = Mmap { pid: -1, start: 0xffff_0000, pgoff: 0xffff_0100, ..map(-1, "[kernel.kallsyms]_text") };
    let id = dsos.map(&text, None);
    assert_eq!((dsos.map_of(id).pgoff, dsos.of_map(id).text), (0xffff_0000, Some(0xffff_0100)));
    let module = Mmap { pid: -1, start: 0xffff_8000, pgoff: 7, ..map(-1, "[m]") };
    let id = dsos.map(&module, None);
    assert_eq!((dsos.map_of(id).pgoff, dsos.of_map(id).text, dsos.of_map(id).via), (0xffff_8000, None, None));
    // A process's file has a file offset, and is accessed through the newest process that maps it.
    let id = dsos.map(&map(5, "/bin/a"), None);
    assert_eq!((dsos.map_of(id).pgoff, dsos.of_map(id).via), (0x200, Some((5, 0x4000, 0x5000))));
    dsos.map(&map(6, "/bin/a"), None);
    assert_eq!(dsos.of_map(id).via, Some((6, 0x4000, 0x5000)));
    let id = dsos.map(&map(0, "/bin/b"), None);
    assert_eq!(dsos.of_map(id).via, None);
    // Anonymous code has its address as offset, and the name of its perf map file.
    let id = dsos.map(&map(9, ""), None);
    assert_eq!((&*dsos.of_map(id).path, dsos.map_of(id).pgoff), ("/tmp/perf-9.map", 0x4000));
    let id = dsos.map(&map(0, "//anon"), None);
    assert_eq!(&*dsos.of_map(id).path, "//anon");
}

#[test]
fn memory_files_that_are_mapped_to_write_code_are_a_jits() {
    let path = |name: &'static str, prot: u32, flags: u32| {
        let mut dsos = Dsos::default();
        let id = dsos.map(&Mmap { prot, flags, ..map(9, name) }, None);
        dsos.of_map(id).path.to_string()
    };
    let [shared, private] = [libc::MAP_SHARED, libc::MAP_PRIVATE].map(|flags| flags as u32);
    let [run, write] = [libc::PROT_READ | libc::PROT_EXEC, 7].map(|prot| prot as u32);
    let memory = "/memfd:code (deleted)";
    for (name, prot, flags, is_jit) in [
        (memory, run, shared, true),
        (memory, write, private, true),
        // A program in memory, and one whose code may be written.
        (memory, run, private, false),
        ("/bin/packed", write, private, false),
        ("/tmp/code (deleted)", write, shared, true),
        ("/tmp/code (deleted)", run, shared, true),
        ("/tmp/code", write, shared, true),
        ("/dev/shm/code", run, shared, true),
        // A program that is mapped shared, and functions that `perf inject --jit` has written to files.
        ("/opt/program", run, shared, false),
        ("/tmp/jitted-9-1.so", 0o100_644, shared, false),
        ("/tmp/jitted-9-1.so", 0o100_666, shared, false),
    ] {
        assert_eq!(path(name, prot, flags), if is_jit { "/tmp/perf-9.map" } else { name }, "{name} {prot} {flags}");
    }
}

#[test]
fn generations_that_perf_invents_are_left_out() {
    let id = |generation: u64| FileId::Inode { major: 1, minor: 2, inode: 3, generation };
    for (prot, expected) in [(5, 1), (0o100_644, 0)] {
        assert_eq!(super::file_of(&Mmap { prot, file: id(1), ..map(9, "/tmp/jitted-9-1.so") }), id(expected), "{prot}");
    }
}

#[test]
fn a_jits_dump_and_its_code_find_each_other() {
    let mut dsos = Dsos::default();
    let code = dsos.map(&map(9, "//anon"), None);
    assert_eq!(dsos.of_map(code).dump, None);
    dsos.map(&map(9, "/tmp/jit-9.dump"), None);
    assert_eq!(dsos.of_map(code).dump.as_deref(), Some(&b"/tmp/jit-9.dump"[..]));
    dsos.map(&map(8, "/home/jit-8.dump"), None);
    let later = dsos.map(&map(8, "//anon"), None);
    assert_eq!(dsos.of_map(later).dump.as_deref(), Some(&b"/home/jit-8.dump"[..]));
    let file = dsos.map(&map(8, "/bin/a"), None);
    assert_eq!(dsos.of_map(file).dump, None);
    // A process of that number on another machine has neither.
    dsos.host = HostId(1);
    let other = dsos.map(&map(9, "//anon"), None);
    assert_eq!(dsos.of_map(other).dump, None);
    dsos.map(&map(9, "/srv/jit-9.dump"), None);
    assert_eq!(dsos.of_map(code).dump.as_deref(), Some(&b"/tmp/jit-9.dump"[..]));
}

#[test]
fn build_ids_of_each_machine() {
    let (one, two) = (BuildId::new(&[1; 20]).expect("id"), BuildId::new(&[2; 20]).expect("id"));
    let mut dsos = Dsos::default();
    let early = dsos.map(&map(1, "/bin/a"), None);
    let of_path = |kernel: bool, path: &str, id: BuildId| IdentifiedFile {
        kernel,
        path: path.to_owned(),
        file: FileId::None,
        id,
    };
    dsos.learn_build_id(&of_path(false, "/bin/a", one));
    dsos.learn_build_id(&of_path(false, "/bin/a", two));
    dsos.learn_build_id(&of_path(false, "[kernel.kallsyms]_text", one));
    dsos.learn_build_id(&of_path(true, "/lib/m.ko", one));
    assert_eq!(dsos.of_map(MapId::KERNEL).build_id, None);
    dsos.learn_build_id(&of_path(true, "[kernel.kallsyms]_text", two));
    assert_eq!(dsos.of_map(early).build_id, Some(one));
    assert_eq!(dsos.of_map(MapId::KERNEL).build_id, Some(two));
    let other = Mmap { file: FileId::Inode { major: 1, minor: 2, inode: 3, generation: 4 }, ..map(1, "/bin/a") };
    let late = dsos.map(&other, None);
    assert_eq!(dsos.of_map(late).build_id, Some(two), "the last one");
    let id = dsos.of_map(late).id;
    dsos.identify(id, one);
    assert_eq!(dsos.get(id).build_id, Some(two));
    let known = dsos.map(&Mmap { file: FileId::BuildId(one), ..map(1, "/bin/b") }, None);
    assert_eq!(dsos.of_map(known).build_id, Some(one));
    dsos.host = HostId(1);
    let elsewhere = dsos.map(&map(1, "/bin/a"), None);
    assert_eq!((dsos.of_map(elsewhere).build_id, dsos.of_map(elsewhere).host), (None, HostId(1)));
    let id = dsos.of_map(elsewhere).id;
    dsos.identify(id, one);
    assert_eq!(dsos.get(id).build_id, Some(one));
    assert_eq!(dsos.all().len(), 6 + 4);
}

#[test]
fn what_a_text_names_is_of_its_kind() {
    let mut dsos = Dsos::default();
    for (path, kind, short) in [
        ("/lib/modules/a-b.ko", DsoKind::Module, "[a_b]"),
        ("/srv/a-b.ko", DsoKind::File, "a-b.ko"),
        ("[vdso]", DsoKind::Vdso, "[vdso]"),
    ] {
        let dso = dsos.named(path, kind);
        assert_eq!(
            (&*dso.path, dso.kind, &*dso.short, dso.id),
            (path, kind, short, dsos.all().last().expect("one").id)
        );
    }
}

/// If processes map the same part of a file at different addresses, the first mapping represents all.
#[test]
fn processes_share_what_they_have_of_a_file() {
    let at = |pid: i32, start: u64, pgoff: u64| Mmap { start, pgoff, ..map(pid, "/bin/a") };
    let mut alone = Dsos::default();
    let [own, other] = [at(1, 0x4000, 0x200), at(2, 0x9000, 0x200)].map(|map| alone.map(&map, None));
    assert_eq!(
        (alone.shared(other, 0x9010), [own, other].map(|map| alone.is_shared(map))),
        ((other, 0x9010), [false; 2])
    );
    assert_ne!(own, other);
    let mut dsos = Dsos { share: true, ..Dsos::default() };
    let mut space = AddressSpace::default();
    let [first, second, part] =
        [at(1, 0x4000, 0x200), at(2, 0x9000, 0x200), at(2, 0xb000, 0x300)].map(|map| dsos.map(&map, Some(&space)));
    assert_eq!([first, second, part].map(|id| dsos.placed(id).map), [first, first, part]);
    assert_eq!((dsos.shared(second, 0x9010), dsos.shared(first, 0x4010)), ((first, 0x4010), (first, 0x4010)));
    assert_eq!([first, second, part].map(|map| dsos.is_shared(map)), [true, false, false]);
    // A process that already maps the part needs its own mapping; one that maps another part does not.
    space.insert(0xb000, 0xc000, part, 1);
    let third = dsos.map(&at(2, 0xd000, 0x200), Some(&space));
    assert_eq!(dsos.placed(third).map, first);
    space.insert(0xd000, 0xe000, third, 2);
    let again = dsos.map(&at(2, 0xf000, 0x200), Some(&space));
    assert_eq!(dsos.placed(again).map, again);
    // A process without a known space maps the part for the first time. Kernel and idle tasks do not share mappings.
    let new = dsos.map(&at(3, 0x1_1000, 0x200), None);
    assert_eq!(dsos.placed(new).map, first);
    for pid in [0, -1] {
        let [one, two] = [0x2_0000, 0x3_0000].map(|start| dsos.map(&at(pid, start, 0x200), None));
        assert_eq!([one, two].map(|id| dsos.placed(id).map), [one, two], "{pid}");
    }
}

#[test]
fn the_first_segment_says_nothing_of_a_files_size() {
    let mut dsos = Dsos::default();
    let mut extent = |pgoff, len| {
        let map = Mmap {
            pid: 5,
            tid: 5,
            start: 0x4000 + pgoff,
            len,
            pgoff,
            prot: 5,
            flags: 2,
            name: b"/a",
            ..Mmap::default()
        };
        let (dso, _) = dsos.of_record(&map);
        dsos.get(dso).extent
    };
    assert_eq!([extent(0, 0x9000), extent(0x1000, 0x3000), extent(0x2000, 0x1000)], [0, 0x4000, 0x4000]);
}

/// Two containers may have files of one path: a file's build id has precedence over that of the path.
#[test]
fn build_ids_of_files_of_one_path() {
    let ids = [1, 2, 3].map(|byte| BuildId::new(&[byte; 20]).expect("id"));
    let file = |inode: u64| FileId::Inode { major: 8, minor: 1, inode, generation: 0 };
    let known = |file: FileId, id: BuildId| IdentifiedFile { kernel: false, path: "/lib/a.so".to_owned(), file, id };
    let mapped = |dsos: &mut Dsos, inode: u64| {
        let map = dsos.map(&Mmap { file: file(inode), ..map(1, "/lib/a.so") }, None);
        dsos.of_map(map).build_id
    };
    let mut dsos = Dsos::default();
    assert_eq!(mapped(&mut dsos, 1), None);
    dsos.learn_build_id(&known(FileId::None, ids[0]));
    dsos.learn_build_id(&known(file(1), ids[1]));
    dsos.learn_build_id(&known(file(2), ids[2]));
    assert_eq!([1, 2, 3].map(|inode| mapped(&mut dsos, inode)), [Some(ids[1]), Some(ids[2]), Some(ids[0])]);
}
