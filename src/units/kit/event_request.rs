//! The events that a unit needs.

use crate::event::Rate;
use crate::source::Summing;

/// An event that a unit needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventRequest {
    /// The event as in `-e`; for a probe, the name of its event. Alternatives of a recording's event names follow after
    /// `|`; a part of the name follows `~`.
    pub event: String,
    /// A probe that creates the event, as in `probe --add`.
    pub probe: Option<String>,
    /// Whether samples include call chains.
    pub stack: bool,
    /// The hits that the unit needs, in the filter language.
    pub filter: Option<String>,
    /// A filter that only the kernel can apply, at the time of a sample.
    pub capture: Option<String>,
    /// Whether the unit works without the event.
    pub optional: bool,
    /// Whether a recording may lack the event: it then has fewer figures. Live measurements require it.
    pub only_live: bool,
    /// Whether the event is only counted and passed to [`Unit::count`](super::Unit::count).
    pub counted: bool,
    /// How hits may be summed, if the unit takes sums (`add_sums` and `add_hits` of [`Unit`](super::Unit)).
    pub summed: Option<Summing>,
    /// Whether hits may be recorded in batches, without the flags of their context (`common_flags`).
    pub is_batched: bool,
    /// The sampling rate; `None` samples every hit.
    pub rate: Option<Rate>,
    /// Whether samples include the data address, its latency and its data source.
    pub memory: bool,
    /// Required user registers, as bits of `sample_regs_user`.
    pub registers: u64,
    /// Whether changes of kernel code are recorded as well.
    pub text_poke: bool,
    /// The field with the return address in a probe of a function's entry.
    pub caller: Option<String>,
}

impl EventRequest {
    /// Requests every hit of an event.
    pub fn new(event: impl Into<String>) -> Self {
        Self { event: event.into(), ..Self::default() }
    }

    /// Adds call chains.
    pub fn with_stack(self, stack: bool) -> Self {
        Self { stack, ..self }
    }

    /// Marks the event as optional.
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// Marks the event as optional in recordings.
    pub fn only_live(self) -> Self {
        Self { only_live: true, ..self }
    }

    /// Restricts the request to hits that match a filter.
    pub fn only(self, filter: Option<String>) -> Self {
        Self { filter, ..self }
    }

    /// Lets hits be summed in the kernel while there are many ([`Unit::add_hits`](super::Unit::add_hits)).
    pub fn summed(self) -> Self {
        Self { summed: Some(Summing::Hits), ..self }
    }

    /// Lets hits be recorded in batches, which takes less time of the measured programs.
    pub fn batched(self) -> Self {
        Self { is_batched: true, ..self }
    }

    /// Requests counts instead of samples.
    pub fn counted(self) -> Self {
        Self { counted: true, ..self }
    }
}
