//! `dns` on a program in a network namespace of its own that asks a server with known answers.

use serde_json::Value;

use crate::common::{Nature, has};
use crate::compiled::{CompiledProgram, unit_answer};

/// Asks over IPv4 and IPv6 a server that is a child, by several system calls. It answers after 20 ms, and `n` in the name
/// selects: an address, NXDOMAIN, SERVFAIL, or nothing. Only that question is asked twice.
const ASKER: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
static struct sockaddr_in v4 = {.sin_family = AF_INET};
static struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
static char *at;
static socklen_t size;
static int bound(int family) {
  int s = socket(family, SOCK_DGRAM, 0);
  at = family == AF_INET ? (char *)&v4 : (char *)&v6;
  size = family == AF_INET ? sizeof v4 : sizeof v6;
  return s;
}
static void serve(int a, int b) {
  unsigned char data[512];
  struct pollfd both[2] = {{a, POLLIN}, {b, POLLIN}};
  for (;;) {
    poll(both, 2, -1);
    for (int i = 0; i < 2; i++) {
      struct sockaddr_storage from;
      socklen_t len = sizeof from;
      if (!(both[i].revents & POLLIN)) continue;
      int n = recvfrom(both[i].fd, data, sizeof data, 0, (void *)&from, &len);
      if (n < 18 || data[13] == 'n') continue;
      usleep(20000);
      data[2] |= 0x80;
      data[3] = data[13] == 'g' ? 3 : data[13] == 'f' ? 2 : 0;
      sendto(both[i].fd, data, n, 0, (void *)&from, len);
    }
  }
}
static int ask(int s, int way, char first, int id) {
  unsigned char data[64] = {id >> 8, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, first, 'a', 'm', 'e', 4, 't', 'e', 's', 't', 0, 0, 1, 0, 1};
  struct iovec part = {data, 27};
  struct mmsghdr all[1] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}};
  struct pollfd one = {s, POLLIN};
  if (way == 0 ? sendto(s, data, 27, 0, (void *)at, size) != 27 : way == 1 ? write(s, data, 27) != 27 : sendmmsg(s, all, 1, 0) != 1) return 1;
  if (poll(&one, 1, first == 'n' ? 1500 : -1) == 0) return 0;
  if (way == 0) return recvfrom(s, data, 64, 0, 0, 0) != 27;
  return way == 1 ? read(s, data, 64) != 27 : recvmsg(s, &all[0].msg_hdr, 0) != 27;
}
int main(void) {
  struct ifreq lo = {.ifr_name = "lo"};
  alarm(120);
  if (unshare(CLONE_NEWNET)) return 2;
  v4.sin_port = v6.sin6_port = htons(53);
  v4.sin_addr.s_addr = inet_addr("127.0.0.77");
  v6.sin6_addr = in6addr_loopback;
  int a = bound(AF_INET);
  ioctl(a, SIOCGIFFLAGS, &lo);
  lo.ifr_flags |= IFF_UP | IFF_RUNNING;
  if (ioctl(a, SIOCSIFFLAGS, &lo) || bind(a, (void *)at, size)) return 3;
  int b = bound(AF_INET6);
  if (bind(b, (void *)at, size)) return 4;
  int server = fork();
  if (server == 0) {
    prctl(PR_SET_NAME, "server");
    serve(a, b);
  }
  for (int i = 0; i < 42; i++) {
    int way = i % 3, s = bound(i < 30 ? AF_INET : AF_INET6);
    if (way && connect(s, (void *)at, size)) return 5;
    if (ask(s, way, i < 18 || i >= 35 ? 'k' : i < 25 ? 'g' : 'f', 1000 + i)) return 6;
    close(s);
  }
  int s = bound(AF_INET);
  if (ask(s, 0, 'n', 7) || ask(s, 0, 'n', 7)) return 7;
  kill(server, SIGKILL);
  return 0;
}
"#;

/// Each query and each answer counts once, with its code, and takes at least as long as the server.
#[test]
fn counts_are_those_of_the_program() {
    needs!(has(Nature::Btf));
    let Some(asker) = CompiledProgram::of("asker", ASKER, &["-O1"]) else { return };
    let answer = unit_answer(&["dns"], |command| {
        command.arg("--").arg(&asker.path);
    });
    println!("{answer}");
    let panels = answer["panels"].as_array().expect("panels");
    let panel = |title: &str| panels.iter().find(|panel| panel["title"] == title).expect("a panel");
    let row = |title: &str, column: &str, value: &str| {
        let rows = panel(title)["rows"].as_array().expect("rows");
        rows.iter().find(|row| row[column] == value).unwrap_or_else(|| panic!("{value}: {rows:?}")).clone()
    };
    let columns = ["queries", "answers", "nxdomain", "servfail", "retries", "late", "truncated"];
    let of = |row: &Value| columns.map(|column| row[column].as_u64().unwrap_or(0));
    let (v4, v6) = (row("Servers", "server", "127.0.0.77"), row("Servers", "server", "::1"));
    assert_eq!((of(&v4), of(&v6)), ([32, 30, 7, 5, 1, 1, 0], [12, 12, 0, 5, 0, 0, 0]));
    let processes = panel("Processes")["rows"].as_array().expect("rows");
    assert_eq!((processes.len(), &processes[0]["comm"]), (1, &Value::from("asker")), "the server asks nothing");
    assert_eq!(of(&processes[0]), [44, 42, 7, 10, 1, 1, 0]);
    let counts =
        ["kame.test", "game.test", "fame.test", "name.test"].map(|name| of(&row("Names", "name", name))[..2].to_vec());
    assert_eq!(counts, [[25, 25], [7, 7], [10, 10], [2, 0]]);
    assert_eq!(row("Without an answer", "name", "name.test")["server"], "127.0.0.77");
    for row in [&v4, &v6] {
        assert!(row["p50_ns"].as_u64() >= Some(19_500_000), "less than the server's 20 ms: {row}");
    }
    assert_eq!(panel("Servers").get("note").and_then(Value::as_str).unwrap_or_default(), "");
}
