//! The options of symbolization. These are sources of names, their form, and the memory budget.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::names::demangle::NameForm;
use super::names::shipped::ShippedTables;
use super::trust::door::TrustedUids;
use super::trust::same_file::RecordedTimes;
use crate::kernel::EndRequests;
use crate::kernel::process::privilege;
use crate::session::Dso;
use crate::session::hosts::{HostId, PerHost};

/// Sources of names, and the form in which they are shown.
#[derive(Clone, Debug, Default)]
pub struct SymbolOptions {
    /// How names are demangled.
    pub form: NameForm,
    /// Whether the profiled processes may still run. Then /proc leads to their files.
    pub live: bool,
    /// Whether the running kernel is the profiled one, so that its vDSO is ours.
    pub same_kernel: bool,
    /// The root of the profiled machine's files.
    pub symfs: Option<PathBuf>,
    /// Whether that directory itself contains all files, by their names.
    pub flat: bool,
    /// The kernel's symbols; `None` for no kernel names.
    pub kallsyms: Option<PathBuf>,
    /// The recorded kernel's image, used before its kallsyms.
    pub vmlinux: Option<PathBuf>,
    /// Directories of files by build ID, in the layout of perf's cache (`~/.debug`).
    pub caches: Vec<PathBuf>,
    /// Directories of debuginfod clients: `BUILDID/debuginfo`.
    pub debuginfod: Vec<PathBuf>,
    /// Servers for debug files, which are stored in the first of these directories.
    pub servers: Vec<String>,
    /// Whether functions without a symbol are separated by their bounds. Else each of their addresses is on its own.
    pub bounds: bool,
    /// The budget of names in bytes. Beyond it, unused names of the user with the most memory are evicted.
    pub budget: usize,
    /// Tables that came with the input streams, by host.
    pub given: PerHost<Arc<ShippedTables>>,
    /// The users who wrote the recordings, and so named files. Empty for a live session.
    pub authors: TrustedUids,
    /// When the input was recorded; unknown for a stream.
    pub times: RecordedTimes,
    /// Hosts with another kernel than the running one, `kallsyms` and `vmlinux`.
    pub strangers: Vec<HostId>,
    /// Whether names are still wanted: after a request to end at once, no more are looked up.
    pub ends: EndRequests,
}

/// The limit of files held at once; each is a mapping.
pub(crate) const MAX_FILES: usize = 4096;
/// Half of the budget of a session's samples.
const BUDGET: usize = 256 << 20;

impl SymbolOptions {
    pub(super) fn given(&self, dso: &Dso) -> Option<&ShippedTables> {
        self.given.get(dso.host).map(|given| &**given)
    }

    /// Returns whether a DSO was profiled under the running kernel.
    pub(crate) fn is_own_kernel(&self, dso: &Dso) -> bool {
        self.same_kernel && !self.strangers.contains(&dso.host)
    }

    /// Returns the kernel's symbols, if they are of the DSO's kernel.
    pub(super) fn kallsyms(&self, dso: &Dso) -> Option<&Path> {
        self.kallsyms.as_deref().filter(|_| !self.strangers.contains(&dso.host))
    }

    /// Returns the options for this machine, with the caches of the debuginfod client (debuginfod_find_debuginfo(3)).
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

    /// Returns the options for this machine.
    pub fn live() -> Self {
        Self {
            live: true,
            same_kernel: true,
            kallsyms: Some("/proc/kallsyms".into()),
            bounds: true,
            budget: BUDGET,
            ..Self::default()
        }
    }
}
