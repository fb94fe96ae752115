//! Messages of the published protocols of profile stores, which do not trust the server: Pyroscope's querier
//! (api/querier/v1/querier.proto by the Connect protocol) and Parca's query service
//! (proto/parca/query/v1alpha1/query.proto by its HTTP gateway). Both answer in protobuf's JSON; names that differ are
//! alternatives of one member.

use std::io::{self, Read};

use base64::Engine as _;
use jiff::Timestamp;
use prost::Message;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The bytes of a name.
const MOST_NAME: usize = 512;

/// Why an answer of a store cannot be used.
#[derive(Debug, Error)]
pub enum AnswerError {
    /// Another text than the protocol's JSON.
    #[error("its answer is not the API's JSON ({0})")]
    Json(#[from] serde_json::Error),
    /// A profile in another encoding than the protocol's.
    #[error("its profile is not base64")]
    Base64,
    /// A profile that exceeds the limit of bytes.
    #[error("the profile has more than {0} bytes")]
    TooLarge(u64),
    /// A profile whose compression is damaged.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// `message SelectMergeProfileRequest` of Pyroscope's querier.proto.
#[derive(Clone, PartialEq, Message)]
pub struct MergeRequest {
    /// The whole profile type, of five parts.
    #[prost(string, tag = "1")]
    pub profile_type: String,
    /// The conditions on labels, in braces.
    #[prost(string, tag = "2")]
    pub selector: String,
    /// The first millisecond since 1970.
    #[prost(int64, tag = "3")]
    pub start: i64,
    /// The last millisecond since 1970.
    #[prost(int64, tag = "4")]
    pub end: i64,
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

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, AnswerError> {
    Ok(serde_json::from_slice(body)?)
}

/// Returns the profile types of an answer as queries name them: `NAME:TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT`.
pub fn types(body: &[u8]) -> Result<Vec<String>, AnswerError> {
    let reply: TypesReply = read(body)?;
    let id = |of: TypeParts| {
        let mut parts = vec![of.name, of.sample_type, of.sample_unit, of.period_type, of.period_unit];
        parts.extend(of.delta.then(|| "delta".to_owned()));
        parts.join(":")
    };
    Ok(sorted(reply.types.into_iter().map(id).collect()))
}

/// Returns the names of labels, or the values of a label.
pub fn names(body: &[u8]) -> Result<Vec<String>, AnswerError> {
    Ok(sorted(read::<NamesReply>(body)?.names))
}

/// Returns the times of all points of series, in milliseconds since 1970.
pub fn times(body: &[u8]) -> Result<Vec<u64>, AnswerError> {
    let reply: SeriesReply = read(body)?;
    let points = reply.series.iter().flat_map(|series| &series.points);
    Ok(points.filter_map(|point| point.timestamp.ms()).collect())
}

/// Returns the profile in Parca's report.
pub fn report(body: &[u8]) -> Result<Vec<u8>, AnswerError> {
    let reply: ReportReply = read(body)?;
    base64::engine::general_purpose::STANDARD.decode(reply.pprof).map_err(|_| AnswerError::Base64)
}

/// Returns the store's message in an answer that reports a failure.
pub fn failure(body: &[u8]) -> Option<String> {
    read::<FailedReply>(body).ok().map(|reply| reply.message)
}

/// Decompresses a profile of at most this many bytes, if it is compressed by gzip.
pub fn unpacked(bytes: Vec<u8>, most: u64) -> Result<Vec<u8>, AnswerError> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut plain = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes.as_slice()).take(most.saturating_add(1)).read_to_end(&mut plain)?;
    if plain.len() as u64 > most { Err(AnswerError::TooLarge(most)) } else { Ok(plain) }
}

/// Sorts names; leaves out those that no store has on purpose.
fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| name.len() <= MOST_NAME && !name.contains(char::is_control));
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn answers_of_both_stores_are_read() {
        // The form of a recorded answer in Pyroscope's repository, ui/e2e/fixtures/selectseries.json; Parca's gateway.
        for text in [
            r#"{"series":[{"points":[{"value":270000000,"timestamp":"1779729327372"},{"timestamp":8}]}]}"#,
            r#"{"series":[{"labelset":{"labels":[]},"samples":[
                {"timestamp":"2026-05-25T17:15:27.372Z","value":"27"},{"timestamp":"1970-01-01T00:00:00.008Z"}]}]}"#,
        ] {
            assert_eq!(times(text.as_bytes()).expect("a series"), [1_779_729_327_372, 8], "{text}");
        }
        for text in [r#"{"names":["a"]}"#, r#"{"labelNames":["a"],"warnings":[]}"#, r#"{"labelValues":["a"]}"#] {
            assert_eq!(names(text.as_bytes()).expect("names"), ["a"]);
        }
        assert!(names(b"{}").expect("names").is_empty());
        assert!(matches!(names(b"<html>"), Err(AnswerError::Json(_))));
        let text = r#"{"profileTypes":[{"ID":"i","name":"cpu","sampleType":"samples","sampleUnit":"count"}]}"#;
        assert_eq!(types(text.as_bytes()).expect("types"), ["cpu:samples:count::"]);
        let text = r#"{"types":[{"name":"cpu","sampleType":"samples","sampleUnit":"count","periodType":"cpu",
            "periodUnit":"nanoseconds","delta":true}]}"#;
        assert_eq!(types(text.as_bytes()).expect("types"), ["cpu:samples:count:cpu:nanoseconds:delta"]);
        assert_eq!(report(br#"{"pprof":"AQI="}"#).expect("a profile"), [1, 2]);
        assert!(matches!(report(br#"{"pprof":"?"}"#), Err(AnswerError::Base64)));
        assert_eq!(failure(br#"{"code":2,"message":"full"}"#).as_deref(), Some("full"));
        assert_eq!(failure(b"<html>"), None);
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
        assert!(matches!(unpacked(packed.clone(), 999), Err(AnswerError::TooLarge(999))));
        assert!(matches!(unpacked(packed[..20].to_vec(), 999), Err(AnswerError::Io(_))));
        assert_eq!(unpacked(vec![1, 2], 2).expect("a profile"), [1, 2]);
    }
}
