//! Functions of Python, PHP, Ruby and Perl programs, whose true call chains are known.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::process::{Running, with_time};
use crate::common::{allowed, installed, program, run, skipped};

/// Below `outer`, C code of the interpreter calls back. A program ends after some CPU time, so that the number of samples
/// does not depend on the load. The mode `made` compiles functions that are called once and
/// dropped, whose memory is used again.
const CHAIN: &str = r#"
import os, random, sys, time

def spin(seconds):
    end = time.thread_time() + seconds
    n = 0
    while time.thread_time() < end:
        for i in range(300): n += i * i

def leaf(item):
    spin(.001)
    return item

class Shop:
    def middle(self):
        sorted(range(4), key=leaf)

def outer():
    Shop().middle()

def child():
    spin(.02)

def fork():
    pid = os.fork()
    if pid == 0:
        child()
        os._exit(0)
    os.waitpid(pid, 0)

def made():
    i = random.randrange(100)
    space = {'spin': spin}
    exec(f'def inner_{i}():\n spin(.0005)\ndef outer_{i}():\n inner_{i}()\n', space)
    space[f'outer_{i}']()

mode = globals()[sys.argv[1]]
while sum(os.times()[:4]) < float(sys.argv[2]):
    mode()
"#;

struct Stage {
    dir: tempfile::TempDir,
}

fn stage() -> Option<Stage> {
    if !cfg!(target_arch = "x86_64") || !allowed() || !installed("python3") || !installed("perf") {
        return None;
    }
    let version = run(Command::new("python3").args(["-c", "import sys; print(sys.version_info[1])"])).stdout;
    let minor: u32 = String::from_utf8_lossy(&version).trim().parse().expect("a number");
    if !(8..=14).contains(&minor) {
        skipped("this version of Python is not known");
        return None;
    }
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("chain.py"), CHAIN).expect("written");
    Some(Stage { dir })
}

impl Stage {
    fn record(&self, mode: &str, seconds: u32, more: &[&str]) -> PathBuf {
        let file = self.dir.path().join(format!("{mode}.data"));
        let mut record = program();
        record.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-o"]).arg(&file).args(more).arg("--");
        let record = self.at_home(&mut record).arg("python3").arg(self.dir.path().join("chain.py"));
        run(record.args([mode, &seconds.to_string()]));
        file
    }

    /// Files for perf go to the home directory.
    fn at_home<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("HOME", self.dir.path())
    }

    /// The functions of Python in each sample, innermost first, in order of time.
    fn stacks(&self, script: Command, file: &Path) -> Vec<Vec<String>> {
        self.frames(script, file, "[python]")
    }

    /// The same of a language, by the name of its mapping.
    fn frames(&self, mut script: Command, file: &Path, dso: &str) -> Vec<Vec<String>> {
        let text = run(self.at_home(&mut script).args(["script", "-i"]).arg(file)).stdout;
        let text = String::from_utf8_lossy(&text).into_owned();
        let name = |line: &str| {
            let symbol = line.strip_suffix(&format!(" ({dso})"))?.trim_start().split_once(' ')?.1;
            let symbol = symbol.rsplit_once("+0x").map_or(symbol, |(symbol, _)| symbol);
            Some(symbol.split(" (chain.").next().unwrap_or(symbol).to_owned())
        };
        text.split("\n\n")
            .filter(|block| !block.trim().is_empty())
            .map(|b| b.lines().filter_map(name).collect())
            .collect()
    }

    /// The later half of the samples: the first ones come before the interpreter is found, which takes longer under load.
    fn later(&self, file: &Path) -> Vec<Vec<String>> {
        let mut stacks = self.stacks(program(), file);
        stacks.split_off(stacks.len() / 2)
    }
}

fn share(stacks: &[Vec<String>], is_it: impl Fn(&[String]) -> bool) -> f64 {
    stacks.iter().filter(|stack| is_it(stack)).count() as f64 / stacks.len() as f64
}

/// CPU seconds of a program: the first of these suffice, unless a busy machine finds its interpreter late.
const SECONDS: &[u32] = &[3, 12, 48];

/// Fails if these stacks are too few, or too few of them have one of the chains.
fn nearly_all(stacks: &[Vec<String>], least: f64, is_it: impl Fn(&[String]) -> bool) -> Result<(), String> {
    let share = share(stacks, is_it);
    if stacks.len() > 100 && share > least { Ok(()) } else { Err(format!("{share} of {}", stacks.len())) }
}

/// The program in the kernel writes each name once, also before the events begin, when nothing reads it.
#[test]
fn functions_that_ran_before_a_unit_have_names() {
    let Some(stage) = stage() else { return };
    let script = stage.dir.path().join("naps.py");
    let naps = "import time\ndef nap():\n    time.sleep(.02)\nprint('naps', flush=True)\nwhile True:\n    nap()\n";
    std::fs::write(&script, naps).expect("written");
    let mut python = Running(Command::new("python3").arg(&script).stdout(Stdio::piped()).spawn().expect("starts"));
    python.0.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 4]).expect("it naps");
    let pid = python.pid().to_string();
    with_time(&[4, 16, 60], |seconds| {
        let mut waits = program();
        waits.args(["waits", "--batch", "--panel", "Stacks", "-p", &pid, "--duration", &seconds.to_string()]);
        let text = String::from_utf8_lossy(&run(&mut waits).stdout).into_owned();
        if text.contains("nap (naps.py)") { Ok(()) } else { Err(text) }
    });
}

#[test]
fn functions_of_python_are_in_order_and_perf_has_the_same_names() {
    let Some(stage) = stage() else { return };
    let chain = ["spin", "leaf", "Shop.middle", "outer", "<module>"];
    // Before 3.11, functions have no qualified names.
    let is_it = |stack: &[String]| {
        let same = |(own, name): (&String, &&str)| own == name || name.rsplit('.').next() == Some(own);
        stack.len() == chain.len() && stack.iter().zip(&chain).all(same)
    };
    with_time(SECONDS, |seconds| {
        let file = stage.record("outer", seconds, &[]);
        assert_eq!(stage.stacks(Command::new("perf"), &file), stage.stacks(program(), &file));
        nearly_all(&stage.later(&file), 0.9, is_it)
    });
    let without = stage.record("outer", SECONDS[0], &["--interp", "off"]);
    assert_eq!(share(&stage.stacks(program(), &without), <[String]>::is_empty), 1.0);
}

#[test]
fn forked_children_have_functions_of_python_at_once() {
    let Some(stage) = stage() else { return };
    let chain = ["spin", "child", "fork", "<module>"];
    with_time(SECONDS, |seconds| {
        nearly_all(&stage.later(&stage.record("fork", seconds, &[])), 0.8, |stack| stack == chain)
    });
}

#[test]
fn functions_that_are_dropped_at_once_have_no_wrong_names() {
    let Some(stage) = stage() else { return };
    let of = |stack: &[String], kind: &str| stack.iter().find_map(|name| name.strip_prefix(kind).map(str::to_owned));
    let known = ["spin", "made", "<module>", "(name not read)"];
    let is_known = |name: &String| {
        known.contains(&&**name)
            || [name.strip_prefix("inner_"), name.strip_prefix("outer_")].iter().any(Option::is_some)
    };
    with_time(SECONDS, |seconds| {
        let later = stage.later(&stage.record("made", seconds, &[]));
        let pairs: Vec<_> = later.iter().filter_map(|s| of(s, "inner_").zip(of(s, "outer_"))).collect();
        assert_eq!(pairs.iter().find(|(inner, outer)| inner != outer), None);
        // The compiler and the import system have functions of their own files.
        let other = later.iter().flatten().find(|name| !is_known(name) && !name.contains('('));
        assert_eq!(other, None);
        if pairs.len() > 100 { Ok(()) } else { Err(pairs.len().to_string()) }
    });
}

/// Two lines of a function burn 70 and 30 percent of its time, a third one calls C code.
const LINES: &str = "
import time

def spin(seconds):
    end = time.thread_time() + seconds
    n = 0
    while time.thread_time() < end: n += sum(range(300))

def twice(
    seconds,
):
    spin(seconds * .7)
    # Not a line of code.
    return [
        spin(seconds * .3)]

def alone():
    end = time.thread_time() + 2
    while True:
        for i in range(300): i = i * 31 % 7; i = i * 31 % 7; i = i * 31 % 7; i = i * 31 % 7; i = i * 31 % 7; i = i * 31 % 7
        for i in range(300): i = i * 31 % 7
        if time.thread_time() > end: return

end = time.thread_time() + 2
while time.thread_time() < end: twice(.1)
alone()
";

/// The lines of a function in a recording, each with the number of the function's own samples there; 0 without a line.
fn lines_of(stage: &Stage, file: &Path, function: &str) -> Vec<(u64, u64)> {
    let mut annotate = program();
    annotate.args(["annotate", "--format", "json"]).arg(file).arg(function);
    let json: serde_json::Value =
        serde_json::from_slice(&run(stage.at_home(&mut annotate)).stdout).expect("one function, one event");
    let lines = json["instructions"].as_array().expect("a list").iter();
    lines.map(|one| (one["line"].as_u64().unwrap_or(0), one["samples"].as_u64().expect("a count"))).collect()
}

#[test]
fn lines_of_python_have_their_shares() {
    let Some(stage) = stage() else { return };
    let script = stage.dir.path().join("lines.py");
    std::fs::write(&script, LINES).expect("written");
    let file = stage.dir.path().join("lines.data");
    let mut record = program();
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-o"]).arg(&file).args(["--", "python3"]);
    // The name of the script is relative to a directory.
    run(stage.at_home(&mut record).arg("lines.py").current_dir(stage.dir.path()));
    let own = lines_of(&stage, &file, "alone (lines.py)");
    let total: u64 = own.iter().map(|(_, samples)| samples).sum();
    let of = |line: u64| own.iter().filter(|(own, _)| *own == line).map(|(_, samples)| samples).sum::<u64>();
    let share = |samples: u64| 100 * samples / total.max(1);
    assert!(total > 400, "{own:?}");
    // Six steps and one, and the loops themselves.
    assert!((70..=90).contains(&share(of(20))) && (10..=30).contains(&share(of(21))), "{own:?}");
    assert!(share(of(20) + of(21) + of(22)) > 85 && share(of(0)) < 10, "{own:?}");

    let mut script = program();
    script.args(["script", "-F", "comm,ip,sym,srcline", "-i"]).arg(&file);
    let text = String::from_utf8_lossy(&run(stage.at_home(&mut script)).stdout).into_owned();
    let blocks: Vec<&str> = text.split("\n\n").filter(|block| block.contains("twice (lines.py)")).collect();
    let at = |line: &str| blocks.iter().filter(|block| block.contains(line)).count();
    let (first, second) = (at("lines.py:12"), at("lines.py:15"));
    assert!(blocks.len() > 400 && (first + second) * 10 > blocks.len() * 9, "{first} {second} {}", blocks.len());
    assert!((66..=74).contains(&(100 * first / (first + second))), "{first} {second}");
    // The text of the script is that of the file.
    let mut annotate = program();
    annotate.args(["annotate"]).arg(&file).arg("alone (lines.py)");
    let text = String::from_utf8_lossy(&run(stage.at_home(&mut annotate)).stdout).into_owned();
    assert!(text.contains("  for i in range(300): i = i * 31 % 7\n"), "{text}");
}

/// Puts the head of the list of interpreters into memory whose readers wait for ever (userfaultfd(2)).
const BLOCKING: &str = "
import ctypes, fcntl, mmap, struct
handle = ctypes.CDLL(None).syscall(323, 0)
page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
fcntl.ioctl(handle, 0xc018aa3f, struct.pack('3Q', 0xaa, 0, 0))
fcntl.ioctl(handle, 0xc020aa00, struct.pack('4Q', address, 4096, 1, 0))
state = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, '_PyRuntime'))
import sys
head = {8: 32, 9: 32, 10: 32, 11: 40, 12: 40}[sys.version_info[1]]
ctypes.c_uint64.from_address(state + head).value = address
print(flush=True)
while True: pass
";

#[test]
fn a_process_whose_memory_blocks_its_reader_has_native_frames() {
    let Some(stage) = stage() else { return };
    let script = stage.dir.path().join("blocking.py");
    std::fs::write(&script, BLOCKING).expect("written");
    let mut blocking = Command::new("python3");
    let mut blocking = Running(blocking.arg(&script).stdout(Stdio::piped()).spawn().expect("spawns"));
    if blocking.0.stdout.as_mut().is_none_or(|pipe| pipe.read_exact(&mut [0]).is_err()) {
        return skipped("userfaultfd is not permitted, or this version of Python is not known");
    }
    let script = stage.dir.path().join("other.py");
    std::fs::write(&script, "def burn():\n    while True: pass\nburn()\n").expect("written");
    let other = Running(Command::new("python3").arg(&script).spawn().expect("spawns"));
    let file = stage.dir.path().join("blocked.data");
    with_time(&[2, 8, 30], |seconds| {
        let mut record = program();
        record.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-o"]).arg(&file);
        record.args(["-p", &format!("{},{}", blocking.pid(), other.pid()), "--", "sleep", &seconds.to_string()]);
        run(stage.at_home(&mut record));
        let named = |pid: u32| {
            let mut report = program();
            report.arg("report").arg(&file).args(["--format", "json", "--where"]);
            let report = run(report.arg(format!("pid == {pid} && lang == python")));
            let json: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
            json["events"][0]["samples"].as_u64().expect("a count")
        };
        assert_eq!(named(blocking.pid()), 0);
        if named(other.pid()) > 0 { Ok(()) } else { Err("the other process was not read".to_owned()) }
    });
}

/// Below `outer`, C code of PHP calls back, and a generator runs.
const PHP: &str = r#"<?php
function spin($us) {
    $end = hrtime(true) + $us * 1000;
    while (hrtime(true) < $end) for ($i = 0; $i < 300; $i++) $x = $i * 31;
}
class Shop {
    function compare($a, $b) { spin(1000); return $a - $b; }
    function sorted() { $list = [5, 2, 8]; usort($list, [$this, 'compare']); }
}
function produce() { for ($i = 0; $i < 3; $i++) { spin(1000); yield $i; } }
function consume() { foreach (produce() as $one); }
function outer() { (new Shop)->sorted(); consume(); }
function used() { $all = getrusage(); return $all['ru_utime.tv_sec'] + $all['ru_utime.tv_usec'] / 1e6; }
// CPU time: a busy machine gives it late.
while (used() < $argv[1]) outer();
"#;

/// Records a script, and checks its functions in the later half of the samples, the innermost first, in order of time. If
/// they are too few, the script runs longer. Interpreters have the names of their languages.
fn later_half(interpreter: &str, name: &str, script: &str, check: impl Fn(&[Vec<String>]) -> Result<(), String>) {
    if !cfg!(target_arch = "x86_64") || !allowed() || !installed(interpreter) || !installed("perf") {
        return;
    }
    let stage = Stage { dir: tempfile::tempdir().expect("a directory") };
    let (path, file) = (stage.dir.path().join(name), stage.dir.path().join("script.data"));
    std::fs::write(&path, script).expect("written");
    with_time(SECONDS, |seconds| {
        let mut record = program();
        record.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-o"]).arg(&file).args(["--", interpreter]);
        run(stage.at_home(&mut record).arg(&path).arg(seconds.to_string()));
        let dso = format!("[{interpreter}]");
        let mut stacks = stage.frames(program(), &file, &dso);
        assert_eq!(stage.frames(Command::new("perf"), &file, &dso), stacks);
        check(&stacks.split_off(stacks.len() / 2))
    });
}

#[test]
fn functions_of_php_are_in_order_and_perf_has_the_same_names() {
    // The clock is a function in C.
    let is_own = |name: &&String| *name != "hrtime";
    let chains = [
        &["spin", "Shop::compare", "usort", "Shop::sorted", "outer", "{main}"][..],
        &["spin", "produce", "consume", "outer", "{main}"],
    ];
    let has = |stack: &[String], chain: &[&str]| stack.iter().filter(is_own).eq(chain.iter());
    later_half("php", "chain.php", PHP, |later| {
        for chain in chains {
            nearly_all(later, 0.3, |stack| has(stack, chain)).map_err(|share| format!("{chain:?}: {share}"))?;
        }
        nearly_all(later, 0.9, |stack| chains.iter().any(|chain| has(stack, chain)))
    });
}

/// Two lines of a function burn 70 and 30 percent of its time; the interpreter does not write where it is in these.
const PHP_LINES: &str = r#"<?php
function alone($rounds) {
    for ($x = $i = 0; $i < $rounds; $i++) {
        $x = $x + 1; $x = $x ^ 7; $x = $x + 1; $x = $x ^ 7; $x = $x + 1; $x = $x ^ 7; $x = $x + 1; $x = $x ^ 7;
        $x = $x + 1; $x = $x ^ 7;
    }
    return $x;
}
function used() { $all = getrusage(); return $all['ru_utime.tv_sec'] + $all['ru_utime.tv_usec'] / 1e6; }
while (used() < 2) alone(100000);
"#;

#[test]
fn lines_of_php_have_their_shares() {
    if !cfg!(target_arch = "x86_64") || !allowed() || !installed("php") {
        return;
    }
    let stage = Stage { dir: tempfile::tempdir().expect("a directory") };
    let (script, file) = (stage.dir.path().join("lines.php"), stage.dir.path().join("lines.data"));
    std::fs::write(&script, PHP_LINES).expect("written");
    let mut record = program();
    record.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-o"]).arg(&file).args(["--", "php"]).arg(&script);
    run(stage.at_home(&mut record));
    let own = lines_of(&stage, &file, "alone (lines.php)");
    let total: u64 = own.iter().map(|(_, samples)| samples).sum();
    let share =
        |line: u64| own.iter().filter(|(own, _)| *own == line).map(|(_, n)| 100 * n / total.max(1)).sum::<u64>();
    assert!(total > 400, "{own:?}");
    // Eight operations, two, and the two of the loop.
    assert!((50..=85).contains(&share(4)) && (8..=30).contains(&share(5)) && share(3) < 35, "{own:?}");
    assert!(share(0) < 10 && share(3) + share(4) + share(5) > 85, "{own:?}");
}

/// Below `outer`, C code of Ruby calls back, and a fiber has its own stack.
const RUBY: &str = r#"
def now; Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID); end
def spin(seconds)
  stop = now + seconds
  while now < stop
    i = 0
    i += 1 while i < 300
  end
end
class Shop
  def compare(a, b)
    spin(0.001)
    a <=> b
  end
  def sorted
    [5, 2, 8].sort { |a, b| compare(a, b) }
  end
end
def outer
  Shop.new.sorted
  Fiber.new { spin(0.002) }.resume
end
limit = ARGV[0].to_i
outer while now < limit
"#;

#[test]
fn functions_of_ruby_are_in_order_and_perf_has_the_same_names() {
    // The clock is a method in C.
    let is_own = |name: &&String| !["clock_gettime", "now"].contains(&&***name);
    let chains =
        [&["spin", "compare", "block in sorted", "sort", "sorted", "outer", "<main>"][..], &["spin", "block in outer"]];
    let has = |stack: &[String], chain: &[&str]| stack.iter().filter(is_own).eq(chain.iter());
    // No other name is wrong: these are the script's, and those of methods in C that it calls.
    let known = ["now", "sort", "clock_gettime", "new", "initialize", "resume", "<=>", "<", "+", "(name not read)"];
    let is_known = |name: &&String| known.contains(&&***name) || chains.concat().contains(&&***name);
    later_half("ruby", "chain.rb", RUBY, |later| {
        assert_eq!(later.iter().flatten().find(|name| !is_known(name)), None);
        for chain in chains {
            nearly_all(later, 0.2, |stack| has(stack, chain)).map_err(|share| format!("{chain:?}: {share}"))?;
        }
        nearly_all(later, 0.9, |stack| chains.iter().any(|chain| has(stack, chain)))?;
        let in_clock = |stack: &Vec<String>| stack.first().is_some_and(|leaf| leaf == "clock_gettime");
        if later.iter().any(in_clock) { Ok(()) } else { Err("no sample in the clock".to_owned()) }
    });
}

/// Below `outer`, C code of Perl calls back: the comparison of a sort.
const PERL: &str = r#"
sub spin { my $end = (times)[0] + shift; while ((times)[0] < $end) { my $x = 0; $x += $_ for 0 .. 300; } }
package Shop { sub compare { main::spin(0.01); $a <=> $b } sub sorted { my @list = sort compare 5, 2, 8; } }
my $closure = sub { spin(0.02); 1 };
sub outer { Shop::sorted(); $closure->(); 1 }
outer() while (times)[0] < $ARGV[0];
"#;

/// Subroutines of 100 packages, which are dropped as soon as they have returned.
const DROPPED: &str = r#"
sub spin { my $x = 0; $x += $_ for 0 .. 5000; 1 }
while ((times)[0] < $ARGV[0]) {
    my $i = int rand 100;
    my $inner = eval "package P$i; sub { main::spin(); 1 }" or die $@;
    my $outer = eval "package P$i; sub { \$inner->(); 1 }" or die $@;
    $outer->();
}
"#;

#[test]
fn functions_of_perl_are_in_order_and_perf_has_the_same_names() {
    let chains = [
        &["main::spin", "Shop::compare", "Shop::sorted", "main::outer"][..],
        &["main::spin", "main::__ANON__", "main::outer"],
    ];
    later_half("perl", "chain.pl", PERL, |later| {
        for chain in chains {
            nearly_all(later, 0.2, |stack| stack == chain).map_err(|share| format!("{chain:?}: {share}"))?;
        }
        nearly_all(later, 0.9, |stack| chains.iter().any(|chain| stack == *chain))
    });
}

#[test]
fn subroutines_of_perl_that_are_dropped_at_once_have_no_wrong_names() {
    let is_known = |name: &str| {
        let number = name.strip_suffix("::__ANON__ (eval)").and_then(|package| package.strip_prefix('P'));
        number.and_then(|number| number.parse().ok()).is_some_and(|number: u8| number < 100)
    };
    later_half("perl", "chain.pl", DROPPED, |later| {
        let mut whole = 0;
        for stack in later {
            let own: Vec<_> = stack.iter().skip_while(|name| *name == "main::spin").collect();
            assert!(own.iter().all(|name| is_known(name)), "{stack:?}");
            match own[..] {
                [] | [_] => {}
                [inner, outer] if inner == outer => whole += 1,
                _ => panic!("{stack:?}"),
            }
        }
        if whole > 100 { Ok(()) } else { Err(whole.to_string()) }
    });
}
