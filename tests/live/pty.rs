//! The program in a pseudo-terminal: its screen, and the terminal's state after it.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::process::{ended, until, uses_cpu};
use crate::common::session::{PATIENCE, Session, Work, cells, instead_of_ssh};
use crate::common::{allowed, data, traced};

fn open(rows: u16, cols: u16) -> Session {
    let file = data("ipvs-cpu32.data");
    let kallsyms = data("ipvs-cpu32.kallsyms");
    let session = Session::start(
        &["open", file.to_str().expect("utf8"), "--kallsyms", kallsyms.to_str().expect("utf8")],
        rows,
        cols,
    );
    session.wait_for("_find_next_bit");
    session
}

#[test]
fn a_recording_is_walked_filtered_and_left() {
    let mut session = open(24, 100);
    session.keys("\r").wait_for("estimation_timer");
    session.keys("fcomm == burn\r").wait_for("view: comm == burn");
    session.keys("?").wait_for("undo the last step");
    session.keys("\x1b").wait_for("Symbol");
    session.keys("q");
    assert_eq!(session.end().code(), Some(0));
    assert!(session.is_restored());
}

#[test]
fn forks_name_the_command_on_a_narrow_screen() {
    needs!(traced());
    let script = "while [ -e /proc/$PPID ]; do /bin/true; done; : marked";
    let load = std::process::Command::new("sh").args(["-c", script]).spawn().expect("starts");
    let load = common::process::Running(load);
    let mut session = Session::start(&["forks", "-p", &load.0.id().to_string()], 24, 80);
    session.wait_for("marked");
    session.keys("q");
    assert_eq!(session.end().code(), Some(0));
}

#[test]
fn a_locale_without_utf8_gets_ascii() {
    let file = data("ipvs-cpu32.data").display().to_string();
    let no_color = ("NO_COLOR", "1");
    for (args, env) in [
        (&["open", &file][..], &[("LC_ALL", "C"), no_color][..]),
        (&["open", &file], &[("LC_ALL", "de_DE.ISO-8859-1"), ("TERM", "vt220")]),
        (&["open", &file, "--ascii"], &[("LC_ALL", "C.UTF-8")]),
    ] {
        let mut session = Session::start_in(args, 24, 100, env);
        session.wait_for("Symbol");
        session.keys("2").wait_for("[2 ");
        session.keys("3").wait_for("[3 ");
        session.keys("q");
        assert_eq!(session.end().code(), Some(0));
        assert!(session.bytes().is_ascii(), "{env:?}");
    }
    let mut dumb = Session::start_in(&["open", &file], 24, 100, &[("TERM", "dumb")]);
    assert_eq!(dumb.end().code(), Some(2));
    dumb.wait_for("this terminal cannot show a screen");
}

/// Starts the program in a terminal that does not read, like a stuck link.
fn unread(args: &[&str], rows: u16, cols: u16) -> (pty_process::blocking::Pty, std::process::Child) {
    let (pty, pts) = pty_process::blocking::open().expect("pty");
    pty.resize(pty_process::Size::new(rows, cols)).expect("size");
    let program = env!("CARGO_BIN_EXE_perfprof-tui");
    let command = pty_process::blocking::Command::new("env").args(["--default-signal=HUP", program]).args(args);
    let command = command.env_clear().envs(common::environment()).env("TERM", "xterm");
    let child = command.spawn(pts).expect("spawn");
    (pty, child)
}

/// Returns the peak memory of a process in MB.
fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).expect("a process") / 1024
}

#[test]
fn a_terminal_of_any_size_is_drawn_and_left() {
    let file = data("ipvs-cpu32.data").display().to_string();
    for (rows, cols) in [(24, 65_535), (65_535, 80), (65_535, 65_535)] {
        let (mut pty, mut child) = unread(&["open", &file], rows, cols);
        // The first frame arrives when the terminal has read more than the queries.
        let mut read = 0;
        while read < 4096 {
            let mut bytes = [0; 4096];
            read += std::io::Read::read(&mut pty, &mut bytes).expect("read");
        }
        assert!(peak(child.id()) < 300, "{} MB at {cols}x{rows}", peak(child.id()));
        common::run(std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]));
        assert_eq!(ended(&mut child).code(), Some(0), "{cols}x{rows}");
    }
}

/// Ctrl-S or a stuck link: writes block forever, but the program still ends.
#[test]
fn a_stopped_terminal_does_not_keep_it() {
    let mut session = open(24, 80);
    let terminal = std::fs::File::open(format!("/proc/{}/fd/1", session.child.id())).expect("its terminal");
    rustix::termios::tcflow(&terminal, rustix::termios::Action::OOff).expect("stopped");
    session.keys("2").signal("-TERM");
    assert_eq!(session.end().code(), Some(0));
}

/// A closed terminal window or a dropped ssh connection.
#[test]
fn a_terminal_that_goes_takes_the_probes_with_it() {
    needs!(allowed(), common::has(common::Nature::Uprobes));
    let probes = |pid: u32| {
        let list = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default();
        list.lines().filter(|line| line.contains(&format!("perfprof_{pid}/"))).count()
    };
    let own = std::process::id().to_string();
    let (mut pty, mut child) = unread(&["kmemleak", "-p", &own], 24, 80);
    let pid = child.id();
    until("it has probes", || probes(pid) > 2);
    // The screen is set up.
    let mut bytes = [0; 4096];
    while !bytes.windows(6).any(|part| part == b"\x1b[?25l") {
        std::io::Read::read(&mut pty, &mut bytes).expect("read");
    }
    drop(pty);
    ended(&mut child);
    assert_eq!(probes(pid), 0);
}

#[test]
fn signals_end_it_cleanly() {
    for signal in ["-INT", "-TERM", "-HUP", "-QUIT"] {
        let mut session = open(24, 80);
        session.signal(signal);
        assert_eq!(session.end().code(), Some(0), "{signal}");
        assert!(session.is_restored(), "{signal}");
    }
}

#[test]
fn a_resize_is_followed_and_an_idle_screen_is_silent() {
    let session = open(24, 80);
    // The emulator is resized before the program, so that no frame exceeds its size.
    session.screen.lock().expect("lock").0.screen_mut().set_size(cells(40), cells(120));
    session.pty.resize(pty_process::Size::new(40, 120)).expect("resize");
    session.wait_for("6.1.0-56-cloud-amd64");
    // The larger screen may have late content; afterwards nothing changes, and the program writes nothing.
    let start = Instant::now();
    loop {
        let before = session.bytes().len();
        std::thread::sleep(Duration::from_millis(700));
        if session.bytes().len() == before {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "it keeps writing");
    }
}

#[test]
fn a_snapshot_of_a_recording_gives_the_same_report() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("snap.data");
    let mut session = open(24, 100);
    session.keys(&format!(":save {}\r", path.display())).wait_for("saved 8,971 samples");
    session.keys(":save /no/such/dir/x\r").wait_for("was not written");
    session.keys("q");
    assert_eq!(session.end().code(), Some(0));
    let report = |file: &std::path::Path| {
        let mut command = common::program();
        command.arg("report").arg(file).args(["--format", "csv", "--kallsyms"]).arg(data("ipvs-cpu32.kallsyms"));
        String::from_utf8(common::run(&mut command).stdout).expect("utf8")
    };
    assert_eq!(report(&path), report(&data("ipvs-cpu32.data")));
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("dir").collect();
    assert_eq!(left.len(), 1, "partial files are left: {left:?}");
}

/// The keys arrive at once, so that the program ends while the snapshot is written.
#[test]
fn a_snapshot_is_complete_before_the_program_ends() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("snap.data");
    let mut session = open(24, 100);
    session.keys(&format!(":save {}\rq", path.display()));
    assert_eq!(session.end().code(), Some(0));
    session.wait_for("saved 8,971 samples");
    assert!(path.exists());
    let mut session = open(24, 100);
    session.keys(":save /no/such/dir/x\rq");
    assert_eq!(session.end().code(), Some(1));
    session.wait_for("was not written");
}

#[test]
fn live_numbers_come_and_the_view_freezes() {
    needs!(allowed());
    let busy = "while :; do :; done";
    let mut session = Session::start(&["-e", "cpu-clock", "-F", "500", "--", "sh", "-c", busy], 30, 120);
    session.wait_for("● live").wait_for("sh ");
    session.keys(" ").wait_for("‖ frozen");
    session.keys(" ").wait_for("● live");
    session.keys(":freq 99\r").wait_for("sampling at 99 Hz now");
    session.keys("q");
    assert_eq!(session.end().code(), Some(0));
    assert!(session.is_restored());
}

#[test]
fn a_command_that_ends_is_reported_on_leaving() {
    needs!(allowed());
    let command = format!("{}; exit 7", uses_cpu(50));
    let mut session = Session::start(&["-e", "cpu-clock", "--", "sh", "-c", &command], 24, 100);
    session.wait_for("■ ended");
    session.keys("q");
    assert_eq!(session.end().code(), Some(7));
    let bytes = session.bytes();
    let after = memchr::memmem::rfind(&bytes, b"\x1b[?1049l").expect("left");
    assert!(String::from_utf8_lossy(&bytes[after..]).contains("exited with status 7"));
}

#[test]
fn a_capture_filter_is_edited_while_a_load_runs() {
    needs!(allowed());
    let busy = "while :; do /bin/true; sleep 0.02; done";
    let args = ["-e", "sched:sched_process_exit", "-s", "comm,sym", "--", "sh", "-c", busy];
    let mut session = Session::start(&args, 30, 120);
    session.wait_for("● live").wait_for("true ");
    session.keys("Fcomm == nothing\r").wait_for("capture: comm == \"nothing\"");
    session.keys("z").wait_for("No samples in since 00:").wait_for("since 00:");
    session.keys("F\x15comm = true\r").wait_for("use == for equality");
    session.keys("\x1b").wait_for("capture: comm == \"nothing\"");
    session.keys("F\x15comm == true\r").wait_for("capture: comm == \"true\"").wait_for("true ");
    session.keys("F\x15\r").wait_for("is recorded again");
    session.keys("q");
    assert_eq!(session.end().code(), Some(0));
}

/// The sender of the flood, in a separate namespace and process.
#[test]
#[ignore = "runs for a_flood_is_found_and_saved only"]
fn flood() {
    common::flood::send(90);
}

/// A complete incident: one CPU is flooded with packets, the screen reports it, two keys lead to the functions, and a
/// snapshot contains the evidence.
#[test]
fn a_flood_is_found_and_saved() {
    needs!(allowed());
    let cpu = std::thread::available_parallelism().map_or(1, usize::from) as u32 - 1;
    let flood = match common::flood::Flood::start(cpu, "pty::flood") {
        Ok(flood) => flood,
        Err(why) => return common::skipped(&why),
    };
    let mut session = Session::start(&["-e", "cpu-clock", "-F", "499", "--call-graph", "fp"], 40, 140);
    session.wait_for(&format!("CPU {cpu} softirq")).wait_for("NET_RX");
    session.keys("!").wait_for(&format!("NET_RX on CPU {cpu}"));
    session.keys("\r").wait_for(&format!("all › CPU {cpu} NET_RX")).wait_for("br_handle_frame");
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("proof.data");
    session.keys(&format!(":save {}\r", path.display())).wait_for("saved ");
    session.keys("q");
    assert_eq!(session.end().code(), Some(0));
    drop(flood);
    let mut report = common::program();
    report
        .args(["report", "-s", "sym", "--format", "csv", "--where"])
        .arg(format!("cpu == {cpu} && softirq == NET_RX"));
    let text = String::from_utf8(common::run(report.arg(&path)).stdout).expect("text");
    let has = |function: &str| text.lines().any(|line| line.ends_with(&format!(",{function}")));
    assert!(has("br_handle_frame") && has("net_rx_action"), "{text}");
}

/// Starts, pauses and stops events from the list of all events during a session.
#[test]
fn events_are_started_paused_and_stopped_from_the_list() {
    needs!(allowed());
    let mut session = Session::start(&["-e", "cpu-clock", "--call-graph", "fp"], 30, 120);
    session.wait_for("● live");
    session.keys("5").wait_for("events that this machine knows");
    session.keys("/sched_switch").wait_for("sched:sched_switch");
    session.keys("\r").wait_for("prev_comm");
    session.keys("\r").wait_for("measuring sched:sched_switch from now on").wait_for("every hit");
    // Go to the top, then down to the started event.
    session.keys("\x1b[H\x1b[B").wait_for("sched:sched_switch: ");
    session.keys("er\x151/7\r").wait_for("1 in 7");
    session.keys("Fprev_pid > 1\r").wait_for("the kernel keeps only: prev_pid > 1");
    session.keys("ep").wait_for("‖ paused");
    session.keys("ep").wait_for("● 1 in 7");
    session.keys("x").wait_for("■ stopped");
    session.keys("\r").wait_for("● 1 in 7");
    session.keys("em").wait_for("modifiers:");
    session.keys("zz\r").wait_for("modifiers are u k h");
    session.keys("\x15u\r").wait_for("sched:sched_switch:u");
    session.keys("re").wait_for("measure:");
    session.keys("sched:nothing\r").wait_for("no tracepoint sched:nothing");
    session.keys("1").wait_for("Symbol");
    session.keys("q");
    assert_eq!(session.end().code(), Some(0));
}

/// A range of time is selected with keys, all other screens use it, and S saves only that range.
#[test]
fn a_range_of_time_is_selected_and_drilled_into() {
    let dir = tempfile::tempdir().expect("dir");
    let saved = dir.path().join("range.data");
    let file = data("ipvs-cpu32.data");
    let kallsyms = data("ipvs-cpu32.kallsyms");
    let args = ["open", file.to_str().expect("utf-8"), "--kallsyms", kallsyms.to_str().expect("utf-8")];
    let mut session = Session::start(&[&args[..], &["--output", saved.to_str().expect("utf-8")]].concat(), 30, 120);
    session.wait_for("8,971 samples");
    session.keys("3");
    session.wait_for("columns 1 s");
    session.keys("\x1b[H\x1b[C\x1b[CV\x1b[C");
    session.wait_for("2.000–4.000 s");
    session.keys("\r");
    session.wait_for("all › 2.000–4.000 s").wait_for("estimation_timer");
    session.keys("2");
    session.wait_for("[2 Flame]").wait_for("estimation_timer");
    session.keys("S");
    session.wait_for("saved ");
    session.keys("q");
    assert_eq!(session.end().code(), Some(0));
    let report = common::run(common::program().args(["report", "--format", "json"]).arg(&saved));
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("json");
    let samples = report["events"][0]["samples"].as_u64().expect("samples");
    assert!(samples > 500 && samples < 4000, "{samples}");
}

/// The overview has its figures within seconds; `alt-s` writes one page next to the snapshot.
#[test]
fn the_overview_answers_and_its_page_is_saved() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let saved = dir.path().join("saved.data");
    let spin = common::process::Running::busy("spin");
    let pid = spin.pid().to_string();
    let args = ["-p", &pid, "--output", saved.to_str().expect("utf-8"), "--exec", "overview"];
    let mut session = Session::start(&args, 30, 160);
    session.wait_for("[0 Overview]").wait_for("waiting for a CPU").wait_for("Only the selected processes count");
    session.keys("1").wait_for("[1 Top]").wait_for("spin");
    session.keys("0").wait_for("[0 Overview]");
    session.keys("\x1bs").wait_for("one page about it");
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
    let page = std::fs::read_to_string(dir.path().join("saved.data.digest.txt")).expect("a page");
    assert!(page.contains(&format!("spin {pid}")), "{page}");
}

/// Units from start to end: one started by its command, another added, and both removed.
#[test]
fn units_come_and_go() {
    needs!(traced());
    let mut session = Session::start_in(&["rundelay"], 30, 120, &[common::by_frame_pointers()]);
    session.wait_for("[rundelay]").wait_for("[Threads]").wait_for("Wake-up");
    session.keys("Moncpu\r");
    session.wait_for("[oncpu]").wait_for("[CPUs]").wait_for("Switches");
    session.keys("\t").wait_for("[Tasks]");
    session.keys("{").wait_for("[rundelay]");
    session.keys("x").wait_for("[oncpu]");
    // An event that units measure can become the user's own, and stays after the units end.
    session.keys("resched:sched_switch\r").wait_for("measuring sched:sched_switch from now on");
    session.keys("1").wait_for("[1 Top]").wait_for("[kernel.kallsyms]");
    session.keys("6").wait_for("[oncpu]");
    session.keys("x").wait_for("No unit runs");
    session.keys("5").wait_for("● every hit");
    session.keys("6").wait_for("No unit runs");
    session.keys("Mnothing\r").wait_for("unknown unit nothing");
    // A key that follows Escape at once would be Alt and that key.
    session.keys("\x1b").wait_until_gone("measure what?").wait_for("M add unit");
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
}

/// A unit's session has no samples for the other screens until an event is started for them, at the usual rate.
#[test]
fn screens_beside_a_unit_show_the_event_that_is_started() {
    needs!(traced());
    let _work = Work::start();
    let mut session = Session::start_in(&["offcpu"], 30, 120, &[common::by_frame_pointers()]);
    session.wait_for("[offcpu]");
    session.keys("2").wait_for("This session has no sampling event.");
    session.keys("5").wait_for("events that this machine knows");
    session.keys("/cpu-clock").wait_for("1 of ");
    session.keys("\r").wait_for("a timer of each CPU");
    session.keys("\r").wait_for("measuring cpu-clock from now on").wait_for("● 999 Hz");
    // Only its samples have rows; which ones are first depends on the machine's load.
    session.keys("1").wait_for_line(&["cpu-clock", "live"]).wait_for("▸");
    session.keys("q");
    assert!(session.end().success());
}

/// A unit on a recording, and a second one.
#[test]
fn units_of_a_recording() {
    let file = data("units/sched.data");
    let mut session = Session::start(&["rundelay", &file.to_string_lossy()], 30, 120);
    session.wait_for("[rundelay]").wait_for("spinner");
    session.keys("Mtask-state -D\r");
    session.wait_for("[task-state]").wait_for("[Tasks]");
    session.keys("Msyscalls\r").wait_for("syscalls needs raw_syscalls:sys_enter");
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
}

/// The demo needs no privileges and no kernel: its tour leads to the function.
#[test]
fn the_demo_and_its_tour() {
    let mut session = Session::start(&["demo", "--speed", "20"], 24, 80);
    session.wait_for("tour 1 of 11").wait_for("TIMER (estimation_timer)");
    session.wait_for("_find_next_bit");
    session.keys("!").wait_for("tour 2 of 11").wait_for("[4 CPUs]");
    session.keys("\r").wait_for("tour 3 of 11").wait_for("estimation_timer");
    session.keys("\r").wait_for("tour 4 of 11").wait_for("_find_next_bit");
    session.keys("2").wait_for("tour 5 of 11").wait_for("[2 Flame]");
    session.keys("3").wait_for("tour 6 of 11").wait_for("[3 Time]");
    // The panel of changes between two bursts covers no column of the heat map.
    session.wait_for("0 ns").wait_for("12 s");
    session.keys("\x1b[H\x1b[C\x1b[C\x1b[CV").wait_for("tour 7 of 11");
    session.keys("b").wait_for("tour 8 of 11").wait_for("baseline set");
    session.keys("\x1b[C\x1b[C\x1b[C\x1b[CV").wait_for("tour 9 of 11");
    session.keys("\r").wait_for("tour 10 of 11").wait_for("[1 Top]").wait_for("_find_next_bit");
    session.keys("u").wait_for("tour 11 of 11").wait_for("[3 Time]");
    // Esc and q sent together would be another key.
    session.keys("\x1b").wait_until_gone("tour 11");
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
}

/// A remote recording; a replacement for ssh runs the command locally.
#[test]
fn another_machine_over_the_wire() {
    needs!(allowed());
    let _work = Work::start();
    let dir = tempfile::tempdir().expect("dir");
    let script = "#!/bin/sh\necho \"$@\" > \"$0.args\"\nfor line; do :; done\nexec sh -c \"$line\"\n";
    let env = instead_of_ssh(dir.path(), script);
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    let mut session =
        Session::start_in(&["open", "ssh://root@node-7:2222", "--", "-F", "499", "-e", "cpu-clock"], 24, 110, &env);
    session.wait_for("ssh://root@node-7:2222").wait_for("● live").wait_for("cpu-clock 499 Hz");
    session.keys(":filter comm == dd\r").wait_for("comm == dd").wait_for(" [kernel.kallsyms] ");
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
    let args = std::fs::read_to_string(dir.path().join("ssh.args")).expect("it ran");
    assert!(args.starts_with("-p 2222 -T -C -- root@node-7 "), "{args}");
    assert!(args.contains("record -q -o - --names -F 499 -e cpu-clock"), "{args}");
}

/// The configuration applies to keys and theme; errors in it are reported first.
#[test]
fn the_configuration_holds() {
    let dir = tempfile::tempdir().expect("dir");
    let folder = dir.path().join("perfprof-tui");
    std::fs::create_dir_all(folder.join("themes")).expect("made");
    std::fs::write(folder.join("themes/mine.toml"), "inherits = 'dark'\n[styles]\ntext = { bg = '#102030' }\n")
        .expect("written");
    std::fs::write(folder.join("config.toml"), "theme = 'mine'\n[keys.all]\nctrl-t = 'flame'\nx = 'nothing'\n")
        .expect("written");
    let config = dir.path().to_string_lossy().into_owned();
    let file = data("ipvs-cpu32.data");
    let env = [("XDG_CONFIG_HOME", config.as_str()), ("COLORTERM", "truecolor")];
    let mut session = Session::start_in(&["open", &file.to_string_lossy()], 24, 100, &env);
    session.wait_for("[1 Top]");
    session.keys("\x14").wait_for("[2 Flame]");
    session.keys("\x14:theme nord\r").wait_for("config.toml keeps it");
    session.keys("q");
    assert!(session.end().success());
    let bytes = String::from_utf8_lossy(&session.bytes()).into_owned();
    assert!(bytes.contains("config.toml:4: unknown command nothing"), "reported before the screen");
    assert!(bytes.contains("48;2;16;32;48") && bytes.contains("48;2;46;52;64"), "both themes were painted");
}

/// The terminal is resized repeatedly while every screen is drawn; no frame is drawn with the layout of another size.
#[test]
fn a_storm_of_resizes_is_survived() {
    let file = data("ipvs-cpu32.data");
    let mut session = Session::start(&["open", &file.to_string_lossy()], 50, 160);
    session.wait_for("■ file").wait_for("[1 Top]");
    for i in 0..400u16 {
        let (rows, cols) = (4 + i.wrapping_mul(37) % 57, 10 + i.wrapping_mul(91) % 190);
        session.pty.resize(pty_process::Size::new(rows, cols)).expect("size");
        if i % 3 == 0 {
            session
                .keys(["1", "2", "3", "4", "5", "6", "?", "\x1b", "f", "\x1b", ":", "\x1b"][usize::from(i / 3 % 12)]);
        }
        std::thread::sleep(Duration::from_millis(u64::from(i % 5)));
    }
    session.screen.lock().expect("lock").0.screen_mut().set_size(cells(30), cells(100));
    session.pty.resize(pty_process::Size::new(30, 100)).expect("size");
    // Close open popups; an Esc directly before another key would be read as one key.
    let start = Instant::now();
    while !session.text().contains("[1 Top]") {
        // In a help search, the first Esc clears the search text.
        for _ in 0..2 {
            session.keys("\x1b");
            std::thread::sleep(Duration::from_millis(100));
        }
        session.keys("1");
        std::thread::sleep(Duration::from_millis(200));
        assert!(start.elapsed() < PATIENCE, "{}", session.text());
    }
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
}

/// A configured theme that is missing is reported, and the program still works.
#[test]
fn a_wrong_configuration_stops_nobody() {
    let dir = tempfile::tempdir().expect("dir");
    let folder = dir.path().join("perfprof-tui");
    std::fs::create_dir_all(&folder).expect("made");
    std::fs::write(folder.join("config.toml"), "theme = 'nowhere'\n").expect("written");
    let config = dir.path().to_string_lossy().into_owned();
    let file = data("ipvs-cpu32.data");
    let env = [("XDG_CONFIG_HOME", config.as_str())];
    let mut session = Session::start_in(&["open", &file.to_string_lossy()], 24, 100, &env);
    session.wait_for("[1 Top]").wait_for("■ file");
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
    assert!(String::from_utf8_lossy(&session.bytes()).contains("unknown theme nowhere"));
}

/// A terminal that does not read for a while misses frames instead of queueing them, and then gets the newest.
#[test]
fn a_terminal_that_lags_gets_fewer_frames() {
    let file = data("ipvs-cpu32.data");
    let mut session = Session::start(&["open", &file.to_string_lossy()], 60, 200);
    session.wait_for("■ file").wait_for("[1 Top]");
    session.keys(":bytes\r").wait_for("screen ");
    // The reader waits for the lock; the kernel's terminal buffer holds only a few kilobytes.
    let screen = session.screen.clone();
    let held = screen.lock().expect("lock");
    for i in 0..400 {
        session.pty.write_all(if i % 2 == 0 { b"2" } else { b"1" }).expect("written");
        std::thread::sleep(Duration::from_millis(4));
    }
    session.pty.write_all(b"4").expect("written");
    let before = held.1.len();
    drop(held);
    session.wait_for("[4 CPUs]").wait_for("slow link");
    let took = session.bytes().len() - before;
    assert!(took < 400 * 1000, "{took} bytes were queued");
    session.keys(":frame-limit\r").wait_for("the frame limit is off").wait_until_gone("slow link");
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
}

/// Late answers of a terminal on a slow link are not taken as keys; the theme follows, and synchronized output is
/// used.
#[test]
fn late_answers_are_no_keys() {
    let file = data("ipvs-cpu32.data");
    let env = [("COLORTERM", "truecolor")];
    let mut session = Session::start_as(&["open", &file.to_string_lossy()], 24, 100, &env, b"");
    session.wait_for("■ file").wait_for("[1 Top]");
    session.keys("\x1b]11;rgb:ffff/ffff/ffff\x1b\\2\x1b[?2026;2$y\x1b[?62;4c").wait_for("[2 Flame]");
    // A colour of the light theme, and the start of a synchronized frame.
    for what in ["48;2;217;135;54", "\x1b[?2026h"] {
        let start = Instant::now();
        while !String::from_utf8_lossy(&session.bytes()).contains(what) {
            assert!(start.elapsed() < PATIENCE, "no {what:?} came");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    assert!(!session.text().contains("rgb"), "{}", session.text());
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
}

/// The program does not query the cursor position: no answer is needed, and keys are read meanwhile.
#[test]
fn the_screen_is_drawn_anew() {
    let mut session = open(24, 100);
    let before = session.bytes().len();
    session.keys("\x0c2").wait_for("[2 Flame]").wait_for("? help");
    // The tab line is drawn before the rest of the frame.
    let start = Instant::now();
    while session.bytes().len() <= before + 1000 {
        assert!(start.elapsed() < PATIENCE, "the screen was not drawn again");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(memchr::memmem::find(&session.bytes(), b"\x1b[6n").is_none());
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
}

#[test]
fn somebody_new_is_told_once_where_help_is() {
    let home = tempfile::tempdir().expect("dir");
    let env = [("XDG_STATE_HOME", home.path().to_str().expect("text"))];
    let file = data("forker-g.data");
    for new in [true, false] {
        let mut session = Session::start_in(&["open", &file.to_string_lossy()], 24, 100, &env);
        // The last line is drawn last.
        session.wait_for("■ file").wait_for(if new { "First time here?" } else { "? help" });
        assert_eq!(session.text().contains("First time here?"), new, "{}", session.text());
        session.keys("q");
        assert!(session.end().success());
    }
}

#[test]
fn nothing_is_made_in_the_home_of_another_user() {
    let home = tempfile::tempdir().expect("dir");
    if std::os::unix::fs::chown(home.path(), Some(65534), Some(65534)).is_err() {
        return common::skipped("only root can give a folder away");
    }
    let env = [("XDG_STATE_HOME", home.path().to_str().expect("text"))];
    let mut session = Session::start_in(&["open", &data("forker-g.data").to_string_lossy()], 24, 100, &env);
    session.wait_for("First time here?");
    session.keys("q");
    assert!(session.end().success());
    assert_eq!(std::fs::read_dir(home.path()).expect("there").count(), 0);
}

/// Name, nice value and priority of each thread of a process (proc_pid_stat(5)).
fn ranks(pid: u32) -> Vec<(String, i32, i32)> {
    let one = |task: std::io::Result<std::fs::DirEntry>| {
        let task = task.ok()?.path();
        let stat = std::fs::read_to_string(task.join("stat")).ok()?;
        let name = std::fs::read_to_string(task.join("comm")).ok()?.trim().to_owned();
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        Some((name, fields.get(16)?.parse().ok()?, fields.get(37)?.parse().ok()?))
    };
    std::fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").filter_map(one).collect()
}

#[test]
fn what_reads_and_shows_samples_is_ahead_of_others_and_nothing_else_is() {
    const AHEAD: [&str; 3] = ["perfprof-tui", "profile", "source"];
    // Samples wait for these at times.
    const BUILDERS: [&str; 4] = ["symbols", "tables", "large tables", "languages"];
    needs!(allowed());
    if let Err(why) = perfprof_tui::kernel::thread_priority::may_be_realtime(7) {
        return common::skipped(&format!("no thread may be ahead of others: {why}"));
    }
    let own = rustix::process::getpriority_process(None).expect("a nice value");
    for (option, ahead) in [(&[][..], ((own - 10).max(-20), 0)), (&["-r", "7"][..], (own, 7))] {
        let mut session = Session::start(&[&["-e", "cpu-clock", "-F", "99"], option].concat(), 24, 100);
        session.wait_for("● live");
        // A thread that exceeds its budget loses its priority until the next second.
        let start = Instant::now();
        loop {
            let ranks = ranks(session.child.id());
            let (first, rest): (Vec<_>, Vec<_>) = ranks.iter().partition(|(name, ..)| AHEAD.contains(&name.as_str()));
            // A new thread has the priority of its creator.
            let wrong = rest
                .iter()
                .filter(|(name, ..)| !BUILDERS.contains(&name.as_str()))
                .any(|(_, nice, priority)| *nice < own || *priority > 0);
            let is_ahead = first.iter().all(|(_, nice, priority)| (*nice, *priority) == ahead);
            if !wrong && first.len() == AHEAD.len() && is_ahead {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{option:?}: {ranks:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
        session.keys("q");
        assert_eq!(session.end().code(), Some(0));
    }
}

/// Memory of a start up to the first kernel symbols: at most the first huge page, which is allocated before main, and
/// private memory for the symbol table and a first view.
#[test]
fn a_start_is_light() {
    // Three quarters of it on a kernel with 122,000 functions, in an unoptimized build on a quiet machine.
    const MOST: u64 = 28 << 10;
    needs!(allowed());
    let command = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=100000000"];
    let mut session = Session::start(&[&["-e", "cpu-clock", "-F", "500", "--"][..], &command].concat(), 40, 140);
    session.wait_for("vfs_read");
    let of = |file: &str, key: &str| -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/{file}", session.child.id())).expect("it runs");
        text.lines().filter_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse::<u64>().ok()).sum()
    };
    let huge = of("smaps", "AnonHugePages:");
    assert!(huge <= 2048, "{huge} kB in huge pages");
    // The source of the table is freed a moment later.
    let start = Instant::now();
    loop {
        let private = of("status", "RssAnon:");
        if private < MOST {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{private} kB of private memory");
        std::thread::sleep(Duration::from_millis(50));
    }
    session.keys("q");
    assert_eq!(session.end().code(), Some(0));
}
