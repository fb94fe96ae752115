//! The options of naming: where names come from, how they are shown, and how much memory they may take.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::demangle::NameForm;
use super::door::Namers;
use super::same_file::RecordedTimes;
use super::shipped::ShippedTables;
use crate::kernel::privilege;
use crate::session::Dso;
use crate::session::hosts::{HostId, PerHost};

/// The sources of names, and the form in which they are shown.
#[derive(Clone, Debug)]
pub struct SymbolOptions {
    /// How names are made readable.
    pub form: NameForm,
    /// Whether the profiled processes may still be there, so that /proc leads to their files.
    pub live: bool,
    /// Whether the kernel that runs here is the one that was profiled, so that its vDSO is ours.
    pub same_kernel: bool,
    /// A directory under which the profiled machine's files are laid out.
    pub symfs: Option<PathBuf>,
    /// The kernel's symbols; `None` for no kernel names.
    pub kallsyms: Option<PathBuf>,
    /// The recorded kernel's image, which goes before its kallsyms.
    pub vmlinux: Option<PathBuf>,
    /// Directories of files by build id, laid out as perf's cache is (`~/.debug`).
    pub caches: Vec<PathBuf>,
    /// Directories of debuginfod clients: `BUILDID/debuginfo`.
    pub debuginfod: Vec<PathBuf>,
    /// Servers that debug files are fetched from, into the first of these directories.
    pub servers: Vec<String>,
    /// Whether functions without a symbol are told apart by their bounds; else each of their addresses is by itself.
    pub bounds: bool,
    /// Bytes that names may hold: of the user whose files hold most, what is not asked for gives way.
    pub budget: usize,
    /// Tables that came with the streams that are read, by host.
    pub given: PerHost<Arc<ShippedTables>>,
    /// Who made the recordings that are read, and so names files; nobody but the kernel does where it is live.
    pub authors: Namers,
    /// When what is read was recorded; nothing is known of a stream.
    pub times: RecordedTimes,
    /// Hosts whose kernel is neither the one that runs here nor that of `kallsyms` and `vmlinux`.
    pub strangers: Vec<HostId>,
}

/// Files that are held at once, each a mapping of ours.
pub(crate) const MAX_FILES: usize = 4096;
/// Half of what a session's samples may have.
const BUDGET: usize = 256 << 20;

impl SymbolOptions {
    /// The tables that came with the stream that tells of a DSO.
    pub(super) fn given(&self, dso: &Dso) -> Option<&ShippedTables> {
        self.given.get(dso.host).map(|given| &**given)
    }

    /// True if the kernel that runs here is the one that a DSO was profiled under.
    pub(crate) fn is_own_kernel(&self, dso: &Dso) -> bool {
        self.same_kernel && !self.strangers.contains(&dso.host)
    }

    /// The kernel's symbols, where they are of a DSO's.
    pub(super) fn kallsyms(&self, dso: &Dso) -> Option<&Path> {
        self.kallsyms.as_deref().filter(|_| !self.strangers.contains(&dso.host))
    }

    /// For the running machine, with the caches that this user's debuginfod client fills
    /// (debuginfod_find_debuginfo(3)).
    pub(crate) fn of_user() -> Self {
        let set = |name: &str| privilege::variable(name).map(PathBuf::from);
        let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        let own = set("DEBUGINFOD_CACHE_PATH");
        let usual = cache.map(|dir| dir.join("debuginfod_client"));
        let old = set("HOME").map(|home| home.join(".debuginfod_client_cache"));
        let debuginfod = if own.is_some() { vec![own] } else { vec![usual, old] };
        let urls = privilege::variable("DEBUGINFOD_URLS").and_then(|urls| urls.into_string().ok()).unwrap_or_default();
        Self {
            debuginfod: debuginfod.into_iter().flatten().collect(),
            servers: urls.split_whitespace().map(str::to_owned).collect(),
            ..Self::live()
        }
    }

    /// For the running machine.
    pub fn live() -> Self {
        Self {
            form: NameForm::Plain,
            live: true,
            same_kernel: true,
            symfs: None,
            kallsyms: Some("/proc/kallsyms".into()),
            vmlinux: None,
            caches: Vec::new(),
            debuginfod: Vec::new(),
            servers: Vec::new(),
            bounds: true,
            budget: BUDGET,
            given: PerHost::default(),
            authors: Namers::default(),
            times: RecordedTimes::default(),
            strangers: Vec::new(),
        }
    }
}
