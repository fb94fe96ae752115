//! The decoder of an input's records: it finds the event, the layout and the timestamp of a record.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::kernel::attr::{Flag, sample};
use crate::perfdata::EventDesc;
use crate::record::in_place::u64_at;
use crate::record::kinds::types;
use crate::record::off_cpu;
use crate::record::sample::Reading;
use crate::record::{Header, Layout, Sample};
use crate::source::{FreshId, Handover, Info};

/// How long after a handover samples of the old event may still arrive out of order.
const HANDOVER_NS: u64 = 10_000_000_000;

#[derive(Debug)]
pub(crate) struct Inputs {
    list: Vec<Decoder>,
    /// By id: during a handover from one event to another, the time range in which its samples count.
    cuts: FxHashMap<u64, Range<u64>>,
    cuts_until: u64,
}

impl Inputs {
    pub(crate) fn new(info: &Info) -> Self {
        let list = if info.inputs.is_empty() {
            vec![Decoder::new((0..info.events.len() as u16).collect(), &info.events)]
        } else {
            info.inputs.iter().map(|(events, descs)| Decoder::new(events.clone(), descs)).collect()
        };
        Self { list, cuts: FxHashMap::default(), cuts_until: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn decoder(&self, input: usize) -> &Decoder {
        &self.list[input]
    }

    pub(crate) fn decoder_mut(&mut self, input: usize) -> &mut Decoder {
        &mut self.list[input]
    }

    /// Returns the session's event for each of the first input's; events that are added later belong to that input.
    pub(crate) fn slots(&self) -> &[u16] {
        self.list.first().map_or(&[], |first| &first.events)
    }

    pub(crate) fn add(&mut self, event: u16, desc: &EventDesc) {
        self.list.iter_mut().take(1).for_each(|first| first.add(event, desc));
    }

    pub(crate) fn learn(&mut self, id: FreshId) {
        self.list.iter_mut().take(1).for_each(|first| first.learn(id));
    }

    pub(crate) fn hand_over(&mut self, handover: &Handover) {
        self.cuts.extend(handover.old.iter().map(|id| (*id, 0..handover.at)));
        self.cuts.extend(handover.new.iter().map(|id| (*id, handover.at..u64::MAX)));
        self.cuts_until = handover.at.saturating_add(HANDOVER_NS);
    }

    pub(crate) fn is_cut(&mut self, time: u64, header: Header, body: &[u8]) -> bool {
        if self.cuts.is_empty() {
            return false;
        }
        if time > self.cuts_until {
            self.cuts.clear();
            return false;
        }
        let id = Layout::identifier(header.kind, body);
        id.and_then(|id| self.cuts.get(&id)).is_some_and(|counts| !counts.contains(&time))
    }
}

/// The decoder of an input's records.
#[derive(Debug, Default)]
pub struct Decoder {
    forms: Vec<SampleForm>,
    pub(crate) events: Vec<u16>,
    /// Index into `forms` by id.
    ids: FxHashMap<u64, usize>,
    /// Whether the timestamp has the same position in records of all events.
    uniform: bool,
    /// Whether an event lists no ids, so that any sample may be its own.
    lacks_ids: bool,
    /// Whether mappings may carry the build ids of their files.
    pub(crate) build_ids: bool,
    /// The last counts of events that are read with their group, by id, and by thread if each thread has its own.
    counted: FxHashMap<(u64, i32), u64>,
}

/// The count of an event of a group since the previous sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupShare {
    /// `None` if no event of the recording has the id.
    pub(crate) event: Option<u16>,
    /// The id, and the thread if each thread counts separately.
    pub(crate) counter: (u64, i32),
    pub(crate) period: u64,
    /// The byte offset of its value in the record's body.
    pub(crate) at: usize,
}

impl GroupShare {
    /// Returns whether it is a sample of a known event: an event that counted nothing has no sample.
    pub(crate) fn is_sample(&self) -> bool {
        self.period > 0 && self.event.is_some()
    }
}

/// The layout and the event of samples with certain ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SampleForm {
    pub(crate) layout: Layout,
    /// Whether each thread of a process counts separately.
    pub(crate) inherit: bool,
    pub(crate) event: u16,
    /// The period of samples without a period field.
    pub(crate) period: u64,
    /// Whether a sample's values are in its raw data: off-CPU times.
    pub(crate) is_off_cpu: bool,
}

impl Decoder {
    pub(crate) fn new(events: Vec<u16>, descs: &[EventDesc]) -> Self {
        let mut decoder = Self { uniform: true, ..Self::default() };
        for (event, desc) in events.into_iter().zip(descs) {
            decoder.add(event, desc);
        }
        decoder
    }

    pub(crate) fn add(&mut self, event: u16, desc: &EventDesc) {
        let trailer = |l: &Layout| (l.sample_type & 0x1_00c6 | l.sample_type & 0x240, l.id_all, l.time_offset());
        let layout = desc.layout();
        self.uniform &= self.forms.first().is_none_or(|first| trailer(&first.layout) == trailer(&layout));
        self.build_ids |= desc.attr.has(Flag::BuildId);
        self.lacks_ids |= desc.ids.is_empty();
        let own = self.forms.len();
        self.ids.extend(desc.ids.iter().map(|id| (*id, own)));
        let period = if desc.attr.has(Flag::Freq) { 0 } else { desc.attr.period_or_freq };
        let (inherit, is_off_cpu) = (desc.attr.has(Flag::Inherit), desc.has_raw_off_cpu());
        self.forms.push(SampleForm { layout, inherit, event, period, is_off_cpu });
        self.events.push(event);
    }

    /// Adds an id of one of its events, whose samples may have another layout.
    pub(crate) fn learn(&mut self, fresh: FreshId) {
        let Some(event) = self.events.get(usize::from(fresh.event)).copied() else { return };
        let Some(first) = self.forms.iter().find(|form| form.event == event).copied() else { return };
        let form = SampleForm { layout: fresh.layout, event, period: fresh.period, ..first };
        let at = self.forms.iter().position(|known| *known == form).unwrap_or_else(|| {
            self.forms.push(form);
            self.forms.len() - 1
        });
        self.ids.insert(fresh.id, at);
    }

    pub(crate) fn form_of(&self, header: Header, body: &[u8]) -> SampleForm {
        let form = self.forms.first().copied().unwrap_or_default();
        if self.forms.len() == 1 {
            return form;
        }
        let first = form.layout;
        let has_identifier = first.sample_type & 1 << 16 != 0;
        let id = if has_identifier {
            Layout::identifier(header.kind, body)
        } else if header.kind == types::SAMPLE {
            first.sample(header, body).ok().map(|s| s.id)
        } else {
            first.trailer(body).map(|t| t.id)
        };
        let at = id.and_then(|id| self.ids.get(&id)).copied().unwrap_or(0);
        self.forms.get(at).copied().unwrap_or(form)
    }

    pub(crate) fn formed<'a>(&self, header: Header, body: &'a [u8]) -> Option<(SampleForm, Sample<'a>)> {
        let form = self.form_of(header, body);
        let mut sample = form.layout.sample(header, body).ok()?;
        if form.is_off_cpu {
            sample = off_cpu::unpack(sample)?;
        }
        // As in perf, a period of 0 counts as 0.
        if form.layout.sample_type & sample::PERIOD == 0 && !form.is_off_cpu {
            sample.period = form.period.max(1);
        }
        Some((form, sample))
    }

    /// Returns whether a sample has the id of none of the events, which all list theirs.
    pub(crate) fn is_of_no_event(&self, sample: &Sample<'_>) -> bool {
        self.forms.len() > 1 && !self.lacks_ids && sample.id != 0 && !self.ids.contains_key(&sample.id)
    }

    /// Splits a sample that was read with its group. As in perf, each event that counted since the previous sample
    /// has a sample, with that count as its period.
    pub(crate) fn shares(&mut self, form: &SampleForm, sample: &Sample<'_>) -> Vec<GroupShare> {
        let thread = if form.inherit { sample.tid } else { 0 };
        let share = |reading: Reading| {
            let counter = (reading.id, thread);
            let before = self.counted.insert(counter, reading.value).unwrap_or_default();
            let of = self.ids.get(&reading.id).and_then(|at| self.forms.get(*at));
            let period = reading.value.wrapping_sub(before);
            GroupShare { event: of.map(|form| form.event), counter, period, at: reading.at }
        };
        form.layout.readings(sample).map(share).collect()
    }

    pub(crate) fn time(&self, header: Header, body: &[u8]) -> u64 {
        let layout = if self.uniform {
            self.forms.first().copied().unwrap_or_default().layout
        } else {
            self.form_of(header, body).layout
        };
        match header.kind {
            types::SAMPLE => layout.time_offset().and_then(|at| u64_at(body, at)).unwrap_or(0),
            _ => layout.trailer(body).map_or(0, |t| t.time),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::attr::Attr;

    /// The first event would get the sample.
    #[test]
    fn a_sample_with_an_unknown_id_is_of_no_event() {
        let event = |ids: &[u64]| EventDesc { name: "x".to_owned(), attr: Attr::default(), ids: ids.to_vec() };
        let is_of_none = |events: &[EventDesc], id| {
            let all = (0..events.len() as u16).collect();
            Decoder::new(all, events).is_of_no_event(&Sample { id, ..Sample::default() })
        };
        let two = [event(&[1, 2]), event(&[3])];
        assert_eq!([0, 1, 2, 3, 77].map(|id| is_of_none(&two, id)), [false, false, false, false, true]);
        assert!(!is_of_none(&two[..1], 77) && !is_of_none(&[event(&[1]), event(&[])], 77));
    }
}
