//! Formats of tracepoints, alone and in a recording's table, their print formats with any bytes as fields, and BTF.

#![no_main]

use libfuzzer_sys::fuzz_target;
use perfprof_tui::event::format::{Format, Formats};
use perfprof_tui::event::print::Printer;
use perfprof_tui::kernel::btf::Btf;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let big = kind & 0x80 != 0;
    let cut = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let (head, raw) = (String::from_utf8_lossy(&bytes[..cut]), &bytes[cut..]);
    match kind & 3 {
        0 => {
            if let Some(format) = Format::parse("s", &head, big) {
                let _ = format.text(raw);
                for field in &format.fields {
                    let _ = (field.text(raw, big), field.number(raw, big));
                }
            }
        }
        1 => {
            let _ = Printer::parse(&head);
        }
        2 => {
            let formats = Formats::parse(bytes);
            formats.by_id.values().for_each(|format| drop(format.text(raw)));
        }
        _ => {
            if let Some(btf) = Btf::parse(bytes.to_vec()) {
                let _ = (btf.offset("task_struct", &["pid"]), btf.parameters("schedule"), btf.describe(3));
            }
        }
    }
});
