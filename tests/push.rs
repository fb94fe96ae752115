//! `record --push` against a stand-in for the stores, which takes profiles apart as they would: it refuses at first,
//! and gets everything in the end.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use base64::Engine as _;
use common::{allowed, program, run, skipped};
use perfprof_tui::export::pprof::Profile;
use prost::Message;

/// A request as it came.
struct Request {
    line: String,
    head: String,
    body: Vec<u8>,
}

/// Answers so many requests with 503, all others with 200.
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

/// A gzipped pprof as the stores read it: every reference leads somewhere, and there are samples with names.
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
    let output = run(command.args(["--", "sh", "-c", "i=0; while [ $i -lt 700000 ]; do i=$((i+1)); done"]));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn can(test: &str) -> bool {
    if !allowed(test) {
        return false;
    }
    let curl = Command::new("curl").arg("--version").output().is_ok();
    if !curl {
        skipped(test, "there is no curl");
    }
    curl
}

#[test]
fn profiles_reach_pyroscope() {
    if !can("profiles_reach_pyroscope") {
        return;
    }
    let (url, requests) = store(1);
    let said = record(&url, &["--push-name", "shop", "--push-label", "tier=web"]);
    assert!(said.contains("it answers 503") && said.contains("takes profiles again"), "{said}");
    assert!(said.contains(", 0 not"), "{said}");
    let mut samples = 0;
    for request in requests.try_iter() {
        assert!(request.line.starts_with("POST /ingest?name=shop%7Bhost%3D"), "{}", request.line);
        assert!(
            request.line.contains("%2Ctier%3Dweb%7D&from=1") && request.line.contains("&format=pprof"),
            "{}",
            request.line
        );
        // multipart/form-data (RFC 7578): one part, called profile.
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
    if !can("profiles_reach_parca") {
        return;
    }
    let (url, requests) = store(0);
    let said = record(&url, &["--push-to", "parca"]);
    assert!(said.contains(", 0 not"), "{said}");
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

#[test]
fn a_store_that_is_not_there_is_said_and_an_address_that_is_none_is_refused() {
    if !can("a_store_that_is_not_there_is_said_and_an_address_that_is_none_is_refused") {
        return;
    }
    let refused = program().args(["record", "--push", "ftp://x", "--", "true"]).output().expect("ran");
    assert_eq!(refused.status.code(), Some(2));
    // A port that was just given back: nobody listens there.
    let url = format!("http://{}", TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("address"));
    let mut command = program();
    command.args(["record", "-e", "cpu-clock", "--push", &url, "--push-interval", "1"]);
    let output =
        command.args(["--", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]).output().expect("ran");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("profiles wait") && said.contains("0 profiles pushed, 1 not"), "{said}");
}
