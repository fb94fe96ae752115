//! Points of time and latency for heat maps of other tools, by the pair of events that begins and ends the latency.

use std::collections::BTreeMap;

/// The points of each pair of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Points(pub BTreeMap<String, Vec<(u64, u64)>>);

impl Points {
    pub(crate) fn add(&mut self, between: [&str; 2], time: u64, ns: u64) {
        let words = between.map(|event| event.rsplit(':').next().unwrap_or(event));
        let name = words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-");
        self.0.entry(name).or_default().push((time, ns));
    }
}
