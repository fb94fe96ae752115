//! Records between rings and batch: each file corrects or joins those that the kernel does not write as needed.

pub(crate) mod listener;
pub(crate) mod losses;
pub(crate) mod misattributed;
pub(crate) mod outer_namespace;
pub(crate) mod output;
pub(crate) mod pipeline;
pub(crate) mod stack_walks;
pub(crate) mod strings;
pub(crate) mod switch_batches;
