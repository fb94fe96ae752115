//! `record --push` to a test server that validates profiles like the real stores: it rejects the first requests, and
//! receives every profile in the end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use crate::common::process::uses_cpu;
use crate::common::store::{TestStore, leaves, periods};
use crate::common::{allowed, installed, program, run};
use base64::Engine as _;
use perfprof_tui::export::pprof::Profile;
use prost::Message;

/// A received request.
struct Request {
    line: String,
    head: String,
    body: Vec<u8>,
}

/// Starts a server that answers the first `refused` requests with 503, all others with 200.
fn store(refused: usize) -> (String, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let url = format!("http://{}", listener.local_addr().expect("address"));
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for (i, stream) in listener.incoming().enumerate() {
            let mut reader = BufReader::new(stream.expect("stream"));
            let (mut line, mut head, mut length) = (String::new(), String::new(), 0);
            reader.read_line(&mut line).expect("line");
            loop {
                let mut field = String::new();
                reader.read_line(&mut field).expect("field");
                if field.trim().is_empty() {
                    break;
                }
                if let Some(value) = field.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                if field.to_lowercase().starts_with("expect:") {
                    reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").expect("written");
                }
                head.push_str(&field);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("body");
            let status = if i < refused { "503 Service Unavailable" } else { "200 OK" };
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = reader.get_mut().write_all(answer.as_bytes());
            if i >= refused && sender.send(Request { line, head, body }).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

/// Starts a server that rejects all requests and returns their credentials.
fn strict() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address").to_string();
    let (sender, seen) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.expect("stream"));
            let (mut given, mut length) = (String::new(), 0);
            loop {
                let mut field = String::new();
                if reader.read_line(&mut field).is_err() || field.trim().is_empty() {
                    break;
                }
                if field.to_lowercase().starts_with("authorization:") {
                    field.trim().clone_into(&mut given);
                }
                if let Some(value) = field.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
            }
            let _ = std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink());
            let answer = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            if sender.send(given).is_err() {
                return;
            }
            let _ = reader.get_mut().write_all(answer.as_bytes());
        }
    });
    (address, seen)
}

const SECRET: &str = "s3cr3t/p\u{e4}ss";

#[test]
fn no_message_has_a_password() {
    needs!(allowed(), installed("curl"));
    let dir = tempfile::tempdir().expect("dir");
    let (address, seen) = strict();
    // A wrapper logs the arguments of the program's curl: the process list must not contain a password.
    let spy =
        format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >> {}/argv\nPATH=$REAL exec curl \"$@\"\n", dir.path().display());
    let path = dir.path().join("curl");
    std::fs::write(&path, spy).expect("written");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    let real = std::env::var("PATH").expect("PATH");
    let pushed = |url: &str, file: Option<&str>, env: Option<&str>| {
        let mut command = program();
        command.env("REAL", &real).env("PATH", format!("{}:{real}", dir.path().display()));
        command.args(["record", "-e", "cpu-clock", "-F", "499", "--push", url, "--push-interval", "1"]);
        if let Some(text) = file {
            let auth = dir.path().join("auth");
            std::fs::write(&auth, text).expect("written");
            command.arg("--push-auth-file").arg(auth);
        }
        command.envs(env.map(|text| ("PERFPROF_PUSH_AUTH", text)));
        let busy = format!("{}; echo got=$PERFPROF_PUSH_AUTH", uses_cpu(200));
        let output = command.args(["--", "sh", "-c", &busy]).output().expect("ran");
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned();
        assert!(!said.contains("s3cr3t") && !said.contains("t0ken"), "{said}");
        said
    };
    // On a busy machine a run makes more than one request.
    let asked = || {
        let last = seen.try_iter().last().expect("asked");
        last.split_once(": ").expect("a field").1.to_owned()
    };
    let basic = |user: &str| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(user));
    let said = pushed(&format!("http://me:s3cr3t@{address}/?key=t0ken"), None, None);
    assert!(said.contains("answers 401") && said.contains("--push-auth-file"), "{said}");
    assert_eq!(asked(), basic("me:s3cr3t"));
    let said = pushed(&format!("http://{address}"), Some(&format!("me:{SECRET}\n")), None);
    assert!(said.contains("answers 401") && !said.contains("--push-auth-file"), "{said}");
    assert_eq!(asked(), basic(&format!("me:{SECRET}")));
    let said = pushed(&format!("http://{address}"), None, Some("Bearer t0ken"));
    assert!(said.contains("answers 401") && said.contains("got=\n"), "{said}");
    assert_eq!(asked(), "Bearer t0ken");
    // Invalid and unreachable addresses: each waits for its store until the end.
    std::thread::scope(|scope| {
        for url in [
            "http//me:s3cr3t@host",
            "http://me:s3cr3t@host:port/x",
            "http://me:s3cr3t /@h",
            "http://me:s3cr3t#x@nowhere.invalid",
        ] {
            scope.spawn(|| pushed(url, None, None));
        }
    });
    for text in ["s3cr3t", "Bearer s3cr3t t0ken", "me:s3cr3t\nt0ken"] {
        assert!(pushed(&format!("http://{address}"), Some(text), None).contains("USER:PASSWORD"));
    }
    let argv = std::fs::read_to_string(dir.path().join("argv")).expect("curl ran");
    assert!(!argv.contains("s3cr3t") && !argv.contains("t0ken"), "{argv}");
}

/// Decodes a gzipped pprof like the stores: all references are valid, and samples have names.
fn check(bytes: &[u8]) -> (i64, Vec<String>) {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain).expect("gzip");
    let profile = Profile::decode(plain.as_slice()).expect("pprof");
    let text = |at: i64| profile.strings.get(at as usize).expect("a string").clone();
    assert_eq!(profile.strings.first().map(String::as_str), Some(""));
    assert!(!profile.sample_type.is_empty() && profile.sample_type.iter().all(|kind| !text(kind.kind).is_empty()));
    let mut names = Vec::new();
    for sample in &profile.sample {
        assert_eq!(sample.value.len(), profile.sample_type.len());
        for id in &sample.location {
            let location = profile.location.iter().find(|location| location.id == *id).expect("a location");
            for line in &location.line {
                let function =
                    profile.function.iter().find(|function| function.id == line.function).expect("a function");
                names.push(text(function.name));
            }
        }
    }
    (profile.sample.iter().map(|sample| sample.value[0]).sum(), names)
}

fn record(url: &str, more: &[&str]) -> String {
    let mut command = program();
    command.args(["record", "-e", "cpu-clock", "-F", "499", "--push", url, "--push-interval", "1"]).args(more);
    let output = run(command.args(["--", "sh", "-c", &uses_cpu(1200)]));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The numbers of profiles that were pushed and that were not, from the summary at the end.
fn pushed_and_missed(said: &str) -> Option<(u32, u32)> {
    let (before, after) = said.split_once(" pushed, ")?;
    let before = before.rsplit_once(" profile")?.0;
    let pushed = before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    Some((pushed, after.split_once(" not")?.0.parse().ok()?))
}

#[test]
fn profiles_reach_pyroscope() {
    needs!(allowed(), installed("curl"));
    let (url, requests) = store(1);
    let said = record(&url, &["--push-name", "shop", "--push-label", "tier=web"]);
    assert!(said.contains("answers 503") && said.contains("accepts profiles again"), "{said}");
    assert_eq!(pushed_and_missed(&said).map(|(_, missed)| missed), Some(0), "{said}");
    let mut samples = 0;
    for request in requests.try_iter() {
        assert!(request.line.starts_with("POST /ingest?name=shop%7Bhost%3D"), "{}", request.line);
        assert!(
            request.line.contains("%2Ctier%3Dweb%7D&from=1") && request.line.contains("&format=pprof"),
            "{}",
            request.line
        );
        // multipart/form-data (RFC 7578): one part named profile.
        let boundary =
            request.head.split("boundary=").nth(1).expect("multipart").lines().next().expect("a line").trim();
        let start = request.body.windows(4).position(|w| w == b"\r\n\r\n").expect("a part") + 4;
        let part = String::from_utf8_lossy(&request.body[..start]).into_owned();
        assert!(part.contains("name=\"profile\""), "{part}");
        let end = request.body.len() - format!("\r\n--{boundary}--\r\n").len();
        let (n, names) = check(&request.body[start..end]);
        assert!(!names.is_empty());
        samples += n;
    }
    assert!(samples > 50, "{samples}");
}

#[test]
fn profiles_reach_parca() {
    needs!(allowed(), installed("curl"));
    let (url, requests) = store(0);
    let said = record(&url, &["--push-to", "parca"]);
    assert_eq!(pushed_and_missed(&said).map(|(_, missed)| missed), Some(0), "{said}");
    let mut samples = 0;
    for request in requests.try_iter() {
        assert!(request.line.starts_with("POST /profiles/writeraw "), "{}", request.line);
        let json: serde_json::Value = serde_json::from_slice(&request.body).expect("JSON");
        let series = &json["series"][0];
        let labels = series["labels"]["labels"].as_array().expect("labels");
        assert!(
            labels.iter().any(|label| label["name"] == "__name__" && label["value"] == "process_cpu"),
            "{labels:?}"
        );
        let raw = series["samples"][0]["rawProfile"].as_str().expect("a profile");
        samples += check(&base64::engine::general_purpose::STANDARD.decode(raw).expect("base64")).0;
    }
    assert!(samples > 50, "{samples}");
}

/// Both stores return each function's samples as they were pushed.
#[test]
fn pushed_profiles_are_read_back() {
    needs!(allowed(), installed("curl"));
    for (to, label) in [("pyroscope", "service_name"), ("parca", "job")] {
        let store = TestStore::start(None);
        let said = record(&format!("http://{}", store.address), &["--push-to", to, "--push-name", "shop"]);
        assert_eq!(pushed_and_missed(&said).map(|(_, missed)| missed), Some(0), "{said}");
        let kept = store.kept.lock().expect("unpoisoned").clone();
        assert!(store.types().len() == 2 && !kept.is_empty(), "{:?}", store.types());
        for kind in store.types() {
            let query = format!("{kind}{{{label}=\"shop\"}}");
            let mut command = program();
            command.args(["report", &format!("{to}://{}", store.address), "--query", &query]);
            let output = run(command.args(["-s", "sym", "--no-children", "--format", "json"]));
            let want = leaves(kept.iter().map(|one| &one.profile), &kind);
            assert!(want.values().sum::<u64>() > 50, "{want:?}");
            assert_eq!(periods(&output), want, "{to} {kind}");
        }
    }
}

#[test]
fn a_store_that_is_not_there_is_said_and_an_address_that_is_none_is_refused() {
    needs!(allowed(), installed("curl"));
    let refused = program().args(["record", "--push", "ftp://x", "--", "true"]).output().expect("ran");
    assert_eq!(refused.status.code(), Some(2));
    // A port that was just closed: no server listens on it.
    let url = format!("http://{}", TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("address"));
    let mut command = program();
    command.args(["record", "-e", "cpu-clock", "--push", &url, "--push-interval", "1"]);
    let output = command.args(["--", "sh", "-c", &uses_cpu(300)]).output().expect("ran");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    // The number of profiles depends on the run time of the command.
    let counts = pushed_and_missed(&said);
    assert!(counts.is_some_and(|(pushed, missed)| pushed == 0 && missed > 0), "{said}");
}
