//! Profiles that are read back from stores: a store of our own answers by the published protocols of Pyroscope and Parca.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
use std::path::Path;

use crate::common::store::{TestStore, leaves, now, periods};
use crate::common::{data, installed, program, run};

const MINUTE: u64 = 60_000;
const KINDS: [&str; 2] = ["pyroscope", "parca"];
/// The recordings that are pushed, and how long ago.
const PUSHED: [(&str, &str, u64); 2] = [("fp-spin.data", "cart", 40), ("fp-sysmix.data", "shop", 5)];

/// Exports a recording in the format that `record --push` sends.
fn pprof(recording: &str, dir: &Path) -> Vec<u8> {
    let path = dir.join(recording).with_extension("pprof");
    run(program().arg("export").arg(data(recording)).args(["--to", "pprof", "-o"]).arg(&path));
    std::fs::read(&path).expect("written")
}

/// Starts a store that has two recordings; returns also the profile type of their periods.
fn filled(auth: Option<&'static str>) -> (TestStore, String) {
    let dir = tempfile::tempdir().expect("dir");
    let store = TestStore::start(auth);
    for (recording, service, ago) in PUSHED {
        store.keep(now() - ago * MINUTE, &[("service_name", service)], &pprof(recording, dir.path()));
    }
    let kind = store.types().into_iter().find(|kind| !kind.contains(":samples:")).expect("a type");
    (store, kind)
}

fn report(address: &str, more: &[&str]) -> BTreeMap<String, u64> {
    let mut command = program();
    command.args(["report", address, "-s", "sym", "--no-children", "--format", "json"]);
    periods(&run(command.args(more)))
}

/// Returns the periods of leaves in the profiles of some services.
fn pushed(store: &TestStore, kind: &str, services: &[&str]) -> BTreeMap<String, u64> {
    let kept = store.kept.lock().expect("unpoisoned");
    let wanted = kept.iter().filter(|one| services.contains(&one.labels["service_name"].as_str()));
    leaves(wanted.map(|one| &one.profile), kind)
}

#[test]
fn a_store_returns_what_was_pushed() {
    needs!(installed("curl"));
    let (store, kind) = filled(None);
    // A query may shorten the type.
    let short = kind.splitn(3, ':').take(2).collect::<Vec<_>>().join(":");
    for scheme in KINDS {
        let address = format!("{scheme}://{}/", store.address);
        let all = pushed(&store, &kind, &["cart", "shop"]);
        assert_eq!(report(&address, &["--query", &short]), all, "{scheme}");
        let cart = pushed(&store, &kind, &["cart"]);
        assert!(cart.len() < all.len(), "{cart:?}");
        let query = format!("{short}{{service_name=\"cart\"}}");
        assert_eq!(report(&address, &["--query", &query]), cart, "{scheme}");
        let inside = format!("{address}?query={query}&from=-50m");
        assert_eq!(report(&inside, &["--until", "-30m"]), cart, "{scheme}");
        let late = pushed(&store, &kind, &["shop"]);
        assert_eq!(report(&address, &["--query", &short, "--from", "-10m"]), late, "{scheme}");
        // Samples have the times of the store's series.
        assert_eq!(report(&address, &["--query", &short, "--time", "-10m,"]), late, "{scheme}");
    }
    // The series shows which parts of the time have profiles: each of the two is in one of at most four.
    let requests = store.requests.lock().expect("unpoisoned");
    let merges = requests.iter().filter(|line| line.contains("SelectMergeProfile")).count();
    assert!((10..=5 * 9).contains(&merges), "{merges}: {requests:?}");
}

#[test]
fn two_times_and_two_services_are_compared() {
    needs!(installed("curl"));
    let (store, kind) = filled(None);
    for scheme in KINDS {
        let address = format!("{scheme}://{}", store.address);
        let diff = |more: &[&str]| {
            let mut command = program();
            command.args(["diff", &address, &address, "--format", "json", "-s", "sym"]);
            let report: serde_json::Value = serde_json::from_slice(&run(command.args(more)).stdout).expect("json");
            ["old", "new"].map(|side| report[side]["period"].as_u64().expect("a period"))
        };
        let total = |service: &str| pushed(&store, &kind, &[service]).values().sum::<u64>();
        let want = [total("cart"), total("shop")];
        let times = ["--query", &kind, "--from", "-1h", "--from", "-20m", "--until", "-20m", "--until", "now"];
        assert_eq!(diff(&times), want, "{scheme}");
        let query = |service: &str| format!("{kind}{{service_name=\"{service}\"}}");
        assert_eq!(diff(&["--query", &query("cart"), "--query", &query("shop")]), want, "{scheme}");
    }
}

/// Runs a report that fails; returns its exit code and its message.
fn failed(args: &[&str], env: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = program().arg("report").args(args).envs(env.iter().copied()).output().expect("runs");
    assert!(!output.status.success(), "{args:?}");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_wrong_query_is_answered_with_what_the_store_has() {
    needs!(installed("curl"));
    let (store, kind) = filled(None);
    for scheme in KINDS {
        let address = format!("{scheme}://{}", store.address);
        let wrong = |query: &str, parts: &[&str]| {
            let (code, said) = failed(&[&address, "--query", query], &[]);
            assert!(code == Some(2) && parts.iter().all(|part| said.contains(part)), "{query}: {said}"); // words: ok
        };
        let (code, said) = failed(&[&address], &[]);
        let parts = ["--query is missing", kind.as_str(), "labels: service_name"];
        assert!(code == Some(2) && parts.iter().all(|part| said.contains(part)), "{said}"); // words: ok
        wrong("process_cpv:x", &["unknown profile type process_cpv:x", kind.as_str(), "labels: service_name"]);
        wrong("process_cpu", &["more than one type", kind.as_str()]);
        wrong(&format!("{kind}{{service=\"cart\"}}"), &["no label is named service", "service_name"]);
        wrong(&format!("{kind}{{service_name=\"carts\"}}"), &["service_name=\"carts\"; nearest: cart", "cart, shop"]);
        wrong(&format!("{kind}{{"), &["expected TYPE"]);
        let (code, said) = failed(&[&address, "--query", &kind, "--from", "-20m", "--until", "-10m"], &[]);
        assert!(code == Some(2) && said.contains("from -20m until -10m"), "{said}"); // words: ok
        let (code, said) = failed(&[&address, "--query", &kind, "--from", "-1x"], &[]);
        assert!(code == Some(2) && said.contains("--from -1x"), "{said}"); // words: ok
    }
    let data = data("fp-spin.data");
    let (code, said) = failed(&[&data.to_string_lossy(), "--query", &kind], &[]);
    assert!(code == Some(2) && said.contains("need a store's address"), "{said}"); // words: ok
}

#[test]
fn a_token_opens_a_store() {
    needs!(installed("curl"));
    let (store, kind) = filled(Some("bearer t0ken"));
    for scheme in KINDS {
        let address = format!("{scheme}://{}", store.address);
        let (code, said) = failed(&[&address, "--query", &kind], &[("PERFPROF_STORE_AUTH", "Bearer wr0ng")]);
        assert!(code == Some(1) && said.contains("PERFPROF_STORE_AUTH") && !said.contains("wr0ng"), "{said}"); // words: ok
        let mut command = program();
        command.args(["report", &address, "--query", &kind, "-s", "sym", "--no-children", "--format", "json"]);
        let found = periods(&run(command.env("PERFPROF_STORE_AUTH", "Bearer t0ken")));
        assert_eq!(found, pushed(&store, &kind, &["cart", "shop"]), "{scheme}");
    }
}

/// A server that answers each request with this status and body; the stated length may be longer.
fn server(status: &'static str, body: &'static [u8], length: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let address = listener.local_addr().expect("address").to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
            // Unread bytes would reset the connection.
            let _ = stream.shutdown(Shutdown::Write);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    address
}

#[test]
fn other_servers_are_named_and_hostile_ones_are_bounded() {
    needs!(installed("curl"));
    let page: &[u8] = b"<html>\x1b[2J</html>";
    let full = b"{\"code\":2,\"message\":\"\\u001b[31mfull\"}";
    let types = b"{\"types\":[{\"name\":\"\\u001b[2Ja\"},{\"name\":\"b\\nc\"}]}";
    for scheme in KINDS {
        let of = |status, body: &'static [u8], length| {
            let (code, said) = failed(&[&format!("{scheme}://{}", server(status, body, length))], &[]);
            assert!(!said.contains('\x1b'), "{said:?}");
            (code, said)
        };
        let (code, said) = of("404 Not Found", page, page.len());
        assert!(code == Some(1) && said.contains("server: it answers HTTP 404"), "{said}"); // words: ok
        let (code, said) = of("200 OK", page, page.len());
        assert!(code == Some(1) && said.contains("the usual port is"), "{said}"); // words: ok
        let (code, said) = of("500 Internal Server Error", full, full.len());
        assert!(code == Some(1) && said.contains("full") && said.contains("HTTP 500"), "{said}"); // words: ok
        let (code, said) = of("200 OK", types, types.len());
        assert!(code == Some(2) && said.contains("no profiles"), "{said}"); // words: ok
        // The connection ends before the stated length.
        assert_eq!(of("200 OK", b"{", 1000).0, Some(1));
    }
    let closed = TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("address");
    let (code, said) = failed(&[&format!("parca://{closed}")], &[]);
    assert!(code == Some(1) && said.contains("check the address"), "{said}"); // words: ok
}
