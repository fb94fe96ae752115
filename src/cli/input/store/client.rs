//! Requests to stores by their published protocols: Pyroscope's querier (api/querier/v1/querier.proto by the Connect
//! protocol, messages as JSON or protobuf), Parca's query service (proto/parca/query/v1alpha1/query.proto by its HTTP
//! gateway below `/api`, JSON).

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine as _;
use jiff::Timestamp;
use prost::Message;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::address::{StoreAddress, StoreKind, StoreSpan};
use crate::cli::credentials::Credentials;
use crate::engine::curl::{Curl, TransferError, escaped, hidden};
use crate::kernel::privilege;

/// The environment variable with the credentials.
const AUTH: &str = "PERFPROF_STORE_AUTH";
/// The time for all requests, and for a connection in seconds.
const WHOLE: Duration = Duration::from_secs(120);
const CONNECT: &str = "10";
/// The bytes of an answer, of a list, and of all profiles without their compression.
const MOST_BYTES: u64 = 256 << 20;
const MOST_LIST: u64 = 16 << 20;
const MOST_HELD: u64 = 512 << 20;
/// The bytes of a name.
const MOST_NAME: usize = 512;
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

/// `message SelectMergeProfileRequest` of Pyroscope's querier.proto.
#[derive(Clone, PartialEq, Message)]
struct MergeRequest {
    #[prost(string, tag = "1")]
    profile_type: String,
    #[prost(string, tag = "2")]
    selector: String,
    #[prost(int64, tag = "3")]
    start: i64,
    #[prost(int64, tag = "4")]
    end: i64,
}

#[derive(Deserialize)]
struct TypesReply {
    #[serde(default, alias = "profileTypes")]
    types: Vec<TypeParts>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TypeParts {
    name: String,
    sample_type: String,
    sample_unit: String,
    period_type: String,
    period_unit: String,
    /// Only Parca: whether a profile has the samples since the last one.
    delta: bool,
}

#[derive(Deserialize)]
struct NamesReply {
    #[serde(default, alias = "labelNames", alias = "labelValues")]
    names: Vec<String>,
}

#[derive(Deserialize)]
struct SeriesReply {
    #[serde(default)]
    series: Vec<SeriesPoints>,
}

#[derive(Deserialize)]
struct SeriesPoints {
    #[serde(default, alias = "samples")]
    points: Vec<SeriesPoint>,
}

#[derive(Deserialize)]
struct SeriesPoint {
    timestamp: PointTime,
}

/// Milliseconds since 1970, which JSON of protobuf quotes, or a date and time.
#[derive(Deserialize)]
#[serde(untagged)]
enum PointTime {
    Number(u64),
    Text(String),
}

impl PointTime {
    fn ms(&self) -> Option<u64> {
        match self {
            Self::Number(ms) => Some(*ms),
            Self::Text(text) => {
                let date = || text.parse::<Timestamp>().ok()?.as_millisecond().try_into().ok();
                text.parse().ok().or_else(date)
            }
        }
    }
}

/// The error of Connect and of gRPC's gateway.
#[derive(Deserialize)]
struct FailedReply {
    message: String,
}

#[derive(Deserialize)]
struct ReportReply {
    #[serde(default)]
    pprof: String,
}

/// The body of a request and its type.
struct RequestBody {
    kind: &'static str,
    bytes: Vec<u8>,
}

impl StoreClient {
    pub(super) fn new(address: &StoreAddress) -> anyhow::Result<Self> {
        let auth = Credentials::of(None, "", AUTH)?;
        let netrc = privilege::directory("HOME").map(|home| home.join(".netrc")).filter(|path| path.is_file());
        let (kind, base) = (address.kind, address.base.clone());
        Ok(Self { kind, base, auth, netrc, deadline: Instant::now() + WHOLE, left: MOST_HELD })
    }

    /// Returns the profile types as queries name them: `NAME:TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT`.
    pub(super) fn types(&self, span: StoreSpan) -> Result<Vec<String>, StoreError> {
        let reply: TypesReply = self.list("ProfileTypes", "types", span, &[])?;
        let id = |of: TypeParts| {
            let mut parts = vec![of.name, of.sample_type, of.sample_unit, of.period_type, of.period_unit];
            parts.extend(of.delta.then(|| "delta".to_owned()));
            parts.join(":")
        };
        Ok(sorted(reply.types.into_iter().map(id).collect()))
    }

    pub(super) fn labels(&self, span: StoreSpan) -> Result<Vec<String>, StoreError> {
        let reply: NamesReply = self.list("LabelNames", "labels", span, &[])?;
        Ok(sorted(reply.names))
    }

    pub(super) fn values(&self, label: &str, span: StoreSpan) -> Result<Vec<String>, StoreError> {
        let path = format!("labels/{}/values", escaped(label));
        let reply: NamesReply = self.list("LabelValues", &path, span, &[("name", label)])?;
        Ok(sorted(reply.names))
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
        let reply: SeriesReply = self.read(&body)?;
        let points = reply.series.iter().flat_map(|series| &series.points);
        Ok(points.filter_map(|point| point.timestamp.ms()).collect())
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
                    body => {
                        let reply: ReportReply = self.read(&body?)?;
                        let decoded = base64::engine::general_purpose::STANDARD.decode(reply.pprof);
                        decoded.map_err(|_| self.other("its profile is not base64"))?
                    }
                }
            }
        };
        let plain = unpacked(bytes, most)?;
        self.left -= (plain.len() as u64).min(self.left);
        Ok(plain)
    }

    /// Requests a list: a method of Pyroscope, a path of Parca.
    fn list<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        span: StoreSpan,
        more: &[(&str, &str)],
    ) -> Result<T, StoreError> {
        let body = match self.kind {
            StoreKind::Pyroscope => {
                let mut request = json!({ "start": span.from, "end": span.until });
                more.iter().for_each(|(name, value)| request[*name] = json!(value));
                self.call(method, json_body(&request), MOST_LIST)?
            }
            StoreKind::Parca => self.get(path, span, "", &[], MOST_LIST)?,
        };
        self.read(&body)
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, StoreError> {
        serde_json::from_slice(body).map_err(|error| self.other(format!("its answer is not the API's JSON ({error})")))
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
        let curl = Curl::new(&format!("{}{path}", self.base)).option("connect-timeout", CONNECT);
        let mut curl = curl.option("max-time", &(left.as_secs() + 1).to_string());
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
        let failed = || serde_json::from_slice::<FailedReply>(&reply.body).ok().map(|reply| reply.message);
        match reply.status {
            200 => Ok(reply.body),
            status @ (401 | 403) => Err(StoreError::Denied(status)),
            status => Err(match failed() {
                Some(message) => StoreError::Refused { status, message: message.chars().take(MOST_MESSAGE).collect() },
                None => self.other(format!("it answers HTTP {status}")),
            }),
        }
    }
}

fn json_body(request: &serde_json::Value) -> RequestBody {
    RequestBody { kind: "application/json", bytes: request.to_string().into_bytes() }
}

/// Sorts names; leaves out those that no store has on purpose.
fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| name.len() <= MOST_NAME && !name.contains(char::is_control));
    names.sort_unstable();
    names.dedup();
    names
}

/// Decompresses a profile, if it is compressed by gzip.
fn unpacked(bytes: Vec<u8>, most: u64) -> Result<Vec<u8>, StoreError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes.as_slice()).take(most.saturating_add(1)).read_to_end(&mut plain)?;
    if plain.len() as u64 > most { Err(StoreError::TooLarge(most)) } else { Ok(plain) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_both_stores_are_read() {
        let client = StoreClient {
            kind: StoreKind::Pyroscope,
            base: String::new(),
            auth: None,
            netrc: None,
            deadline: Instant::now(),
            left: 0,
        };
        // The form of a recorded answer in Pyroscope's repository, ui/e2e/fixtures/selectseries.json; Parca's gateway.
        for text in [
            r#"{"series":[{"points":[{"value":270000000,"timestamp":"1779729327372"},{"timestamp":8}]}]}"#,
            r#"{"series":[{"labelset":{"labels":[]},"samples":[
                {"timestamp":"2026-05-25T17:15:27.372Z","value":"27"},{"timestamp":"1970-01-01T00:00:00.008Z"}]}]}"#,
        ] {
            let reply: SeriesReply = client.read(text.as_bytes()).expect("a series");
            let times: Vec<_> = reply.series[0].points.iter().map(|point| point.timestamp.ms()).collect();
            assert_eq!(times, [Some(1_779_729_327_372), Some(8)], "{text}");
        }
        for text in [r#"{"names":["a"]}"#, r#"{"labelNames":["a"],"warnings":[]}"#, r#"{"labelValues":["a"]}"#] {
            assert_eq!(client.read::<NamesReply>(text.as_bytes()).expect("names").names, ["a"]);
        }
        assert!(client.read::<NamesReply>(b"{}").expect("names").names.is_empty());
        assert!(matches!(client.read::<NamesReply>(b"<html>"), Err(StoreError::OtherServer { .. })));
        assert!(matches!(client.types(StoreSpan { from: 0, until: 1 }), Err(StoreError::Slow)), "the time is over");
    }

    #[test]
    fn names_are_sorted_and_printable() {
        let names = ["b", "a", "b", "c\u{1b}[m", &"x".repeat(1000)].map(str::to_owned);
        assert_eq!(sorted(names.to_vec()), ["a", "b"]);
    }

    #[test]
    fn compressed_profiles_are_bounded() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&[7; 1000]).expect("written");
        let packed = packed.finish().expect("written");
        assert_eq!(unpacked(packed.clone(), 1000).expect("a profile").len(), 1000);
        assert!(matches!(unpacked(packed.clone(), 999), Err(StoreError::TooLarge(999))));
        assert!(matches!(unpacked(packed[..20].to_vec(), 999), Err(StoreError::Io(_))));
        assert_eq!(unpacked(vec![1, 2], 2).expect("a profile"), [1, 2]);
    }
}
