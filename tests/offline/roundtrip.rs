//! The reader reads everything that the writer writes, for arbitrary events, ids and records.

use perfprof_tui::kernel::attr::{Attr, Flag};
use perfprof_tui::kernel::files::NewFile;
use perfprof_tui::perfdata::EventDesc;
use perfprof_tui::perfdata::features::{FeatureSection, Features, event_desc, string};
use perfprof_tui::perfdata::read::Recording;
use perfprof_tui::perfdata::write::Writer;
use perfprof_tui::record::kinds::encode;
use perfprof_tui::source::{Batch, Progress, recording};
use proptest::prelude::*;

#[test]
fn a_recording_of_nothing_is_whole() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("r.data");
    let events = [EventDesc { name: "cpu-clock".into(), attr: Attr { kind: 1, ..Attr::default() }, ids: vec![1] }];
    let mut writer = Writer::start(NewFile::create(&path).expect("file"), &events).expect("start");
    writer.finish(vec![(3, string("host")), event_desc(&events)], &events).expect("finish");
    let mut source = recording::open(&[path]).expect("opens");
    let mut batch = Batch::default();
    while !matches!(source.next(&mut batch).expect("reads"), Progress::End(_)) {}
    assert!(batch.notes().next().is_none(), "{:?}", batch.events);
}

fn event() -> impl Strategy<Value = EventDesc> {
    (any::<u64>(), any::<u64>(), "[a-z:/=,]{1,80}", proptest::collection::vec(any::<u64>(), 0..5), any::<bool>())
        .prop_map(|(config, sample_type, name, ids, freq)| {
            let mut attr = Attr { kind: 1, config, sample_type: sample_type & 0x1_ffff, ..Attr::default() };
            attr.set(Flag::Freq, freq);
            EventDesc { name, attr, ids }
        })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn events_features_and_records_come_back(
        events in proptest::collection::vec(event(), 1..6),
        bodies in proptest::collection::vec((1u32..23, proptest::collection::vec(any::<u8>(), 0..200)), 0..40),
        host in "[ -~]{0,60}",
    ) {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("r.data");
        let mut bytes = Vec::new();
        for (kind, body) in &bodies {
            encode(&mut bytes, *kind, 0, |out| out.extend_from_slice(body)).expect("fits");
        }
        let mut writer = Writer::start(NewFile::create(&path).expect("create"), &events).expect("start");
        writer.records(&bytes).expect("records");
        let sections: Vec<FeatureSection> = vec![(3, string(&host)), event_desc(&events)];
        writer.finish(sections.clone(), &events).expect("finish");

        let read = Recording::open(&std::fs::File::open(&path).expect("open")).expect("reads");
        prop_assert_eq!(&read.events, &events);
        let Features { list } = read.features;
        prop_assert_eq!(list, sections);
        let mut source = recording::open(&[path]).expect("opens");
        let mut got = Vec::new();
        loop {
            let mut batch = Batch::default();
            let step = source.next(&mut batch).expect("reads");
            prop_assert!(batch.notes().next().is_none(), "{:?}", batch.events);
            got.append(&mut batch.bytes);
            if matches!(step, Progress::End(_)) {
                break;
            }
        }
        // An empty recording contains the end of a round, so that it is not taken for that of a killed recorder.
        let nothing = [68, 0, 0, 0, 0, 0, 8, 0];
        prop_assert_eq!(got, if bytes.is_empty() { nothing.to_vec() } else { bytes });
    }
}
