//! OTLP profiles, with attributes of OpenTelemetry's semantic conventions.
//! The schema is opentelemetry-proto, opentelemetry/proto/profiles/v1development/profiles.proto.

use std::io::{self, Write};

use hashbrown::{HashMap, HashSet};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesData, ProfilesDictionary,
    ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use super::pprof;
use super::{ExportFormat, ExportInput, FormatWriter};

pub(super) const FORMAT: ExportFormat = ExportFormat {
    name: "otlp",
    about: "OTLP profiles, one message ProfilesData",
    writer: FormatWriter::Profile(None, write),
};

/// The dictionary under construction.
/// Entry 0 of each table stands for "none", so pprof's indexes, which begin with 1, are valid indexes here.
struct Tables {
    out: ProfilesDictionary,
    strings: HashMap<String, i32>,
    attributes: HashMap<(i32, String), i32>,
    stacks: HashMap<Vec<i32>, i32>,
}

/// Converts a pprof index to a table index. Tables do not have more entries.
fn place(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(0)
}

impl Tables {
    fn new(strings: Vec<String>) -> Self {
        let places = strings.iter().enumerate().map(|(i, text)| (text.clone(), place(i))).collect();
        let out = ProfilesDictionary {
            mapping_table: vec![Mapping::default()],
            location_table: vec![Location::default()],
            function_table: vec![Function::default()],
            link_table: vec![Link::default()],
            string_table: strings,
            attribute_table: vec![KeyValueAndUnit::default()],
            stack_table: vec![Stack::default()],
        };
        Self { out, strings: places, attributes: HashMap::new(), stacks: HashMap::from([(Vec::new(), 0)]) }
    }

    fn string(&mut self, text: &str) -> i32 {
        *self.strings.entry_ref(text).or_insert_with(|| {
            self.out.string_table.push(text.to_owned());
            place(self.out.string_table.len() - 1)
        })
    }

    fn attribute(&mut self, key: &str, value: Value) -> i32 {
        let key_strindex = self.string(key);
        *self.attributes.entry((key_strindex, format!("{value:?}"))).or_insert_with(|| {
            let value = Some(AnyValue { value: Some(value) });
            self.out.attribute_table.push(KeyValueAndUnit { key_strindex, value, unit_strindex: 0 });
            place(self.out.attribute_table.len() - 1)
        })
    }

    fn stack(&mut self, location_indices: Vec<i32>) -> i32 {
        *self.stacks.entry(location_indices).or_insert_with_key(|location_indices| {
            self.out.stack_table.push(Stack { location_indices: location_indices.clone() });
            place(self.out.stack_table.len() - 1)
        })
    }

    fn mapping(&mut self, of: &pprof::Mapping) {
        let build_id = self.out.string_table[of.build_id as usize].clone();
        let id = (!build_id.is_empty())
            .then(|| self.attribute("process.executable.build_id.gnu", Value::StringValue(build_id)));
        self.out.mapping_table.push(Mapping {
            memory_start: of.start,
            memory_limit: of.limit,
            file_offset: of.offset,
            filename_strindex: place(of.filename),
            attribute_indices: id.into_iter().collect(),
        });
    }

    fn function(&mut self, of: &pprof::Function) {
        self.out.function_table.push(Function {
            name_strindex: place(of.name),
            system_name_strindex: place(of.system_name),
            filename_strindex: place(of.filename),
            start_line: 0,
        });
    }

    fn location(&mut self, of: &pprof::Location, is_kernel: bool) {
        let kind = if is_kernel { "kernel" } else { "native" };
        let kind = self.attribute("profile.frame.type", Value::StringValue(kind.to_owned()));
        let line = |line: &pprof::Line| Line { function_index: place(line.function), line: line.line, column: 0 };
        self.out.location_table.push(Location {
            mapping_index: place(of.mapping),
            address: of.address,
            lines: of.line.iter().map(line).collect(),
            attribute_indices: vec![kind],
        });
    }

    fn labels(&mut self, of: &pprof::Sample) -> Vec<i32> {
        let one = |label: &pprof::Label| {
            let text = |at: i64| self.out.string_table[at as usize].clone();
            let key = match &*text(label.key) {
                "comm" => "thread.name",
                "pid" => "process.pid",
                "tid" => "thread.id",
                "host" => "host.name",
                _ => return None,
            };
            let value = match label.text {
                0 => Value::IntValue(label.number),
                at => Value::StringValue(text(at)),
            };
            Some(self.attribute(key, value))
        };
        of.label.iter().filter_map(one).collect()
    }
}

/// Builds two profiles of one event, of samples and of periods, which share their tables.
fn build(input: &ExportInput<'_>) -> ProfilesData {
    let mut from = pprof::build(input);
    let mut tables = Tables::new(std::mem::take(&mut from.strings));
    let dsos = input.data.session.dsos.all().iter();
    let kernel: HashSet<&str> = dsos.filter(|dso| dso.kind.is_kernel()).map(|dso| &*dso.path).collect();
    let kernel: Vec<bool> = from
        .mapping
        .iter()
        .map(|mapping| kernel.contains(&*tables.out.string_table[mapping.filename as usize]))
        .collect();
    from.mapping.iter().for_each(|mapping| tables.mapping(mapping));
    from.function.iter().for_each(|function| tables.function(function));
    for location in &from.location {
        tables.location(location, kernel[location.mapping as usize - 1]);
    }
    let sample = |sample: &pprof::Sample| {
        let stack_index = tables.stack(sample.location.iter().map(|location| place(*location)).collect());
        (Sample { stack_index, attribute_indices: tables.labels(sample), ..Sample::default() }, sample.value.clone())
    };
    let samples: Vec<(Sample, Vec<i64>)> = from.sample.iter().map(sample).collect();
    // Off-CPU durations are not CPU time.
    let is_clock = input.data.unit(input.event).is_time() && !input.data.profile.has_durations(input.event as u16);
    let of = |kind: &pprof::ValueType| ValueType { type_strindex: place(kind.kind), unit_strindex: place(kind.unit) };
    // The same as OpenTelemetry's own profiler, so that backends recognize a CPU profile.
    let mut period_type = of(&from.sample_type[1]);
    if is_clock {
        period_type.type_strindex = tables.string("cpu");
    }
    let period = match from.period {
        // A clock's period follows from its frequency.
        0 if is_clock => 1_000_000_000u64.checked_div(input.frequency).map_or(0, |ns| ns as i64),
        period => period,
    };
    let profile = |(at, kind): (usize, &pprof::ValueType)| Profile {
        sample_type: Some(of(kind)),
        samples: samples.iter().map(|(sample, value)| Sample { values: vec![value[at]], ..sample.clone() }).collect(),
        time_unix_nano: input.wall_ns,
        duration_nano: from.duration_nanos as u64,
        period_type: Some(period_type),
        period,
        ..Profile::default()
    };
    let profiles = from.sample_type.iter().enumerate().map(profile).collect();
    let name = env!("CARGO_PKG_NAME").to_owned();
    let scope = InstrumentationScope { name, version: env!("CARGO_PKG_VERSION").to_owned(), ..Default::default() };
    let attribute = |(key, value): &(String, String)| KeyValue {
        key: key.clone(),
        value: Some(AnyValue { value: Some(Value::StringValue(value.clone())) }),
        ..KeyValue::default()
    };
    let resource = Resource { attributes: input.resource.iter().map(attribute).collect(), ..Resource::default() };
    let scope_profiles = vec![ScopeProfiles { scope: Some(scope), profiles, ..ScopeProfiles::default() }];
    ProfilesData {
        resource_profiles: vec![ResourceProfiles {
            resource: Some(resource),
            scope_profiles,
            ..ResourceProfiles::default()
        }],
        dictionary: Some(tables.out),
    }
}

pub(crate) fn write(input: &ExportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&build(input).encode_to_vec())?;
    out.flush()
}
