#!/bin/sh
# Prints the share of correct stacks for each call chain method, in programs with known stacks: shapes and throws
# (shapes.c, throws.cc), built into FOLDER next to perfprof-tui.
#
#   judge.sh FOLDER [SECONDS [HZ [WAY...]]]
#
# A stack is correct if it begins at the program's start, and no function of the program is missing or out of order.
# Samples of the first second are excluded: `tables` uses frame pointers then. Methods are those of --call-graph, and
# perf-dwarf. Requires only a POSIX shell and awk, so that it runs in a small guest.
set -u
folder=${1:?usage: $0 FOLDER [SECONDS [HZ [WAY...]]]} seconds=${2:-4} hz=${3:-499}
[ $# -ge 3 ] && shift 3 || shift $#
[ $# -gt 0 ] || set -- fp tables dwarf
[ "$seconds" -le 60 ] || { echo "$0: too long" >&2; exit 2; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT INT TERM

# WAY COMMAND…: prints the stacks of a command, leaf first, each after its time.
stacks() {
    way=$1; shift
    if [ "$way" = perf-dwarf ]; then
        perf --buildid-dir "$dir" record -q -B -N -e cpu-clock -F "$hz" --call-graph dwarf,16384 -o "$dir/data" -- "$@" 2> "$dir/said"
        perf --buildid-dir "$dir" script --no-inline -F time,ip,sym -i "$dir/data" 2>> "$dir/said"
    else
        "$folder/perfprof-tui" record -q -e cpu-clock -F "$hz" --call-graph "$way" -o "$dir/data" -- "$@" 2> "$dir/said"
        "$folder/perfprof-tui" script -F time,ip,sym "$dir/data" 2>> "$dir/said"
    fi
}

# OWN TAIL: checks stacks. OWN are the program's functions from its start; a stack has the first of them. TAIL are those
# of a signal handler, which may follow. NAME*N is a recursive function; `cut*N` is one with up to N calls.
judge() {
    awk -v own="$1" -v tail="$2" '
    function known(name) { return index(" " plain " ", " " name " ") }
    function right(   i, at, n, list, times, last, run, behind) {
        # Cut beyond some depth; complete otherwise.
        if (whole && depth == whole) return mine == whole
        last = frame[depth]
        # A thread'"'"'s function is called by two of the C library.
        if (first == "worker" ? frame[depth - 2] != "worker" : last != "_start") return 0
        n = split(own, list, " ")
        i = depth
        for (at = 1; at <= n; at++) {
            split(list[at], times, "*")
            for (run = 0; ; run++) {
                while (i > 0 && !known(frame[i])) i--
                if (i < 1 || frame[i] != times[1] || (run && !times[2])) break
                i--
            }
            if (!run) break
            # A recursive function reaches its depth before it calls another.
            if (times[2] && i > 0 && frame[i] == "leaf" && run != times[2]) return 0
        }
        n = split(tail, list, " ")
        for (at = 1; at <= n; at++) {
            while (i > 0 && !known(frame[i])) i--
            if (i > 0 && frame[i] == list[at]) i--
        }
        while (i > 0 && !known(frame[i])) i--
        # The C library calls the vDSO to read the clock, for one of these.
        for (at = 1; at <= depth; at++)
            if (frame[at] ~ /^__kernel_clock_get/) {
                behind = frame[at + 1] ~ /^_*clock_gettime/ ? frame[at + 2] : ""
                if (behind != "clocks" && behind != "until" && behind != "main") return 0
            }
        return i == 0
    }
    function close_one() {
        if (time == "") return
        if (start == "") start = time
        if (depth && time - start >= 1) { all++; frames += depth; if (right()) good++; else if (bad++ < 8) { sample = sample sprintf("\n%.3f:", time - start); for (i = 1; i <= depth; i++) sample = sample " " frame[i] } }
        time = ""; depth = mine = 0
    }
    BEGIN {
        if (own ~ /^cut/) { split(own, c, "*"); whole = c[2]; own = "main until deep*200 leaf" }
        plain = own " " tail; gsub(/\*[0-9]*/, "", plain); first = own; sub(/ .*/, "", first)
    }
    /^[ \t]*[0-9]+\.[0-9]+: *$/ { close_one(); time = $1 + 0; next }
    NF >= 2 && $1 !~ /^ffff[0-9a-f]/ || $1 ~ /^ffff[0-9a-f]{8}$/ {
        name = $2; sub(/\(.*/, "", name); sub(/[+@].*/, "", name)
        if (time != "") { frame[++depth] = name; if (known(name)) mine++ }
    }
    END { close_one()
        printf " %6d %6.2f %% %5.1f", all, all ? 100 * good / all : 0, all ? frames / all : 0
        if (sample) print "wrong:" substr(sample, 1, 2000) > "/dev/stderr" }'
}

# NAME OWN TAIL COMMAND…
row() {
    name=$1 own=$2 tail=$3; shift 3
    [ -x "$1" ] || return 0
    printf '%-44s' "$name"
    for way in $ways; do
        stacks "$way" "$@" "$seconds" > "$dir/text"
        judge "$own" "$tail" < "$dir/text" 2>> "$dir/wrong"
    done
    echo
    [ -z "${WRONG:-}" ] || cat "$dir/wrong"
    : > "$dir/wrong"
}

ways=$*
printf '%-44s' "stacks, correct, frames"
for way in $ways; do printf ' %21s' "$way"; done
echo
chain='main until f10 f9 f8 f7 f6 f5 f4 f3 f2 f1 f0'
for made in shapes shapes-omit shapes-static shapes-signed; do
    run=$folder/$made
    row "$made: a leaf's caller" 'main until outer middle leaf' '' "$run" l
    row "$made: frames of 8 bytes to 70 kB" "$chain leaf" '' "$run" f
    row "$made: in system calls" "$chain reads" '' "$run" r
    row "$made: in the vDSO" "$chain clocks" '' "$run" c
    row "$made: signal handlers" "$chain leaf" 'handler leaf' "$run" s
    row "$made: signal handlers on another stack" "$chain leaf" 'handler leaf' "$run" a
    row "$made: called back by qsort" 'main until sorts compare leaf' '' "$run" q
    row "$made: 20 calls of itself" 'main until deep*20 leaf' '' "$run" 2
    row "$made: 200 calls of itself, cut at 127" 'cut*127' '' "$run" d
    row "$made: a thread" "worker ${chain#main } leaf" '' "$run" t
done
row 'throws: exceptions and signal handlers' 'main caught fall*7' 'work handler work' "$folder/throws"
