//! pprof's gzipped protobuf (github.com/google/pprof, proto/profile.proto), with that file's field numbers.

use std::collections::BTreeMap;
use std::io::{self, Write};

use hashbrown::HashMap;
use prost::Message;

use crate::event::format::Format;
use crate::panel::text::clean;
use crate::perfdata::SampleCount;
use crate::profile::{Acc, Frame, FrameId, SymId};
use crate::query::tree::symbol_stacks::samples;
use crate::query::{Aggregate, Data};
use crate::session::DsoId;
pub use crate::source::imported::messages::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};

use super::{ExportFormat, ExportInput, FormatWriter};

/// A profile under construction.
struct Builder<'a> {
    data: Data<'a>,
    out: Profile,
    strings: HashMap<String, i64>,
    mappings: HashMap<DsoId, u64>,
    functions: HashMap<SymId, u64>,
    locations: HashMap<FrameId, u64>,
}

impl Builder<'_> {
    fn string(&mut self, text: &str) -> i64 {
        // Readers print names without escaping.
        let text = &*clean(text);
        *self.strings.entry_ref(text).or_insert_with(|| {
            self.out.strings.push(text.to_owned());
            self.out.strings.len() as i64 - 1
        })
    }

    /// Returns the mapping of a DSO: one with addresses in the file, so that processes share locations.
    fn mapping(&mut self, dso: DsoId) -> u64 {
        if let Some(id) = self.mappings.get(&dso) {
            return *id;
        }
        let of = self.data.session.dsos.get(dso);
        let (path, build_id) = (of.path.clone(), of.build_id.map(|id| id.to_string()).unwrap_or_default());
        let id = self.out.mapping.len() as u64 + 1;
        let (filename, build_id) = (self.string(&path), self.string(&build_id));
        let limit = u64::MAX;
        self.out.mapping.push(Mapping { id, start: 0, limit, offset: 0, filename, build_id, has_functions: true });
        self.mappings.insert(dso, id);
        id
    }

    fn function(&mut self, sym: SymId) -> u64 {
        if let Some(id) = self.functions.get(&sym) {
            return *id;
        }
        let of = self.data.profile.frames.sym(sym);
        let (name, file) = (of.name().into_owned(), self.data.session.dsos.get(of.dso).path.clone());
        let id = self.out.function.len() as u64 + 1;
        let (name, filename) = (self.string(&name), self.string(&file));
        self.out.function.push(Function { id, name, system_name: name, filename });
        self.functions.insert(sym, id);
        id
    }

    fn location(&mut self, frame: FrameId) -> u64 {
        if let Some(id) = self.locations.get(&frame) {
            return *id;
        }
        let Frame { map, ip, caller } = self.data.profile.frames.get(frame);
        let map = self.data.session.dsos.map_of(map);
        let sym = self.data.profile.frames.sym_of(frame);
        let dso = self.data.profile.frames.sym(sym).dso;
        let mapping = self.mapping(dso);
        let frames = &self.data.profile.frames;
        // Innermost first; only the innermost frame has a line number.
        let number = frames.line(frame).map_or(0, |line| i64::from(line.line));
        let inlined: Vec<SymId> = frames.inlined(frame.0).iter().rev().map(|sym| SymId(*sym)).collect();
        let functions: Vec<u64> = inlined.into_iter().chain([sym]).map(|sym| self.function(sym)).collect();
        let numbers = std::iter::once(number).chain(std::iter::repeat(0));
        let line = functions.into_iter().zip(numbers).map(|(function, line)| Line { function, line }).collect();
        let id = self.out.location.len() as u64 + 1;
        let address = map.to_dso(ip.wrapping_sub(u64::from(caller)));
        self.out.location.push(Location { id, mapping, address, line });
        self.locations.insert(frame, id);
        id
    }
}

/// Returns the labels of another tool's profile, as the fields of its samples' raw data.
fn labels_of(data: Data<'_>, event: usize) -> Option<&Format> {
    data.profile.format(event as u16).filter(|_| data.meaning(event).is_value).map(|format| &**format)
}

/// Returns weights by site and by the raw data with the labels, if there are any.
fn weights(input: &ExportInput<'_>) -> Vec<(u32, Box<[u8]>, Acc)> {
    let (data, event) = (input.data, input.event);
    if labels_of(data, event).is_none() {
        let fold = Aggregate::new(event, input.filter.clone()).over(data);
        return fold.sites().into_iter().map(|(_, site, acc)| (site, Box::default(), acc)).collect();
    }
    let mut sums: BTreeMap<(u32, Box<[u8]>), Acc> = BTreeMap::new();
    samples(data, input.filter.clone(), |row| {
        if usize::from(row.event) == event {
            let chunk = data.profile.between(row.at, row.at + 1).next();
            let raw = chunk.map_or(&[][..], |(chunk, range)| chunk.raw(range.start));
            *sums.entry((row.site, raw.into())).or_default() += Acc::one(row.period);
        }
    });
    sums.into_iter().map(|((site, raw), acc)| (site, raw, acc)).collect()
}

/// Builds the profile of one event, with a value for samples and one for periods.
pub(super) fn build(input: &ExportInput<'_>) -> Profile {
    let (data, event) = (input.data, input.event);
    let labels = labels_of(data, event);
    let mut b = Builder {
        data,
        out: Profile::default(),
        strings: HashMap::new(),
        mappings: HashMap::new(),
        functions: HashMap::new(),
        locations: HashMap::new(),
    };
    b.string("");
    let name = data.events[event].split(':').next().unwrap_or_default().to_owned();
    let unit = data.unit(event).name();
    let (samples, count, name, unit) = (b.string("samples"), b.string("count"), b.string(&name), b.string(&unit));
    b.out.sample_type = vec![ValueType { kind: samples, unit: count }, ValueType { kind: name, unit }];
    b.out.period_type = Some(ValueType { kind: name, unit });
    let stands_for = data.meaning(event).count;
    b.out.period = match stands_for {
        SampleCount::PerPeriod(period) => period as i64,
        SampleCount::One | SampleCount::Unknown => input.period as i64,
    };
    b.out.default_sample_type = name;
    b.out.time_nanos = i64::try_from(input.wall_ns).unwrap_or(0);
    // Samples of other tools may have no times, but a duration.
    let mut spans = [data.profile.span(), data.measured].into_iter().flatten().map(|(a, b)| b.saturating_sub(a));
    b.out.duration_nanos = spans.find(|span| *span > 0).unwrap_or(0) as i64;
    let keys = ["comm", "pid", "tid", "host"].map(|key| b.string(key));
    let several = data.session.hosts().are_many();
    let of_container = ["container", "pod", "namespace", "image"].map(|key| b.string(key));
    for (site, raw, acc) in weights(input) {
        let site = data.profile.sites.all()[site as usize];
        let task = &data.session.tasks()[site.task.0 as usize];
        let comm = b.string(&task.comm);
        let mut label = vec![Label { key: keys[0], text: comm, number: 0 }];
        // Profiles of other tools may lack them.
        let ids = [(keys[1], task.pid), (keys[2], task.tid)].into_iter().filter(|(_, id)| *id >= 0);
        label.extend(ids.map(|(key, id)| Label { key, text: 0, number: id.into() }));
        for field in labels.into_iter().flat_map(|format| &format.fields) {
            let number = field.number(&raw).filter(|_| field.is_number()).unwrap_or(0);
            let text = if field.is_number() { String::new() } else { field.text(&raw) };
            if number != 0 || !text.is_empty() {
                let key = b.string(field.label.as_deref().unwrap_or(&field.name));
                label.push(Label { key, text: if text.is_empty() { 0 } else { b.string(&text) }, number });
            }
        }
        if several {
            label.push(Label { key: keys[3], text: b.string(&data.session.host(task)), number: 0 });
        }
        let container = data.session.container(task);
        let values = [&container.name, &container.pod, &container.namespace, &container.image];
        for (key, value) in of_container.into_iter().zip(values).filter(|(_, value)| !value.is_empty()) {
            label.push(Label { key, text: b.string(value), number: 0 });
        }
        let location = data.profile.trie.walk(site.stack).map(|frame| b.location(frame)).collect();
        let (samples, _) = acc.counted(stands_for);
        b.out.sample.push(Sample { location, value: vec![samples as i64, acc.period as i64], label });
    }
    b.out
}

pub(super) const FORMAT: ExportFormat =
    ExportFormat { name: "pprof", about: "pprof (Go tool pprof), gzip", writer: FormatWriter::Profile(None, write) };

pub(crate) fn write(input: &ExportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    write_packed(&build(input), out)
}

/// Writes a profile for Parca, which reads its types as names of PromQL.
pub(crate) fn write_for_parca(input: &ExportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut profile = build(input);
    name_plainly(&mut profile);
    write_packed(&profile, out)
}

fn write_packed(profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
    let mut gzip = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
    gzip.write_all(&profile.encode_to_vec())?;
    gzip.finish()?.flush()
}

/// Replaces characters of the types' names other than letters, digits and `_`.
fn name_plainly(profile: &mut Profile) {
    let types = profile.sample_type.iter_mut().chain(&mut profile.period_type);
    let names = types.map(|of| &mut of.kind).chain([&mut profile.default_sample_type]);
    for at in names {
        let Some(name) = usize::try_from(*at).ok().and_then(|at| profile.strings.get(at)) else { continue };
        let plain = name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '_', "_");
        *at = profile.strings.iter().position(|own| *own == plain).unwrap_or(profile.strings.len()) as i64;
        if *at == profile.strings.len() as i64 {
            profile.strings.push(plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::staged::Staged;

    #[test]
    fn parca_gets_plain_names_and_the_time() {
        let mut staged = Staged::default();
        staged.comm(7, 7, false, "cpu-clock");
        staged.sample(1500, 7, &["main"], 10);
        let input = ExportInput {
            data: staged.data(),
            event: 0,
            filter: None,
            title: "",
            annotate: false,
            wall_ns: 1_700_000_000_000_000_000,
            period: 0,
            frequency: 99,
            resource: Vec::new(),
        };
        let mut profile = build(&input);
        assert_eq!(profile.time_nanos, 1_700_000_000_000_000_000);
        let text = |profile: &Profile, at: i64| profile.strings[at as usize].clone();
        profile.strings.push("cpu-clock:x".to_owned());
        let at = profile.strings.len() as i64 - 1;
        profile.sample_type[1].kind = at;
        (profile.default_sample_type, profile.period_type) = (at, Some(ValueType { kind: at, unit: 0 }));
        name_plainly(&mut profile);
        let kinds: Vec<String> = profile.sample_type.iter().map(|of| text(&profile, of.kind)).collect();
        assert_eq!(kinds, ["samples", "cpu_clock_x"]);
        assert_eq!(profile.period_type.as_ref().map(|of| of.kind), Some(profile.sample_type[1].kind));
        assert_eq!(text(&profile, profile.default_sample_type), "cpu_clock_x");
    }
}
