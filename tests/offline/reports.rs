//! `report` with perf's options, compared with perf on the same file: columns, filters, all forms of call chains,
//! threads, mappings, record counts.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::common::cells::row;
use crate::common::transcript::Transcript;
use crate::common::{data, installed, program, run, symfs};

/// Returns whether a line of a `-t '|'` table is a row, which begins with a share.
fn is_row(line: &str) -> bool {
    line.split('|').next().is_some_and(|share| share.ends_with('%')) && line.split('|').count() > 1
}

/// The lines of our report and perf's with some options, without headings, spaces around values and empty lines.
struct Pair {
    ours: Vec<String>,
    perf: Vec<String>,
}

impl Pair {
    fn of(file: &str, root: &Path, words: &str) -> Self {
        let ask = |mut command: Command| {
            command.args(["report", "--stdio", "-i"]).arg(data(file)).args(words.split(' '));
            let output = run(command.arg("--symfs").arg(root).arg("--kallsyms").arg(data("kallsyms")));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let joined = |value: &str| value.split_whitespace().collect::<Vec<_>>().join(" ");
        let trimmed = |line: &str| line.split('|').map(joined).collect::<Vec<_>>().join("|");
        let lines = |text: String| {
            text.lines().filter(|line| !line.starts_with('#')).map(trimmed).filter(|line| !line.is_empty()).collect()
        };
        Self { ours: lines(ask(program())), perf: lines(ask(Command::new("perf"))) }
    }

    /// Removes the chains, which perf always prints if there are any.
    fn rows(self) -> Self {
        let rows = |lines: Vec<String>| lines.into_iter().filter(|line| is_row(line)).collect();
        Self { ours: rows(self.ours), perf: rows(self.perf) }
    }

    /// Compares the lines in any order: perf orders rows of equal size arbitrarily.
    fn assert_same(&self, words: &str) {
        let sorted = |lines: &[String]| {
            let mut lines = lines.to_vec();
            lines.sort();
            lines.join("\n")
        };
        assert!(!self.perf.is_empty(), "{words}");
        assert_eq!(sorted(&self.ours), sorted(&self.perf), "{words}");
    }
}

/// Rows of values for scripts.
///
/// Functions of libraries that are not included are omitted.
#[test]
fn figures_for_scripts_are_perfs() {
    needs!(installed("perf"));
    let root = symfs();
    for words in [
        "-t | -F overhead,sample,period,comm,dso --no-children",
        "-t | -F overhead_children,overhead,comm,dso",
        "-t | -F overhead,overhead_sys,overhead_us,comm --no-children",
        "-t | -F overhead,sample,dso --no-children -c spin,sysmix --percentage relative",
        "-t | -F overhead,sample,dso --no-children -d spin,sysmix",
        "-t | -F overhead,sample,dso --no-children -d spin,sysmix --time 10%-60%",
        "-t | -F overhead,sample,dso --no-children -d spin,sysmix --percentage absolute",
        "-t | -F overhead,sample,comm --no-children --percent-limit 1",
        "-t | -F overhead,sample,parent -p work_loop|do_syscall --no-children",
        "-t | -F overhead,sample,comm -p main -x --no-children",
        "-t | -F overhead,sample,dso --ignore-callees ^main$ --no-children",
        "-t | -F overhead,sample,time,dso --no-children",
        "-t | -F overhead,sample,time,comm --time-quantum 10ms --no-children",
        "-t | -F overhead,sample,dso_size,comm --no-children -d spin,sysmix --percentage absolute",
        "-t | -F overhead,sample,symbol_size --no-children -d spin,sysmix --percentage absolute",
    ] {
        for file in ["fp-spin.data", "fp-sysmix.data"] {
            Pair::of(file, root.path(), words).rows().assert_same(words);
        }
    }
    // From the leaf on; perf truncates at the other end if chains begin with the callers.
    let cut = "-t | -F overhead_children,overhead,dso --max-stack 2 -g callee";
    Pair::of("fp-spin.data", root.path(), cut).rows().assert_same(cut);
    Pair::of("multi3.data", root.path(), "-t | -F overhead,sample,comm").rows().assert_same("several events");
}

/// The layout of the table is ours; rows and chains equal perf's.
#[test]
fn folded_chains_are_perfs() {
    needs!(installed("perf"));
    let root = symfs();
    for words in [
        "-n --no-children -s comm -g folded,0,caller,count",
        "-n --no-children -s comm -g folded,0,callee,count",
        "-n --no-children -s comm -g folded,0,caller,address,count",
        "--no-children -s comm -g folded,1,caller,period",
        "--no-children -s comm -g folded,1,caller,percent",
    ] {
        // perf prints the address of an unknown function; a stack ends at an invalid caller here.
        let named = |lines: Vec<String>| {
            let is_known = |line: &String| ["0x", "[broken]", "7f"].iter().all(|part| !line.contains(part));
            lines.into_iter().filter(is_known).collect::<Vec<_>>()
        };
        let pair = Pair::of("fp-spin.data", root.path(), words);
        Pair { ours: named(pair.ours), perf: named(pair.perf) }.assert_same(words);
    }
}

#[test]
fn threads_mappings_and_counts_are_perfs() {
    needs!(installed("perf"));
    let root = symfs();
    for file in ["forker-g.data", "threads12.data", "fp-sysmix.data"] {
        Pair::of(file, root.path(), "--tasks").assert_same("--tasks");
        Pair::of(file, root.path(), "--stats").assert_same("--stats");
        // perf repeats them for each thread of a process.
        let pair = Pair::of(file, root.path(), "--mmaps");
        let once = |lines: &[String]| lines.iter().cloned().collect::<BTreeSet<_>>();
        assert_eq!(once(&pair.ours), once(&pair.perf), "{file}");
    }
}

fn text(words: &[&str]) -> String {
    let root = symfs();
    let mut command = program();
    command.arg("report").args(words).arg("--symfs").arg(root.path()).arg("--kallsyms").arg(data("kallsyms"));
    String::from_utf8_lossy(&run(&mut command).stdout).into_owned()
}

#[test]
fn chains_have_perfs_forms() {
    let file = data("fp-spin.data");
    let with = |words: &[&str]| text(&[&[file.to_str().expect("text"), "-c", "spin", "-s", "sym"], words].concat());
    let below = |text: &str, row: &str| {
        let from = text.lines().skip_while(|line| line.split(" %  ").count() < 2 || !line.ends_with(row)).skip(1);
        from.take_while(|line| line.starts_with("           ")).map(|l| l.trim().to_owned()).collect::<Vec<_>>()
    };
    let callers = with(&["--no-children", "-g", "callee,20"]);
    let names = |lines: Vec<String>| {
        let name = |line: String| line.split_whitespace().rev().nth(1).unwrap_or_default().to_owned();
        lines.into_iter().map(name).collect::<Vec<_>>().join(" ")
    };
    assert!(names(below(&callers, "burn_alpha")).starts_with("work_loop main"), "{callers}");
    // In caller order, the chain ends with the row itself.
    let from_roots = with(&["--no-children", "-g", "caller,20"]);
    assert!(names(below(&from_roots, "burn_alpha")).ends_with("main work_loop burn_alpha"), "{from_roots}");
    assert_eq!(with(&["--no-children", "-G", "-g", "graph,20,caller"]), from_roots);
    // All samples of the first entry are in its callee.
    let fractal = with(&["-g", "fractal,20,caller"]);
    let graph = with(&["-g", "graph,20,caller"]);
    let first = |text: &str| below(text, "work_loop").first().cloned().unwrap_or_default();
    assert!(fractal != graph && first(&fractal).split_whitespace().any(|word| word == "burn_alpha"), "{fractal}");
    // One entry below each.
    let one = with(&["-g", "graph,0,1,caller"]);
    assert_eq!(below(&one, "work_loop").len().min(9), below(&one, "work_loop").len(), "{one}");
    let flat = below(&with(&["--no-children", "-g", "flat,20,callee,count"]), "burn_alpha");
    assert!(flat[0].parse::<u64>().is_ok() && flat[1..4] == ["burn_alpha", "work_loop", "main"], "{flat:?}");
    assert_eq!(with(&["-g", "none"]), with(&[]));
}

/// With --stdio the defaults are perf's: rows sorted by Children, with their chains.
#[test]
fn with_stdio_the_defaults_are_perfs() {
    let file = data("fp-spin.data");
    let with = |words: &[&str]| text(&[&[file.to_str().expect("text"), "-c", "spin"], words].concat());
    // The branches of perf's trees.
    let chains = |text: &str| text.matches("---").count();
    assert!(chains(&with(&["--stdio"])) > 0);
    assert_eq!(with(&["--stdio"]), with(&["--stdio", "--children", "-g"]));
    for none in [["--stdio", "--no-call-graph"], ["--stdio", "-gnone"]] {
        assert_eq!(chains(&with(&none)), 0, "{none:?}");
        assert_eq!(with(&none), with(&["--stdio", "--children", "-g", "none"]));
    }
    let share = |line: &str| line.split(" %").next().and_then(|n| n.trim().parse::<f64>().ok());
    let shares: Vec<f64> = with(&["--children"]).lines().filter_map(share).collect();
    assert!(shares.is_sorted_by(|a, b| a >= b) && shares.len() > 5, "{shares:?}");
    assert_ne!(with(&["--children"]), with(&[]), "the default table is not sorted by Self");
    for (words, order) in [(&["--children"][..], "Children"), (&[], "Self"), (&["-s", "sample,sym"], "Self")] {
        let heading = with(words).lines().next().map(str::to_owned).unwrap_or_default();
        assert!(heading.ends_with(&format!(", sorted by {order}")), "{heading}");
    }
    for format in ["json", "csv"] {
        assert_eq!(with(&["--stdio", "--format", format]), with(&["--format", format]));
    }
    // A recording without chains shows no chains.
    let flat = data("flat-k.data");
    assert_eq!(chains(&text(&[flat.to_str().expect("text"), "--stdio"])), 0);
    needs!(installed("perf"));
    let root = symfs();
    for (file, options) in [
        ("fp-spin.data", "-c spin --percent-limit 2"),
        ("fp-spin.data", "--no-children"),
        ("fp-spin.data", "-c spin --no-children -g callee"),
        ("fp-spin.data", "-c spin --percent-limit 2 -g callee"),
        ("fp-spin.data", "-c spin --percent-limit 2 -g graph,5,caller"),
        ("fp-spin.data", "-c spin -s sym --no-children -g caller,count"),
        ("fp-spin.data", "-c spin --no-children --percent-limit 2 -g fractal"),
        ("fp-spin.data", "-c spin --percent-limit 2 -g fractal"),
        ("fp-spin.data", "-c spin -g fractal,5,caller --percent-limit 2"),
        ("fp-spin.data", "-c spin --percent-limit 2 -g fractal,30,callee"),
        ("fp-spin.data", "-c spin --percent-limit 2 -g fractal,0.5,1,caller"),
        ("fp-spin.data", "-c spin --percent-limit 2 -g graph,0.5,1,caller"),
        ("fp-spin.data", "-c spin --no-children -g graph,0.5,2,callee"),
        ("fp-spin.data", "-c spin --no-children -s comm -g fractal,5,2,caller,count"),
        ("fp-spin.data", "-c spin --no-children -g flat"),
        ("fp-spin.data", "-c spin -g flat --percent-limit 2"),
        ("fp-spin.data", "-c spin --no-children --percent-limit 2 -g flat,5,caller"),
        ("fp-spin.data", "-c spin --no-children -s comm -g flat,5,3,caller,count"),
        ("fp-spin.data", "-c spin --no-children -s sym -g flat,5,callee,period"),
        ("fp-sysmix.data", "--no-children --percent-limit 2 -g flat,1"),
        ("fp-spin.data", "-c spin --percent-limit 2 -g folded"),
        ("fp-sysmix.data", "--no-children --percent-limit 2 -g folded,1"),
        ("fp-spin.data", "-c spin --no-children -n -g none,fractal"),
        ("fp-spin.data", "-c spin -s comm"),
        ("fp-spin.data", "-n --show-total-period -s dso,sym -g none --percent-limit 2"),
        ("flat-k.data", "-s comm"),
        ("fp-sysmix.data", "-s dso --no-children -g none -d sysmix"),
        ("fp-sysmix.data", "-s dso --no-children -g none -d sysmix --percentage relative"),
        ("fp-sysmix.data", "-s dso --no-children -g none --time 10%-60%"),
        ("fp-sysmix.data", "-q -s dso --no-children -g none"),
        ("fp-sysmix.data", "--ns -s time --no-children -g none"),
        ("corpus/tp-raw.data", "-n"),
        ("softirqs.data", "-s trace_fields"),
        ("forker-g.data", "-s comm -g none"),
        ("corpus/group3.data", "--no-children -g none"),
        ("corpus/group3.data", "-n -s dso --no-children -g none --percent-limit 5"),
        ("corpus/group-chains.data", "-s comm -g none"),
    ] {
        let ask = |mut command: Command| {
            let command = command.args(["report", "--stdio", "-i"]).arg(data(file)).args(options.split(' '));
            let output = run(command.arg("--symfs").arg(root.path()).arg("--kallsyms").arg(data("kallsyms")));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        // Ignore trailing spaces, and perf's advice at the end.
        let lines = |text: String| {
            // perf prints unknown addresses as memory addresses, we as file addresses. perf's columns include rows
            // that are not shown in their width.
            let named = |line: &str| {
                let line = line.find("0x").map_or(line, |at| &line[..at + 2]);
                // In perf, whether an elided frame is marked as inlined depends on chance.
                let line = line.strip_suffix("[...] (inlined)").map_or(line.to_owned(), |head| format!("{head}[...]"));
                let words =
                    line.split_whitespace().map(|word| if word.bytes().all(|b| b == b'.') { "." } else { word });
                let indent = line.len() - line.trim_start().len();
                format!("{:indent$}{}", "", words.collect::<Vec<_>>().join(" "))
            };
            let told = text.lines().map(named).filter(|line| !line.starts_with("# (Tip"));
            let mut lines: Vec<String> = told.collect();
            while lines.last().is_some_and(|line| line.is_empty() || line == "#") {
                lines.pop();
            }
            lines
        };
        let (ours, perf) = (lines(ask(program())), lines(ask(Command::new("perf"))));
        assert!(perf.len() > if options.starts_with("-q") { 1 } else { 10 }, "{perf:?}");
        assert_eq!(ours, perf, "{file} {options}");
    }
    // perf's key pid separates threads, which have their last comm.
    let threads = "-s pid --no-children -g none";
    Pair::of("threads12.data", root.path(), threads).assert_same(threads);
    let pair = Pair::of("fp-spin.data", root.path(), "-t | -s sym,symbol_size -c spin -g none").rows();
    let sizes = |lines: Vec<String>| {
        // perf adds an IPC column to symbol sizes.
        let of = |line: String| line.replace("[.] ", "").replace("[k] ", "").replace("|- -", "");
        lines.into_iter().map(of).filter(|line| line.find("0x").is_none()).collect::<BTreeSet<_>>()
    };
    assert_eq!(sizes(pair.ours), sizes(pair.perf));
}

/// With call chains, perf puts callers above callees of the same weight, regardless of names.
#[test]
fn callers_come_before_callees_of_equal_weight() {
    let file = data("fp-sysmix.data");
    let rows = |more: &[&str]| {
        let report = text(&[&[file.to_str().expect("text"), "--stdio", "--percent-limit", "5"], more].concat());
        let names =
            report.lines().filter(|line| line.matches('%').count() == 2).filter_map(|line| line.rsplit("] ").next());
        let wanted = ["entry_SYSCALL_64_after_hwframe", "do_syscall_64", "__x64_sys_munmap", "__vm_munmap"];
        names.filter(|name| wanted.contains(name)).map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(rows(&[]), "entry_SYSCALL_64_after_hwframe do_syscall_64 __x64_sys_munmap __vm_munmap");
    assert_eq!(rows(&["-g", "none"]), "do_syscall_64 entry_SYSCALL_64_after_hwframe __vm_munmap __x64_sys_munmap");
}

/// perf's figures: `perf report --group --stdio --no-children -g none -s dso`.
#[test]
fn events_of_a_group_are_side_by_side() {
    let file = data("multi3.data");
    let words = [file.to_str().expect("text"), "--group", "--no-children", "-s", "dso", "--format", "csv"];
    let csv = text(&words);
    let rows: Vec<Vec<String>> = csv.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
    assert_eq!(rows[0], ["cpu-clock", "page-faults", "context-switches", "dso"]);
    let shares = |dso: &str| -> Vec<String> {
        let row = rows.iter().find(|row| row[3] == dso).expect(dso);
        row[..3].iter().map(|share| format!("{:.2}", share.parse::<f64>().expect("a share"))).collect()
    };
    assert_eq!(shares("[kernel.kallsyms]"), ["89.60", "1.63", "100.00"]);
    assert_eq!(shares("sysmix"), ["5.60", "98.33", "0.00"]);
    assert_eq!(
        (shares("ld-linux-x86-64.so.2"), rows[1][3].as_str()),
        (["0.00", "0.04", "0.00"].map(str::to_owned).to_vec(), "[kernel.kallsyms]")
    );
}

/// In perf's layout, recorded groups are side by side unless another form is requested.
#[test]
fn groups_are_side_by_side_by_default_as_in_perf() {
    let file = data("corpus/group3.data");
    let heads = |words: &[&str]| {
        let report = text(&[&[file.to_str().expect("text"), "-s", "dso"], words].concat());
        report.lines().filter(|line| line.contains(" of event")).map(str::to_owned).collect::<Vec<_>>()
    };
    let together = "# Samples: 422  of events 'anon group { cpu-clock, page-faults, context-switches }'";
    assert_eq!(heads(&["--stdio"]), [together]);
    assert_eq!(heads(&["--stdio", "--no-group", "--group"]), [together]);
    assert_eq!(heads(&["--stdio", "--no-group"]).len(), 3);
    assert!(heads(&[]).is_empty() && text(&[file.to_str().expect("text")]).matches("# event ").count() == 3);
}

/// Filters take the kernel's names of numbers.
#[test]
fn samples_are_selected_by_names_of_numbers() {
    let file = data("softirqs.data");
    let rows = |filter: &str| {
        let words = ["-s", "trace", "--format", "csv", "--event", "irq:softirq_entry", "--where", filter];
        text(&[&[file.to_str().expect("text")][..], &words].concat())
    };
    assert_eq!(rows("vec == TIMER"), rows("vec == 1"));
    assert!(rows("vec in (TIMER, SCHED)").contains("action=SCHED") && !rows("vec == TIMER").contains("action=SCHED"));
}

/// A row belongs to the selection by its own file and function, not as a caller of selected code.
#[test]
fn rows_are_those_of_selected_files_and_functions() {
    let file = data("fp-spin.data");
    for (option, name, column) in [("-S", "burn_alpha", "sym"), ("--dso", "spin", "dso")] {
        let report = text(&[file.to_str().expect("text"), option, name, "--children", "--format", "json"]);
        let report: serde_json::Value = serde_json::from_str(&report).expect("json");
        let rows = report["events"][0]["rows"].as_array().expect("rows");
        assert!(!rows.is_empty() && rows.iter().all(|row| row[column] == name), "{rows:?}");
        // Callers in the same file remain.
        assert_eq!(rows.iter().any(|row| row["sym"] == "main"), option == "--dso");
    }
    let globs = text(&[file.to_str().expect("text"), "-S", "burn_a*,mai?", "--children", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&globs).expect("json");
    let rows = report["events"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.iter().map(|row| &row["sym"]).collect::<Vec<_>>(), ["burn_alpha", "main"], "{globs}");
}

/// The tree of chains in JSON equals that of the text.
#[test]
fn chains_are_in_json() {
    let file = data("fp-spin.data");
    for (way, name) in [("caller", "callees"), ("callee", "callers")] {
        let words = [file.to_str().expect("text"), "-s", "dso,sym", "-g", way];
        let text = text(&words);
        let json: serde_json::Value =
            serde_json::from_str(&self::text(&[&words[..], &["--format", "json"]].concat())).expect("JSON");
        let rows = json["events"][0]["rows"].as_array().expect("rows");
        let entries = rows.iter().flat_map(|row| row[name].as_array().expect("chains"));
        let listed: Vec<String> = entries
            .map(|entry| {
                assert!(
                    entry["pct"].as_f64().expect("share") >= 0.5 && entry["samples"].as_u64().expect("samples") > 0
                );
                format!("{}  {}", entry["sym"].as_str().expect("name"), entry["dso"].as_str().expect("file"))
            })
            .collect();
        let shown: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with("            "))
            .map(|line| line.split_once(" % ").expect("a share").1.to_owned())
            .collect();
        assert!(listed.len() > 20, "{listed:?}");
        assert_eq!(listed, shown, "{way}");
    }
    let mut transcript = Transcript::new();
    let output = transcript.add(program().arg("report").arg(&file).args(["-g", "caller", "--format", "csv"]));
    assert_eq!(output.stdout, run(program().arg("report").arg(&file).args(["--format", "csv"])).stdout);
    insta::assert_snapshot!("chains-in-csv", transcript.text());
}

#[test]
fn rows_are_ordered_and_left_out_as_is_said() {
    let file = data("fp-spin.data");
    let rows = |words: &[&str]| {
        let text = text(&[&[file.to_str().expect("text"), "-t", ";"], words].concat());
        text.lines().skip(2).filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let by_name = rows(&["-F", "sym,overhead", "--no-children"]);
    assert!(by_name.is_sorted() && by_name.len() > 1, "{by_name:?}");
    let by_children = rows(&["-s", "overhead_children,sym"]);
    let share = |line: &String| line.split('%').next().and_then(|n| n.parse::<f64>().ok()).expect("a share");
    assert!(by_children.windows(2).all(|pair| share(&pair[0]) >= share(&pair[1])), "{by_children:?}");
    let burning = rows(&["-s", "sym", "-F", "sym", "--symbol-filter", "burn_"]);
    assert!(burning.iter().all(|name| name.starts_with("burn_")) && burning.len() > 1, "{burning:?}");
    // Libraries that are missing here have no symbols.
    let leaves = |more: &str| {
        let file = data("fp-sysmix.data");
        let text = text(&[file.to_str().expect("text"), "-t", ";", "--no-children", "-F", "sym", more]);
        text.lines().skip(2).filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let (all, named) = (leaves("--no-bounds"), leaves("-U"));
    let unnamed = |rows: &[String]| rows.iter().filter(|row| row.starts_with("0x")).count();
    assert!(unnamed(&all) > 0 && unnamed(&named) == 0 && named.len() + unnamed(&all) == all.len(), "{named:?}");
}

/// --header prints the header before the table, --header-only prints only the header.
#[test]
fn the_head_stands_before_the_table() {
    let file = data("fp-spin.data");
    let with = |words: &[&str]| text(&[&[file.to_str().expect("text")], words].concat());
    let (head, table) = (with(&["--header-only"]), with(&[]));
    assert!(head.starts_with("# captured on ") && head.lines().any(|line| line.starts_with("# osrelease ")), "{head}");
    for words in [["--header"], ["-I"]] {
        assert_eq!(with(&words), format!("{head}#\n{table}"));
    }
}

/// An empty column is explained.
#[test]
fn what_samples_do_not_tell_is_said() {
    let mut transcript = Transcript::new();
    for key in ["cgroup", "comm"] {
        let output = transcript.add(program().arg("report").arg(data("fp-spin.data")).args(["-s", key]));
        assert!(output.status.success(), "{key}");
    }
    insta::assert_snapshot!("empty-columns", transcript.text());
}

/// Rows by source line, if the program has debug information.
#[test]
fn rows_are_told_apart_by_lines() {
    let root = symfs();
    let rows = |keys: &str| {
        let mut command = program();
        command.arg("report").arg(data("corpus/inline.data")).args(["--format", "json", "-s", keys]);
        let output = run(command.arg("--symfs").arg(root.path()).arg("--kallsyms").arg(data("kallsyms")));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json["events"][0]["rows"].as_array().expect("rows").clone()
    };
    let lines = rows("dso,srcline");
    let name = |row: &serde_json::Value| row["srcline"].as_str().expect("text").to_owned();
    let is_line =
        |text: &String| text.rsplit_once(':').is_some_and(|(file, n)| file.ends_with(".c") && n.parse::<u32>().is_ok());
    let is_place = |text: &String| {
        text.rsplit_once('+').is_some_and(|(function, n)| !function.is_empty() && n.parse::<u64>().is_ok())
            || text.strip_suffix(']').and_then(|text| text.split_once('[')).is_some_and(|(file, _)| !file.is_empty())
    };
    let (known, others): (Vec<_>, Vec<_>) = lines.iter().map(name).partition(is_line);
    assert!(known.len() > 1 && others.len() > 1 && others.iter().all(is_place), "{known:?} {others:?}");
    let samples =
        |rows: &[serde_json::Value]| rows.iter().map(|row| row["samples"].as_u64().expect("samples")).sum::<u64>();
    assert_eq!(samples(&lines), samples(&rows("dso,sym")));
    assert!(rows("srcfile").iter().any(|row| row["srcfile"].as_str().is_some_and(|file| file.ends_with(".c"))));
}

/// Sockets and tracepoint fields as sort keys equal perf's; entries of chains are grouped by line.
#[test]
fn sockets_fields_and_lines_are_perfs() {
    let root = symfs();
    let file = data("softirqs.data");
    let own = text(&[file.to_str().expect("text"), "-s", "trace_fields", "--event", "irq:softirq_entry"]);
    let heading = row(&own, "Samples");
    assert!(heading.last() == Some(&"vec") && !heading.iter().any(|cell| cell.starts_with("common_")), "{own}");
    needs!(installed("perf"));
    for file in ["multi3.data", "fp-spin.data"] {
        let pair = Pair::of(file, root.path(), "-t | -F overhead,sample,socket --no-children");
        let plain = |lines: Vec<String>| {
            // Samples without a CPU have socket -1.
            let number = |text: &str| text.trim_start_matches('0').replace("-001", "");
            let of = |line: String| line.rsplit_once('|').map(|(figures, socket)| (figures.to_owned(), number(socket)));
            lines.into_iter().filter(|line| is_row(line)).filter_map(of).collect::<Vec<_>>()
        };
        let (ours, perf) = (plain(pair.ours), plain(pair.perf));
        assert!(!perf.is_empty());
        assert_eq!(ours, perf, "{file}");
    }
    // Kernel code without line information is shown by function.
    let pair = Pair::of("softirqs.data", root.path(), "-t | -s srcline --no-children -g none");
    let of_kernel = |lines: Vec<String>| {
        let place = |line: String| line.rsplit_once('|').map(|(_, place)| place.trim().to_owned());
        lines
            .into_iter()
            .filter(|line| is_row(line))
            .filter_map(place)
            .filter(|place| place.contains('+'))
            .collect::<BTreeSet<_>>()
    };
    let (ours, perf) = (of_kernel(pair.ours), of_kernel(pair.perf));
    assert!(perf.len() > 1, "{perf:?}");
    assert_eq!(ours, perf);
    let pair = Pair::of("softirqs.data", root.path(), "-t | -s trace_fields --no-children -g none");
    let rows = |lines: Vec<String>| {
        let joined = |line: String| line.replace(' ', "");
        // perf prints flags as words, we as numbers.
        let is_same = |line: &String| is_row(line) && !line.split('|').any(|cell| cell == "36");
        lines.into_iter().map(joined).filter(is_same).collect::<BTreeSet<_>>()
    };
    let (ours, perf) = (rows(pair.ours), rows(pair.perf));
    assert!(perf.len() > 2, "{perf:?}");
    assert_eq!(ours, perf);
}

/// Files of names that cannot be read are an error, as in perf; a missing root directory is a warning.
#[test]
fn missing_files_of_names_are_reported() {
    let report = |option: &str, path: &str| {
        program().arg("report").arg(option).arg(path).arg(data("flat-k.data")).output().expect("runs")
    };
    for option in ["--kallsyms", "--vmlinux"] {
        let output = report(option, "/nonexistent/symbols");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{said}");
        assert!(said.contains(&format!("{option} /nonexistent/symbols: ")), "{said}");
    }
    let output = report("--symfs", "/nonexistent/root");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !output.stdout.is_empty(), "{said}");
    assert!(said.contains("--symfs /nonexistent/root: "), "{said}");
}

/// The key of processes in newer perfs: threads of a process are one row, with the comm of its main thread.
#[test]
fn processes_are_rows_by_tgid() {
    let table = |key: &str| {
        let output = run(program().arg("report").arg(data("threads12.data")).args(["--stdio", "-s", key]));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let rows =
        |text: &str| text.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())).count();
    let (threads, processes) = (table("pid"), table("tgid"));
    assert!(threads.contains("Pid:Command") && rows(&threads) > 1, "{threads}");
    assert!(processes.contains("Tgid:Command") && processes.contains("20246:") && rows(&processes) == 1, "{processes}");
}

/// A directory with all files of the recorded machine next to each other.
#[test]
fn a_flat_directory_has_the_files_by_their_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), all).expect("mode");
    std::fs::copy(data("bin/spin"), dir.path().join("spin")).expect("copied");
    let names = |layout: &str| {
        let symfs = format!("{}{layout}", dir.path().display());
        let mut command = program();
        command.arg("report").arg(data("fp-spin.data")).args(["-s", "dso,sym", "--format", "csv", "--symfs", &symfs]);
        String::from_utf8(run(&mut command).stdout).expect("UTF-8").contains("burn_alpha")
    };
    assert!(names(",flat"));
    assert!(!names("") && !names(",hierarchy"));
}
