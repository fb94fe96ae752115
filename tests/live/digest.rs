//! The page of `digest` on a known load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::process::Running;
use crate::common::{allowed, program, run};

/// Refused connections on loopback are a finding about the network.
#[test]
fn refused_connections_are_a_finding() {
    needs!(allowed());
    let (stop, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let dialer = {
        let (stop, begun) = (stop.clone(), begun.clone());
        std::thread::spawn(move || {
            // Nothing listens on a port that was just released.
            let own = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = own.local_addr().expect("a port").port();
            drop(own);
            while !stop.load(Ordering::Relaxed) {
                let _ = std::net::TcpStream::connect(("127.0.0.1", port));
                begun.store(true, Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        })
    };
    while !begun.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
    let mut found = serde_json::Value::Null;
    // Others' connections that succeed lower the share.
    for _ in 0..5 {
        let page = run(program().args(["digest", "--for", "4s", "--format", "json"])).stdout;
        let page: serde_json::Value = serde_json::from_slice(&page).expect("JSON");
        let findings = page["findings"].as_array().expect("a list");
        found = findings.iter().find(|one| one["cause"] == "connect-failures").cloned().unwrap_or_default();
        if !found.is_null() {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    dialer.join().expect("ends");
    assert!(found["figure"].as_str().is_some_and(|figure| figure.ends_with(" of connects fail")), "{found}");
    assert_eq!((&found["area"], &found["confidence"]), (&"network".into(), &"counted".into()), "{found}");
}

/// A process that keeps one CPU busy in its own code is the only process of its page, with its function.
#[test]
fn the_page_of_a_process_has_its_function_and_cpus() {
    needs!(allowed());
    let child = Running::busy("spin");
    let pid = child.pid().to_string();
    let args = ["digest", "-p", &pid, "--for", "2s", "--format", "json"];
    let page: serde_json::Value = serde_json::from_slice(&run(program().args(args)).stdout).expect("JSON");
    let processes = page["processes"].as_array().expect("a list");
    assert_eq!(processes.len(), 1, "{page}");
    assert_eq!(processes[0]["pid"], child.pid(), "{page}");
    assert!(processes[0]["pct"] == 100.0 && processes[0]["cpus"].as_f64() > Some(0.01), "{page}");
    assert_eq!(page["more"], format!("perfprof-tui --pid={pid}, key 1"));
    assert!(!page["paths"].as_array().expect("a list").is_empty(), "{page}");
}
