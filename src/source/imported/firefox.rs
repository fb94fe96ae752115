//! The processed profile format of profiler.firefox.com, which samply writes as well.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::lang::counted;
use crate::perfdata::EventUnit;
use crate::record::kinds::BuildId;
use crate::session::DsoKind;
use crate::symbols::profile_names::CodeAddress;

use super::ImportError;
use super::few::few;
use super::labels::NO_LABELS;
use super::profile::{ImportedProfile, ImportedSample, NO_ID, ROOT, kind_of, rounded};

#[derive(Deserialize)]
pub(super) struct FirefoxFile {
    meta: Meta,
    #[serde(default)]
    libs: Vec<Library>,
    #[serde(deserialize_with = "few")]
    threads: Vec<Thread>,
    /// Tables of all threads, since version 56 of the format.
    #[serde(default)]
    shared: Thread,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    product: Option<String>,
    #[serde(default)]
    interval: f64,
}

#[derive(Deserialize)]
struct Library {
    #[serde(default)]
    path: String,
    #[serde(default)]
    name: String,
    /// The build ID of an ELF file.
    #[serde(rename = "codeId")]
    code_id: Option<String>,
}

impl Library {
    fn path(&self) -> &str {
        if self.path.is_empty() { &self.name } else { &self.path }
    }

    fn build_id(&self) -> Option<BuildId> {
        BuildId::of_hex(self.code_id.as_deref()?)
    }
}

/// A thread, or the tables that all threads share.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Thread {
    name: Option<String>,
    process_name: Option<String>,
    pid: Option<Number>,
    tid: Option<Number>,
    samples: Samples,
    stack_table: Option<StackTable>,
    frame_table: Option<FrameTable>,
    func_table: Option<FuncTable>,
    resource_table: Option<ResourceTable>,
    #[serde(alias = "stringTable")]
    string_array: Option<Vec<String>>,
    sources: Option<Sources>,
}

/// A process or thread number, which some writers quote.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(f64),
    Quoted(String),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Samples {
    #[serde(default)]
    stack: Vec<Option<u32>>,
    time: Option<Vec<f64>>,
    time_deltas: Option<Vec<f64>>,
    weight: Option<Vec<f64>>,
    weight_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StackTable {
    #[serde(default)]
    prefix: Vec<Option<u32>>,
    /// The distance of each stack from its caller, 0 for roots: instead of `prefix` since version 66.
    #[serde(default)]
    prefix_offset: Vec<u32>,
    frame: Vec<u32>,
}

impl StackTable {
    /// Returns the number of a stack's caller.
    fn caller(&self, at: usize) -> Option<usize> {
        if let Some(prefix) = self.prefix.get(at) {
            return prefix.map(|prefix| prefix as usize);
        }
        let offset = self.prefix_offset.get(at).filter(|offset| **offset > 0)?;
        at.checked_sub(*offset as usize)
    }
}

#[derive(Deserialize)]
struct FrameTable {
    func: Vec<u32>,
    /// The library of each frame, or -1; since version 70. Before, resources have it.
    #[serde(default)]
    lib: Vec<Option<i64>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FuncTable {
    name: Vec<u32>,
    #[serde(default)]
    resource: Vec<i64>,
    file_name: Option<Vec<Option<u32>>>,
    source: Option<Vec<Option<u32>>>,
    #[serde(default, rename = "isJS")]
    is_js: Vec<bool>,
}

#[derive(Deserialize)]
struct ResourceTable {
    #[serde(default)]
    lib: Vec<Option<i64>>,
}

#[derive(Deserialize)]
struct Sources {
    #[serde(default)]
    filename: Vec<u32>,
}

/// The part of a file that tells whether it is processed.
#[derive(Deserialize)]
pub(super) struct FirefoxVersion {
    meta: MetaVersion,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetaVersion {
    /// Only in processed profiles.
    preprocessed_profile_version: Option<IgnoredAny>,
}

/// Refuses profiles that are not processed.
pub(super) fn check(file: FirefoxVersion) -> Result<(), ImportError> {
    match file.meta.preprocessed_profile_version {
        Some(_) => Ok(()),
        None => Err(ImportError::Unsupported(
            "Firefox wrote this profile without processing it; open it in profiler.firefox.com and save it from there",
        )),
    }
}

pub(super) fn read(file: FirefoxFile) -> Result<ImportedProfile, ImportError> {
    let mut out = ImportedProfile::new("Firefox Profiler: markers and counters are not read");
    out.facts.extend(file.meta.product.iter().map(|product| ("recorder".to_owned(), product.clone())));
    if file.meta.interval > 0.0 {
        out.fact("interval", format!("{} ms", file.meta.interval));
    }
    let mut events = BTreeMap::new();
    let (mut incomplete, mut negative) = (0, 0);
    for thread in &file.threads {
        incomplete += read_thread(&file, thread, &mut events, &mut out);
        negative += thread.samples.weight.iter().flatten().filter(|weight| **weight < 0.0).count() as u64;
    }
    if negative > 0 {
        out.notes.push(format!("left out {} with negative weights", counted(negative, "sample")));
    }
    if incomplete > 0 {
        out.notes.push(format!("{incomplete} samples have stacks that are missing in the file"));
    }
    if out.events.is_empty() { Err(ImportError::Lacks("samples")) } else { Ok(out) }
}

/// Adds a thread's samples; returns the number of those whose stacks are not in the tables.
fn read_thread(
    file: &FirefoxFile,
    thread: &Thread,
    events: &mut BTreeMap<String, u16>,
    out: &mut ImportedProfile,
) -> u64 {
    let samples = &thread.samples;
    if samples.stack.is_empty() {
        return 0;
    }
    let weight_type = samples.weight_type.as_deref().unwrap_or("samples");
    let (name, unit, factor) = match weight_type {
        "tracing-ms" => ("time", EventUnit::Nanoseconds, 1e6),
        "bytes" => ("bytes", EventUnit::Bytes, 1.0),
        _ => ("samples", EventUnit::Count, 1.0),
    };
    let event = match events.get(name) {
        Some(event) => *event,
        None => *events.entry(name.to_owned()).or_insert_with(|| out.event(name, unit, true)),
    };
    // Weights are numbers of samples.
    if unit == EventUnit::Count && samples.weight.iter().flatten().any(|weight| *weight != 1.0) {
        out.are_sums(event, 1);
    }
    let stacks = Stacks { own: thread, shared: &file.shared, libs: &file.libs }.all(out);
    let comm = thread.name.as_deref().filter(|name| !name.is_empty()).or(thread.process_name.as_deref());
    let id = out.thread(comm.unwrap_or_default(), number(thread.pid.as_ref()), number(thread.tid.as_ref()));
    let mut time = 0.0;
    let mut missing = 0;
    for (at, stack) in samples.stack.iter().enumerate() {
        let get = |list: &Option<Vec<f64>>| list.as_ref().and_then(|list| list.get(at).copied());
        time = get(&samples.time).unwrap_or_else(|| time + get(&samples.time_deltas).unwrap_or(0.0));
        let period = rounded(get(&samples.weight).unwrap_or(1.0) * factor);
        let stack = match stack {
            Some(stack) => stacks.get(*stack as usize).copied(),
            None => Some(ROOT),
        };
        missing += u64::from(stack.is_none());
        if period > 0 {
            let (time, stack) = (rounded(time * 1e6), stack.unwrap_or(ROOT));
            out.add(ImportedSample { time, period, stack, thread: id, event, labels: NO_LABELS });
        }
    }
    missing
}

/// Returns a number without the suffix that distinguishes reused ones, as in `4711.1`.
fn number(of: Option<&Number>) -> i32 {
    let plain = match of {
        Some(Number::Plain(number)) => Some(*number),
        Some(Number::Quoted(text)) => text.split('.').next().and_then(|text| text.parse().ok()),
        None => None,
    };
    plain.map(f64::trunc).filter(|n| (0.0..=f64::from(i32::MAX)).contains(n)).map_or(NO_ID, |n| n as i32)
}

/// The tables of a thread, each its own or that of all threads.
struct Stacks<'a> {
    own: &'a Thread,
    shared: &'a Thread,
    libs: &'a [Library],
}

impl Stacks<'_> {
    /// Returns our stack of each in the table. A caller precedes its callees; others count as roots.
    fn all(&self, out: &mut ImportedProfile) -> Vec<u32> {
        let either = |of: fn(&Thread) -> Option<&StackTable>| of(self.own).or_else(|| of(self.shared));
        let Some(table) = either(|tables| tables.stack_table.as_ref()) else { return Vec::new() };
        let mut stacks: Vec<u32> = Vec::with_capacity(table.frame.len());
        let mut frames = FxHashMap::default();
        for (at, frame) in table.frame.iter().enumerate() {
            let parent = table.caller(at).and_then(|caller| stacks.get(caller)).copied().unwrap_or(ROOT);
            let frame = self.frame(*frame, &mut frames, out);
            stacks.push(out.stack(parent, frame));
        }
        stacks
    }

    fn frame(&self, id: u32, known: &mut FxHashMap<(usize, Option<i64>), u32>, out: &mut ImportedProfile) -> u32 {
        let either = |of: fn(&Thread) -> Option<&FrameTable>| of(self.own).or_else(|| of(self.shared));
        let table = either(|tables| tables.frame_table.as_ref());
        let func = table.and_then(|table| table.func.get(id as usize));
        let Some(func) = func.map(|func| *func as usize) else { return out.frame("[unknown]", "", DsoKind::Unknown) };
        let lib = table.and_then(|table| table.lib.get(id as usize).copied().flatten());
        if let Some(frame) = known.get(&(func, lib)) {
            return *frame;
        }
        let frame = self.function(func, lib, out);
        known.insert((func, lib), frame);
        frame
    }

    /// Returns the frame of a function; `lib` is the library of its frame, if frames have them.
    fn function(&self, func: usize, lib: Option<i64>, out: &mut ImportedProfile) -> u32 {
        let either = |of: fn(&Thread) -> Option<&FuncTable>| of(self.own).or_else(|| of(self.shared));
        let Some(table) = either(|tables| tables.func_table.as_ref()) else {
            return out.frame("[unknown]", "", DsoKind::Unknown);
        };
        let name = table.name.get(func).map_or("[unknown]", |name| self.text(*name));
        let is_js = table.is_js.get(func).copied().unwrap_or(false);
        let of_resource = || table.resource.get(func).and_then(|resource| self.library_of_resource(*resource));
        let lib = lib.map_or_else(of_resource, |lib| self.library(lib));
        let dso = lib.map_or_else(|| self.source(table, func), Library::path);
        let frame = out.frame(name, dso, if is_js { DsoKind::Anon } else { kind_of(dso) });
        // samply leaves the names of functions to the program that shows the profile.
        let address = name.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
        if let Some((id, address)) = lib.and_then(Library::build_id).zip(address) {
            out.unnamed.add(dso, id, frame, CodeAddress::Linked(address));
        }
        frame
    }

    fn library_of_resource(&self, resource: i64) -> Option<&Library> {
        let table = self.own.resource_table.as_ref().or(self.shared.resource_table.as_ref())?;
        self.library(table.lib.get(usize::try_from(resource).ok()?).copied().flatten()?)
    }

    fn library(&self, lib: i64) -> Option<&Library> {
        self.libs.get(usize::try_from(lib).ok()?)
    }

    /// Returns the source file of a function.
    fn source(&self, table: &FuncTable, func: usize) -> &str {
        let of = |list: &Option<Vec<Option<u32>>>| list.as_ref().and_then(|list| list.get(func).copied().flatten());
        let sources = self.own.sources.as_ref().or(self.shared.sources.as_ref());
        let by_source = of(&table.source).and_then(|at| sources?.filename.get(at as usize).copied());
        of(&table.file_name).or(by_source).map_or("", |name| self.text(name))
    }

    fn text(&self, index: u32) -> &str {
        let strings = self.own.string_array.as_ref().or(self.shared.string_array.as_ref());
        strings.and_then(|strings| strings.get(index as usize)).map_or("", String::as_str)
    }
}
