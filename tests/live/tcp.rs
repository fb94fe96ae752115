//! `tcp` on a program in a network namespace of its own, whose counters say how many connections it had.

use serde_json::Value;

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
