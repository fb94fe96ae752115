//! The tables of the walk program, as the thread that builds them stores them.

use std::os::fd::AsFd;

use super::code_cache::CodeCache;
use super::pool::Range;
use super::runtime::{LanguageRuntime, RUNTIMES};
use super::script_engine::ScriptEngine;
use super::{BLOCK, MAX_MAPPINGS, Mapping, Mark, NoRoom, RowRange, Walker};
use crate::kernel::bpf::calls;

pub(crate) trait Store {
    /// Stores the rows of a file, sorted by their pc. They may be placed in several ranges, in order.
    fn add(&mut self, rows: &[u64]) -> Result<Vec<RowRange>, NoRoom>;
    /// Frees rows that no process uses.
    fn release(&mut self, spans: &[RowRange]);
    /// Sets the mappings of a process, sorted, with equal bounds or disjoint, at most [`MAX_MAPPINGS`].
    fn set_process(&mut self, pid: i32, mappings: &[Mapping]) -> Result<(), NoRoom>;
    /// Sets the kernel's number of a process, which may differ from its number here. Its mappings take effect then.
    fn learn(&mut self, pid: i32, number: u32) -> Result<(), NoRoom>;
    fn forget_process(&mut self, pid: i32);
    /// Stores how to walk an interpreter; returns its number, `None` if there is no room or the kernel cannot do it.
    fn add_runtime(&mut self, runtime: &LanguageRuntime) -> Option<u32>;
    /// Stores where a virtual machine has its code, like [`Self::add_runtime`].
    fn add_code_cache(&mut self, cache: &CodeCache) -> Option<u32>;
    /// Stores how an engine for JavaScript describes its functions, like [`Self::add_runtime`].
    fn add_engine(&mut self, engine: &ScriptEngine) -> Option<u32>;
    /// Frees the number of an interpreter that no process uses.
    fn drop_runtime(&mut self, number: u32);
    /// Sets the interpreter of a process until it is forgotten; 0 for none.
    fn set_runtime(&mut self, pid: i32, number: u32);
    fn held(&self) -> (usize, usize);
}

impl Store for Walker {
    fn add(&mut self, rows: &[u64]) -> Result<Vec<RowRange>, NoRoom> {
        let mut spans = Vec::new();
        let mut left = rows;
        while !left.is_empty() {
            match self.place(left) {
                Ok(span) => {
                    left = &left[span.n as usize..];
                    spans.push(span);
                }
                Err(error) => {
                    self.release(&spans);
                    return Err(error);
                }
            }
        }
        Ok(spans)
    }

    fn release(&mut self, spans: &[RowRange]) {
        for span in spans {
            let (first, n) = (span.first / BLOCK as u32, span.n.div_ceil(BLOCK as u32));
            self.rows.give_back(Range { array: span.chunk, first, n });
        }
    }

    fn set_process(&mut self, tgid: i32, mappings: &[Mapping]) -> Result<(), NoRoom> {
        let mappings = &mappings[..mappings.len().min(MAX_MAPPINGS)];
        if mappings.is_empty() {
            self.forget_process(tgid);
            return Ok(());
        }
        let range = self.mappings.get(mappings.len() as u32, self.pieces.as_fd())?.ok_or(NoRoom::Limit)?;
        let words = mappings.iter().flat_map(|m| {
            let span = m.span.unwrap_or(RowRange { chunk: 0, first: 0, n: 0, pc: 0 });
            let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
            let mark = m.mark.unwrap_or(Mark { address: 0, word: 0, is_strict: false });
            let strict = u32::from(mark.is_strict);
            [m.start, m.end, m.bias, pair(span.chunk, span.first), pair(span.n, strict), mark.address, mark.word]
        });
        self.mappings.store(range.array, self.mappings.at(range), words);
        if let Err(errno) = self.tell(tgid, range) {
            self.mappings.give_back(range);
            return Err(errno.into());
        }
        if let Some(old) = self.known.insert(tgid, range) {
            self.mappings.give_back(old);
        }
        Ok(())
    }

    fn learn(&mut self, tgid: i32, number: u32) -> Result<(), NoRoom> {
        let Some(numbers) = &mut self.numbers.0 else { return Ok(()) };
        match numbers.insert(tgid, number) {
            Some(before) if before == number => return Ok(()),
            // Another number belonged to it before.
            Some(before) => drop(calls::take(self.spaces.as_fd(), before)),
            None => {}
        }
        self.known.get(&tgid).map_or(Ok(()), |range| self.tell(tgid, *range)).map_err(NoRoom::from)
    }

    fn forget_process(&mut self, tgid: i32) {
        let number = self.numbers.of(tgid);
        if let Some(numbers) = &mut self.numbers.0 {
            numbers.remove(&tgid);
        }
        self.interpreted.remove(&tgid);
        if let Some(old) = self.known.remove(&tgid) {
            // Fails only if another process has deleted the entry.
            let _ = number.map(|number| calls::take(self.spaces.as_fd(), number));
            self.mappings.give_back(old);
        }
    }

    fn add_runtime(&mut self, runtime: &LanguageRuntime) -> Option<u32> {
        let runtime = runtime.encode(self.thread_pointer?);
        self.store_runtime(&runtime, &CodeCache::default(), &ScriptEngine::default())
    }

    fn add_code_cache(&mut self, cache: &CodeCache) -> Option<u32> {
        // Its ID is 0: it has no list of frames.
        let none = LanguageRuntime::default().encode(0);
        self.store_runtime(&none, cache, &ScriptEngine::default())
    }

    fn add_engine(&mut self, engine: &ScriptEngine) -> Option<u32> {
        let none = LanguageRuntime::default().encode(0);
        self.store_runtime(&none, &CodeCache::default(), engine)
    }

    fn drop_runtime(&mut self, number: u32) {
        if let Some(used) = self.runtimes.get_mut(number as usize).filter(|_| number > 0) {
            *used = false;
        }
    }

    fn set_runtime(&mut self, tgid: i32, number: u32) {
        if number == 0 {
            self.interpreted.remove(&tgid);
        } else {
            self.interpreted.insert(tgid, number);
        }
        // If there is no room, the process has native frames only.
        let _ = self.known.get(&tgid).map(|range| self.tell(tgid, *range));
    }

    fn held(&self) -> (usize, usize) {
        (self.rows.held() + self.mappings.held(), self.limit)
    }
}

impl Walker {
    /// Stores the descriptions of an interpreter at a free number; all but one are empty.
    fn store_runtime(&mut self, runtime: &[u8], cache: &CodeCache, engine: &ScriptEngine) -> Option<u32> {
        let number = self.runtimes.iter().position(|used| !used).unwrap_or(self.runtimes.len());
        let object = Some(&self.program.object).filter(|_| number < RUNTIMES)?;
        calls::put_bytes(object.map("runtimes").ok()?, number as u32, runtime).ok()?;
        calls::put_bytes(object.map("code_caches").ok()?, number as u32, &cache.encode()).ok()?;
        calls::put_bytes(object.map("engines").ok()?, number as u32, &engine.encode()).ok()?;
        self.runtimes.resize(self.runtimes.len().max(number + 1), false);
        self.runtimes[number] = true;
        Some(number as u32)
    }
}
