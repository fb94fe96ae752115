//! A profile store: its address, the credentials, and the protocol of each type.

use std::io::{self, Write};

use anyhow::Context;
use base64::Engine as _;
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceResponse;
use prost::Message;

use super::grpc;
use crate::engine::curl::{Curl, escaped, secrets, shown};
use crate::export::{ExportInput, otlp, pprof};
use crate::lang::quantity;
use crate::query::Data;

use crate::cli::args::{RecordArgs, StoreArg};
use crate::cli::credentials::Credentials;
use crate::cli::output::complain;
use crate::cli::{Usage, usage};

/// A profile in the store's format, and its time range in seconds since 1970.
#[derive(Clone, Debug)]
pub(crate) struct UploadPayload {
    pub(crate) profile: Vec<u8>,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

struct StoreProtocol {
    /// Path below the store's address that profiles are posted to, and its query.
    path: &'static str,
    query: fn(&ProfileStore, &UploadPayload) -> String,
    write: fn(&ExportInput<'_>, &mut dyn Write) -> io::Result<()>,
    body: fn(&ProfileStore, &UploadPayload) -> Vec<u8>,
    /// Configures curl to post the file with the body.
    post: fn(&ProfileStore, Curl, &str) -> Curl,
    /// Returns the outcome from curl's output.
    judge: fn(&[u8]) -> Option<SendOutcome>,
}

/// Grafana Pyroscope, "Server HTTP API", POST /ingest.
static PYROSCOPE: StoreProtocol = StoreProtocol {
    path: "ingest",
    query: ProfileStore::series,
    write: pprof::write,
    body: |_, parcel| parcel.profile.clone(),
    post: |_, curl, file| by_status(curl).option("form", &format!("profile={file};type=application/octet-stream")),
    judge: judge_status,
};

/// Parca, proto/parca/profilestore/v1alpha1/profilestore.proto: WriteRaw.
static PARCA: StoreProtocol = StoreProtocol {
    path: "profiles/writeraw",
    query: |_, _| String::new(),
    write: pprof::write_for_parca,
    body: |store, parcel| store.raw_series(parcel).into_bytes(),
    post: |_, curl, file| {
        by_status(curl).option("header", "Content-Type: application/json").option("data-binary", file)
    },
    judge: judge_status,
};

/// OTLP over gRPC: opentelemetry-proto, collector/profiles/v1development/profiles_service.proto.
static OTLP: StoreProtocol = StoreProtocol {
    path: "opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
    query: |_, _| String::new(),
    write: otlp::write,
    body: |_, parcel| grpc::framed(&parcel.profile),
    post: |store, curl, file| grpc::call(curl, store.url.starts_with("http://")).option("data-binary", file),
    judge: |output| Some(grpc::answer(output)).filter(|said| said.http > 0).map(|said| judge_call(&said)),
};

fn by_status(curl: Curl) -> Curl {
    curl.option("output", "/dev/null").option("write-out", "%{http_code}")
}

fn judge_status(output: &[u8]) -> Option<SendOutcome> {
    String::from_utf8_lossy(output).trim().parse().ok().filter(|code| *code > 0).map(judge)
}

pub(crate) struct ProfileStore {
    url: String,
    /// Address as shown in messages, without credentials.
    pub(crate) shown: String,
    auth: Option<Credentials>,
    /// Secrets that must not appear in messages.
    pub(crate) secrets: Vec<String>,
    protocol: &'static StoreProtocol,
    name: String,
    labels: Vec<(String, String)>,
    rate: u64,
}

/// Environment variable with the credentials, as an alternative to the file.
const AUTH: &str = "PERFPROF_PUSH_AUTH";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    Yes,
    /// Failed; a later attempt may succeed.
    Later(String),
    Never(String),
}

impl ProfileStore {
    pub(crate) fn of(args: &RecordArgs) -> anyhow::Result<Self> {
        let url = args.push.clone().unwrap_or_default();
        let Some((protocol, address)) = addressed(&url, args.push_to) else {
            // The address may contain a password.
            let why = "--push: expected http://HOST:PORT, https://…, otlp://HOST:PORT or otlps://… (the address \
                       given is not shown, as it may contain a password)";
            return Err(usage(why));
        };
        if url.starts_with("otlp") && args.push_to.is_some() {
            return Err(usage("--push-to is only for stores at http:// and https://"));
        }
        let auth = Credentials::of(args.push_auth_file.as_deref(), "--push-auth-file", AUTH)?;
        let secrets: Vec<String> =
            secrets(&url).into_iter().chain(auth.iter().flat_map(Credentials::secrets)).collect();
        if url.contains('@') && !args.quiet {
            complain(
                "the password in --push is visible in the process list; use --push-auth-file or PERFPROF_PUSH_AUTH",
            );
        }
        let label = |text: &String| {
            let (key, value) = text.split_once('=').unwrap_or_default();
            let proper = |c: char| c.is_ascii_alphanumeric() || c == '_';
            match !key.is_empty() && key.chars().all(proper) {
                true => Ok((key.to_owned(), value.to_owned())),
                false => Err(Usage(format!(
                    "--push-label {text}: expected NAME=VALUE, with letters, digits and _ in the name"
                ))),
            }
        };
        let mut labels = args.push_labels.iter().map(label).collect::<Result<Vec<_>, _>>()?;
        if !labels.iter().any(|(key, _)| key == "host") {
            labels.insert(0, ("host".to_owned(), rustix::system::uname().nodename().to_string_lossy().into_owned()));
        }
        Ok(Self {
            shown: shown(&url),
            url: address.trim_end_matches('/').to_owned(),
            auth,
            secrets,
            protocol,
            name: args.push_name.clone(),
            labels,
            rate: quantity::hertz(&args.sampling.freq).unwrap_or(0),
        })
    }

    /// Returns the address to post to: below the store's address, with its query.
    fn address(&self, parcel: &UploadPayload) -> String {
        let (base, own) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let query = (self.protocol.query)(self, parcel);
        let query = [&query, own].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&");
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}/{}{mark}{query}", base.trim_end_matches('/'), self.protocol.path)
    }

    fn series(&self, parcel: &UploadPayload) -> String {
        let labels: Vec<String> = self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let name = escaped(&format!("{}{{{}}}", self.name, labels.join(",")));
        format!(
            "name={name}&from={}&until={}&format=pprof&sampleRate={}&spyName=perfprof-tui",
            parcel.from, parcel.until, self.rate
        )
    }

    /// Returns the profile of an interval; times are in seconds since 1970.
    pub(crate) fn profile(&self, data: Data<'_>, period: u64, from: u64) -> io::Result<Vec<u8>> {
        let key = |key: &String| if key == "host" { "host.name".to_owned() } else { key.clone() };
        let labels = self.labels.iter().map(|(name, value)| (key(name), value.clone()));
        let resource = std::iter::once(("service.name".to_owned(), self.name.clone())).chain(labels).collect();
        let wall_ns = from.saturating_mul(1_000_000_000);
        let (frequency, filter) = (self.rate, None);
        let (title, annotate, event, mut out) = ("", false, 0, Vec::new());
        let input = ExportInput { data, event, filter, title, annotate, wall_ns, period, frequency, resource };
        (self.protocol.write)(&input, &mut out)?;
        Ok(out)
    }

    pub(crate) fn send(&self, parcel: &UploadPayload) -> SendOutcome {
        self.post(parcel).unwrap_or_else(|why| SendOutcome::Later(format!("{why:#}")))
    }

    fn post(&self, parcel: &UploadPayload) -> anyhow::Result<SendOutcome> {
        let mut body = tempfile::NamedTempFile::new()?;
        let file = format!("@{}", body.path().display());
        let curl = Curl::new(&self.address(parcel)).option("connect-timeout", "5").option("max-time", "30");
        let curl = self.auth.iter().fold(curl, |curl, auth| auth.given(curl));
        body.write_all(&(self.protocol.body)(self, parcel))?;
        body.flush()?;
        let child = (self.protocol.post)(self, curl, &file).start().context("cannot run curl, which sends profiles")?;
        let output = child.wait_with_output()?;
        match (self.protocol.judge)(&output.stdout) {
            Some(sent) if output.status.success() => Ok(sent),
            _ => Ok(unanswered(output.status.code(), String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    fn raw_series(&self, parcel: &UploadPayload) -> String {
        let own = [("__name__".to_owned(), "process_cpu".to_owned()), ("job".to_owned(), self.name.clone())];
        let labels: Vec<serde_json::Value> = own
            .iter()
            .chain(&self.labels)
            .map(|(name, value)| serde_json::json!({ "name": name, "value": value }))
            .collect();
        let profile = base64::engine::general_purpose::STANDARD.encode(&parcel.profile);
        let series = serde_json::json!([{ "labels": { "labels": labels }, "samples": [{ "rawProfile": profile }] }]);
        serde_json::json!({ "series": series, "normalized": false }).to_string()
    }
}

fn addressed(url: &str, to: Option<StoreArg>) -> Option<(&'static StoreProtocol, String)> {
    let (scheme, rest) = url.split_once("://").filter(|(_, rest)| !rest.is_empty())?;
    let (protocol, scheme) = match (scheme, to) {
        ("http" | "https", None | Some(StoreArg::Pyroscope)) => (&PYROSCOPE, scheme),
        ("http" | "https", Some(StoreArg::Parca)) => (&PARCA, scheme),
        ("otlp", _) => (&OTLP, "http"),
        ("otlps", _) => (&OTLP, "https"),
        _ => return None,
    };
    let is_proper = !rest.contains(|c: char| c.is_whitespace() || c.is_control());
    is_proper.then(|| (protocol, format!("{scheme}://{rest}")))
}

/// Returns the outcome for a status code (RFC 9110, section 15).
fn judge(code: u16) -> SendOutcome {
    match code {
        200..300 => SendOutcome::Yes,
        408 | 425 | 429 | 500..600 => SendOutcome::Later(format!("the store answers {code}")),
        _ => SendOutcome::Never(format!("the store rejects the profile: it answers {code}")),
    }
}

/// Returns the outcome for curl's exit code if there was no answer. An invalid address is not retried.
fn unanswered(code: Option<i32>, said: &str) -> SendOutcome {
    const MALFORMED: i32 = 3;
    match code {
        Some(MALFORMED) => SendOutcome::Never(said.to_owned()),
        _ => SendOutcome::Later(said.to_owned()),
    }
}

/// Returns the outcome for a gRPC answer (OTLP specification, "OTLP/gRPC Response").
fn judge_call(answer: &grpc::GrpcReply) -> SendOutcome {
    let Some(status) = answer.status else {
        return match judge(answer.http) {
            SendOutcome::Yes => SendOutcome::Later("the store answers without a gRPC status".to_owned()),
            failed => failed,
        };
    };
    let said = format!("gRPC status {status} {}", answer.message);
    match status {
        0 => match ExportProfilesServiceResponse::decode(&*answer.body).unwrap_or_default().partial_success {
            Some(part) if part.rejected_profiles > 0 => SendOutcome::Never(format!(
                "the store rejects {} profiles: {}",
                part.rejected_profiles, part.error_message
            )),
            _ => SendOutcome::Yes,
        },
        // Cancelled, deadline exceeded, aborted, out of range, unavailable, data loss.
        1 | 4 | 10 | 11 | 14 | 15 => SendOutcome::Later(format!("the store answers {said}")),
        // Resource exhausted: temporary only if the answer has details; otherwise the request is too large.
        8 if answer.has_details => SendOutcome::Later(format!("the store answers {said}")),
        _ => SendOutcome::Never(format!("the store rejects the profile: it answers {said}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_answers() {
        let store = ProfileStore {
            url: "http://store:4040".into(),
            shown: "http://store:4040".into(),
            auth: None,
            secrets: Vec::new(),
            protocol: &PYROSCOPE,
            name: "web cpu".into(),
            labels: vec![("host".into(), "node-7".into())],
            rate: 99,
        };
        let parcel = UploadPayload { profile: vec![1, 2], from: 100, until: 110 };
        let address = store.address(&parcel);
        assert!(
            address.starts_with("http://store:4040/ingest?name=web%20cpu%7Bhost%3Dnode-7%7D&from=100&until=110&"),
            "{address}"
        );
        let queried = ProfileStore { protocol: &PARCA, url: "https://store/x?tenant=a".into(), ..store };
        assert_eq!(queried.address(&parcel), "https://store/x/profiles/writeraw?tenant=a");
        let body = queried.raw_series(&parcel);
        let json: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(json["series"][0]["samples"][0]["rawProfile"], "AQI=");
        assert_eq!(
            (judge(204), judge(400)),
            (SendOutcome::Yes, SendOutcome::Never("the store rejects the profile: it answers 400".into()))
        );
        assert!(matches!(judge(503), SendOutcome::Later(_)) && matches!(judge(429), SendOutcome::Later(_)));
        assert!(matches!(unanswered(Some(3), "bad"), SendOutcome::Never(why) if why == "bad"));
        // Unknown host, refused connection, or curl was ended by a signal.
        for code in [Some(6), Some(7), None] {
            assert!(matches!(unanswered(code, ""), SendOutcome::Later(_)), "{code:?}");
        }
    }

    #[test]
    fn an_answer_of_grpc_is_final_or_not() {
        let answer = |status, body: &[u8], has_details| {
            judge_call(&grpc::GrpcReply {
                http: 200,
                status,
                body: body.to_vec(),
                has_details,
                ..grpc::GrpcReply::default()
            })
        };
        assert_eq!(answer(Some(0), &[], false), SendOutcome::Yes);
        let part = ExportProfilesServiceResponse {
            partial_success: Some(
                opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesPartialSuccess {
                    rejected_profiles: 2,
                    error_message: "old".to_owned(),
                },
            ),
        };
        assert_eq!(
            answer(Some(0), &part.encode_to_vec(), false),
            SendOutcome::Never("the store rejects 2 profiles: old".to_owned())
        );
        assert!(matches!(answer(Some(14), &[], false), SendOutcome::Later(_)));
        assert!(matches!(answer(Some(8), &[], true), SendOutcome::Later(_)));
        assert!(matches!(answer(Some(8), &[], false), SendOutcome::Never(_)));
        assert!(matches!(answer(Some(12), &[], false), SendOutcome::Never(_)));
        assert!(matches!(answer(None, &[], false), SendOutcome::Later(_)));
    }

    #[test]
    fn an_address_says_what_is_spoken_there() {
        let of = |url, to| addressed(url, to).map(|(protocol, address)| (protocol.path, address));
        assert_eq!(of("http://h:1", None), Some((PYROSCOPE.path, "http://h:1".to_owned())));
        assert_eq!(of("https://h:1", Some(StoreArg::Parca)), Some((PARCA.path, "https://h:1".to_owned())));
        assert_eq!(of("otlp://me:x@h:4317", None), Some((OTLP.path, "http://me:x@h:4317".to_owned())));
        assert_eq!(of("otlps://h", None), Some((OTLP.path, "https://h".to_owned())));
        for bad in ["h:1", "http//h", "otlp://", "ftp://h", "otlp://a b"] {
            assert_eq!(of(bad, None), None, "{bad}");
        }
    }
}
