//! A profile store for tests: keeps what `record --push` sends, and answers queries by the APIs of Pyroscope (querier.proto
//! by the Connect protocol) and Parca (query.proto by its HTTP gateway). Both merge profiles like the real stores: one
//! sample type, stacks of equal functions added up.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use perfprof_tui::export::pprof::{Function, Line, Location, Mapping, Profile, Sample, ValueType};
use perfprof_tui::source::imported::store::MergeRequest;
use prost::Message;
use serde_json::{Value, json};

/// A profile that was pushed, with its time in milliseconds since 1970.
#[derive(Clone)]
pub struct KeptProfile {
    pub time: u64,
    pub labels: BTreeMap<String, String>,
    pub profile: Profile,
}

/// A running store. The thread ends with the test.
#[derive(Clone, Default)]
pub struct TestStore {
    /// `HOST:PORT`.
    pub address: String,
    pub kept: Arc<Mutex<Vec<KeptProfile>>>,
    /// The first lines of all requests.
    pub requests: Arc<Mutex<Vec<String>>>,
    /// The field `Authorization` that requests must have.
    auth: Option<&'static str>,
}

/// The status, the type and the body of an answer.
type Answer = (&'static str, &'static str, Vec<u8>);

const JSON: &str = "application/json";

impl TestStore {
    /// Starts a store whose requests need this field `Authorization`, in lower case.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn start(auth: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("address").to_string();
        let store = Self { address, auth, ..Self::default() };
        let own = store.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                own.serve(stream.expect("a connection"));
            }
        });
        store
    }

    /// Keeps a gzipped profile as `record --push` sends it.
    ///
    /// # Panics
    /// If it is not a profile.
    pub fn keep(&self, time: u64, labels: &[(&str, &str)], packed: &[u8]) {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let kept = KeptProfile { time, labels, profile: decoded(packed) };
        self.kept.lock().expect("unpoisoned").push(kept);
    }

    /// Returns the types of all profiles in the form of queries.
    ///
    /// # Panics
    /// If a request failed.
    pub fn types(&self) -> Vec<String> {
        let kept = self.kept.lock().expect("unpoisoned");
        let all: BTreeSet<String> = kept.iter().flat_map(|one| types_of(&one.profile)).collect();
        all.into_iter().collect()
    }

    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        let (mut line, mut head, mut length) = (String::new(), Vec::new(), 0);
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        loop {
            let mut field = String::new();
            reader.read_line(&mut field).expect("field");
            let field = field.trim();
            if field.is_empty() {
                break;
            }
            if let Some(value) = field.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            if field.to_lowercase().starts_with("expect:") {
                reader.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n").expect("written");
            }
            head.push(field.to_owned());
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("body");
        self.requests.lock().expect("unpoisoned").push(line.trim().to_owned());
        let target = line.split(' ').nth(1).unwrap_or_default();
        let has_auth = |auth: &str| head.iter().any(|field| field.to_lowercase() == format!("authorization: {auth}"));
        let (status, kind, body) = match self.auth {
            Some(auth) if !has_auth(auth) => ("401 Unauthorized", "text/plain", Vec::new()),
            _ => self.answer(target, &body),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let _ = reader.get_mut().write_all(head.as_bytes()).and_then(|()| reader.get_mut().write_all(&body));
    }

    fn answer(&self, target: &str, body: &[u8]) -> Answer {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query: BTreeMap<&str, String> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (name, plain(value)))
            .collect();
        if let Some(method) = path.strip_prefix("/querier.v1.QuerierService/") {
            return self.querier(method, body);
        }
        if let Some(path) = path.strip_prefix("/api/profiles/") {
            return self.gateway(path, &query);
        }
        match path {
            "/ingest" => self.ingest(&query, body),
            "/profiles/writeraw" => self.write_raw(body),
            _ => return ("404 Not Found", "text/plain", b"404 page not found\n".to_vec()),
        }
        ("200 OK", JSON, b"{}".to_vec())
    }

    /// Pyroscope's POST /ingest: the profile is a part of a form, the labels are in braces after the name.
    fn ingest(&self, query: &BTreeMap<&str, String>, body: &[u8]) {
        let (name, labels) = query["name"].trim_end_matches('}').split_once('{').expect("labels");
        let mut all = vec![("service_name", name)];
        all.extend(labels.split(',').filter_map(|pair| pair.split_once('=')));
        let start = body.windows(4).position(|four| four == b"\r\n\r\n").expect("a part") + 4;
        let seconds: u64 = query["from"].parse().expect("a number");
        self.keep(seconds * 1000, &all, &body[start..]);
    }

    /// Parca's WriteRaw. The time is that of the profile, and its types must be names of PromQL.
    fn write_raw(&self, body: &[u8]) {
        let json: Value = serde_json::from_slice(body).expect("JSON");
        let series = &json["series"][0];
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let labels = series["labels"]["labels"].as_array().expect("labels").iter();
        let labels: Vec<(String, String)> = labels.map(|one| (text(&one["name"]), text(&one["value"]))).collect();
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let packed = STANDARD.decode(text(&series["samples"][0]["rawProfile"])).expect("base64");
        let profile = decoded(&packed);
        let is_name = |kind: &String| kind.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c));
        assert!(types_of(&profile).iter().all(is_name), "{:?}", types_of(&profile));
        self.keep(profile.time_nanos as u64 / 1_000_000, &labels, &packed);
    }

    fn querier(&self, method: &str, body: &[u8]) -> Answer {
        if method == "SelectMergeProfile" {
            let request = MergeRequest::decode(body).expect("a request");
            let found = self.found(&request.selector, request.start as u64, request.end as u64);
            let merged = merged(&found, &request.profile_type);
            return ("200 OK", "application/proto", merged.map(|profile| profile.encode_to_vec()).unwrap_or_default());
        }
        let request: Value = serde_json::from_slice(body).expect("JSON");
        let number = |name: &str| request[name].as_u64().expect("a number");
        let (start, end) = (number("start"), number("end"));
        let answer = match method {
            "ProfileTypes" => {
                let one = |id: &String| {
                    let parts: Vec<&str> = id.split(':').collect();
                    json!({ "ID": id, "name": parts[0], "sampleType": parts[1], "sampleUnit": parts[2],
                        "periodType": parts[3], "periodUnit": parts[4] })
                };
                json!({ "profileTypes": self.types().iter().map(one).collect::<Vec<_>>() })
            }
            "LabelNames" => json!({ "names": self.labels() }),
            "LabelValues" => json!({ "names": self.values(request["name"].as_str().expect("a name")) }),
            "SelectSeries" => {
                // A point has the profiles of the step before it.
                let step = (request["step"].as_f64().expect("a step") * 1000.0) as u64;
                let found = self.found(request["labelSelector"].as_str().expect("a selector"), start, end);
                let at = |one: &KeptProfile| start + (one.time - start).div_ceil(step) * step;
                let times: BTreeSet<u64> = found.iter().map(at).collect();
                let point = |time: &u64| json!({ "value": 1.0, "timestamp": time.to_string() });
                json!({ "series": [{ "points": times.iter().map(point).collect::<Vec<_>>() }] })
            }
            _ => return ("404 Not Found", "text/plain", b"404 page not found\n".to_vec()),
        };
        ("200 OK", JSON, answer.to_string().into_bytes())
    }

    fn gateway(&self, path: &str, query: &BTreeMap<&str, String>) -> Answer {
        let time = |name: &str| {
            let time: jiff::Timestamp = query[name].parse().expect("a time");
            time.as_millisecond() as u64
        };
        let split = |text: &str| {
            let (kind, selector) = text.split_at(text.find('{').expect("a selector"));
            (kind.to_owned(), selector.to_owned())
        };
        let answer = match path {
            "types" => {
                let one = |id: &String| {
                    let parts: Vec<&str> = id.split(':').collect();
                    json!({ "name": parts[0], "sampleType": parts[1], "sampleUnit": parts[2], "periodType": parts[3],
                        "periodUnit": parts[4], "delta": true })
                };
                json!({ "types": self.types().iter().map(one).collect::<Vec<_>>() })
            }
            "labels" => json!({ "labelNames": self.labels(), "warnings": [] }),
            "query_range" => {
                let (_, selector) = split(&query["query"]);
                let found = self.found(&selector, time("start"), time("end"));
                let point = |one: &KeptProfile| {
                    let at = jiff::Timestamp::from_millisecond(one.time as i64).expect("a time");
                    json!({ "timestamp": at.to_string(), "value": "1" })
                };
                json!({ "series": [{ "labelset": { "labels": [] },
                    "samples": found.iter().map(point).collect::<Vec<_>>() }] })
            }
            "query" => {
                assert_eq!((&*query["mode"], &*query["report_type"]), ("MODE_MERGE", "REPORT_TYPE_PPROF"));
                let (kind, selector) = split(&query["merge.query"]);
                let found = self.found(&selector, time("merge.start"), time("merge.end"));
                let kind = kind.strip_suffix(":delta").expect("a profile of a duration");
                let Some(profile) = merged(&found, kind) else {
                    let message =
                        json!({ "code": 5, "message": "could not find profile at requested time", "details": [] });
                    return ("404 Not Found", JSON, message.to_string().into_bytes());
                };
                let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                packed.write_all(&profile.encode_to_vec()).expect("written");
                json!({ "pprof": STANDARD.encode(packed.finish().expect("written")), "total": "0", "filtered": "0" })
            }
            path => {
                let label = path.strip_prefix("labels/").and_then(|rest| rest.strip_suffix("/values"));
                json!({ "labelValues": self.values(&plain(label.expect("a known path"))), "warnings": [] })
            }
        };
        ("200 OK", JSON, answer.to_string().into_bytes())
    }

    fn labels(&self) -> BTreeSet<String> {
        self.kept.lock().expect("unpoisoned").iter().flat_map(|one| one.labels.keys().cloned()).collect()
    }

    fn values(&self, label: &str) -> BTreeSet<String> {
        let kept = self.kept.lock().expect("unpoisoned");
        kept.iter().filter_map(|one| one.labels.get(label).cloned()).collect()
    }

    /// Returns the profiles of a time whose labels equal all of a selector such as `{a="b",c="d"}`.
    fn found(&self, selector: &str, start: u64, end: u64) -> Vec<KeptProfile> {
        let inner = selector.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).expect("braces");
        let wanted: Vec<(&str, &str)> = inner
            .split(',')
            .filter_map(|one| one.split_once('='))
            .map(|(name, value)| (name.trim(), value.trim().trim_matches('"')))
            .collect();
        let is_wanted = |one: &&KeptProfile| {
            let has = |(name, value): &(&str, &str)| one.labels.get(*name).is_some_and(|own| own == value);
            (start..=end).contains(&one.time) && wanted.iter().all(has)
        };
        self.kept.lock().expect("unpoisoned").iter().filter(is_wanted).cloned().collect()
    }
}

/// Returns now in milliseconds since 1970.
///
/// # Panics
/// If the clock is before 1970.
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    since.as_millis() as u64
}

/// Decodes a gzipped profile; what follows it in a form is not read.
///
/// # Panics
/// If it is not a profile.
pub fn decoded(packed: &[u8]) -> Profile {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).expect("gzip");
    Profile::decode(bytes.as_slice()).expect("pprof")
}

fn plain(text: &str) -> String {
    let mut out = Vec::new();
    let mut parts = text.split('%');
    out.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        out.push(u8::from_str_radix(&part[..2], 16).expect("hexadecimal"));
        out.extend(part[2..].bytes());
    }
    String::from_utf8(out).expect("UTF-8")
}

fn text(profile: &Profile, at: i64) -> String {
    profile.strings[at as usize].clone()
}

fn types_of(profile: &Profile) -> Vec<String> {
    let period = profile.period_type.clone().unwrap_or_default();
    let (of, unit) = (text(profile, period.kind), text(profile, period.unit));
    let one =
        |kind: &ValueType| format!("process_cpu:{}:{}:{of}:{unit}", text(profile, kind.kind), text(profile, kind.unit));
    profile.sample_type.iter().map(one).collect()
}

/// Adds up the values of one type by stack, leaf first; `None` without samples. A function is its name and its file.
///
/// # Panics
/// If an id is dangling.
pub fn sums<'a>(profiles: impl Iterator<Item = &'a Profile>, kind: &str) -> BTreeMap<Vec<(String, String)>, i64> {
    let mut found = BTreeMap::new();
    for profile in profiles {
        let Some(at) = types_of(profile).iter().position(|own| own == kind) else { continue };
        let locations: BTreeMap<u64, &Location> = profile.location.iter().map(|one| (one.id, one)).collect();
        let functions: BTreeMap<u64, &Function> = profile.function.iter().map(|one| (one.id, one)).collect();
        let mappings: BTreeMap<u64, &Mapping> = profile.mapping.iter().map(|one| (one.id, one)).collect();
        for sample in &profile.sample {
            let mut stack = Vec::new();
            for location in sample.location.iter().map(|id| locations[id]) {
                let file = mappings.get(&location.mapping).map_or_else(String::new, |of| text(profile, of.filename));
                let name = |line: &Line| text(profile, functions[&line.function].name);
                stack.extend(location.line.iter().map(|line| (name(line), file.clone())));
            }
            *found.entry(stack).or_default() += sample.value[at];
        }
    }
    found
}

/// Returns the values of one type by the name of the function at the end of the stack.
///
/// # Panics
/// If an id is dangling.
pub fn leaves<'a>(profiles: impl Iterator<Item = &'a Profile>, kind: &str) -> BTreeMap<String, u64> {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, value) in sums(profiles, kind) {
        let (name, _) = stack.first().cloned().unwrap_or_default();
        *found.entry(name).or_default() += value as u64;
    }
    found.retain(|_, value| *value > 0);
    found
}

/// Periods by function in a report as JSON, of functions with samples of their own.
///
/// # Panics
/// If it is not a report.
pub fn periods(output: &Output) -> BTreeMap<String, u64> {
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for row in
        report["events"].as_array().expect("events").iter().flat_map(|event| event["rows"].as_array().expect("rows"))
    {
        let name = row["sym"].as_str().expect("a name").to_owned();
        *found.entry(name).or_default() += row["period"].as_u64().expect("a period");
    }
    found.retain(|_, period| *period > 0);
    found
}

/// Merges profiles into one with a single sample type, like both stores.
fn merged(found: &[KeptProfile], kind: &str) -> Option<Profile> {
    let sums = sums(found.iter().map(|one| &one.profile), kind);
    let parts: Vec<&str> = kind.split(':').collect();
    let mut out = Profile { strings: vec![String::new()], ..Profile::default() };
    let mut string = |text: &str| {
        out.strings.iter().position(|own| own == text).unwrap_or_else(|| {
            out.strings.push(text.to_owned());
            out.strings.len() - 1
        }) as i64
    };
    out.sample_type = vec![ValueType { kind: string(parts[1]), unit: string(parts[2]) }];
    let mut ids: BTreeMap<(String, String), u64> = BTreeMap::new();
    let (mut functions, mut locations, mut mappings, mut samples) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (stack, value) in &sums {
        let mut sample = Sample { value: vec![*value], ..Sample::default() };
        for (name, file) in stack {
            let next = ids.len() as u64 + 1;
            let id = *ids.entry((name.clone(), file.clone())).or_insert(next);
            if id == next {
                let (name, filename) = (string(name), string(file));
                functions.push(Function { id, name, system_name: name, filename });
                mappings.push(Mapping { id, filename, ..Mapping::default() });
                let line = vec![Line { function: id, line: 0 }];
                locations.push(Location { id, mapping: id, address: id, line });
            }
            sample.location.push(id);
        }
        samples.push(sample);
    }
    (out.function, out.location, out.mapping, out.sample) = (functions, locations, mappings, samples);
    (!out.sample.is_empty()).then_some(out)
}
