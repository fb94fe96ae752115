//! Arbitrary bytes as a recording: opened, read to the end, queried and folded. Must not panic, hang or use more memory
//! than proportional to the input.

#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use perfprof_tui::engine::IntakeOptions;
use perfprof_tui::engine::offline;
use perfprof_tui::export::folded;
use perfprof_tui::source::recording;
use perfprof_tui::symbols::SymbolOptions;

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut file) = tempfile::NamedTempFile::new() else { return };
    if file.write_all(bytes).is_err() {
        return;
    }
    let Ok(mut source) = recording::open(&[file.path().to_owned()]) else { return };
    // Names from this machine would make runs depend on it.
    let options = SymbolOptions {
        live: false,
        same_kernel: false,
        symfs: Some("/nonexistent".into()),
        kallsyms: None,
        ..SymbolOptions::live()
    };
    let Ok(loaded) = offline::load(&mut *source, options, IntakeOptions { traces: true, ..IntakeOptions::default() })
    else {
        return;
    };
    for event in 0..loaded.event_names.len().min(4) {
        let _ = folded::lines(loaded.data(), event, None, true, |_, _| Ok(()));
    }
});
