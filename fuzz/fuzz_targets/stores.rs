//! Answers of profile stores: any bytes are read as each kind of answer, and profiles to their end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use perfprof_tui::engine::{IntakeOptions, offline};
use perfprof_tui::export::folded;
use perfprof_tui::source::imported::{ImportedSource, ProfilePart, store};
use perfprof_tui::symbols::SymbolOptions;

/// The bytes of an unpacked profile.
const MOST: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, body)) = bytes.split_first() else { return };
    match kind & 7 {
        0 => drop(store::types(body)),
        1 => drop(store::names(body)),
        2 => drop(store::times(body)),
        3 => drop(store::failure(body)),
        4 => drop(store::report(body).map(|packed| store::unpacked(packed, MOST))),
        // A series: the profiles of two times.
        _ => {
            let middle = body.len() / 2;
            let part = |bytes: &[u8], time| {
                store::unpacked(bytes.to_vec(), MOST).ok().map(|bytes| ProfilePart { bytes, time: Some(time) })
            };
            let parts = match kind & 8 {
                0 => [part(body, 1), part(body, 2)],
                _ => [part(&body[..middle], 1), part(&body[middle..], 2)],
            };
            let parts: Vec<ProfilePart> = parts.into_iter().flatten().collect();
            let Ok(mut source) = ImportedSource::of_series("store".into(), &parts, true) else { return };
            let _ = source.weight();
            let options = SymbolOptions { live: false, kallsyms: None, ..SymbolOptions::live() };
            let Ok(loaded) = offline::load(&mut source, options, IntakeOptions::default()) else { return };
            for event in 0..loaded.event_names.len().min(4) {
                let _ = folded::lines(loaded.data(), event, None, true, |_, _| Ok(()));
            }
        }
    }
});
