//! How long things take that two tracepoints tell the beginning and the end of: softirqs, interrupts, system
//! calls, disk requests, timers, work. Each pair is one more event beside those that were measured; its samples
//! have the stack of the beginning, the time of the end, and nanoseconds as their period.

use crate::event::format::Field;
use crate::event::plain;
use crate::perfdata::EventDesc;
use crate::profile::SiteId;
use crate::record::Sample;
use crate::session::Origin;

use super::begun::Begun;

/// What tells that an end belongs to a beginning.
#[derive(Clone, Copy, Debug)]
enum Key {
    /// Both are on one CPU, and these fields are the same.
    Cpu(&'static [&'static str]),
    /// Both are of one thread.
    Thread,
    /// These fields are the same.
    Fields(&'static [&'static str]),
}

/// (beginning, end, key, name of what is made of them). Fields as the kernel's trace events have them
/// (include/trace/events).
const PAIRS: &[(&str, &str, Key, &str)] = &[
    ("irq:softirq_entry", "irq:softirq_exit", Key::Cpu(&["vec"]), "softirq-time"),
    ("irq:irq_handler_entry", "irq:irq_handler_exit", Key::Cpu(&["irq"]), "irq-time"),
    ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit", Key::Thread, "syscall-time"),
    ("block:block_rq_issue", "block:block_rq_complete", Key::Fields(&["dev", "sector"]), "block-time"),
    ("timer:timer_expire_entry", "timer:timer_expire_exit", Key::Cpu(&["timer"]), "timer-time"),
    ("timer:hrtimer_expire_entry", "timer:hrtimer_expire_exit", Key::Cpu(&["hrtimer"]), "hrtimer-time"),
    ("workqueue:workqueue_execute_start", "workqueue:workqueue_execute_end", Key::Fields(&["work"]), "work-time"),
];

/// Two events, and one that is made of them.
#[derive(Clone, Debug)]
pub struct Pairing {
    begin: u16,
    end: u16,
    by_cpu: bool,
    by_thread: bool,
    /// The key's fields, of the beginning and of the end.
    fields: [Vec<Field>; 2],
    big: bool,
    pub name: String,
    /// The event that is made.
    pub event: u16,
    begun: Begun<[u64; 3]>,
}

/// The pairs among some events that are not in `known` yet; what is made of them comes after those events.
pub fn among(events: &[EventDesc], tracing: &[u8], origin: Origin, known: &[Pairing]) -> Vec<Pairing> {
    let mut found = Vec::new();
    let mut add = |begin: &str, end: &str, key: Key, name: &str| {
        let next = (events.len() + found.len()) as u16;
        if !known.iter().any(|pairing| pairing.name == name) {
            found.extend(Pairing::new(events, tracing, origin, (begin, end), key, name, next));
        }
    };
    for (begin, end, key, name) in PAIRS {
        add(begin, end, *key, name);
    }
    for event in events {
        if let Some(call) = plain(&event.name).strip_prefix("syscalls:sys_enter_") {
            let (begin, end) = (format!("syscalls:sys_enter_{call}"), format!("syscalls:sys_exit_{call}"));
            add(&begin, &end, Key::Thread, &format!("{call}-time"));
        }
    }
    found
}

impl Pairing {
    /// The events that it is made of.
    pub fn made_of(&self) -> [u16; 2] {
        [self.begin, self.end]
    }

    fn new(
        events: &[EventDesc],
        tracing: &[u8],
        origin: Origin,
        (begin, end): (&str, &str),
        key: Key,
        name: &str,
        event: u16,
    ) -> Option<Self> {
        // Most sessions have neither: the formats need not be looked for.
        let there = |name: &str| events.iter().any(|event| plain(&event.name) == name);
        if !there(begin) || !there(end) {
            return None;
        }
        let (begin, first) = super::tracepoints::among(events, tracing, origin, begin)?;
        let (end, second) = super::tracepoints::among(events, tracing, origin, end)?;
        let names = match key {
            Key::Cpu(names) | Key::Fields(names) => names,
            Key::Thread => &[],
        };
        let of = |format: &crate::event::format::Format| -> Option<Vec<Field>> {
            names.iter().map(|name| format.field(name).cloned()).collect()
        };
        Some(Self {
            begin,
            end,
            by_cpu: matches!(key, Key::Cpu(_)),
            by_thread: matches!(key, Key::Thread),
            fields: [of(&first)?, of(&second)?],
            big: first.big,
            name: name.to_owned(),
            event,
            begun: Begun::default(),
        })
    }

    fn key(&self, fields: &[Field], sample: &Sample<'_>) -> Option<[u64; 3]> {
        let mut key = [0; 3];
        for (slot, field) in key.iter_mut().zip(fields) {
            *slot = field.number(sample.raw, self.big)? as u64;
        }
        if self.by_cpu {
            key[2] = u64::from(sample.cpu);
        } else if self.by_thread {
            key[2] = sample.tid as u64;
        }
        Some(key)
    }

    /// Takes a sample in; where what it ends began, and how many nanoseconds ago.
    pub fn sample(&mut self, event: u16, sample: &Sample<'_>, site: SiteId, epoch: u64) -> Option<(SiteId, u64)> {
        if event != self.begin && event != self.end {
            return None;
        }
        let key = self.key(&self.fields[usize::from(event == self.end)], sample)?;
        if event == self.end {
            return self.begun.end(&key, sample.time, epoch);
        }
        self.begun.begin(key, sample.time, site, epoch);
        None
    }

    /// Records were lost: what has ended meanwhile is not known.
    pub fn forget(&mut self) {
        self.begun.forget();
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashMap;

    use crate::ingest::replay;
    use crate::ingest::replay::whole;

    /// The durations of a recording's softirqs are what the pairs of its own records come to.
    #[test]
    fn softirqs_last_as_long_as_their_records_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/softirqs.data");
        let open = || crate::source::recording::open(&[path.into()]).expect("opens");
        let ingest = whole(&mut *open());
        let core = ingest.core();
        let at = core.events.iter().position(|event| event.name == "softirq-time").expect("derived");
        let mut sum = (0u64, 0u64);
        for (chunk, range) in core.profile.between(0, u64::MAX) {
            for i in range.filter(|i| usize::from(chunk.event[*i]) == at) {
                sum = (sum.0 + 1, sum.1 + chunk.weight[i]);
            }
        }
        // By hand: the vector is the only field of both, four bytes behind the common ones.
        let (mut open_at, mut by_hand) = (FxHashMap::default(), (0u64, 0u64));
        let names: Vec<String> = core.events.iter().map(|event| event.name.clone()).collect();
        replay(&mut *open(), |core, input, record| {
            let Ok(Some((header, body, _))) = crate::record::kinds::split(record) else { return };
            if header.kind != crate::record::kinds::types::SAMPLE {
                return;
            }
            let Some((event, sample)) = core.decode(input, header, body) else { return };
            let vector = sample.raw.get(8..12).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            match names[usize::from(event)].as_str() {
                "irq:softirq_entry" => drop(open_at.insert((sample.cpu, vector), sample.time)),
                "irq:softirq_exit" => {
                    if let Some(then) = open_at.remove(&(sample.cpu, vector)) {
                        by_hand = (by_hand.0 + 1, by_hand.1 + (sample.time - then).max(1));
                    }
                }
                _ => {}
            }
        })
        .expect("replays");
        assert!(by_hand.0 > 50, "{by_hand:?}");
        assert_eq!(sum, by_hand);
    }
}
