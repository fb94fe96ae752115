//! Figures: counts, distributions, the largest values, and sums over time.

pub(crate) mod counted;
pub(crate) mod counts;
pub(crate) mod grid;
pub mod histogram;
pub(crate) mod latency;
pub mod points;
pub(crate) mod slowest;
pub(crate) mod sum_shares;
pub(crate) mod summed;
pub(crate) mod top_n;
