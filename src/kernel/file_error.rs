//! I/O errors with the path of their file: the system's own text does not name it.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", .path.display())]
struct FileError {
    path: PathBuf,
    source: io::Error,
}

/// Returns a function that adds the path of a file to an error, which keeps its kind.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> io::Error + '_ {
    move |source| io::Error::new(source.kind(), FileError { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_file_and_keeps_its_kind() {
        let path = Path::new("/nowhere/x");
        let error = std::fs::read(path).map_err(at(path)).expect_err("absent");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("/nowhere/x: No such file"), "{error}");
    }
}
