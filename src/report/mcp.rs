//! The Model Context Protocol over standard input and output: requests, replies, and the tools.
//!
//! A message is a line of JSON (JSON-RPC 2.0; modelcontextprotocol.io, revision 2025-06-18). Each tool is a command line
//! of this program that only reads, so that its limits and its output are those of the command.

use serde_json::{Map, Value, json};

use crate::panel::text::clean;

/// The limit of a message in bytes.
pub const MAX_LINE: usize = 1 << 20;
/// The limits of rows and of a text argument.
const MAX_ROWS: u64 = 100;
const USUAL_ROWS: u64 = 20;
const MAX_TEXT: usize = 4096;
/// The revisions that this server speaks, the newest first.
const REVISIONS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];

/// The codes of errors of JSON-RPC 2.0.
const PARSE: i64 = -32700;
const REQUEST: i64 = -32600;
const METHOD: i64 = -32601;
const PARAMS: i64 = -32602;

/// A command line, and what is done with its JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The arguments after the program's name.
    pub args: Vec<String>,
    /// The part of the output that is returned, if not all of it.
    part: Option<&'static str>,
    rows: usize,
}

/// An argument of a tool.
struct Field {
    name: &'static str,
    about: &'static str,
    is_number: bool,
    is_required: bool,
}

const fn text(name: &'static str, about: &'static str) -> Field {
    Field { name, about, is_number: false, is_required: false }
}

const fn needed(name: &'static str, about: &'static str) -> Field {
    Field { is_required: true, ..text(name, about) }
}

const fn number(name: &'static str, about: &'static str) -> Field {
    Field { is_number: true, ..text(name, about) }
}

/// A tool: its arguments, and the command line that it stands for.
struct Tool {
    name: &'static str,
    about: &'static str,
    fields: &'static [Field],
    command: fn(&Given<'_>) -> ToolCall,
}

const WHERE: Field = text("where", "only samples that match this filter, such as comm == nginx && kernel");
const SECONDS: Field = number("seconds", "seconds to measure the running machine, 1 to 60, default 10");
const PID: Field = text("pid", "only these processes, numbers separated by commas");
const CONTAINER: Field = text("container", "only this container");
const RECORDING: Field = needed("recording", "path of a recording (perf.data)");
const MEASURED: Field = text("recording", "path of a recording; the running machine without it");
const ROWS: Field = number("rows", "maximum number of rows, 1 to 100, default 20");

const TOOLS: &[Tool] = &[
    Tool {
        name: "digest",
        about: "One page about a recording, or about the running machine: findings, busiest processes with their hottest \
                functions, heaviest call paths, CPUs, code without names",
        fields: &[MEASURED, SECONDS, PID, CONTAINER, WHERE],
        command: digest,
    },
    Tool {
        name: "findings",
        about: "Findings about the running machine, the worst first: figure, culprit, evidence, and \
                the command that shows more",
        fields: &[SECONDS, PID, CONTAINER],
        command: |given| ToolCall { part: Some("findings"), ..digest(given) },
    },
    Tool {
        name: "top",
        about: "The functions of a recording with the most samples",
        fields: &[RECORDING, WHERE, text("sort", "columns that rows are grouped by, default comm,dso,sym"), ROWS],
        command: |given| {
            let mut call = given.call(&["report", "--format=json", "--no-children", "-g", "none"]);
            given.option(&mut call, "recording", "--input");
            given.option(&mut call, "where", "--where");
            given.option(&mut call, "sort", "--sort");
            call
        },
    },
    Tool {
        name: "callers",
        about: "The call chains that lead to a function of a recording",
        fields: &[RECORDING, needed("function", "name of the function"), WHERE, ROWS],
        command: |given| {
            let mut call =
                given.call(&["report", "--format=json", "--no-children", "--sort=sym", "-g", "graph,0.5,callee"]);
            given.option(&mut call, "recording", "--input");
            let function = crate::filter::equals("sym", given.text("function"));
            let clause =
                given.get("where").map_or_else(|| function.clone(), |clause| format!("({clause}) && {function}"));
            call.args.push(format!("--where={clause}"));
            call
        },
    },
    Tool {
        name: "diff",
        about: "The differences between two recordings, with the verdict of a test of chance",
        fields: &[
            needed("old", "path of the recording to compare with"),
            needed("new", "path of the recording"),
            WHERE,
            ROWS,
        ],
        command: |given| {
            let mut call = given.call(&["diff", "--format=json"]);
            given.option(&mut call, "where", "--where");
            call.args.extend(["--".to_owned(), given.text("old").to_owned(), given.text("new").to_owned()]);
            call
        },
    },
    Tool {
        name: "waits",
        about: "Where the time of each thread goes: CPU, run queue, locks, disks, network, pipes, timers, waiting for work",
        fields: &[MEASURED, SECONDS, PID, ROWS],
        command: |given| unit("waits", given),
    },
    Tool {
        name: "locks",
        about: "Locks with the threads that wait for them, their times, and the holders",
        fields: &[MEASURED, SECONDS, PID, ROWS],
        command: |given| unit("locks", given),
    },
];

/// Runs a unit over a recording, or over the running machine for some seconds.
fn unit(name: &str, given: &Given<'_>) -> ToolCall {
    let mut call = given.call(&[name, "--batch", "--format=json"]);
    given.option(&mut call, "pid", "--pid");
    match given.get("recording") {
        // The path must not be parsed as an option.
        Some(path) if path.starts_with('-') => call.args.push(format!("./{path}")),
        Some(path) => call.args.push(path.to_owned()),
        None => call.args.push(format!("--duration={}s", given.seconds())),
    }
    call
}

fn digest(given: &Given<'_>) -> ToolCall {
    let mut call = given.call(&["digest", "--format=json"]);
    match given.get("recording") {
        Some(_) => given.option(&mut call, "recording", "--input"),
        None => call.args.push(format!("--for={}s", given.seconds())),
    }
    for (name, option) in [("pid", "--pid"), ("container", "--container"), ("where", "--where")] {
        given.option(&mut call, name, option);
    }
    call
}

/// The arguments of a call, which were checked.
struct Given<'a>(&'a Map<String, Value>);

impl Given<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    /// Returns how long the running machine is measured.
    fn seconds(&self) -> u64 {
        self.number("seconds").unwrap_or(10).clamp(1, 60)
    }

    fn call(&self, args: &[&str]) -> ToolCall {
        let rows = self.number("rows").unwrap_or(USUAL_ROWS).clamp(1, MAX_ROWS) as usize;
        ToolCall { args: args.iter().map(|arg| (*arg).to_owned()).collect(), part: None, rows }
    }

    /// Adds an option in the form with `=`, so that no value is taken for an option.
    fn option(&self, call: &mut ToolCall, name: &str, option: &str) {
        call.args.extend(self.get(name).map(|value| format!("{option}={value}")));
    }
}

impl ToolCall {
    /// Returns the text of a reply from the command's output.
    fn content(&self, output: &str) -> String {
        let Ok(mut whole) = serde_json::from_str::<Value>(output) else { return clean(output).into_owned() };
        if let Some(part) = self.part {
            whole = whole.get_mut(part).map_or(Value::Null, Value::take);
        }
        cut(&mut whole, self.rows);
        whole.to_string()
    }
}

/// Shortens the lists of rows.
fn cut(value: &mut Value, rows: usize) {
    match value {
        Value::Array(list) => {
            list.truncate(rows);
            list.iter_mut().for_each(|one| cut(one, rows));
        }
        Value::Object(fields) => fields.values_mut().for_each(|one| cut(one, rows)),
        _ => {}
    }
}

/// Returns the reply to a message, if it is a request; `run` carries out a tool's command and returns its output.
pub fn reply(line: &[u8], run: &mut dyn FnMut(&[String]) -> Result<String, String>) -> Option<Value> {
    let message: Value = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(error) => return Some(failure(Value::Null, PARSE, &format!("not JSON: {error}"))),
    };
    let id = message.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
    let Some(method) = message.get("method").and_then(Value::as_str) else {
        let is_response = message.get("result").is_some() || message.get("error").is_some();
        return (!is_response).then(|| failure(id.unwrap_or(Value::Null), REQUEST, "expected a request with a method"));
    };
    // A message without an id is a notification.
    let id = id?;
    let params = message.get("params").cloned().unwrap_or(Value::Null);
    Some(match method {
        "initialize" => success(&id, initialized(&params)),
        "ping" => success(&id, json!({})),
        "tools/list" => success(&id, json!({ "tools": TOOLS.iter().map(Tool::described).collect::<Vec<_>>() })),
        "tools/call" => match called(&params) {
            Ok(call) => success(&id, result(&call, run(&call.args))),
            Err(why) => failure(id, PARAMS, &why),
        },
        other => {
            failure(id, METHOD, &format!("unknown method {}", clean(&other.chars().take(100).collect::<String>())))
        }
    })
}

fn success(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// Returns the reply to an invalid message.
pub fn failure(id: Value, code: i64, why: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": why } })
}

/// Returns the reply to a message that is too long.
pub fn too_long() -> Value {
    failure(Value::Null, REQUEST, &format!("a message is longer than {MAX_LINE} bytes"))
}

fn initialized(params: &Value) -> Value {
    let wanted = params.get("protocolVersion").and_then(Value::as_str);
    let revision =
        wanted.and_then(|wanted| REVISIONS.into_iter().find(|known| *known == wanted)).unwrap_or(REVISIONS[0]);
    json!({
        "protocolVersion": revision,
        "capabilities": { "tools": {} },
        "serverInfo": { "name": "perfprof-tui", "version": env!("CARGO_PKG_VERSION") },
        "instructions": "Profiles of this machine and of recordings. Start with findings or digest; all tools only read.",
    })
}

fn result(call: &ToolCall, output: Result<String, String>) -> Value {
    let is_error = output.is_err();
    let text = match output {
        Ok(output) => call.content(&output),
        Err(why) => why.lines().map(|line| clean(line).into_owned()).collect::<Vec<_>>().join("\n"),
    };
    json!({ "content": [{ "type": "text", "text": text }], "isError": is_error })
}

/// Checks a call of a tool.
fn called(params: &Value) -> Result<ToolCall, String> {
    let name = params.get("name").and_then(Value::as_str).ok_or("a call needs the name of a tool")?;
    let tool = TOOLS.iter().find(|tool| tool.name == name);
    let names = || TOOLS.iter().map(|tool| tool.name).collect::<Vec<_>>().join(", ");
    let tool = tool.ok_or_else(|| format!("unknown tool; available: {}", names()))?;
    let none = Map::new();
    let given = match params.get("arguments") {
        None | Some(Value::Null) => &none,
        Some(Value::Object(given)) => given,
        Some(_) => return Err("arguments must be an object".to_owned()),
    };
    for (key, value) in given {
        let field = tool.fields.iter().find(|field| field.name == key);
        let known = || tool.fields.iter().map(|field| field.name).collect::<Vec<_>>().join(", ");
        let field = field.ok_or_else(|| format!("unknown argument; available: {}", known()))?;
        let is_valid = match field.is_number {
            true => value.as_u64().is_some(),
            false => {
                value.as_str().is_some_and(|text| !text.is_empty() && text.len() <= MAX_TEXT && !text.contains('\0'))
            }
        };
        if !is_valid {
            let kind = if field.is_number { "a whole number" } else { "a text of at most 4096 bytes" };
            return Err(format!("{}: expected {kind}", field.name));
        }
        // Addresses would be fetched, or start a recording on another machine.
        let is_path = ["recording", "old", "new"].contains(&field.name);
        if is_path && value.as_str().is_some_and(|text| text.contains("://")) {
            return Err(format!("{}: expected the path of a file, not an address", field.name));
        }
    }
    match tool.fields.iter().find(|field| field.is_required && !given.contains_key(field.name)) {
        Some(missing) => Err(format!("{} needs the argument {}", tool.name, missing.name)),
        None => Ok((tool.command)(&Given(given))),
    }
}

impl Tool {
    fn described(&self) -> Value {
        let property = |field: &Field| {
            let kind = if field.is_number { "integer" } else { "string" };
            (field.name.to_owned(), json!({ "type": kind, "description": field.about }))
        };
        let properties: Map<String, Value> = self.fields.iter().map(property).collect();
        let required: Vec<&str> =
            self.fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
        json!({
            "name": self.name,
            "description": self.about,
            "inputSchema": { "type": "object", "properties": properties, "required": required, "additionalProperties": false },
            "annotations": { "readOnlyHint": true },
        })
    }
}

#[cfg(test)]
mod tests;
