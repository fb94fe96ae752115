//! Source lines and inlined functions of addresses, from DWARF.
//! See DWARF 5, sections 3.3.8 and 6.2. Much slower than functions, so only requested for what is shown.

use std::path::PathBuf;
use std::sync::Arc;

use gimli::{Dwarf, DwarfSections, EndianSlice, RunTimeEndian, SectionId};
use object::Object;
use rustc_hash::{FxHashMap, FxHashSet};
use self_cell::self_cell;

use super::cost::{self, UNREAD};
use super::split::SplitFiles;
use crate::kernel::process::own_memory;
use crate::kernel::procfs;
use crate::perfdata::unpack::{UnpackBudget, UnpackError};
use crate::record::interpreted;
use crate::session::{Dso, DsoId, DsoKind};
use crate::symbols::bytes::{Bytes, Part};
use crate::symbols::debug_image::Image;
use crate::symbols::elf::go_table::{GoPlace, GoTable};
use crate::symbols::elf::section::Shape;
use crate::symbols::elf::{self, ElfSegments};
use crate::symbols::names::demangle::{NameForm, demangle};
use crate::symbols::options::{MAX_FILES, SymbolOptions};
use crate::symbols::problem::Problem;
use crate::symbols::shares::Shares;
use crate::symbols::trust::door::TrustedUids;
use crate::symbols::trust::isolated::run_isolated;

/// A place in the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLine {
    pub(crate) file: Arc<str>,
    /// 0 if it does not belong to a line.
    pub(crate) line: u32,
}

impl SourceLine {
    /// Returns `name.c:12`, without the directory.
    pub(crate) fn short(&self) -> String {
        format!("{}:{}", self.file.rsplit('/').next().unwrap_or(&self.file), self.line)
    }
}

/// One of the functions at an address. It is inlined into the next one, or the one that was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlinedFrame {
    /// The demangled name; `None` if the debug information does not have one.
    pub function: Option<Arc<str>>,
    /// The line of the address, or of the call of the function inlined here.
    pub line: Option<SourceLine>,
}

/// Lookups between two checks of the memory in use.
const PATIENCE: u32 = 2048;
/// Addresses of a file that are looked up in one batch.
const AT_ONCE: usize = 256;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
type Context<'a> = addr2line::Context<Slice<'a>>;

self_cell!(
    struct Parsed {
        owner: Sections,
        #[not_covariant]
        dependent: Context,
    }
);

/// The sections that DWARF is parsed from. First come a file's own, then those of its shared file.
struct Sections {
    main: Bytes,
    files: Vec<(DwarfSections<Part>, RunTimeEndian)>,
    /// Split DWARF files; set once the sections are loaded.
    split: Option<SplitFiles>,
}

impl Sections {
    /// Returns `None` if there is no DWARF. Fails if a section is damaged, or the budget is too small to decompress it.
    fn new(image: &Image, purse: &mut UnpackBudget) -> Result<Option<Self>, UnpackError> {
        let mut out = Self { main: image.dwarf().clone(), files: Vec::new(), split: None };
        for bytes in std::iter::once(&out.main).chain(&image.shared) {
            let Ok(file) = elf::parse(bytes) else { return Ok(None) };
            if out.files.is_empty() && file.section_by_name(".debug_info").is_none() {
                return Ok(None);
            }
            let load = |id: SectionId| match file.section_by_name(id.name()) {
                Some(section) if !UNREAD.contains(&id) => {
                    Part::of(bytes, &section, purse).map(Option::unwrap_or_default)
                }
                _ => Ok(Part::default()),
            };
            out.files.push((DwarfSections::load(load)?, Shape::of(&file).endian));
        }
        Ok(Some(out))
    }

    fn dwarfs(&self) -> impl Iterator<Item = Dwarf<Slice<'_>>> {
        self.files.iter().map(|(sections, endian)| sections.borrow(|part| EndianSlice::new(part, *endian)))
    }

    fn context(&self) -> Result<Context<'_>, gimli::Error> {
        let mut dwarfs = self.dwarfs();
        let mut dwarf = dwarfs.next().ok_or(gimli::Error::MissingUnitDie)?;
        // Without the cache, units that share abbreviations would each parse their own copy.
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        if let Some(shared) = dwarfs.next() {
            dwarf.set_sup(shared);
        }
        Context::from_dwarf(dwarf)
    }
}

struct OneFile {
    /// `None` if the file does not have DWARF.
    parsed: Option<Parsed>,
    /// A Go program's own table, for addresses without DWARF.
    go: Option<GoTable>,
    segments: ElfSegments,
    namers: TrustedUids,
    /// Interned: many lines share few file names.
    files: FxHashSet<Arc<str>>,
}

impl OneFile {
    /// Opens the line tables of a file, if it has some. Fails if the budget is too small.
    fn of(
        dso: &Dso,
        options: &SymbolOptions,
        purse: &mut UnpackBudget,
    ) -> Result<(Option<Box<Self>>, u32), UnpackError> {
        let Ok(image) = Image::open(dso, options) else { return Ok((None, 0)) };
        let sections = Sections::new(&image, purse)?;
        for mut dwarf in sections.iter().flat_map(Sections::dwarfs) {
            cost::charge(&mut dwarf, purse)?;
        }
        let sections = sections.map(|mut sections| {
            // Only a program with split DWARF has a list of addresses.
            let is_split = elf::parse(&sections.main).is_ok_and(|file| file.section_by_name(".debug_addr").is_some());
            let split = |dwarf| SplitFiles::of(dso, options, &image.namers, &dwarf);
            let split = sections.dwarfs().next().filter(|_| is_split).map(split);
            sections.split = split;
            sections
        });
        let parsed = sections.and_then(|sections| Parsed::try_new(sections, Sections::context).ok());
        let of_go = || GoTable::of(&elf::parse(&image.bytes).ok()?, &image.bytes);
        let go = if parsed.is_none() { of_go() } else { None };
        let Image { segments, namers, user, .. } = image;
        let is_any = parsed.is_some() || go.is_some();
        let file = is_any.then(|| Box::new(Self { parsed, go, segments, namers, files: FxHashSet::default() }));
        Ok((file, user))
    }

    fn take_missing(&self) -> Option<PathBuf> {
        self.parsed.as_ref()?.borrow_owner().split.as_ref()?.take_missing()
    }

    /// Returns the functions at a linked address, innermost first.
    fn places(&mut self, address: u64, form: NameForm) -> Vec<InlinedFrame> {
        let files = &mut self.files;
        if let Some(go) = &self.go {
            let own = |GoPlace { function, line }: GoPlace<'_>| {
                let line =
                    line.map(|(file, line)| SourceLine { file: shared(files, &String::from_utf8_lossy(file)), line });
                InlinedFrame { function: Some(demangle(function, form).into()), line }
            };
            return go.places(address).into_iter().map(own).collect();
        }
        let Some(parsed) = &self.parsed else { return Vec::new() };
        parsed.with_dependent(|sections, context| {
            let mut out = Vec::new();
            let lookup = context.find_frames(address);
            let frames = match &sections.split {
                Some(split) => split.complete(lookup),
                None => lookup.skip_all_loads(),
            };
            let Ok(mut frames) = frames else { return out };
            while let Ok(Some(frame)) = frames.next() {
                let raw = frame.function.as_ref().and_then(|f| f.raw_name().ok());
                let function = raw.map(|name| demangle(name.as_bytes(), form).into());
                let line = frame.location.and_then(|at| {
                    let file = shared(files, at.file?);
                    Some(SourceLine { file, line: at.line.unwrap_or(0) })
                });
                out.push(InlinedFrame { function, line });
                if out.len() == MAX_DEPTH {
                    break;
                }
            }
            out
        })
    }
}

/// Returns the interpreted function at an address, if the address has its line.
fn of_script(dso: &Dso, at: u64) -> Option<InlinedFrame> {
    let function = dso.functions.find(at)?;
    let source = function.source?;
    let line = interpreted::line_at(at, source.first)?;
    Some(InlinedFrame { function: Some(function.name), line: Some(SourceLine { file: source.file.clone(), line }) })
}

fn shared(files: &mut FxHashSet<Arc<str>>, file: &str) -> Arc<str> {
    files.get(file).cloned().unwrap_or_else(|| {
        let fresh: Arc<str> = file.into();
        files.insert(fresh.clone());
        fresh
    })
}

/// The limit of inlining depth.
const MAX_DEPTH: usize = 256;

/// The lines of all files, owned by one thread.
pub struct Lines {
    options: SymbolOptions,
    files: FxHashMap<DsoId, Option<Box<OneFile>>>,
    /// Memory by file: decompressed sections and estimated parser data.
    shares: Shares<DsoId>,
    problems: Vec<(DsoId, Problem)>,
    /// Files with a missing split DWARF file.
    incomplete: FxHashSet<DsoId>,
    /// This process's memory before anything was parsed, in bytes. The numbers are resident and private memory.
    before: (u64, usize),
    asked: u32,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lines of {} files", self.files.len())
    }
}

/// Growth of the resident memory in bytes at which files drop their pages.
const MAPPED: u64 = 256 << 20;

impl Lines {
    /// Creates an empty set: each file is opened when one of its frames is looked up.
    pub fn new(options: SymbolOptions) -> Self {
        let shares = Shares::new(options.budget, MAX_FILES / 4);
        let (files, problems) = (FxHashMap::default(), Vec::new());
        let before = (procfs::own_rss(), own_memory::private().unwrap_or(0));
        Self { options, files, shares, problems, incomplete: FxHashSet::default(), before, asked: 0 }
    }

    /// Takes the problems since the last call: files without lines, and why.
    pub fn take_problems(&mut self) -> Vec<(DsoId, Problem)> {
        std::mem::take(&mut self.problems)
    }

    pub(crate) fn memory(&self) -> usize {
        self.shares.total()
    }

    /// Makes the next lookup search a DSO's files again.
    pub(crate) fn forget(&mut self, dso: DsoId) {
        self.files.remove(&dso);
        self.shares.give_back(dso);
    }

    pub(crate) fn set_form(&mut self, form: NameForm) {
        self.options.form = form;
    }

    /// Returns the functions at an address of a DSO, innermost first; empty if unknown.
    pub fn places(&mut self, dso: &Dso, at: u64) -> Vec<InlinedFrame> {
        self.all_places(dso, vec![at]).pop().unwrap_or_default()
    }

    pub(crate) fn all_places(&mut self, dso: &Dso, at: Vec<u64>) -> Vec<Vec<InlinedFrame>> {
        let mut out = Vec::with_capacity(at.len());
        for some in at.chunks(AT_ONCE) {
            let mut found = self.some_places(dso, some.to_vec());
            found.resize(some.len(), Vec::new());
            out.append(&mut found);
        }
        out
    }

    fn some_places(&mut self, dso: &Dso, at: Vec<u64>) -> Vec<Vec<InlinedFrame>> {
        match dso.kind {
            DsoKind::File | DsoKind::Vdso => {}
            DsoKind::Interpreted(_) => return at.iter().map(|at| Vec::from_iter(of_script(dso, *at))).collect(),
            _ => return Vec::new(),
        }
        self.asked += at.len() as u32;
        if self.asked >= PATIENCE {
            self.asked = 0;
            self.keep_budget();
        }
        if !self.files.contains_key(&dso.id) {
            self.open(dso);
        }
        self.shares.ask(dso.id);
        self.read(dso, move |file, form| {
            let one = |at| file.segments.to_address(at).map(|address| file.places(address, form)).unwrap_or_default();
            at.into_iter().map(one).collect()
        })
    }

    /// Looks up addresses in a file. A file whose parser fails does not have lines from then on.
    fn read(
        &mut self,
        dso: &Dso,
        read: impl FnOnce(&mut OneFile, NameForm) -> Vec<Vec<InlinedFrame>> + Send + 'static,
    ) -> Vec<Vec<InlinedFrame>> {
        let form = self.options.form;
        let Some(mut file) = self.files.get_mut(&dso.id).and_then(Option::take) else { return Vec::new() };
        let found = run_isolated(move || {
            let found = read(&mut file, form);
            (file, found)
        });
        match found {
            Ok((file, found)) => {
                // One missing file stands for all of them.
                if let Some(path) = file.take_missing()
                    && self.incomplete.insert(dso.id)
                {
                    let why =
                        format!("{} is missing or of another build; inlined functions are missing", path.display());
                    self.problems.push((dso.id, why.into()));
                }
                self.files.insert(dso.id, Some(file));
                found
            }
            Err(why) => {
                self.forget(dso.id);
                self.files.insert(dso.id, None);
                self.problems.push((dso.id, format!("no lines: {why}").into()));
                Vec::new()
            }
        }
    }

    /// Opens a file and evicts others if the budget requires it.
    fn open(&mut self, dso: &Dso) {
        let (of, options) = (dso.clone(), self.options.clone());
        let mut purse = UnpackBudget::new(self.shares.most());
        let opened = run_isolated(move || {
            let opened = OneFile::of(&of, &options, &mut purse).map_err(|why| why.to_string());
            opened.map(|(file, user)| (file, user, purse.taken()))
        });
        let (file, user, taken) = opened.flatten().unwrap_or_else(|why| {
            self.problems.push((dso.id, format!("no lines: {why}").into()));
            (None, 0, 0)
        });
        self.shares.hold(dso.id, user, taken);
        self.files.insert(dso.id, file);
        for gone in self.shares.excess() {
            self.files.remove(&gone);
        }
    }

    /// Returns the users who influenced the source file names of a DSO. `None` if it does not name any.
    pub(crate) fn namers(&self, dso: DsoId) -> Option<&TrustedUids> {
        self.files.get(&dso)?.as_ref().map(|file| &file.namers)
    }

    /// Drops parsed data above the budget; it is parsed again on demand.
    fn keep_budget(&mut self) {
        if procfs::own_rss().saturating_sub(self.before.0) > MAPPED {
            for file in self.files.values().flatten() {
                file.parsed.iter().for_each(|parsed| parsed.borrow_owner().main.rest());
            }
        }
        // Memory of samples that arrived meanwhile counts, too.
        let private = own_memory::private().unwrap_or(0);
        if private.saturating_sub(self.before.1) > self.options.budget {
            let shares = &mut self.shares;
            self.files.retain(|dso, file| {
                file.is_none() || {
                    shares.give_back(*dso);
                    false
                }
            });
            self.before = (procfs::own_rss(), private);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::dso::NamedFunction;
    use crate::symbols::trust::find_file::tests::own_dso;

    #[inline(never)]
    fn outer(n: u64) -> u64 {
        inner(n) + 1
    }

    #[inline(always)]
    fn inner(n: u64) -> u64 {
        std::hint::black_box(n) * 3
    }

    #[test]
    fn a_reader_that_fails_takes_only_its_files_lines() {
        let mut lines = Lines::new(SymbolOptions::live());
        let (dso, at) = own_dso(outer as fn(u64) -> u64 as usize as u64);
        assert!(!lines.places(&dso, at).is_empty());
        assert_eq!(lines.read(&dso, |_, _| panic!("damaged")), Vec::<Vec<InlinedFrame>>::new());
        let problems = lines.take_problems();
        assert!(problems.len() == 1 && problems[0].1.why.starts_with("no lines: its parser failed"), "{problems:?}");
        assert_eq!((lines.places(&dso, at), lines.take_problems(), lines.memory()), (vec![], vec![], 0));
    }

    #[test]
    fn addresses_of_interpreted_functions_have_their_lines() {
        let language = interpreted::Language::Python;
        let mut dso = crate::session::Dsos::default().named(language.dso(), DsoKind::Interpreted(language));
        let source = interpreted::FunctionSource { file: "/srv/app.py".into(), first: 3, last: 9, pid: 7, uid: 0 };
        let function = NamedFunction { name: "spin (app.py)".into(), source: Some(source.into()) };
        dso.functions.learn(interpreted::to_dso(language.address(2)), function);
        let mut lines = Lines::new(SymbolOptions::live());
        let mut line = |address: u64| {
            let place = lines.places(&dso, interpreted::to_dso(address)).pop()?;
            assert_eq!(place.function.as_deref(), Some("spin (app.py)"));
            place.line.map(|line| (line.short(), line.file.to_string()))
        };
        let known = Some(("app.py:5".to_owned(), "/srv/app.py".to_owned()));
        let address = interpreted::at_line(language.address(2), 3, 5);
        assert_eq!([address, address - 1].map(&mut line), [known.clone(), known]);
        assert_eq!([language.address(2), language.address(3)].map(&mut line), [None, None]);
    }

    #[test]
    fn lines_of_this_very_file() {
        let mut lines = Lines::new(SymbolOptions::live());
        assert_eq!(outer(2), 7);
        let (dso, at) = own_dso(outer as fn(u64) -> u64 as usize as u64);
        let found: Vec<Vec<InlinedFrame>> = (0..24).map(|i| lines.places(&dso, at + i)).collect();
        let here = |place: &InlinedFrame| {
            place.line.as_ref().is_some_and(|l| l.file.ends_with("dwarf/lines.rs") && l.line > 0)
        };
        assert!(found.iter().any(|places| places.iter().any(here)), "{found:?}");
    }
}
