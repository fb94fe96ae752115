//! `record --push URL`: profiles of each interval go to a store of continuous profiles, over HTTP.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use base64::Engine as _;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::engine::curl::{Curl, hidden, secrets, shown};
use crate::engine::slices::Slices;
use crate::export::pprof;
use crate::kernel::privilege;
use crate::kernel::spawn::Output;
use crate::kernel::wall_ns;
use crate::panel::unit::{bytes, thousands};
use crate::source::{Batch, Control, Rate, Source, Step};
use crate::symbols::resolver::Options;

use super::args::{Record, StoreArg};
use super::output::complain;
use super::{Usage, config, setup};

/// Bytes of profiles that wait while the store cannot be reached; the oldest give way.
const SPOOL: usize = 64 << 20;
/// The first pause after a failure; it doubles up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// How long the last profiles may take when all is over.
const FAREWELL: Duration = Duration::from_secs(10);

/// A profile on its way: gzipped pprof and the seconds since 1970 that it is of.
#[derive(Clone, Debug)]
struct Parcel {
    pprof: Vec<u8>,
    from: u64,
    until: u64,
}

/// Where profiles go, and under which name.
struct Store {
    url: String,
    /// The address as it is shown.
    shown: String,
    auth: Option<Auth>,
    /// What no message may have.
    secrets: Vec<String>,
    kind: StoreArg,
    name: String,
    labels: Vec<(String, String)>,
    rate: u64,
}

/// Who we are to the store.
enum Auth {
    /// `USER:PASSWORD`.
    Basic(String),
    Token(String),
}

/// Where it may stand, beside the file that is named.
const AUTH: &str = "PERFPROF_PUSH_AUTH";

impl Auth {
    /// `USER:PASSWORD`, or `Bearer TOKEN`.
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.strip_prefix("Bearer ").map(str::trim) {
            Some(token) if !token.is_empty() && !token.contains(char::is_whitespace) => {
                Some(Self::Token(token.to_owned()))
            }
            None if text.contains(':') && !text.contains(['\n', '\r']) => Some(Self::Basic(text.to_owned())),
            _ => None,
        }
    }

    /// From the file that is named, or the environment. What is wrong with it is said without it.
    fn of(args: &Record) -> anyhow::Result<Option<Self>> {
        let usage = |from: &str| Usage(format!("{from}: expected USER:PASSWORD, or Bearer TOKEN, in one line"));
        if let Some(path) = &args.push_auth_file {
            let from = format!("--push-auth-file {}", path.display());
            let text = config::private_file(path).map_err(|why| anyhow::anyhow!("--push-auth-file {why}"))?;
            let text = text.ok_or_else(|| anyhow::anyhow!("{from}: there is no such file"))?;
            return Ok(Some(Self::parse(&text).ok_or_else(|| usage(&from))?));
        }
        let Some(text) = privilege::variable(AUTH) else { return Ok(None) };
        let text = text.to_str().and_then(Self::parse);
        Ok(Some(text.ok_or_else(|| usage(AUTH))?))
    }

    fn secrets(&self) -> Vec<String> {
        match self {
            Self::Token(token) => vec![token.clone()],
            Self::Basic(text) => text.split_once(':').map(|(_, password)| password.to_owned()).into_iter().collect(),
        }
    }
}

/// What came of sending one.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Yes,
    /// It may work later.
    Later(String),
    /// It never will.
    Never(String),
}

/// Samples and pushes until a signal comes or the command ends.
pub fn run(args: &Record) -> anyhow::Result<u8> {
    let store = Store::of(args)?;
    let interval = Duration::try_from_secs_f64(args.push_interval).ok().filter(|i| *i >= Duration::from_secs(1));
    let interval =
        interval.ok_or_else(|| Usage(format!("--push-interval {}: expected 1 second or more", args.push_interval)))?;
    let started = setup::start(&args.sampling, &args.cmd, Output::Inherit)?;
    setup::warn(started.warning.as_ref());
    let mut source = started.source;
    let own_pid = (!args.sampling.include_self).then(|| std::process::id() as i32);
    let mut slices = Slices::new(source.info(), own_pid, Options::of_user());
    let period = source.info().events.first().map_or(0, |event| match Rate::of(&event.attr) {
        Rate::Period(period) => period,
        Rate::Frequency(_) => 0,
    });
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    let (sender, parcels) = bounded::<Parcel>(64);
    let quiet = args.quiet;
    let post = std::thread::Builder::new().name("push".to_owned()).spawn(move || deliver(&store, &parcels, quiet))?;
    let (mut batch, mut began, mut due) = (Batch::default(), Instant::now(), Instant::now() + interval);
    let ended = loop {
        if stop.load(Ordering::Relaxed) {
            let _ = source.control(&Control::Stop);
        }
        let step = source.next(&mut batch)?;
        batch.notes.iter().for_each(|note| complain(note));
        slices.feed(&mut batch);
        batch.clear();
        let over = matches!(step, Step::End(_));
        if over {
            slices.feed(&mut Batch { complete_until: Some(u64::MAX), ..Batch::default() });
        }
        if over || Instant::now() >= due {
            due += interval;
            began = cut(&mut slices, period, began, &sender)?;
        }
        if let Step::End(why) = step {
            break why;
        }
    };
    drop(sender);
    let sent = post.join().unwrap_or_default();
    let lost = slices.counts().1;
    if !quiet {
        complain(&format!("{ended}; {sent}, lost {} samples", thousands(lost)));
    }
    Ok(u8::from(sent.failed > 0))
}

/// Hands the slice over and begins the next one; when that is.
fn cut(slices: &mut Slices, period: u64, began: Instant, sender: &Sender<Parcel>) -> anyhow::Result<Instant> {
    let now = Instant::now();
    if slices.counts().0 > 0 {
        let mut pprof = Vec::new();
        pprof::write(slices.data(), 0, None, period, &mut pprof)?;
        slices.next();
        // Whoever empties the queue never waits long: what cannot be sent waits with it.
        let (from, until) = span(wall_ns(), now.duration_since(began));
        let _ = sender.send(Parcel { pprof, from, until });
    }
    Ok(now)
}

/// Seconds since 1970 between which a slice is that has just ended: the clock may have been set since it began.
fn span(wall_ns: u64, took: Duration) -> (u64, u64) {
    let began = wall_ns.saturating_sub(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    (began / 1_000_000_000, wall_ns.div_ceil(1_000_000_000))
}

/// How it went.
#[derive(Debug, Default)]
struct Summary {
    sent: u64,
    failed: u64,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} profiles pushed, {} not", self.sent, self.failed)
    }
}

/// Sends what comes; what cannot be sent is tried again, later and later.
fn deliver(store: &Store, parcels: &Receiver<Parcel>, quiet: bool) -> Summary {
    let mut summary = Summary::default();
    let mut spool: VecDeque<Parcel> = VecDeque::new();
    let (mut pause, mut again, mut told) = (PAUSE, Instant::now(), String::new());
    let mut open = true;
    let mut deadline = None;
    while open || !spool.is_empty() {
        let wait = if spool.is_empty() { LONGEST } else { again.saturating_duration_since(Instant::now()) };
        if open {
            match parcels.recv_timeout(wait) {
                Ok(parcel) => summary.failed += keep(&mut spool, parcel),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    open = false;
                    deadline = Some(Instant::now() + FAREWELL);
                }
            }
        } else {
            std::thread::sleep(wait.min(FAREWELL));
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            break;
        }
        while let Some(parcel) = spool.front().filter(|_| Instant::now() >= again || !open) {
            let failed = match send(store, parcel) {
                Sent::Yes => {
                    if !told.is_empty() && !quiet {
                        complain(&format!("{} takes profiles again", store.shown));
                    }
                    (pause, told) = (PAUSE, String::new());
                    summary.sent += 1;
                    spool.pop_front();
                    continue;
                }
                Sent::Never(why) => {
                    summary.failed += 1;
                    spool.pop_front();
                    why
                }
                Sent::Later(why) => {
                    again = Instant::now() + pause;
                    pause = (pause * 2).min(LONGEST);
                    why
                }
            };
            let failed = hidden(&failed, &store.secrets);
            if told != failed {
                complain(&format!("{}: {failed}; {} profiles wait", store.shown, spool.len()));
                told = failed;
            }
            break;
        }
    }
    summary.failed += spool.len() as u64;
    summary
}

/// Puts a profile to those that wait; how many had to give way to it.
fn keep(spool: &mut VecDeque<Parcel>, parcel: Parcel) -> u64 {
    spool.push_back(parcel);
    let mut held: usize = spool.iter().map(|parcel| parcel.pprof.len()).sum();
    let mut gone = 0;
    while held > SPOOL && spool.len() > 1 {
        held -= spool.pop_front().map_or(0, |parcel| parcel.pprof.len());
        gone += 1;
    }
    if gone > 0 {
        complain(&format!("{gone} profiles that waited are given up: more than {} wait", bytes(SPOOL as u64)));
    }
    gone
}

impl Store {
    fn of(args: &Record) -> anyhow::Result<Self> {
        let url = args.push.clone().unwrap_or_default();
        let proper =
            ["http://", "https://"].iter().any(|scheme| url.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
        if !proper || url.contains(|c: char| c.is_whitespace() || c.is_control()) {
            // There may be a password in what was typed.
            return Err(Usage(
                "--push: expected http://HOST:PORT or https://… (what was given is not repeated here)".into(),
            )
            .into());
        }
        let auth = Auth::of(args)?;
        let secrets: Vec<String> = secrets(&url).into_iter().chain(auth.iter().flat_map(Auth::secrets)).collect();
        if url.contains('@') && !args.quiet {
            complain("who lists processes sees the password in --push: --push-auth-file or PERFPROF_PUSH_AUTH hide it");
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
            url: url.trim_end_matches('/').to_owned(),
            auth,
            secrets,
            kind: args.push_to,
            name: args.push_name.clone(),
            labels,
            rate: args.sampling.freq.parse().unwrap_or(0),
        })
    }

    /// The address that a profile is posted to.
    fn address(&self, parcel: &Parcel) -> String {
        match self.kind {
            // Grafana Pyroscope, "Server HTTP API", POST /ingest.
            StoreArg::Pyroscope => {
                let labels: Vec<String> = self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let name = escaped(&format!("{}{{{}}}", self.name, labels.join(",")));
                let own = format!(
                    "name={name}&from={}&until={}&format=pprof&sampleRate={}&spyName=perfprof-tui",
                    parcel.from, parcel.until, self.rate
                );
                self.below("ingest", &own)
            }
            // Parca, proto/parca/profilestore/v1alpha1/profilestore.proto: WriteRaw.
            StoreArg::Parca => self.below("profiles/writeraw", ""),
        }
    }

    /// An address below the store's own, whose query stays.
    fn below(&self, path: &str, query: &str) -> String {
        let (base, own) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let query = [query, own].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&");
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}/{path}{mark}{query}", base.trim_end_matches('/'))
    }

    /// The body of Parca's WriteRaw as JSON.
    fn raw_series(&self, parcel: &Parcel) -> String {
        let own = [("__name__".to_owned(), "process_cpu".to_owned()), ("job".to_owned(), self.name.clone())];
        let labels: Vec<serde_json::Value> = own
            .iter()
            .chain(&self.labels)
            .map(|(name, value)| serde_json::json!({ "name": name, "value": value }))
            .collect();
        let profile = base64::engine::general_purpose::STANDARD.encode(&parcel.pprof);
        let series = serde_json::json!([{ "labels": { "labels": labels }, "samples": [{ "rawProfile": profile }] }]);
        serde_json::json!({ "series": series, "normalized": false }).to_string()
    }
}

/// Percent-encoding (RFC 3986, section 2.1).
fn escaped(text: &str) -> String {
    let one = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(b).to_string(),
        b => format!("%{b:02X}"),
    };
    text.bytes().map(one).collect()
}

fn send(store: &Store, parcel: &Parcel) -> Sent {
    match post(store, parcel) {
        Ok(code) => judge(code),
        Err(why) => Sent::Later(format!("{why:#}")),
    }
}

/// What a status code means for what was sent (RFC 9110, section 15).
fn judge(code: u16) -> Sent {
    match code {
        200..300 => Sent::Yes,
        408 | 425 | 429 | 500..600 => Sent::Later(format!("it answers {code}")),
        _ => Sent::Never(format!("it does not take this: it answers {code}")),
    }
}

fn post(store: &Store, parcel: &Parcel) -> anyhow::Result<u16> {
    let mut body = tempfile::NamedTempFile::new()?;
    let curl = Curl::new(&store.address(parcel)).option("connect-timeout", "5").option("max-time", "30");
    let curl = curl.option("output", "/dev/null").option("write-out", "%{http_code}");
    let curl = match &store.auth {
        Some(Auth::Basic(user)) => curl.option("user", user),
        Some(Auth::Token(token)) => curl.option("oauth2-bearer", token),
        None => curl,
    };
    let curl = match store.kind {
        StoreArg::Pyroscope => {
            body.write_all(&parcel.pprof)?;
            curl.option("form", &format!("profile=@{};type=application/octet-stream", body.path().display()))
        }
        StoreArg::Parca => {
            body.write_all(store.raw_series(parcel).as_bytes())?;
            let curl = curl.option("header", "Content-Type: application/json");
            curl.option("data-binary", &format!("@{}", body.path().display()))
        }
    };
    body.flush()?;
    let child = curl.start().context("curl cannot be run, which pushes profiles")?;
    let output = child.wait_with_output()?;
    let code = String::from_utf8_lossy(&output.stdout).trim().parse::<u16>().unwrap_or(0);
    if !output.status.success() || code == 0 {
        anyhow::bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_as_long_as_it_took() {
        assert_eq!(span(1_000_500_000_000, Duration::from_secs(10)), (990, 1001));
        assert_eq!(span(5_000_000_000, Duration::from_secs(10)), (0, 5));
    }

    #[test]
    fn addresses_and_answers() {
        let store = Store {
            url: "http://store:4040".into(),
            shown: "http://store:4040".into(),
            auth: None,
            secrets: Vec::new(),
            kind: StoreArg::Pyroscope,
            name: "web cpu".into(),
            labels: vec![("host".into(), "node-7".into())],
            rate: 99,
        };
        let parcel = Parcel { pprof: vec![1, 2], from: 100, until: 110 };
        let address = store.address(&parcel);
        assert!(
            address.starts_with("http://store:4040/ingest?name=web%20cpu%7Bhost%3Dnode-7%7D&from=100&until=110&"),
            "{address}"
        );
        let queried = Store { kind: StoreArg::Parca, url: "https://store/x?tenant=a".into(), ..store };
        assert_eq!(queried.address(&parcel), "https://store/x/profiles/writeraw?tenant=a");
        let body = queried.raw_series(&parcel);
        let json: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(json["series"][0]["samples"][0]["rawProfile"], "AQI=");
        assert_eq!((judge(204), judge(400)), (Sent::Yes, Sent::Never("it does not take this: it answers 400".into())));
        assert!(matches!(judge(503), Sent::Later(_)) && matches!(judge(429), Sent::Later(_)));
    }

    #[test]
    fn the_spool_is_bounded_and_the_oldest_give_way() {
        let mut spool = VecDeque::new();
        let parcel = |from| Parcel { pprof: vec![0; SPOOL / 2], from, until: from };
        let gone: u64 = (0..5).map(|from| keep(&mut spool, parcel(from))).sum();
        assert_eq!((gone, spool.front().map(|p| p.from), spool.len()), (3, Some(3), 2));
    }
}
