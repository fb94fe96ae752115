//! Resolves (DSO, address) to a function; loads each file's tables once.

use std::ops::Range;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::bytes::Bytes;
use super::debug_image::NameSource;
use super::elf;
use super::jit::jits::{JitVisit, Jits};
use super::moved_text::MovedText;
use super::names::demangle::{NameForm, demangle};
use super::names::kallsyms::Kallsyms;
use super::names::loaded::{FileRead, LoadedFiles, Symbolized};
use super::names::objects::{self, Variables};
use super::names::shipped;
use super::names::table::{Symbol, SymbolTable};
use super::options::{MAX_FILES, SymbolOptions};
use super::problem::Problem;
use super::shares::Shares;
use super::trust::door;
use super::trust::find_file;
use super::trust::isolated::run_isolated;
use crate::kernel::process::limits::Rights;
use crate::kernel::process::privilege;
use crate::perfdata::unpack::UnpackBudget;
use crate::record::interpreted::FUNCTION_LEN;
use crate::record::kinds::BuildId;
use crate::session::hosts::HostId;
use crate::session::{Dso, DsoId, DsoKind};

/// The owner of tables that came with a stream: not a user of this machine.
const GIVEN: u32 = u32::MAX;

/// The prefix of the kernel's symbols for the padding before a function (`tools/objtool/elf.c`).
const PADDING: &str = "__pfx_";

/// The identity of a file: DSOs with the same key are the same file.
/// A build ID identifies files of one user only, because another user could give a file the same build ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Id(BuildId, u32),
    Dso(DsoId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    File(Key),
    Jit(DsoId),
    Moved(DsoId),
    Variables(DsoId),
}

/// The chain of name sources, owned by one thread.
#[derive(Debug)]
pub struct Resolver {
    options: SymbolOptions,
    kernels: FxHashMap<HostId, LoadedFiles>,
    /// The file of each DSO; `None` if it does not have names.
    keys: FxHashMap<DsoId, Option<Key>>,
    files: FxHashMap<Key, LoadedFiles>,
    pub(crate) jits: Jits,
    /// Program text moved to anonymous memory, by the DSO of that memory.
    moved: FxHashMap<DsoId, MovedText>,
    /// The static variables of files; `None` if they cannot be read.
    variables: FxHashMap<DsoId, Option<Variables>>,
    shares: Shares<Holder>,
    pub(crate) found: Findings,
}

/// Facts about files that lookups found.
#[derive(Debug, Default)]
pub struct Findings {
    /// DSOs without names, and why.
    pub problems: Vec<(DsoId, Problem)>,
    /// Sources of DSOs' names.
    pub sources: Vec<(DsoId, NameSource)>,
    /// Files without names of their own; a debug file would have them.
    pub stripped: Vec<(DsoId, BuildId)>,
    /// Build IDs of files that no record had.
    pub identified: Vec<(DsoId, BuildId)>,
}

impl Resolver {
    /// Creates a resolver without tables. Each is read when a frame of its DSO is resolved.
    pub fn new(options: SymbolOptions) -> Self {
        Self {
            shares: Shares::new(options.budget, MAX_FILES),
            options,
            kernels: FxHashMap::default(),
            keys: FxHashMap::default(),
            files: FxHashMap::default(),
            jits: Jits::default(),
            moved: FxHashMap::default(),
            variables: FxHashMap::default(),
            found: Findings::default(),
        }
    }

    pub(crate) fn has_own_kernel(&self) -> bool {
        self.options.same_kernel
    }

    /// Returns whether no more names are wanted.
    pub(crate) fn is_given_up(&self) -> bool {
        self.options.ends.given_up().is_some()
    }

    pub(crate) fn memory(&self) -> usize {
        self.shares.total() + self.kernels.values().map(LoadedFiles::memory).sum::<usize>()
    }

    pub(crate) fn set_form(&mut self, form: NameForm) {
        if self.options.form != form {
            self.options.form = form;
            self.kernels.values_mut().for_each(LoadedFiles::forget_shown);
            for (key, loaded) in &mut self.files {
                loaded.forget_shown();
                self.shares.update(Holder::File(*key), loaded.memory());
            }
        }
    }

    /// Makes the next lookup search a DSO's names again. It is called when more is known about the DSO.
    pub(crate) fn forget(&mut self, dso: &Dso) {
        if dso.kind.is_kernel() {
            self.kernels.remove(&dso.host);
        }
        if let Some(Some(key)) = self.keys.remove(&dso.id) {
            self.files.remove(&key);
            self.shares.give_back(Holder::File(key));
        }
        self.variables.remove(&dso.id);
        self.shares.give_back(Holder::Variables(dso.id));
        self.found.problems.retain(|(of, _)| *of != dso.id);
    }

    /// Returns the function at an address of a DSO, or the variable at one that [`objects::data_address`] has marked.
    /// [`crate::session::maps::Map::to_dso`] converts addresses.
    pub fn resolve(&mut self, dso: &Dso, addr: u64) -> Option<Symbolized> {
        if let (DsoKind::File, Some(at)) = (dso.kind, objects::unmarked(addr)) {
            return self.variable(dso, at);
        }
        let form = self.options.form;
        match dso.kind {
            DsoKind::Kernel | DsoKind::Module => {
                let kernel = self.kernel(dso);
                // KASLR does not move modules together with the kernel's own text.
                let moved = if dso.kind == DsoKind::Kernel { kernel.moved } else { 0 };
                let addr = addr.wrapping_sub(moved);
                let mut found = kernel.find(addr, form).ok().flatten()?;
                // Calls are looked up at the byte before their return address. Padding does not call, so the address
                // after its end is not a return address: an interrupt hit the function's first instruction.
                if found.name.starts_with(PADDING) && addr.wrapping_add(1) == found.end {
                    found = kernel.find(found.end, form).ok().flatten().unwrap_or(found);
                }
                Some(Symbolized { start: found.start.wrapping_add(moved), end: found.end.wrapping_add(moved), ..found })
            }
            // The event that reported the program has its name; the symbol has its bounds.
            DsoKind::Bpf => {
                let known = self.kernel(dso).find(addr, form).ok().flatten().filter(|found| found.name == dso.path);
                Some(known.unwrap_or_else(|| Symbolized::whole(dso)))
            }
            DsoKind::File | DsoKind::Vdso => self.in_file(dso, addr),
            DsoKind::Anon => self.jitted(dso, addr),
            DsoKind::Interpreted(_) => {
                let (start, name) = (addr & !(FUNCTION_LEN - 1), dso.functions.find(addr)?.name);
                Some(Symbolized { start, end: start + FUNCTION_LEN, name, is_symbol: true })
            }
            DsoKind::Cut => Some(Symbolized::whole(dso)),
            DsoKind::Unknown | DsoKind::Guest => None,
        }
    }

    /// Returns whether a lookup in a DSO does not have to read its file first.
    pub(crate) fn has_read(&self, dso: &Dso) -> bool {
        match dso.kind {
            DsoKind::Kernel | DsoKind::Module | DsoKind::Bpf => self.kernels.contains_key(&dso.host),
            DsoKind::File | DsoKind::Vdso => self.keys.contains_key(&dso.id),
            DsoKind::Anon | DsoKind::Interpreted(_) | DsoKind::Cut | DsoKind::Unknown | DsoKind::Guest => true,
        }
    }

    /// Takes the problems since the last call: DSOs without names, and why.
    pub fn take_problems(&mut self) -> Vec<(DsoId, Problem)> {
        std::mem::take(&mut self.found.problems)
    }

    fn kernel(&mut self, dso: &Dso) -> &mut LoadedFiles {
        if !self.kernels.contains_key(&dso.host) {
            let loaded = self.load_kernel(dso);
            self.kernels.insert(dso.host, loaded);
        }
        self.kernels.entry(dso.host).or_default()
    }

    /// Returns whether a process's JIT has unread data. Then its functions may get names later.
    pub fn is_behind(&self, dso: &Dso) -> bool {
        dso.kind == DsoKind::Anon && self.jits.is_behind(dso.id)
    }

    /// Returns whether [`Self::read_on`] has work to do.
    pub fn are_behind(&self) -> bool {
        self.jits.are_behind()
    }

    /// Reads a little more of what JITs write.
    pub fn read_on(&mut self) {
        if let Some(visit) = self.jits.read_on(&self.options) {
            self.visited(visit);
        }
    }

    fn jitted(&mut self, dso: &Dso, addr: u64) -> Option<Symbolized> {
        let holder = Holder::Jit(dso.id);
        self.shares.ask(holder);
        self.jits.follow(dso, &self.options, self.shares.most() / 2);
        if self.jits.find(dso.id, addr).is_none()
            && let Some(visit) = self.jits.visit(dso.id, &self.options)
        {
            self.visited(visit);
        }
        let Some(Symbol { start, end, name }) = self.jits.find(dso.id, addr) else { return self.moved(dso, addr) };
        Some(Symbolized { start, end, name: demangle(name, self.options.form).into(), is_symbol: true })
    }

    fn moved(&mut self, dso: &Dso, addr: u64) -> Option<Symbolized> {
        let (form, mut purse) = (self.options.form, self.purse());
        let moved = self.moved.entry(dso.id).or_default();
        let found = moved.find(
            dso,
            addr,
            &self.options,
            |of, options| {
                let (of, options) = (of.clone(), options.clone());
                let read = run_isolated(move || FileRead::of(&of, &options, &mut purse)).ok()?.ok()?;
                Some((read.names.ok()?.0, read.user))
            },
            form,
        );
        let (user, memory) = (moved.user(), moved.memory());
        self.shares.ask(Holder::Moved(dso.id));
        self.shares.hold(Holder::Moved(dso.id), user, memory);
        self.make_room();
        found
    }

    fn variable(&mut self, dso: &Dso, at: u64) -> Option<Symbolized> {
        let (form, holder) = (self.options.form, Holder::Variables(dso.id));
        self.shares.ask(holder);
        if !self.variables.contains_key(&dso.id) {
            let (of, options, mut purse) = (dso.clone(), self.options.clone(), self.purse());
            let read = run_isolated(move || Variables::read(&of, &options, &mut purse)).ok().flatten();
            if let Some((variables, user)) = &read {
                self.shares.hold(holder, *user, variables.memory());
            }
            self.variables.insert(dso.id, read.map(|(variables, _)| variables));
            self.make_room();
        }
        self.variables.get(&dso.id)?.as_ref()?.find(at, form)
    }

    fn visited(&mut self, visit: JitVisit) {
        self.shares.hold(Holder::Jit(visit.dso), visit.user, visit.memory);
        self.found.problems.extend(visit.result.err().map(|why| (visit.dso, why.into())));
        self.found.problems.extend(visit.left_out.map(|why| (visit.dso, Problem::partial(why))));
        self.make_room();
    }

    /// Looks up several addresses in one batch per DSO.
    pub(crate) fn prepare<'a>(&mut self, places: impl Iterator<Item = (&'a Dso, u64)>) {
        let is_function = |(dso, addr): &(&Dso, u64)| dso.kind == DsoKind::File && objects::unmarked(*addr).is_none();
        let places: Vec<(&Dso, u64)> = places.filter(is_function).collect();
        let form = self.options.form;
        for of in places.chunk_by(|a, b| a.0.id == b.0.id) {
            if self.is_given_up() {
                return;
            }
            self.ask(of[0].0, |loaded| loaded.prepare(of.iter().map(|(_, addr)| *addr), form).map(|()| None));
        }
    }

    fn in_file(&mut self, dso: &Dso, addr: u64) -> Option<Symbolized> {
        let form = self.options.form;
        self.ask(dso, |loaded| loaded.find(addr, form))
    }

    /// Returns the addresses around one for which [`Self::resolve`] returns the same function of a file that was read.
    pub(crate) fn same(&self, dso: &Dso, addr: u64) -> Option<Range<u64>> {
        if dso.kind != DsoKind::File || objects::unmarked(addr).is_some() {
            return None;
        }
        let key = self.keys.get(&dso.id).copied()??;
        self.files.get(&key)?.same(addr)
    }

    /// Looks up an address in a file. A file whose parser fails does not have names from then on.
    fn ask(
        &mut self,
        dso: &Dso,
        ask: impl FnOnce(&mut LoadedFiles) -> Result<Option<Symbolized>, String>,
    ) -> Option<Symbolized> {
        let (key, loaded) = self.file(dso)?;
        let before = loaded.memory();
        let found = ask(loaded);
        let now = loaded.memory();
        let found = found.unwrap_or_else(|why| {
            self.keys.insert(dso.id, None);
            self.found.problems.push((dso.id, why.into()));
            None
        });
        if now != before {
            self.shares.update(Holder::File(key), now);
            self.make_room();
        }
        found
    }

    fn file(&mut self, dso: &Dso) -> Option<(Key, &mut LoadedFiles)> {
        let known = self.keys.get(&dso.id).copied();
        let key = known.unwrap_or(Some(Key::Dso(dso.id)))?;
        if known.is_some() && self.files.contains_key(&key) {
            self.shares.ask(Holder::File(key));
            return Some((key, self.files.get_mut(&key)?));
        }
        let read = self.load_file(dso).map_err(|why| {
            let why = why.of_build(dso.build_id.filter(|_| dso.kind == DsoKind::File));
            // Memory does not have a file, so its absence is not a problem.
            self.found.problems.extend((!dso.is_memory()).then_some((dso.id, why)));
        });
        self.keys.insert(dso.id, read.as_ref().ok().map(|(key, ..)| *key));
        let (key, loaded, user, from) = read.ok()?;
        self.found.sources.extend(known.is_none().then_some((dso.id, from)));
        if !self.files.contains_key(&key) {
            self.shares.hold(Holder::File(key), user, loaded.memory());
            self.files.insert(key, loaded);
            self.make_room();
        }
        Some((key, self.files.get_mut(&key)?))
    }

    fn make_room(&mut self) {
        for holder in self.shares.excess() {
            match holder {
                Holder::File(key) => drop(self.files.remove(&key)),
                Holder::Moved(dso) => drop(self.moved.remove(&dso)),
                Holder::Variables(dso) => drop(self.variables.remove(&dso)),
                Holder::Jit(dso) => self.jits.rest(dso, self.options.live),
            }
        }
    }

    fn purse(&self) -> UnpackBudget {
        UnpackBudget::new(self.shares.most())
    }

    fn load_kernel(&mut self, dso: &Dso) -> LoadedFiles {
        let given = self.options.given(dso).and_then(|given| given.table(shipped::KERNEL, &mut self.purse()));
        if let Some((table, text)) = given {
            return moved(table, text, dso);
        }
        if let Some(path) = self.options.vmlinux.clone() {
            let image = door::own(&path).and_then(|file| Bytes::of(&file)).map_err(|e| e.to_string());
            match image.and_then(|bytes| elf::kernel(&bytes, &mut self.purse()).map_err(|e| e.to_string())) {
                Ok((_, _, Some(have))) if dso.build_id.is_some_and(|want| want != have) => {
                    let why = format!("{} belongs to another kernel: its build id is {have}", path.display());
                    self.found.problems.push((dso.id, why.into()));
                }
                Ok((table, text, _)) => return moved(table, text, dso),
                Err(e) => self.found.problems.push((dso.id, format!("{}: {e}", path.display()).into())),
            }
        }
        let cached = || find_file::in_cache(&self.options.caches, dso.build_id.as_ref()?, "kallsyms");
        let path = self.options.kallsyms(dso).map(Path::to_owned).or_else(cached);
        let named = |path: &Path, e| format!("the kernel's symbols cannot be read from {}: {e}", path.display());
        match path.map(|path| Kallsyms::read(&path).map_err(|e| named(&path, e))) {
            Some(Ok(kernel)) if !kernel.restricted => return moved(kernel.table, kernel.text, dso),
            Some(Ok(_)) => {
                let why = match self.options.kallsyms.as_deref() {
                    Some(path) if path != Path::new("/proc/kallsyms") => {
                        format!("{} has only hidden addresses: all are 0", path.display())
                    }
                    _ => {
                        let (why, remedy) = privilege::names_hidden(&Rights::read());
                        format!("{why}; {remedy}")
                    }
                };
                self.found.problems.push((dso.id, why.into()));
            }
            Some(Err(why)) => self.found.problems.push((dso.id, why.into())),
            None => {}
        }
        LoadedFiles::default()
    }

    fn load_file(&mut self, dso: &Dso) -> Result<(Key, LoadedFiles, u32, NameSource), Problem> {
        let mut purse = self.purse();
        if let Some((table, _)) = self.options.given(dso).and_then(|given| given.table(&dso.path, &mut purse)) {
            let key = dso.build_id.map_or(Key::Dso(dso.id), |id| Key::Id(id, GIVEN));
            return Ok((key, LoadedFiles::new(vec![table]), GIVEN, NameSource::unusual("the recorded machine")));
        }
        let (of, options) = (dso.clone(), self.options.clone());
        let file = run_isolated(move || FileRead::of(&of, &options, &mut purse))??;
        let key = file.build_id.map_or(Key::Dso(dso.id), |id| Key::Id(id, file.user));
        self.found.identified.extend(file.build_id.filter(|_| dso.build_id.is_none()).map(|id| (dso.id, id)));
        self.found.stripped.extend(file.build_id.filter(|_| !file.whole).map(|id| (dso.id, id)));
        self.found.problems.extend(file.problems.into_iter().map(|why| (dso.id, why)));
        let (loaded, from) = file.names?;
        Ok((key, loaded, file.user, from))
    }
}

/// Returns a kernel's table, moved to the text's address in the recording.
fn moved(table: SymbolTable, text: Option<u64>, dso: &Dso) -> LoadedFiles {
    let moved = match (dso.text, text) {
        (Some(then), Some(here)) => then.wrapping_sub(here),
        _ => 0,
    };
    let mut loaded = LoadedFiles::new(vec![table]);
    (loaded.moved, loaded.has_labels) = (moved, true);
    loaded
}

#[cfg(test)]
mod tests;
