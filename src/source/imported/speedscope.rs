//! speedscope's JSON (speedscope.app/file-format-schema.json): each profile is a thread.

use hashbrown::HashMap;
use serde::Deserialize;

use crate::lang::counted;
use crate::perfdata::EventUnit;

use super::ImportError;
use super::few::few;
use super::labels::NO_LABELS;
use super::profile::{ImportedProfile, ImportedSample, NO_ID, ROOT, kind_of, rounded, unit_of};

#[derive(Deserialize)]
pub(super) struct SpeedscopeFile {
    shared: Shared,
    #[serde(deserialize_with = "few")]
    profiles: Vec<Profile>,
    name: Option<String>,
    exporter: Option<String>,
}

#[derive(Deserialize)]
struct Shared {
    frames: Vec<FrameName>,
}

#[derive(Deserialize)]
struct FrameName {
    name: String,
    file: Option<String>,
}

/// The types of a file's profiles, which decide on their other members.
#[derive(Deserialize)]
pub(super) struct SpeedscopeTypes {
    #[serde(deserialize_with = "few")]
    profiles: Vec<TypedProfile>,
}

#[derive(Deserialize)]
struct TypedProfile {
    #[serde(rename = "type")]
    kind: Option<String>,
}

/// The known types of profiles.
const SAMPLED: &str = "sampled";
const EVENTED: &str = "evented";
/// The unknown types that a message names, and the characters of each.
const MOST_NAMED: usize = 3;
const MOST_NAME: usize = 40;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    start_value: f64,
    #[serde(default)]
    samples: Vec<Vec<u32>>,
    #[serde(default)]
    weights: Vec<f64>,
    #[serde(default)]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: EventKind,
    frame: u32,
    at: f64,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
enum EventKind {
    #[serde(rename = "O")]
    Open,
    #[serde(rename = "C")]
    Close,
}

/// The decimals of weights without a unit, if any is a fraction.
const DECIMALS: u8 = 6;
/// The maximum sum of weights, with decimals.
const MOST_SUM: f64 = 1e18;

impl Profile {
    /// Returns whether it is of a type; a profile without one is of each.
    fn is(&self, kind: &str) -> bool {
        self.kind.as_deref().is_none_or(|own| own == kind)
    }
}

/// Returns the unknown types, and the number of their profiles.
fn unknown_types<'a>(kinds: impl Iterator<Item = Option<&'a str>>) -> (String, usize) {
    let is_unknown = |kind: &&str| ![SAMPLED, EVENTED].contains(kind);
    let (mut names, mut n) = (Vec::new(), 0);
    for kind in kinds.flatten().filter(is_unknown) {
        n += 1;
        if names.len() < MOST_NAMED && !names.contains(&kind) {
            names.push(kind);
        }
    }
    let names: Vec<String> = names.iter().map(|name| name.chars().take(MOST_NAME).collect()).collect();
    (names.join(", "), n)
}

/// Returns an error if all profiles of a file are of unknown types.
pub(super) fn refusal(file: SpeedscopeTypes) -> Option<ImportError> {
    let (names, n) = unknown_types(file.profiles.iter().map(|profile| profile.kind.as_deref()));
    (n > 0 && n == file.profiles.len()).then_some(ImportError::UnknownTypes(names))
}

pub(super) fn read(mut file: SpeedscopeFile) -> Result<ImportedProfile, ImportError> {
    let mut out = ImportedProfile::new("speedscope: the weights in the file are the periods here");
    for (name, value) in [("name", file.name), ("recorder", file.exporter)] {
        if let Some(value) = value {
            out.fact(name, value);
        }
    }
    let (names, n) = unknown_types(file.profiles.iter().map(|profile| profile.kind.as_deref()));
    if n > 0 && n == file.profiles.len() {
        return Err(ImportError::UnknownTypes(names));
    }
    if n > 0 {
        let profiles = counted(n as u64, "profile");
        out.notes
            .push(format!("left out {profiles} of unknown types: {names}; the types sampled and evented are read"));
    }
    file.profiles.retain(|profile| profile.is(SAMPLED) || profile.is(EVENTED));
    let frames: Vec<u32> = file
        .shared
        .frames
        .iter()
        .map(|frame| {
            let file = frame.file.as_deref().unwrap_or_default();
            out.frame(&frame.name, file, kind_of(file))
        })
        .collect();
    let decimals = decimals(&file.profiles);
    let mut reader =
        Reader { out, frames, decimals, events: HashMap::new(), unbalanced: 0, unknown: 0, unweighted: 0, negative: 0 };
    file.profiles.iter().for_each(|profile| reader.profile(profile));
    if reader.unbalanced > 0 {
        let ends = counted(reader.unbalanced, "call end");
        reader.out.notes.push(format!("left out {ends} without an earlier begin"));
    }
    if reader.unknown > 0 {
        let frames = counted(reader.unknown, "frame");
        reader.out.notes.push(format!("left out {frames} of samples: the file does not have their functions"));
    }
    if reader.unweighted > 0 {
        let samples = counted(reader.unweighted, "sample");
        reader.out.notes.push(format!("left out {samples}: the file does not have their weights"));
    }
    if reader.negative > 0 {
        let samples = counted(reader.negative, "sample");
        reader.out.notes.push(format!("left out {samples} with negative weights"));
    }
    if reader.out.events.is_empty() { Err(ImportError::Lacks("samples")) } else { Ok(reader.out) }
}

/// Returns the decimals of all weights without a unit.
fn decimals(profiles: &[Profile]) -> u8 {
    let without = profiles.iter().filter(|profile| unit_of(&profile.unit).0 == EventUnit::Count);
    let weights =
        without.flat_map(|profile| profile.weights.iter().copied().chain(profile.events.iter().map(|e| e.at)));
    let (mut is_fraction, mut sum) = (false, 0.0);
    for weight in weights {
        is_fraction |= weight.fract() != 0.0;
        sum += weight.abs();
    }
    let scaled = sum * 10f64.powi(DECIMALS.into());
    if is_fraction && scaled < MOST_SUM { DECIMALS } else { 0 }
}

struct Reader {
    out: ImportedProfile,
    frames: Vec<u32>,
    decimals: u8,
    /// The event of each unit.
    events: HashMap<EventUnit, u16>,
    unbalanced: u64,
    /// Frames of samples that are not in the list of frames, and samples without a weight.
    unknown: u64,
    unweighted: u64,
    negative: u64,
}

impl Reader {
    fn profile(&mut self, profile: &Profile) {
        let (unit, factor) = match unit_of(&profile.unit) {
            (EventUnit::Count, _) if self.decimals > 0 => {
                (EventUnit::Decimal(self.decimals), 10u64.pow(self.decimals.into()))
            }
            unit => unit,
        };
        let (name, is_time) = match unit {
            EventUnit::Nanoseconds => ("time", true),
            EventUnit::Bytes => ("bytes", false),
            EventUnit::Count | EventUnit::Decimal(_) => ("samples", false),
        };
        let event = *self.events.entry(unit).or_insert_with(|| self.out.event(name, unit, is_time));
        let thread = self.out.thread(&profile.name, NO_ID, NO_ID);
        let add = |out: &mut ImportedProfile, at: f64, weight: f64, stack: u32| {
            let time = if is_time { rounded(at * factor as f64) } else { 0 };
            let period = rounded(weight * factor as f64);
            if period > 0 {
                out.add(ImportedSample { time, period, stack, thread, event, labels: NO_LABELS });
            }
        };
        let mut at = profile.start_value;
        for (number, frames) in profile.samples.iter().enumerate().filter(|_| profile.is(SAMPLED)) {
            // Without any weights, each sample counts as one.
            let Some(weight) = profile.weights.get(number).copied().or(profile.weights.is_empty().then_some(1.0))
            else {
                self.unweighted += 1;
                continue;
            };
            let known = frames.iter().filter_map(|frame| self.frames.get(*frame as usize));
            self.unknown += frames.len() as u64 - known.clone().count() as u64;
            let stack = known.fold(ROOT, |stack, frame| self.out.stack(stack, *frame));
            self.negative += u64::from(weight < 0.0);
            add(&mut self.out, at, weight, stack);
            at += weight;
        }
        let mut open: Vec<(u32, u32)> = Vec::new();
        let mut last = profile.events.first().map_or(0.0, |event| event.at);
        for event in profile.events.iter().filter(|_| profile.is(EVENTED)) {
            let stack = open.last().map_or(ROOT, |(_, stack)| *stack);
            let is_later = event.at >= last;
            if is_later && !open.is_empty() {
                add(&mut self.out, last, event.at - last, stack);
            }
            last = last.max(event.at);
            let frame = self.frames.get(event.frame as usize).copied();
            match (event.kind, frame) {
                (EventKind::Open, Some(frame)) => open.push((event.frame, self.out.stack(stack, frame))),
                (EventKind::Close, _) if open.last().is_some_and(|(frame, _)| *frame == event.frame) => _ = open.pop(),
                _ => self.unbalanced += 1,
            }
            self.unbalanced += u64::from(!is_later);
        }
    }
}
