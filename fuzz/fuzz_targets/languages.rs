//! Interpreters: files that look like one, their tables of offsets, and the walks of their frames.

#![no_main]

use libfuzzer_sys::fuzz_target;
use perfprof_tui::symbols::languages::read_untrusted;

fuzz_target!(|bytes: &[u8]| read_untrusted(bytes));
