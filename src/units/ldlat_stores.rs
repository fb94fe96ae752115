//! `ldlat-stores`: targets of stores and their functions: cache levels, cache lines.

use super::kit::memory::Accesses;
use super::kit::{Sees, Spec};

pub(super) const SPEC: Spec = Spec {
    name: "ldlat-stores",
    about: "where stores go and which functions make them: cache levels, cache lines",
    words: "store cache false-sharing write memory numa",
    help: "Precise samples of stores (Intel PEBS). It needs a hardware PMU that samples stores: bare metal, or a guest \
           with one. Recordings of perf mem record hold its events.",
    example: "perfprof-tui ldlat-stores -p 1234",
    output: "",
    options: &["addresses"],
    sees: Sees::Target,
    across: None,
    interval: None,
    make: |settings| Ok(Box::new(Accesses::of("cpu/mem-stores/P|~mem-stores".to_owned(), settings))),
};
