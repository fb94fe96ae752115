//! Tests of the programs in this machine's kernel.

use super::*;
use crate::kernel::bpf::calls::or_skipped;

/// Only one of the two programs for answers is used, but kernels with both tracepoints take both.
#[test]
fn the_kernel_takes_the_programs() {
    let Some(mut recorder) = or_skipped(DnsRecorder::load()) else { return };
    for tracepoint in [SENT, READ, READ_UNTIL_6_17] {
        let name = tracepoint.to_str().expect("text");
        or_skipped(recorder.object.program(name, ProgramType::RawTracepoint));
    }
    let file = std::fs::File::open("/dev/null").expect("opened");
    assert!(recorder.write_by(0, file.as_fd(), 7).is_err(), "no event");
    assert!(!recorder.write_no_more(0, 7));
}
