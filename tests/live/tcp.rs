//! `tcp` on a program in a network namespace of its own, whose counters say how many connections it had.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::process::{Gates, Running};
use crate::common::program;
use crate::compiled::{CompiledProgram, unit_answer};

/// Connects, is refused, resets, and writes down the counters of its namespace: active opens, passive opens, failed
/// attempts, retransmitted segments.
const PEERS: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
static struct sockaddr_in at(int port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}
static int to(int port) {
  struct sockaddr_in a = at(port);
  int s = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(s, (void *)&a, sizeof a) == 0) return s;
  close(s);
  return -1;
}
int main(int argc, char **argv) {
  char line[4096], names[4096] = "";
  struct ifreq lo = {.ifr_name = "lo"};
  struct sockaddr_in a = at(7001);
  struct linger reset = {.l_onoff = 1};
  alarm(600);
  if (unshare(CLONE_NEWNET)) return 2;
  int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  ioctl(s, SIOCGIFFLAGS, &lo);
  lo.ifr_flags |= IFF_UP | IFF_RUNNING;
  if (ioctl(s, SIOCSIFFLAGS, &lo)) return 3;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(s, (void *)&a, sizeof a) || listen(s, 64)) return 4;
  for (int i = 0; i < 20; i++) {
    int c = to(7001), o = accept(s, 0, 0);
    if (c < 0 || o < 0) return 5;
    if (i < 4) setsockopt(c, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (write(c, "x", 1) != 1 || read(o, line, 1) != 1) return 6;
    close(c);
    close(o);
  }
  for (int i = 0; i < 7; i++) if (to(7009) >= 0) return 7;
  FILE *in = fopen("/proc/self/net/snmp", "r"), *out = fopen(argv[1], "w");
  while (fgets(line, sizeof line, in)) {
    if (strncmp(line, "Tcp:", 4)) continue;
    if (!*names) { strcpy(names, line); continue; }
    char *x, *y, *n = strtok_r(names, " \n", &x), *v = strtok_r(line, " \n", &y);
    for (; n && v; n = strtok_r(0, " \n", &x), v = strtok_r(0, " \n", &y)) fprintf(out, "%s %s\n", n, v);
  }
  return fclose(out);
}
"#;

fn sum(rows: &Value, column: &str) -> u64 {
    rows.as_array().into_iter().flatten().filter_map(|row| row[column].as_u64()).sum()
}

/// Connects in a namespace of its own, waits, fills the listen queue, then sends 5000 bytes one way and 300 the other.
/// Each side reads the other's end before it closes: the kernel does not count one that arrives later.
const EARLIER: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
  char data[5000] = "", ready[512], go[512];
  struct ifreq lo = {.ifr_name = "lo"};
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7002)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  alarm(120);
  sprintf(ready, "%s/ready", argv[1]);
  sprintf(go, "%s/go", argv[1]);
  if (unshare(CLONE_NEWNET)) return 2;
  int s = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
  ioctl(s, SIOCGIFFLAGS, &lo);
  lo.ifr_flags |= IFF_UP | IFF_RUNNING;
  if (ioctl(s, SIOCSIFFLAGS, &lo) || bind(s, (void *)&a, sizeof a) || listen(s, 1)) return 3;
  if (connect(c, (void *)&a, sizeof a)) return 4;
  int o = accept(s, 0, 0);
  if (write(c, data, 700) != 700 || recv(o, data, 700, MSG_WAITALL) != 700) return 5;
  fclose(fopen(ready, "w"));
  while (access(go, F_OK)) usleep(10000);
  for (int i = 0; i < 5; i++) connect(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), (void *)&a, sizeof a);
  if (write(c, data, 5000) != 5000 || recv(o, data, 5000, MSG_WAITALL) != 5000) return 6;
  if (write(o, data, 300) != 300 || recv(c, data, 300, MSG_WAITALL) != 300) return 7;
  if (shutdown(c, SHUT_WR) || shutdown(o, SHUT_WR) || read(c, data, 1) || read(o, data, 1)) return 8;
  close(c);
  close(o);
  for (;;) pause();
}
"#;

/// Connections from before the measurement count for their process, with the bytes since its start. A full listen
/// queue is named.
#[test]
fn earlier_connections_have_their_process_and_bytes() {
    let Some(earlier) = CompiledProgram::of("earlier", EARLIER, &["-O1"]) else { return };
    let gates = Gates(earlier.dir.path());
    let peers = Running(Command::new(&earlier.path).arg(earlier.dir.path()).spawn().expect("starts"));
    gates.until("ready");
    let mut measured = program();
    measured.args(["tcp", "--batch", "--format", "json", "-i", "1s", "-p", &peers.pid().to_string()]);
    let mut measured = Running(measured.stdout(Stdio::piped()).spawn().expect("starts"));
    let lines = BufReader::new(measured.0.stdout.take().expect("a pipe")).lines();
    let (mut sums, mut is_full) = ([0; 3], false);
    for line in lines.take(60) {
        let answer: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        println!("{answer}");
        // The sockets from before have been read.
        gates.open("go");
        let panels = answer["panels"].as_array().expect("panels");
        let rows = |title: &str| panels.iter().find(|panel| panel["title"] == title).map(|panel| panel["rows"].clone());
        let (all, found) = (rows("Processes").expect("rows"), rows("Peers").expect("rows"));
        let columns = ["sent_bytes", "received_bytes", "closed"];
        columns.iter().zip(&mut sums).for_each(|(column, of)| *of += sum(&all, column));
        assert!(all.as_array().into_iter().flatten().all(|row| row["comm"] == "earlier"), "{all}");
        let named = found.as_array().into_iter().flatten().map(|row| (&row["peer"], &row["way"]));
        for (peer, way) in named {
            let client = peer == "127.0.0.1:7002" && way == "to";
            assert!(client || peer == "127.0.0.1" && way == "from", "{found}");
        }
        let note = panels.iter().find(|panel| panel["title"] == "Peers").and_then(|panel| panel["note"].as_str());
        is_full |= note.is_some_and(|note| note.contains("port 7002 dropped") && note.contains("packets"));
        // The kernel counts the end of each connection as a byte.
        if sums == [5300, 5302, 2] && is_full {
            return;
        }
    }
    panic!("{sums:?}");
}

/// Each connection counts once, for the process that owns it, as in the counters of the namespace.
#[test]
fn counts_are_those_of_the_namespace() {
    let Some(peers) = CompiledProgram::of("peers", PEERS, &["-O1"]) else { return };
    let truth = peers.dir.path().join("truth");
    let answer = unit_answer(&["tcp"], |command| {
        command.arg("--").args([&peers.path, &truth]);
    });
    let panel = |title: &str| {
        let panels = answer["panels"].as_array().expect("panels");
        panels.iter().find(|panel| panel["title"] == title).unwrap_or_else(|| panic!("{title}: {answer}"))["rows"]
            .clone()
    };
    let counters = std::fs::read_to_string(&truth).expect("the truth");
    let counter = |name: &str| {
        let line = counters.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse::<u64>().ok()).unwrap_or_else(|| panic!("{name}: {counters}"))
    };
    let (all, ports) = (panel("Processes"), panel("Listening ports"));
    println!("{counters}\n{answer}");
    assert_eq!(all.as_array().map(Vec::len), Some(1), "{all}");
    assert_eq!(all[0]["comm"], "peers");
    let found = ["opened", "accepted", "failed", "retransmits"].map(|column| sum(&all, column));
    let expected = ["ActiveOpens", "PassiveOpens", "AttemptFails", "RetransSegs"].map(counter);
    assert_eq!((found, &expected[..3]), (expected, &[27, 20, 7][..]));
    assert_eq!((sum(&ports, "accepted"), sum(&ports, "resets_received")), (20, 4));
    let peers = panel("Peers");
    let refused = peers.as_array().and_then(|rows| rows.iter().find(|row| row["peer"] == "127.0.0.1:7009"));
    let refused = refused.unwrap_or_else(|| panic!("{peers}"));
    assert_eq!((&refused["failed"], &refused["errno"]), (&Value::from(7), &Value::from("ECONNREFUSED")));
    assert_eq!(sum(&peers, "resets_received"), 4 + 7);
}

/// Two servers with the same address in two network namespaces, each with a client in its own. They end with the first
/// process.
const TWICE: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
static void serve(const char *name, const char *other, int n, const char *dir) {
  char data[700] = "", ready[512], go[512], in[512], other_in[512];
  struct ifreq lo = {.ifr_name = "lo"};
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(7003)};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  prctl(PR_SET_PDEATHSIG, 9);
  prctl(PR_SET_NAME, name);
  sprintf(ready, "%s/%s", dir, name);
  sprintf(go, "%s/go", dir);
  sprintf(in, "%s/%s-in", dir, name);
  sprintf(other_in, "%s/%s-in", dir, other);
  if (unshare(CLONE_NEWNET)) _exit(2);
  int s = socket(AF_INET, SOCK_STREAM, 0);
  ioctl(s, SIOCGIFFLAGS, &lo);
  lo.ifr_flags |= IFF_UP | IFF_RUNNING;
  if (ioctl(s, SIOCSIFFLAGS, &lo) || bind(s, (void *)&a, sizeof a) || listen(s, 9)) _exit(3);
  fclose(fopen(ready, "w"));
  while (access(go, F_OK)) usleep(10000);
  if (!fork()) {
    prctl(PR_SET_PDEATHSIG, 9);
    prctl(PR_SET_NAME, "twice-client");
    for (int i = 0; i < n; i++) {
      int c = socket(AF_INET, SOCK_STREAM, 0);
      struct sockaddr_in own = a;
      own.sin_port = htons(7004);
      if (!i && bind(c, (void *)&own, sizeof own)) _exit(7);
      if (connect(c, (void *)&a, sizeof a) || recv(c, data, 700, MSG_WAITALL) != 700) _exit(4);
      if (!i) fclose(fopen(in, "w"));
      while (access(other_in, F_OK)) usleep(10000);
      if (read(c, data, 1)) _exit(5);
      close(c);
    }
    for (;;) pause();
  }
  for (int i = 0; i < n; i++) {
    int o = accept(s, 0, 0);
    if (write(o, data, 700) != 700 || shutdown(o, SHUT_WR) || read(o, data, 1)) _exit(6);
    close(o);
  }
  for (;;) pause();
}
int main(int argc, char **argv) {
  if (!fork()) serve("twice-one", "twice-two", 3, argv[1]);
  if (!fork()) serve("twice-two", "twice-one", 5, argv[1]);
  alarm(600);
  for (;;) pause();
}
"#;

/// Servers with the same address in two namespaces have their own connections and bytes, also while both have one with
/// the same ends.
#[test]
fn equal_addresses_of_two_namespaces_are_two() {
    let Some(twice) = CompiledProgram::of("twice", TWICE, &["-O1"]) else { return };
    let gates = Gates(twice.dir.path());
    let _servers = Running(Command::new(&twice.path).arg(twice.dir.path()).spawn().expect("starts"));
    ["twice-one", "twice-two"].iter().for_each(|name| gates.until(name));
    let mut measured = program();
    measured.args(["tcp", "--batch", "--format", "json", "-i", "1s", "--comm", "twice-one,twice-two"]);
    let mut measured = Running(measured.stdout(Stdio::piped()).spawn().expect("starts"));
    let lines = BufReader::new(measured.0.stdout.take().expect("a pipe")).lines();
    let mut sums = [[0; 2]; 2];
    for line in lines.take(60) {
        let answer: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        println!("{answer}");
        // The listening sockets have been read.
        gates.open("go");
        let panels = answer["panels"].as_array().expect("panels");
        let rows = |title: &str| {
            let panel = panels.iter().find(|panel| panel["title"] == title);
            panel.and_then(|panel| panel["rows"].as_array().cloned()).unwrap_or_default()
        };
        for row in rows("Processes") {
            let at = ["twice-one", "twice-two"].iter().position(|name| row["comm"] == *name);
            let at = at.unwrap_or_else(|| panic!("{row}"));
            let one = Value::Array(vec![row]);
            sums[at].iter_mut().zip(["accepted", "sent_bytes"]).for_each(|(own, column)| *own += sum(&one, column));
        }
        let ports: Vec<Value> =
            rows("Listening ports").into_iter().filter(|row| row["port"] == "127.0.0.1:7003").collect();
        let listeners: Vec<&str> = ports.iter().filter_map(|row| row["listener"].as_str()).collect();
        assert!(listeners.len() == 2 && listeners[0] != listeners[1], "{ports:?}");
        assert_ne!(ports[0]["net_namespace"], ports[1]["net_namespace"]);
        if sums == [[3, 2100], [5, 3500]] {
            return;
        }
    }
    panic!("{sums:?}");
}
