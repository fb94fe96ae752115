//! Names with terminal control characters everywhere in a recording, through every command and format.

use std::path::{Path, PathBuf};
use std::process::Output;

use crate::common;
use crate::common::program;
use perfprof_tui::export::perfetto::messages::Trace;
use perfprof_tui::export::pprof::Profile;
use perfprof_tui::kernel::attr::{Attr, Flag, sample};
use perfprof_tui::kernel::files::NewFile;
use perfprof_tui::panel::text::printable;
use perfprof_tui::perfdata::EventDesc;
use perfprof_tui::perfdata::features::{bit, event_desc, string};
use perfprof_tui::perfdata::write::Writer;
use perfprof_tui::record::SampleId;
use perfprof_tui::record::kinds::{Mmap, encode, encode_cgroup, encode_comm, misc, types};
use prost::Message;

/// ESC, BEL, CR, DEL, a C1 control, a bidirectional override, characters that XML forbids, and a forged line.
const EVIL: &str = "\u{1b}[31m\u{7}\r\u{7f}\u{9b}2J\u{202e}x\u{1}\u{fffe}\u{ffff}";
const FORGED: &str = "FORGED";
const COMM: &str = "a\u{1b}c\r\nFORGED";

fn hostile(dir: &Path) -> PathBuf {
    let mut attr = Attr { kind: 1, config: 0, ..Attr::default() };
    attr.sample_type =
        sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU | sample::PERIOD | sample::CALLCHAIN;
    attr.set(Flag::SampleIdAll, true);
    let event = EventDesc { name: format!("cpu-clock{EVIL}\n{FORGED}"), attr, ids: vec![1] };
    let path = dir.join(format!("r{EVIL}.data"));
    let mut writer =
        Writer::start(NewFile::create(&path).expect("created"), std::slice::from_ref(&event)).expect("begun");
    let trailer = |time| event.layout().encode_trailer(&SampleId { pid: 7, tid: 7, time, id: 1, cpu: 0 });
    let mut out = Vec::new();
    encode_cgroup(&mut out, 9, format!("/{EVIL}\n{FORGED}").as_bytes(), &trailer(1)).expect("fits");
    encode_comm(&mut out, 7, 7, false, COMM.as_bytes(), &trailer(1)).expect("fits");
    let name = format!("/tmp/{EVIL}\n{FORGED}/lib\u{1b}.so");
    let name = name.as_bytes();
    let map = Mmap { pid: 7, tid: 7, start: 0x1000, len: 0x1000, prot: 5, flags: 2, name, ..Mmap::default() };
    map.encode(&mut out, &trailer(2)).expect("fits");
    for i in 0..20u64 {
        let (kernel, user) = (0xffff_ffff_8100_0010u64, 0x1010u64);
        encode(&mut out, types::SAMPLE, misc::KERNEL, |out| {
            for word in [1, kernel, 7 | 7 << 32, 1000 + i * 1_000_000, 0, 1000] {
                out.extend_from_slice(&u64::to_le_bytes(word));
            }
            let chain = [4u64, 0u64.wrapping_sub(128), kernel, 0u64.wrapping_sub(512), user];
            chain.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        })
        .expect("fits");
    }
    writer.records(&out).expect("written");
    let said = string(&format!("host{EVIL}"));
    let sections = vec![event_desc(std::slice::from_ref(&event)), (bit::HOSTNAME, said)];
    writer.finish(sections, &[event]).expect("finished");
    path
}

/// Asserts that output has no control characters, and that no name starts a line.
fn harmless(what: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|_| panic!("{what} is not UTF-8"));
    let lines = text.replace("\r\n", "\n");
    let bad = lines.chars().find(|c| !matches!(c, '\n' | '\t') && printable(*c).is_some());
    assert!(bad.is_none(), "{what} has {bad:?}: {text:?}");
    let forged = lines.lines().find(|line| line.trim_start_matches("perfprof-tui: ").starts_with(FORGED));
    assert!(forged.is_none(), "{what}: {text}");
}

/// The names in a trace: of the event, processes, threads, functions and files.
fn texts_of(trace: &Trace) -> Vec<String> {
    let mut texts = Vec::new();
    for packet in &trace.packet {
        let defaults = packet.trace_packet_defaults.as_ref().and_then(|all| all.perf_sample_defaults.as_ref());
        texts.extend(defaults.and_then(|of| of.timebase.as_ref()).map(|timebase| timebase.name().to_owned()));
        let track = packet.track_descriptor.as_ref();
        texts.extend(track.and_then(|track| track.process.as_ref()).map(|of| of.process_name().to_owned()));
        texts.extend(track.and_then(|track| track.thread.as_ref()).map(|of| of.thread_name().to_owned()));
        let Some(new) = &packet.interned_data else { continue };
        let names = new.function_names.iter().chain(&new.mapping_paths);
        texts.extend(names.map(|name| String::from_utf8(name.str().to_vec()).expect("UTF-8")));
    }
    texts
}

fn tried(words: &[&str]) -> Output {
    let output = program().args(words).output().expect("ran");
    let what = words.join(" ");
    harmless(&what, &output.stdout);
    harmless(&what, &output.stderr);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{what}");
    output
}

#[test]
fn no_command_and_no_format_lets_a_control_character_through() {
    let dir = tempfile::tempdir().expect("dir");
    let (file, kallsyms) = (hostile(dir.path()), dir.path().join("kallsyms"));
    let symbols = format!("ffffffff81000000 T evil{}\nffffffff81000100 T _etext\n", EVIL.replace('\r', ""));
    std::fs::write(&kallsyms, symbols).expect("written");
    let (file, kallsyms) = (file.to_str().expect("text"), kallsyms.to_str().expect("text"));
    let with = |words: &[&str]| {
        let mut all = vec![words[0], file];
        all.extend(&words[1..]);
        all.extend(["--kallsyms", kallsyms]);
        let output = tried(&all);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let keys = "host,comm,pid,tid,cpu,dso,sym";
    for format in ["text", "csv", "json"] {
        let said = with(&["report", "--format", format, "-s", keys]);
        let json = format == "json";
        let text = String::from_utf8(said.clone()).expect("text");
        assert!(text.contains(if json { "\\u001b" } else { "␛" }) && text.contains("evil"), "{text}");
        if json {
            let report: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
            assert_eq!(report["events"][0]["rows"][0]["comm"], COMM, "JSON keeps the name, escaped");
        }
    }
    for words in [
        &["report", "-g", "caller"][..],
        &["report", "-g", "callee"],
        &["report", "-g", "folded,0,callee,count"],
        &["report", "-g", "flat,0", "-t", ";"],
        &["report", "--hierarchy"],
        &["report", "--header", "-w", "5,5,5"],
        &["report", "--header-only"],
        &["report", "--tasks"],
        &["report", "--mmaps"],
        &["report", "--stats"],
        &["report", "--coverage"],
        &["report", "--coverage", "--format", "csv"],
        &["script"],
        &["script", "-F", "+pid,+srcline"],
        &["export", "--to", "folded", "-o", "-"],
        &["export", "--to", "folded", "--annotate", "-o", "-"],
        &["export", "--to", "svg", "-o", "-"],
    ] {
        with(words);
    }
    for format in ["firefox", "speedscope"] {
        let said = with(&["export", "--to", format, "-o", "-"]);
        serde_json::from_slice::<serde_json::Value>(&said).expect("JSON");
    }
    for format in ["folded", "svg", "firefox", "speedscope", "pprof"] {
        let out = dir.path().join(format);
        with(&["export", "--to", format, "-o", out.to_str().expect("text")]);
        let bytes = std::fs::read(&out).expect("there");
        if format == "pprof" {
            let mut plain = Vec::new();
            std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut plain).expect("gzip");
            let profile = Profile::decode(&plain[..]).expect("pprof");
            assert!(profile.strings.iter().any(|text| text.contains('␛')));
            profile.strings.iter().for_each(|text| harmless(format, text.as_bytes()));
        } else {
            harmless(format, &bytes);
        }
    }
    let out = dir.path().join("perfetto");
    with(&["export", "--to", "perfetto", "-o", out.to_str().expect("text")]);
    let texts = texts_of(&Trace::decode(&*std::fs::read(&out).expect("there")).expect("a trace"));
    assert!(texts.iter().filter(|text| text.contains('␛')).count() >= 4, "{texts:?}");
    texts.iter().for_each(|text| harmless("perfetto", text.as_bytes()));
    for format in ["text", "csv", "json", "folded", "svg"] {
        tried(&["diff", file, file, "--format", format, "--per", "nothing", "--kallsyms", kallsyms]);
        // Compared with a recording without samples of that name: all samples are gone.
        let other = common::data("comm-hostile.data");
        tried(&["diff", file, other.to_str().expect("text"), "--format", format]);
    }
    for format in ["text", "json"] {
        tried(&["annotate", file, "--format", format, "--kallsyms", kallsyms]);
        tried(&["annotate", file, EVIL, "--format", format]);
    }
}

#[test]
fn no_unit_lets_a_control_character_through() {
    let dir = tempfile::tempdir().expect("dir");
    let file = hostile(dir.path());
    let files = [file, common::data("comm-hostile.data")];
    for spec in perfprof_tui::units::UNITS {
        for file in &files {
            for format in ["text", "csv", "json"] {
                tried(&[spec.name, file.to_str().expect("text"), "--batch", "--format", format]);
            }
        }
        tried(&[spec.name, files[0].to_str().expect("text"), "--folded", "-"]);
    }
}

#[test]
fn no_complaint_lets_a_control_character_through() {
    let dir = tempfile::tempdir().expect("dir");
    let file = hostile(dir.path());
    let file = file.to_str().expect("text");
    for words in [
        &["report", EVIL][..],
        &["report", file, "--event", EVIL],
        &["report", file, "--where", EVIL],
        &["report", file, "-s", EVIL],
        &["script", file, "-F", EVIL],
        &["export", file, "--to", "svg", "-o", EVIL, "--comms", "none"],
        &["export", file, "--to", "folded", "-o", "/nonexistent/\u{1b}x"],
        &["symbols", EVIL],
        &["list", EVIL],
        &["open", EVIL],
        &["probe", "--del", EVIL],
        &["stat", "-e", EVIL, "--", "true"],
        &["record", "-e", EVIL, "-o", "/dev/null", "--", "true"],
        &["record", "-o", "/nonexistent/\u{1b}x", "-e", "cpu-clock", "--", "true"],
        &["config", EVIL],
        &[EVIL],
        &["--\u{1b}x"],
        &["report", "--format", EVIL],
    ] {
        assert!(!tried(words).status.success() || words[0] == "list", "{words:?}");
    }
}
