//! Durations between a start and an end tracepoint: softirqs, interrupts, system calls, disk requests, timers, work
//! items. Their samples have the stack of the start, the timestamp of the end, and nanoseconds as their period.

use crate::event::base_name;
use crate::event::format::{Field, Format};
use crate::profile::SiteId;
use crate::record::Sample;
use crate::record::open_spans::{OpenSpans, ThreadChange};

use super::{Finder, Series, SeriesInput, SeriesList, SiteDuration};
use crate::ingest::tracepoints;

/// The key that matches an end to its start: fields that both have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// They alternate on a CPU, and these fields are equal.
    Cpu(&'static [&'static str]),
    /// They may nest on a CPU.
    WithinCpu(&'static [&'static str]),
    /// They alternate in a thread.
    Thread(&'static [&'static str]),
    /// These fields are equal, on any CPU and thread.
    Fields(&'static [&'static str]),
}

/// (start, end, key, name of the derived event). Fields as in the kernel's trace events (include/trace/events).
const PAIRS: &[(&str, &str, Key, &str)] = &[
    ("irq:softirq_entry", "irq:softirq_exit", Key::Cpu(&["vec"]), "softirq-time"),
    ("irq:irq_handler_entry", "irq:irq_handler_exit", Key::WithinCpu(&["irq"]), "irq-time"),
    ("raw_syscalls:sys_enter", "raw_syscalls:sys_exit", Key::Thread(&["id"]), "syscall-time"),
    ("block:block_rq_issue", "block:block_rq_complete", Key::Fields(&["dev", "sector"]), "block-time"),
    ("timer:timer_expire_entry", "timer:timer_expire_exit", Key::WithinCpu(&["timer"]), "timer-time"),
    ("timer:hrtimer_expire_entry", "timer:hrtimer_expire_exit", Key::WithinCpu(&["hrtimer"]), "hrtimer-time"),
    ("workqueue:workqueue_execute_start", "workqueue:workqueue_execute_end", Key::Fields(&["work"]), "work-time"),
];

#[derive(Clone, Debug)]
struct Pairing {
    begin: u16,
    end: u16,
    key: Key,
    /// The key's fields in the start and in the end.
    fields: [Vec<Field>; 2],
    name: String,
    begun: OpenSpans<[u64; 2], [u64; 2], SiteId>,
}

pub(super) const FIND: Finder = among;

fn among(place: &SeriesInput<'_>) -> SeriesList {
    let mut found: SeriesList = Vec::new();
    let mut add = |begin: &str, end: &str, key: Key, name: &str| {
        // Most sessions have neither event, so the formats need not be searched.
        let there = |name: &str| place.events.iter().any(|event| base_name(&event.name) == name);
        if !place.has(name) && there(begin) && there(end) {
            let new = Pairing::new(place, (begin, end), key, name);
            found.extend(new.map(|pairing| Box::new(pairing) as Box<dyn Series>));
        }
    };
    for (begin, end, key, name) in PAIRS {
        add(begin, end, *key, name);
    }
    for event in place.events {
        if let Some(call) = base_name(&event.name).strip_prefix("syscalls:sys_enter_") {
            let (begin, end) = (format!("syscalls:sys_enter_{call}"), format!("syscalls:sys_exit_{call}"));
            add(&begin, &end, Key::Thread(&[]), &format!("{call}-time"));
        }
    }
    found
}

impl Pairing {
    fn new(place: &SeriesInput<'_>, (begin, end): (&str, &str), key: Key, name: &str) -> Option<Self> {
        let of = |name: &str| tracepoints::among(place.events, place.tracing, place.origin, name);
        let ((begin, first), (end, second)) = (of(begin)?, of(end)?);
        let (Key::Cpu(names) | Key::WithinCpu(names) | Key::Thread(names) | Key::Fields(names)) = key;
        let of =
            |format: &Format| -> Option<Vec<Field>> { names.iter().map(|name| format.field(name).cloned()).collect() };
        Some(Self {
            begin,
            end,
            key,
            fields: [of(&first)?, of(&second)?],
            name: name.to_owned(),
            begun: if matches!(key, Key::WithinCpu(_)) { OpenSpans::nested() } else { OpenSpans::one_by_one() },
        })
    }

    fn lane(&self, fields: &[Field], sample: &Sample<'_>) -> Option<([u64; 2], [u64; 2])> {
        let mut what = [0; 2];
        for (slot, field) in what.iter_mut().zip(fields) {
            *slot = field.number(sample.raw)? as u64;
        }
        Some(match self.key {
            Key::Cpu(_) | Key::WithinCpu(_) => ([u64::from(sample.cpu), 0], what),
            Key::Thread(_) => ([sample.tid as u64, 0], what),
            Key::Fields(_) => (what, what),
        })
    }
}

impl Series for Pairing {
    fn name(&self) -> &str {
        &self.name
    }

    fn made_of(&self) -> Vec<u16> {
        vec![self.begin, self.end]
    }

    fn sample(&mut self, event: u16, sample: &Sample<'_>, site: Option<SiteId>) -> Option<SiteDuration> {
        if event != self.begin && event != self.end {
            return None;
        }
        let (lane, what) = self.lane(&self.fields[usize::from(event == self.end)], sample)?;
        if event == self.end {
            // A thread is in at most one call, so a return ends that one regardless of its number: a signal handler
            // returns through rt_sigreturn with the number -1, and execveat returns with that of execve.
            let begin = match self.key {
                Key::Thread(_) => self.begun.take(&lane),
                _ => self.begun.end(&lane, &what).map(|(begin, _)| begin),
            }?;
            return Some((begin.with, begin.took(sample.time)));
        }
        match site {
            Some(site) => {
                self.begun.begin(lane, what, sample.time, site);
            }
            None => drop(self.begun.end(&lane, &what)),
        }
        None
    }

    fn thread_changed(&mut self, change: &ThreadChange) {
        if let Key::Thread(_) = self.key {
            self.begun.follow(change, |tid| [tid as u64, 0]);
        }
    }

    fn forget(&mut self, _lost: u64) {
        self.begun.forget();
    }

    fn copy(&self) -> Box<dyn Series> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashMap;

    use super::*;
    use crate::ingest::replay;
    use crate::ingest::replay::whole;

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
        // By hand: the vector is the only field of both, four bytes after the common ones.
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

    /// Calls of threads whose numbers change and repeat, and returns with other numbers than their calls.
    #[test]
    fn calls_follow_their_threads() {
        let field = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                     \tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n";
        let text = format!("name: sys\nID: 1\nformat:\n{field}\nprint fmt: \"\"\n");
        let id = Format::parse("raw_syscalls", &text, false).expect("a format").field("id").expect("a field").clone();
        let pairing = || Pairing {
            begin: 0,
            end: 1,
            key: Key::Thread(&["id"]),
            fields: [vec![id.clone()], vec![id.clone()]],
            name: "syscall-time".to_owned(),
            begun: OpenSpans::one_by_one(),
        };
        let call = |pairing: &mut Pairing, event: u16, tid: i32, number: i64, time: u64| {
            let raw = [[0; 8], number.to_le_bytes()].concat();
            let sample = Sample { tid, time, raw: &raw, ..Sample::default() };
            pairing.sample(event, &sample, Some(SiteId(0))).map(|(_, ns)| ns)
        };
        let exec = ThreadChange::Exec { pid: 10, from: Some(11), gone: Vec::new() };
        let mut one = pairing();
        assert_eq!(call(&mut one, 1, 11, 59, 5), None, "a return alone");
        call(&mut one, 0, 11, 322, 10);
        one.thread_changed(&exec);
        assert_eq!(call(&mut one, 1, 10, 59, 17), Some(7), "execveat returns as execve, with another number");
        call(&mut one, 0, 11, 0, 20);
        one.thread_changed(&ThreadChange::Ended { pid: 11, tid: 11 });
        assert_eq!(call(&mut one, 1, 11, 0, 25), None, "another thread of the number");
        call(&mut one, 0, 11, 0, 30);
        call(&mut one, 0, 11, 1, 40);
        assert_eq!(call(&mut one, 1, 11, 1, 43), Some(3), "the first one's return was not seen");
        call(&mut one, 0, 11, 15, 50);
        assert_eq!(call(&mut one, 1, 11, -1, 52), Some(2), "a signal's handler");
        call(&mut one, 0, 11, 0, 60);
        one.forget(1);
        assert_eq!(call(&mut one, 1, 11, 0, 70), None, "records were lost");
    }
}
