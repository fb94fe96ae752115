//! Tests of encoding and decoding build ids.

use super::*;

fn of_path(kernel: bool, path: &str, len: usize) -> IdentifiedFile {
    let id = BuildId::new(&[7; 20][..len]).expect("an id");
    IdentifiedFile { kernel, path: path.to_owned(), file: FileId::None, id }
}

#[test]
fn files_round_trip_and_damage_ends_the_list() {
    let files = [of_path(true, "[kernel.kallsyms]", 16), of_path(false, "/bin/a", 16)];
    let mut sections = sections(&files);
    assert_eq!(sections.len(), 1);
    let list = |sections: &[FeatureSection]| Features { list: sections.to_vec() }.identified_files(false);
    assert_eq!(list(&sections), files);
    let bytes = &mut sections[0].1;
    bytes.truncate(bytes.len() - 5);
    assert_eq!(list(&sections).len(), 1);
}

/// Two containers have different libraries at one path: perf's table has the first, ours both.
#[test]
fn files_of_one_path_are_told_apart() {
    let file = |inode: u64| FileId::Inode { major: 8, minor: 1, inode, generation: 3 };
    let of = |path: &str, inode: u64, id: u8| IdentifiedFile {
        kernel: false,
        path: path.to_owned(),
        file: file(inode),
        id: BuildId::new(&[id; 20]).expect("an id"),
    };
    let files = [of("/lib/a b.so", 1, 1), of("/lib/c", 2, 2), of("/lib/a b.so", 3, 3), of("/lib/c", 4, 2)];
    let sections = sections(&files);
    let read = Features { list: sections.clone() }.identified_files(false);
    let of_any = |known: &IdentifiedFile| IdentifiedFile { file: FileId::None, ..known.clone() };
    assert_eq!(read, [of_any(&files[0]), of_any(&files[1]), files[0].clone(), files[2].clone()]);
    let damaged = [&sections[1].1[..], b"8\t1\t3\t3\txy\t/lib/d\n8\t1\n"].concat();
    assert_eq!(decode(&damaged), [files[0].clone(), files[2].clone()]);
    assert_eq!(decode(b"another\n8\t1\t1\t3\t01\t/lib/d\n"), []);
}

#[test]
fn build_ids_of_either_order_and_length() {
    let record = |mode: u16, id: &[u8], len: u8, name: &[u8], big: bool| {
        let size = (8 + 4 + 24 + name.len()) as u16;
        let mut out = if big {
            [&0u32.to_be_bytes()[..], &mode.to_be_bytes(), &size.to_be_bytes()].concat()
        } else {
            [&0u32.to_le_bytes()[..], &mode.to_le_bytes(), &size.to_le_bytes()].concat()
        };
        out.extend([0xff; 4]);
        let mut bytes = id.to_vec();
        bytes.resize(24, 0);
        bytes[20] = len;
        out.extend(bytes);
        out.extend(name);
        out
    };
    let sized = 1 << 15;
    for big in [false, true] {
        let list = [
            record(misc::KERNEL | sized, &[7; 20], 16, b"[k]\0", big),
            record(misc::USER | sized, &[7; 20], 200, b"/a\0b", big),
            record(misc::GUEST_KERNEL, &[7; 20], 3, b"[g]\0", big),
            record(misc::GUEST_USER, &[7; 20], 3, b"/g\0\0", big),
        ];
        let features = Features { list: vec![(bit::BUILD_ID, list.concat())] };
        let want =
            [of_path(true, "[k]", 16), of_path(false, "/a", 20), of_path(true, "[g]", 20), of_path(false, "/g", 20)];
        assert_eq!(features.identified_files(big), want);
    }
    assert_eq!(of_record(0, &[7; 27]), None);
    // A size smaller than a header ends the list.
    let features = Features { list: vec![(bit::BUILD_ID, vec![0, 0, 0, 0, 0, 0, 7, 0, 1])] };
    assert_eq!(features.identified_files(false), []);
    let (_, bytes) = &sections(&[of_path(false, &"x".repeat(63), 16), of_path(true, &"x".repeat(64), 20)])[0];
    assert_eq!(bytes.len(), (36 + 64) + (36 + 128));
    assert_eq!((bytes[6], bytes[4], bytes[5]), (36 + 64, misc::USER as u8, 0x80));
    assert_eq!((bytes[12 + 20], &bytes[8..12]), (16, &[0xff; 4][..]));
}

/// Notes as in `readelf -n`: sizes of name and description, type, both padded to words.
#[test]
fn the_kernels_build_id_is_the_note_of_that_type() {
    let notes = std::fs::read("/sys/kernel/notes").unwrap_or_default();
    let found = memchr::memmem::find(&notes, b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0");
    let want = found.and_then(|at| BuildId::new(notes.get(at + 16..at + 36)?));
    assert_eq!(of_kernel(), want);
    let note = |kind: u32, name: &[u8], desc: &[u8]| {
        let words = [name.len() as u32, desc.len() as u32, kind].map(u32::to_le_bytes).concat();
        let mut out = [&words[..], name].concat();
        out.resize(out.len().next_multiple_of(4), 0);
        out.extend(desc);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    };
    let id = note(3, b"GNU\0", &[7; 20]);
    let others = [note(1, b"GNU\0", &[1; 16]), note(3, b"Xen\0", &[2; 7]), note(6, b"Linux\0", &[3; 9])].concat();
    assert_eq!(of_notes(&[&others[..], &id].concat()), BuildId::new(&[7; 20]));
    assert_eq!(of_notes(&others), None);
    assert_eq!(of_notes(&id[..id.len() - 1]), None);
    assert_eq!(of_notes(&[0xff; 64]), None);
}
