//! What several screens draw.

pub mod strip;
