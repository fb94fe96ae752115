#!/bin/sh
# The price of measuring system calls, for the measured program: PAIRS times, in turn, without, under `syscalls -p`,
# `perf trace -s -p`, and `perf stat -p`, which only counts the two tracepoints. Prints rounds a second, and medians of
# the share that the program loses.
#
#   benches/calls-and-perf.sh [PAIRS [PROGRAM [SECONDS]]]
#
# Run as root, with perf and cc, after `cargo build`. PROGRAM is another build of this program.
set -eu
pairs=${1:-5}
program=${2:-target/debug/perfprof-tui}
seconds=${3:-2}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -pthread -o "$work/victim" "$here/call-victims.c"

# rounds LOAD COMMAND...: starts the load, then the command on it, lets it count, and prints its rounds a second.
rounds() {
  load=$1
  shift
  mkfifo "$work/go"
  "$work/victim" "$load" "$seconds" <"$work/go" >"$work/out" &
  victim=$!
  exec 3>"$work/go"
  measurer=
  if [ $# -gt 0 ]; then
    "$@" -p $victim >"$work/measured" 2>&1 &
    measurer=$!
    sleep 4
  fi
  echo >&3
  exec 3>&-
  wait $victim
  [ -z "$measurer" ] || wait $measurer || true
  rm "$work/go"
  cut -d' ' -f2 "$work/out"
}

for load in getppid pipe; do
  : >"$work/$load"
  for _ in $(seq "$pairs"); do
    plain=$(rounds $load)
    ours=$(rounds $load "$program" syscalls --batch)
    perf=$(rounds $load perf trace -s)
    count=$(rounds $load perf stat -e raw_syscalls:sys_enter,raw_syscalls:sys_exit)
    echo "$load: $plain without, $ours under syscalls, $perf under perf trace -s, $count under perf stat"
    echo "$plain $ours $perf $count" >>"$work/$load"
  done
  for column in 2 3 4; do
    awk -v c=$column '{ printf "%.1f\n", 100 * (1 - $c / $1) }' "$work/$load" | sort -n |
      awk -v c=$column -v load=$load '{ v[NR] = $1 } END {
        print load ": median loss " v[int((NR + 1) / 2)] " %, " (c == 2 ? "syscalls" : c == 3 ? "perf trace -s" : "perf stat") }'
  done
done
