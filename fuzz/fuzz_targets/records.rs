//! Records from a ring buffer: arbitrary bytes with arbitrary sample layouts, decoded, followed and added to a profile.

#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use perfprof_tui::perfdata::EventDesc;
use perfprof_tui::profile::Profile;
use perfprof_tui::record::kinds::split;
use perfprof_tui::record::{Layout, Record};
use perfprof_tui::session::{Origin, Session};

fuzz_target!(|bytes: &[u8]| {
    let Some((head, bytes)) = bytes.split_first_chunk::<16>() else { return };
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let mut event = EventDesc::derived("e");
    event.attr.sample_type = word(0) & 0x1ff_ffff;
    event.attr.read_format = word(8) & 0x1f;
    event.attr.branch_sample_type = word(8) >> 16 & 0x7_ffff;
    event.attr.regs_user = word(8) >> 40;
    event.attr.set(perfprof_tui::kernel::attr::Flag::SampleIdAll, head[15] & 1 == 1);
    let layout: Layout = event.layout();
    let (mut session, mut profile) = (Session::new(Origin::Recorded), Profile::default());
    session.dsos.share = head[15] & 2 == 2;
    let mut rest = bytes;
    let mut one = || -> ControlFlow<()> {
        let Ok(Some((header, body, after))) = split(rest) else { return ControlFlow::Break(()) };
        rest = after;
        let _ = layout.trailer(body);
        if header.kind == 9 {
            if let Ok(sample) = layout.sample(header, body) {
                profile.add(&mut session, &sample, header.misc & 7, 0, Default::default());
            }
        } else if let Ok(decoded) = Record::decode(header, body, true) {
            session.apply(&decoded, 1);
        }
        ControlFlow::Continue(())
    };
    while one().is_continue() {}
    profile.compact(&mut session);
});
