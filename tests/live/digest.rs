//! The page of `digest` on a known load.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::process::{Gates, Running};
use crate::common::{allowed, program, run};
use crate::compiled::CompiledProgram;

/// Refused connections on loopback are a finding about the network.
#[test]
fn refused_connections_are_a_finding() {
    needs!(allowed());
    let (stop, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let dialer = {
        let (stop, begun) = (stop.clone(), begun.clone());
        std::thread::spawn(move || {
            // Nothing listens on a port that was just released.
            let own = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = own.local_addr().expect("a port").port();
            drop(own);
            while !stop.load(Ordering::Relaxed) {
                let _ = std::net::TcpStream::connect(("127.0.0.1", port));
                begun.store(true, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        })
    };
    while !begun.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    let mut found = serde_json::Value::Null;
    // Others' connections that succeed lower the share.
    for _ in 0..5 {
        let page = run(program().args(["digest", "--for", "4s", "--format", "json"])).stdout;
        let page: serde_json::Value = serde_json::from_slice(&page).expect("JSON");
        let findings = page["findings"].as_array().expect("a list");
        found = findings.iter().find(|one| one["cause"] == "connect-failures").cloned().unwrap_or_default();
        if !found.is_null() {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    dialer.join().expect("ends");
    assert!(found["figure"].as_str().is_some_and(|figure| figure.ends_with(" of connects fail")), "{found}");
    assert_eq!((&found["area"], &found["confidence"]), (&"network".into(), &"counted".into()), "{found}");
}

/// A process that keeps one CPU busy in its own code is the only process of its page, with its function.
#[test]
fn the_page_of_a_process_has_its_function_and_cpus() {
    needs!(allowed());
    let child = Running::busy("spin");
    let pid = child.pid().to_string();
    let args = ["digest", "-p", &pid, "--for", "2s", "--format", "json"];
    let page: serde_json::Value = serde_json::from_slice(&run(program().args(args)).stdout).expect("JSON");
    let processes = page["processes"].as_array().expect("a list");
    assert_eq!(processes.len(), 1, "{page}");
    assert_eq!(processes[0]["pid"], child.pid(), "{page}");
    assert!(processes[0]["pct"] == 100.0 && processes[0]["cpus"].as_f64() > Some(0.01), "{page}");
    assert_eq!(page["more"], format!("perfprof-tui --pid={pid}, key 1"));
    assert!(!page["paths"].as_array().expect("a list").is_empty(), "{page}");
}

/// In a namespace of its own, connects three times to a socket whose filter drops every packet, and fills a connection
/// that is not read. Like clients with a time limit, it begins again every few seconds.
const SILENT: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/filter.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
static int server(struct sockaddr_in *a, int port) {
  int s = socket(AF_INET, SOCK_STREAM, 0);
  *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
  a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(s, (void *)a, sizeof *a) || listen(s, 16)) _exit(3);
  return s;
}
int main(int argc, char **argv) {
  static char data[1 << 16];
  char ready[512];
  struct ifreq lo = {.ifr_name = "lo"};
  struct sock_filter drop = {BPF_RET | BPF_K, 0, 0, 0};
  struct sock_fprog all = {1, &drop};
  struct sockaddr_in silent, slow;
  alarm(600);
  if (unshare(CLONE_NEWNET)) return 2;
  int s = server(&silent, 7004), t = server(&slow, 7005);
  ioctl(s, SIOCGIFFLAGS, &lo);
  lo.ifr_flags |= IFF_UP | IFF_RUNNING;
  if (ioctl(s, SIOCSIFFLAGS, &lo) || setsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &all, sizeof all)) return 4;
  sprintf(ready, "%s/ready", argv[1]);
  for (int round = 0;; round++) {
    int fds[5];
    for (int i = 0; i < 4; i++) fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    for (int i = 0; i < 3; i++) connect(fds[i], (void *)&silent, sizeof silent);
    connect(fds[3], (void *)&slow, sizeof slow);
    fds[4] = accept(t, 0, 0);
    for (int i = 0; i < 1000; i++) if (send(fds[3], data, sizeof data, 0) < 0) usleep(1000);
    if (!round) fclose(fopen(ready, "w"));
    sleep(8);
    for (int i = 0; i < 5; i++) close(fds[i]);
  }
}
"#;

/// A peer that does not answer, and a process that does not read, are findings with their names.
#[test]
fn a_silent_peer_and_a_reader_that_does_not_read_are_findings() {
    let Some(silent) = CompiledProgram::of("silent", SILENT, &["-O1"]) else { return };
    let gates = Gates(silent.dir.path());
    let child = Running(Command::new(&silent.path).arg(silent.dir.path()).spawn().expect("starts"));
    gates.until("ready");
    let pid = child.pid().to_string();
    let (mut unanswered, mut unread) = (serde_json::Value::Null, serde_json::Value::Null);
    // On a busy machine, few lists of sockets are made.
    for _ in 0..8 {
        let page = run(program().args(["digest", "-p", &pid, "--for", "10s", "--format", "json"])).stdout;
        let page: serde_json::Value = serde_json::from_slice(&page).expect("JSON");
        println!("{page}");
        let findings = page["findings"].as_array().expect("a list");
        let of = |cause: &str| findings.iter().find(|one| one["cause"] == cause).cloned();
        unanswered = of("connect-timeouts").unwrap_or(unanswered);
        unread = of("zero-windows").unwrap_or(unread);
        if !unanswered.is_null() && !unread.is_null() {
            break;
        }
    }
    assert_eq!(unanswered["figure"], "3 connects without an answer", "{unanswered}");
    assert_eq!(unanswered["culprit"], format!("silent {pid} to 127.0.0.1:7004"), "{unanswered}");
    assert_eq!((&unanswered["severity"], &unanswered["area"]), (&"bad".into(), &"network".into()), "{unanswered}");
    assert_eq!(unread["figure"], "1 connection with a zero window", "{unread}");
    let reader = format!("silent {pid} does not read the data of silent {pid}");
    assert_eq!((&unread["culprit"], &unread["severity"]), (&reader.into(), &"look".into()), "{unread}");
}
