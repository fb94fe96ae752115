//! Checks that there are no cycles between files, except between a folder's own file and the files below it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{root, sources};

/// A file as a module: `["query", "flame", "build"]`.
type Module = Vec<String>;

fn module(path: &Path) -> Module {
    let below = path.strip_prefix(root().join("src")).expect("below src").with_extension("");
    let mut parts: Module = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// The code of a file without comments and without the tests at its end, which may use any module.
fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).expect("read");
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Expands `a::{b, c::{d}}` to `a::b` and `a::c::d`.
fn unfold(tree: &str, into: &mut Vec<String>) {
    let Some((before, group)) = tree.split_once('{') else {
        return into.push(tree.trim().to_owned());
    };
    let group = group.rsplit_once('}').map_or(group, |(group, _)| group);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in group.char_indices().chain([(group.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let one = group[start..at].trim();
                start = (at + 1).min(group.len());
                if !one.is_empty() {
                    unfold(&format!("{}{one}", before.trim()), into);
                }
            }
            _ => (),
        }
    }
}

/// The paths in code, in `use` items and in place.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let begins = code[..at].chars().next_back().is_none_or(|c| c.is_whitespace());
        if let (true, Some((tree, _))) = (begins, code[at + 4..].split_once(';')) {
            unfold(tree, &mut found);
        }
    }
    ["crate", "super", "self"].iter().for_each(|start| found.extend(beginning(code, start)));
    found
}

/// The paths in code that begin with a name.
fn beginning(code: &str, start: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    let places = code.match_indices(&format!("{start}::")).map(|(at, _)| at).collect::<Vec<_>>();
    let whole = places.into_iter().filter(|at| !code[..*at].ends_with(is_part));
    whole.map(|at| code[at..].chars().take_while(|c| is_part(*c)).collect()).collect()
}

/// Resolves a path to the module that it leads into, as deep as there are files.
fn resolve(from: &Module, path: &str, modules: &BTreeSet<Module>) -> Option<Module> {
    let mut parts = path.split("::").map(str::trim).peekable();
    let mut at = match parts.next()? {
        "crate" => Module::new(),
        "self" => from.clone(),
        "super" => from[..from.len().checked_sub(1)?].to_vec(),
        _ => return None,
    };
    while parts.next_if_eq(&"super").is_some() {
        at.pop()?;
    }
    for part in parts {
        at.push(part.to_owned());
        if !modules.contains(&at) {
            at.pop();
            break;
        }
    }
    (!at.is_empty()).then_some(at)
}

/// The modules that a module's code uses.
///
/// Excludes its parents and children, which form one unit. A path into a folder counts as a use of the folder's own
/// file.
fn arrows_of(from: &Module, code: &str, modules: &BTreeSet<Module>) -> BTreeSet<Module> {
    let mut named = BTreeSet::new();
    for path in paths(code) {
        let Some(to) = resolve(from, &path, modules) else { continue };
        // An imported module is followed by the names used from it.
        if let Some(name) = to.last().filter(|name| path.split("::").last() == Some(name)) {
            let whole = |path: String| format!("crate::{}{}", to.join("::"), &path[name.len()..]);
            named.extend(beginning(code, name).into_iter().filter_map(|path| resolve(from, &whole(path), modules)));
        }
        named.insert(to);
    }
    let files = named.iter().flat_map(|to| (1..=to.len()).map(|depth| to[..depth].to_vec()));
    files.filter(|to| !to.starts_with(from) && !from.starts_with(to)).collect()
}

/// The modules reachable from a module over one or more edges.
fn reached<'a>(from: &Module, arrows: &'a BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let (mut found, mut open) = (BTreeSet::new(), Vec::from_iter(arrows.get(from).into_iter().flatten()));
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(arrows.get(next).into_iter().flatten());
        }
    }
    found
}

/// The edges that lead back to their file, as `from -> to`.
fn circles(arrows: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (from, to) in arrows {
        for next in to {
            if reached(next, arrows).contains(from) {
                wrong.push(format!("{} -> {}", from.join("/"), next.join("/")));
            }
        }
    }
    wrong
}

#[test]
fn no_circles_between_files() {
    let files: Vec<_> = sources(&root().join("src")).into_iter().filter(|path| !is_test(path)).collect();
    let modules: BTreeSet<Module> = files.iter().map(|path| module(path)).collect();
    let arrows = files.iter().map(|path| (module(path), arrows_of(&module(path), &code(path), &modules))).collect();
    let wrong = circles(&arrows);
    assert!(wrong.is_empty(), "cycles between files: {wrong:#?}");
}

fn is_test(path: &Path) -> bool {
    path.iter().any(|part| part == "tests" || part == "tests.rs")
}

#[test]
fn a_circle_is_found() {
    let module = |name: &str| vec!["query".to_owned(), name.to_owned()];
    let modules = BTreeSet::from_iter(["a", "b", "c"].map(module).into_iter().chain([vec!["query".to_owned()]]));
    let arrows_of = |from: &str, code: &str| (module(from), arrows_of(&module(from), code, &modules));
    let mut arrows = BTreeMap::from([
        arrows_of("a", "use super::{b::{One, Two}, c};\n"),
        arrows_of("b", "fn f() { crate::query::c::three() }\n"),
        arrows_of("c", "use std::fmt;\n"),
    ]);
    assert_eq!(arrows[&module("a")], BTreeSet::from(["b", "c"].map(module)));
    assert!(circles(&arrows).is_empty());
    arrows.extend([arrows_of("c", "use super::a::One;\n")]);
    assert_eq!(circles(&arrows).len(), 4);
}

/// A file uses another folder's own file, and that file uses a file in the first one's folder.
#[test]
fn a_circle_through_a_folders_own_file_is_found() {
    let module = |path: &str| path.split('/').map(str::to_owned).collect::<Module>();
    let modules = BTreeSet::from_iter(["ui", "ui/keys", "ui/keys/all", "ui/top", "ui/top/own"].map(module));
    let arrows_of = |from: &str, code: &str| (module(from), arrows_of(&module(from), code, &modules));
    let own = arrows_of("ui/top/own", "use crate::ui::keys::all;\nfn f() { all::one() }\n");
    assert_eq!(own.1, BTreeSet::from(["ui/keys", "ui/keys/all"].map(module)));
    let file = arrows_of("ui/keys", "use crate::ui::top;\nfn f() { top::own::two() }\n");
    assert_eq!(file.1, BTreeSet::from(["ui/top", "ui/top/own"].map(module)));
    assert_eq!(circles(&BTreeMap::from([own, file])), ["ui/keys -> ui/top/own", "ui/top/own -> ui/keys"]);
}
