//! Forms of recordings: streams, compressed files, directories, several files, the other byte order; and the options
//! that select a part.

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::common::{Rows, data, our_rows, perf_rows, program, run, skipped, symfs};

fn arguments(command: &mut std::process::Command, root: &Path) {
    command.args(["--format", "json", "--no-demangle", "--no-children", "-s", "comm,dso,sym", "--symfs"]);
    command.arg(root).arg("--kallsyms").arg(data("kallsyms"));
}

fn report(paths: &[&Path], root: &Path) -> Rows {
    let mut command = program();
    command.arg("report").args(paths);
    arguments(&mut command, root);
    our_rows(&run(&mut command).stdout)
}

/// The report of a recording on standard input.
fn report_stdin(bytes: &[u8], root: &Path) -> Rows {
    let mut command = program();
    command.args(["report", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    arguments(&mut command, root);
    let mut child = command.spawn().expect("spawn");
    let mut stdin = child.stdin.take().expect("stdin");
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || {
        // In pieces, like a recorder.
        bytes.chunks(4000).try_for_each(|piece| stdin.write_all(piece))
    });
    let output = child.wait_with_output().expect("ends");
    writer.join().expect("thread").expect("written");
    assert!(output.status.success());
    our_rows(&output.stdout)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("gzip");
    out.finish().expect("gzip")
}

#[test]
fn any_form_through_any_door() {
    let root = symfs();
    let dir = tempfile::tempdir().expect("dir");
    for name in
        ["corpus/pipe.data", "fp-spin.data", "corpus/zstd.data", "corpus/overwrite.script.txt", "corpus/fp-spin.folded"]
    {
        let bytes = std::fs::read(data(name)).expect("read");
        let plain = report(&[&data(name)], root.path());
        assert!(!plain.is_empty(), "{name}");
        assert_eq!(report_stdin(&bytes, root.path()), plain, "{name} by a pipe");
        assert_eq!(report_stdin(&gzip(&bytes), root.path()), plain, "{name} by a pipe, gzip");
        for (how, packed) in [("gzip", gzip(&bytes)), ("zstd", zstd::encode_all(&bytes[..], 3).expect("zstd"))] {
            let path = dir.path().join("packed");
            std::fs::write(&path, packed).expect("write");
            assert_eq!(report(&[&path], root.path()), plain, "{name}, {how}");
        }
    }
}

/// A truncated compressed file: samples before the cut are shown.
#[test]
fn a_cut_archive_gives_what_it_has() {
    let root = symfs();
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("cut");
    let packed = gzip(&std::fs::read(data("corpus/pipe.data")).expect("read"));
    std::fs::write(&path, &packed[..packed.len() / 2]).expect("write");
    let some: u64 = report(&[&path], root.path()).values().sum();
    assert!((1..482).contains(&some), "{some}");
}

#[test]
fn pieces_of_one_recording_open_together() {
    let root = symfs();
    let (first, second) = (data("corpus/switch-1.data"), data("corpus/switch-2.data"));
    let mut sum = report(&[&first], root.path());
    for (key, n) in report(&[&second], root.path()) {
        *sum.entry(key).or_default() += n;
    }
    assert_eq!(report(&[&first, &second], root.path()), sum);
}

/// A directory as written by `perf record --threads`, made from a file: samples and other records in separate files.
#[test]
fn a_directory_with_a_file_for_each_thread() {
    let root = symfs();
    let bytes = std::fs::read(data("fp-spin.data")).expect("read");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("word")) as usize;
    let (data_at, data_size) = (word(40), word(48));
    let dir = tempfile::tempdir().expect("dir");
    let (mut head, mut rings) = (bytes[..data_at].to_vec(), [Vec::new(), Vec::new()]);
    let (mut at, mut n) = (data_at, 0);
    while at < data_at + data_size {
        let size = usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
        let record = &bytes[at..at + size];
        if record[0] == 9 {
            rings[n % 2].extend_from_slice(record);
            n += 1;
        } else if record[0] != 68 {
            head.extend_from_slice(record);
        }
        at += size;
    }
    // The header features are optional.
    let left = (head.len() - data_at) as u64;
    head[48..56].copy_from_slice(&left.to_le_bytes());
    head[72..104].fill(0);
    std::fs::write(dir.path().join("data"), head).expect("write");
    for (i, ring) in rings.iter().enumerate() {
        std::fs::write(dir.path().join(format!("data.{i}")), ring).expect("write");
    }
    assert_eq!(report(&[dir.path()], root.path()), report(&[&data("fp-spin.data")], root.path()));
}

/// Converts fp-spin.data to the output of a big-endian machine.
///
/// It follows perf_event_open(2), independently of the reader's code.
fn big_endian(bytes: &[u8]) -> Vec<u8> {
    fn turn(bytes: &mut [u8], sizes: &[usize]) {
        let mut at = 0;
        for size in sizes {
            bytes[at..at + size].reverse();
            at += size;
        }
    }
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("word")) as usize;
    let (attr_size, attrs, data_at, data_size) = (word(16), word(24), word(40), word(48));
    let mut out = bytes[..data_at].to_vec();
    // Ids and attrs: all numbers of the attr, then the section of ids.
    let (ids_at, ids_size) = (word(attrs + attr_size - 16), word(attrs + attr_size - 8));
    turn(&mut out[ids_at..ids_at + ids_size], &vec![8; ids_size / 8]);
    let attr = &mut out[attrs..attrs + attr_size];
    attr[40..48].iter_mut().for_each(|b| *b = b.reverse_bits());
    let flags: [u8; 8] = attr[40..48].try_into().expect("flags");
    turn(attr, &[4, 4, 8, 8, 8, 8, 8, 4, 4, 8, 8, 8, 8, 4, 4, 8, 4, 2, 2, 4, 4, 8]);
    attr[40..48].copy_from_slice(&flags);
    let end = attr.len() - 16;
    turn(&mut attr[end..], &[8, 8]);
    let mut at = data_at;
    while at < data_at + data_size {
        let kind = bytes[at];
        let size = usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
        at += size;
        if kind >= 64 {
            // Records above 63 are perf's own, and not needed.
            continue;
        }
        let mut record = bytes[at - size..at].to_vec();
        let misc = u16::from_le_bytes([record[4], record[5]]);
        let id = |record: &mut [u8]| {
            // TID and TIME; this sample_type has no other fields in the sample id.
            let end = record.len() - 16;
            turn(&mut record[end..], &[4, 4, 8]);
        };
        match kind {
            1 => turn(&mut record[8..], &[4, 4, 8, 8, 8]),
            10 if misc & 1 << 14 != 0 => {
                turn(&mut record[8..], &[4, 4, 8, 8, 8]);
                turn(&mut record[64..], &[4, 4]);
            }
            10 => turn(&mut record[8..], &[4, 4, 8, 8, 8, 4, 4, 8, 8, 4, 4]),
            3 => turn(&mut record[8..], &[4, 4]),
            4 | 7 => turn(&mut record[8..], &[4, 4, 4, 4, 8]),
            17 => turn(&mut record[8..], &[8, 4, 2, 2]),
            18 => turn(&mut record[8..], &[2, 2, 4]),
            9 => turn(&mut record[8..], &[vec![8, 4, 4, 8, 8], vec![8; (size - 40) / 8]].concat()),
            _ => {}
        }
        if kind != 9 {
            id(&mut record);
        }
        turn(&mut record, &[4, 2, 2]);
        out.extend(record);
    }
    let written = (out.len() - data_at) as u64;
    out[48..56].copy_from_slice(&written.to_le_bytes());
    // The header last, because the code above uses it. No features.
    turn(&mut out, &[8; 9]);
    out[72..104].fill(0);
    out
}

#[test]
fn a_recording_from_a_machine_of_the_other_byte_order() {
    let root = symfs();
    let bytes = std::fs::read(data("fp-spin.data")).expect("read");
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("big.data");
    std::fs::write(&path, big_endian(&bytes)).expect("write");
    let ours = report(&[&path], root.path());
    assert_eq!(ours, report(&[&data("fp-spin.data")], root.path()));
    // The saved copy is a plain file in native byte order.
    let copy = dir.path().join("copy.data");
    run(program().arg("export").arg(&path).args(["--to", "perfdata", "-o"]).arg(&copy));
    assert_eq!(report(&[&copy], root.path()), ours);
    // perf confirms that the converted file is valid.
    let perf = std::process::Command::new("perf")
        .args(["--buildid-dir", "/nonexistent", "report", "--stdio", "-n", "--no-children", "-g", "none", "-t", "\t"])
        .args(["--percent-limit", "0", "-s", "comm,dso,sym", "--no-demangle", "-i"])
        .arg(&path)
        .arg("--symfs")
        .arg(root.path())
        .output();
    match perf {
        Ok(output) if output.status.success() => {
            let rows = perf_rows(&String::from_utf8_lossy(&output.stdout));
            assert_eq!(rows.values().sum::<u64>(), ours.values().sum::<u64>());
        }
        _ => skipped("perf is not installed"),
    }
}

#[test]
fn options_of_perf_report_choose_samples() {
    let total = |args: &[&str]| {
        let mut command = program();
        command
            .arg("report")
            .arg(data("multi3.data"))
            .args(["--format", "csv", "--no-children", "-s", "comm"])
            .args(args);
        let text = String::from_utf8(run(command.arg("--kallsyms").arg(data("kallsyms"))).stdout).expect("utf8");
        let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let at = rows.next().expect("a heading").iter().position(|name| *name == "samples").expect("a column");
        rows.map(|row| row[at].parse::<u64>().expect("n")).sum::<u64>()
    };
    let all = total(&[]);
    assert_eq!(all, 499);
    assert_eq!(total(&["--event", "page-faults"]), 134);
    assert_eq!(total(&["--comm", "absent"]), 0);
    assert_eq!(total(&["--comms", "sysmix,perf"]), all);
    assert_eq!(total(&["--time", "0%-50%"]) + total(&["--time", "50%-100%"]), all);
    assert_eq!(total(&["--time", "0,"]), all);
    assert_eq!(total(&["--dso", "[kernel.kallsyms]", "--where", "user"]), 0);
    for bad in [&["--time", "noon"][..], &["--event", "nothing"], &["-g", "sideways"]] {
        let output = program().arg("report").arg(data("multi3.data")).args(bad).output().expect("runs");
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(bad[1]), "{bad:?}");
    }
}

#[test]
fn call_chains_and_levels_as_text() {
    let root = symfs();
    let text = |args: &[&str]| {
        let mut command = program();
        command.arg("report").arg(data("fp-spin.data")).args(args).arg("--symfs").arg(root.path());
        String::from_utf8(run(command.arg("--kallsyms").arg(data("kallsyms"))).stdout).expect("utf8")
    };
    let chains = text(&["--no-children", "-g", "callee", "--percent-limit", "20"]);
    let lines: Vec<&str> = chains.lines().collect();
    let alpha = lines.iter().position(|l| l.ends_with("burn_alpha")).expect("row");
    assert!(lines[alpha + 1].ends_with("work_loop  spin") && lines[alpha + 2].ends_with("main  spin"), "{chains}");
    assert_eq!(
        text(&["--no-children", "-g", "--percent-limit", "20"]),
        chains,
        "without --children, chains do not lead to the callers"
    );
    let levels = text(&["--hierarchy", "-s", "comm,dso,sym", "--percent-limit", "5"]);
    let shape: Vec<&str> = levels.lines().skip(2).take(3).map(str::trim_end).collect();
    assert!(
        shape[0].ends_with("%  spin") && shape[1].ends_with("%    spin") && shape[2].ends_with("burn_alpha"),
        "{levels}"
    );
}

#[test]
fn the_head_of_a_recording_is_told() {
    let output = run(program().arg("report").arg(data("fp-spin.data")).arg("--header-only"));
    let text = String::from_utf8(output.stdout).expect("utf8");
    for part in [
        "os release",
        "6.18.44",
        "cpu-clock:ppp",
        "2 online, 2 available",
        "x86_64",
        "software = 1",
        "perf record -F 999 -g",
    ] {
        let part = part.replace("os release", "osrelease");
        assert!(text.contains(&part), "{part}: {text}");
    }
}

/// A stream like that of `perf record -o -`, made from a file: attrs, names, tracing data, records.
fn as_stream(bytes: &[u8]) -> Vec<u8> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("word")) as usize;
    let (attr_size, attrs, attrs_size, data_at, data_size) = (word(16), word(24), word(32), word(40), word(48));
    let mut out = [&bytes[..8], &16u64.to_le_bytes()].concat();
    let record = |kind: u32, body: &[&[u8]]| {
        let body = body.concat();
        let size = (8 + body.len().next_multiple_of(8)) as u16;
        let mut record = [&kind.to_le_bytes()[..], &0u16.to_le_bytes(), &size.to_le_bytes(), &body].concat();
        record.resize(usize::from(size), 0);
        record
    };
    for entry in bytes[attrs..attrs + attrs_size].chunks(attr_size) {
        let (attr, ids) = entry.split_at(attr_size - 16);
        let at = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("word")) as usize;
        let (from, size) = (at(&ids[..8]), at(&ids[8..]));
        out.extend(record(64, &[attr, &bytes[from..from + size]]));
    }
    let feature = |bit: usize| {
        let present = |b: usize| bytes[72 + b / 8] & 1 << (b % 8) != 0;
        assert!(present(bit));
        let entry = data_at + data_size + 16 * (0..bit).filter(|b| present(*b)).count();
        &bytes[word(entry)..word(entry) + word(entry + 8)]
    };
    out.extend(record(80, &[&12u64.to_le_bytes(), feature(12)]));
    let tracing = feature(1);
    let mut padded = tracing.to_vec();
    padded.resize(tracing.len().next_multiple_of(8), 0);
    out.extend(record(66, &[&(padded.len() as u32).to_le_bytes()]));
    // The payload follows its record.
    out.extend(padded);
    out.extend(&bytes[data_at..data_at + data_size]);
    out
}

/// The formats of tracepoints arrive in many reads; the text of tracepoints depends on them.
#[test]
fn a_stream_brings_the_formats_of_its_tracepoints() {
    let file = data("corpus/tp-raw.data");
    let of = |args: &[&str], stdin: Stdio| {
        let mut command = program();
        command.arg("report").args(args).args(["-s", "comm,trace", "--format", "csv"]);
        let mut child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("spawn");
        if let Some(mut stdin) = child.stdin.take() {
            let bytes = as_stream(&std::fs::read(&file).expect("read"));
            std::thread::spawn(move || bytes.chunks(4000).try_for_each(|piece| stdin.write_all(piece)));
        }
        String::from_utf8(child.wait_with_output().expect("ends").stdout).expect("utf8")
    };
    let plain = of(&[file.to_str().expect("path")], Stdio::null());
    assert!(plain.lines().count() > 3 && plain.lines().any(|line| line.ends_with("NR 14 = 0")), "{plain}");
    assert_eq!(of(&["-"], Stdio::piped()), plain);
}

/// The ipvs incident: 43 % of CPU 32's samples are in softirq TIMER, in a plain sampling profile.
#[test]
fn contexts_come_from_call_chains() {
    let samples = |clause: &str| {
        let mut command = program();
        command.arg("report").arg(data("ipvs-cpu32.data")).arg("--kallsyms").arg(data("ipvs-cpu32.kallsyms"));
        command.args(["--no-children", "-s", "comm", "--format", "csv", "--where", clause]);
        let text = String::from_utf8(run(&mut command).stdout).expect("utf8");
        let rows = text.lines().filter(|l| l.starts_with(|c: char| c.is_ascii_digit()));
        rows.map(|l| l.split(',').nth(1).expect("n").parse::<u64>().expect("n")).sum::<u64>()
    };
    assert_eq!(samples("softirq == TIMER"), samples("stack == run_timer_softirq"));
    assert_eq!((samples("softirq == TIMER"), samples("context == softirq")), (3856, 3862));
    let all = ["task", "softirq", "irq", "idle"].map(|c| samples(&format!("context == {c}"))).iter().sum::<u64>();
    assert_eq!(all, 8971);
}

/// Without a file, commands read a recording from a pipe, like perf.
#[test]
fn a_pipe_is_read_where_nothing_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    for command in ["report", "script", "evlist"] {
        let mut child = program();
        let child = child.arg(command).current_dir(dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.stderr(Stdio::null()).spawn().expect("spawn");
        let bytes = std::fs::read(data("fp-spin.data")).expect("read");
        // A command may end before it has read everything.
        let _ = child.stdin.take().expect("stdin").write_all(&bytes);
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success() && !output.stdout.is_empty(), "{command}: {output:?}");
    }
}
