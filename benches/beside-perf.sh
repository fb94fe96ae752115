#!/bin/bash
# Compares perf top -g and perfprof-tui, run at the same time under benches/varied-load.sh: CPU time, memory, bytes to a
# terminal of 140x40, and the age of perfprof-tui's view.
#
#   benches/beside-perf.sh SECONDS [HZ [COPIES [SPINNERS [OPTION…]]]]
#
# Run as root, with tmux and perf, after `cargo build --release`. OPTIONs are passed to perfprof-tui. PROGRAM selects
# another build of it.
set -u
here=$(dirname "$0")
seconds=${1:?usage: $0 SECONDS [HZ [COPIES [SPINNERS [OPTION…]]]]}
hz=${2:-999} copies=${3:-$(( ($(nproc) + 1) / 2 ))} spinners=${4:-0}
program=${PROGRAM:-$here/../target/release/perfprof-tui}
dir=$(mktemp -d) || exit 1
terminal() { tmux -L "beside-perf-$$" -f /dev/null "$@"; }
over() { trap - EXIT INT TERM; kill "$load" 2>/dev/null; wait; terminal kill-server 2>/dev/null; rm -rf "$dir"; exit; }
load=
# Stripped as installed: perf would take seconds to read debug symbols.
strip -o "$dir/perfprof-tui" "$program" || exit 1
trap over EXIT INT TERM
"$here/varied-load.sh" $((seconds + 20)) "$copies" "$spinners" & load=$!

# NAME COMMAND…: starts a command in its own terminal and counts the bytes written to it.
start() {
    terminal new-session -d -s "$1" -x 140 -y 40 "exec ${*:2}" \; pipe-pane -t "$1" "exec cat > $dir/$1.bytes"
    terminal display -p -t "$1" '#{pane_pid}'
}
perf=$(start perf perf --buildid-dir "$dir" top -g -F "$hz")
ours=$(start ours "$dir/perfprof-tui" -F "$hz" "${@:5}")

# Uses the clock: on busy CPUs this script is delayed, too.
began=$(date +%s.%N) anon_perf=0 anon_ours=0
passed() { awk "BEGIN { print $(date +%s.%N) - $began }"; }
grew() { now=$(awk '/^RssAnon/ { print $2 }' "/proc/$1/status"); [ "${now:-0}" -gt "$2" ] && echo "$now" || echo "$2"; }
while sleep 1 && [ "$(passed | cut -d. -f1)" -lt "$seconds" ]; do
    anon_perf=$(grew "$perf" "$anon_perf") anon_ours=$(grew "$ours" "$anon_ours")
done

# Fields 12 and 13 after the name, which may contain blanks, of a process or thread.
ticks() { sed 's/.*) //' "$1/stat" | awk '{ print ($12 + $13) / 100 }'; }
peak() { awk '/^VmHWM/ { printf "%.1f", $2 / 1024 }' "/proc/$1/status"; }
cpu_perf=$(ticks "/proc/$perf") cpu_ours=$(ticks "/proc/$ours") passed=$(passed)
line() {
    bytes=$(wc -c < "$dir/$2.bytes")
    printf '%-14s %6.2f CPU-s  %7s MB RSS  %7.1f MB RssAnon  %6.2f kB/s to the terminal\n' "$1" "$4" "$(peak "$3")" \
        "$(awk "BEGIN { print $5 / 1024 }")" "$(awk "BEGIN { print $bytes / 1000 / $passed }")"
}
line 'perf top -g' perf "$perf" "$cpu_perf" "$anon_perf"
line perfprof-tui ours "$ours" "$cpu_ours" "$anon_ours"
awk "BEGIN { printf \"CPU time: %.2f of perf top's, %.0f s at $hz Hz\\n\", $cpu_ours / $cpu_perf, $passed }"
for thread in /proc/"$ours"/task/*; do
    printf '  %6.2f CPU-s  %s\n' "$(ticks "$thread")" "$(cat "$thread/comm")"
done | sort -rn
terminal send-keys -t ours l
sleep 3
echo "ledger (l):"
terminal capture-pane -p -t ours | grep -E 'view|lost|self'
