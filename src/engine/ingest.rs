//! From batches of bytes to session and profile: decode, order, apply. The one path for live
//! sessions and recordings.

use rustc_hash::FxHashMap;

use crate::perfdata::EventDesc;
use crate::profile::Profile;
use crate::record::kinds::{misc, split, types};
use crate::record::order::Orderer;
use crate::record::{Header, Layout, Record};
use crate::session::{Origin, Session};
use crate::source::{Batch, Info};

/// Decodes what a source delivers.
#[derive(Debug)]
pub struct Ingest {
    orderer: Orderer,
    core: Core,
    index: Vec<(u64, usize)>,
    spare: Vec<Vec<u8>>,
    /// Largest time at the FINISHED_ROUND before the last, for recordings.
    round_newest: u64,
    recorded: bool,
}

/// What records are applied to.
#[derive(Debug)]
pub struct Core {
    pub session: Session,
    pub profile: Profile,
    pub events: Vec<EventDesc>,
    layouts: Vec<Layout>,
    /// The event of each id.
    ids: FxHashMap<u64, u16>,
    uniform: bool,
    own_pid: Option<i32>,
    /// Samples in each second since the start.
    pub rates: Vec<u32>,
    pub start: u64,
    /// Header features that describe the recorded machine; none when live.
    pub machine: Vec<(u8, Vec<u8>)>,
}

/// Seconds that [`Core::rates`] holds at most.
const MAX_SECONDS: usize = 7 * 24 * 3600;

impl Ingest {
    pub fn new(info: &Info, own_pid: Option<i32>) -> Self {
        let layouts: Vec<Layout> = info.events.iter().map(EventDesc::layout).collect();
        let trailer = |l: &Layout| (l.sample_type & 0x1_00c6 | l.sample_type & 0x240, l.id_all, l.time_offset());
        let uniform = layouts.windows(2).all(|w| trailer(&w[0]) == trailer(&w[1]));
        let core = Core {
            session: Session::new(info.origin),
            profile: Profile::default(),
            events: info.events.clone(),
            layouts,
            ids: FxHashMap::default(),
            uniform,
            own_pid,
            rates: Vec::new(),
            start: info.start,
            machine: info.machine.clone(),
        };
        Self {
            orderer: Orderer::default(),
            core,
            index: Vec::new(),
            spare: Vec::new(),
            round_newest: 0,
            recorded: info.origin == Origin::Recorded,
        }
    }

    pub fn core(&self) -> &Core {
        &self.core
    }

    pub fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    /// A used-up buffer to be filled again.
    pub fn spare(&mut self) -> Option<Vec<u8>> {
        self.spare.pop()
    }

    /// Takes in a batch's records and applies those that are due.
    pub fn feed(&mut self, batch: &mut Batch) {
        self.core.ids.extend(batch.ids.drain(..));
        let bytes = std::mem::take(&mut batch.bytes);
        let mut until = batch.complete_until;
        let mut newest = self.orderer.newest();
        self.index.clear();
        let mut at = 0;
        loop {
            let (header, body) = match split(&bytes[at..]) {
                Ok(Some((header, body, _))) => (header, body),
                Ok(None) => break,
                Err(_) => {
                    self.core.profile.ledger.malformed += 1;
                    break;
                }
            };
            if header.kind < types::USER_START {
                let time = self.core.time(header, body);
                newest = newest.max(time);
                self.index.push((time, at));
            } else if header.kind == types::FINISHED_ROUND && self.recorded {
                until = until.max(Some(self.round_newest));
                self.round_newest = newest;
            }
            at += usize::from(header.size);
        }
        self.orderer.push(bytes, self.index.drain(..));
        if let Some(until) = until {
            let Self { orderer, core, spare, .. } = self;
            orderer.release(
                until,
                |time, record| core.apply(time, record),
                |mut buffer| {
                    buffer.clear();
                    if spare.len() < 8 {
                        spare.push(buffer);
                    }
                },
            );
        }
    }
}

impl Core {
    /// The event and layout of a record, by the id that it carries.
    fn event_of(&self, header: Header, body: &[u8]) -> (u16, Layout) {
        let first = self.layouts.first().copied().unwrap_or_default();
        if self.layouts.len() == 1 && self.ids.len() <= 1 {
            return (0, first);
        }
        let has_identifier = first.sample_type & 1 << 16 != 0;
        let id = if has_identifier {
            Layout::identifier(header.kind, body)
        } else if header.kind == types::SAMPLE {
            first.sample(header, body).ok().map(|s| s.id)
        } else {
            first.trailer(body).map(|t| t.id)
        };
        let event = id.and_then(|id| self.ids.get(&id)).copied().unwrap_or(0);
        (event, self.layouts.get(usize::from(event)).copied().unwrap_or(first))
    }

    fn time(&self, header: Header, body: &[u8]) -> u64 {
        let layout = if self.uniform {
            self.layouts.first().copied().unwrap_or_default()
        } else {
            self.event_of(header, body).1
        };
        let at =
            |offset: usize| body.get(offset..offset + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
        match header.kind {
            types::SAMPLE => layout.time_offset().map_or(0, at),
            _ => layout.trailer(body).map_or(0, |t| t.time),
        }
    }

    fn apply(&mut self, time: u64, record: &[u8]) {
        let Ok(Some((header, body, _))) = split(record) else { return };
        if header.kind == types::SAMPLE {
            return self.sample(time, header, body);
        }
        match Record::decode(header, body) {
            Ok(Record::Lost { lost, .. } | Record::LostSamples { lost }) => self.profile.ledger.lost_records += lost,
            Ok(Record::Throttle { .. }) => self.profile.ledger.throttled += 1,
            Ok(side) => self.session.apply(&side, time),
            Err(_) => self.profile.ledger.malformed += 1,
        }
    }

    fn sample(&mut self, time: u64, header: Header, body: &[u8]) {
        let (event, layout) = self.event_of(header, body);
        let Ok(mut sample) = layout.sample(header, body) else {
            self.profile.ledger.malformed += 1;
            return;
        };
        if self.own_pid == Some(sample.pid) {
            self.profile.ledger.own += 1;
            return;
        }
        if sample.period == 0
            && let Some(e) = self.events.get(usize::from(event))
            && !e.attr.has(crate::kernel::attr::Flag::Freq)
        {
            sample.period = e.attr.period_or_freq;
        }
        if self.start == 0 {
            self.start = time;
        }
        let second = (time.saturating_sub(self.start) / 1_000_000_000) as usize;
        if second < MAX_SECONDS {
            if self.rates.len() <= second {
                self.rates.resize(second + 1, 0);
            }
            self.rates[second] += 1;
        }
        self.profile.ledger.received += 1;
        self.profile.add(&mut self.session, &sample, header.misc & misc::CPUMODE_MASK, event);
    }
}
