//! Profiles of other tools: any bytes are read to their end, folded, and exported again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use perfprof_tui::engine::{IntakeOptions, offline};
use perfprof_tui::export::folded;
use perfprof_tui::source::imported::{self, ImportedSource};
use perfprof_tui::symbols::SymbolOptions;

fuzz_target!(|bytes: &[u8]| {
    let _ = imported::refused(bytes);
    let Some(format) = imported::sniff(bytes) else { return };
    let Ok(mut source) = ImportedSource::read("profile".into(), format, bytes) else { return };
    let options = SymbolOptions { live: false, kallsyms: None, ..SymbolOptions::live() };
    let Ok(loaded) = offline::load(&mut source, options, IntakeOptions::default()) else { return };
    for event in 0..loaded.event_names.len().min(4) {
        let _ = folded::lines(loaded.data(), event, None, true, |_, _| Ok(()));
    }
});
