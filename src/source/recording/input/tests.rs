//! Tests of streams written by hand: the records that are read, and the notes about the rest.

use super::*;

use std::io::{Cursor, Read};

use crate::kernel::attr::Attr;
use crate::perfdata::features::bit;
use crate::perfdata::{EventDesc, MAX_EVENTS};
use crate::record::kinds::BuildId;
use crate::source::recording::RecordingSource;

const AT: u64 = 1000;

fn record(kind: u32, misc: u16, size: u16) -> Vec<u8> {
    let mut out = [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes()].concat();
    out.resize(usize::from(size).max(HEADER), 7);
    out
}

fn with_body(kind: u32, body: &[u8]) -> Vec<u8> {
    crate::record::kinds::tests::record(kind, 0, body)
}

/// Returns a record that is always plausible, with an identifying number.
fn comm(number: u8) -> Vec<u8> {
    with_body(types::COMM, &[number; 8])
}

fn comms(numbers: std::ops::Range<u8>) -> Vec<u8> {
    numbers.flat_map(comm).collect()
}

const JUNK: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 8, 0];

/// Returns an input over bytes, which come in pieces of limited size.
fn input_in(bytes: Vec<u8>, rec: Recording) -> Input {
    let stream: Box<dyn Read + Send> = Box::new(Cursor::new(bytes));
    Input::new(rec, ByteSource::Stream { stream, at: AT, failed: None })
}

fn drain(input: &mut Input) -> (Vec<u8>, SideData) {
    let (mut out, mut beside) = (Vec::new(), SideData::default());
    for _ in 0..10_000 {
        let mut some = Vec::new();
        match input.next(&mut some, &mut beside) {
            FillOutcome::End => return (out, beside),
            _ => out.extend(some),
        }
    }
    panic!("it does not end");
}

fn read(parts: &[&[u8]]) -> (Vec<u8>, Vec<String>) {
    let (out, beside) = drain(&mut input_in(parts.concat(), Recording::default()));
    (out, beside.notes)
}

fn numbers_of(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(16).map(|record| record[8]).collect()
}

fn stepped_over(at: u64, bytes: u64) -> String {
    format!("damaged at byte {at}: skipped {} that are not readable", counted(bytes, "byte"))
}

#[test]
fn four_records_in_a_row_prove_that_damage_is_over() {
    // Three records are not enough as proof; four are. At the end of the file, fewer suffice.
    let parts = [&comms(0..2)[..], &JUNK, &comms(2..5), &JUNK, &comms(5..9), &JUNK, &comms(9..11)];
    let (out, notes) = read(&parts);
    assert_eq!(numbers_of(&out), [0, 1, 5, 6, 7, 8, 9, 10]);
    assert_eq!(notes, [stepped_over(AT + 32, 8 + 48 + 8), stepped_over(AT + 32 + 64 + 64, 8)]);
    // The remaining records must end with the file.
    let (out, notes) = read(&[&comms(0..1), &JUNK, &comms(1..3), &[1, 2, 3]]);
    assert_eq!(
        (numbers_of(&out), notes),
        (vec![0], vec![format!("damaged at byte {}: nothing after it is readable", AT + 16)])
    );
}

#[test]
fn what_is_taken_for_a_record_after_damage() {
    let long = 8 * 5;
    for (first, believed) in [
        (record(types::COMM, 5, 16), true),
        (record(types::COMM, 8 | 2, 16), true),
        (record(types::COMM, 6, 16), false),
        (record(types::COMM, 7, 16), false),
        (record(types::COMM, 0, 8), true),
        (record(types::COMM, 0, 0), false),
        (record(types::COMM, 0, 7), false),
        (record(types::COMM, 0, 20), false),
        (record(63, 0, 16), false),
        (record(types::FINISHED_ROUND, 0, 8), true),
        // Its size exceeds the remaining bytes.
        (record(types::COMM, 0, 16 + 4 * 16 + 8)[..16].to_vec(), false),
        (record(types::COMM, 0, long)[..].to_vec(), true),
        // Payloads of perf's own records follow them; their sizes need not be multiples of 8.
        ([&record(types::HEADER_TRACING_DATA, 0, 12)[..8], &[0; 4]].concat(), true),
    ] {
        let padding = first.len().next_multiple_of(4) - first.len();
        let (out, notes) = read(&[&comms(0..1), &JUNK, &first, &vec![0; padding], &comms(1..5)]);
        let skipped = 8 + if believed { 0 } else { first.len() + padding } as u64;
        // Other records would follow at an offset that is not a multiple of 8.
        if believed || (first.len() + padding) % 8 == 0 {
            assert_eq!(notes, [stepped_over(AT + 16, skipped)], "{first:?}");
            assert!(out.ends_with(&comms(1..5)), "{first:?}");
        }
    }
}

#[test]
fn damage_is_searched_from_piece_to_piece() {
    // Each run is completed by bytes that the first piece lacks; it starts within the kept part of that piece.
    let junk = JUNK.repeat((PIECE - (64 << 10)) / 8);
    let large = |number: u8| with_body(types::COMM, &[number; 39_992]);
    let run: Vec<u8> = (1..6).flat_map(large).collect();
    let (out, notes) = read(&[&junk, &run]);
    assert!(out == run, "{} of {}", out.len(), run.len());
    assert_eq!(notes, [stepped_over(AT, junk.len() as u64)]);
    // If no plausible record follows, the note has the start of the damage.
    let (out, notes) = read(&[&comms(0..1), &JUNK.repeat(PIECE / 4)]);
    assert_eq!(
        (numbers_of(&out), notes),
        (vec![0], vec![format!("damaged at byte {}: nothing after it is readable", AT + 16)])
    );
}

#[test]
fn a_size_that_leads_outside_the_file_is_a_cut_or_damage() {
    let outside = record(types::COMM, 0, 4096)[..24].to_vec();
    // Records follow, so the size is damaged.
    let (out, notes) = read(&[&comms(0..1), &outside, &comms(1..5)]);
    assert_eq!((numbers_of(&out), notes), (vec![0, 1, 2, 3, 4], vec![stepped_over(AT + 16, 24)]));
    // No records follow, so the file is truncated.
    let early = |at: u64| vec![format!("cut short at byte {at}: the last record is incomplete")];
    for rest in [1, 7, 8, 15, 16, 17, 24] {
        let (out, notes) = read(&[&comms(0..2), &outside[..rest]]);
        assert_eq!((numbers_of(&out), notes), (vec![0, 1], early(AT + 32)), "{rest}");
    }
    // A record that ends with the file is whole.
    assert_eq!(read(&[&comms(0..2)]), (comms(0..2), vec![]));
    assert_eq!(read(&[]), (vec![], vec![]));
}

#[test]
fn sizes_below_a_header_and_types_above_all_are_damage() {
    for bad in [record(types::COMM, 0, 7), record(types::COMM, 0, 0), record(257, 0, 8)] {
        let (out, notes) = read(&[&comms(0..1), &bad, &comms(1..5)]);
        assert_eq!((numbers_of(&out), notes), (vec![0, 1, 2, 3, 4], vec![stepped_over(AT + 16, 8)]));
    }
    // A record of an unknown type is delivered; its decoder reports it.
    let (out, notes) = read(&[&record(256, 0, 8), &comms(1..2)]);
    assert_eq!((out.len(), notes.len()), (24, 0));
}

#[test]
fn payloads_behind_records_are_stepped_over() {
    let trace = with_body(types::AUXTRACE, &[&3000u64.to_le_bytes()[..], &[0; 32]].concat());
    let (out, notes) = read(&[&comms(0..1), &trace, &[0xff; 3000], &comms(1..3)]);
    assert_eq!((numbers_of(&out), notes), (vec![0, 1, 2], vec![]));
    let (out, notes) = read(&[&comms(0..1), &trace, &[0xff; 2000]]);
    let missing = format!("cut short at byte {}: 1,000 bytes missing", AT + 16 + 48 + 2000);
    assert_eq!((numbers_of(&out), notes), (vec![0], vec![missing]));
}

/// In a file, payloads are skipped, up to the end of the records.
#[test]
fn payloads_in_a_file_are_not_read() {
    let of = |payload: u64, there: u64, after: &[u8]| {
        let trace = with_body(types::AUXTRACE, &payload.to_le_bytes());
        let file = tempfile::tempfile().expect("file");
        use std::os::unix::fs::FileExt;
        file.write_all_at(&trace, 0).expect("written");
        file.write_all_at(after, 16 + there).expect("written");
        let end = 16 + there + after.len() as u64;
        file.set_len(end).expect("sized");
        let mut input = Input::new(Recording::default(), ByteSource::File { file, at: 0, end });
        let (out, beside) = drain(&mut input);
        (numbers_of(&out), beside.notes, input.progress())
    };
    const FAR: u64 = 1 << 40;
    assert_eq!(of(FAR, FAR, &comms(1..3)), (vec![1, 2], vec![], (16 + FAR + 32, 16 + FAR + 32)));
    let missing = vec![format!("cut short at byte {}: {} missing", 16 + 5000, counted(FAR - 5000, "byte"))];
    assert_eq!(of(FAR, 5000, &[]), (vec![], missing, (16 + 5000, 16 + 5000)));
}

#[test]
fn tracing_data_follows_its_record_in_whole_words() {
    let announced = with_body(types::HEADER_TRACING_DATA, &5u32.to_le_bytes());
    let mut input = input_in([&announced[..], &[9; 8], &comms(1..2)].concat(), Recording::default());
    let (out, beside) = drain(&mut input);
    assert_eq!((numbers_of(&out), beside.notes), (vec![1], vec![]));
    assert_eq!(input.rec.features.get(bit::TRACING_DATA), Some(&[9; 8][..]));
    let (_, notes) = read(&[&announced, &[9; 7]]);
    assert_eq!(notes, [format!("cut short at byte {AT}: the tracing data is incomplete")]);
}

#[test]
fn records_beside_the_profile_are_taken_in() {
    let attr = Attr { kind: 1, sample_type: 0x107, ..Attr::default() };
    let event = |ids: &[u64]| {
        let ids: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        with_body(types::HEADER_ATTR, &[&attr.encode()[..], &ids].concat())
    };
    let feature = |bit: u64, bytes: &[u8]| with_body(types::HEADER_FEATURE, &[&bit.to_le_bytes()[..], bytes].concat());
    let named = |kind: u64, id: u64, name: &[u8]| {
        with_body(types::EVENT_UPDATE, &[&kind.to_le_bytes()[..], &id.to_le_bytes(), name].concat())
    };
    let id = with_body(types::HEADER_BUILD_ID, &[&[0xff; 4][..], &[5; 20], &[0; 4], b"/bin/a\0\0"].concat());
    let bytes = [
        event(&[11, 12]),
        event(&[13]),
        // Two is the type of a name (PERF_EVENT_UPDATE__NAME).
        named(2, 12, b"first\0\0\0"),
        named(1, 13, b"unit\0\0\0\0"),
        feature(3, b"a host\0\0"),
        feature(256, b"nothing\0"),
        feature(4, b""),
        // Our feature, as an event update that perf skips.
        named(bit::UPDATE | 252, 0, b"recorder"),
        id,
        comm(1),
    ]
    .concat();
    let mut input = input_in(bytes, Recording::default());
    let mut beside = SideData::default();
    input.head(&mut beside).expect("read");
    let events: Vec<_> =
        input.rec.events.iter().map(|e| (e.name.as_str(), e.ids.clone(), e.attr.sample_type)).collect();
    assert_eq!(events, [("first", vec![11, 12], 0x107), ("", vec![13], 0x107)]);
    assert_eq!(input.rec.features.list, [(3, b"a host\0\0".to_vec()), (252, b"recorder".to_vec())]);
    let known = beside.build_ids.iter().map(|file| (file.kernel, &*file.path, file.id)).collect::<Vec<_>>();
    assert_eq!(known, [(false, "/bin/a", BuildId::new(&[5; 20]).expect("an id"))]);
    assert_eq!(numbers_of(&drain(&mut input).0), [1], "what is no longer of the head");
}

#[test]
fn what_comes_before_any_event_is_none_of_ours() {
    let attr = with_body(types::HEADER_ATTR, &Attr { sample_type: 7, ..Attr::default() }.encode());
    let mut input = input_in([&comms(0..3)[..], &attr, &comms(3..5)].concat(), Recording::default());
    input.head(&mut SideData::default()).expect("read");
    assert_eq!((input.rec.events.len(), numbers_of(&drain(&mut input).0)), (1, vec![3, 4]));
    // A sample ends the header, even before a description of its event.
    let sample = with_body(types::SAMPLE, &[8; 8]);
    let mut input = input_in([&sample[..], &comms(1..2)].concat(), Recording::default());
    input.head(&mut SideData::default()).expect("read");
    assert_eq!(numbers_of(&drain(&mut input).0), [8, 1]);
}

fn compressed(plain: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(plain, 1).expect("packed")
}

#[test]
fn compressed_records_are_unpacked_wherever_they_are_cut() {
    let packed = compressed(&comms(1..5));
    let (a, b) = packed.split_at(packed.len() / 2);
    let (out, notes) =
        read(&[&comms(0..1), &with_body(types::COMPRESSED, a), &with_body(types::COMPRESSED, b), &comms(5..6)]);
    assert_eq!((numbers_of(&out), notes), (vec![0, 1, 2, 3, 4, 5], vec![]));
    // The newer record has the size of its data, and padding.
    let newer = [&(packed.len() as u64).to_le_bytes()[..], &packed, &[0xee; 5]].concat();
    let (out, notes) = read(&[&with_body(types::COMPRESSED2, &newer), &comms(5..6)]);
    assert_eq!((numbers_of(&out), notes), (vec![1, 2, 3, 4, 5], vec![]));
    // A record that continues in the next frame is completed by it.
    let whole = comms(1..3);
    let parts = [compressed(&whole[..20]), compressed(&whole[20..])].map(|part| with_body(types::COMPRESSED, &part));
    assert_eq!(read(&[&parts.concat()]), (whole.clone(), vec![]));
    let (out, notes) = read(&[&parts[0]]);
    assert_eq!(
        (numbers_of(&out), notes),
        (vec![1], vec!["cut short: the last compressed record is incomplete".to_owned()])
    );
}

#[test]
fn a_record_that_becomes_much_comes_step_by_step() {
    let packed = compressed(&comm(3).repeat(4 << 20));
    assert!(packed.len() < 1 << 15);
    let attr = with_body(types::HEADER_ATTR, &Attr { sample_type: 7, ..Attr::default() }.encode());
    let stream = [attr, with_body(types::COMPRESSED, &packed), comm(4)].concat();
    let (mut input, mut beside) = (input_in(stream, Recording::default()), SideData::default());
    input.head(&mut beside).expect("read");
    let (mut all, mut most, mut last) = (0, 0, Vec::new());
    for _ in 0..1000 {
        let mut some = Vec::new();
        if input.next(&mut some, &mut beside) == FillOutcome::End {
            break;
        }
        (all, most) = (all + some.len(), most.max(some.len()));
        last = some;
    }
    assert_eq!((all, numbers_of(&last[last.len() - 16..])), (16 * ((4 << 20) + 1), vec![4]));
    assert!(most < 4 << 20, "{most}");
}

#[test]
fn damaged_compression_is_said_once_and_what_is_plain_is_read() {
    let bad = with_body(types::COMPRESSED, &[1; 24]);
    let (out, notes) = read(&[&comms(0..1), &bad, &bad, &comms(1..2)]);
    assert_eq!(numbers_of(&out), [0, 1]);
    let begins = format!("damaged at byte {}: the compressed data cannot be read on from there", AT + 16);
    assert!(notes.len() == 1 && notes[0].starts_with(&begins), "{notes:?}");
}

/// Events with ip, tid and time: the time is the third word of a sample.
fn timed(big: bool) -> Recording {
    let attr = Attr { sample_type: 7, ..Attr::default() };
    Recording { events: vec![EventDesc { name: "x".into(), attr, ids: vec![] }], big, ..Recording::default() }
}

#[test]
fn the_times_of_the_first_and_the_newest_sample() {
    let sample = |time: u64| with_body(types::SAMPLE, &[[1u64, 2, time].map(u64::to_le_bytes)].concat().concat());
    let mut input = input_in([sample(50), comm(1), sample(70), sample(60)].concat(), timed(false));
    drain(&mut input);
    assert_eq!((input.oldest, input.newest), (50, 60));
}

#[test]
fn records_of_the_other_byte_order_are_turned() {
    let word = |n: u64| n.to_be_bytes().to_vec();
    let mut sample = [&types::SAMPLE.to_be_bytes()[..], &2u16.to_be_bytes(), &32u16.to_be_bytes()].concat();
    sample.extend([word(0x1122), word(5 << 32 | 6), word(99)].concat());
    let mut round = [&types::FINISHED_ROUND.to_be_bytes()[..], &[0, 0], &8u16.to_be_bytes()].concat();
    round.extend(sample.clone());
    let (out, beside) = drain(&mut input_in([sample, round].concat(), timed(true)));
    let turned = [&record(types::SAMPLE, 2, 8)[..4], &[2, 0, 32, 0]].concat();
    let body = [0x1122u64.to_le_bytes(), (5u64 | 6 << 32).to_le_bytes(), 99u64.to_le_bytes()].concat();
    let one = [turned, body].concat();
    assert_eq!((out, beside.notes), ([&one[..], &record(types::FINISHED_ROUND, 0, 8), &one].concat(), vec![]));
}

#[test]
fn an_error_of_the_file_ends_it_after_what_came_before() {
    struct Broken(Cursor<Vec<u8>>);
    impl Read for Broken {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(out)? {
                0 => Err(std::io::Error::other("the disk is gone")),
                n => Ok(n),
            }
        }
    }
    let stream: Box<dyn Read + Send> = Box::new(Broken(Cursor::new(comms(0..2))));
    let mut input = Input::new(Recording::default(), ByteSource::Stream { stream, at: AT, failed: None });
    let (out, beside) = drain(&mut input);
    assert_eq!(numbers_of(&out), [0, 1]);
    assert_eq!(beside.notes, [format!("reading ends at byte {}: the disk is gone", AT + 32)]);
}

/// Numbers of events have 16 bits, and samples of events without a description are those of no event.
#[test]
fn events_of_a_stream_above_the_limit_are_noted_once() {
    let attr = |id: u64| {
        let attr = Attr { sample_type: 7, ..Attr::default() };
        with_body(types::HEADER_ATTR, &[&attr.encode()[..], &id.to_le_bytes()].concat())
    };
    let bytes = (0..MAX_EVENTS as u64 + 3).flat_map(attr).chain(comm(1)).collect();
    let (mut input, mut beside) = (input_in(bytes, Recording::default()), SideData::default());
    input.head(&mut beside).expect("read");
    assert_eq!(input.rec.events.len(), MAX_EVENTS);
    assert_eq!(beside.notes, ["samples of further events are left out: a stream has at most 4096 events"]);
}

/// Numbers of recordings have 16 bits, too.
#[test]
fn too_many_recordings_are_not_combined() {
    let inputs: Vec<Input> = (0..=1 << 15).map(|_| input_in(Vec::new(), Recording::default())).collect();
    let named = vec![String::new(); inputs.len()];
    let error = RecordingSource::new("all".to_owned(), inputs, &named, Vec::new()).err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("more than 32768 recordings: open fewer recordings together"));
}
