//! Allocations and frees: of the kernel, of a C library, or of any events that the user names.

use std::path::Path;

use rustc_hash::FxHashMap;

use crate::panel::stacks::FrameName;
use crate::profile::RetainedStack;
use crate::record::open_spans::{OpenSpan, OpenSpans, ThreadChange};
use crate::session::Session;

use super::field::{BoundExpr, Num};
use super::{Context, EventRequest, Settings, UnitEvent, UnitSample};
use crate::units::kit::options::select::{self, SelectedEvent};

/// Larger than any address space: caps wrong sizes, so that sums do not overflow.
const LARGEST: u64 = 1 << 47;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AllocEvent {
    Alloc { at: (i32, u64), bytes: u64, tid: i32, stack: RetainedStack },
    Free { at: (i32, u64), stack: RetainedStack },
}

/// A function of the C or C++ library.
/// posix_memalign returns its result through memory, which a return probe cannot read. operator new usually has no
/// frame, so with frame pointers its caller is missing from the chain of the malloc that it calls.
struct Function {
    name: &'static str,
    /// Its symbol in the C++ library, if it belongs to that.
    cxx: Option<&'static str>,
    /// The arguments whose product is the size.
    size: &'static [usize],
    /// The argument that is freed.
    frees: Option<usize>,
    allocates: bool,
}

impl Function {
    /// The level of a function: functions may call those of lower levels.
    fn level(&self) -> u8 {
        match self.name {
            "operator_new_array" => 4,
            "operator_new" => 3,
            "realloc" | "calloc" | "memalign" | "aligned_alloc" => 2,
            "malloc" => 1,
            _ => 0,
        }
    }

    /// Whether a function may call another one before it returns.
    fn calls(&self, other: &Self) -> bool {
        self.level() > other.level()
    }
}

const FUNCTIONS: &[Function] = &[
    Function { name: "malloc", cxx: None, size: &[0], frees: None, allocates: true },
    Function { name: "calloc", cxx: None, size: &[0, 1], frees: None, allocates: true },
    Function { name: "realloc", cxx: None, size: &[1], frees: Some(0), allocates: true },
    Function { name: "memalign", cxx: None, size: &[1], frees: None, allocates: true },
    Function { name: "aligned_alloc", cxx: None, size: &[1], frees: None, allocates: true },
    Function { name: "free", cxx: None, size: &[], frees: Some(0), allocates: false },
    Function { name: "mmap", cxx: None, size: &[1], frees: None, allocates: true },
    Function { name: "munmap", cxx: None, size: &[], frees: Some(0), allocates: false },
    Function { name: "operator_new", cxx: Some("_Znwm"), size: &[0], frees: None, allocates: true },
    Function { name: "operator_new_array", cxx: Some("_Znam"), size: &[0], frees: None, allocates: true },
];

/// The registers of the first arguments (System V x86-64, AAPCS64).
const ARGUMENTS: [&str; 2] = if cfg!(target_arch = "aarch64") { ["%x0", "%x1"] } else { ["%di", "%si"] };

/// The location of a function's return address at its entry.
const CALLER: &str = if cfg!(target_arch = "aarch64") { "%x30" } else { "+0(%sp)" };

/// Prefixes of functions that allocate on behalf of their caller.
const WRAPPERS: &[&str] = &[
    "operator new",
    "malloc",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "mmap",
    "__mmap",
    "__libc_malloc",
    "__libc_calloc",
    "__libc_realloc",
    "__libc_memalign",
    "std::allocator",
    "std::__new_allocator",
    "__gnu_cxx::new_allocator",
    "std::__allocate_guarded",
    "__rust_alloc",
    "__rustc::__rust_alloc",
    "__rdl_alloc",
    "__rustc::__rdl_alloc",
    "alloc::alloc::",
    "alloc::raw_vec::",
    "<alloc::alloc::Global",
    "g_malloc",
    "g_slice_alloc",
    "kmalloc",
    "__kmalloc",
    "__do_kmalloc",
    "kmem_cache_alloc",
    "__kmem_cache_alloc",
    "kvmalloc",
    "__kvmalloc",
    "krealloc",
    "kvrealloc",
    "kzalloc",
    "kcalloc",
];

/// Returns the frames up to the allocating function, outermost first, without wrappers unless there are only those.
pub(crate) fn without_wrappers(frames: &[FrameName]) -> &[FrameName] {
    let wraps = |name: &&FrameName| WRAPPERS.iter().any(|wrapper| name.text.starts_with(wrapper));
    let own = frames.len() - frames.iter().rev().take_while(wraps).count();
    if own == 0 { frames } else { &frames[..own] }
}

const KERNEL_ALLOC: &[&str] =
    &["kmem:kmalloc", "kmem:kmem_cache_alloc", "kmem:kmalloc_node", "kmem:kmem_cache_alloc_node"];
const KERNEL_FREE: &[&str] = &["kmem:kfree", "kmem:kmem_cache_free"];

#[derive(Clone, Debug)]
enum Role {
    Alloc(SelectedEvent),
    Free(SelectedEvent),
    /// A function of the library is called, or returns.
    Call(usize),
    Return(usize),
}

#[derive(Clone, Debug)]
enum Fields {
    Alloc { at: BoundExpr, bytes: BoundExpr },
    Free { at: BoundExpr },
    Call { args: [Option<Num>; 2] },
    Return { value: Num },
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    bytes: u64,
    freed: u64,
    stack: RetainedStack,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct AllocReader {
    roles: Vec<Role>,
    fields: FxHashMap<u16, Fields>,
    /// Pending calls by thread, with the index of the function.
    pending: OpenSpans<i32, usize, Pending>,
    library: Option<String>,
    cxx: Option<String>,
    /// Whether addresses belong to processes rather than the kernel.
    by_process: bool,
    /// The pointer's expression, for events without their own.
    pointer: Option<String>,
}

impl AllocReader {
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let (allocs, frees) = (settings.all("alloc"), settings.all("free"));
        let flat = |lists: Vec<Vec<SelectedEvent>>| lists.into_iter().flatten().collect::<Vec<SelectedEvent>>();
        let (mut allocs, mut frees) = (flat(select::lists(allocs)?), flat(select::lists(frees)?));
        let mut steps = select::lists(settings.all("event"))?.into_iter();
        if let Some(first) = steps.next() {
            if !allocs.is_empty() || !frees.is_empty() {
                return Err("events are named by -e, or by --alloc and --free".to_owned());
            }
            (allocs, frees) = (first, steps.flatten().collect());
            if frees.is_empty() {
                return Err("expected -e twice: allocating events, then freeing events".to_owned());
            }
        }
        if allocs.is_empty() != frees.is_empty() {
            return Err("--alloc and --free must be given together".to_owned());
        }
        let user = settings.has("library") || !settings.processes().is_empty();
        let mut roles: Vec<Role> = Vec::new();
        let (mut library, mut cxx) = (None, None);
        let by_process = if !allocs.is_empty() {
            roles.extend(allocs.into_iter().map(Role::Alloc));
            roles.extend(frees.into_iter().map(Role::Free));
            user
        } else if user {
            let first = settings.processes().first().copied().unwrap_or(0);
            // A command that has not started is assumed to use this program's library, or else the system's.
            let found = settings.get("library").map(str::to_owned);
            let found = found.or_else(|| Session::libc_of(first)).or_else(|| Session::libc_of(0));
            let found = found.or_else(|| Session::libc_of_system(Path::new("/")));
            let found = found.ok_or("the C library of the target is unknown: name it with --library FILE")?;
            cxx = Session::cxx_of(first, &found);
            library = Some(found);
            let there = |function: &Function| function.cxx.is_none() || cxx.is_some();
            for (i, function) in FUNCTIONS.iter().enumerate().filter(|(_, function)| there(function)) {
                roles.push(Role::Call(i));
                roles.extend(function.allocates.then_some(Role::Return(i)));
            }
            true
        } else {
            let named = |event: &&str| SelectedEvent { event: (*event).to_owned(), ..SelectedEvent::default() };
            roles.extend(KERNEL_ALLOC.iter().map(|event| Role::Alloc(named(event))));
            roles.extend(KERNEL_FREE.iter().map(|event| Role::Free(named(event))));
            false
        };
        let pointer = settings.get("key").map(str::to_owned);
        let (fields, pending) = (FxHashMap::default(), OpenSpans::nested());
        Ok(Self { roles, fields, pending, library, cxx, by_process, pointer })
    }

    pub(crate) fn source_label(&self) -> String {
        match &self.library {
            Some(library) => format!("functions of {library}"),
            None if self.by_process => "the named events".to_owned(),
            None => "the kernel's slabs".to_owned(),
        }
    }

    /// The probe of a function under an event's name, as in `probe --add`.
    fn place(&self, function: usize, event: &str) -> String {
        let Function { name, cxx, .. } = &FUNCTIONS[function];
        let library = if cxx.is_some() { &self.cxx } else { &self.library };
        format!("-x {} {event}={}", library.as_deref().unwrap_or_default(), cxx.unwrap_or(name))
    }

    /// Returns the required events. Alternative names of kernel allocation events are optional.
    pub(crate) fn wants(&self, stack: bool) -> Vec<EventRequest> {
        let want = |role: &Role| match role {
            Role::Alloc(selected) | Role::Free(selected) => {
                let known = KERNEL_ALLOC.iter().chain(KERNEL_FREE).position(|event| *event == selected.event);
                let want = selected.want(stack);
                // All kernels have kmalloc and kfree; the other events depend on the version.
                if known.is_some_and(|at| at != 0 && at != KERNEL_ALLOC.len()) { want.optional() } else { want }
            }
            Role::Call(i) => {
                let name = FUNCTIONS[*i].name;
                let [first, second] = ARGUMENTS;
                let probe = format!("{} a0={first}:u64 a1={second}:u64 caller={CALLER}:u64", self.place(*i, name));
                let caller = Some("caller".to_owned());
                let want = EventRequest { probe: Some(probe), caller, ..EventRequest::new(name) }.with_stack(stack);
                if matches!(name, "malloc" | "free") { want } else { want.optional() }
            }
            Role::Return(i) => {
                let name = FUNCTIONS[*i].name;
                let probe = format!("{}%return value=$retval:u64", self.place(*i, name));
                let want = EventRequest { probe: Some(probe), ..EventRequest::new(format!("{name}__return")) };
                if name == "malloc" { want } else { want.optional() }
            }
        };
        self.roles.iter().map(want).collect()
    }

    pub(crate) fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        let pointer = |selected: &SelectedEvent| {
            let own = selected.get("ptr").or_else(|| selected.get("key")).or(self.pointer.as_deref());
            BoundExpr::parse(own.unwrap_or("ptr"), event.format)
        };
        let fields = match &self.roles[event.role] {
            Role::Alloc(selected) => Fields::Alloc {
                at: pointer(selected)?,
                bytes: BoundExpr::parse(selected.get("size").unwrap_or("bytes_alloc"), event.format)?,
            },
            Role::Free(selected) => Fields::Free { at: pointer(selected)? },
            Role::Call(_) => {
                let args = ["a0", "a1"].map(|name| Num::of(event.format, name).ok());
                Fields::Call { args }
            }
            Role::Return(_) => Fields::Return { value: Num::any(event.format, &["value", "arg1"])? },
        };
        self.fields.insert(event.number, fields);
        Ok(())
    }

    /// Decodes a hit: first its free, then its allocation.
    pub(crate) fn read(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) -> [Option<AllocEvent>; 2] {
        let pid = if self.by_process { hit.pid } else { 0 };
        let Some(fields) = self.fields.get(&hit.event) else { return [None, None] };
        let alloc = |address: u64, bytes: u64, stack: RetainedStack| {
            // Null and MAP_FAILED are failures.
            let there = address != 0 && address < u64::MAX - 4095;
            there.then_some(AllocEvent::Alloc { at: (pid, address), bytes: bytes.min(LARGEST), tid: hit.tid, stack })
        };
        let free = |address: u64, stack: RetainedStack| {
            (address != 0).then_some(AllocEvent::Free { at: (pid, address), stack })
        };
        match (fields, &self.roles[hit.role]) {
            (Fields::Alloc { at, bytes }, _) => {
                let at = at.with(hit, cx.names, None, |value| value.int()).map_or(0, |n| n as u64);
                [None, alloc(at, bytes.count(hit, cx.names).unwrap_or(0), hit.stack)]
            }
            (Fields::Free { at }, _) => {
                let at = at.with(hit, cx.names, None, |value| value.int()).map_or(0, |n| n as u64);
                [free(at, hit.stack), None]
            }
            (Fields::Call { args }, Role::Call(function)) => {
                let arg = |i: usize| args.get(i).and_then(Option::as_ref).map_or(0, |num| num.get(hit.raw) as u64);
                let own = &FUNCTIONS[*function];
                let bytes = own.size.iter().map(|i| arg(*i)).fold(1u64, u64::saturating_mul);
                let freed = own.frees.map_or(0, arg);
                // A call inside of one that cannot make it: the outer call ended without a return event, because of an
                // exception or a lost record.
                while self.pending.get(&hit.tid).is_some_and(|call| !FUNCTIONS[call.what].calls(own)) {
                    self.pending.take(&hit.tid);
                }
                if !own.allocates {
                    // munmap inside of malloc is internal to the library.
                    let is_outer = self.pending.get(&hit.tid).is_none();
                    return [if is_outer { free(freed, hit.stack) } else { None }, None];
                }
                self.pending.begin(hit.tid, *function, hit.time, Pending { bytes, freed, stack: hit.stack });
                [None, None]
            }
            (Fields::Return { value }, Role::Return(function)) => {
                let address = value.get(hit.raw) as u64;
                let Some((call, _)) = self.pending.end(&hit.tid, function) else { return [None, None] };
                // An allocation inside of another library call belongs to the outer call.
                if self.pending.get(&hit.tid).is_some() {
                    return [None, None];
                }
                let call = call.with;
                let made = alloc(address, call.bytes, call.stack);
                let gone = if made.is_some() { free(call.freed, call.stack) } else { None };
                [gone, made]
            }
            _ => [None, None],
        }
    }

    /// Forgets pending calls after lost records: they may have returned.
    pub(crate) fn lost(&mut self) {
        self.pending.forget();
    }

    pub(crate) fn thread_changed(&mut self, change: &ThreadChange) {
        self.pending.follow(change, |tid| tid);
    }
}

pub(crate) type LiveBlock<B> = OpenSpan<(), B>;

/// Allocated blocks by process and address.
#[derive(Clone, Debug)]
pub(crate) struct Blocks<B> {
    by_process: FxHashMap<i32, ProcessBlocks<B>>,
    /// Blocks of ended processes whose ids are reused.
    former: Vec<ProcessBlocks<B>>,
    len: usize,
}

#[derive(Clone, Debug)]
struct ProcessBlocks<B> {
    open: OpenSpans<u64, (), B>,
    /// When the process ended: its blocks do not get older.
    until: u64,
}

const MAX_BLOCKS: usize = 8_000_000;

impl<B> Default for Blocks<B> {
    fn default() -> Self {
        Self { by_process: FxHashMap::default(), former: Vec::new(), len: 0 }
    }
}

impl<B> Blocks<B> {
    pub(crate) fn is_full(&self) -> bool {
        self.len >= MAX_BLOCKS
    }

    /// Adds a block. Returns the previous block at its address, whose free was not seen.
    pub(crate) fn alloc(&mut self, (pid, address): (i32, u64), time: u64, with: B) -> Option<LiveBlock<B>> {
        let own = self
            .by_process
            .entry(pid)
            .or_insert_with(|| ProcessBlocks { open: OpenSpans::one_by_one().of_most(MAX_BLOCKS), until: u64::MAX });
        // Its first thread may end before the others.
        own.until = u64::MAX;
        let before = own.open.replace(address, (), time, with);
        self.len += usize::from(before.is_none());
        before
    }

    pub(crate) fn free(&mut self, (pid, address): (i32, u64)) -> Option<LiveBlock<B>> {
        let freed = self.by_process.get_mut(&pid)?.open.take(&address)?;
        self.len -= 1;
        Some(freed)
    }

    /// Iterates over all blocks, including those of ended processes, with their age at a time or at their process's end.
    pub(crate) fn ages(&self, now: u64) -> impl Iterator<Item = (u64, &LiveBlock<B>)> {
        let all = self.by_process.values().chain(&self.former);
        all.flat_map(move |own| own.open.iter().map(move |(_, block)| (block.took(own.until.min(now)), block)))
    }

    /// Follows processes: an exec removes and returns the blocks of the old program.
    /// The blocks of an ended process stay; its id may be reused with another address space.
    pub(crate) fn thread_changed(&mut self, change: &ThreadChange, time: u64) -> Option<OpenSpans<u64, (), B>> {
        match change {
            ThreadChange::Born { pid, tid } if pid == tid => {
                self.former.extend(self.by_process.remove(pid));
                None
            }
            ThreadChange::Exec { pid, .. } => {
                let gone = self.by_process.remove(pid)?.open;
                self.len -= gone.len();
                Some(gone)
            }
            ThreadChange::Ended { pid, tid } if pid == tid => {
                self.by_process.get_mut(pid)?.until = time;
                None
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::DsoKind;

    #[test]
    fn blocks_of_an_ended_process_do_not_get_older() {
        let mut blocks = Blocks::default();
        let ages = |blocks: &Blocks<()>, now: u64| {
            let mut ages: Vec<u64> = blocks.ages(now).map(|(age, _)| age).collect();
            ages.sort_unstable();
            ages
        };
        for (pid, time) in [(7, 100), (8, 150)] {
            blocks.alloc((pid, 0x10), time, ());
        }
        blocks.thread_changed(&ThreadChange::Ended { pid: 7, tid: 9 }, 200);
        assert_eq!(ages(&blocks, 300), [150, 200], "another thread ended");
        blocks.thread_changed(&ThreadChange::Ended { pid: 7, tid: 7 }, 200);
        assert_eq!((ages(&blocks, 300), ages(&blocks, 180)), (vec![100, 150], vec![30, 80]));
        // Its number belongs to another process now.
        blocks.thread_changed(&ThreadChange::Born { pid: 7, tid: 7 }, 400);
        blocks.alloc((7, 0x10), 450, ());
        assert_eq!(ages(&blocks, 500), [50, 100, 350]);
        // The first thread ended, others go on.
        blocks.thread_changed(&ThreadChange::Ended { pid: 8, tid: 8 }, 500);
        blocks.alloc((8, 0x20), 600, ());
        assert_eq!(ages(&blocks, 700), [100, 100, 250, 550]);
    }

    #[test]
    fn what_hands_memory_out_is_stepped_over() {
        let said = |frames: &[&str]| {
            let name = |text: &&str| FrameName { text: (*text).into(), kind: DsoKind::Unknown, dso: "".into() };
            crate::units::kit::tables::stack_labels::line(without_wrappers(
                &frames.iter().map(name).collect::<Vec<_>>(),
            ))
        };
        assert_eq!(said(&["main", "load", "operator new(unsigned long)", "malloc"]), "load < main");
        assert_eq!(
            said(&["main", "std::allocator<int>::allocate(unsigned long)", "operator new(unsigned long)"]),
            "main"
        );
        assert_eq!(said(&["main", "malloc", "grow"]), "grow < malloc < main", "only innermost wrappers are removed");
        assert_eq!(said(&["operator new(unsigned long)", "malloc"]), "malloc < operator new(unsigned long)");
        assert_eq!(said(&[]), "–");
    }
}
