//! A threshold (`--than`), and the largest values above it.

use crate::filter::expr::Expr;

use crate::units::kit::figures::top_n::TopN;
use crate::units::kit::{BoundExpr, Settings, ThreadNames, UnitEvent, UnitSample};

/// The N largest values above a threshold, with their data; without a threshold, the N largest of all.
#[derive(Clone, Debug)]
pub(crate) struct Slowest<T> {
    than: Option<Expr>,
    /// The threshold bound to the fields of each event that ends a value, by event number.
    bound: Vec<(u16, BoundExpr)>,
    top: TopN<T>,
}

impl<T> Default for Slowest<T> {
    fn default() -> Self {
        Self { than: None, bound: Vec::new(), top: TopN::new(0) }
    }
}

impl<T> Slowest<T> {
    /// Reads the threshold, and `--keep`.
    pub(crate) fn of(settings: &Settings) -> Result<Self, String> {
        let top = TopN::new(settings.number("keep", 20)? as usize);
        Ok(Self { than: settings.than()?, bound: Vec::new(), top })
    }

    /// Limits the number of values, because their data is large.
    pub(crate) fn at_most(self, most: usize) -> Self {
        Self { top: self.top.at_most(most), ..self }
    }

    pub(crate) fn has_threshold(&self) -> bool {
        self.than.is_some()
    }

    /// Binds the threshold to an event that ends values.
    pub(crate) fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        let bound = self.than.as_ref().map(|than| BoundExpr::new(than, event.format)).transpose()?;
        self.bound.extend(bound.map(|than| (event.number, than)));
        Ok(())
    }

    /// Whether a value exceeds the threshold. Records without a tracepoint have the fields of the last bound event.
    pub(crate) fn exceeds(&self, end: &UnitSample<'_>, names: &ThreadNames, value: u64) -> bool {
        let own = self.bound.iter().find(|(event, _)| *event == end.event).or(self.bound.last());
        own.is_some_and(|(_, than)| than.holds(end, names, Some(value)))
    }

    /// Whether a value is to be listed, according to the threshold.
    pub(crate) fn lists(&self, above: bool) -> bool {
        above || self.than.is_none()
    }

    /// Whether a value is kept, so that its data is needed.
    pub(crate) fn takes(&self, above: bool, value: u64) -> bool {
        self.lists(above) && self.top.takes(value)
    }

    /// Keeps a value if it is to be listed and among the largest.
    pub(crate) fn add(&mut self, above: bool, value: u64, what: impl FnOnce() -> T) {
        if self.takes(above, value) {
            self.top.add(value, what());
        }
    }

    /// Iterates from the largest value, with stable ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64, &T)> {
        self.top.iter()
    }

    pub(crate) fn clear(&mut self) {
        self.top.clear();
    }
}
