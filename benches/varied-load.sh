#!/bin/bash
# A load with varied code for benchmarks: g++ on new templates in each round, Python with json, zlib and regular
# expressions, and a sequence of short processes.
#
#   benches/varied-load.sh SECONDS [COPIES [SPINNERS]]
#
# Each of the three runs COPIES times (default: one per two CPUs), and SPINNERS threads spin in addition. Ends after
# SECONDS (at most an hour) with all processes it started, and removes its files.
set -u
seconds=${1:?usage: $0 SECONDS [COPIES [SPINNERS]]}
copies=${2:-$(( ($(nproc) + 1) / 2 ))}
spinners=${3:-0}
[ "$seconds" -le 3600 ] && [ "$copies" -le 64 ] && [ "$spinners" -le 256 ] || { echo "$0: too much" >&2; exit 2; }
dir=$(mktemp -d) || exit 1
export TMPDIR=$dir
end=$(( $(date +%s) + seconds ))
# Every process ends automatically, even if this script is gone.
left() { left=$(( end - $(date +%s) )); [ "$left" -gt 0 ]; }
groups=
over() { trap - INT TERM HUP EXIT; for group in $groups; do kill -- "-$group" 2>/dev/null; done; wait; rm -rf "$dir"; }
trap over EXIT
trap 'over; exit 130' INT TERM HUP

compile() {
    round=0
    while left && [ $round -lt 10000 ]; do
        round=$((round + 1)); id=$1_$round
        {
            echo '#include <algorithm>'; echo '#include <map>'; echo '#include <string>'; echo '#include <vector>'
            i=0
            while [ $i -lt 12 ]; do
                i=$((i + 1)); type=t${id}_$i
                echo "template <int N> struct $type { std::map<int, std::string> names; $type<N - 1> rest;"
                echo "  long sum(const std::vector<long>& of) { auto own = of; std::sort(own.begin(), own.end(),"
                echo "    [](long a, long b) { return a % (N + $round) < b % (N + $i); });"
                echo "    names[N] = std::to_string(own[N % own.size()]); return names.size() + rest.sum(own); } };"
                echo "template <> struct $type<0> { long sum(const std::vector<long>& of) { return of.size(); } };"
                echo "long run_$type(const std::vector<long>& of) { return $type<$((4 + round % 5))>{}.sum(of); }"
            done
        } > "$dir/$id.cc"
        timeout --foreground "$left" g++ -O$((round % 3)) -c -o "$dir/$id.o" "$dir/$id.cc"
        rm -f "$dir/$id.cc" "$dir/$id.o"
    done
}

interpret() {
    timeout --foreground "$seconds" python3 - "$1" <<'PYTHON'
import json, random, re, sys, zlib
random.seed(int(sys.argv[1]))
for _ in range(10_000_000):
    rows = [{"id": i, "name": f"name{random.random()}", "tags": [str(random.random())] * 3} for i in range(500)]
    text = json.dumps(rows)
    kept = [row for row in json.loads(text) if re.search(r"(\d+)\.(\d*[13579])$", row["tags"][0])]
    packed = zlib.compress(text.encode(), random.randint(1, 9))
    names = re.findall(r'"name": "name0\.(\d{1,5})(\d*)"', zlib.decompress(packed).decode())
    sorted(names, key=lambda name: (len(name[1]), name[0], len(kept)))
PYTHON
}

# Scripts, pipes and tools that end at once.
shorts() {
    round=0
    while left && [ $round -lt 100000 ]; do
        round=$((round + 1))
        seq $((round % 500)) | sed "s/$((round % 10))/x/g" | sort -r | head -n 20 | md5sum
        awk -v n=$round 'BEGIN { for (i = 0; i < 2000; i++) s += (i * n) % 7; print s }'
        sh -c 'for i in 1 2 3 4 5; do /bin/true; done; ls /proc/self /usr/lib | tr a-z A-Z | grep -c LIB'
    done > /dev/null 2>&1
}

spin() { timeout --foreground "$seconds" sh -c 'while :; do :; done'; }

# Each one has a process group, so that it is killed as a whole.
set -m
begin() { "$@" & groups="$groups $!"; }
copy=0
while [ $copy -lt "$copies" ]; do
    copy=$((copy + 1))
    begin compile $copy; begin interpret $copy; begin shorts $copy
done
while [ "$spinners" -gt 0 ]; do spinners=$((spinners - 1)); begin spin; done
set +m
wait
