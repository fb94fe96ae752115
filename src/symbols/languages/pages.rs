//! Memory of a process, read a page at a time: tables are many small pieces that lie close together.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use crate::symbols::languages::ProcessMemory;

const PAGE: u64 = 4096;
/// Pages that are read at most.
const MOST: usize = 2048;

pub(super) struct Pages<'a, M> {
    memory: &'a M,
    pages: RefCell<FxHashMap<u64, Option<Box<[u8; PAGE as usize]>>>>,
}

impl<'a, M: ProcessMemory> Pages<'a, M> {
    pub(super) fn new(memory: &'a M) -> Self {
        Self { memory, pages: RefCell::default() }
    }

    fn read_page(&self, at: u64) -> Option<Box<[u8; PAGE as usize]>> {
        let mut page = Box::new([0; PAGE as usize]);
        self.memory.read(at, &mut page[..])?;
        Some(page)
    }
}

impl<M: ProcessMemory> ProcessMemory for Pages<'_, M> {
    fn read(&self, at: u64, to: &mut [u8]) -> Option<()> {
        let mut pages = self.pages.borrow_mut();
        let mut done = 0;
        while done < to.len() {
            let from = at.checked_add(done as u64)?;
            let start = from / PAGE * PAGE;
            if pages.len() >= MOST && !pages.contains_key(&start) {
                return None;
            }
            let page = pages.entry(start).or_insert_with(|| self.read_page(start)).as_ref()?;
            let piece = &page[(from - start) as usize..];
            let n = piece.len().min(to.len() - done);
            to[done..done + n].copy_from_slice(&piece[..n]);
            done += n;
        }
        Some(())
    }
}
