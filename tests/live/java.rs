//! Functions of Java programs, whose true call chains are known.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{allowed, installed, program, run, skipped};

/// Below `outer`, code of the class library calls back. The mode `made` loads copies of a class, whose methods have
/// other names, calls them once and drops them.
const CHAIN: &str = r#"
import java.util.Arrays;

public class Chain {
    static long sink;

    public static void spin(long us) {
        long end = System.nanoTime() + us * 1000, x = sink;
        while (System.nanoTime() < end) for (int i = 0; i < 3000; i++) x = x * 31 + i;
        sink = x;
    }

    static int leaf(Integer a, Integer b) {
        spin(300);
        return a - b;
    }

    static void middle() {
        Integer[] items = { 5, 2, 8, 1, 9 };
        Arrays.sort(items, Chain::leaf);
    }

    static void outer() { middle(); }

    static class Made {
        static void inner_00() { spin(300); }
        public static void outer_00() { inner_00(); }
    }

    static class Loader extends ClassLoader {
        Class<?> define(byte[] bytes) { return defineClass("Chain$Made", bytes, 0, bytes.length); }
    }

    static void made(byte[] template, int i) throws Exception {
        byte[] bytes = template.clone();
        for (int at = 0; at + 6 <= bytes.length; at++)
            if (new String(bytes, at, 6, "ISO-8859-1").equals("ner_00") || new String(bytes, at, 6, "ISO-8859-1").equals("ter_00")) {
                bytes[at + 4] = (byte) ('0' + i / 10);
                bytes[at + 5] = (byte) ('0' + i % 10);
            }
        Class<?> made = new Loader().define(bytes);
        var method = made.getDeclaredMethod(String.format("outer_%02d", i));
        method.setAccessible(true);
        method.invoke(null);
    }

    public static void main(String[] args) throws Exception {
        // CPU time: a busy machine gives it late.
        var threads = java.lang.management.ManagementFactory.getThreadMXBean();
        long end = threads.getCurrentThreadCpuTime() + 2_000_000_000L;
        byte[] template = Chain.class.getResourceAsStream("Chain$Made.class").readAllBytes();
        var random = new java.util.Random();
        for (int i = 0; threads.getCurrentThreadCpuTime() < end; i++) {
            if (args[0].equals("outer")) outer();
            else made(template, random.nextInt(100));
            if (i % 100 == 99 && !args[0].equals("outer")) System.gc();
        }
    }
}
"#;

struct Stage {
    dir: tempfile::TempDir,
}

fn stage() -> Option<Stage> {
    let has_all = ["java", "javac", "perf"].into_iter().all(installed);
    if !cfg!(target_arch = "x86_64") || !allowed() {
        return None;
    }
    if !has_all {
        skipped("needs a JDK and perf");
        return None;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let source = dir.path().join("Chain.java");
    std::fs::write(&source, CHAIN).expect("written");
    run(Command::new("javac").arg("-d").arg(dir.path()).arg(source));
    Some(Stage { dir })
}

impl Stage {
    fn record(&self, mode: &str, options: &[&str], java: &[&str]) -> PathBuf {
        let file = self.dir.path().join(format!("{mode}.data"));
        let mut record = program();
        record.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-o"]).arg(&file).args(options).arg("--");
        run(self.at_home(&mut record).arg("java").args(java).arg("-cp").arg(self.dir.path()).args(["Chain", mode]));
        file
    }

    /// Files for perf go to the home directory.
    fn at_home<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("HOME", self.dir.path())
    }

    /// The later half of the samples of threads of Java, by the symbols and DSOs of their frames, innermost first: the
    /// first ones come before the virtual machine is found, and before all is compiled.
    fn later(&self, mut script: Command, file: &Path) -> Vec<Vec<(String, String)>> {
        let text = run(self.at_home(&mut script).args(["script", "--max-stack", "1024", "-i"]).arg(file)).stdout;
        let text = String::from_utf8_lossy(&text).into_owned();
        let frame = |line: &str| {
            let (symbol, dso) = line.trim().split_once(' ')?.1.rsplit_once(" (")?;
            let symbol = symbol.split("+0x").next().unwrap_or(symbol);
            Some((symbol.to_owned(), dso.trim_end_matches(')').to_owned()))
        };
        let stacks = text.split("\n\n").map(|block| block.lines().skip(1).filter_map(frame).collect::<Vec<_>>());
        let mut all: Vec<_> =
            stacks.filter(|stack| stack.iter().any(|(symbol, _)| symbol.starts_with("Chain."))).collect();
        all.split_off(all.len() / 2)
    }
}

fn share<T>(all: &[T], is_it: impl Fn(&T) -> bool) -> f64 {
    all.iter().filter(|one| is_it(one)).count() as f64 / all.len() as f64
}

/// The methods of the program in a stack.
fn own(stack: &[(String, String)]) -> Vec<&str> {
    stack.iter().filter(|(_, dso)| dso == "[java]").filter_map(|(symbol, _)| symbol.strip_prefix("Chain.")).collect()
}

#[test]
fn stacks_of_java_are_whole_and_perf_has_the_same_names() {
    let Some(stage) = stage() else { return };
    for java in [&[][..], &["-Xint"]] {
        let file = stage.record("outer", &[], java);
        let later = stage.later(program(), &file);
        assert!(later.len() > 30, "{}", later.len());
        let exact = share(&later, |stack| own(stack) == ["spin", "leaf", "middle", "outer", "main"]);
        assert!(exact > 0.9, "{java:?}: {exact} of {}", later.len());
        let whole = share(&later, |stack| {
            let is_c_library = stack.last().is_some_and(|(_, dso)| dso.ends_with("libc.so.6"));
            is_c_library && stack.iter().all(|(symbol, _)| symbol != "[broken]")
        });
        assert!(whole > 0.95, "{java:?}: {whole}");
        let methods = |stacks: Vec<Vec<(String, String)>>| -> Vec<Vec<String>> {
            stacks.iter().map(|stack| own(stack).into_iter().map(str::to_owned).collect()).collect()
        };
        assert_eq!(methods(stage.later(Command::new("perf"), &file)), methods(later));
    }
    let without = stage.record("outer", &["--interp", "off"], &[]);
    assert_eq!(stage.later(program(), &without), Vec::<Vec<_>>::new());
}

#[test]
fn classes_that_are_dropped_have_no_wrong_names() {
    let Some(stage) = stage() else { return };
    let later = stage.later(program(), &stage.record("made", &[], &[]));
    let of = |stack: &[(String, String)], kind: &str| {
        stack.iter().find_map(|(symbol, _)| symbol.strip_prefix(kind).map(str::to_owned))
    };
    let pairs = later.iter().filter_map(|s| of(s, "Chain$Made.inner_").zip(of(s, "Chain$Made.outer_")));
    let pairs: Vec<_> = pairs.collect();
    assert!(pairs.len() > 20, "{} of {}", pairs.len(), later.len());
    assert_eq!(pairs.iter().find(|(inner, outer)| inner != outer), None);
}

/// Lines of interpreted and of compiled functions, also of those that were inlined. The stream has no path of a file.
#[test]
fn functions_of_java_have_the_lines_of_their_calls() {
    let Some(stage) = stage() else { return };
    for java in [&[][..], &["-Xint"]] {
        let file = stage.record("outer", &[], java);
        let mut script = program();
        script.args(["script", "--max-stack", "1024", "-F", "comm,ip,sym,srcline", "-i"]).arg(&file);
        let text = String::from_utf8_lossy(&run(stage.at_home(&mut script)).stdout).into_owned();
        let stacks: Vec<&str> = text.split("\n\n").filter(|block| block.contains("Chain.outer")).collect();
        let later = &stacks[stacks.len() / 2..];
        assert!(later.len() > 30, "{}", later.len());
        for (function, line) in [("Chain.leaf", 14), ("Chain.middle", 20), ("Chain.outer", 23)] {
            // The line of a frame is below it.
            let at = |block: &&str| {
                let mut lines = block.lines().skip_while(|frame| !frame.ends_with(function)).skip(1);
                lines.next().is_some_and(|place| place.trim().ends_with(&format!("Chain.java:{line}")))
            };
            let share = share(later, at);
            assert!(share > 0.9, "{java:?} {function}: {share} of {}\n{}", later.len(), later[0]);
        }
    }
}
