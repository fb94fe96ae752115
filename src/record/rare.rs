//! Fields of samples that only their text output shows: registers at an interrupt, physical addresses, page sizes.

use super::kinds::{RecordCursor, RecordError, types};
use super::sample::{Layout, UserState};
use crate::perf_abi::sample as bit;

/// The fields after a sample's transaction; absent ones are zero or empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RareFields<'a> {
    pub(crate) interrupted: UserState<'a>,
    pub(crate) phys_addr: u64,
    pub(crate) data_page_size: u64,
    pub(crate) code_page_size: u64,
}

impl Layout {
    /// Reads them from a sample's tail; `regs_intr` is the mask of registers at an interrupt.
    pub(crate) fn rare<'a>(&self, tail: &'a [u8], regs_intr: u64) -> Result<RareFields<'a>, RecordError> {
        let mut c = RecordCursor { rest: tail, kind: types::SAMPLE };
        let mut rare = RareFields::default();
        if self.has(bit::REGS_INTR) {
            rare.interrupted.abi = c.u64("register ABI")?;
            if rare.interrupted.abi != 0 {
                rare.interrupted.mask = regs_intr;
                rare.interrupted.regs = c.take(8 * regs_intr.count_ones() as usize, "registers")?;
            }
        }
        rare.phys_addr = c.u64_if(self.has(bit::PHYS_ADDR), "physical address")?;
        c.u64_if(self.has(bit::CGROUP), "cgroup")?;
        rare.data_page_size = c.u64_if(self.has(bit::DATA_PAGE_SIZE), "page size")?;
        rare.code_page_size = c.u64_if(self.has(bit::CODE_PAGE_SIZE), "page size")?;
        Ok(rare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Header;

    #[test]
    fn fields_behind_the_transaction_are_read_in_their_order() {
        let fields = bit::WEIGHT_STRUCT | bit::DATA_SRC | bit::TRANSACTION | bit::REGS_INTR | bit::PHYS_ADDR;
        let layout = Layout {
            sample_type: bit::IP | fields | bit::CGROUP | bit::DATA_PAGE_SIZE | bit::CODE_PAGE_SIZE,
            ..Layout::default()
        };
        let words = [7u64, 0x0003_0002_0000_0001, 9, 10, 2, 11, 12, 13, 14, 4096, 8192];
        let body = crate::record::kinds::tests::bytes(&words);
        let header = Header { kind: types::SAMPLE, misc: 0, size: 0 };
        let tail = layout.sample(header, &body).expect("whole").tail;
        let rare = layout.rare(tail, 0b101).expect("whole");
        assert_eq!(rare.phys_addr, 13);
        assert_eq!((rare.data_page_size, rare.code_page_size), (4096, 8192));
        assert_eq!((rare.interrupted.register(0), rare.interrupted.register(2)), (Some(11), Some(12)));
        let cut = layout.rare(&tail[..tail.len() - 1], 0b101);
        assert!(cut.is_err());
    }
}
