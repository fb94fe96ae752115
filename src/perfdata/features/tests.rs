//! Tests of encoding and decoding features.

use super::*;

#[test]
fn strings_round_trip_and_bad_lengths_do_not() {
    let bytes = string("x86_64");
    assert_eq!(bytes.len(), 68);
    assert_eq!(ByteReader::new(&bytes, false).string().as_deref(), Some("x86_64"));
    assert_eq!(ByteReader::new(&[255, 255, 255, 255, 1], false).string(), None);
    assert_eq!(ByteReader::new(&[1], false).string(), None);
}

#[test]
fn the_machine_is_described() {
    let sections = machine(&["perfprof-tui".into()]);
    assert!(sections.iter().all(|(_, bytes)| !bytes.is_empty()));
}

#[test]
fn the_architecture_is_named_or_has_an_elf_number() {
    let mut features = Features::default();
    assert_eq!(features.arch(false), None);
    features.set(bit::E_MACHINE, [183_u32.to_be_bytes(), [0; 4]].concat());
    assert_eq!((features.arch(true).as_deref(), features.arch(false)), (Some("aarch64"), None));
    for (number, big, name) in
        [(21_u32, false, "ppc64le"), (21, true, "ppc64"), (22, true, "s390x"), (258, false, "loongarch64")]
    {
        let bytes = if big { number.to_be_bytes() } else { number.to_le_bytes() };
        features.set(bit::E_MACHINE, bytes.to_vec());
        assert_eq!(features.arch(big).as_deref(), Some(name));
    }
    features.set(bit::ARCH, string("x86_64"));
    assert_eq!(features.arch(false).as_deref(), Some("x86_64"));
}

#[test]
fn a_feature_is_there_once_and_read_in_its_order() {
    let mut features = Features::default();
    assert_eq!(features.text(bit::HOSTNAME, false), None);
    features.set(bit::HOSTNAME, string("one"));
    features.set(bit::ARCH, string("x86_64"));
    features.set(bit::HOSTNAME, string("two"));
    assert_eq!(features.list.iter().map(|(bit, _)| *bit).collect::<Vec<_>>(), [bit::ARCH, bit::HOSTNAME]);
    assert_eq!(features.text(bit::HOSTNAME, false).as_deref(), Some("two"));
    assert_eq!(features.get(bit::OSRELEASE), None);
    assert_eq!(string(&"x".repeat(63)).len(), 4 + 64);
    assert_eq!(string(&"x".repeat(64)).len(), 4 + 128);
    assert_eq!(string("")[..5], [64, 0, 0, 0, 0]);
}

#[test]
fn what_is_carried_into_another_file_is_in_our_order() {
    let mut features = Features::default();
    let bits = [
        bit::HOSTNAME,
        18,
        bit::NRCPUS,
        bit::EVENT_DESC,
        bit::SAMPLE_TIME,
        19,
        bit::TOTAL_MEM,
        24,
        27,
        13,
        bit::TRACING_DATA,
    ];
    for bit in bits {
        let bytes = match bit {
            bit::HOSTNAME => [&4u32.to_be_bytes()[..], b"vm\0\0"].concat(),
            bit::NRCPUS => [7u32.to_be_bytes(), 5u32.to_be_bytes()].concat(),
            bit::TOTAL_MEM => 99u64.to_be_bytes().to_vec(),
            _ => vec![bit; 8],
        };
        features.set(bit, bytes);
    }
    let kept: Vec<u8> = features.carried(false).iter().map(|(bit, _)| *bit).collect();
    assert_eq!(kept, [bit::HOSTNAME, bit::NRCPUS, bit::TOTAL_MEM, 13, bit::TRACING_DATA]);
    let turned = features.carried(true);
    let want = [
        (bit::HOSTNAME, string("vm")),
        (bit::NRCPUS, vec![7, 0, 0, 0, 5, 0, 0, 0]),
        (bit::TOTAL_MEM, vec![99, 0, 0, 0, 0, 0, 0, 0]),
        (bit::TRACING_DATA, vec![bit::TRACING_DATA; 8]),
    ];
    assert_eq!(turned, want);
}

#[test]
fn sections_byte_by_byte() {
    assert_eq!(sample_time(1, 2), (bit::SAMPLE_TIME, vec![1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]));
    let clock = clock();
    assert_eq!(clock[0], (bit::CLOCKID, vec![1, 0, 0, 0, 0, 0, 0, 0]));
    let mut data = ByteReader::new(&clock[1].1, false);
    assert_eq!((clock[1].0, data.u32(), data.u32()), (bit::CLOCK_DATA, Some(1), Some(libc::CLOCK_MONOTONIC as u32)));
    // After 2020, and since boot.
    assert!(data.u64().is_some_and(|wall| wall > 1_577_836_800_000_000_000));
    assert!(data.u64().is_some_and(|now| now > 0 && now <= kernel::monotonic_ns()) && data.rest.is_empty());
    let event = |name: &str, ids: &[u64]| EventDesc { name: name.into(), attr: Default::default(), ids: ids.to_vec() };
    let (bit, bytes) = event_desc(&[event("a", &[5]), event("b", &[6, 7])]);
    let mut rest = ByteReader::new(&bytes, false);
    let size = crate::kernel::attr::FILE_SIZE;
    assert_eq!((bit, rest.u32(), rest.u32()), (bit::EVENT_DESC, Some(2), Some(size as u32)));
    for (name, ids) in [("a", &[5u64][..]), ("b", &[6, 7])] {
        rest.take(size).expect("an attr");
        assert_eq!((rest.u32(), rest.string().as_deref()), (Some(ids.len() as u32), Some(name)));
        ids.iter().for_each(|id| assert_eq!(rest.u64(), Some(*id)));
    }
    assert!(rest.rest.is_empty());
}

/// Facts of the machine, compared with other sources of the kernel.
#[test]
fn the_machine_by_other_sources() {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let sections = Features { list: machine(&["perfprof-tui".into(), "record".into()]) };
    let text = |bit| sections.text(bit, false).unwrap_or_default();
    assert_eq!(text(bit::HOSTNAME), read("/proc/sys/kernel/hostname").trim());
    assert_eq!(text(bit::OSRELEASE), read("/proc/sys/kernel/osrelease").trim());
    assert!(text(bit::VERSION).starts_with("perfprof-tui ") && text(bit::ARCH).contains(std::env::consts::ARCH));
    let mut args = ByteReader::new(sections.get(bit::CMDLINE).expect("args"), false);
    assert_eq!(
        (args.u32(), args.string().as_deref(), args.string().as_deref()),
        (Some(2), Some("perfprof-tui"), Some("record"))
    );
    let mut cpus = ByteReader::new(sections.get(bit::NRCPUS).expect("cpus"), false);
    let (possible, online) = (cpus.u32().expect("possible"), cpus.u32().expect("online"));
    assert!(online >= 1 && possible >= online);
    assert_eq!(possible as usize, crate::kernel::cpus::possible());
    let kib = ByteReader::new(sections.get(bit::TOTAL_MEM).expect("memory"), false).u64().expect("KiB");
    assert!(read("/proc/meminfo").contains(&format!("MemTotal: {kib:>14} kB\n")), "{kib}");
    let cpuinfo = read("/proc/cpuinfo");
    if cfg!(target_arch = "x86_64") {
        assert!(cpuinfo.contains(&format!("model name\t: {}\n", text(bit::CPUDESC))), "{}", text(bit::CPUDESC));
        let (vendor, rest) = text(bit::CPUID).split_once(',').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("four");
        assert!(
            cpuinfo.contains(&format!("vendor_id\t: {vendor}\n")) && rest.split(',').count() == 3,
            "{vendor},{rest}"
        );
    }
}

#[test]
fn groups_have_their_leader_and_number() {
    assert_eq!(group_desc(&[]), None);
    let (section, bytes) = group_desc(&[1..3, 5..8]).expect("groups");
    let groups = ByteReader::new(&bytes, false).list(|b| Some((b.string()?, b.u32()?, b.u32()?)));
    let anonymous = |leader, members| ("{anon_group}".to_owned(), leader, members);
    assert_eq!((section, groups), (bit::GROUP_DESC, Some(vec![anonymous(1, 2), anonymous(5, 3)])));
}
