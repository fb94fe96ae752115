//! Interpreters: how files and processes of a language's runtime are recognized, so that the kernel walks its frames.

pub(crate) mod cpython;
mod debug_offsets;
pub(crate) mod prober;
pub(crate) mod strings;

/// The memory of a process, which may contain anything.
pub(crate) trait ProcessMemory {
    /// Fills `to` from an address; `None` if a part of it cannot be read.
    fn read(&self, at: u64, to: &mut [u8]) -> Option<()>;

    fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }
}
