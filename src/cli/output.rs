//! Standard output and standard error. A closed pipe is not a failure. All text goes through [`Printable`], because its
//! names are untrusted; bytes for other programs are written unchanged.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Serialize;

use crate::kernel::files::{NewFile, open_named, unwritten};
use crate::kernel::{privilege, tty};
use crate::panel::Table;
use crate::panel::charset::Charset;
use crate::panel::printable::{EscapeForm, Printable};
use crate::panel::text::width;

use super::args::OutputFormat;
use super::{Usage, usage};

pub(crate) fn texts(form: EscapeForm) -> Printable<BufWriter<Stdout>> {
    Printable::new(form, binary())
}

pub(crate) fn binary() -> BufWriter<Stdout> {
    BufWriter::with_capacity(1 << 16, io::stdout())
}

static CHARSET: OnceLock<Charset> = OnceLock::new();

pub(crate) fn choose_charset(ascii: Option<bool>) {
    if let Some(ascii) = ascii {
        let _ = CHARSET.set(if ascii { Charset::Ascii } else { Charset::Utf8 });
    }
}

pub(crate) fn charset() -> Charset {
    let of_locale = || Charset::of_locale(|name| privilege::variable(name)?.into_string().ok());
    CHARSET.get().copied().unwrap_or_else(of_locale)
}

/// Writes text for people to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    TableOutput::Out.write(text)
}

/// Writes CSV to standard output, in UTF-8 for any locale.
pub(crate) fn print_csv(text: &str) -> anyhow::Result<()> {
    TableOutput::Out.write_as(EscapeForm::Text, Charset::Utf8, text)
}

/// Destination of a command's table. perf uses standard error, because standard output belongs to the measured command.
pub(crate) enum TableOutput {
    Out,
    Err,
    /// An open file, with its name if it has one.
    File(std::fs::File, Option<PathBuf>),
    /// A file that gets its name when it is complete.
    New(PathBuf, Printable<BufWriter<NewFile>>),
}

pub(crate) fn failed(path: &Path, error: &io::Error) -> anyhow::Error {
    anyhow::anyhow!("{}", unwritten(path, error))
}

impl TableOutput {
    /// Opens a file of the user for writing or appending; refuses links of other users.
    pub(crate) fn create(path: &Path, append: bool) -> anyhow::Result<Self> {
        let file = open_named(path, append).map_err(|error| failed(path, &error))?;
        Ok(Self::File(file, Some(path.to_owned())))
    }

    /// Creates a file that [`TableOutput::end`] completes; `-` is standard output.
    pub(crate) fn new_file(name: &str) -> anyhow::Result<Self> {
        if name == "-" {
            return Ok(Self::Out);
        }
        let path = PathBuf::from(name);
        let file = NewFile::create(&path).map_err(|error| failed(&path, &error))?;
        Ok(Self::New(path, Printable::new(EscapeForm::Text, BufWriter::new(file))))
    }

    pub(crate) fn end(&mut self) -> anyhow::Result<()> {
        let Self::New(path, file) = self else { return Ok(()) };
        let end = file.finish().and_then(|()| file.get_mut().get_mut().commit());
        end.map_err(|error| failed(path, &error))
    }

    /// Uses a file descriptor that is already open.
    pub(crate) fn descriptor(number: i32) -> anyhow::Result<Self> {
        let path = PathBuf::from(format!("/proc/self/fd/{number}"));
        let file = open_named(&path, true).map_err(|_| usage(format!("--log-fd {number}: no such file descriptor")))?;
        Ok(Self::File(file, None))
    }

    pub(crate) fn write(&mut self, text: &str) -> anyhow::Result<()> {
        self.write_as(EscapeForm::Text, charset(), text)
    }

    pub(crate) fn write_json_line(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        self.write_as(EscapeForm::Json, Charset::Utf8, &(serde_json::to_string(value)? + "\n"))
    }

    fn write_as(&mut self, form: EscapeForm, charset: Charset, text: &str) -> anyhow::Result<()> {
        let write = |out: &mut dyn Write| -> io::Result<()> {
            let mut out = Printable::with_charset(form, charset, out);
            out.write_all(text.as_bytes())?;
            out.finish()
        };
        match self {
            Self::Out => Ok(write(&mut binary())?),
            Self::Err => Ok(write(&mut io::stderr().lock())?),
            Self::File(file, path) => write(file).map_err(|error| match path {
                Some(path) => failed(path, &error),
                None => error.into(),
            }),
            Self::New(path, file) => file.write_all(text.as_bytes()).map_err(|error| failed(path, &error)),
        }
    }
}

pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    TableOutput::Out.write_as(EscapeForm::Json, Charset::Utf8, &(serde_json::to_string_pretty(value)? + "\n"))
}

pub(crate) fn print_json_line(value: &impl Serialize) -> anyhow::Result<()> {
    TableOutput::Out.write_json_line(value)
}

pub(crate) fn print_table(table: &Table, format: OutputFormat) -> anyhow::Result<()> {
    match format {
        OutputFormat::Text => print(&table.to_text()),
        OutputFormat::Csv => print_csv(&table.to_csv()),
        OutputFormat::Json => print_json(&table.to_json()),
    }
}

/// Writes the tables of events as one CSV table; with several events, each row has its event.
pub(crate) fn print_events_csv(mut tables: Vec<(&str, Table)>) -> anyhow::Result<()> {
    let table = if tables.len() == 1 { tables.pop().map(|(_, table)| table) } else { None };
    let several = |tables: Vec<_>| (!tables.is_empty()).then(|| Table::of_events(tables));
    table.or_else(|| several(tables)).map_or(Ok(()), |table| print_csv(&table.to_csv()))
}

/// Writes one of several tables as CSV: the time before each row, the heading only with the first table.
pub(crate) fn timed_csv(table: &Table, time: &str, first: bool) -> String {
    let csv = table.to_csv();
    let mut lines = csv.split_inclusive("\r\n");
    let head = lines.next().unwrap_or_default();
    let mut out = if first { format!("time,{head}") } else { String::new() };
    lines.for_each(|line| out.push_str(&format!("{time},{line}")));
    out
}

/// Returns true if standard input and output are a terminal that can show a screen.
pub(crate) fn has_terminal() -> bool {
    io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb()
}

/// Returns true for a terminal without cursor control.
fn is_dumb() -> bool {
    privilege::variable("TERM").is_some_and(|term| term == "dumb")
}

pub(crate) fn need_cursor() -> Result<(), Usage> {
    match is_dumb() {
        false => Ok(()),
        true => Err(Usage(
            "TERM is dumb: this terminal cannot show a screen\nuse perfprof-tui record, report, stat or `UNIT \
             --batch`; if the terminal can do more, set TERM, e.g. TERM=xterm"
                .to_owned(),
        )),
    }
}

/// Returns an error without a terminal, with the command that needs none.
pub(crate) fn need_terminal(instead: &str) -> Result<(), Usage> {
    need_cursor()?;
    match has_terminal() {
        true => Ok(()),
        false => Err(Usage(format!("no terminal for the screen; use `perfprof-tui {instead}`"))),
    }
}

/// Writes a file of the user atomically; text in some form, or bytes unchanged.
pub(crate) fn file(
    path: &Path,
    form: Option<EscapeForm>,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    // Errors of the file get its name; errors of the data have their own context.
    let named = |error: anyhow::Error| match error.downcast_ref::<io::Error>() {
        Some(why) if why.raw_os_error().is_some() => failed(path, why),
        _ => error,
    };
    let fail = |error: io::Error| failed(path, &error);
    let mut out = BufWriter::with_capacity(1 << 18, NewFile::create(path).map_err(fail)?);
    if let Some(form) = form {
        let mut text = Printable::new(form, &mut out);
        write(&mut text).map_err(named)?;
        text.finish().map_err(fail)?;
    } else {
        write(&mut out).map_err(named)?;
    }
    out.flush().map_err(fail)?;
    out.get_mut().commit().map_err(fail)
}

/// Writes an error or a note to standard error. Indents further lines, so that a name cannot imitate a message.
pub(crate) fn complain(text: &str) {
    let mut err = Printable::with_charset(EscapeForm::Text, charset(), io::stderr().lock());
    let _ = err.write_all(message(text, tty::error_columns()).as_bytes());
}

/// The narrowest terminal for which messages are divided into lines: the indentation takes the most of others.
const NARROWEST: usize = 40;

/// Returns the lines of a message for a terminal of some columns. `None`: further programs read them.
fn message(text: &str, columns: Option<usize>) -> String {
    const HEAD: &str = "perfprof-tui: ";
    let room = columns.filter(|columns| *columns >= NARROWEST).map_or(usize::MAX, |columns| columns - HEAD.len());
    let (mut out, mut head) = (String::new(), HEAD);
    for part in text.trim_end().lines().flat_map(|line| fitting(line, room)) {
        out.push_str(&format!("{head}{part}\n"));
        head = "              ";
    }
    out
}

/// Splits a line at spaces into parts that fit into some cells. Longer words stay whole.
fn fitting(line: &str, room: usize) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), line);
    while let Some(at) = end_of_line(rest, room) {
        parts.push(rest[..at].trim_end());
        rest = rest[at..].trim_start();
    }
    if parts.is_empty() || !rest.is_empty() {
        parts.push(rest);
    }
    parts
}

/// Returns the place of the space at which a line is split; `None` if it fits or has no space.
fn end_of_line(line: &str, room: usize) -> Option<usize> {
    let indentation = line.len() - line.trim_start().len();
    let (mut used, mut last) = (0, None);
    for (at, c) in line.char_indices() {
        if c == ' ' && at > indentation {
            last = if used > room { last.or(Some(at)) } else { Some(at) };
        }
        used += width(c.encode_utf8(&mut [0; 4]));
        if used > room && last.is_some() {
            return last;
        }
    }
    None
}

/// Prints clap's output: help unchanged; errors, which repeat the arguments, as text.
pub(crate) fn print_usage(error: &clap::Error) {
    if error.use_stderr() {
        let mut err = Printable::with_charset(EscapeForm::Text, charset(), io::stderr().lock());
        let room = tty::error_columns().unwrap_or(usize::MAX);
        for line in error.render().to_string().lines() {
            for part in fitting(line, room) {
                let _ = writeln!(err, "{part}");
            }
        }
    } else if charset() == Charset::Ascii {
        let mut out = Printable::with_charset(EscapeForm::Text, charset(), io::stdout().lock());
        let _ = write!(out, "{}", error.render());
    } else {
        let _ = error.print();
    }
}

pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_break_at_spaces() {
        let text = "the event is not known here\n  remedy: use list";
        let whole = "perfprof-tui: the event is not known here\n                remedy: use list\n";
        assert_eq!((message(text, None), message(text, Some(20))), (whole.to_owned(), whole.to_owned()));
        let narrow = "perfprof-tui: the event is not known\n              here\n                remedy: use list\n";
        assert_eq!(message(text, Some(40)), narrow);
        assert_eq!(message("\n", Some(40)), "");
    }

    #[test]
    fn long_words_stay_whole() {
        assert_eq!(fitting("a path/that/is/long b c", 5), ["a", "path/that/is/long", "b c"]);
        assert_eq!(fitting("one two", 7), ["one two"]);
        assert_eq!(fitting("one two", 6), ["one", "two"]);
        assert_eq!(fitting("漢字 漢字", 5), ["漢字", "漢字"]);
        assert_eq!(fitting("    word", 3), ["    word"]);
        assert_eq!(fitting("", 0), [""]);
        assert_eq!(fitting("a  b ", 0), ["a", "b"]);
    }
}
