//! `files` on a program that does known operations.

use serde_json::Value;

use crate::compiled::{CompiledProgram, unit_answer};

const WORK: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
static char buffer[4096];
int main(int argc, char **argv) {
  // The paths are in memory that was touched.
  char path[512], second[512], third[512], missing[512];
  alarm(600);
  sprintf(path, "%s/out", argv[1]);
  sprintf(second, "%s/other", argv[1]);
  sprintf(third, "%s/sent", argv[1]);
  sprintf(missing, "%s/missing\033[2J", argv[1]);
  int out = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
  for (int i = 0; i < 100; i++) if (write(out, buffer, 4096) != 4096) return 3;
  struct iovec two[2] = {{buffer, 1000}, {buffer, 24}};
  if (writev(out, two, 2) != 1024 || fsync(out) || fdatasync(out)) return 4;
  close(out);
  int in = open(path, O_RDONLY | O_CLOEXEC);
  for (int i = 0; i < 50; i++) if (read(in, buffer, 1000) != 1000) return 5;
  if (pread(in, buffer, 500, 0) != 500) return 6;
  int sent = open(third, O_CREAT | O_WRONLY, 0600);
  if (sendfile(sent, in, 0, 1500) != 1500) return 10;
  close(sent);
  int copy = dup(in);
  close(in);
  // The number of the closed descriptor is used again.
  int other = open(second, O_CREAT | O_RDWR, 0600);
  if (other != in || write(other, buffer, 77) != 77) return 7;
  if (fork() == 0) _exit(read(copy, buffer, 300) != 300);
  wait(0);
  for (int i = 0; i < 9; i++) if (open(missing, O_RDONLY) >= 0) return 8;
  if (write(copy, buffer, 1) >= 0) return 9;
  struct sockaddr_in closed = {.sin_family = AF_INET, .sin_port = htons(1)};
  closed.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&closed, sizeof closed) == 0) return 11;
  return 0;
}
"#;

/// Returns the answer of a unit about the program.
fn answer(unit: &[&str], work: &CompiledProgram) -> Value {
    let answer = unit_answer(unit, |command| {
        command.arg("--").args([work.path.as_path(), work.dir.path()]);
    });
    println!("{answer}");
    answer
}

fn work() -> Option<CompiledProgram> {
    CompiledProgram::of("work", WORK, &["-O1"])
}

/// Operations, bytes and errors are exact, for paths, copies of descriptors and children.
#[test]
fn operations_and_bytes_are_those_of_the_program() {
    let Some(work) = work() else { return };
    let answer = answer(&["files"], &work);
    let rows = answer["panels"][0]["rows"].as_array().expect("rows");
    let of = |name: &str| {
        let path = work.dir.path().join(name).display().to_string();
        let row = rows.iter().find(|row| row["file"] == *path).unwrap_or_else(|| panic!("{path}: {answer}"));
        let columns = ["opens", "reads", "read_bytes", "writes", "written_bytes", "syncs", "errors"];
        columns.map(|column| row[column].as_u64().unwrap_or(0))
    };
    assert_eq!(of("out"), [2, 53, 50_000 + 500 + 300 + 1500, 102, 409_600 + 1024, 2, 1]);
    assert_eq!(of("sent"), [1, 0, 0, 1, 1500, 0, 0]);
    assert_eq!(of("other"), [1, 0, 0, 1, 77, 0, 0]);
    assert_eq!(of("missing\u{1b}[2J"), [9, 0, 0, 0, 0, 0, 9]);
}

/// The path of a failed call is read in the kernel.
#[test]
fn a_failed_call_has_its_arguments() {
    let Some(work) = work() else { return };
    let answer = answer(&["syscalls", "--paths"], &work);
    let panels = answer["panels"].as_array().expect("panels");
    let errors = panels.iter().find(|panel| panel["title"] == "Errors").expect("a panel");
    let rows = errors["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["call"] == "openat" && row["errno"] == "ENOENT").expect("a failed call");
    let path = format!("{}/missing\u{1b}[2J", work.dir.path().display());
    assert_eq!(row["last_call"], format!("openat({path:?}, RDONLY)"));
}

/// Calls are summed up by the file or the peer of their descriptor, also if its number is used again.
#[test]
fn calls_count_for_their_file_or_peer() {
    let Some(work) = work() else { return };
    let answer = answer(&["syscalls", "--paths"], &work);
    let panels = answer["panels"].as_array().expect("panels");
    let rows = |title: &str| {
        let panel = panels.iter().find(|panel| panel["title"] == title).expect("a panel");
        panel["rows"].as_array().expect("rows")
    };
    let of = |name: &str| {
        let row = rows("Files and peers").iter().find(|row| row["target"] == *name);
        let row = row.unwrap_or_else(|| panic!("{name}: {answer}"));
        ["calls", "read_bytes", "written_bytes", "errors"].map(|column| row[column].as_u64().unwrap_or(0))
    };
    let path = |name: &str| work.dir.path().join(name).display().to_string();
    // 2 opens, 102 writes (one fails), 2 syncs, 51 reads, 1 dup and 2 closes. The child may have ended before
    // its descriptor is looked up.
    let (calls, written) = (2 + 102 + 2 + 51 + 1 + 2, 409_600 + 1024);
    let out = of(&path("out"));
    assert!([[calls, 50_500, written, 1], [calls + 1, 50_800, written, 1]].contains(&out), "{out:?}");
    assert_eq!([of(&path("sent")), of(&path("other"))], [[3, 0, 1500, 0], [2, 0, 77, 0]]);
    assert_eq!(of(&path("missing\u{1b}[2J")), [9, 0, 0, 9]);
    assert_eq!(of("127.0.0.1:1"), [1, 0, 0, 1]);
    let sockets = rows("Kinds").iter().find(|row| row["kind"] == "socket").expect("a row");
    assert_eq!((&sockets["errno"], &sockets["errors"]), (&Value::from("ECONNREFUSED"), &Value::from(1)));
}

/// Chosen calls are lines in order of time, with their paths and socket addresses.
#[test]
fn chosen_calls_are_lines() {
    let Some(work) = work() else { return };
    let answer = answer(&["syscalls", "-e", "openat,connect"], &work);
    let panels = answer["panels"].as_array().expect("panels");
    let lines = panels.iter().find(|panel| panel["title"] == "Lines").expect("a panel");
    let lines: Vec<&str> =
        lines["rows"].as_array().expect("rows").iter().filter_map(|row| row["line"].as_str()).collect();
    let own = |name: &str| format!("openat({:?}, ", work.dir.path().join(name).display().to_string());
    let places =
        ["out", "other", "missing\u{1b}[2J"].map(|name| lines.iter().position(|line| line.starts_with(&own(name))));
    assert!(places.is_sorted() && places[0].is_some(), "{lines:#?}");
    let missing = lines.iter().filter(|line| **line == format!("{}RDONLY) = -ENOENT", own("missing\u{1b}[2J")));
    assert_eq!(missing.count(), 9, "{lines:#?}");
    let connects = lines.iter().filter(|line| line.starts_with("connect("));
    assert!(
        connects.clone().count() == 1 && connects.clone().all(|line| line.ends_with(" → 127.0.0.1:1) = -ECONNREFUSED"))
    );
    assert!(lines.iter().all(|line| line.starts_with("openat(") || line.starts_with("connect(")));
}

/// Opens a file by openat2, and makes a process by clone3.
const STRUCTURES: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char path[512];
  struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0640, .resolve = RESOLVE_NO_SYMLINKS};
  struct clone_args child = {.exit_signal = SIGCHLD};
  sprintf(path, "%s/new", argv[1]);
  if (syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how) < 0) return 2;
  if (!syscall(SYS_clone3, &child, sizeof child)) _exit(0);
  wait(0);
  return 0;
}
"#;

/// The structures of calls are read in the kernel.
#[test]
fn calls_have_the_fields_of_their_structures() {
    let Some(work) = CompiledProgram::of("structures", STRUCTURES, &["-O1"]) else { return };
    let answer = answer(&["syscalls", "-e", "openat2,clone3"], &work);
    let panels = answer["panels"].as_array().expect("panels");
    let lines = panels.iter().find(|panel| panel["title"] == "Lines").expect("a panel");
    let lines: Vec<&str> =
        lines["rows"].as_array().expect("rows").iter().filter_map(|row| row["line"].as_str()).collect();
    let has = |start: String| lines.iter().any(|line| line.starts_with(&start));
    let path = work.dir.path().join("new").display().to_string();
    assert!(
        has(format!("openat2({path:?}, {{flags=RDWR|CREAT, mode=0o640, resolve=NO_SYMLINKS}}, 24) = ")),
        "{lines:?}"
    );
    assert!(has("clone3({flags=0, exit_signal=CHLD}, 88) = ".to_owned()), "{lines:?}");
}
