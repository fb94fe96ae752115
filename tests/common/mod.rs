//! Shared helpers of the test programs: the binary, recordings and their files.
#![allow(dead_code, reason = "each test program uses its part")]

pub mod cells;
pub mod dns_message;
pub mod flood;
pub mod harness;
pub mod made;
pub mod picture;
pub mod pods;
pub mod process;
pub mod scenes;
pub mod schema;
pub mod session;
pub mod stage;
pub mod store;
pub mod transcript;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program under test.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perfprof-tui"));
    command.env_clear().envs(environment());
    command
}

/// The environment of a program under test.
///
/// Keeps what finds the tools. HOME is a separate folder, without user configuration and perf's build ID cache.
pub fn environment() -> impl Iterator<Item = (String, String)> {
    let kept = ["PATH", "TMPDIR"].iter();
    let kept = kept.filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    // A UTF-8 locale, independent of the caller's.
    let own = [
        ("LC_ALL", "C.UTF-8".to_owned()),
        ("HOME", welcomed()),
        ("XDG_CONFIG_HOME", "/nonexistent".to_owned()),
        ("XDG_STATE_HOME", welcomed()),
    ];
    kept.chain(own.map(|(name, value)| (name.to_owned(), value)))
}

/// A state folder that marks the user as one who has seen the welcome screen.
fn welcomed() -> String {
    let state = Path::new(env!("CARGO_TARGET_TMPDIR")).join("state");
    let folder = state.join("perfprof-tui");
    std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join("welcomed"), "")).expect("state");
    state.to_string_lossy().into_owned()
}

/// Returns the name and the value of a variable that makes the program walk stacks by frame pointers, in units too. At
/// the start of a short measurement of the machine, unwind tables of its programs take most of the time.
pub fn by_frame_pointers() -> (&'static str, &'static str) {
    static CONFIG: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let write = || {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("frame-pointers");
        let of = |name: &str| format!("[{name}]\ncall-graph = \"fp\"\n");
        let units = perfprof_tui::units::UNITS.iter().map(|spec| of(&format!("options.{}", spec.name)));
        let (folder, text) = (home.join("perfprof-tui"), of("options") + &units.collect::<String>());
        std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join("config.toml"), text)).expect("made");
        home.to_string_lossy().into_owned()
    };
    ("XDG_CONFIG_HOME", CONFIG.get_or_init(write))
}

/// Returns the path of a file under tests/data.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Copies the recorded binaries to their original paths under a new root.
pub fn symfs() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("dir");
    // Recordings may name these files as another user, who must be able to read them.
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(root.path(), all).expect("mode");
    let bin = root.path().join("tmp/research/perf-tui/w/a");
    std::fs::create_dir_all(&bin).expect("mkdir");
    for entry in std::fs::read_dir(data("bin")).expect("bin").flatten() {
        std::fs::copy(entry.path(), bin.join(entry.file_name())).expect("copy");
    }
    std::fs::copy(data("corpus/jitmap.perf-10468.map"), root.path().join("tmp/perf-10468.map")).expect("copy");
    root
}

/// Runs a command that must succeed.
/// Copies a program that the test starts. Another process writes it: a descriptor of ours could be open for writing in
/// the child of another test at that moment, and the program could not be executed (ETXTBSY).
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let status = Command::new("cp").arg("--").arg(from.as_ref()).arg(to.as_ref()).status();
    assert!(status.expect("cp").success(), "{}", from.as_ref().display());
}

pub fn run(command: &mut Command) -> Output {
    let output = command.output().expect("runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

pub type Rows = BTreeMap<(String, String, String), u64>;

/// Samples by (comm, dso, symbol) from our JSON, without rows that have no self samples.
pub fn our_rows(json: &[u8]) -> Rows {
    our_figures(json, "samples")
}

/// Another figure of the same rows.
pub fn our_figures(json: &[u8], figure: &str) -> Rows {
    let report: serde_json::Value = serde_json::from_slice(json).expect("json");
    let mut rows = Rows::new();
    for row in report["events"].as_array().expect("events").iter().flat_map(|e| e["rows"].as_array().expect("rows")) {
        let field = |name: &str| row[name].as_str().unwrap_or_default().trim().to_owned();
        if row["samples"].as_u64().expect("samples") > 0 {
            let figure = row[figure].as_u64().expect("a figure");
            *rows.entry((field("comm"), field("dso"), field("sym"))).or_default() += figure;
        }
    }
    rows
}

/// Samples by (comm, dso, symbol) from `perf report -t TAB`, with the columns overhead, samples[, period], comm, dso,
/// symbol.
pub fn perf_rows(text: &str) -> Rows {
    perf_figures(text, 1)
}

/// Another column of the same rows.
pub fn perf_figures(text: &str, column: usize) -> Rows {
    let mut rows = Rows::new();
    for line in text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty()) {
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [.., comm, dso, sym] = fields[..] else { continue };
        let figure: u64 = fields[column].parse().expect("a figure");
        let sym = sym.split_once("] ").map_or(sym, |(_, s)| s);
        *rows.entry((comm.to_owned(), dso.to_owned(), sym.to_owned())).or_default() += figure;
    }
    rows
}

/// Makes every skipped test fail.
///
/// Tests that change the machine (CPUs, sysctls) for a while run only if it is set.
const REQUIRE_ALL: &str = "PERFPROF_REQUIRE_ALL";

fn requires_all() -> bool {
    std::env::var_os(REQUIRE_ALL).is_some_and(|value| value == "1")
}

/// Ends the calling test unless all requirements hold; each missing requirement reports itself.
macro_rules! needs {
    ($($has:expr),+) => {
        if !($($has)&&+) {
            return;
        }
    };
}

/// Returns the name of the running test: the harness names the thread after it.
fn name() -> String {
    std::thread::current().name().unwrap_or("a thread of a test").to_owned()
}

/// Reports that a test is skipped, past the harness's capture, so that it never passes silently.
///
/// # Panics
/// If every test must run.
pub fn skipped(why: &str) {
    assert!(!requires_all(), "{} is skipped, and {REQUIRE_ALL} is set: {why}", name());
    absent(why);
}

/// Reports that the machine lacks a capability that cannot be installed or allowed.
pub fn absent(why: &str) {
    use std::io::Write;
    // The harness captures only the print macros.
    let _ = writeln!(std::io::stderr().lock(), "SKIPPED {}: {why}", name());
}

/// Returns the path of a program without symlinks; reports a skipped test if it is missing.
pub fn found(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::split_paths(&paths).map(|dir| dir.join(program)).find(|path| path.is_file());
    if path.is_none() {
        skipped(&format!("{program} is not installed"));
    }
    path.and_then(|path| path.canonicalize().ok())
}

/// Returns whether a program is installed; otherwise reports that the test is skipped.
pub fn installed(program: &str) -> bool {
    found(program).is_some()
}

/// A capability of the machine and its kernel.
#[derive(Clone, Copy, Debug)]
pub enum Nature {
    /// A second CPU that can be taken offline.
    Hotplug,
    Btf,
    Uprobes,
    Breakpoints,
}

/// Returns whether the machine has a capability; otherwise reports that the test is skipped.
///
/// It checks the machine, independently of the program under test.
pub fn has(nature: Nature) -> bool {
    let (place, lack) = match nature {
        Nature::Hotplug => ("/sys/devices/system/cpu/cpu1/online", "it has no second CPU that can be taken offline"),
        Nature::Btf => ("/sys/kernel/btf/vmlinux", "its kernel does not describe its types (BTF)"),
        Nature::Uprobes => ("/sys/bus/event_source/devices/uprobe", "its kernel has no uprobes"),
        Nature::Breakpoints => ("/sys/bus/event_source/devices/breakpoint", "its kernel has no hardware breakpoints"),
    };
    let has = Path::new(place).exists();
    if !has {
        absent(&format!("this machine cannot: {lack}"));
    }
    has
}

/// Returns whether a test may change the whole machine; otherwise reports that it is skipped.
pub fn may_change_the_machine() -> bool {
    let may = requires_all();
    if !may {
        skipped(&format!("it changes the machine for a while; set {REQUIRE_ALL}=1 to run it"));
    }
    may
}

/// Returns whether this user is root; otherwise reports that the test is skipped.
pub fn is_root() -> bool {
    let is = rustix::process::geteuid().is_root();
    if !is {
        skipped("it needs root");
    }
    is
}

/// Returns whether this user may sample the whole machine with its kernel; otherwise reports that the test is skipped.
pub fn allowed() -> bool {
    let rights = perfprof_tui::kernel::limits::Rights::read();
    let allowed = rights.blocked.is_none() && rights.system_wide() && rights.kernel();
    if !allowed {
        skipped("needs root, CAP_PERFMON or perf_event_paranoid -1");
    }
    allowed
}

/// Returns whether tracepoints are readable; otherwise reports that the test is skipped.
pub fn traced() -> bool {
    if !allowed() {
        return false;
    }
    let there = ["/sys/kernel/tracing/events/sched", "/sys/kernel/debug/tracing/events/sched"];
    let found = there.iter().any(|dir| std::fs::read_dir(dir).is_ok());
    if !found {
        skipped("this user cannot read tracefs");
    }
    found
}
