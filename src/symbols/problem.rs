//! Why a DSO has no names or lines: a message, and the kind of problem.

use std::fmt::{self, Display, Formatter};
use std::io;

use super::trust::door::{Refusal, RefusalKind};
use super::trust::same_file::Replaced;
use crate::record::kinds::BuildId;

/// The kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// There is nothing at the file's path.
    Absent,
    /// Not a stored, regular file: a directory, a device, a file of /proc.
    NoFile,
    /// A file with another build ID is at the path; the message has both.
    OtherBuild,
    /// Another file is at the path or has the inode, or the content was changed.
    Replaced,
    /// It has names, but nothing proves that the file is the mapped one.
    Unproven,
    /// Some of the names could not be read.
    Partial,
    /// Any other problem.
    Other,
}

/// A problem with a DSO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The kind of problem.
    pub kind: ProblemKind,
    /// The path that the message starts with, if any: the subject of its sentence.
    pub path: Option<String>,
    /// The message, without the path.
    pub why: String,
    /// The build ID, to find the file elsewhere.
    pub build_id: Option<BuildId>,
}

impl Problem {
    pub(crate) fn other_build(have: Option<BuildId>, want: BuildId) -> Self {
        let have = have.map_or("no build id".to_owned(), |have| format!("build id {have}"));
        let why = format!("the file has {have}, but {want} was mapped");
        Self { kind: ProblemKind::OtherBuild, ..why.into() }
    }

    pub(crate) fn partial(why: String) -> Self {
        Self { kind: ProblemKind::Partial, ..why.into() }
    }

    /// Adds the build ID of the missing file, unless the message has it already.
    pub(crate) fn of_build(self, id: Option<BuildId>) -> Self {
        let build_id = id.filter(|_| self.kind != ProblemKind::OtherBuild);
        Self { build_id, ..self }
    }

    /// Describes a file with names that may be another build of the mapped file.
    pub(crate) fn unproven() -> Self {
        let why = "may be another build: it has no build id, and was changed later or mapped at an unknown time";
        Self { kind: ProblemKind::Unproven, ..why.to_owned().into() }
    }

    /// Returns whether the file does not exist here and cannot be obtained.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self.kind, ProblemKind::Absent | ProblemKind::NoFile) && self.build_id.is_none()
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{path} ")?;
        }
        f.write_str(&self.why)?;
        self.build_id.map_or(Ok(()), |id| write!(f, "; its build id is {id}"))
    }
}

impl From<String> for Problem {
    fn from(why: String) -> Self {
        Self { kind: ProblemKind::Other, path: None, why, build_id: None }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        if let Some(Refusal { path, kind: why }) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
            let is_no_file = matches!(why, RefusalKind::NotPlain | RefusalKind::Pseudo);
            let kind = if is_no_file { ProblemKind::NoFile } else { ProblemKind::Other };
            return Self { kind, path: Some(path.clone()), ..why.to_string().into() };
        }
        let is_replaced = error.get_ref().is_some_and(|inner| inner.is::<Replaced>());
        let kind = match error.kind() {
            _ if is_replaced => ProblemKind::Replaced,
            io::ErrorKind::NotFound => ProblemKind::Absent,
            _ => ProblemKind::Other,
        };
        Self { kind, ..error.to_string().into() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trust::door;
    use super::*;

    #[test]
    fn what_is_gone_is_told_by_its_error() {
        let dir = tempfile::tempdir().expect("dir");
        let opened = |name: &str| door::own(&dir.path().join(name)).map(drop).map_err(Problem::from);
        std::fs::write(dir.path().join("file"), "").expect("written");
        assert_eq!(opened("file"), Ok(()));
        let absent = opened("none").expect_err("not there");
        let folder = opened("").expect_err("a folder");
        assert_eq!((absent.kind, folder.kind), (ProblemKind::Absent, ProblemKind::NoFile), "{absent} {folder}");
        assert!(absent.is_gone() && folder.is_gone());
        let id = BuildId::new(&[1; 20]);
        let known = absent.of_build(id);
        assert!(!known.is_gone() && known.to_string().ends_with(&format!("; its build id is {}", "01".repeat(20))));
        // The kind does not depend on the words in the message.
        let words = "/tmp/No such file or directory was replaced".to_owned();
        assert_eq!(
            [words.clone().into(), io::Error::other(words).into()].map(|why: Problem| why.is_gone()),
            [false; 2]
        );
        let (have, want) = (BuildId::new(&[2]).expect("an id"), BuildId::new(&[3]).expect("an id"));
        assert_eq!(Problem::other_build(Some(have), want).of_build(id).build_id, None);
    }
}
