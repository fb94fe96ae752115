//! The address of a profile store, and the time that is read from it.

use std::path::Path;

use crate::cli::args::store_query::{parameter, store_address};
use crate::query::time_range::{RangeClock, RangeError, TimeRange};

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreKind {
    Pyroscope,
    Parca,
}

impl StoreKind {
    /// Returns its name, and the port that it listens on by default.
    pub(super) fn usual(self) -> (&'static str, u16) {
        match self {
            Self::Pyroscope => ("Pyroscope", 4040),
            Self::Parca => ("Parca", 7070),
        }
    }
}

/// An address such as `pyroscope://HOST:4040/PATH?query=…&from=-1h&until=now`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoreAddress {
    pub(super) kind: StoreKind,
    /// The URL that requests begin with.
    pub(super) base: String,
    /// The address without the query, for messages.
    pub(super) shown: String,
    pub(super) query: Option<String>,
    pub(super) from: String,
    pub(super) until: String,
}

impl StoreAddress {
    /// Parses a path; `None` if it is not the address of a store.
    pub(super) fn parse(path: &Path) -> Option<Result<Self, String>> {
        let text = store_address(path)?;
        let (scheme, rest) = text.split_once("://")?;
        let rest = rest.split('?').next().unwrap_or_default().trim_end_matches('/');
        let (kind, http) = match scheme {
            "pyroscope" => (StoreKind::Pyroscope, "http"),
            "pyroscopes" => (StoreKind::Pyroscope, "https"),
            "parca" => (StoreKind::Parca, "http"),
            _ => (StoreKind::Parca, "https"),
        };
        if rest.contains('@') {
            let why =
                "passwords in addresses are visible in the process list; set PERFPROF_STORE_AUTH to USER:PASSWORD";
            return Some(Err(format!("{scheme}://…: {why}")));
        }
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]%~/".contains(c);
        if host.is_empty() || host.starts_with([':', '-']) || !rest.chars().all(is_plain) {
            return Some(Err(format!("{scheme}://: expected {scheme}://HOST[:PORT][/PATH]")));
        }
        let has_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
        let port = if has_port || http == "https" { String::new() } else { format!(":{}", kind.usual().1) };
        Some(Ok(Self {
            kind,
            base: format!("{http}://{host}{port}{path}"),
            shown: format!("{scheme}://{rest}"),
            query: parameter(text, "query").filter(|query| !query.trim().is_empty()),
            from: parameter(text, "from").unwrap_or_else(|| "-1h".to_owned()),
            until: parameter(text, "until").unwrap_or_else(|| "now".to_owned()),
        }))
    }

    /// Returns the time to read; `now` is in nanoseconds since 1970.
    pub(super) fn span(&self, now: u64) -> Result<StoreSpan, RangeError> {
        const MS: u64 = 1_000_000;
        let list = TimeRange::parse(&format!("{},{}", self.from, self.until))?;
        let [range] = list[..] else { return Err(RangeError::NoRange) };
        let (from, until) = range.resolve(&RangeClock::new((0, now), now, now))?;
        if until < from { Err(RangeError::Reversed) } else { Ok(StoreSpan { from: from / MS, until: until / MS }) }
    }
}

/// A range of time in milliseconds since 1970; both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreSpan {
    pub(super) from: u64,
    pub(super) until: u64,
}

/// The largest number of slices.
const MOST_SLICES: u64 = 30;
/// Their shortest length in milliseconds. Times of profiles are often whole seconds, and stores differ on whether the ends
/// of a range belong to it: so ends are seldom whole seconds.
const SHORTEST: u64 = 15_001;

impl StoreSpan {
    /// Returns the length of its slices in milliseconds.
    pub(super) fn step(self) -> u64 {
        (self.until - self.from + 1).div_ceil(MOST_SLICES).max(SHORTEST)
    }

    /// Returns the slices near these times. A store assigns a time to the step before or after it, so slices next to a
    /// time are included.
    pub(super) fn slices(self, times: &[u64]) -> Vec<Self> {
        let step = self.step();
        let starts = (0..MOST_SLICES).map(|n| self.from + n * step).filter(|from| *from <= self.until);
        let near = |from: &u64| times.iter().any(|time| (*from..=from + 3 * step).contains(&time.saturating_add(step)));
        starts.filter(near).map(|from| Self { from, until: (from + step - 1).min(self.until) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_kind_a_port_and_a_query() {
        let of = |text: &str| StoreAddress::parse(Path::new(text));
        let base = |text: &str| of(text).and_then(Result::ok).map(|address| (address.kind, address.base));
        let (pyroscope, parca) = (StoreKind::Pyroscope, StoreKind::Parca);
        assert_eq!(base("pyroscope://h/"), Some((pyroscope, "http://h:4040".to_owned())));
        assert_eq!(base("pyroscopes://h/a/?from=-1h"), Some((pyroscope, "https://h/a".to_owned())));
        assert_eq!(base("parca://[::1]"), Some((parca, "http://[::1]:7070".to_owned())));
        assert_eq!(base("parcas://h:1/x"), Some((parca, "https://h:1/x".to_owned())));
        let address = of("parca://h?query=cpu{a=\"b?\"}&until=14:00").expect("a store").expect("an address");
        assert_eq!((address.query.as_deref(), &*address.shown), (Some("cpu{a=\"b?\"}"), "parca://h"));
        assert_eq!((&*address.from, &*address.until), ("-1h", "14:00"));
        for bad in ["parca://", "parca://:1", "parca://a b", "parca://h\u{1b}[m", "parca://-x", "parca://h\"x"] {
            assert!(of(bad).is_some_and(|address| address.is_err()), "{bad}");
        }
        let refused = of("parca://me:s3cret@h").expect("a store").expect_err("refused");
        assert!(refused.contains("PERFPROF_STORE_AUTH") && !refused.contains("s3cret"), "{refused}");
        assert!(of("http://h").is_none() && of("perf.data").is_none());
    }

    #[test]
    fn times_are_those_of_the_other_ranges() {
        let now = 1_700_000_000_000_000_000;
        let of = |from: &str, until: &str| {
            let text = format!("parca://h?from={from}&until={until}");
            StoreAddress::parse(Path::new(&text)).expect("a store").expect("an address").span(now)
        };
        let span = |from, until| Ok(StoreSpan { from, until });
        assert_eq!(of("-1h", "now"), span(1_699_996_400_000, 1_700_000_000_000));
        assert_eq!(of("2023-11-14T22:00:00Z", "-1m"), span(1_699_999_200_000, 1_699_999_940_000));
        for bad in [("x", "now"), ("-1m", "-2m"), ("1%", "2%")] {
            assert!(of(bad.0, bad.1).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn slices_cover_the_span_once() {
        let span = StoreSpan { from: 1_000, until: 3_601_000 };
        let all: Vec<u64> = (0..3_600).map(|second| 1_000 + second * 1_000).collect();
        let slices = span.slices(&all);
        assert_eq!((slices[0].from, slices.last().map(|last| last.until)), (span.from, Some(span.until)));
        assert!(slices.windows(2).all(|two| two[0].until + 1 == two[1].from) && slices.len() == 30);
        let few = span.slices(&[1_000 + 5 * span.step()]);
        assert!(few.len() <= 4 && few.iter().any(|slice| slice.from == 1_000 + 5 * span.step()), "{few:?}");
        assert_eq!(StoreSpan { from: 5, until: 5 }.slices(&[5]), [StoreSpan { from: 5, until: 5 }]);
    }
}
