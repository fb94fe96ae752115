//! User input in files: configuration with keymaps, themes, commands, events and options of units.

#![no_main]

use libfuzzer_sys::fuzz_target;
use perfprof_tui::cli::config::Config;
use perfprof_tui::event::callgraph::CallGraph;
use perfprof_tui::event::spec::{self, LookupPaths};
use perfprof_tui::kernel::cpus::parse_list;
use perfprof_tui::machine::trigger::Trigger;
use perfprof_tui::ui::input::commands::table;
use perfprof_tui::ui::theme::{Depth, Theme, ThemeFile};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match kind & 3 {
        0 => {
            let config = Config::parse(text);
            assert!(
                config.faults.iter().all(|fault| fault.split(':').next().is_some_and(|n| n.parse::<usize>().is_ok()))
            );
        }
        1 => {
            if let Ok(file) = ThemeFile::parse(text) {
                for depth in [Depth::TrueColor, Depth::Ansi256, Depth::Ansi16, Depth::NoColor] {
                    let _ = Theme::of(&file, depth);
                }
            }
        }
        2 => {
            let _ = (table::parse(text), CallGraph::parse(text), parse_list(text), Trigger::parse(text));
        }
        _ => {
            let places = LookupPaths { pmus: "/nonexistent".into(), tracefs: Err("none".into()) };
            let _ = spec::parse(text, &places);
        }
    }
});
