//! `digest`: one page about what was sampled. Never longer than [`MOST_BYTES`].

mod facts;

use serde_json::{Value, json};

use crate::lang::counted;
use crate::machine::triage::{MachineFinding, Severity};
use crate::panel::text::{clean, fit_end, width, wrap};
use crate::panel::unit::{percent, thousands};
use crate::report::json::round;

pub(crate) use facts::DigestSpec;

/// The maximum length of a page in bytes.
pub(crate) const MOST_BYTES: usize = 8 << 10;
/// The maximum width of a line in cells, and its maximum length in bytes.
const WIDTH: usize = 150;
const LINE_BYTES: usize = 220;
/// The maximum number of lines of a row.
const LINES_OF_ROW: usize = 2;
/// The maximum number of rows of each section.
const MOST_ROWS: usize = 5;

/// The contents of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Digest {
    /// The machine, the kernel and its architecture; parts that are unknown are left out.
    pub(crate) machine: String,
    pub(crate) event: String,
    /// Seconds between the first and the last sample.
    pub(crate) seconds: f64,
    pub(crate) samples: u64,
    /// The stored samples are sums of an unknown number of samples: `samples` counts stacks.
    pub(crate) counts_stacks: bool,
    pub(crate) lost: u64,
    /// The average number of busy CPUs, if the event is a clock, and the number of sampled ones; 0 if unknown.
    pub(crate) busy: Option<f64>,
    pub(crate) cpus: usize,
    pub(crate) findings: Vec<MachineFinding>,
    /// The start of the session on the clock of findings.
    pub(crate) start: u64,
    pub(crate) processes: Vec<DigestProcess>,
    pub(crate) paths: Vec<DigestPath>,
    pub(crate) by_cpu: Vec<DigestCpu>,
    pub(crate) unnamed: Vec<DigestUnnamed>,
    /// Missing and damaged parts, a sentence each.
    pub(crate) notes: Vec<String>,
    /// The options that select the same samples for `report`, or for the live screen if there is no file.
    pub(crate) again: Again,
}

/// The command lines that show more.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Again {
    /// The recording as a shell word; `None` for the running machine.
    pub(crate) file: Option<String>,
    /// Options of the selection, each with a blank before it.
    pub(crate) options: String,
}

impl Again {
    /// Returns the command for these options of `report`, or for this screen of a live view of the same target.
    fn command(&self, options: &str, screen: char) -> String {
        match &self.file {
            Some(file) => format!("perfprof-tui report {file}{}{options}", self.options),
            None => format!("perfprof-tui{}, key {screen}", self.options),
        }
    }
}

/// A process with the most samples.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DigestProcess {
    pub(crate) comm: String,
    pub(crate) pid: i32,
    /// Threads with samples.
    pub(crate) threads: usize,
    /// In percent of all samples.
    pub(crate) share: f64,
    /// The average number of CPUs that it uses, if the event is a clock.
    pub(crate) cpus: Option<f64>,
    /// The percentage of its samples outside of user code.
    pub(crate) kernel: f64,
    /// The function with the most samples of its own and its DSO, and the percentage of the process's samples.
    pub(crate) function: String,
    pub(crate) function_share: f64,
}

/// A heavy call path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DigestPath {
    pub(crate) comm: String,
    /// In percent of all samples; no sample is in two paths.
    pub(crate) share: f64,
    /// Functions, callers first.
    pub(crate) functions: Vec<String>,
}

/// The use of a CPU, in percent of its time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DigestCpu {
    pub(crate) cpu: u16,
    pub(crate) busy: f64,
    /// Softirqs and interrupts.
    pub(crate) soft: f64,
    /// The softirq vector with the most samples.
    pub(crate) vector: Option<&'static str>,
}

/// Code without names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DigestUnnamed {
    pub(crate) dso: String,
    /// In percent of all samples.
    pub(crate) share: f64,
    pub(crate) remedy: String,
    /// Whether the remedy begins with the DSO.
    pub(crate) remedy_has_dso: bool,
}

impl Digest {
    /// Returns the page in at most `lines` lines and [`MOST_BYTES`] bytes; rows are left out to fit.
    pub(crate) fn text(&self, lines: usize) -> String {
        let fits = |text: &String| text.len() <= MOST_BYTES && text.lines().count() <= lines;
        let page = (1..=MOST_ROWS).rev().map(|rows| self.page(rows)).find(fits);
        page.unwrap_or_else(|| self.page(1).lines().take(lines).map(|line| format!("{line}\n")).collect())
    }

    fn page(&self, rows: usize) -> String {
        let mut out = self.head();
        let plain = |of: &dyn Fn(usize) -> String, n: usize| (0..n.min(rows)).map(of).collect::<Vec<_>>();
        let findings = |at: usize| {
            let found = &self.findings[at];
            let mark = if found.severity == Severity::Bad { '!' } else { '-' };
            (format!("{mark} {}", found.text()), found.look.command())
        };
        let mut found: Vec<String> = (0..self.findings.len().min(rows)).map(findings).flat_map(with_command).collect();
        if found.is_empty() {
            found.push("none".to_owned());
        }
        section(&mut out, "Findings", &found, "");
        let processes = plain(&|at| self.processes[at].line(self.tested()), self.processes.len());
        let more = self.again.command(" -s pid,comm,sym", '1');
        section(&mut out, &self.busy_title(), &processes, &more);
        let paths = plain(&|at| self.paths[at].line(self.tested()), self.paths.len());
        section(&mut out, "Heaviest paths, callers first", &paths, &self.again.command(" -g caller", '2'));
        let cpus = plain(&|at| self.by_cpu[at].line(), self.by_cpu.len());
        section(&mut out, "CPUs with the most work", &cpus, &self.again.command(" -s cpu,sym", '4'));
        let unnamed = |at: usize| {
            let DigestUnnamed { dso, share, remedy, remedy_has_dso } = &self.unnamed[at];
            let what = if *remedy_has_dso { String::new() } else { format!("{dso}: ") };
            format!("{} {what}{remedy}", percent(*share))
        };
        sentences(&mut out, "Code without names", &plain(&unnamed, self.unnamed.len()));
        sentences(&mut out, "Notes", &plain(&|at| self.notes[at].clone(), self.notes.len()));
        out
    }

    fn head(&self) -> String {
        let machine = if self.machine.is_empty() { String::new() } else { format!("{}: ", self.machine) };
        let samples = counted(self.samples, if self.counts_stacks { "stack" } else { "sample" });
        // Most profiles of other tools have no times.
        let span = if self.seconds == 0.0 { String::new() } else { format!(" in {:.1} s", self.seconds) };
        let event = format!("{machine}{samples} of {}{span}, {} lost", self.event, thousands(self.lost));
        let sure = match self.samples {
            _ if self.counts_stacks => "shares have no range of chance: the number of samples is unknown".to_owned(),
            0 => "no sample: nothing ran, or the filter excludes everything".to_owned(),
            _ => "± is the range of chance of a share (95 %)".to_owned(),
        };
        format!("{}\n{sure}\n", cut(&event))
    }

    /// Returns the number of samples by which chance is tested; `None` if it is unknown.
    fn tested(&self) -> Option<u64> {
        (!self.counts_stacks).then_some(self.samples)
    }

    fn busy_title(&self) -> String {
        match (self.busy, self.cpus) {
            (Some(busy), 0) => format!("Processes: {busy:.2} CPUs busy"),
            (Some(busy), cpus) => format!("Processes: {busy:.2} of {cpus} CPUs busy"),
            (None, _) => "Processes".to_owned(),
        }
    }

    /// Returns the page as JSON, with the rows that fit into [`MOST_BYTES`].
    pub(crate) fn json(&self) -> Value {
        let fits = |value: &Value| value.to_string().len() <= MOST_BYTES;
        let page = (0..=MOST_ROWS).rev().map(|rows| self.object(rows)).find(fits);
        page.unwrap_or_else(|| json!({ "event": fit_end(&self.event, WIDTH), "samples": self.samples }))
    }

    fn object(&self, rows: usize) -> Value {
        let margin = |share: f64| self.tested().map(|samples| round(margin(share, samples)));
        let findings: Vec<Value> =
            (self.findings.iter().take(rows)).map(|found| bounded(found.json(self.start))).collect();
        let process = |one: &DigestProcess| {
            json!({
                "comm": line(&one.comm), "pid": one.pid, "threads": one.threads, "pct": round(one.share),
                "pct_margin": margin(one.share), "cpus": one.cpus.map(round), "kernel_pct": round(one.kernel),
                "function": line(&one.function), "function_pct": round(one.function_share),
            })
        };
        let path = |one: &DigestPath| {
            json!({
                "comm": line(&one.comm), "pct": round(one.share), "pct_margin": margin(one.share),
                "path": line(&one.functions.join(" > ")),
            })
        };
        let cpu = |one: &DigestCpu| {
            let (busy, soft) = (round(one.busy), round(one.soft));
            json!({ "cpu": one.cpu, "busy_pct": busy, "softirq_pct": soft, "vector": one.vector })
        };
        let unnamed = |one: &DigestUnnamed| json!({ "dso": line(&one.dso), "pct": round(one.share), "remedy": line(&one.remedy) });
        json!({
            "machine": line(&self.machine), "event": line(&self.event), "seconds": round(self.seconds),
            "samples": self.samples, "lost": self.lost, "busy_cpus": self.busy.map(round), "cpus": self.cpus,
            "findings": findings,
            "processes": self.processes.iter().take(rows).map(process).collect::<Vec<_>>(),
            "paths": self.paths.iter().take(rows).map(path).collect::<Vec<_>>(),
            "by_cpu": self.by_cpu.iter().take(rows).map(cpu).collect::<Vec<_>>(),
            "unnamed": self.unnamed.iter().take(rows).map(unnamed).collect::<Vec<_>>(),
            "notes": self.notes.iter().take(rows).map(|note| line(note)).collect::<Vec<_>>(),
            "more": line(&self.again.command("", '1')),
        })
    }
}

impl DigestProcess {
    fn line(&self, samples: Option<u64>) -> String {
        let cpus = self.cpus.map_or(String::new(), |cpus| format!("{cpus:.2} CPU  "));
        let threads = if self.threads > 1 { format!(" ({} threads)", self.threads) } else { String::new() };
        format!(
            "{}  {cpus}{} {}{threads}, kernel {:.0} %: {} {:.0} %",
            sure(self.share, samples),
            self.comm,
            self.pid,
            self.kernel,
            self.function,
            self.function_share
        )
    }
}

impl DigestPath {
    /// Returns the path in one line; functions in the middle are left out if it is too long.
    fn line(&self, samples: Option<u64>) -> String {
        let begin = format!("{}  {}: ", sure(self.share, samples), self.comm);
        let whole = format!("{begin}{}", self.functions.join(" > "));
        if width(&whole) <= WIDTH || self.functions.len() < 3 {
            return whole;
        }
        let mut room = WIDTH.saturating_sub(width(&begin) + width(&self.functions[0]) + " > … > ".chars().count());
        let fits = |name: &&String| {
            let fits = room >= width(name);
            room = room.saturating_sub(width(name) + " > ".len());
            fits
        };
        let kept = self.functions[1..].iter().rev().take_while(fits).count().max(1);
        let end = self.functions[self.functions.len() - kept..].join(" > ");
        format!("{begin}{} > … > {end}", self.functions[0])
    }
}

impl DigestCpu {
    fn line(&self) -> String {
        let vector = self.vector.map_or(String::new(), |vector| format!(", mostly {vector}"));
        format!("CPU {}: busy {:.0} %, softirqs and interrupts {:.0} %{vector}", self.cpu, self.busy, self.soft)
    }
}

/// Appends a section of sentences, which continue in a second line.
fn sentences(out: &mut String, title: &str, rows: &[String]) {
    let rows: Vec<String> = rows.iter().flat_map(|row| lines_of(row)).collect();
    section(out, title, &rows, "");
}

/// Returns the lines of a sentence; the second one is indented.
fn lines_of(row: &str) -> Vec<String> {
    let lines = wrap(&clean(row), WIDTH - "    ".len());
    let indented = |(at, line): (usize, String)| if at == 0 { line } else { format!("    {line}") };
    lines.into_iter().take(LINES_OF_ROW).enumerate().map(indented).collect()
}

/// Returns the lines of a sentence and of the command that shows more, which stays whole after a long sentence.
fn with_command((row, command): (String, String)) -> Vec<String> {
    let whole = format!("{row}: {command}");
    if wrap(&clean(&whole), WIDTH - "    ".len()).len() <= LINES_OF_ROW {
        return lines_of(&whole);
    }
    let mut lines = lines_of(&row);
    lines.push(format!("    {command}"));
    lines
}

/// Appends a section with rows; `more` is the command that shows more of them.
fn section(out: &mut String, title: &str, rows: &[String], more: &str) {
    if rows.is_empty() {
        return;
    }
    out.push_str(&format!("\n{title}\n"));
    rows.iter().for_each(|row| out.push_str(&format!("  {}\n", cut(row))));
    if !more.is_empty() {
        out.push_str(&format!("  more: {}\n", cut(more)));
    }
}

/// Returns an object whose texts fit into lines.
fn bounded(object: Value) -> Value {
    match object {
        Value::Object(fields) => fields.into_iter().map(|(key, value)| (key, bounded(value))).collect(),
        Value::String(text) => line(&text).into(),
        other => other,
    }
}

/// Returns a text without control characters that fits into a line.
fn line(text: &str) -> String {
    cut(text).into_owned()
}

fn cut(text: &str) -> std::borrow::Cow<'_, str> {
    let mut cells = WIDTH;
    let clean = clean(text);
    // Characters of several bytes count by their length.
    while fit_end(&clean, cells).len() > LINE_BYTES {
        cells /= 2;
    }
    fit_end(&clean, cells).into_owned().into()
}

fn sure(share: f64, samples: Option<u64>) -> String {
    let share_text = percent(share);
    match samples {
        Some(samples) => format!("{share_text:>7} ±{:<4.1}", margin(share, samples)),
        None => format!("{share_text:>7}"),
    }
}

/// Returns the half width in points of the 95 % interval of a share of independent samples: 1.96·√(p·(1 − p)/n).
fn margin(share: f64, samples: u64) -> f64 {
    let p = (share / 100.0).clamp(0.0, 1.0);
    196.0 * (p * (1.0 - p) / samples.max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests;
