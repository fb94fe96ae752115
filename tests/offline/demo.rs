//! Checks that the demo's stream matches its recording.
//!
//! `UPDATE_DEMO=1 cargo test --test offline demo` creates the stream from a recording and its kernel's symbols.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::{data, program, run};
use perfprof_tui::perfdata::read::Recording;
use perfprof_tui::perfdata::stream::StreamWriter;
use perfprof_tui::record::kinds::{split, types};
use perfprof_tui::symbols::kallsyms::Kallsyms;
use perfprof_tui::symbols::shipped::{KERNEL, PackedFunctions};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The recording as a stream: symbol names first, then all records in order of time, in rounds.
fn made() -> Vec<u8> {
    let path = data("ipvs-cpu32.data");
    let file = std::fs::File::open(&path).expect("open");
    let mut rec = Recording::open(&file).expect("a recording");
    rec.name_events();
    let bytes = std::fs::read(&path).expect("read");
    let kept = Kept::default();
    let sections = rec.features.carried(false);
    let mut writer = StreamWriter::start(Box::new(kept.clone()), &rec.events, &sections).expect("written");
    let kallsyms = Kallsyms::read(&data("ipvs-cpu32.kallsyms")).expect("names");
    let mut packed = PackedFunctions::default();
    packed.add(&kallsyms.table);
    let mut tables = Vec::new();
    packed.encode(KERNEL, kallsyms.text.unwrap_or(0), &mut tables).expect("packed");
    writer.records(&tables).expect("written");
    let layout = rec.events[0].layout();
    let mut records: Vec<(u64, &[u8])> = Vec::new();
    let mut rest = &bytes[rec.data.start as usize..rec.data.end as usize];
    while let Ok(Some((header, body, _))) = split(rest) {
        let (record, after) = rest.split_at(usize::from(header.size));
        rest = after;
        if header.kind < types::USER_START {
            let time = match header.kind {
                types::SAMPLE => layout.sample(header, body).map_or(0, |sample| sample.time),
                _ => layout.trailer(body).map_or(0, |id| id.time),
            };
            records.push((time, record));
        }
    }
    records.sort_by_key(|(time, _)| *time);
    let mut round = 0;
    for (time, record) in records {
        if time / 100_000_000 != round {
            writer.finish_round().expect("written");
            round = time / 100_000_000;
        }
        writer.records(record).expect("written");
    }
    writer.finish_round().expect("written");
    drop(writer);
    kept.0.lock().expect("lock").clone()
}

#[test]
fn the_demo_is_the_recording() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/commands/demo/incident.zst");
    let now = made();
    if std::env::var_os("UPDATE_DEMO").is_some() {
        std::fs::write(&path, zstd::bulk::compress(&now, 19).expect("packed")).expect("written");
    }
    let kept = zstd::bulk::decompress(&std::fs::read(&path).expect("there"), 16 << 20).expect("packed");
    assert!(kept == now, "out of date: UPDATE_DEMO=1 cargo test --test offline demo");
    // The stream has the samples and symbols of the recording.
    let dir = tempfile::tempdir().expect("dir");
    let stream = dir.path().join("stream");
    std::fs::write(&stream, &kept).expect("written");
    let report = |path: &Path, more: &[&str]| {
        let mut command = program();
        run(command.arg("report").arg(path).args(["--no-children", "-s", "comm,dso,sym"]).args(more)).stdout
    };
    let kallsyms = data("ipvs-cpu32.kallsyms");
    let of_file = report(&data("ipvs-cpu32.data"), &["--kallsyms", &kallsyms.to_string_lossy()]);
    let of_stream = report(&stream, &[]);
    assert!(String::from_utf8_lossy(&of_stream).split_whitespace().any(|word| word == "estimation_timer"));
    assert_eq!(String::from_utf8_lossy(&of_stream), String::from_utf8_lossy(&of_file));
}
