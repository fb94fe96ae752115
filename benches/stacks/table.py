#!/usr/bin/env python3
"""Prints a table of the share of complete stacks, by call chain method, in programs with known marked callers.

  benches/stacks/table.py [SECONDS [WAY…]]

A stack is complete if its frames from the leaf lead through all marked callers in order to the start of the program (or of
its thread). All samples of the program from a second after the first one on are checked, by the names that `perf script`
prints (copied stacks: that the recording tool prints); for stripped programs by those of the unstripped program, which has
the same addresses. Next to each share are the bytes of the recording and the CPU time of the recording tool, in
milliseconds. `same` compares tables with perf's DWARF: it is the share of complete stacks of one whose chain the other has,
too. Run as root, with perf, after `cargo build --release`; PROGRAM selects another build, PROBEE the program of
profile-bee. Missing tools (rustc, go) are skipped and reported.
"""
import bisect, collections, os, re, shutil, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.environ.get("PROGRAM") or os.path.join(HERE, "../../target/release/perfprof-tui")
PROBEE = os.environ.get("PROBEE")
SECONDS = min(int(sys.argv[1]) if len(sys.argv) > 1 else 4, 60)
WAYS = sys.argv[2:] or ["tables", "fp", "dwarf", "perf dwarf"] + (["probee"] if PROBEE else [])
STARTS = {"_start", "clone3", "__clone3", "__clone", "clone", "start_thread", "runtime.goexit", "runtime.goexit.abi0",
          "runtime.mstart", "runtime.mstart.abi0"}
DIR = tempfile.mkdtemp(prefix="stacks")
F = [f"f{n}" for n in range(1, 21)] + ["main"]


def build(*command):
    done = subprocess.run(command, cwd=DIR, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode:
        print(f"{command[0]}: {done.stderr.decode(errors='replace')[-300:]}", file=sys.stderr)
    return done.returncode == 0


def source(name):
    return os.path.join(HERE, name)


def workloads():
    """Name, command, marked callers from the leaf, and the program with symbols if the running one is stripped."""
    c = ["gcc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-w", source("chain.c")]
    built = build(*c, "-o", "chain", "-ldl") and build("strip", "-o", "chain-pie", "chain")
    built &= build(*c, "-DSTATIC", "-static", "-no-pie", "-o", "fixed") and build("strip", "-o", "fixed-s", "fixed")
    built &= build("gcc", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", source("plugin.c"), "-o", "plugin.so")
    if built:
        yield "C", ["./chain", "w"], ["again", "work"] + F, None
        yield "C, stripped PIE", ["./chain-pie", "w"], ["again", "work"] + F, "chain"
        yield "C, stripped static", ["./fixed-s", "w"], ["again", "work"] + F, "fixed"
        yield "C, libc's assembly", ["./chain", "a"], ["work"] + F, None
        yield "C, system calls", ["./chain", "s"], ["work"] + F, None
        yield "C, loaded plugin", ["./chain", "p"], ["plugged", "work"] + F, None
        yield "C, 200 calls deep", ["./chain", "r"], ["work"] + F, "127"
    if build("g++", "-O2", "-fomit-frame-pointer", "-w", source("throws.cc"), "-o", "throws"):
        yield "C++, exceptions, signals", ["./throws", "w"], ["loops", "main"], None
    if shutil.which("rustc") and build("rustc", "-O", "-Cforce-frame-pointers=no", "-Cdebuginfo=1", source("nested.rs")):
        yield "Rust", ["./nested", "w"], ["nested::outer", "nested::main"], None
    if shutil.which("go") and build("go", "build", "-o", "nested-go", source("nested.go")):
        yield "Go", ["./nested-go", "w"], ["main.outer", "main.main.func1"], None
    python = os.path.realpath(sys.executable)
    yield "Python", [python, source("nested.py"), "w"], ["Py_RunMain", "Py_BytesMain"], None
    for name, command in [
        ("gzip, as installed", "gzip -9 -c /dev/zero"),
        ("perl, as installed", "perl -e 'sub f { my $n = shift; $n < 2 ? $n : f($n-1) + f($n-2) } f(20) while 1'"),
        ("xz, as installed", "xz -9 -T2 -c /dev/zero"),
        ("sqlite3, as installed", "sqlite3 :memory: 'with recursive c(x) as (select 1 union all select x+1 from c) "
                                  "select count(*), sum(length(hex(x))) from c'"),
    ]:
        if shutil.which(command.split()[0]):
            yield name, ["sh", "-c", f"exec {command} > /dev/null"], [], None


def entry(path):
    """The entry point of a program, and the difference between code addresses and file offsets."""
    out = subprocess.run(["readelf", "-hlW", path], capture_output=True, text=True).stdout
    at = re.search(r"Entry point address:\s+0x([0-9a-f]+)", out)
    code = re.search(r"LOAD\s+0x([0-9a-f]+) 0x([0-9a-f]+) .* R E ", out)
    return int(at[1], 16) if at else 0, int(code[2], 16) - int(code[1], 16) if code else 0


def names_of(path):
    out = subprocess.run(["nm", "-C", "--defined-only", path], capture_output=True, text=True, cwd=DIR).stdout
    found = sorted((int(w[0], 16), w[2]) for w in (l.split(None, 2) for l in out.splitlines()) if w[1] in "tTwW")
    return [a for a, _ in found], [n for _, n in found]


FRAME = re.compile(r"^\s+([0-9a-f]+) (.*) \((.*)\)$")


def stacks(text):
    """(time, [(address, name, file)], comm), leaf first."""
    head, frames = None, []
    for line in text + [""]:
        if not line.strip():
            if head:
                yield head[0], frames, head[1]
            head, frames = None, []
        elif (m := FRAME.match(line)) and head:
            frames.append((int(m[1], 16), m[2].split("+0x")[0], m[3]))
        elif m := re.match(r"^\s*(.*?)\s+([0-9.]+):", line):
            head = (float(m[2]), m[1])


class Judge:
    def __init__(self, exe, marks, twin):
        self.marks, self.deep = marks, twin == "127"
        self.begin, self.shift = entry(exe)
        self.table = names_of(twin) if twin and not self.deep else None

    def name(self, frame):
        at, name, _ = frame
        # Unnamed addresses are printed as file offsets.
        if self.table and name == "[unknown]":
            i = bisect.bisect_right(self.table[0], at + self.shift) - 1
            return self.table[1][i] if i >= 0 else name
        return name

    def is_whole(self, frames):
        names = [re.sub(r"::h[0-9a-f]{16}$", "", self.name(f)).split("(")[0] for f in frames]
        if self.deep:
            user = [n for n, f in zip(names, frames) if f[0] < 1 << 63]
            if len(user) == 127:
                return user[-1] == "again" and set(user[1:]) == {"again"}
        # A sample in a caller, or in another callee of it, has the remaining callers.
        found = [mark for name in names for mark in self.marks if name == mark or name.endswith("::" + mark)]
        found = [mark for i, mark in enumerate(found) if i == 0 or found[i - 1] != mark]
        at = len(self.marks) if not self.marks or found and found == self.marks[-len(found):] else -1
        last = frames[-1][0] - self.begin if frames else -1
        begins = 0 < last <= 64 or 0 < last + self.shift <= 64
        return at == len(self.marks) and bool(frames) and (names[-1] in STARTS or begins)


def recorded(way, pid, out):
    """Records, and returns the CPU time in milliseconds."""
    if way == "perf dwarf":
        command = ["perf", "--buildid-dir", DIR, "record", "-B", "-N", "-q", "-e", "cpu-clock", "-F", "499"]
        command += ["--call-graph", "dwarf"]
    elif way == "probee":
        with open(out, "w") as text:
            command = [PROBEE, "--dwarf", "--frequency", "499", "--time", str(1000 * SECONDS), "--pid", str(pid),
                       "--collapse", out]
            child = subprocess.Popen(command, stdout=text, stderr=subprocess.DEVNULL)
            _, _, used = os.wait4(child.pid, 0)
        return 1000 * (used.ru_utime + used.ru_stime)
    else:
        command = [PROGRAM, "record", "-q", "-e", "cpu-clock", "-F", "499", "--call-graph", way]
    command += ["-p", str(pid), "-o", out, "--", "sleep", str(SECONDS)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, used = os.wait4(child.pid, 0)
    return 1000 * (used.ru_utime + used.ru_stime)


def read(way, out):
    if way == "probee":
        # Folded, root first after the program's name, with a weight.
        for line in open(out, errors="replace"):
            path, _, n = line.rstrip().rpartition(" ")
            names = path.split(";")[1:]
            names = names[1:] if names[:1] == ["[unknown]"] else names
            frames = [(1 << 63 if name.endswith("_k") else 0, name, "") for name in reversed(names)]
            for _ in range(int(n) if n.isdigit() else 0):
                yield 9.0, frames, ""
        return
    script = [PROGRAM if way == "dwarf" else "perf", "script", "-i", out, "-F", "comm,time,ip,sym,dso"]
    script += [] if way == "dwarf" else ["--no-inline"]
    done = subprocess.run(script, capture_output=True, stdin=subprocess.DEVNULL, timeout=900)
    yield from stacks(done.stdout.decode(errors="replace").splitlines())


def key(judge, frames):
    return tuple(judge.name(f) for f in frames if f[0] < 1 << 63)


def measure(name, command, marks, twin):
    cells, chains = [], {}
    for way in WAYS:
        run = ["setarch", "-R"] + command + ([] if command[0] == "sh" else [str(SECONDS + 3)])
        run += [os.path.join(DIR, "plugin.so")] if "plugin" in name else []
        load = subprocess.Popen(run, cwd=DIR, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.7)
            exe = os.readlink(f"/proc/{load.pid}/exe")
            judge = Judge(exe, marks, twin)
            out = os.path.join(DIR, "out")
            used = recorded(way, load.pid, out)
        finally:
            load.kill()
            load.wait()
        size = os.path.getsize(out)
        try:
            all_of = list(read(way, out))
        except subprocess.TimeoutExpired:
            cells.append(f"{'not read in 900 s':>26}")
            continue
        first = min((at for at, _, _ in all_of), default=0)
        late = [frames for at, frames, _ in all_of if way == "probee" or at >= first + 1]
        whole = [frames for frames in late if judge.is_whole(frames)]
        chains[way] = collections.Counter(key(judge, frames) for frames in whole)
        share = 100 * len(whole) / len(late) if late else 0.0
        cells.append(f"{share:6.1f} % {size / 1e3:9,.0f} kB {used:5.0f}")
        if os.environ.get("BROKEN") and late:
            ends = collections.Counter(judge.name(f[-1]) + " " + hex(f[-1][0]) for f in late if f and not judge.is_whole(f))
            print("   ", way, len(late), ends.most_common(4), file=sys.stderr)
    same = ""
    if {"tables", "perf dwarf"} <= chains.keys() and all(chains[w] for w in ("tables", "perf dwarf")):
        ours, theirs = chains["tables"], chains["perf dwarf"]
        if os.environ.get("BROKEN"):
            print("   only tables:", [(c, n) for c, n in ours.most_common() if c not in theirs][:2], file=sys.stderr)
        shares = [100 * sum(n for c, n in a.items() if c in b) / sum(a.values()) for a, b in ((ours, theirs), (theirs, ours))]
        same = "{:5.1f} / {:5.1f} %".format(*shares)
    print(f"{name:26}" + "".join(f"{cell:>28}" for cell in cells) + f"  {same}", flush=True)


def main():
    try:
        print(f"{'':26}" + "".join(f"{way:>28}" for way in WAYS) + "  same")
        only = os.environ.get("ONLY")
        for one in workloads():
            if not only or only in one[0]:
                measure(*one)
    finally:
        shutil.rmtree(DIR, ignore_errors=True)


main()
