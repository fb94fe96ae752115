//! The kernel's functions that tracepoints tell of by address: their texts are put together once, when their samples
//! come, so the names are looked up at once.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::session::Session;
use crate::symbols::Resolver;
use crate::symbols::SymbolOptions;

/// Looks kernel addresses up; nothing is read before the first.
#[derive(Debug)]
pub struct KernelLookup {
    resolver: Mutex<Resolver>,
}

impl KernelLookup {
    pub(crate) fn new(options: SymbolOptions) -> Self {
        Self { resolver: Mutex::new(Resolver::new(options)) }
    }

    /// The kernel's function at an address, and how far into it that is.
    pub(crate) fn of(&self, session: &Session, address: u64) -> Option<(Arc<str>, u64)> {
        // The kernel lies in the upper half of all addresses (Documentation/arch/x86/x86_64/mm.rst, arm64/memory.rst).
        if (address as i64) >= 0 {
            return None;
        }
        let map = session.kernel_map(address);
        let at = session.dsos.map_of(map).to_dso(address);
        let found = self.resolver.lock().resolve(session.dsos.of_map(map), at)?;
        Some((found.name, at.wrapping_sub(found.start)))
    }
}
