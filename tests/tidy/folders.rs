//! Folders that can be read, and types that one name finds.

use std::collections::BTreeMap;

use super::{root, sources};

/// The most files that a folder has next to each other.
const MOST_FILES: usize = 20;

/// A reader takes in a folder at a glance; more files than that need folders by topic.
#[test]
fn folders_have_few_files() {
    let mut files: BTreeMap<_, usize> = BTreeMap::new();
    for path in sources(&root().join("src")) {
        *files.entry(path.parent().expect("a folder").to_owned()).or_default() += 1;
    }
    assert!(files.len() > 50, "{files:#?}");
    files.retain(|_, count| *count > MOST_FILES);
    assert!(files.is_empty(), "more than {MOST_FILES} files: {files:#?}");
}

/// Returns the name of a type that a line declares for other files.
fn declared(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub")?;
    let rest = if rest.starts_with('(') { rest.split_once(") ")?.1 } else { rest.trim_start() };
    let rest = ["struct ", "enum ", "trait ", "type ", "union "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[test]
fn declarations_are_recognized() {
    assert_eq!(declared("pub struct Filter {"), Some("Filter"));
    assert_eq!(declared("pub(crate) type Rows<'a> = &'a [u8];"), Some("Rows"));
    assert_eq!(declared("pub(in crate::symbols) enum Kind {"), Some("Kind"));
    assert_eq!(declared("    pub struct Inner;"), None);
    assert_eq!(declared("pub fn trait_of() {}"), None);
}

/// Two public types of one name send a reader to the wrong file.
#[test]
fn types_have_names_of_their_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in sources(&root().join("src")) {
        let text = std::fs::read_to_string(&path).expect("read");
        let file = path.strip_prefix(root()).expect("below the root").display().to_string();
        for name in text.lines().filter_map(declared) {
            places.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    assert!(places.len() > 500, "{} types", places.len());
    places.retain(|_, files| files.len() > 1);
    assert!(places.is_empty(), "{places:#?}");
}
