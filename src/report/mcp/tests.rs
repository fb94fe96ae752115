//! Messages: replies, refusals, and the command lines of tools.

use super::*;
use crate::damage;

/// Returns the reply to a message, and the command that it ran.
fn exchange(line: &str, output: Result<String, String>) -> (Option<Value>, Option<Vec<String>>) {
    let mut ran = None;
    let reply = reply(line.as_bytes(), &mut |args| {
        ran = Some(args.to_vec());
        output.clone()
    });
    (reply, ran)
}

fn call(name: &str, arguments: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": name, "arguments": arguments } })
        .to_string()
}

fn error_of(reply: Option<Value>) -> i64 {
    reply.and_then(|reply| reply["error"]["code"].as_i64()).unwrap_or(0)
}

#[test]
fn a_session_begins_with_the_revision_of_the_client() {
    let begin = |revision: &str| {
        let params =
            json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } });
        let (reply, _) = exchange(
            &json!({ "jsonrpc": "2.0", "id": "a", "method": "initialize", "params": params }).to_string(),
            Ok(String::new()),
        );
        let reply = reply.expect("a reply");
        (reply["id"].clone(), reply["result"]["protocolVersion"].clone())
    };
    assert_eq!(begin("2024-11-05"), (json!("a"), json!("2024-11-05")));
    assert_eq!(begin("1999-01-01"), (json!("a"), json!(REVISIONS[0])));
    let silent =
        [r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#];
    assert_eq!(silent.map(|line| exchange(line, Ok(String::new())).0), [None, None]);
    let (reply, _) = exchange(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Ok(String::new()));
    assert_eq!(reply.map(|reply| reply["result"].clone()), Some(json!({})));
}

#[test]
fn tools_are_listed_with_their_arguments() {
    let (reply, _) = exchange(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, Ok(String::new()));
    let reply = reply.expect("a reply");
    let tools = reply["result"]["tools"].as_array().expect("a list");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["digest", "findings", "top", "callers", "diff", "waits", "locks"]);
    assert_eq!(tools[4]["inputSchema"]["required"], json!(["old", "new"]));
    assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true));
}

#[test]
fn a_call_is_a_command_line_that_reads() {
    let ran = |name: &str, arguments: Value| {
        let (reply, ran) = exchange(&call(name, arguments), Ok("{}".to_owned()));
        assert!(reply.is_some_and(|reply| reply["result"]["isError"] == false));
        ran.map(|args| args.join(" ")).unwrap_or_default()
    };
    assert_eq!(ran("digest", json!({})), "digest --format=json --for=10s");
    assert_eq!(ran("digest", json!({ "recording": "-x.data", "seconds": 5 })), "digest --format=json --input=-x.data");
    assert_eq!(ran("findings", json!({ "seconds": 900, "pid": "7" })), "digest --format=json --for=60s --pid=7");
    let top = ran("top", json!({ "recording": "a b", "where": "kernel" }));
    assert_eq!(top, "report --format=json --no-children -g none --input=a b --where=kernel");
    let callers = ran("callers", json!({ "recording": "a", "function": "f", "where": "kernel" }));
    assert!(callers.ends_with("--input=a --where=(kernel) && sym == \"f\""), "{callers}");
    assert_eq!(ran("waits", json!({ "seconds": 3, "pid": "7" })), "waits --batch --format=json --pid=7 --duration=3s");
    assert_eq!(ran("locks", json!({ "recording": "-x.data" })), "locks --batch --format=json ./-x.data");
    assert_eq!(ran("diff", json!({ "old": "-a", "new": "b" })), "diff --format=json -- -a b");
}

#[test]
fn output_is_shortened_to_the_rows() {
    let long = json!({ "findings": (0..50).collect::<Vec<_>>(), "processes": [1] }).to_string();
    let text = |name: &str, arguments: Value| {
        let (reply, _) = exchange(&call(name, arguments), Ok(long.clone()));
        reply.and_then(|reply| reply["result"]["content"][0]["text"].as_str().map(str::to_owned)).expect("a text")
    };
    let rows = |text: &str| serde_json::from_str::<Vec<u64>>(text).expect("a list").len();
    assert_eq!(rows(&text("findings", json!({}))), 20);
    let top: Value = serde_json::from_str(&text("top", json!({ "recording": "a", "rows": 3 }))).expect("JSON");
    assert_eq!(top["findings"].as_array().map(Vec::len), Some(3));
    let (reply, _) = exchange(&call("digest", json!({})), Err("no \u{1b}rights".to_owned()));
    let reply = reply.expect("a reply");
    assert_eq!(reply["result"]["isError"], true);
    assert!(reply["result"]["content"][0]["text"].as_str().is_some_and(|text| !text.chars().any(char::is_control)));
}

#[test]
fn wrong_messages_are_refused() {
    let code = |line: &str| {
        let (reply, ran) = exchange(line, Ok("{}".to_owned()));
        assert_eq!(ran, None, "{line}");
        error_of(reply)
    };
    assert_eq!(code("{"), PARSE);
    for line in ["[]", "7", "{}", r#"{"id":1}"#, r#"{"id":1,"method":7}"#] {
        assert_eq!(code(line), REQUEST, "{line}");
    }
    assert_eq!(code(r#"{"id":1,"method":"tools/delete"}"#), METHOD);
    for (name, arguments) in [
        ("shell", json!({})),
        ("top", json!({})),
        ("top", json!([])),
        ("top", json!({ "recording": "" })),
        ("top", json!({ "recording": 7 })),
        ("top", json!({ "recording": "a\u{0}b" })),
        ("top", json!({ "recording": "a", "rows": "x" })),
        ("top", json!({ "recording": "a".repeat(5000) })),
        ("top", json!({ "recording": "ssh://h" })),
        ("diff", json!({ "old": "a", "new": "http://h/x" })),
        ("digest", json!({ "output": "/etc/passwd" })),
    ] {
        assert_eq!(code(&call(name, arguments.clone())), PARAMS, "{name} {arguments}");
    }
    assert_eq!(code(r#"{"id":1,"method":"tools/call"}"#), PARAMS);
}

#[test]
fn no_message_panics() {
    const MESSAGES: &[&str] = &[
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"top","arguments":{"recording":"a","rows":5}}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"diff","arguments":{"old":"a","new":"b"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
    ];
    damage::reaching(512, 5, damage::texts(MESSAGES), |text| {
        let (reply, _) = exchange(&text, Ok("[[1,2],{\"a\":[3]}]".to_owned()));
        reply.is_some_and(|reply| reply.get("result").is_some())
    });
}
