//! perf script output, folded stacks, range expressions, and an assistant's messages: any text is read to its end and folded again.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use perfprof_tui::engine::{IntakeOptions, offline};
use perfprof_tui::export::folded;
use perfprof_tui::query::time_range::{RangeClock, TimeRange};
use perfprof_tui::report::mcp;
use perfprof_tui::source::text::{self, TextSource};
use perfprof_tui::symbols::SymbolOptions;

fuzz_target!(|bytes: &[u8]| {
    let _ = mcp::reply(bytes, &mut |args| Ok(args.join(" ")));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let on = RangeClock::new((10, 1_000_000), 1_795_692_720_000_000_000, 10);
        for range in TimeRange::parse(text).iter().flatten() {
            let _ = range.resolve(&on);
        }
    }
    let Some(format) = text::sniff(bytes) else { return };
    let reader = Box::new(Cursor::new(bytes.to_vec()));
    let mut source = TextSource::new("text".into(), format, reader, bytes.len() as u64);
    let options = SymbolOptions { live: false, kallsyms: None, ..SymbolOptions::live() };
    let Ok(loaded) = offline::load(&mut source, options, IntakeOptions { traces: true, ..IntakeOptions::default() })
    else {
        return;
    };
    for event in 0..loaded.event_names.len().min(4) {
        let _ = folded::lines(loaded.data(), event, None, true, |_, _| Ok(()));
    }
});
