//! The package with the debug symbols of a file of this machine.

use std::fs;
use std::io::Read;
use std::path::Path;

use super::trust::door;
use crate::kernel::procfs;

/// Where Debian's package manager has the files of each package.
const LISTS: &str = "/var/lib/dpkg/info";
/// The limit of a list in bytes.
const MOST: u64 = 1 << 26;
/// The package manager of Fedora and the like.
const DNF: &str = "/usr/bin/dnf";

/// Returns the command that installs the debug symbols of a file that a process has mapped. `None` if it has other files
/// than this program, or no package is known.
pub(crate) fn install_command(pid: i32, path: &str) -> Option<String> {
    let files = |pid: &str| procfs::link(&format!("/proc/{pid}/ns/mnt"));
    files("self").filter(|own| files(&pid.to_string()).as_ref() == Some(own))?;
    let debian = || Some(format!("apt install {}", debug_package(&package_of(Path::new(LISTS), path)?)));
    debian().or_else(|| fedora(path, Path::new(DNF).exists()))
}

/// Returns the command where a query names the package.
fn fedora(path: &str, has_dnf: bool) -> Option<String> {
    let is_plain = path.bytes().all(|c| c.is_ascii_alphanumeric() || b"/._+-".contains(&c));
    (has_dnf && is_plain).then(|| format!("dnf debuginfo-install $(rpm -qf {path})"))
}

/// Returns the package whose list has a file. Lists may have the path from before `/lib` became a link to `/usr/lib`.
fn package_of(lists: &Path, path: &str) -> Option<String> {
    let is_own =
        |line: &[u8]| line == path.as_bytes() || path.strip_prefix("/usr").is_some_and(|path| line == path.as_bytes());
    let base = path.rsplit('/').next().filter(|base| !base.is_empty())?;
    let search = memchr::memmem::Finder::new(base);
    for list in fs::read_dir(lists).ok()?.flatten() {
        let name = list.file_name();
        let Some(package) = name.to_str().and_then(|name| name.strip_suffix(".list")) else { continue };
        let (Ok(file), mut text) = (door::own(&list.path()), Vec::new()) else { continue };
        if file.take(MOST).read_to_end(&mut text).is_err() {
            continue;
        }
        // Most lists do not have the name at all.
        if search.find(&text).is_some() && text.split(|byte| *byte == b'\n').any(is_own) {
            return Some(package.split(':').next().unwrap_or(package).to_owned());
        }
    }
    None
}

/// Returns the package of debug symbols of another package. Those of the C library and of Python are older than the
/// usual names.
fn debug_package(package: &str) -> String {
    let is_older = package == "libc6" || package.starts_with("python3") || package.starts_with("libpython3");
    match package.strip_prefix("lib").filter(|_| package.starts_with("libpython3")) {
        Some(python) => format!("{}-dbg", python.split('-').next().unwrap_or(python)),
        None if is_older => format!("{}-dbg", package.split('-').next().unwrap_or(package)),
        None => format!("{package}-dbgsym"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_a_file_is_in_a_list() {
        let dir = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
        write("zlib1g:amd64.list", "/.\n/lib/x86_64-linux-gnu/libz.so.1.2.13\n/usr/share/doc/zlib1g\n");
        write("zlib1g:amd64.md5sums", "/usr/lib/x86_64-linux-gnu/libother.so\n");
        write("tool.list", "/.\n/usr/bin/tool\n/usr/bin/tool-more\n");
        let of = |path: &str| package_of(dir.path(), path);
        assert_eq!(of("/usr/lib/x86_64-linux-gnu/libz.so.1.2.13").as_deref(), Some("zlib1g"));
        assert_eq!(of("/usr/bin/tool").as_deref(), Some("tool"));
        for other in ["/bin/tool-more", "/usr/bin/to", "/usr/lib/x86_64-linux-gnu/libother.so", "/", ""] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(package_of(&dir.path().join("none"), "/usr/bin/tool"), None);
    }

    #[test]
    fn packages_of_debug_symbols_have_names() {
        let names =
            ["zlib1g", "libc6", "python3.11-minimal", "libpython3.11-stdlib", "libpython-like"].map(debug_package);
        assert_eq!(names, ["zlib1g-dbgsym", "libc6-dbg", "python3.11-dbg", "python3.11-dbg", "libpython-like-dbgsym"]);
        assert_eq!(fedora("/usr/bin/tool", true).as_deref(), Some("dnf debuginfo-install $(rpm -qf /usr/bin/tool)"));
        assert_eq!((fedora("/usr/bin/tool", false), fedora("/usr/bin/a;b", true)), (None, None));
    }
}
