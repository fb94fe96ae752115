//! Probes as named events with arguments to read. A probe is at a function, a location in it or a static probe of a
//! program. The kernel creates a tracepoint for each one (Documentation/trace/uprobetracer.rst and kprobetrace.rst).

pub(crate) mod args;
pub(crate) mod dwarf;
pub(crate) mod elf;
pub mod kernel;
pub(crate) mod lines;
pub(crate) mod tracefs;
pub(crate) mod usdt;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::lang::{Diagnostic, quantity};
use args::Parameters;
use dwarf::DebugInfo;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbePoint {
    /// A kernel function, with a code offset in bytes.
    Kernel { function: String, offset: u64 },
    /// A file offset, with the semaphore counter of a static probe.
    File { path: PathBuf, offset: u64, semaphore: Option<u64> },
}

/// A probe as defined to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub(crate) group: String,
    pub(crate) name: String,
    pub(crate) place: ProbePoint,
    pub(crate) on_return: bool,
    /// In the kernel's syntax: `size=%dx:u64`.
    pub(crate) args: Vec<String>,
}

impl Probe {
    pub(crate) fn event(&self) -> String {
        format!("{}:{}", self.group, self.name)
    }

    pub(crate) fn file(&self) -> &'static str {
        match self.place {
            ProbePoint::Kernel { .. } => tracefs::KERNEL,
            ProbePoint::File { .. } => tracefs::USER,
        }
    }

    /// Returns the line that defines it.
    pub fn line(&self) -> String {
        let letter = if self.on_return { 'r' } else { 'p' };
        let place = match &self.place {
            ProbePoint::Kernel { function, offset: 0 } => function.clone(),
            ProbePoint::Kernel { function, offset } => format!("{function}+{offset}"),
            ProbePoint::File { path, offset, semaphore } => {
                let counter = semaphore.map(|at| format!("({at:#x})")).unwrap_or_default();
                format!("{}:{offset:#x}{counter}", path.display())
            }
        };
        let args: String = self.args.iter().map(|arg| format!(" {arg}")).collect();
        format!("{letter}:{}/{} {place}{args}", self.group, self.name)
    }
}

/// A probe as typed, in perf probe's syntax. `[GROUP:][NAME=]FUNCTION[+OFFSET|:LINE|%return] [ARG…]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSpec {
    pub(crate) group: Option<String>,
    /// The event's name; `None` derives it from function and location.
    pub name: Option<String>,
    pub(crate) function: String,
    /// The end of the path of the function's source file.
    pub(crate) source: Option<String>,
    pub(crate) offset: u64,
    /// A line relative to the function's first line.
    pub(crate) line: Option<u64>,
    pub(crate) on_return: bool,
    pub(crate) args: Vec<String>,
}

/// Why a probe cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// A problem with the program's file.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The problem, without the path.
        why: String,
    },
    /// A problem with the definition, or with the kernel.
    #[error("{0}")]
    Other(String),
}

impl ProbeError {
    fn in_file(path: &Path, why: impl Display) -> Self {
        Self::File { path: path.to_owned(), why: why.to_string() }
    }
}

impl From<String> for ProbeError {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

/// The kernel's limit for group and event names (`MAX_EVENT_NAME_LEN`).
const MAX_NAME: usize = 63;

/// Parses a probe: an optional file after -x, then the syntax of [`ProbeSpec::parse`], or for files `PROVIDER:NAME` of a
/// static probe. The default group is that of the session.
pub fn parse(text: &str, group: &str) -> Result<Probe, ProbeError> {
    let (path, rest) = match text.trim().strip_prefix("-x") {
        None => (None, text.trim()),
        Some(rest) => {
            let (path, rest) = rest
                .trim_start()
                .split_once(char::is_whitespace)
                .ok_or_else(|| "name a function after the file".to_owned())?;
            (Some(PathBuf::from(path)), rest.trim())
        }
    };
    let Some(path) = path else {
        let spec = ProbeSpec::parse(rest).map_err(|fault| fault.line())?;
        return Ok(spec.in_kernel(group, &kernel::KernelFunctions::system())?);
    };
    if let Some(found) = static_probe(&path, rest, group)? {
        return Ok(found);
    }
    let spec = ProbeSpec::parse(rest).map_err(|fault| fault.line())?;
    // Debug information is large, so it is read only to resolve names.
    let by_name = |arg: &String| {
        let what = arg.rsplit('=').next().unwrap_or_default();
        !what.starts_with(['%', '$', '@', '+', '-', '\\']) && !what.starts_with("arg")
    };
    let wanted = spec.line.is_some() || spec.source.is_some() || spec.args.iter().any(by_name);
    spec.in_file(&path, group, wanted.then(|| DebugInfo::open(&path)).flatten().as_ref())
}

/// Finds a static probe by name, with or without its provider.
fn static_probe(path: &Path, name: &str, group: &str) -> Result<Option<Probe>, ProbeError> {
    let path = path.canonicalize().map_err(|error| ProbeError::in_file(path, error))?;
    let probes = elf::static_probes(&path)?;
    // An inlined probe has several locations; the first one gets the name.
    let found = probes.iter().find(|p| p.event() == name || p.name == name);
    Ok(found.map(|found| found.probe(&path, group)))
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && text.len() <= MAX_NAME && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

pub(crate) fn as_name(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(40).collect();
    if plain.starts_with(|c: char| c.is_ascii_digit()) { format!("_{plain}") } else { plain }
}

impl ProbeSpec {
    /// Parses a probe's definition without the file after -x.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let mut words = text.split_whitespace();
        let place = words.next().unwrap_or_default();
        let fault = |piece: &str, message: &str| {
            Diagnostic::new(text, text.find(piece).unwrap_or(0), piece.len().max(1), message.to_owned())
        };
        if place.is_empty() {
            return Err(fault("", "name a function, such as malloc or malloc%return"));
        }
        let (names, place) = place.split_once('=').map_or(("", place), |(names, place)| (names, place));
        let (group, name) = names.split_once(':').map_or((None, names), |(group, name)| (Some(group), name));
        for part in group.iter().chain((!name.is_empty()).then_some(&name)) {
            if !is_name(part) {
                return Err(fault(part, "invalid name; expected up to 63 letters, digits and _"));
            }
        }
        let (place, on_return) = place.strip_suffix("%return").map_or((place, false), |place| (place, true));
        let (place, line) = match place.rsplit_once(':').map(|(place, line)| (place, line.parse::<u64>())) {
            Some((place, Ok(line))) => (place, Some(line)),
            _ => (place, None),
        };
        let (function, offset) = match place.rsplit_once('+') {
            None => (place, 0),
            Some((function, offset)) => {
                let at =
                    quantity::size(offset).map_err(|_| fault(offset, "invalid offset; expected a number of bytes"))?;
                (function, at)
            }
        };
        let (function, source) = function.split_once('@').map_or((function, None), |(f, source)| (f, Some(source)));
        if function.is_empty() || function.contains(['%', ';', '@']) {
            return Err(fault(place, "expected FUNCTION[@SOURCE], FUNCTION+BYTES, FUNCTION:LINE or FUNCTION%return"));
        }
        if u8::from(on_return) + u8::from(offset > 0) + u8::from(line.is_some()) > 1 {
            return Err(fault(place, "choose one of offset, line and %return"));
        }
        Ok(Self {
            group: group.map(str::to_owned),
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            function: function.to_owned(),
            source: source.map(str::to_owned),
            offset,
            line,
            on_return,
            args: words.map(str::to_owned).collect(),
        })
    }

    /// Returns the event's name like perf. That of a return probe gets a suffix, also if the user named it.
    fn name_or_made(&self) -> String {
        let made = || {
            let at = match self.line {
                Some(line) => format!("_L{line}"),
                None if self.offset > 0 => format!("_{:#x}", self.offset),
                None => String::new(),
            };
            format!("{}{at}", as_name(&self.function))
        };
        let name = self.name.clone().unwrap_or_else(made);
        if self.on_return { name + "__return" } else { name }
    }

    /// Resolves the probe in the kernel.
    pub fn in_kernel(&self, group: &str, parameters: &dyn Parameters) -> Result<Probe, String> {
        if self.line.is_some() {
            return Err(format!("the lines of {} are unknown; use FUNCTION+BYTES", self.function));
        }
        self.at(ProbePoint::Kernel { function: self.function.clone(), offset: self.offset }, group, parameters)
    }

    fn at(&self, place: ProbePoint, group: &str, parameters: &dyn Parameters) -> Result<Probe, String> {
        Ok(Probe {
            group: self.group.clone().unwrap_or_else(|| group.to_owned()),
            name: self.name_or_made(),
            place,
            on_return: self.on_return,
            args: args::resolve_all(self, parameters)?,
        })
    }

    fn in_file(&self, path: &Path, group: &str, info: Option<&DebugInfo>) -> Result<Probe, ProbeError> {
        let path = path.canonicalize().map_err(|error| ProbeError::in_file(path, error))?;
        if path.to_string_lossy().contains(|c: char| c.is_whitespace() || c == ':') {
            return Err(ProbeError::in_file(&path, "the kernel does not support blanks or colons in the path"));
        }
        let file = elf::ProbedFile::open(&path)?;
        let offset = file.function(&self.function)?;
        if let (Some(source), Some(info)) = (&self.source, info) {
            let lines = info.lines(&self.function).unwrap_or_default();
            if !lines.first().is_some_and(|line| Path::new(&line.file).ends_with(source)) {
                let found = lines.first().map_or("no known file", |line| line.file.as_str());
                return Err(format!("{} is in {found}, not in {source}", self.function).into());
            }
        }
        if let Some(size) = offset.1.filter(|size| self.offset >= *size && self.offset > 0) {
            return Err(format!("{} is {size} bytes long", self.function).into());
        }
        let at = match (self.line, info) {
            (None, _) => offset.0 + self.offset,
            (Some(_), None) => {
                return Err(ProbeError::in_file(&path, "has no debug information, so lines are unknown"));
            }
            (Some(line), Some(info)) => {
                let address = info.address_of(&self.function, line)?;
                file.offset(address).ok_or_else(|| format!("line {line} has no code in the file"))?
            }
        };
        let parameters = info.map_or(&args::None as &dyn Parameters, |info| info);
        Ok(self.at(ProbePoint::File { path, offset: at, semaphore: None }, group, parameters)?)
    }
}

#[cfg(test)]
mod tests {
    use super::args::None as NoParameters;
    use super::*;

    #[test]
    fn specs_in_the_spelling_of_perf_probe() {
        let spec = ProbeSpec::parse("grp:ev=do_it+0x10 arg1 arg2:string").expect("parses");
        assert_eq!((spec.group.as_deref(), spec.name.as_deref(), spec.offset), (Some("grp"), Some("ev"), 16));
        assert_eq!(spec.args, ["arg1", "arg2:string"]);
        assert_eq!(ProbeSpec::parse("g:n=do_it:12").expect("parses").line, Some(12));
        assert!(ProbeSpec::parse("malloc%return $retval").expect("parses").on_return);
        for (bad, words) in [
            ("", "name a function"),
            ("a-b=x", "letters"),
            ("f+zz", "number of bytes"),
            ("f+1%return", "choose one of"),
            ("f:3%return", "choose one of"),
            ("%return", "expected FUNCTION"),
            ("a;b", "expected FUNCTION"),
        ] {
            let fault = ProbeSpec::parse(bad).expect_err(bad).line();
            assert!(fault.contains(words), "{bad}: {fault}");
        }
    }

    #[test]
    fn lines_as_the_kernel_reads_them() {
        let kernel =
            |text: &str| ProbeSpec::parse(text).expect(text).in_kernel("perfprof", &NoParameters).expect(text).line();
        assert_eq!(kernel("tcp_sendmsg"), "p:perfprof/tcp_sendmsg tcp_sendmsg");
        assert_eq!(kernel("do_x%return $retval"), "r:perfprof/do_x__return do_x ret=$retval");
        assert_eq!(kernel("n=do_x+8 %ax"), "p:perfprof/n do_x+8 ax=%ax");
        assert_eq!(kernel("n=do_x%return $retval"), "r:perfprof/n__return do_x ret=$retval");
        let place = ProbePoint::File { path: "/bin/x".into(), offset: 0x1000, semaphore: Some(0x20) };
        let probe = Probe { group: "g".into(), name: "n".into(), place, on_return: false, args: vec!["a=%di".into()] };
        assert_eq!(
            (probe.line(), probe.event(), probe.file()),
            ("p:g/n /bin/x:0x1000(0x20) a=%di".into(), "g:n".into(), "uprobe_events")
        );
    }
}
