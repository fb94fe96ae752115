//! Searches the memory of a process for the state of its threads and for the names of its symbols.

use super::objects::{is_address, is_code, list, words};
use super::{LABEL, RubyLayout};
use crate::symbols::languages::ProcessMemory;

/// Where the virtual machine has its main thread, since 3.0.
const MAIN_THREAD: u64 = 40;
/// Words of the virtual machine that are searched for the main thread.
const HEAD: usize = 64;
/// Bits of a frame's kind, and those of the outermost one, which has no function.
const KIND: u64 = 0x7fff_0001;
const DUMMY: u64 = 0x7999_0001;
/// Frames of the main thread that are looked at, from the outermost one on.
const OUTERMOST: u64 = 8;
/// Bytes below the thread pointer that are searched for the state of the thread.
const BELOW: u64 = 8 << 10;
/// Words of a context, among which its thread is.
const CONTEXT: usize = 8;
/// Tables that are tried.
const TABLES: usize = 64;

impl RubyLayout {
    /// Returns the virtual machine that one of these variables points to: its main thread points
    /// back, and has frames.
    pub(super) fn find_machine(&self, variables: u64, len: u64, memory: &impl ProcessMemory) -> Option<u64> {
        let is_it = |machine: &u64| {
            let thread = machine.checked_add(MAIN_THREAD).and_then(|at| memory.word(at));
            let thread = thread.filter(|thread| self.is_thread(*thread, *machine, memory));
            thread.is_some_and(|thread| self.first_code(thread, memory).is_some())
        };
        let variables = (0..len / 8).filter_map(|i| memory.word(variables.checked_add(8 * i)?));
        variables.filter(|word| is_address(*word)).find(is_it)
    }

    fn is_thread(&self, thread: u64, machine: u64, memory: &impl ProcessMemory) -> bool {
        let own = thread.checked_add(self.machine.into()).filter(|_| is_address(thread));
        own.and_then(|at| memory.word(at)) == Some(machine)
    }

    /// Returns the main thread of a virtual machine, and the first instruction of its outermost function. Other objects
    /// point back, too.
    pub(super) fn main_thread(&self, machine: u64, memory: &impl ProcessMemory) -> Option<(u64, u64)> {
        let all = is_address(machine).then(|| words::<HEAD>(machine, memory))??;
        let mut threads = all.into_iter().filter(|thread| self.is_thread(*thread, machine, memory));
        threads.find_map(|thread| Some((thread, self.first_code(thread, memory)?)))
    }

    /// Returns the address of the first instruction of the outermost function of a thread, if its frames are as this
    /// version has them.
    pub(super) fn first_code(&self, thread: u64, memory: &impl ProcessMemory) -> Option<u64> {
        let context = memory.word(thread.checked_add(self.context.into())?)?;
        let [stack, len, innermost] = words(context, memory)?;
        let end = stack.checked_add(len.checked_mul(8)?)?;
        let frame = |i: u64| end.checked_sub(i * u64::from(self.stride)).filter(|at| *at >= innermost && *at >= stack);
        let kind = |frame: u64| Some(memory.word(memory.word(frame + 32)?)? & KIND);
        (kind(frame(1)?)? == DUMMY).then_some(())?;
        let mut codes = (2..=OUTERMOST).map_while(|i| memory.word(frame(i)? + 16));
        let code = codes.find(|code| is_code(*code, memory))?;
        let body = memory.word(code.checked_add(16)?)?;
        self.string(memory.word(body.checked_add(LABEL.into())?)?, memory)?;
        memory.word(memory.word(body.checked_add(8)?)?)
    }

    /// Returns the thread pointer of a thread: C libraries have it at its own address, and threads by it as a number.
    pub(super) fn thread_pointer(&self, thread: u64, memory: &impl ProcessMemory) -> Option<u64> {
        let number = memory.word(thread.checked_add(self.number.into())?)?;
        let pointer = match self.native {
            Some(own) => memory.word(number.checked_add(own.into())?)?,
            None => number,
        };
        (is_address(pointer) && memory.word(pointer)? == pointer).then_some(pointer)
    }

    /// Returns the position of the variable that has the context of a thread, relative to its thread pointer. The thread
    /// may go on with another context meanwhile, that of a fiber.
    pub(super) fn state(&self, thread: u64, memory: &impl ProcessMemory) -> Option<i32> {
        let pointer = self.thread_pointer(thread, memory)?;
        let is_context = |at: u64| {
            let Some(head) = words::<CONTEXT>(at, memory).filter(|_| is_address(at)) else { return false };
            let [stack, len, innermost, ..] = head;
            len > 0 && innermost.wrapping_sub(stack) / 8 < len && head.contains(&thread)
        };
        let positions = (1..=BELOW / 8).map(|i| 8 * i);
        // The variables of the main thread may begin in the middle of what is searched.
        let mut words = positions.map_while(|below| Some((below, memory.word(pointer.checked_sub(below)?)?)));
        words.find(|(_, word)| is_context(*word)).map(|(below, _)| -(below as i32))
    }

    /// Returns the address of the list of symbols, given the variables that contain the table of symbols: the number
    /// of symbols, the table from strings, and the list (symbol.h).
    pub(super) fn find_symbols(&self, data: u64, len: u64, memory: &impl ProcessMemory) -> Option<u64> {
        let entry = |i: u64| {
            let at = data.checked_add(8 * i)?;
            let [count, strings, symbols] = words(at, memory)?;
            let is_likely = (256..1 << 24).contains(&count) && is_address(strings) && is_address(symbols);
            is_likely.then_some((at + 16, symbols))
        };
        let mut tables = (0..(len / 8).saturating_sub(2)).filter_map(entry).take(TABLES);
        tables.find(|(_, symbols)| self.has_known_symbol(*symbols, memory).is_some()).map(|(at, _)| at)
    }

    /// Looks for a symbol that Ruby defines when it starts. Symbols are in lists of names and other words, in turn.
    fn has_known_symbol(&self, symbols: u64, memory: &impl ProcessMemory) -> Option<()> {
        const KNOWN: &[u8] = b"method_missing";
        let first = list(*list(symbols, memory)?.first()?, memory)?;
        let mut names = first.into_iter().step_by(2).filter(|name| is_address(*name));
        names.find(|name| self.string(*name, memory).is_some_and(|name| name == KNOWN)).map(drop)
    }
}
