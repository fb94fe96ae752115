#!/bin/bash
# Compares perf report and perfprof-tui report on the same recordings of benches/varied-load.sh at 20 kHz, in pairs: CPU
# time, time, memory. The table with children and callers uses a short recording, because perf needs seventy times its
# size; the table without call chains, and memory relative to the file size, use a long one.
#
#   benches/recordings.sh [SECONDS [PAIRS]]
#
# Run as root, with perf, after `cargo build --release`; PROGRAM selects another build. SECONDS (40) is the length of
# the long recording.
set -u
here=$(dirname "$0")
seconds=${1:-40} pairs=${2:-3}
program=${PROGRAM:-$here/../target/release/perfprof-tui}
[ "$seconds" -le 600 ] && [ "$pairs" -le 20 ] || { echo "$0: too much" >&2; exit 2; }
dir=$(mktemp -d) || exit 1
load=
over() { trap - EXIT INT TERM; kill "$load" 2>/dev/null; wait; rm -rf "$dir"; exit; }
trap over EXIT INT TERM
strip -o "$dir/ours" "$program" || exit 1

# FILE SECONDS
record() {
    "$here/varied-load.sh" $(($2 + 5)) & load=$!
    sleep 1
    perf --buildid-dir "$dir" record -B -N -F 20000 -a -g -o "$1" -- sleep "$2" > "$dir/said" 2>&1 || cat "$dir/said"
    kill "$load" 2>/dev/null
    wait
}

# COMMAND…: prints user, system and wall seconds, peak RSS and peak RssAnon in kB.
taken() {
    TIMEFORMAT='%U %S %R'
    { time "$@" > /dev/null 2>&1; } 2> "$dir/time" & timer=$!
    rss=0 anon=0
    while kill -0 "$timer" 2>/dev/null; do
        # Uses the shell's child, because `time` runs in a subshell.
        pid=$(pgrep -P "$timer" 2>/dev/null) && while read -r key value _; do
            case $key in
                VmHWM:) [ "$value" -gt "$rss" ] && rss=$value ;;
                RssAnon:) [ "$value" -gt "$anon" ] && anon=$value ;;
            esac
        done 2>/dev/null < "/proc/$pid/status"
        sleep 0.01
    done
    wait "$timer"
    echo "$(cat "$dir/time") $rss $anon"
}

# NAME FILE "PERF'S OPTIONS" "OURS"
compare() {
    echo "$1, $(($(stat -c %s "$2") / 1000000)) MB:"
    for _ in $(seq "$pairs"); do
        # shellcheck disable=SC2086
        perf=$(taken perf --buildid-dir "$dir" report -i "$2" --stdio $3)
        # shellcheck disable=SC2086
        ours=$(taken "$dir/ours" report "$2" $4)
        echo "$perf $ours $(stat -c %s "$2")"
    done | awk '
        { perf += $1 + $2; ours += $6 + $7; slow += $3; fast += $8; big = $4; rss = $9; anon = $10; size = $11 / 1024 }
        END {
            printf "  perf         %6.2f CPU-s  %6.2f s  %6.0f MB RSS\n", perf / NR, slow / NR, big / 1024
            printf "  perfprof-tui %6.2f CPU-s  %6.2f s  %6.0f MB RSS, %.0f of it private\n", ours / NR, fast / NR, rss / 1024, anon / 1024
            printf "  %.1f x less CPU time, %.1f x sooner; memory %.2f of the file, private %.2f\n", perf / ours, slow / fast, rss / size, anon / size
        }'
}

record "$dir/short" 8
compare 'children and callers' "$dir/short" '--children -g caller' '-g caller'
rm "$dir/short"
record "$dir/long" "$seconds"
compare 'ignoring chains' "$dir/long" '--no-children -g none' '--no-children'
echo "children and callers of that one, $(($(stat -c %s "$dir/long") / 1000000)) MB:"
taken "$dir/ours" report "$dir/long" -g caller | awk -v size="$(stat -c %s "$dir/long")" '{
    printf "  perfprof-tui %6.2f CPU-s  %6.2f s  memory %.2f of the file, private %.2f\n", $1 + $2, $3, $4 * 1024 / size, $5 * 1024 / size }'
