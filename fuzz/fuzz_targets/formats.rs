//! Formats of tracepoints, alone and in a recording's table, their print formats with arbitrary field data, and BTF.

#![no_main]

use libfuzzer_sys::fuzz_target;
use perfprof_tui::event::format::print::Printer;
use perfprof_tui::event::format::{Format, Formats};
use perfprof_tui::kernel::btf::Btf;

/// Fields of the types used in print formats: `REC->number`, `__get_str(text)` and similar.
const FIELDS: &str = "name: one
ID: 7
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int number;\toffset:8;\tsize:4;\tsigned:1;
\tfield:unsigned long flags;\toffset:16;\tsize:8;\tsigned:0;
\tfield:char comm[16];\toffset:24;\tsize:16;\tsigned:0;
\tfield:__data_loc char[] text;\toffset:40;\tsize:4;\tsigned:0;
\tfield:u8 address[6];\toffset:44;\tsize:6;\tsigned:0;

print fmt: \"\"
";

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
                    let _ = (field.text(raw), field.number(raw));
                }
            }
        }
        1 => {
            let printer = Printer::parse(&head);
            if let Some(format) = Format::parse("s", FIELDS, big) {
                let _ = printer.print(&format, raw, &|at| Some(("f".into(), at)));
            }
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
