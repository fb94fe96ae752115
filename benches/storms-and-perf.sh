#!/bin/sh
# The price of measuring a storm of events, for the measured program: PAIRS times, in turn, without and under each
# measurement of its load. Prints rounds a second and the CPU time of a round in nanoseconds, and medians of the share
# of the rounds that the program loses, and of the CPU time that the measurement takes of it. The second one depends
# less on what else the machine does.
#
#   benches/storms-and-perf.sh [PAIRS [PROGRAM [SECONDS [LOAD…]]]]
#
# Run as root, with perf and cc, after `cargo build`. PROGRAM is another build of this program; loads are getppid, pipe,
# pages, forks and switches (storm-victims.c).
set -eu
pairs=${1:-3}
program=${2:-target/debug/perfprof-tui}
seconds=${3:-2}
[ $# -le 3 ] && set -- getppid pipe pages forks switches || shift 3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -O2 -pthread -o "$work/victim" "$here/storm-victims.c"

# rounds LOAD COMMAND...: starts the load, then the command on it, lets it count, and prints its rounds a second and the
# CPU time of a round.
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
    # It has opened its events, and has time to begin.
    while kill -0 $measurer && ! ls -l /proc/$measurer/fd | grep -q perf_event; do sleep 0.1; done 2>/dev/null
    sleep 2
  fi
  echo >&3
  exec 3>&-
  wait $victim
  [ -z "$measurer" ] || wait $measurer || true
  rm "$work/go"
  cut -d' ' -f2,3 "$work/out"
}

# measurements LOAD: a name and a command a line.
measurements() {
  record="perf record -q -c 1 -o $work/perf.data"
  case $1 in
    getppid | pipe)
      echo "syscalls $program syscalls --batch"
      echo "perf-trace perf trace -s"
      # It only counts, and has no times.
      echo "perf-stat perf stat -e raw_syscalls:sys_enter,raw_syscalls:sys_exit"
      [ $1 = getppid ] || switch_measurements
      ;;
    pages)
      echo "page-faults $program page-faults --batch"
      echo "perf-record $record -g -e minor-faults"
      ;;
    forks)
      echo "forks $program forks --batch"
      echo "perf-record $record -e sched:sched_process_fork"
      ;;
    switches) switch_measurements ;;
  esac
}

switch_measurements() {
  for unit in rundelay task-state oncpu waits offcpu; do echo "$unit $program $unit --batch"; done
  echo "perf-record $record -e sched:sched_switch,sched:sched_wakeup"
}

for load; do
  measurements "$load" >"$work/measurements"
  for _ in $(seq "$pairs"); do
    plain=$(rounds "$load")
    echo "$load: $plain without"
    while read -r name command <&4; do
      found=$(rounds "$load" $command)
      echo "$load: $found under $name"
      echo "$name $plain $found" >>"$work/$load"
    done 4<"$work/measurements"
  done
  cut -d' ' -f1 "$work/measurements" | while read -r name; do
    median() {
      awk -v n="$name" '$1 == n { printf "%.1f\n", '"$1"' }' "$work/$load" | sort -n |
        awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
    }
    echo "$load: $name: $(median '100 * (1 - $4 / $2)') % of the rounds, $(median '100 * (1 - $3 / $5)') % by CPU time"
  done
done
