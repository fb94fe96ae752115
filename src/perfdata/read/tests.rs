//! Tests with files of our writer, valid or with one wrong number.

use std::io::{Seek, SeekFrom, Write};

use super::*;
use crate::kernel::files::NewFile;
use crate::perfdata::features::string;
use crate::perfdata::stream::StreamWriter;
use crate::perfdata::write::Writer;

fn events() -> Vec<EventDesc> {
    let event = |name: &str, sample_type: u64, ids: &[u64]| EventDesc {
        name: name.into(),
        attr: Attr { sample_type, ..Attr::default() },
        ids: ids.to_vec(),
    };
    vec![event("one", 7, &[11, 12]), event("two", 0x107, &[21]), event("three", 1, &[])]
}

const RECORD: [u8; 16] = [3, 0, 0, 0, 0, 0, 16, 0, 1, 1, 1, 1, 1, 1, 1, 1];

fn whole() -> Vec<u8> {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("whole.data");
    let mut writer = Writer::start(NewFile::create(&path).expect("file"), &events()).expect("started");
    writer.records(&RECORD).expect("written");
    writer.records(&RECORD).expect("written");
    assert_eq!(writer.written, 32);
    let size = writer
        .finish(vec![super::super::features::event_desc(&events()), (bit::HOSTNAME, string("vm"))], &events())
        .expect("finished");
    let bytes = std::fs::read(&path).expect("read");
    assert_eq!(size, bytes.len() as u64);
    bytes
}

fn open(bytes: &[u8]) -> Result<Recording, ReadError> {
    let mut file = tempfile::tempfile().expect("file");
    file.write_all(bytes).expect("written");
    Recording::open(&file)
}

fn with(bytes: &[u8], at: usize, word: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8"))
}

#[test]
fn what_was_written_is_read() {
    let bytes = whole();
    let rec = open(&bytes).expect("opens");
    assert_eq!((rec.events.clone(), rec.big, rec.warnings.len()), (events(), false, 0));
    assert_eq!(rec.data.end - rec.data.start, 32);
    assert_eq!(bytes[rec.data.start as usize..rec.data.end as usize], [RECORD, RECORD].concat());
    assert_eq!(rec.features.text(bit::HOSTNAME, false).as_deref(), Some("vm"));
    // Ids, attrs and records follow the header without gaps, and features follow the records.
    assert_eq!((word(&bytes, 24), word(&bytes, 40)), (104 + 3 * 8, 104 + 3 * 8 + 3 * (112 + 16)));
    assert_eq!((word(&bytes, 8), word(&bytes, 16), word(&bytes, 32)), (104, 128, 3 * 128));
    assert_eq!(word(&bytes, 72), 1 << bit::EVENT_DESC | 1 << bit::HOSTNAME);
    // The table is sorted by bit.
    assert_eq!(word(&bytes, rec.data.end as usize), rec.data.end + 32);
    assert_eq!(word(&bytes, rec.data.end as usize + 8), string("vm").len() as u64);
}

#[test]
fn wrong_numbers_are_said_with_their_place() {
    let bytes = whole();
    let said = |at: usize, word: u64| open(&with(&bytes, at, word)).expect_err("refused").to_string();
    for entry in [0, MIN_SIZE as u64 + 15, 4097, u64::MAX] {
        assert!(said(16, entry).contains("description is impossible at byte 16"), "{entry}");
    }
    for size in [0, 127, 4097 * 128, u64::MAX] {
        assert!(said(32, size).contains("number of events is impossible"), "{size}");
    }
    let len = bytes.len() as u64;
    for at in [len, len - 3 * 128 + 1, u64::MAX] {
        assert!(said(24, at).contains("outside the file"), "{at}");
    }
    // The largest possible values.
    assert!(said(24, u64::MAX).contains("outside the file") && said(32, 4096 * 128).contains("outside the file"));
    let large = open(&with(&with(&bytes, 16, 4096), 32, 4096)).expect_err("refused").to_string();
    assert!(large.contains("outside the file"), "{large}");
    assert!(said(40, len + 1).contains("begins after the end of the file at byte 40"));
    // The smallest attr, as in a recording of 2009.
    let small = open(&with(&with(&bytes, 16, MIN_SIZE as u64 + 16), 32, MIN_SIZE as u64 + 16));
    assert!(!small.is_err_and(|error| error.to_string().contains("impossible at")));
    for n in 1..8 {
        assert!(open(&bytes[..n]).is_err());
    }
    assert!(matches!(open(&[]), Err(ReadError::Empty)));
    assert!(matches!(open(b"PERFFILE and more"), Err(ReadError::Version1)));
    assert!(matches!(open(b"#!/bin/sh and more"), Err(ReadError::Magic(text)) if text == "#!/bin/s"));
}

#[test]
fn what_can_be_lived_with_is_a_warning() {
    let bytes = whole();
    let data = word(&bytes, 40);
    let told = |bytes: &[u8]| {
        open(bytes).map(|rec| (rec.data.end, rec.warnings.join("; "), rec.features.list.len())).expect("opens")
    };
    let (end, words, features) = told(&with(&bytes, 48, 0));
    assert_eq!((end, features), (bytes.len() as u64, 0));
    assert!(words.contains("interrupted") && words.contains(&format!("from byte {data} ")), "{words}");
    let (end, words, features) = told(&bytes[..data as usize + 20]);
    assert_eq!((end, features), (data + 20, 0));
    assert_eq!(words, format!("the file is cut short: 12 bytes of records missing after byte {}", data + 20));
    let (end, words, _) = told(&with(&bytes, 40, bytes.len() as u64));
    assert_eq!(end, bytes.len() as u64);
    assert!(words.contains("32 bytes of records missing"), "{words}");
    // Truncated at the end of the records, within the table, and within the last feature.
    for (len, missing) in [
        (32, "table of features"),
        (32 + 31, "table of features"),
        (bytes.len() - data as usize - 1, "1 of the header's features"),
    ] {
        let (end, words, _) = told(&bytes[..data as usize + len]);
        assert!(end == data + 32 && words.contains(missing), "{words}");
    }
    let (_, words, features) = told(&with(&bytes, data as usize + 32 + 8, MAX_FEATURE + 1));
    assert!(features == 1 && words.starts_with("1 of"), "{words}");
}

#[test]
fn ids_are_taken_from_where_they_are() {
    let bytes = whole();
    let attrs = word(&bytes, 24) as usize;
    let ids = |bytes: &[u8]| open(bytes).expect("opens").events.into_iter().map(|event| event.ids).collect::<Vec<_>>();
    assert_eq!(ids(&bytes), [vec![11, 12], vec![21], vec![]]);
    // Ids missing in the header come from the events' descriptions.
    assert_eq!(ids(&with(&bytes, attrs + 112 + 8, 0)), [vec![11, 12], vec![21], vec![]]);
    assert_eq!(ids(&with(&bytes, attrs + 112, bytes.len() as u64)), [vec![11, 12], vec![21], vec![]]);
    assert_eq!(ids(&with(&bytes, attrs + 112 + 8, 8)), [vec![11], vec![21], vec![]], "the header goes before");
    let mut rec = Recording { events: events(), ..Recording::default() };
    rec.events.iter_mut().for_each(|event| (event.name, event.ids) = (String::new(), Vec::new()));
    let (bit, desc) = super::super::features::event_desc(&events()[..2]);
    rec.features.set(bit, desc[..desc.len() - 1].to_vec());
    rec.name_events();
    let got: Vec<_> = rec.events.iter().map(|event| (event.name.as_str(), event.ids.len())).collect();
    assert_eq!(got, [("one", 2), ("", 0), ("", 0)], "what is cut off names nothing");
}

#[test]
fn ids_beyond_all_measure_are_not_read() {
    let bytes = whole();
    let mut file = tempfile::tempfile().expect("file");
    file.write_all(&with(&bytes, word(&bytes, 24) as usize + 112 + 8, u64::MAX)).expect("written");
    file.set_len(16 << 20).expect("a sparse file");
    let rec = Recording::open(&file).expect("opens");
    assert_eq!(rec.events[0].ids.len() as u64, MAX_IDS);
}

#[test]
fn a_file_of_the_other_byte_order() {
    let mut out = b"2ELIFREP".to_vec();
    let attr = {
        // type, size and config, then sixteen words; the third is sample_type.
        let mut attr = vec![0u8; MIN_SIZE];
        attr[..4].copy_from_slice(&1u32.to_be_bytes());
        attr[4..8].copy_from_slice(&(MIN_SIZE as u32).to_be_bytes());
        attr[8..16].copy_from_slice(&9u64.to_be_bytes());
        attr[24..32].copy_from_slice(&7u64.to_be_bytes());
        attr
    };
    let entry = MIN_SIZE as u64 + 16;
    let data = 104 + entry + 8;
    for word in [104, entry, 104, entry, data, 16, 0, 0, 1u64 << 3, 0, 0, 0] {
        out.extend(word.to_be_bytes());
    }
    out.extend(attr);
    out.extend([(104 + entry).to_be_bytes(), 8u64.to_be_bytes(), 77u64.to_be_bytes()].concat());
    out.extend(RECORD);
    out.extend([(data + 32).to_be_bytes(), 8u64.to_be_bytes()].concat());
    out.extend([&4u32.to_be_bytes()[..], b"be\0\0"].concat());
    let rec = open(&out).expect("opens");
    let event = &rec.events[0];
    assert_eq!((rec.big, rec.data.clone(), rec.warnings.len()), (true, data..data + 16, 0));
    assert_eq!((event.attr.kind, event.attr.config, event.attr.sample_type, &event.ids[..]), (1, 9, 7, &[77][..]));
    assert_eq!(rec.features.text(bit::HOSTNAME, true).as_deref(), Some("be"));
}

#[test]
fn files_and_streams_by_their_first_bytes() {
    let stream = [&MAGIC[..], &16u64.to_le_bytes()].concat();
    let turned = [&b"2ELIFREP"[..], &16u64.to_be_bytes()].concat();
    assert!(is_stream(&stream) && is_stream(&turned) && !is_stream(&whole()));
    assert!(!is_stream(&stream[..15]) && !is_stream(&[&MAGIC[..], &17u64.to_le_bytes()].concat()));
    assert!(is_perf(&stream[..8]) && is_perf(&turned[..8]) && !is_perf(&stream[..7]) && !is_perf(b"PERFFILE"));
    assert_eq!(open(&stream).map(|rec| (rec.data, rec.big)).ok(), Some((16..u64::MAX, false)));
    assert_eq!(open(&turned).map(|rec| rec.big).ok(), Some(true));
}

#[test]
fn a_stream_is_written_as_perf_writes_it() {
    let file = tempfile::tempfile().expect("file");
    let sections = [(bit::TRACING_DATA, vec![9; 5]), (bit::HOSTNAME, string("vm"))];
    let out = Box::new(file.try_clone().expect("file"));
    let mut stream = StreamWriter::start(out, &events()[..2], &sections).expect("started");
    let head = stream.written();
    stream.records(&RECORD).expect("written");
    stream.finish_round().expect("written");
    assert_eq!(stream.written(), head + 16 + 8);
    let mut bytes = Vec::new();
    let mut file = file;
    file.seek(SeekFrom::Start(0)).expect("sought");
    std::io::Read::read_to_end(&mut file, &mut bytes).expect("read");
    let sizes = [16, 8 + 112 + 16, 8 + 112 + 8, 8 + 8 + 72, 12 + 8];
    assert_eq!((head, bytes.len()), (sizes.iter().sum::<usize>() as u64, head as usize + 24));
    assert_eq!(bytes[head as usize - 8..head as usize], [9, 9, 9, 9, 9, 0, 0, 0]);
    assert_eq!(bytes[head as usize - 20..head as usize - 8], [66, 0, 0, 0, 0, 0, 12, 0, 8, 0, 0, 0]);
    assert_eq!(bytes[head as usize..][..16], RECORD);
    assert_eq!(bytes[head as usize + 16..], [68, 0, 0, 0, 0, 0, 8, 0]);
}

#[test]
fn what_is_larger_than_a_record_may_be_is_left_out_of_a_stream() {
    let start = |len: usize| {
        let sections = [(bit::HOSTNAME, vec![1; len])];
        StreamWriter::start(Box::new(std::io::sink()), &events()[2..], &sections).expect("started")
    };
    let head = 16 + 8 + 112;
    let most = (usize::from(u16::MAX) - 8) / 8 * 8;
    assert_eq!(start(most - 8).written(), head + 8 + most as u64);
    assert_eq!(start(most - 7).written(), head);
    assert_eq!(start(9).written(), head + 8 + 8 + 16);
}

#[test]
fn rounds_are_marked_and_a_file_without_records_has_one() {
    let mark = [68, 0, 0, 0, 0, 0, 8, 0];
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("new.data");
    let start = || Writer::start(NewFile::create(&path).expect("file"), &events()).expect("started");
    let records = |bytes: &[u8]| {
        let rec = open(bytes).expect("opens");
        bytes[rec.data.start as usize..rec.data.end as usize].to_vec()
    };
    start().finish(Vec::new(), &events()).expect("finished");
    assert_eq!(records(&std::fs::read(&path).expect("read")), mark);
    let mut writer = start();
    writer.records(&RECORD).expect("written");
    writer.finish_round().expect("written");
    assert_eq!(writer.written, 16 + 8);
    // The previous file is kept next to it.
    let size = writer.finish(vec![(bit::HOSTNAME, string("vm"))], &events()).expect("finished");
    let bytes = std::fs::read(&path).expect("read");
    assert_eq!((records(&bytes), size), ([&RECORD[..], &mark].concat(), bytes.len() as u64));
    let old = std::fs::read(dir.path().join("new.data.old")).expect("read");
    assert_eq!(records(&old), mark);
}

/// Ids of events that were opened during the recording do not fit into the file's initial list.
#[test]
fn ids_that_came_later_are_listed_with_the_others() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("new.data");
    let mut writer = Writer::start(NewFile::create(&path).expect("file"), &events()).expect("started");
    writer.records(&RECORD).expect("written");
    let mut events = events();
    events[0].ids.push(13);
    events[2].ids.extend([31, 32]);
    let sections = vec![super::super::features::event_desc(&events), (bit::HOSTNAME, string("vm"))];
    let size = writer.finish(sections, &events).expect("finished");
    let bytes = std::fs::read(&path).expect("read");
    let rec = open(&bytes).expect("opens");
    assert_eq!((rec.events, size, rec.warnings.len()), (events, bytes.len() as u64, 0));
    assert_eq!(bytes[rec.data.start as usize..rec.data.end as usize], RECORD);
    assert_eq!(rec.features.text(bit::HOSTNAME, false).as_deref(), Some("vm"));
}

/// A recorder that cannot finish leaves such a file.
#[test]
fn what_was_written_so_far_can_be_kept() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("new.data");
    let mut writer = Writer::start(NewFile::create(&path).expect("file"), &events()).expect("started");
    writer.records(&RECORD).expect("written");
    let kept = writer.keep().expect("a name");
    assert!(kept.starts_with(dir.path()) && !path.exists());
    let bytes = std::fs::read(&kept).expect("read");
    let rec = open(&bytes).expect("opens");
    assert_eq!(bytes[rec.data.start as usize..rec.data.end as usize], RECORD);
    assert_eq!(rec.events.iter().map(|event| &event.ids[..]).collect::<Vec<_>>(), [&[11, 12][..], &[21], &[]]);
    drop(writer);
    assert!(kept.exists());
}
