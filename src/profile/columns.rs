//! Samples as columns in chunks of fixed size, each filled by its one owner and then only read.

use super::SiteId;

/// Rows of a full chunk.
pub const CHUNK: usize = 16_384;

/// A number of samples and the sum of their periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acc {
    pub samples: u64,
    pub period: u64,
}

impl Acc {
    pub fn one(period: u64) -> Self {
        Self { samples: 1, period }
    }

    pub fn is_zero(&self) -> bool {
        self.samples == 0
    }

    /// This share of a whole by period, in percent; 0 of nothing.
    pub fn percent_of(&self, whole: &Self) -> f64 {
        if whole.period == 0 { 0.0 } else { 100.0 * self.period as f64 / whole.period as f64 }
    }
}

impl std::ops::AddAssign for Acc {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.period = self.period.wrapping_add(other.period);
    }
}

impl std::ops::SubAssign for Acc {
    fn sub_assign(&mut self, other: Self) {
        // A sum may have stopped at its limit.
        self.samples = self.samples.saturating_sub(other.samples);
        self.period = self.period.wrapping_sub(other.period);
    }
}

/// A run of samples in order of arrival.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// Nanoseconds of the session's clock.
    pub time: Vec<u64>,
    pub site: Vec<u32>,
    /// The period that the sample stands for.
    pub weight: Vec<u64>,
    pub cpu: Vec<u16>,
    pub event: Vec<u16>,
}

impl Chunk {
    /// Bytes a row.
    pub const ROW: usize = 24;

    pub fn push(&mut self, time: u64, site: SiteId, weight: u64, cpu: u16, event: u16) {
        self.time.push(time);
        self.site.push(site.0);
        self.weight.push(weight);
        self.cpu.push(cpu);
        self.event.push(event);
    }

    pub fn len(&self) -> usize {
        self.time.len()
    }

    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    pub(super) fn memory(&self) -> usize {
        self.time.capacity() * Self::ROW
    }

    pub(super) fn renumber(&mut self, new: &mut impl FnMut(SiteId) -> SiteId) {
        for site in &mut self.site {
            *site = new(SiteId(*site)).0;
        }
    }
}
