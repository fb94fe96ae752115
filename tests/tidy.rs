//! The rules of the house, as a test: which folder may use which, where `unsafe` may be, and that
//! generated parts of the README are up to date.

use std::path::{Path, PathBuf};

/// The folders in the order of a sample's life: each may use those before it.
const ORDER: &[&str] = &[
    "kernel", "record", "lang", "perfdata", "event", "filter", "session", "symbols", "source", "profile", "query",
    "panel", "units", "cpu", "ingest", "engine", "ui", "report", "export", "cli",
];

/// Edges that the order would allow and the design forbids.
const FORBIDDEN: &[(&str, &str)] = &[
    ("record", "kernel"),
    ("lang", "kernel"),
    ("lang", "record"),
    ("ui", "kernel"),
    ("report", "ui"),
    ("export", "ui"),
    ("units", "kernel"),
    ("cpu", "kernel"),
    ("query", "source"),
    ("panel", "source"),
];

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("dir").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn folder(path: &Path) -> Option<String> {
    let below = path.strip_prefix(root().join("src")).ok()?;
    let first = below.components().next()?.as_os_str().to_str()?.to_owned();
    (!first.ends_with(".rs")).then_some(first)
}

#[test]
fn arrows_run_downwards_only() {
    let mut wrong = Vec::new();
    for path in sources(&root().join("src")) {
        let Some(from) = folder(&path) else { continue };
        let at = ORDER.iter().position(|f| *f == from).unwrap_or_else(|| panic!("{from} has no place in the order"));
        let text = std::fs::read_to_string(&path).expect("read");
        for piece in text.split("crate::").skip(1) {
            let to: String = piece.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            let Some(target) = ORDER.iter().position(|f| *f == to) else { continue };
            let forbidden = FORBIDDEN.iter().any(|(a, b)| *a == from && *b == to);
            if target > at || forbidden {
                wrong.push(format!("{}: {from} uses {to}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What draws is given what it shows, and not the whole model.
#[test]
fn drawing_never_sees_the_model() {
    let ui = root().join("src/ui");
    let draws = |path: &Path| {
        let inside = path.strip_prefix(&ui).expect("below ui");
        inside.starts_with("draw") || inside.starts_with("widget") || path.ends_with("draw.rs")
    };
    let files: Vec<PathBuf> = sources(&ui).into_iter().filter(|path| draws(path)).collect();
    assert!(files.len() > 15, "{files:?}");
    for path in files {
        let text = std::fs::read_to_string(&path).expect("read");
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        assert!(!words.into_iter().any(|word| word == "App"), "{} knows the model", path.display());
    }
}

#[test]
fn every_folder_has_its_floor() {
    for name in ORDER {
        let module = root().join("src").join(name).join("mod.rs");
        assert!(module.is_file(), "{} is missing", module.display());
    }
}

#[test]
fn unsafe_lives_in_kernel_only_and_gives_its_reason() {
    for path in sources(&root().join("src")) {
        let text = std::fs::read_to_string(&path).expect("read");
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if !(code.contains("unsafe {") || code.contains("unsafe impl") || code.contains("unsafe fn")) {
                continue;
            }
            assert_eq!(folder(&path).as_deref(), Some("kernel"), "{}:{}", path.display(), i + 1);
            let above = &lines[i.saturating_sub(6)..i];
            assert!(above.iter().any(|l| l.contains("SAFETY:")), "{}:{} gives no reason", path.display(), i + 1);
        }
    }
}

/// What is packed inside of files is charged before it is unpacked, by one door.
#[test]
fn what_is_packed_goes_through_one_door() {
    for path in sources(&root().join("src")).iter().filter(|path| !path.ends_with("perfdata/unpack.rs")) {
        let text = std::fs::read_to_string(path).expect("read");
        for other in ["uncompressed_data(", ".decompress()", "bulk::decompress", "XzReader", "decompress_vec"] {
            assert!(!text.contains(other), "{}: {other}", path.display());
        }
    }
}

/// What a profiled process or a recording names is opened by one module.
#[test]
fn files_that_others_name_go_through_the_door() {
    const OPENS: &[&str] = &["File::open", "File::options", "OpenOptions", "fs::read(", "fs::read_to_string", "openat"];
    let mut doors = 0;
    for path in sources(&root().join("src")) {
        if !matches!(folder(&path).as_deref(), Some("symbols" | "source")) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("read");
        let tests = path.ends_with("tests.rs");
        let code = text.split("#[cfg(test)]\nmod tests").next().filter(|_| !tests).unwrap_or_default();
        let opens: Vec<&str> = code.lines().filter(|line| OPENS.iter().any(|word| line.contains(word))).collect();
        if path.ends_with("symbols/door.rs") {
            doors += usize::from(!opens.is_empty());
        } else {
            assert!(opens.is_empty(), "{} opens files: {opens:#?}", path.display());
        }
    }
    assert_eq!(doors, 1);
}

/// What the environment says of where to look, and what to run, is asked in one place, which knows whether to believe
/// it.
#[test]
fn the_environment_is_asked_in_one_place() {
    for path in sources(&root().join("src")) {
        // The interface asks what terminal it is on.
        if path.ends_with("kernel/privilege.rs") || path.ends_with("ui/term_query.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("read");
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        assert!(!code.contains("env::var"), "{}", path.display());
    }
}

#[test]
fn every_file_says_what_it_owns_and_is_one_idea() {
    for path in sources(&root().join("src")) {
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.starts_with("//!"), "{} does not say what it owns", path.display());
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().lines().count();
        assert!(code <= 620, "{} has {code} lines", path.display());
    }
}

#[test]
fn the_terminal_is_known_to_the_interface_only_and_printing_to_the_command_line() {
    for path in sources(&root().join("src")) {
        let folder = folder(&path).unwrap_or_default();
        let text = std::fs::read_to_string(&path).expect("read");
        let code = || text.lines().filter(|l| !l.trim_start().starts_with("//"));
        if folder != "ui" {
            assert!(!code().any(|l| l.contains("ratatui") || l.contains("crossterm")), "{}", path.display());
        }
        let prints = |l: &str| {
            ["println!", "eprintln!", "print!(", "dbg!", "todo!", "unimplemented!"].iter().any(|w| l.contains(w))
        };
        assert!(!code().any(prints), "{} prints", path.display());
    }
}

/// Text goes to standard output and error through one sink, and files are made by one module, so that nothing new
/// forgets what both see to: no control characters, and no links of others.
#[test]
fn output_has_one_sink_and_files_have_one_maker() {
    const STREAMS: &[&str] = &["cli/output.rs", "ui/term.rs", "ui/term_query.rs", "kernel/tty.rs"];
    const MAKERS: &[&str] = &[
        "File::create",
        "fs::write(",
        "create_new(",
        "OpenOptions::new",
        "File::options",
        "create_dir",
        "fs::rename(",
    ];
    for path in sources(&root().join("src")) {
        let name = path.strip_prefix(root().join("src")).expect("below src").display().to_string();
        let text = std::fs::read_to_string(&path).expect("read");
        let code = text.split("#[cfg(test)]").next().filter(|_| !name.ends_with("tests.rs")).unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let asks = ["is_terminal()", "TermVars::from_env"].iter().any(|word| line.contains(word));
            let streams = ["stdout()", "stderr()"].iter().any(|word| line.contains(&format!("io::{word}")));
            assert!(!streams || asks || STREAMS.contains(&&*name), "{name}: {line}");
            let line = line.replace("NewFile::", "");
            let makes = MAKERS.iter().any(|word| line.contains(word));
            assert!(!makes || WRITERS.contains(&&*name) || line.contains(".read(true)"), "{name}: {line}");
        }
    }
}

/// Who makes files or folders beside `kernel/files.rs`, and why that is no way for others: the kernel's own files,
/// which are opened and not made; and folders that the user names.
const WRITERS: &[&str] =
    &["kernel/files.rs", "event/probe/tracefs.rs", "event/referee.rs", "cli/generate.rs", "symbols/places.rs"];

#[test]
fn the_readme_has_the_table_of_keys() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let table = perfprof_tui::ui::commands::markdown();
    assert!(readme.contains(table.trim()), "README.md: replace the table of keys by\n\n{table}");
}

/// The README has a page of at most ten lines for each analysis unit, with an example, and the example of a new one
/// is a unit that runs.
#[test]
fn the_readme_has_a_page_for_each_unit() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    for spec in perfprof_tui::units::registry::UNITS {
        let head = format!("\n#### {}\n", spec.name);
        let at = readme.find(&head).unwrap_or_else(|| panic!("README.md has no page {}", spec.name));
        let page = &readme[at + head.len()..];
        let page = &page[..page.find("\n#").unwrap_or(page.len())];
        let lines = page.lines().filter(|line| !line.trim().is_empty()).count();
        assert!(lines <= 10, "{} has {lines} lines", spec.name);
        assert!(page.contains("    $ perfprof-tui "), "{} shows no example", spec.name);
    }
    let example = std::fs::read_to_string(root().join("src/units/forks.rs")).expect("the example");
    assert!(example.lines().count() < 80);
    let indented: String =
        example.lines().map(|l| if l.is_empty() { "\n".into() } else { format!("    {l}\n") }).collect();
    assert!(readme.contains(&indented), "README.md does not show src/units/forks.rs as it is");
}

/// Whatever the README says that something is proved by is there: a test of that name, a file, a fuzz target.
#[test]
fn what_the_readme_names_as_proof_is_there() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let (_, trust) = readme.split_once("\n## What it trusts\n").expect("the chapter");
    let trust = trust.split("\n## ").next().unwrap_or_default();
    let mut code = String::new();
    for path in ["src", "tests"].iter().flat_map(|dir| sources(&root().join(dir))) {
        code.push_str(&std::fs::read_to_string(path).expect("read"));
    }
    let is_test = |name: &str| code.contains(&format!("    fn {name}(")) || code.contains(&format!("\nfn {name}("));
    let is_target = |name: &str| root().join(format!("fuzz/fuzz_targets/{name}.rs")).is_file();
    let rows: Vec<&str> = trust.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 12, "{rows:?}");
    for row in &rows {
        let proof = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
        let names: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "nothing proves: {row}");
        for name in names {
            assert!(is_test(name) || is_target(name) || root().join(name).is_file(), "{name} is nowhere: {row}");
        }
    }
    for target in std::fs::read_dir(root().join("fuzz/fuzz_targets")).expect("targets").flatten() {
        let name = target.path().file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(trust.contains(&format!("`{name}`")), "the README does not say what fuzz target {name} is for");
    }
}

/// Licences that may go into one binary under ours. MPL-2.0 and CDDL-1.0 ask for the source of their own files alone.
const LICENCES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "0BSD",
    "BSL-1.0",
    "NCSA",
    "Unlicense",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "MPL-2.0",
    "CDDL-1.0",
    "WTFPL",
    "bzip2-1.0.6",
];

/// An SPDX expression without nested brackets; of what is joined by OR one is enough.
fn is_free(expression: &str) -> bool {
    let one = |part: &str| {
        let part = part.trim_matches(|c| matches!(c, '(' | ')'));
        part.replace('/', " OR ").split(" OR ").any(|licence| LICENCES.contains(&licence.trim()))
    };
    expression.split(" AND ").all(one)
}

#[test]
fn dependencies_are_published_and_free() {
    // What is built into the program, and no more: cargo has fetched that for this test, and nothing else.
    let mut command = std::process::Command::new(env!("CARGO"));
    command.current_dir(root()).args(["tree", "--offline", "--locked", "--package", "perfprof-tui"]);
    command.args(["--edges", "no-dev", "--target", "x86_64-unknown-linux-gnu", "--prefix", "none"]);
    let output = command.args(["--format", "{p}|{l}|"]).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("text");
    let packages: std::collections::BTreeSet<&str> = tree.lines().skip(1).collect();
    assert!(packages.len() > 50, "{tree}");
    for line in packages {
        let [package, licence, ..] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert!(is_free(licence), "{package}: {licence}");
        // A package that is not of the registry has the place where it is from behind its version.
        let place = package.trim_end_matches(" (proc-macro)");
        assert!(!place.contains('('), "{package} is not published");
    }
    assert!(is_free("(MIT OR GPL-2.0-only) AND NCSA") && !is_free("MIT AND GPL-2.0-only") && !is_free("none"));
}

/// Every command line that the README shows is one that the program takes.
#[test]
fn the_readmes_command_lines_are_taken() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("README");
    let shown = readme.lines().filter_map(|line| line.strip_prefix("    "));
    let shown = shown.filter_map(|line| line.trim_start_matches("$ ").strip_prefix("perfprof-tui "));
    let recipes = readme.split('`').filter_map(|code| code.strip_prefix("perfprof-tui "));
    // Those with an ellipsis or brackets say what there is, and are no command lines.
    let whole = |line: &&str| !line.contains('…') && (!line.contains(['[', '\n', '|']) || line.contains('\''));
    let lines: Vec<&str> = shown.chain(recipes).filter(whole).collect();
    assert!(lines.len() > 40, "{lines:?}");
    for line in lines {
        let line = line.split(" | ").next().unwrap_or(line);
        let mut shell = std::process::Command::new("sh");
        let words = shell
            .arg("-c")
            .arg(format!("printf '%s\\0' {}", line.replace("SHELL", "bash").replace("UNIT", "rundelay")))
            .output()
            .expect("sh")
            .stdout;
        let words = String::from_utf8(words).expect("text");
        let words = ["perfprof-tui"].into_iter().chain(words.split_terminator('\0')).map(Into::into).collect();
        let parser = perfprof_tui::cli::args::whole();
        let words = perfprof_tui::cli::doors::arranged(words, &parser).unwrap_or_else(|why| panic!("{line}: {why}"));
        if let Err(error) = parser.try_get_matches_from(words) {
            assert!(!error.use_stderr(), "{line}: {error}");
        }
    }
}

/// Whoever wants the machine or the process to itself has to ask for it first.
#[test]
fn tests_that_run_alone_say_so() {
    let mut tests = 0;
    for path in sources(&root().join("tests/alone")) {
        let text = std::fs::read_to_string(&path).expect("read");
        for test in text.split("\n#[test]\n").skip(1) {
            let (head, body) = test.split_once("{\n").expect("a body");
            let first = body.lines().find(|line| !line.trim_start().starts_with("const ")).unwrap_or_default();
            let name = format!("{}: {}", path.display(), head.trim());
            assert_eq!(first.trim(), "let _alone = alone();", "{name}");
            tests += 1;
        }
    }
    assert!(tests > 15, "{tests}");
}
