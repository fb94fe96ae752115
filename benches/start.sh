#!/bin/bash
# Measures the live screen and perf top from exec until the first kernel and user names are shown: CPU time of all
# threads and resident memory, alone and with 5,000 sleeping processes. Prints medians of ROUNDS starts.
#
#   benches/start.sh [ROUNDS [SLEEPERS]]
#
# Run as root, with tmux, cc and perf (skipped if missing), after `cargo build --release`. PROGRAM selects another
# build. Ends automatically with all processes it started.
set -u
here=$(dirname "$0")
rounds=${1:-5} sleepers=${2:-5000}
program=${PROGRAM:-$here/../target/release/perfprof-tui}
[ "$rounds" -le 100 ] && [ "$sleepers" -le 20000 ] || { echo "$0: too much" >&2; exit 2; }
dir=$(mktemp -d) || exit 1
terminal() { tmux -L "start-$$" -f /dev/null "$@"; }
started=
over() { trap - EXIT INT TERM; kill $started 2>/dev/null; wait; terminal kill-server 2>/dev/null; rm -rf "$dir"; exit; }
trap over EXIT INT TERM

# Stripped as installed: debug symbols would be mapped and read.
strip -o "$dir/perfprof-tui" "$program" || exit 1
cat > "$dir/help.c" <<'C'
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* COUNT SECONDS: starts sleeping processes. -PID: prints the CPU milliseconds of a process. */
int main(int argc, char **argv)
{
    long number = argc > 1 ? atol(argv[1]) : 0;
    pid_t parent = getpid();

    if (number < 0) {
        clockid_t clock;
        struct timespec had;
        if (clock_getcpuclockid(-number, &clock) || clock_gettime(clock, &had))
            return 1;
        printf("%.1f", had.tv_sec * 1e3 + had.tv_nsec / 1e6);
        return 0;
    }
    while (number-- > 0)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            /* The parent may have exited before prctl. */
            if (getppid() == parent)
                pause();
            _exit(0);
        }
    alarm(argc > 2 ? atoi(argv[2]) : 60);
    return pause();
}
C
cc -O1 -o "$dir/help" "$dir/help.c" || exit 1

# Prints memory of a process in megabytes: resident, its parts, and the peak.
memory() { awk '{ of[$1] = $2 / 1024 } END { print of["VmRSS:"], of["RssAnon:"], of["RssFile:"], of["VmHWM:"] }' "/proc/$1/status"; }

# KERNEL USER COMMAND…: prints CPU time and memory once the screen has a line that matches each of the two patterns.
start() {
    local kernel=$1 user=$2 pid screen
    shift 2
    pid=$(terminal new-session -d -P -F '#{pane_pid}' -s one -x 140 -y 40 "exec $*")
    for _ in $(seq 1500); do
        screen=$(terminal capture-pane -p -t one) || break
        if grep -Eq "$kernel" <<< "$screen" && grep -Eq "$user" <<< "$screen"; then
            echo "$("$dir/help" "-$pid") $(memory "$pid")"
            break
        fi
        sleep 0.01
    done
    terminal send-keys -t one q
    for _ in $(seq 200); do [ -e "/proc/$pid" ] || return; sleep 0.01; done
    kill "$pid" 2>/dev/null
}

# NAME KERNEL USER COMMAND…: prints the median of each figure.
medians() {
    local name=$1
    shift
    : > "$dir/figures"
    for _ in $(seq "$rounds"); do start "$@" >> "$dir/figures"; done
    awk -v name="$name" '
        { for (i = 1; i <= NF; i++) all[i, NR] = $i; n = NR; fields = NF > fields ? NF : fields }
        function median(i,  k, j, at, list) {
            for (k = 1; k <= n; k++) list[k] = all[i, k] + 0
            for (k = 2; k <= n; k++) {
                at = list[k]
                for (j = k - 1; j > 0 && list[j] > at; j--) list[j + 1] = list[j]
                list[j + 1] = at
            }
            return (list[int((n + 1) / 2)] + list[int(n / 2) + 1]) / 2
        }
        END {
            if (!n) { printf "%-40s no names appeared\n", name; exit }
            printf "%-40s %6.1f ms of CPU  %5.1f MB RSS, %.1f of it anonymous, %.1f of files; %.1f at most\n",
                name, median(1), median(2), median(3), median(4), median(5)
        }' "$dir/figures"
}

both() {
    medians "perfprof-tui$1" '\[kernel[^ ]*\] +(▸ )?[a-z_]' '(bash|libc[^ ]*) +(▸ )?[a-zA-Z_]+ ' "$dir/perfprof-tui"
    # perf draws its first screen after its delay.
    command -v perf > /dev/null || return
    medians "perf top$1" '\[k\] [a-z_]' '(bash|libc[^ ]*) +\[\.\] [a-zA-Z_]' perf --buildid-dir "$dir" top -d 1
}

load=$((rounds * 60))
timeout $load bash -c 'while :; do :; done' & started="$started $!"
timeout $load dd if=/dev/zero of=/dev/null bs=1 2>/dev/null & started="$started $!"
both ''
"$dir/help" "$sleepers" $load & started="$started $!"
for _ in $(seq 100); do [ "$(pgrep -c -P $!)" -ge "$sleepers" ] && break; sleep 0.1; done
both ", $(pgrep -c -P $!) sleeping beside it"
