//! The dynamic linking of an ELF file: its interpreter, the libraries it needs, and their directories (ld.so(8)).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_STRTAB, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

use super::dynamic;
use crate::kernel::process::privilege;

/// The interpreter and the libraries of an ELF file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Linked {
    /// Class and machine of its code: a program needs libraries of the same.
    pub(crate) machine: (bool, u16),
    pub(crate) interpreter: Option<PathBuf>,
    /// Names of libraries, or paths to them.
    pub(crate) needed: Vec<PathBuf>,
    /// Directories that the file names; `$ORIGIN` is not replaced yet.
    named: Vec<String>,
}

impl Linked {
    /// Parses the dynamic section; `None` if the file is not an ELF file.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        match FileHeader64::<Endianness>::parse(bytes) {
            Ok(header) => Self::read(header, bytes),
            Err(_) => Self::read(FileHeader32::<Endianness>::parse(bytes).ok()?, bytes),
        }
    }

    fn read<H: FileHeader<Endian = Endianness>>(header: &H, bytes: &[u8]) -> Option<Self> {
        let endian = header.endian().ok()?;
        let headers = header.program_headers(endian, bytes).ok()?;
        let machine = (header.is_class_64(), header.e_machine(endian).0);
        let mut linked = Self { machine, ..Self::default() };
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        linked.interpreter = headers.iter().find_map(|one| one.interpreter(endian, bytes).ok().flatten()).map(path);
        let entries = dynamic::entries(headers, endian, bytes);
        let Some((_, names)) = entries.iter().find(|(tag, _)| *tag == DT_STRTAB) else { return Some(linked) };
        let names = dynamic::to_offset(headers, endian, *names).and_then(|at| bytes.get(at..));
        let name = |at: u64| {
            let rest = names?.get(usize::try_from(at).ok()?..)?;
            rest.get(..memchr::memchr(0, rest)?).filter(|name| !name.is_empty())
        };
        for (tag, at) in entries {
            let Some(name) = name(at) else { continue };
            match tag {
                DT_NEEDED => linked.needed.push(path(name)),
                DT_RPATH | DT_RUNPATH => {
                    let list = String::from_utf8_lossy(name);
                    linked.named.extend(list.split(':').filter(|dir| !dir.is_empty()).map(str::to_owned));
                }
                _ => {}
            }
        }
        Some(linked)
    }

    /// Returns the paths at which a library may be that the file at `own` needs, the likeliest first.
    pub(crate) fn places(&self, library: &Path, own: &Path) -> Vec<PathBuf> {
        if library.components().count() > 1 {
            return vec![library.to_owned()];
        }
        let origin = own.parent().unwrap_or(Path::new("/")).display().to_string();
        let named =
            self.named.iter().map(|dir| PathBuf::from(dir.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", &origin)));
        let chosen = privilege::variable("LD_LIBRARY_PATH");
        let chosen: Vec<PathBuf> = chosen.map(|list| std::env::split_paths(&list).collect()).unwrap_or_default();
        // Libraries are often next to the library that needs them. musl's are next to its linker.
        let next = [self.interpreter.as_deref(), Some(own)].into_iter().flatten().filter_map(Path::parent);
        let next = next.map(Path::to_owned);
        // Of distributions for one or several architectures; libraries of other machines are skipped.
        let usual = [
            "/lib/x86_64-linux-gnu",
            "/usr/lib/x86_64-linux-gnu",
            "/lib/aarch64-linux-gnu",
            "/usr/lib/aarch64-linux-gnu",
            "/lib/i386-linux-gnu",
            "/usr/lib/i386-linux-gnu",
            "/lib64",
            "/usr/lib64",
            "/lib32",
            "/usr/lib32",
            "/lib",
            "/usr/lib",
            "/usr/local/lib",
        ]
        .map(PathBuf::from);
        let dirs = named.chain(chosen).chain(next).chain(usual);
        dirs.filter(|dir| dir.is_absolute()).map(|dir| dir.join(library)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_names_its_interpreter_and_libraries() {
        let own = std::fs::read(std::env::current_exe().expect("a path")).expect("read");
        let linked = Linked::of(&own).expect("an ELF file");
        let interpreter = linked.interpreter.clone().expect("dynamic");
        assert!(interpreter.is_absolute(), "{interpreter:?}");
        assert!(linked.needed.iter().any(|name| name.starts_with("libc.so.6")), "{linked:?}");
        assert_eq!(Linked::of(b"#!/bin/sh"), None);
        assert_eq!(Linked::of(&own[..64]), None);
        // Damage is never more than a missing name.
        let mut odd = own[..own.len().min(1 << 20)].to_vec();
        for at in (0..odd.len().min(1 << 14)).step_by(7) {
            odd[at] ^= 0xff;
            let _ = Linked::of(&odd);
            odd[at] ^= 0xff;
        }
    }

    #[test]
    fn libraries_are_searched_where_the_file_says_first() {
        let linked = Linked { named: vec!["$ORIGIN/../lib".into(), "relative".into()], ..Linked::default() };
        let places = linked.places(Path::new("liba.so"), Path::new("/opt/app/bin/app"));
        assert_eq!(places[0], Path::new("/opt/app/bin/../lib/liba.so"));
        for other in ["/opt/app/bin/liba.so", "/usr/lib/liba.so"] {
            assert!(places.contains(&other.into()), "{places:?}");
        }
        assert!(places.iter().all(|place| place.is_absolute()), "{places:?}");
        assert_eq!(linked.places(Path::new("/x/liba.so"), Path::new("/app")), [Path::new("/x/liba.so")]);
    }
}
