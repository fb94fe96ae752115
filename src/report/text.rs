//! Texts of records that dumps and lists of samples share.

use std::fmt::Write;
use std::sync::Arc;

use crate::ingest::IngestState;
use crate::kernel::local_time;
use crate::record::sample::{UserState, u64s};

/// Returns the current comm of a thread, as in perf.
pub(crate) fn comm_of(core: &IngestState, tid: i32) -> Arc<str> {
    let unnamed = || if tid == 0 { "swapper".into() } else { format!(":{tid}").into() };
    core.session.comm_of(tid).unwrap_or_else(unnamed)
}

/// Formats nanoseconds since 1970 as `2026-11-21 03:04:46.123076`.
pub(crate) fn time_of_day(wall: u64) -> String {
    let time = local_time((wall / 1_000_000_000) as i64).unwrap_or_default();
    let micros = wall % 1_000_000_000 / 1000;
    format!("{}.{micros:06}", time.strftime("%Y-%m-%d %H:%M:%S"))
}

/// Returns the registers of a state, by index, with their values.
pub(crate) fn register_values<'a>(state: &UserState<'a>) -> impl Iterator<Item = (u32, u64)> + use<'a> {
    let mask = state.mask;
    (0..64).filter(move |place| mask >> place & 1 == 1).zip(u64s(state.regs))
}

/// Writes a row of up to `most` bytes, as numbers and as characters.
pub(crate) fn row_of_bytes(bytes: &[u8], most: usize, out: &mut String) {
    bytes.iter().for_each(|byte| _ = write!(out, " {byte:02x}"));
    out.extend(std::iter::repeat_n("   ", most - bytes.len()));
    out.push_str("  ");
    out.extend(bytes.iter().map(|byte| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' }));
    out.extend(std::iter::repeat_n(' ', most - bytes.len()));
    out.push('\n');
}
