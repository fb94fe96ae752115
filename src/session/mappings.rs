//! Look-ups of addresses of a process, which cache the last result: consecutive addresses are mostly close.

use std::ops::Range;

use super::space::AddressSpace;
use super::{DsoKind, Dsos, MapId};

/// The limit of a file's code and data together in the code models that compilers use by default.
const FARTHEST_DATA: u64 = 1 << 32;

/// The mappings of a process and of the kernel at a moment.
#[derive(Debug)]
pub struct Mappings<'a> {
    dsos: &'a Dsos,
    user: Option<&'a AddressSpace>,
    kernel: &'a AddressSpace,
    kernel_text: MapId,
    last_user: Near,
    last_kernel: Near,
}

/// The range around the last address, and its mapping.
#[derive(Debug, Default)]
struct Near {
    range: Range<u64>,
    /// The representative mapping, and the offset of its addresses.
    found: Option<(MapId, u64)>,
}

impl<'a> Mappings<'a> {
    pub(super) fn new(
        dsos: &'a Dsos,
        user: Option<&'a AddressSpace>,
        kernel: &'a AddressSpace,
        kernel_text: MapId,
    ) -> Self {
        Self { dsos, user, kernel, kernel_text, last_user: Near::default(), last_kernel: Near::default() }
    }

    /// Returns whether any mapping of the process is known.
    pub(crate) fn knows_user(&self) -> bool {
        self.user.is_some_and(|space| !space.is_empty())
    }

    /// Returns the representative mapping of a user address, and the address in it; `None` if no code is mapped there.
    pub(crate) fn user(&mut self, ip: u64) -> Option<(MapId, u64)> {
        let space = self.user?;
        self.last_user.find(self.dsos, space, None, ip)
    }

    /// Returns the range of addresses around the last user address that are in the same mapping or gap.
    pub(crate) fn around_user(&self) -> Range<u64> {
        self.last_user.range.clone()
    }

    /// Returns the mapping of a file's code before an address of data, and the address relative to the representative
    /// mapping. Data follows the code of its file at a fixed distance; the file's program headers say whether it
    /// contains the address at all. Returns `None` if the code is too far away.
    pub(crate) fn data(&self, addr: u64) -> Option<(MapId, u64)> {
        let is_file = |map: &MapId| self.dsos.of_map(*map).kind == DsoKind::File;
        let map = self.user?.maps_before(addr).find(is_file)?;
        let distance = addr.wrapping_sub(self.dsos.map_of(map).start);
        (distance < FARTHEST_DATA).then(|| self.dsos.shared(map, addr))
    }

    pub(crate) fn kernel(&mut self, ip: u64) -> (MapId, u64) {
        let text = self.kernel_text;
        self.last_kernel.find(self.dsos, self.kernel, Some(text), ip).unwrap_or((text, ip))
    }
}

impl Near {
    fn find(&mut self, dsos: &Dsos, space: &AddressSpace, outside: Option<MapId>, ip: u64) -> Option<(MapId, u64)> {
        if !self.range.contains(&ip) {
            let (range, map) = space.around(ip);
            let shared = |map| dsos.shared(map, 0);
            *self = Self { range, found: map.or(outside).map(shared) };
        }
        self.found.map(|(map, by)| (map, ip.wrapping_add(by)))
    }
}
