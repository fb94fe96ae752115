//! `mcp`: serves the Model Context Protocol on standard input and output. Each call of a tool runs this program again.

use std::io::{BufRead, Read};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::report::mcp;

use crate::cli::output::print_json_line;

/// The limits of a command's time and of its output in bytes.
const MAX_TIME: Duration = Duration::from_secs(120);
const MAX_OUTPUT: u64 = 16 << 20;
/// The interval of checks whether a command has ended.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) fn run() -> anyhow::Result<u8> {
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let most = mcp::MAX_LINE as u64 + 1;
        let read = input.by_ref().take(most).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(0);
        }
        let reply = match line.last() {
            Some(b'\n') if line.trim_ascii().is_empty() => None,
            Some(b'\n') => mcp::reply(&line, &mut execute),
            // The last line may lack its end; a longer one is skipped.
            _ if (read as u64) < most => mcp::reply(&line, &mut execute),
            _ => {
                skip_line(&mut input)?;
                Some(mcp::too_long())
            }
        };
        if let Some(reply) = reply {
            print_json_line(&reply)?;
        }
    }
}

/// Skips the rest of a line.
fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let (end, used) = match memchr::memchr(b'\n', buffer) {
            Some(at) => (true, at + 1),
            None => (buffer.is_empty(), buffer.len()),
        };
        input.consume(used);
        if end {
            return Ok(());
        }
    }
}

/// Runs this program with arguments; returns its output, or the reason of its failure.
fn execute(args: &[String]) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let (out, err) = (reader(child.stdout.take())?, reader(child.stderr.take())?);
    let until = Instant::now() + MAX_TIME;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the command did not end within {} seconds", MAX_TIME.as_secs()));
            }
        }
    };
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    match status.success() {
        true if out.len() as u64 >= MAX_OUTPUT => {
            Err(format!("the answer exceeds {} MiB; ask for fewer rows, or for less with where", MAX_OUTPUT >> 20))
        }
        true => Ok(out),
        false if err.trim().is_empty() => Err(format!("the command failed: {status}")),
        false => Err(err),
    }
}

/// Reads a pipe in a thread of its own, up to the limit.
fn reader(pipe: Option<impl Read + Send + 'static>) -> Result<JoinHandle<String>, String> {
    let work = move || {
        let mut text = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(MAX_OUTPUT).read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    };
    crate::kernel::thread("output", work).map_err(|error| error.to_string())
}
