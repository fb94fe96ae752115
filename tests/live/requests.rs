//! Waits within requests and outside of them, in a server with a thread for each connection, a lock and a pool.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::common::process::{Running, Stops, until, with_time};
use crate::compiled::{CompiledProgram, unit_answer};

/// Serves each connection in a thread: `h` takes the lock, says so, and gives it back 100 ms later; `w` waits for the
/// lock. A dealer gives tasks to the threads of a pool, one each 20 ms.
const SERVER: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t row = PTHREAD_MUTEX_INITIALIZER, queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static int tasks;
static void rest(int ms) { struct timespec t = {0, ms * 1000000}; nanosleep(&t, 0); }
static void *pool(void *a) {
  prctl(PR_SET_NAME, "pool");
  for (;;) {
    pthread_mutex_lock(&queue);
    while (!tasks) pthread_cond_wait(&filled, &queue);
    tasks--;
    pthread_mutex_unlock(&queue);
  }
}
static void *dealer(void *a) {
  prctl(PR_SET_NAME, "dealer");
  for (;;) {
    rest(20);
    pthread_mutex_lock(&queue); tasks++; pthread_mutex_unlock(&queue);
    pthread_cond_signal(&filled);
  }
}
static void *serve(void *a) {
  int fd = (long)a;
  char c;
  while (read(fd, &c, 1) == 1) {
    prctl(PR_SET_NAME, c == 'h' ? "holder" : "waiter");
    pthread_mutex_lock(&row);
    if (c == 'h') { if (write(fd, "k", 1) != 1) exit(1); rest(100); }
    pthread_mutex_unlock(&row);
    if (write(fd, "d", 1) != 1) exit(1);
  }
  return a;
}
int main(int argc, char **argv) {
  struct sockaddr_un at = {AF_UNIX};
  pthread_t thread;
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  alarm(600);
  strcpy(at.sun_path, argv[1]);
  if (bind(fd, (void *)&at, sizeof at) || listen(fd, 9)) return 1;
  for (int i = 0; i < 4; i++) pthread_create(&thread, 0, pool, 0);
  pthread_create(&thread, 0, dealer, 0);
  for (;;) {
    long one = accept(fd, 0, 0);
    if (one < 0) return 1;
    pthread_create(&thread, 0, serve, (void *)one);
  }
}
"#;

/// Sends a request, and reads an answer of one byte.
fn ask(connection: &mut UnixStream, request: &[u8]) -> u8 {
    let mut answer = [0];
    connection.write_all(request).and_then(|()| connection.read_exact(&mut answer)).expect("answered");
    answer[0]
}

fn blocked(answer: &Value) -> &Value {
    let panels = answer["panels"].as_array().expect("panels");
    panels.iter().find(|panel| panel["title"] == "Blocked").expect("a panel")
}

/// Checks that the wait for the lock comes before the longer waits of the pool.
fn lock_comes_first(answer: &Value) -> Result<(), String> {
    let blocked = blocked(answer);
    let rows = blocked["rows"].as_array().expect("rows");
    let has = |row: &Value, column: &str, part: &str| row[column].as_str().is_some_and(|text| text.contains(part));
    let outside = |row: &&Value| has(row, "class", "outside of requests");
    let time = |row: &Value| row["blocked_ns"].as_u64().unwrap_or(0);
    let Some((first, pool)) = rows.first().zip(rows.iter().find(outside)) else { return Err(blocked.to_string()) };
    let is_lock = has(first, "wakers", "holder") && !outside(&first);
    let is_longer = has(pool, "wakers", "dealer") && time(pool) > time(first);
    if is_lock && is_longer { Ok(()) } else { Err(blocked.to_string()) }
}

#[test]
fn a_lock_that_delays_a_request_comes_before_a_longer_wait_of_a_pool() {
    let options = ["-O1", "-g", "-pthread", "-fno-omit-frame-pointer"];
    let Some(server) = CompiledProgram::of("desk", SERVER, &options) else { return };
    let socket = server.dir.path().join("socket");
    let running = Running(Command::new(&server.path).arg(&socket).spawn().expect("starts"));
    until("it listens", || UnixStream::connect(&socket).is_ok());
    with_time(&[1, 4, 16], |seconds| {
        let stop = AtomicBool::new(false);
        let answer = std::thread::scope(|scope| {
            let _stops = Stops(&stop);
            scope.spawn(|| {
                let [mut holder, mut waiter] = [(), ()].map(|()| UnixStream::connect(&socket).expect("listens"));
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!((ask(&mut holder, b"h"), ask(&mut waiter, b"w")), (b'k', b'd'));
                    let mut done = [0];
                    holder.read_exact(&mut done).expect("answered");
                }
            });
            unit_answer(&["offcpu", "--duration", &seconds.to_string()], |measured| {
                measured.args(["-p", &running.pid().to_string()]);
            })
        });
        lock_comes_first(&answer)
    });
}

/// Its pool and dealer wake each other, but no request is in progress.
#[test]
fn a_server_without_requests_waits_for_work() {
    let options = ["-O1", "-g", "-pthread", "-fno-omit-frame-pointer"];
    let Some(server) = CompiledProgram::of("desk", SERVER, &options) else { return };
    let socket = server.dir.path().join("socket");
    let running = Running(Command::new(&server.path).arg(&socket).spawn().expect("starts"));
    until("it listens", || UnixStream::connect(&socket).is_ok());
    with_time(&[2, 8, 32], |seconds| {
        let answer = unit_answer(&["offcpu", "--duration", &seconds.to_string()], |measured| {
            measured.args(["-p", &running.pid().to_string()]);
        });
        let blocked = blocked(&answer);
        let rows = blocked["rows"].as_array().expect("rows");
        let pool = rows.iter().find(|row| row["wakers"].as_str().is_some_and(|wakers| wakers.contains("dealer")));
        let is_outside = pool.is_some_and(|pool| pool["class"] == "not known: outside of requests");
        let is_idle = blocked["rest"]["sum"]["blocked_ns"].as_u64() > Some(0);
        if is_outside && is_idle { Ok(()) } else { Err(blocked.to_string()) }
    });
}

/// The main thread asks a helper by a pipe and waits for a lock of another one, which it asked before.
const HELPERS: &str = r#"
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t kept = PTHREAD_MUTEX_INITIALIZER;
static int ask[2], reply[2], go[2];
static void rest(int ms) { struct timespec t = {0, ms * 1000000}; nanosleep(&t, 0); }
static void *writer(void *a) {
  char c;
  while (read(ask[0], &c, 1) == 1) { rest(4); if (write(reply[1], &c, 1) != 1) break; }
  return a;
}
static void *keeper(void *a) {
  char c;
  while (read(go[0], &c, 1) == 1) {
    pthread_mutex_lock(&kept);
    if (write(reply[1], &c, 1) != 1) break;
    rest(60);
    pthread_mutex_unlock(&kept);
  }
  return a;
}
int main(void) {
  pthread_t threads[2];
  char c = 0;
  alarm(600);
  if (pipe(ask) || pipe(reply) || pipe(go)) return 1;
  pthread_create(&threads[0], 0, writer, 0);
  pthread_create(&threads[1], 0, keeper, 0);
  for (;;) {
    rest(20);
    if (write(go[1], &c, 1) != 1 || read(reply[0], &c, 1) != 1) return 1;
    pthread_mutex_lock(&kept);
    pthread_mutex_unlock(&kept);
    if (write(ask[1], &c, 1) != 1 || read(reply[0], &c, 1) != 1) return 1;
  }
}
"#;

#[test]
fn the_lock_for_which_a_main_thread_waits_comes_before_its_idle_helpers() {
    let options = ["-O1", "-g", "-pthread", "-fno-omit-frame-pointer"];
    let Some(helpers) = CompiledProgram::of("helpers", HELPERS, &options) else { return };
    let running = Running(Command::new(&helpers.path).spawn().expect("starts"));
    with_time(&[1, 4, 16], |seconds| {
        let answer = unit_answer(&["offcpu", "--duration", &seconds.to_string()], |measured| {
            measured.args(["-p", &running.pid().to_string()]);
        });
        let blocked = blocked(&answer);
        let rows = blocked["rows"].as_array().expect("rows");
        let has = |row: &Value, part: &str| row["stack"].as_str().is_some_and(|stack| stack.contains(part));
        let time = |row: &Value| row["blocked_ns"].as_u64().unwrap_or(0);
        let helper = rows.iter().find(|row| has(row, "writer"));
        let is_first = rows.first().is_some_and(|row| has(row, "pthread_mutex_lock") && has(row, "main"));
        let is_longer = helper.zip(rows.first()).is_some_and(|(helper, first)| time(helper) > time(first));
        if is_first && is_longer { Ok(()) } else { Err(blocked.to_string()) }
    });
}
