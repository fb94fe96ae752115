//! The filter language everywhere: no text causes a panic, a shown filter parses to the same one, and filters for the
//! kernel follow its grammar.

#![no_main]

use libfuzzer_sys::fuzz_target;
use perfprof_tui::event::format::Format;
use perfprof_tui::event::probe::ProbeSpec;
use perfprof_tui::event::trace_filter;
use perfprof_tui::filter::capture::{Subject, place};
use perfprof_tui::filter::program::Offsets;
use perfprof_tui::filter::{Filter, KnownFields, expected, trace_fields};

const FORMAT: &str = "name: sched_switch\nID: 3\nformat:\n\
    \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

fuzz_target!(|text: &str| {
    let Some(format) = Format::parse("sched", FORMAT, false) else { return };
    let fields = trace_fields(std::iter::once(&format));
    let (_, start) = expected(text, &fields);
    assert!(text.is_char_boundary(start));
    if let Ok(filter) = Filter::parse_with(text, KnownFields::These(&fields)) {
        let shown = filter.to_string();
        let again = Filter::parse_with(&shown, KnownFields::These(&fields));
        // A text with both kinds of quotes cannot be typed.
        if !(text.contains('"') && text.contains('\'')) {
            let again = again.unwrap_or_else(|fault| panic!("{text} became {shown}: {fault}"));
            assert_eq!(again.to_string(), shown);
        }
    }
    let _ = Filter::parse_with(text, KnownFields::Any);
    if let Ok(capture) = place(text, &Subject::Tracepoint(Box::new(format.clone())), Offsets::system()) {
        let trace = capture.trace.expect("a tracepoint's filter is a text");
        assert!(trace_filter::check(&trace, &format).is_ok(), "{text} became {trace}");
    }
    let _ = place(text, &Subject::Sampling { clock: true }, Offsets::system());
    let _ = ProbeSpec::parse(text);
});
