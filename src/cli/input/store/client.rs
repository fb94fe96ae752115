//! Requests to stores by their published protocols: Pyroscope's querier by the Connect protocol, Parca's query service by
//! its HTTP gateway below `/api`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use prost::Message;
use serde_json::json;

use super::address::{StoreAddress, StoreKind, StoreSpan};
use crate::cli::credentials::Credentials;
use crate::engine::curl::{Curl, TransferError, escaped, hidden};
use crate::kernel::privilege;
use crate::source::imported::store::{self, AnswerError, MergeRequest};

/// The environment variable with the credentials.
const AUTH: &str = "PERFPROF_STORE_AUTH";
/// The time for all requests of a command, and the longest for a connection.
pub(super) const WHOLE: Duration = Duration::from_secs(120);
const CONNECT: Duration = Duration::from_secs(10);
/// The time that curl has in addition.
const LATE: Duration = Duration::from_millis(100);
/// The bytes of an answer, of a list, and of all profiles without their compression.
const MOST_BYTES: u64 = 256 << 20;
const MOST_LIST: u64 = 16 << 20;
const MOST_HELD: u64 = 512 << 20;
/// The characters of a server's message that are shown.
const MOST_MESSAGE: usize = 400;

/// Why a store has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("no answer: {0}; check the address and the port")]
    Silent(String),
    #[error("no complete answer within {} s; choose a shorter time with --from and --until", WHOLE.as_secs())]
    Slow,
    #[error("the profiles have more than {} MiB; choose a shorter time with --from and --until", .0 >> 20)]
    TooLarge(u64),
    #[error(
        "access refused (HTTP {0}); set PERFPROF_STORE_AUTH to USER:PASSWORD or Bearer TOKEN, or name the host in ~/.netrc"
    )]
    Denied(u16),
    #[error("not a {} server: {why}; check the address (the usual port is {})", .kind.usual().0, .kind.usual().1)]
    OtherServer { kind: StoreKind, why: String },
    /// A failure in the store's words.
    #[error("the store reports: {message} (HTTP {status}); check the query and the time")]
    Refused { status: u16, message: String },
    #[error(transparent)]
    Io(#[from] io::Error),
}

pub(super) struct StoreClient {
    kind: StoreKind,
    base: String,
    auth: Option<Credentials>,
    netrc: Option<PathBuf>,
    deadline: Instant,
    /// The bytes of profiles that may still be read.
    left: u64,
}

/// The body of a request and its type.
struct RequestBody {
    kind: &'static str,
    bytes: Vec<u8>,
}

impl StoreClient {
    /// Returns a client whose requests have this time together.
    pub(super) fn new(address: &StoreAddress, time: Duration) -> anyhow::Result<Self> {
        let auth = Credentials::of(None, "", AUTH)?;
        let netrc = privilege::directory("HOME").map(|home| home.join(".netrc")).filter(|path| path.is_file());
        let (kind, base) = (address.kind, address.base.clone());
        Ok(Self { kind, base, auth, netrc, deadline: Instant::now() + time, left: MOST_HELD })
    }

    /// Returns the profile types as queries name them: `NAME:TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT`.
    pub(super) fn types(&self, span: StoreSpan) -> Result<Vec<String>, StoreError> {
        self.read(store::types(&self.list("ProfileTypes", "types", span, &[])?))
    }

    pub(super) fn labels(&self, span: StoreSpan) -> Result<Vec<String>, StoreError> {
        self.read(store::names(&self.list("LabelNames", "labels", span, &[])?))
    }

    pub(super) fn values(&self, label: &str, span: StoreSpan) -> Result<Vec<String>, StoreError> {
        let path = format!("labels/{}/values", escaped(label));
        self.read(store::names(&self.list("LabelValues", &path, span, &[("name", label)])?))
    }

    /// Returns the times of the store's series of a profile type, in milliseconds since 1970.
    pub(super) fn times(&self, kind: &str, selector: &str, span: StoreSpan) -> Result<Vec<u64>, StoreError> {
        let step = span.step() as f64 / 1000.0;
        let body = match self.kind {
            StoreKind::Pyroscope => {
                let request = json!({ "profileTypeID": kind, "labelSelector": selector,
                    "start": span.from, "end": span.until, "step": step });
                self.call("SelectSeries", json_body(&request), MOST_LIST)?
            }
            StoreKind::Parca => {
                let step = format!("{step}s");
                let query = format!("{kind}{selector}");
                self.get("query_range", span, "", &[("query", query.as_str()), ("step", step.as_str())], MOST_LIST)?
            }
        };
        self.read(store::times(&body))
    }

    /// Returns the merged pprof profile, without its compression; empty without samples.
    pub(super) fn profile(&mut self, kind: &str, selector: &str, span: StoreSpan) -> Result<Vec<u8>, StoreError> {
        let most = MOST_BYTES.min(self.left);
        let bytes = match self.kind {
            StoreKind::Pyroscope => {
                let request = MergeRequest {
                    profile_type: kind.to_owned(),
                    selector: selector.to_owned(),
                    start: span.from as i64,
                    end: span.until as i64,
                };
                let body = RequestBody { kind: "application/proto", bytes: request.encode_to_vec() };
                self.call("SelectMergeProfile", body, most)?
            }
            StoreKind::Parca => {
                let query = format!("{kind}{selector}");
                let own =
                    [("mode", "MODE_MERGE"), ("report_type", "REPORT_TYPE_PPROF"), ("merge.query", query.as_str())];
                match self.get("query", span, "merge.", &own, most) {
                    // No profile matches.
                    Err(StoreError::Refused { status: 404, .. }) => return Ok(Vec::new()),
                    body => self.read(store::report(&body?))?,
                }
            }
        };
        let plain = self.read(store::unpacked(bytes, most))?;
        self.left -= (plain.len() as u64).min(self.left);
        Ok(plain)
    }

    /// Requests a list: a method of Pyroscope, a path of Parca.
    fn list(&self, method: &str, path: &str, span: StoreSpan, more: &[(&str, &str)]) -> Result<Vec<u8>, StoreError> {
        match self.kind {
            StoreKind::Pyroscope => {
                let mut request = json!({ "start": span.from, "end": span.until });
                more.iter().for_each(|(name, value)| request[*name] = json!(value));
                self.call(method, json_body(&request), MOST_LIST)
            }
            StoreKind::Parca => self.get(path, span, "", &[], MOST_LIST),
        }
    }

    /// Returns a part of an answer, or why the answer cannot be used.
    fn read<T>(&self, answer: Result<T, AnswerError>) -> Result<T, StoreError> {
        answer.map_err(|error| match error {
            AnswerError::TooLarge(most) => StoreError::TooLarge(most),
            AnswerError::Io(error) => StoreError::Io(error),
            error => self.other(error.to_string()),
        })
    }

    fn other(&self, why: impl Into<String>) -> StoreError {
        StoreError::OtherServer { kind: self.kind, why: why.into() }
    }

    /// Calls a method of Pyroscope's querier.
    fn call(&self, method: &str, body: RequestBody, most: u64) -> Result<Vec<u8>, StoreError> {
        self.ask(&format!("/querier.v1.QuerierService/{method}"), Some(body), most)
    }

    /// Gets a path of Parca's query service; the names of the times have a prefix.
    fn get(
        &self,
        path: &str,
        span: StoreSpan,
        prefix: &str,
        more: &[(&str, &str)],
        most: u64,
    ) -> Result<Vec<u8>, StoreError> {
        let time = |ms: u64| {
            let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
            time.map_or_else(String::new, |time| escaped(&time.to_string()))
        };
        let mut query = format!("{prefix}start={}&{prefix}end={}", time(span.from), time(span.until));
        more.iter().for_each(|(name, value)| query.push_str(&format!("&{name}={}", escaped(value))));
        self.ask(&format!("/api/profiles/{path}?{query}"), None, most)
    }

    fn ask(&self, path: &str, body: Option<RequestBody>, most: u64) -> Result<Vec<u8>, StoreError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(StoreError::Slow);
        }
        let seconds = |time: Duration| format!("{:.3}", time.as_secs_f64());
        let curl = Curl::new(&format!("{}{path}", self.base));
        // curl ends after the deadline, which then explains its end.
        let mut curl = curl.option("connect-timeout", &seconds(CONNECT.min(left) + LATE));
        curl = curl.option("max-time", &seconds(left + LATE));
        // The file exists until curl ends.
        let mut file = None;
        if let Some(body) = body {
            let mut data = tempfile::NamedTempFile::new()?;
            data.write_all(&body.bytes)?;
            data.flush()?;
            curl = curl.option("header", &format!("Content-Type: {}", body.kind));
            curl = curl.option("data-binary", &format!("@{}", data.path().display()));
            file = Some(data);
        }
        curl = match (&self.auth, &self.netrc) {
            (Some(auth), _) => auth.given(curl),
            (None, Some(netrc)) => curl.flag("netrc-optional").option("netrc-file", &netrc.display().to_string()),
            (None, None) => curl,
        };
        let reply = curl.ask(most);
        drop(file);
        let reply = reply.map_err(|error| match error {
            TransferError::TooLarge(most) => StoreError::TooLarge(most),
            _ if self.deadline <= Instant::now() => StoreError::Slow,
            error => {
                let secrets = self.auth.iter().flat_map(Credentials::secrets).collect::<Vec<_>>();
                StoreError::Silent(hidden(&error.to_string(), &secrets))
            }
        })?;
        match reply.status {
            200 => Ok(reply.body),
            status @ (401 | 403) => Err(StoreError::Denied(status)),
            status => Err(match store::failure(&reply.body) {
                Some(message) => StoreError::Refused { status, message: message.chars().take(MOST_MESSAGE).collect() },
                None => self.other(format!("it answers HTTP {status}")),
            }),
        }
    }
}

fn json_body(request: &serde_json::Value) -> RequestBody {
    RequestBody { kind: "application/json", bytes: request.to_string().into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_end_in_time_and_answers_are_the_stores() {
        let client = StoreClient {
            kind: StoreKind::Pyroscope,
            base: String::new(),
            auth: None,
            netrc: None,
            deadline: Instant::now(),
            left: 0,
        };
        assert!(matches!(client.types(StoreSpan { from: 0, until: 1 }), Err(StoreError::Slow)), "the time is over");
        assert!(matches!(client.read(store::names(b"<html>")), Err(StoreError::OtherServer { .. })));
        assert!(matches!(client.read(Err::<(), _>(AnswerError::TooLarge(9))), Err(StoreError::TooLarge(9))));
    }
}
