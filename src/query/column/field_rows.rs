//! Rows by tracepoint fields. Each combination of field values in samples gets a number, by which samples are added up.

use std::sync::Arc;

use parking_lot::RwLock;

use rustc_hash::FxHashMap;

use crate::event::format;

use super::value::ColumnValue;
use crate::query::data::Data;

/// The lane in which samples are added up. The CPU is in the low half, the number of their values in the high half.
pub type Lane = u32;

pub(crate) fn cpu_of(lane: Lane) -> u16 {
    lane as u16
}

/// Returns the number of a lane's values.
pub(crate) fn values_of(lane: Lane) -> u16 {
    (lane >> 16) as u16
}

pub(crate) fn lane(cpu: u16, values: u16) -> Lane {
    u32::from(cpu) | u32::from(values) << 16
}

/// The number of all combinations beyond the limit.
const OTHERS: u16 = u16::MAX;
const OTHER: &str = "(other values)";

/// The combinations of values found so far.
#[derive(Debug)]
pub struct FieldCombinations {
    /// Names of the keys: of one event, `event.field`, or of any.
    names: Vec<&'static str>,
    /// The length of time slices that separate samples, in nanoseconds.
    quantum: Option<u64>,
    seen: RwLock<SeenValues>,
}

#[derive(Debug, Default)]
struct SeenValues {
    list: Vec<Vec<ColumnValue>>,
    numbers: FxHashMap<Box<[u8]>, u16>,
}

/// Numbers the samples of one event.
#[derive(Debug)]
pub(crate) struct FieldReader<'a> {
    traced: &'a FieldCombinations,
    fields: Vec<Option<format::Field>>,
}

impl FieldCombinations {
    /// Creates the combinations for these fields and time slices. `None` if there are none.
    pub(crate) fn of(names: &[&'static str], quantum: Option<u64>) -> Option<Arc<Self>> {
        let of = || Arc::new(Self { names: names.to_vec(), quantum, seen: RwLock::default() });
        (!names.is_empty() || quantum.is_some()).then(of)
    }

    pub(crate) fn reader(&self, data: Data<'_>, event: u16) -> FieldReader<'_> {
        let format = data.profile.format(event);
        let find = |name: &&str| {
            let (of, field) = name.rsplit_once('.').map_or((None, *name), |(of, field)| (Some(of), field));
            format.filter(|format| of.is_none_or(|of| of == format.name))?.said(field).cloned()
        };
        let fields = self.names.iter().map(find).collect();
        FieldReader { traced: self, fields }
    }

    pub(crate) fn value(&self, number: u16, name: &str) -> ColumnValue {
        let at = self.names.iter().position(|own| *own == name).unwrap_or(0);
        self.of_number(number, |values| values.get(at))
    }

    /// Returns the start of the time slice in a numbered combination, in seconds.
    pub(crate) fn time(&self, number: u16) -> ColumnValue {
        self.of_number(number, <[ColumnValue]>::last)
    }

    fn of_number(&self, number: u16, one: impl Fn(&[ColumnValue]) -> Option<&ColumnValue>) -> ColumnValue {
        let seen = self.seen.read();
        let value = seen.list.get(usize::from(number)).and_then(|values| one(values));
        value.cloned().unwrap_or_else(|| ColumnValue::Text(OTHER.into()))
    }
}

impl FieldReader<'_> {
    /// Returns the number of the values in a sample's raw data and of its time.
    pub(crate) fn number(&self, raw: &[u8], time: u64) -> u16 {
        let mut bytes = Vec::with_capacity(32);
        let began = self.traced.quantum.map(|quantum| time - time % quantum.max(1));
        bytes.extend(began.into_iter().flat_map(u64::to_le_bytes));
        for field in &self.fields {
            let own = field.as_ref().and_then(|field| field.bytes(raw)).unwrap_or_default();
            let end = match field {
                Some(field) if field.is_text() => memchr::memchr(0, own).unwrap_or(own.len()),
                _ => own.len(),
            };
            bytes.extend_from_slice(&(end as u32).to_le_bytes());
            bytes.extend_from_slice(&own[..end]);
        }
        if let Some(number) = self.traced.seen.read().numbers.get(&bytes[..]) {
            return *number;
        }
        let mut seen = self.traced.seen.write();
        let next = seen.list.len() as u16;
        if next == OTHERS {
            return OTHERS;
        }
        let number = *seen.numbers.entry(bytes.into()).or_insert(next);
        if number == next {
            let seconds = |ns: u64| format!("{}.{:06}", ns / 1_000_000_000, ns % 1_000_000_000 / 1000);
            let began = began.map(|ns| ColumnValue::Text(seconds(ns).into()));
            seen.list.push(self.fields.iter().map(|field| self.value(field.as_ref(), raw)).chain(began).collect());
        }
        number
    }

    fn value(&self, field: Option<&format::Field>, raw: &[u8]) -> ColumnValue {
        let known = field.filter(|field| field.bytes(raw).is_some());
        match known {
            Some(field) if field.is_number() && field.kind.ends_with('*') => {
                ColumnValue::Text(format!("{:#x}", field.number(raw).unwrap_or(0)).into())
            }
            Some(field) if field.is_number() => ColumnValue::Number(field.number(raw).unwrap_or(0)),
            Some(field) => ColumnValue::Text(field.text(raw).into()),
            None => ColumnValue::Text("".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::format::Format;
    use crate::query::column::{self, ColumnKey};
    use crate::query::staged::Staged;
    use crate::query::{Aggregate, RowLimit, Top, TopSpec};

    const SWITCH: &str = "name: sched_switch\nID: 1\nformat:\n\tfield:char next_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:int next_prio;\toffset:24;\tsize:4;\tsigned:1;\n\nprint fmt: \"x\"\n";

    fn raw(comm: &str, prio: i32) -> Vec<u8> {
        let mut raw = vec![0; 8];
        raw.extend(comm.as_bytes());
        raw.resize(24, 0);
        raw.extend(prio.to_le_bytes());
        raw
    }

    fn rows(keys: &str, samples: &[(&str, i32)]) -> Vec<(String, u64)> {
        let mut staged = Staged::default();
        staged.profile.set_format(0, Arc::new(Format::parse("sched", SWITCH, false).expect("parses")));
        for (i, (comm, prio)) in samples.iter().enumerate() {
            let site = staged.site(1 + i as i32 % 2, &["kernel:schedule"]);
            staged.profile.push_raw(i as u64, site, 1, 3, 0, &raw(comm, *prio));
        }
        rows_of(&staged, &ColumnKey::parse_list(keys).expect("keys"))
    }

    fn rows_of(staged: &Staged, keys: &[ColumnKey]) -> Vec<(String, u64)> {
        let mut fold = Aggregate::new(0, None).group_by(keys);
        fold.update(staged.data(), 0..u64::MAX);
        let spec = TopSpec { keys: keys.to_vec(), children: false, ..TopSpec::default() };
        let top = Top::build(staged.data(), &fold, None, &spec, RowLimit::All { sorted: usize::MAX });
        let words = |group: &column::RowGroup| {
            keys.iter().filter_map(|key| Some(group.get(*key)?.text().into_owned())).collect::<Vec<_>>().join(" ")
        };
        let mut rows: Vec<(String, u64)> =
            top.rows.iter().map(|row| (words(&top.groups[row.group as usize]), row.own.samples)).collect();
        rows.sort();
        rows
    }

    #[test]
    fn sockets_are_those_of_the_samples_cpus() {
        let mut staged = Staged::default();
        staged.session.sockets = vec![0, 0, 1];
        let site = staged.site(1, &["main"]);
        for (time, cpu) in (0..).zip([0, 1, 2, 2, 1, 2, 2]) {
            staged.profile.push(time, site, 1, cpu, 0);
        }
        let of_socket = |socket: &str, n| (socket.to_owned(), n);
        assert_eq!(rows_of(&staged, &[ColumnKey::Socket]), [of_socket("0", 3), of_socket("1", 4)]);
    }

    #[test]
    fn rows_are_by_the_fields_of_an_event() {
        let samples = [("a", 120), ("bee", 120), ("a", -1), ("a", 120)];
        let own = |list: &[(&str, u64)]| list.iter().map(|(text, n)| ((*text).to_owned(), *n)).collect::<Vec<_>>();
        assert_eq!(rows("sched_switch.next_comm", &samples), own(&[("a", 3), ("bee", 1)]));
        assert_eq!(
            rows("sched_switch.next_comm,sched_switch.next_prio,cpu", &samples),
            own(&[("a -1 3", 1), ("a 120 3", 2), ("bee 120 3", 1)])
        );
        assert_eq!(rows("sched_switch.next_comm,pid", &samples), own(&[("a 1", 2), ("a 2", 1), ("bee 2", 1)]));
        assert_eq!(rows("sched_wakeup.next_comm", &samples), own(&[("", 4)]));
        assert_eq!(rows("sched_switch.nothing", &samples), own(&[("", 4)]));
    }

    #[test]
    fn with_too_many_values_the_rest_is_one() {
        let traced = FieldCombinations::of(&["next_prio"], None).expect("a field");
        let mut staged = Staged::default();
        staged.profile.set_format(0, Arc::new(Format::parse("sched", SWITCH, false).expect("parses")));
        let reader = traced.reader(staged.data(), 0);
        let numbers: Vec<u16> = (0..70_000).map(|prio| reader.number(&raw("a", prio), 0)).collect();
        assert_eq!((numbers[0], numbers[65_534], numbers[65_535], numbers[69_999]), (0, 65_534, OTHERS, OTHERS));
        assert_eq!(reader.number(&raw("b", 7), 0), 7);
        assert_eq!(traced.value(OTHERS, "next_prio"), ColumnValue::Text(OTHER.into()));
        assert_eq!(traced.value(65_534, "next_prio"), ColumnValue::Number(65_534));
    }
}
