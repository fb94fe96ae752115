//! Kernel files: /proc/stat, interrupts and softirqs, pressure, maps, kallsyms, lists of CPUs; and function tables in a
//! stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use perfprof_tui::kernel::cpus::parse_list;
use perfprof_tui::kernel::procfs::parse_maps_line;
use perfprof_tui::perfdata::unpack::UnpackBudget;
use perfprof_tui::session::machine::proc::{Matrix, Pressure, Stat};
use perfprof_tui::symbols::kallsyms::Kallsyms;
use perfprof_tui::symbols::shipped::ShippedTables;

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind & 7 {
        0 => Stat::default().parse(bytes),
        1 => {
            let mut matrix = Matrix::default();
            // A table that shrinks, as after a CPU went offline.
            let cut = bytes.len() / 2;
            [bytes, &bytes[..cut], bytes].iter().for_each(|part| matrix.parse(part));
            assert!(matrix.rows.iter().all(|row| row.counts.len() <= matrix.cpus.len()));
        }
        2 => drop(Pressure::parse(bytes)),
        3 => bytes.split(|b| *b == b'\n').for_each(|line| drop(parse_maps_line(line))),
        4 => {
            let _ = Kallsyms::parse(bytes);
        }
        5 => drop(parse_list(&String::from_utf8_lossy(bytes))),
        _ => {
            let given = ShippedTables::default();
            given.record(bytes);
            let _ = given.table("/bin/a", &mut UnpackBudget::new(1 << 20));
        }
    }
});
