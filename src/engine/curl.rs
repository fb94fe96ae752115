//! Network access through curl, which uses the machine's certificates and proxies; a server that hangs blocks only
//! curl. Its options go through a pipe, so that passwords do not appear in process lists. Its output comes through a
//! pipe, so that it opens none of our files.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Output, Stdio};

/// Why nothing was transferred.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    #[error("curl cannot be started, which is needed for this; install it: {0}")]
    Start(io::Error),
    #[error("the response has more than {} MiB, which is the maximum", .0 >> 20)]
    TooLarge(u64),
    /// curl's own message.
    #[error("{0}")]
    Curl(String),
    #[error("{0}")]
    Write(#[from] io::Error),
}

/// An answer of a server.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Curl {
    config: String,
}

impl Curl {
    /// Requests a URL, over HTTP only. A user and password in it are removed and sent as credentials.
    pub(crate) fn new(url: &str) -> Self {
        let (plain, user) = divided(url);
        let curl = Self { config: String::new() }.flag("silent").flag("show-error");
        let curl = curl.option("proto", "=http,https").option("url", &plain);
        match user {
            Some(user) => curl.option("user", &decoded(user)),
            None => curl,
        }
    }

    pub(crate) fn flag(mut self, name: &str) -> Self {
        self.config.push_str(&format!("{name}\n"));
        self
    }

    /// Adds an option with its value (curl(1), --config).
    pub(crate) fn option(mut self, name: &str, value: &str) -> Self {
        let mut quoted = String::with_capacity(value.len());
        for c in value.chars() {
            match c {
                '\\' | '"' => quoted.extend(['\\', c]),
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                c => quoted.push(c),
            }
        }
        self.config.push_str(&format!("{name} = \"{quoted}\"\n"));
        self
    }

    /// Starts curl with pipes for standard output and error. It does not read `.curlrc`, which under sudo may be
    /// another user's, and which can name files to write.
    pub(crate) fn start(&self) -> io::Result<Child> {
        let mut command = Command::new("curl");
        command.args(["--disable", "--config", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            // If curl has exited already, its output has the reason.
            let _ = stdin.write_all(self.config.as_bytes());
        }
        Ok(child)
    }

    /// Writes the response to a file; an HTTP error is an error, and redirections are followed within HTTP.
    pub(crate) fn fetch(self, to: &mut impl Write, most_bytes: u64) -> Result<(), TransferError> {
        let curl = self.flag("fail").flag("location").option("max-redirs", "5").option("proto-redir", "=http,https");
        let output = curl.transfer(to, most_bytes)?;
        if !output.status.success() {
            return Err(TransferError::Curl(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(to.flush()?)
    }

    /// Returns the answer with its HTTP status. Redirections are not followed, because they could lead credentials away.
    pub(crate) fn ask(self, most_bytes: u64) -> Result<HttpReply, TransferError> {
        let mut body = Vec::new();
        // The status follows curl's own message, if there is one.
        let output = self.option("write-out", "%{stderr}%{http_code}").transfer(&mut body, most_bytes)?;
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        let message = said.trim_end_matches(|c: char| c.is_ascii_digit());
        match said[message.len()..].parse() {
            Ok(status) if output.status.success() => Ok(HttpReply { status, body }),
            _ => Err(TransferError::Curl(message.trim().to_owned())),
        }
    }

    /// Runs curl to its end and copies the response; returns its exit status and errors.
    fn transfer(&self, to: &mut impl Write, most_bytes: u64) -> Result<Output, TransferError> {
        let mut child = self.start().map_err(TransferError::Start)?;
        let mut bytes = child.stdout.take().map(|out| out.take(most_bytes.saturating_add(1)));
        let copied = bytes.as_mut().map_or(Ok(0), |bytes| io::copy(bytes, to));
        if !matches!(copied, Ok(n) if n <= most_bytes) {
            // curl would block on the unread rest.
            let _ = child.kill();
        }
        drop(bytes);
        // curl writes one line of errors at most, so this pipe is never full.
        let output = child.wait_with_output()?;
        if copied? > most_bytes {
            return Err(TransferError::TooLarge(most_bytes));
        }
        Ok(output)
    }
}

/// Splits a URL into the part without `user:password@`, and the credentials, in which `/` and `@` may occur.
fn divided(url: &str) -> (String, Option<&str>) {
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
        Some((scheme, (user, rest))) => (format!("{scheme}://{rest}"), Some(user)),
        None => (url.to_owned(), None),
    }
}

/// Returns a URL for display: without user and password, and without the values in its query.
pub fn shown(url: &str) -> String {
    let plain = divided(url).0;
    match plain.split_once(['?', '#']) {
        Some((plain, _)) => format!("{plain}?…"),
        None => plain,
    }
}

/// Returns the secrets in a URL, in each form in which a message may contain them.
pub(crate) fn secrets(url: &str) -> Vec<String> {
    let (plain, user) = divided(url);
    let password = user.and_then(|user| user.split_once(':')).map(|(_, password)| password);
    let query = plain.split_once('?').map_or("", |(_, query)| query).split('&');
    let values = query.map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    // Hiding short numbers would hide other numbers of a message.
    let values = values.filter(|value| value.len() > 4 || value.parse::<u32>().is_err());
    let raw: Vec<&str> = user.into_iter().chain(password).chain(values).filter(|text| !text.is_empty()).collect();
    raw.iter().map(|text| (*text).to_owned()).chain(raw.iter().map(|text| decoded(text))).collect()
}

/// Returns a text with its secrets replaced.
pub fn hidden(text: &str, secrets: &[String]) -> String {
    let mut order: Vec<&String> = secrets.iter().filter(|secret| !secret.is_empty()).collect();
    // Longer secrets first, because they may contain others.
    order.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    order.into_iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
}

/// Returns a text in percent-encoding (RFC 3986, section 2.1).
pub(crate) fn escaped(text: &str) -> String {
    let one = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(one).collect()
}

/// Decodes percent-encoding (RFC 3986, section 2.1).
pub(crate) fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &after[2..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_no_part_of_what_is_shown() {
        for (url, want) in [
            ("http://host:4040/x", "http://host:4040/x"),
            ("https://me:s3cret@host/x?token=t0ken&a=b", "https://host/x?…"),
            ("http://me:s3/c#r?t@et@host/x", "http://host/x"),
        ] {
            assert_eq!(shown(url), want);
            let said = hidden(&format!("curl: (6) {url} and {} do not answer", decoded(url)), &secrets(url));
            assert!(!["s3cret", "t0ken", "s3/c", "t@et"].iter().any(|secret| said.contains(secret)), "{said}");
        }
        assert!(secrets("http://me:p%40ss@host").contains(&"p@ss".to_owned()));
        let config = Curl::new("http://me:p%40\"s@host/x").option("header", "a\nb\\").config;
        assert!(
            config.contains("url = \"http://host/x\"\nuser = \"me:p@\\\"s\"\nheader = \"a\\nb\\\\\"\n"),
            "{config}"
        );
    }
}
