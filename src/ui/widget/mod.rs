//! What several screens draw.

pub mod rows;
pub mod timeline;
