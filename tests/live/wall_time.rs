//! `waits` on a program that knows where its time goes.

use serde_json::Value;

use crate::common::process::with_time;
use crate::compiled::{CompiledProgram, unit_answer};

/// Thread "budget" burns CPU time in user code and in the kernel, sleeps, waits for a mutex of "keeper", for a pipe of
/// "writer" and for the disk, and writes down how long.
const BUDGET: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static pthread_mutex_t kept = PTHREAD_MUTEX_INITIALIZER;
static int ask[2], reply[2], go[2];
static volatile int sink;
static double clock_of(clockid_t id) { struct timespec t; clock_gettime(id, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
static double now(void) { return clock_of(CLOCK_MONOTONIC); }
static double cpu(void) { return clock_of(CLOCK_THREAD_CPUTIME_ID); }
__attribute__((noinline)) void user_part(double ms) {
  double end = cpu() + ms;
  while (cpu() < end) for (int i = 0; i < 200000; i++) sink += i;
}
__attribute__((noinline)) void kernel_part(double ms) {
  static char b[1 << 20];
  int fd = open("/dev/zero", O_RDONLY);
  double end = cpu() + ms;
  while (cpu() < end) if (read(fd, b, sizeof b) <= 0) break;
  close(fd);
}
static void *writer(void *a) {
  char c;
  prctl(PR_SET_NAME, "writer");
  while (read(ask[0], &c, 1) == 1) { usleep(8000); if (write(reply[1], &c, 1) != 1) break; }
  return a;
}
static void *keeper(void *a) {
  char c;
  prctl(PR_SET_NAME, "keeper");
  while (read(go[0], &c, 1) == 1) {
    pthread_mutex_lock(&kept);
    if (write(reply[1], &c, 1) != 1) break;
    usleep(12000);
    pthread_mutex_unlock(&kept);
  }
  return a;
}
int main(int argc, char **argv) {
  pthread_t threads[2];
  double user = 0, kernel = 0, slept = 0, locked = 0, piped = 0, synced = 0, begin, used, x, until = now() + atof(argv[1]) * 1000;
  static char block[16384];
  char c = 0, path[4096];
  FILE *truth;
  int fd;
  alarm(600);
  snprintf(path, sizeof path, "%s.data", argv[2]);
  fd = open(path, O_CREAT | O_RDWR, 0600);
  if (fd < 0 || pipe(ask) || pipe(reply) || pipe(go)) return 1;
  pthread_create(&threads[0], 0, writer, 0);
  pthread_create(&threads[1], 0, keeper, 0);
  prctl(PR_SET_NAME, "budget");
  begin = now();
  used = cpu();
  while (now() < until) {
    x = cpu(); user_part(10); user += cpu() - x;
    x = cpu(); kernel_part(6); kernel += cpu() - x;
    x = now(); usleep(9000); slept += now() - x;
    if (write(go[1], &c, 1) != 1 || read(reply[0], &c, 1) != 1) return 1;
    x = now(); pthread_mutex_lock(&kept); locked += now() - x; pthread_mutex_unlock(&kept);
    x = now(); if (write(ask[1], &c, 1) != 1 || read(reply[0], &c, 1) != 1) return 1; piped += now() - x;
    x = now(); if (pwrite(fd, block, sizeof block, 0) < 0 || fsync(fd)) return 1; synced += now() - x;
  }
  truth = fopen(argv[2], "w");
  fprintf(truth, "%f %f %f %f %f %f %f %f", now() - begin, cpu() - used, user, kernel, slept, locked, piped, synced);
  fclose(truth);
  return 0;
}
"#;

/// The parts of a row in milliseconds.
fn part(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or(0.0) / 1e6
}

/// Compares the parts with the times that the thread measured itself. A wait that it measured includes the time until
/// it ran again.
fn differences(row: &Value, truth: &[f64]) -> Vec<String> {
    let &[wall, cpu, user, kernel, slept, locked, piped, synced] = truth else { return vec!["no truth".into()] };
    let runnable = part(row, "runnable_ns") + part(row, "throttled_ns");
    let names = row.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let is_part = |name: &&str| name.ends_with("_ns") && !["active_ns", "wall_ns"].contains(name);
    let sum: f64 = names.filter(is_part).map(|name| part(row, name)).sum();
    let on_cpu: f64 = ["user_ns", "kernel_ns", "irq_ns", "unsampled_ns"].map(|name| part(row, name)).iter().sum();
    let within = |name: &str, is: f64, from: f64, until: f64, share: f64| {
        let is_right = is >= from - share * wall && is <= until + share * wall;
        (!is_right).then(|| format!("{name}: {is:.1} ms, expected {from:.1} to {until:.1} of {wall:.1}"))
    };
    let irq = part(row, "irq_ns");
    [
        within("sum", sum, part(row, "wall_ns"), part(row, "wall_ns"), 0.005),
        within("wall", part(row, "wall_ns"), wall, wall, 0.02),
        within("CPU", on_cpu, cpu, cpu, 0.02),
        within("user", part(row, "user_ns"), user - irq, user, 0.02),
        within("kernel", part(row, "kernel_ns"), kernel - irq, cpu - user, 0.02),
        within("timer", part(row, "timer_ns"), slept - runnable, slept, 0.02),
        within("lock", part(row, "lock_ns"), locked - runnable, locked, 0.02),
        within("pipe", part(row, "local_ns"), piped - runnable, piped + runnable, 0.02),
        within("disk", part(row, "disk_ns"), 0.0, synced, 0.02),
        within("unknown", part(row, "unknown_ns"), 0.0, 0.0, 0.02),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn the_parts_of_a_second_are_those_that_a_thread_measured() {
    let Some(budget) = CompiledProgram::of("budget", BUDGET, &["-O2", "-g", "-pthread"]) else { return };
    let truth = budget.dir.path().join("truth");
    with_time(&[3, 8, 15], |seconds| {
        let answer = unit_answer(&["waits"], |command| {
            command.arg("--").arg(&budget.path).arg(seconds.to_string()).arg(&truth);
        });
        let rows = answer["panels"][0]["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["comm"] == "budget").ok_or(format!("{rows:?}"))?;
        let truth = std::fs::read_to_string(&truth).expect("the truth");
        let truth: Vec<f64> = truth.split(' ').filter_map(|figure| figure.parse().ok()).collect();
        let wrong = differences(row, &truth);
        println!("{truth:?}: {row}");
        if wrong.is_empty() { Ok(()) } else { Err(format!("{}: {truth:?}: {row}", wrong.join("; "))) }
    });
}
