//! Time in softirqs and interrupts, from the tracepoints of a session as they are decoded.

use std::collections::BTreeMap;

use crate::analysis::softirq::{EVENTS, Pairs, Reader, Which};
use crate::perfdata::EventDesc;
use crate::record::Sample;
use crate::session::Origin;
use crate::source::Info;

/// The tracepoints of a session, paired.
#[derive(Debug)]
pub struct SoftirqTrace {
    readers: BTreeMap<u16, Reader>,
    pub pairs: Pairs,
}

impl SoftirqTrace {
    /// `None` when none of the tracepoints is recorded in pairs.
    pub fn new(info: &Info) -> Option<Self> {
        Self::among(&info.events, &info.tracing, info.origin)
    }

    pub fn among(events: &[EventDesc], tracing: &[u8], origin: Origin) -> Option<Self> {
        let readers: BTreeMap<u16, Reader> = Which::ALL
            .into_iter()
            .zip(EVENTS)
            .filter_map(|(which, name)| {
                let (event, format) = super::tracepoints::among(events, tracing, origin, name)?;
                Some((event, Reader::new(which, &format)?))
            })
            .collect();
        let has = |which| readers.values().any(|r| r.which() == which);
        let paired = has(Which::Entry) && has(Which::Exit) || has(Which::IrqEntry) && has(Which::IrqExit);
        paired.then(|| Self { readers, pairs: Pairs::default() })
    }

    pub fn sample(&mut self, event: u16, sample: &Sample<'_>) {
        if let Some(seen) = self.readers.get(&event).and_then(|reader| reader.read(sample.raw)) {
            self.pairs.add(sample.cpu, sample.time, seen);
        }
    }
}
