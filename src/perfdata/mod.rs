//! The perf.data container: header, attrs, features. Layout: tools/perf/Documentation/
//! perf.data-file-format.txt.

pub mod bytes;
pub mod features;
pub mod info;
pub mod read;
pub mod stream;
pub mod swap;
pub mod unpack;
pub mod write;

use crate::kernel::attr::{Attr, SW_CPU_CLOCK, SW_TASK_CLOCK, TYPE_BREAKPOINT, TYPE_SOFTWARE, TYPE_TRACEPOINT};
use crate::record::Layout;

/// Magic of version 2, little endian.
pub const MAGIC: &[u8; 8] = b"PERFILE2";
/// Size of the file header.
pub const HEADER_SIZE: u64 = 104;

/// An event of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDesc {
    pub name: String,
    pub attr: Attr,
    /// The ids that its records carry.
    pub ids: Vec<u64>,
}

/// The kind of events that no kernel has.
const DERIVED: u32 = u32::MAX;

impl EventDesc {
    /// An event that is made of the samples of others.
    pub fn derived(name: &str) -> Self {
        Self { name: name.to_owned(), attr: Attr { kind: DERIVED, ..Attr::default() }, ids: Vec::new() }
    }

    pub fn is_derived(&self) -> bool {
        self.attr.kind == DERIVED
    }

    /// Whether samples stand for time: those of a clock or of a counter of the CPU's work, no tracepoint's
    /// and no count of faults or switches.
    pub fn is_clock(&self) -> bool {
        match self.attr.kind {
            DERIVED | TYPE_TRACEPOINT | TYPE_BREAKPOINT => false,
            TYPE_SOFTWARE => matches!(self.attr.config, SW_CPU_CLOCK | SW_TASK_CLOCK),
            _ => true,
        }
    }

    pub fn layout(&self) -> Layout {
        Layout {
            sample_type: self.attr.sample_type,
            read_format: self.attr.read_format,
            id_all: self.attr.has(crate::kernel::attr::Flag::SampleIdAll),
            regs_user: self.attr.regs_user,
            branches: self.attr.branch_sample_type,
        }
    }
}
