//! The server of the Model Context Protocol: a session on standard input and output, about recordings.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::common::{data, program};

/// Sends messages to the server, and returns its replies.
fn session(messages: &[Value]) -> Vec<Value> {
    let mut child = program().arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let mut input = child.stdin.take().expect("piped");
    for message in messages {
        writeln!(input, "{message}").expect("written");
    }
    drop(input);
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn call(id: u64, name: &str, arguments: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } })
}

fn content(reply: &Value) -> Value {
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    serde_json::from_str(reply["result"]["content"][0]["text"].as_str().expect("a text")).expect("JSON")
}

#[test]
fn an_assistant_asks_about_recordings() {
    let path = data("fp-sysmix.data").display().to_string();
    let replies = session(&[
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": "2025-06-18" } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        call(2, "digest", &json!({ "recording": path })),
        call(3, "top", &json!({ "recording": path, "rows": 3, "sort": "sym" })),
        call(4, "diff", &json!({ "old": path, "new": path })),
        call(5, "top", &json!({ "recording": "/no/such/file" })),
    ]);
    assert_eq!(replies.iter().map(|reply| &reply["id"]).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(replies[0]["result"]["serverInfo"]["name"], "perfprof-tui");
    let (digest, top) = (content(&replies[1]), content(&replies[2]));
    assert!(digest["samples"].as_u64() > Some(0), "{digest}");
    let rows = top["events"][0]["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 3);
    let function = rows[0]["sym"].as_str().expect("a name");
    assert_eq!(content(&replies[3])["rows"], json!([]), "a recording does not differ from itself");
    assert_eq!(replies[4]["result"]["isError"], true);
    let callers = session(&[call(1, "callers", &json!({ "recording": path, "function": function }))]);
    let callers = content(&callers[0]);
    assert_eq!(callers["events"][0]["rows"][0]["sym"], function, "{callers}");
    assert!(callers["events"][0]["rows"][0]["callers"].as_array().is_some_and(|list| !list.is_empty()), "{callers}");
}

/// A line without an end or of any length is refused, and the next one is answered.
#[test]
fn a_message_that_is_too_long_is_skipped() {
    let long = json!({ "jsonrpc": "2.0", "id": 1, "method": "x".repeat(2 << 20) });
    let replies = session(&[long, json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" })]);
    assert_eq!(replies[0]["error"]["code"], -32600);
    assert_eq!(replies[1], json!({ "jsonrpc": "2.0", "id": 2, "result": {} }));
}
