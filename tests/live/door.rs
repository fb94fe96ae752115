//! Attacks on the trusted file opener: a user's program whose debug information, links and maps lead to files that the
//! user may not read. Needs root, which owns such files.

use std::os::fd::AsRawFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{self, allowed, installed, is_root, program, run, skipped};
use perfprof_tui::kernel::identity::Identity;
use perfprof_tui::perfdata::unpack::UnpackBudget;
use perfprof_tui::session::{Dso, Origin, Session};
use perfprof_tui::symbols::code::{self, Listing};
use perfprof_tui::symbols::debug_image::Image;
use perfprof_tui::symbols::door::{FileKind, TrustedFileOpener, TrustedUids};
use perfprof_tui::symbols::find_file::FileSearch;
use perfprof_tui::symbols::lines::Lines;
use perfprof_tui::symbols::{Resolver, SymbolOptions};

const NOBODY: u32 = 65_534;
const MARKER: &str = "perfprof-marker-of-a-secret";
/// Longer than any step here takes.
const PATIENCE: Duration = Duration::from_secs(180);

/// A directory that every user may read, with tools to act as another user in it.
struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new(tools: &[&str]) -> Option<Self> {
        if !is_root() || !tools.iter().all(|tool| installed(tool)) {
            return None;
        }
        let dir = tempfile::tempdir().expect("dir");
        mode(dir.path(), 0o755);
        Some(Self { dir })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file with the marker in each of its first lines.
    fn secret(&self, name: &str, bits: u32) -> PathBuf {
        let path = self.at(name);
        std::fs::write(&path, format!("{MARKER}\n").repeat(20)).expect("written");
        mode(&path, bits);
        path
    }

    /// A program whose debug information names another file as the source of its function `spin`.
    fn program(&self, name: &str, source: &Path) -> PathBuf {
        let (code, out) = (self.at("code.c"), self.at(name));
        let body = "void spin(void) {\n for (;;)\n  x++;\n}\nint main(void) {\n spin();\n}\n";
        std::fs::write(&code, format!("volatile unsigned long x;\n#line 1 \"{}\"\n{body}", source.display()))
            .expect("code");
        let mut compile = Command::new("cc");
        run(compile.args(["-g", "-O1", "-o"]).arg(&out).arg(&code));
        mode(&out, 0o755);
        out
    }
}

fn mode(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).expect("mode");
}

/// A process that is killed on drop.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(quiet.spawn().expect("spawns"))
    }

    fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// Waits until the child has executed the program and mapped its file, which happens after its name changes.
    fn settle(self, name: &str) -> Self {
        let began = Instant::now();
        let file = |of: &str| std::fs::read_to_string(format!("/proc/{}/{of}", self.pid())).unwrap_or_default();
        let is_mapped = || file("maps").lines().any(|line| line.ends_with(&format!("/{name}")));
        while file("comm").trim() != name || !is_mapped() {
            assert!(began.elapsed() < PATIENCE, "{name} has not started");
            std::thread::sleep(Duration::from_millis(5));
        }
        self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    command
}

/// The DSO of a file that a running process has mapped.
fn mapped(pid: i32, file: &Path) -> Dso {
    let mut session = Session::new(Origin::Live);
    session.task(pid, pid);
    let name = file.to_str().expect("utf8");
    session.dsos.all().iter().find(|dso| &*dso.path == name).unwrap_or_else(|| panic!("{name} is not mapped")).clone()
}

/// The disassembly of its function `spin`, as on the live screen.
fn listed(dso: &Dso) -> Listing {
    let options = SymbolOptions::live();
    let image = Image::open(dso, &options).expect("image");
    let tables = image.functions(&mut UnpackBudget::new(64 << 20)).expect("functions").tables;
    let at = tables.iter().flat_map(|table| table.iter()).find(|symbol| symbol.name == b"spin").expect("spin").start;
    let (mut resolver, mut lines) = (Resolver::new(options.clone()), Lines::new(options.clone()));
    let listing = code::list(dso, at, &mut resolver, &mut lines, &options).expect("listing");
    assert!(listing.instructions.iter().any(|one| one.line.is_some()), "the program has lines");
    listing
}

fn shows(listing: &Listing) -> bool {
    listing.sources.iter().flat_map(|(_, lines)| lines).any(|line| line.contains(MARKER))
}

/// A live process of a user reveals neither root's files, nor readable files in a closed directory, nor files that
/// change during the read.
#[test]
fn a_users_program_names_sources_for_itself_alone() {
    let Some(stage) = Stage::new(&["cc", "setpriv"]) else { return };
    std::fs::create_dir(stage.at("closed")).expect("dir");
    mode(&stage.at("closed"), 0o700);
    symlink(stage.secret("secret", 0o600), stage.at("link")).expect("link");
    // Source file, owner of the program, user who runs it, whether the source is shown.
    let rows = [
        (stage.secret("open.c", 0o644), NOBODY, NOBODY, true),
        (stage.at("secret"), 0, 0, true),
        (stage.at("secret"), NOBODY, NOBODY, false),
        (stage.at("secret"), NOBODY, 0, false),
        (stage.at("secret"), 0, NOBODY, false),
        (stage.at("link"), NOBODY, 0, false),
        (stage.secret("closed/inner.c", 0o644), NOBODY, NOBODY, false),
        (stage.at("closed/inner.c"), 0, NOBODY, false),
        (PathBuf::from("/proc/kmsg"), 0, 0, false),
        (PathBuf::from("/dev/zero"), 0, 0, false),
    ];
    for (i, (source, owner, runner, shown)) in rows.iter().enumerate() {
        let began = Instant::now();
        let name = format!("spin{i}");
        let path = stage.program(&name, source);
        chown(&path, Some(*owner), None).expect("owner");
        let mut command = if *runner == 0 { Command::new(&path) } else { as_nobody(&path) };
        let running = Running::start(&mut command).settle(&name);
        let listing = listed(&mapped(running.pid(), &path));
        let row = format!("{} named by a program of {owner} run by {runner}", source.display());
        assert_eq!(shows(&listing), *shown, "{row}");
        assert!(*shown || listing.sources.is_empty(), "{row}: {:?}", listing.sources);
        assert!(began.elapsed() < PATIENCE, "{row}");
    }
}

/// The same from a recording: of its owner, of the program's owner, and through a pipe without an owner.
#[test]
fn a_recording_names_sources_for_its_owner_alone() {
    needs!(allowed());
    let Some(stage) = Stage::new(&["cc", "setpriv", "timeout"]) else { return };
    let (secret, data) = (stage.secret("secret", 0o600), stage.at("a.data"));
    let path = stage.program("spin", &secret);
    let mut record = program();
    record.args(["record", "-e", "cpu-clock", "-F", "999", "-o"]).arg(&data);
    // It would spin forever.
    let output = record.args(["--", "timeout", "0.5"]).arg(&path).stdout(Stdio::null()).output().expect("runs");
    assert!(data.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    let annotate = |format: &str, piped: bool| {
        let began = Instant::now();
        let mut command = program();
        command.arg("annotate").arg(if piped { Path::new("-") } else { &data }).args(["spin", "--format", format]);
        let input = std::fs::File::open(&data).expect("opens");
        let mut cat = piped.then(|| Command::new("cat").stdin(input).stdout(Stdio::piped()).spawn().expect("cat"));
        if let Some(cat) = &mut cat {
            command.stdin(cat.stdout.take().expect("a pipe"));
        }
        let output = run(&mut command);
        cat.map(|mut cat| cat.wait());
        assert!(began.elapsed() < PATIENCE);
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    for format in ["text", "json"] {
        // JSON has no source lines; the marker does not occur in it.
        let shown = format == "text";
        chown(&data, Some(0), None).expect("owner");
        chown(&path, Some(0), None).expect("owner");
        let said = annotate(format, false);
        assert!(said.contains("spin") && said.contains(MARKER) == shown, "root's own: {said}");
        assert!(!annotate(format, true).contains(MARKER), "of a pipe");
        chown(&path, Some(NOBODY), None).expect("owner");
        assert!(!annotate(format, false).contains(MARKER), "the source of a user's program is shown");
        chown(&path, Some(0), None).expect("owner");
        chown(&data, Some(NOBODY), None).expect("owner");
        assert!(!annotate(format, false).contains(MARKER), "a user's recording shows the source");
    }
}

/// The identity of a process does not depend on the owner of its /proc files, which may be root.
#[test]
fn a_process_that_hides_has_its_own_user() {
    let Some(stage) = Stage::new(&["setpriv"]) else { return };
    let sleep = stage.at("hidden");
    common::copy_program("/bin/sleep", &sleep);
    // A program that its user may run but not read is such a process.
    mode(&sleep, 0o711);
    let running = Running::start(as_nobody(&sleep).arg("900")).settle("hidden");
    assert_eq!(Identity::of_process(running.pid()).expect("status").uid, NOBODY);
    // The real and the effective user must both have access: a setuid program, a daemon of root that acts for a user.
    for ids in [["--ruid=65534", "--rgid=65534"], ["--euid=65534", "--egid=65534"]] {
        let both =
            Running::start(Command::new("setpriv").args(ids).args(["--keep-groups", "sleep", "900"])).settle("sleep");
        assert_eq!(Identity::of_process(both.pid()).expect("status").uid, NOBODY, "{ids:?}");
    }
    let (secret, options) = (stage.secret("secret", 0o600), SymbolOptions::live());
    let dso = mapped(running.pid(), &sleep);
    let mut places = FileSearch::new(&dso, &options).expect("places");
    let said = places.source(&secret, &TrustedUids::default()).expect_err("closed").to_string();
    assert!(said.contains("is not readable by user 65534"), "{said}");
}

/// Paths that a process names are resolved in its root directory.
#[test]
fn no_link_leads_out_of_a_process_root() {
    let Some(stage) = Stage::new(&["setpriv"]) else { return };
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().map(Path::new).find(|path| path.exists());
    let outer = stage.secret("outer.c", 0o644);
    std::fs::create_dir(stage.at("root")).expect("dir");
    let sleep = stage.at("root/sleep");
    let chroot = |pid_of: &Path| {
        let mut command = Command::new("chroot");
        command.arg(stage.at("root")).arg(pid_of);
        command
    };
    let built = match busybox {
        Some(path) => {
            common::copy_program(path, &sleep);
            true
        }
        None => {
            let code = stage.at("sleep.c");
            std::fs::write(&code, "#include <unistd.h>\nint main(void) { sleep(60); return 0; }\n").expect("code");
            let mut cc = Command::new("cc");
            cc.arg("-static").arg("-o").arg(&sleep).arg(&code);
            cc.status().is_ok_and(|status| status.success())
        }
    };
    if !built {
        return skipped("cannot build a static program");
    }
    symlink(&outer, stage.at("root/link.c")).expect("link");
    std::fs::write(stage.at("root/inner.c"), MARKER).expect("written");
    let running = Running::start(chroot(Path::new("/sleep")).arg("900")).settle("sleep");
    let mut session = Session::new(Origin::Live);
    session.task(running.pid(), running.pid());
    let dso = session.dsos.all().iter().find(|dso| dso.path.ends_with("/sleep")).expect("mapped").clone();
    let options = SymbolOptions::live();
    let open = |path: &str| {
        FileSearch::new(&dso, &options).expect("places").source(Path::new(path), &TrustedUids::default()).map(|_| ())
    };
    open("/inner.c").expect("its own");
    open(outer.to_str().expect("utf8")).expect_err("of another root");
    open("/link.c").expect_err("out of its root");
    open("/../../../../../../../../etc/passwd").expect_err("out of its root");
}

/// A lease on a file blocks other openers for up to 45 seconds; the program does not wait.
#[test]
fn a_lease_keeps_nobody_waiting() {
    let dir = tempfile::tempdir().expect("dir");
    let file = std::fs::File::create(dir.path().join("x.c")).expect("file");
    // SAFETY: both calls take numbers; the signal of a broken lease would end this process.
    let leased = unsafe {
        libc::signal(libc::SIGIO, libc::SIG_IGN);
        libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) == 0
    };
    if !leased {
        return skipped("this file system has no leases");
    }
    let began = Instant::now();
    let root = perfprof_tui::kernel::procfs::directory(dir.path()).expect("root");
    let opened = TrustedFileOpener::new(root, TrustedUids::default()).open(Path::new("/x.c"), FileKind::Source);
    assert_eq!(opened.expect_err("leased").kind(), std::io::ErrorKind::WouldBlock);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// Annotating a program that is constantly rewritten and truncated ends with a result or a message, never with a
/// signal.
#[test]
fn a_program_is_rewritten_while_it_is_annotated() {
    use std::os::unix::fs::FileExt;
    use std::os::unix::process::ExitStatusExt;
    let root = common::symfs();
    let path = root.path().join("tmp/research/perf-tui/w/a");
    let mut names = std::fs::read_dir(&path).expect("dir").flatten();
    let inline =
        names.find(|entry| entry.file_name().to_string_lossy().starts_with("inline")).expect("the program").path();
    let whole = std::fs::read(&inline).expect("read");
    mode(&inline, 0o666);
    let file = std::fs::File::options().write(true).open(&inline).expect("opens");
    let done = std::sync::atomic::AtomicBool::new(false);
    let annotated = || {
        let mut command = program();
        command.arg("annotate").arg(common::data("corpus/inline.data")).arg("--symfs").arg(root.path());
        command.output().expect("runs")
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0usize.. {
                let cut = file.set_len((round * 4099 % whole.len()) as u64);
                let _ = cut.and_then(|()| file.write_all_at(&whole, 0));
                if done.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
            }
        });
        for _ in 0..40 {
            let output = annotated();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.signal(), None, "{said}");
            assert!(matches!(output.status.code(), Some(0 | 1)), "{:?} {said}", output.status);
            assert!(output.status.success() || !said.is_empty());
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // The file is complete again.
    let output = annotated();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
