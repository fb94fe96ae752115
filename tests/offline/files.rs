//! `files`: calls count for the file that their descriptor stands for.

use perfprof_tui::panel::Panel;
use perfprof_tui::record::Record;
use perfprof_tui::record::kinds::TaskRecord;

use crate::common::scenes::{FILE_CALLS, MS, US, file_call, files, open_file, scene, syscalls_with_arguments};
use crate::common::stage::{Stage, cell, number, rows};

fn panel<'a>(panels: &'a [Panel], title: &str) -> &'a Panel {
    panels.iter().find(|panel| panel.title == title).unwrap_or_else(|| panic!("no panel {title}"))
}

fn texts<const N: usize>(panel: &Panel, columns: [&str; N]) -> Vec<[String; N]> {
    (0..rows(panel).table.rows.len()).map(|row| columns.map(|name| cell(panel, row, name).raw())).collect()
}

const FIGURES: [&str; 7] = ["file", "opens", "reads", "read_bytes", "writes", "written_bytes", "errors"];

#[test]
fn a_file_has_its_calls_and_bytes() {
    let panels = scene("files").panels();
    let table = panel(&panels, "Files");
    assert_eq!(
        texts(table, FIGURES),
        [
            ["/var/log/app.log", "1", "", "", "2", "100", "1"],
            ["/var/lib/db/data", "1", "4", "32768", "", "", ""],
            ["/etc/app.conf", "3", "", "", "", "", "3"],
            ["(not known)", "", "1", "1", "", "", ""],
        ]
    );
    assert_eq!(number(table, 1, "total_ns"), (8 * MS + 10 * US) as f64);
    assert_eq!(cell(table, 0, "process").text(), "logger-2");
    let failed = panel(&panels, "Failed");
    assert_eq!(
        texts(failed, ["times", "call", "errno", "process", "file"]),
        [["3", "open", "ENOENT", "app-1", "/etc/app.conf"], ["1", "write", "ENOSPC", "logger-2", "/var/log/app.log"]]
    );
    let slow = panel(&panels, "Slowest");
    assert_eq!(texts(slow, ["comm", "call", "file"])[0], ["logger", "write", "/var/log/app.log"]);
    let processes = panel(&panels, "Processes");
    assert_eq!(texts(processes, ["comm", "written_bytes"]), [["logger", "100"], ["app", ""]]);
}

/// A child reads from the file that its parent opened, and the number is used again in the parent.
#[test]
fn a_child_has_the_files_of_its_parent() {
    let [read, _, _, close] = FILE_CALLS;
    let mut s = files();
    open_file(&mut s, MS, US, 1, "/first", 3);
    s.thread(&Record::Fork(TaskRecord { pid: 5, ppid: 1, tid: 5, ptid: 1, time: 0 }), 2 * MS);
    file_call(&mut s, 3 * MS, US, 1, close, "\u{3}", 0);
    open_file(&mut s, 4 * MS, US, 1, "/second", 3);
    file_call(&mut s, 5 * MS, 2 * US, 5, read, "\u{3}", 10);
    file_call(&mut s, 6 * MS, 3 * US, 1, read, "\u{3}", 20);
    let panels = s.panels();
    let mut found = texts(panel(&panels, "Files"), ["file", "read_bytes"]);
    found.sort();
    assert_eq!(found, [["/first", "10"], ["/second", "20"]]);
}

/// A copy reads one file and writes another; its time is that of the read.
#[test]
fn a_copy_has_its_time_once() {
    let sendfile = if cfg!(target_arch = "aarch64") { 71 } else { 40 };
    let mut s = files();
    open_file(&mut s, MS, US, 1, "/from", 3);
    open_file(&mut s, 2 * MS, 2 * US, 1, "/to", 4);
    file_call(&mut s, 3 * MS, 5 * MS, 1, sendfile, "\u{4}\0\0\0\0\0\0\0\u{3}", 500);
    let panels = s.panels();
    let found = texts(panel(&panels, "Files"), ["file", "reads", "read_bytes", "writes", "written_bytes", "total_ns"]);
    assert_eq!(found, [["/from", "1", "500", "", "", "5001000"], ["/to", "", "", "1", "500", "2000"]]);
    let slow = texts(panel(&panels, "Slowest"), ["call", "file"]);
    assert_eq!(slow, [["read", "/from"], ["open", "/to"], ["open", "/from"]]);
}

/// A call without an end, an end without a call, and lost records give no figures.
#[test]
fn only_whole_calls_count() {
    let [read, write, ..] = FILE_CALLS;
    let mut s = files();
    open_file(&mut s, MS, US, 1, "/a", 3);
    let exit = s.hit(5, 2 * MS);
    use crate::common::stage::Value::{N, T};
    s.give(exit, &[N(read), N(10)]);
    let enter = s.hit(4, 3 * MS);
    s.give(enter, &[N(read), T("\u{3}")]);
    let exit = s.hit(5, 4 * MS);
    s.give(exit, &[N(write), N(10)]);
    let enter = s.hit(4, 5 * MS);
    s.give(enter, &[N(read), T("\u{3}")]);
    s.lose(None, 5 * MS, 6 * MS, 3);
    let exit = s.hit(5, 7 * MS);
    s.give(exit, &[N(read), N(10)]);
    file_call(&mut s, 8 * MS, US, 1, read, "\u{3}", 5);
    let panels = s.panels();
    let found = texts(panel(&panels, "Files"), ["file", "opens", "reads", "writes"]);
    assert_eq!(found, [["(not known)", "", "1", ""], ["/a", "1", "", ""]]);
}

/// By `int 0x80`, the numbers are those of other calls.
#[test]
fn calls_by_the_32_bit_abi_are_left_out() {
    use crate::common::stage::Value::{N, T};
    use perfprof_tui::record::sample::UserState;
    let [read, ..] = FILE_CALLS;
    let mut s = files();
    open_file(&mut s, MS, US, 1, "/a", 3);
    for (at, abi) in [(2, 1), (4, 2)] {
        let registers = UserState { abi, ..UserState::default() };
        let enter = perfprof_tui::units::kit::UnitSample { pid: 1, tid: 1, registers, ..s.hit(4, at * MS) };
        s.give(enter, &[N(read), T("\u{3}")]);
        let exit = perfprof_tui::units::kit::UnitSample { pid: 1, tid: 1, ..s.hit(5, (at + 1) * MS) };
        s.give(exit, &[N(read), N(10)]);
    }
    let panels = s.panels();
    assert_eq!(texts(panel(&panels, "Files"), ["file", "opens", "reads"]), [["/a", "1", "1"]]);
}

/// Makes calls: milliseconds, number, descriptor, result and duration. openat has a path.
fn make_calls(s: &mut Stage, calls: impl IntoIterator<Item = (u64, i64, &'static str, i64, u64)>) {
    use crate::common::stage::Value::{N, T};
    for (at, number, fd, result, took) in calls {
        let enter = s.hit(0, at * MS);
        s.give(enter, &[N(number), T(fd)]);
        if number == FILE_CALLS[2] {
            let path = s.hit(2, at * MS);
            s.give(path, &[T("/etc/app.conf")]);
        }
        let exit = s.hit(1, at * MS + took);
        s.give(exit, &[N(number), N(result)]);
    }
}

/// Slow and failed calls of `syscalls` are written with their arguments, if the records have them.
#[test]
fn calls_have_their_arguments() {
    let [read, _, openat, _] = FILE_CALLS;
    let mut s = syscalls_with_arguments();
    make_calls(&mut s, [(1, openat, "\u{3}", -2, US), (3, read, "\u{7}", 10, 5 * MS)]);
    let panels = s.panels();
    let errors = texts(panel(&panels, "Errors"), ["call", "errno", "last_by", "last_call"]);
    assert_eq!(errors, [["openat", "ENOENT", "app-1", "openat(3, \"/etc/app.conf\", RDONLY)"]]);
    let lines = texts(panel(&panels, "Lines"), ["line"]);
    assert_eq!(lines, [["openat(3, \"/etc/app.conf\", RDONLY) = -ENOENT"]]);
    let slow = texts(panel(&panels, "Slowest"), ["result", "line"]);
    assert_eq!(slow, [["10", "read(7, 0, 0)"], ["-2", "openat(3, \"/etc/app.conf\", RDONLY)"]]);
}

/// The descriptors of a failed call have their files, also if it was fast.
#[test]
fn failed_calls_have_the_files_of_their_descriptors() {
    let [read, _, openat, _] = FILE_CALLS;
    let mut s = syscalls_with_arguments();
    // The slowest calls have their files in any case: these are slower.
    let slower = (0..20).map(|i| (5 + i, read, "\u{9}", 10, MS));
    let calls = [(1, openat, "\u{3}", 7, 5 * US)].into_iter().chain(slower).chain([(40, read, "\u{7}", -11, US)]);
    make_calls(&mut s, calls);
    let panels = s.panels();
    let lines = texts(panel(&panels, "Lines"), ["line"]);
    assert_eq!(lines, [["read(7 → /etc/app.conf, 0, 0) = -EAGAIN"]]);
    let errors = texts(panel(&panels, "Errors"), ["call", "errno", "last_call"]);
    assert_eq!(errors, [["read", "EAGAIN", "read(7 → /etc/app.conf, 0, 0)"]]);
}

/// Chosen calls are lines, with their paths and addresses; others do not count.
#[test]
fn chosen_calls_are_lines() {
    use crate::common::stage::Value::{N, T};
    let [read, _, openat, _] = FILE_CALLS;
    let connect = if cfg!(target_arch = "aarch64") { 203 } else { 42 };
    let spec = perfprof_tui::units::find("syscalls").expect("a unit");
    let mut s = Stage::new(spec, &["-e", "openat,connect"]);
    s.event(0, "raw_syscalls:sys_enter", &["long id", "char args[48]"], "\"\"");
    s.event(1, "raw_syscalls:sys_exit", &["long id", "long ret"], "\"\"");
    s.event(2, "syscalls:sys_enter_connect", &["u8 uservaddr_val[112]"], "\"\"");
    s.event(3, "syscalls:sys_enter_openat", &["char __filename_val[32]"], "\"\"");
    s.call(1, "app");
    let stack = s.stack(&["main", "reload", "open"]);
    for (at, number, fd, result) in
        [(1, openat, "\u{3}", -2), (2, read, "\u{7}", 10), (3, connect, "\u{c}", -115), (4, openat, "\u{3}", 5)]
    {
        let enter = s.hit(0, at * MS);
        s.give(enter, &[N(number), T(fd)]);
        if number == openat {
            let path = perfprof_tui::units::kit::UnitSample { stack, ..s.hit(3, at * MS) };
            s.give(path, &[T("/etc/app.conf")]);
        } else if number == connect {
            let address = s.hit(2, at * MS);
            s.give(address, &[T("\u{2}\0\u{15}8\n\0\u{3}\u{7}")]);
        }
        let exit = s.hit(1, at * MS + US);
        s.give(exit, &[N(number), N(result)]);
    }
    let panels = s.panels();
    let lines = texts(panel(&panels, "Lines"), ["comm", "line", "ns"]);
    assert_eq!(
        lines,
        [
            ["app", "openat(3, \"/etc/app.conf\", RDONLY) = -ENOENT", "1000"],
            ["app", "connect(12 → 10.0.3.7:5432) = -EINPROGRESS", "1000"],
            ["app", "openat(3, \"/etc/app.conf\", RDONLY) = 5", "1000"],
        ]
    );
    let functions = texts(panel(&panels, "Stack of the call under the cursor"), ["function"]);
    assert_eq!(functions, [["open"], ["reload"], ["main"]]);
    assert_eq!(texts(panel(&panels, "Calls"), ["call"]), [["openat"], ["connect"]]);
}

/// A hostile path must not control the terminal.
#[test]
fn paths_have_no_control_characters() {
    let mut s = files();
    open_file(&mut s, MS, US, 1, "/tmp/\u{1b}[2J\n\u{7}x", -2);
    let text = s.text();
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert!(text.lines().any(|line| line.ends_with('x')), "{text}");
}
