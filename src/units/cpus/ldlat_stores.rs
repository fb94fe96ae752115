//! `ldlat-stores`: targets of stores and their functions: cache levels, cache lines.

use crate::units::kit::memory::Accesses;
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "ldlat-stores",
    about: "stores by destination: cache levels, functions, cache lines",
    words: "store cache false-sharing write memory numa",
    help: "Takes precise samples of stores (Intel PEBS). The unit needs a hardware PMU that samples stores, on bare \
           metal or passed to the guest, or a recording of perf mem record.",
    example: "perfprof-tui ldlat-stores -p 1234",
    output: "",
    options: &["addresses"],
    sees: Sees::Target,
    across: None,
    interval: None,
    make: |settings| Ok(Box::new(Accesses::of("cpu/mem-stores/P|~mem-stores".to_owned(), settings))),
};
