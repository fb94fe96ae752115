//! Messages about files whose names or lines could not be read, without those that the user cannot provide.

use std::path::Path;

use crate::panel::text::clean;
use crate::session::{DsoId, DsoKind, Session};
use crate::symbols::{Problem, ProblemKind};

const NAMED: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sought {
    Names,
    Lines,
}

/// Returns messages about files that could not be read. `is_here` means that the recording is of this machine, so that
/// deleted files cannot be recovered.
pub(super) fn words(
    session: &Session,
    problems: impl IntoIterator<Item = (DsoId, Problem)>,
    sought: Sought,
    is_here: bool,
) -> Vec<String> {
    let (mut out, mut missing, mut unproven) = (Vec::new(), Vec::new(), Vec::new());
    for (dso, why) in problems {
        let dso = session.dsos.get(dso);
        let may_be_had = || dso.kind == DsoKind::File && !is_here && is_program(&dso.path);
        if dso.kind.is_kernel() || why.kind == ProblemKind::Partial {
            out.push(format!("{}: {why}", dso.path));
        } else if why.kind == ProblemKind::Unproven {
            unproven.push((dso.path.clone(), why));
        } else if !why.is_gone() || sought == Sought::Names && may_be_had() {
            // If the file was missing, its names were reported already.
            missing.push((dso.path.clone(), why));
        }
    }
    missing.sort_by_cached_key(|(path, why)| (path.clone(), why.to_string()));
    missing.dedup_by(|a, b| a.0 == b.0);
    unproven.sort_by_cached_key(|(path, _)| path.clone());
    // The first few, and the number of the others.
    let some = |mut list: Vec<String>| {
        let more = list.len().saturating_sub(NAMED);
        list.truncate(NAMED);
        list.extend((more > 0).then(|| format!("{more} more")));
        list.join(", ")
    };
    match unproven.as_slice() {
        [] => {}
        [(path, why)] => out.push(format!("{}: {why}", clean(path))),
        several => {
            let words = "files may be other builds than those that were mapped: they have no build id, and were changed \
                         since or nothing tells when they were mapped";
            out.push(format!(
                "{} {words}: {}",
                several.len(),
                some(several.iter().map(|(path, _)| clean(path).into_owned()).collect())
            ));
        }
    }
    let what = if sought == Sought::Names { "symbols" } else { "lines" };
    // The usual reason is left out.
    let named = |(path, why): &(std::sync::Arc<str>, Problem)| match (why.kind, why.build_id) {
        (ProblemKind::Absent, None) => clean(path).into_owned(),
        (ProblemKind::Absent, Some(id)) => format!("{} (build id is {id})", clean(path)),
        _ if why.path.as_deref() == Some(path) => {
            format!("{} ({})", clean(path), Problem { path: None, ..why.clone() })
        }
        _ => format!("{} ({why})", clean(path)),
    };
    match missing.as_slice() {
        [] => {}
        [(path, why)] => out.push(format!("{path}: {why}")),
        several => {
            let list = some(several.iter().map(named).collect());
            out.push(format!("{what} of {} files are missing: {list}", several.len()));
        }
    }
    out
}

/// Returns whether a path may be that of a program's file: not a device, a directory, or a deleted file.
fn is_program(path: &str) -> bool {
    let is_special = ["/dev/", "/proc/", "/sys/", "/memfd:"].iter().any(|root| path.starts_with(root));
    !is_special && !path.ends_with(" (deleted)") && Path::new(path).file_name().is_some() && path.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::record::kinds::{BuildId, FileId, Mmap};
    use crate::session::Origin;

    fn said(sought: Sought, is_here: bool, files: &[(&str, Problem)]) -> Vec<String> {
        let mut session = Session::new(Origin::Recorded);
        let mut problems = Vec::new();
        for (i, (path, why)) in files.iter().enumerate() {
            let start = 0x1000 * (i as u64 + 1);
            let (file, name) = (FileId::None, path.as_bytes());
            let map = Mmap { pid: 1, tid: 1, start, len: 0x1000, pgoff: 0, file, prot: 5, flags: 2, name };
            session.apply(&Record::Mmap(map), 0);
            problems.push((session.dsos.of_map(session.user_map(1, start)).id, why.clone()));
        }
        words(&session, problems, sought, is_here)
    }

    fn gone() -> Problem {
        std::io::Error::from_raw_os_error(libc::ENOENT).into()
    }

    fn identified() -> Problem {
        gone().of_build(BuildId::new(&[0x01, 0x23]))
    }

    #[test]
    fn what_is_gone_is_said_where_it_may_be_found() {
        let folder = Problem { kind: ProblemKind::NoFile, ..gone() };
        let files = [("/bin/a", gone()), ("/dev/zero", gone()), ("/tmp/x (deleted)", gone()), ("/", folder)];
        assert_eq!(said(Sought::Names, false, &files), [format!("/bin/a: {}", gone())]);
        assert!(said(Sought::Names, true, &files).is_empty() && said(Sought::Lines, false, &files).is_empty());
        assert_eq!(said(Sought::Names, true, &[("/bin/a", identified())]), [format!("/bin/a: {}", identified())]);
    }

    #[test]
    fn files_that_may_be_others_have_a_line_of_their_own() {
        let one = ("/bin/a", Problem::unproven());
        let said_of_one = format!("/bin/a: {}", Problem::unproven());
        assert_eq!(said(Sought::Names, true, std::slice::from_ref(&one)), [said_of_one]);
        let lines = said(Sought::Names, false, &[one, ("/bin/b", Problem::unproven()), ("/bin/c", gone())]);
        assert!(lines.len() == 2 && lines[0].starts_with("2 files may be other builds"), "{lines:?}");
        assert!(lines[0].ends_with(": /bin/a, /bin/b") && lines[1].starts_with("/bin/c: "), "{lines:?}");
    }

    #[test]
    fn a_path_is_left_out_only_if_it_is_that_of_the_file() {
        let refused = |path: &str| Problem { path: Some(path.to_owned()), ..Problem::from("is a link".to_owned()) };
        let files =
            [("/bin/a", refused("/bin/a")), ("/bin/b", refused("/bin/b.map")), ("/bin/c", "/bin/c:".to_owned().into())];
        let want =
            "symbols of 3 files are missing: /bin/a (is a link), /bin/b (/bin/b.map is a link), /bin/c (/bin/c:)";
        assert_eq!(said(Sought::Names, true, &files), [want]);
    }

    #[test]
    fn several_files_are_one_line() {
        // A message with the words of a missing file.
        let path = Some("/bin/No such file or directory".to_owned());
        let replaced = Problem { path, ..Problem::from("is not the file that was mapped".to_owned()) };
        let files = [
            ("/bin/d", gone()),
            ("/bin/No such file or directory", replaced),
            ("/bin/b", gone()),
            ("/bin/c", identified()),
        ];
        let want = "symbols of 4 files are missing: /bin/No such file or directory (is not the file that was mapped), \
                    /bin/b, /bin/c (build id is 0123), 1 more";
        assert_eq!(said(Sought::Names, false, &files), [want]);
        let known = "symbols of 2 files are missing: /bin/No such file or directory (is not the file that was mapped), \
                     /bin/c (build id is 0123)";
        assert_eq!(said(Sought::Names, true, &files), [known]);
    }
}
