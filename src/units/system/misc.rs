//! `misc`: changes in the kernel: BPF programs, symbols, cgroups and patched code.

use std::collections::{BTreeMap, VecDeque};

use crate::record::Record;
use crate::record::interpreted::Language;
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "misc",
    about: "changes in the kernel: BPF programs, symbols, cgroups, patched code",
    words: "bpf cgroup module patch change",
    help: "Shows the kernel's side-band records BPF_EVENT, KSYMBOL, CGROUP and TEXT_POKE, from the start of the \
           measurement on. Patched code is shown with its bytes before and after. Records other than those of cgroups \
           have the time of the CPU's previous record, which is up to a quarter of a second earlier.",
    example: "perfprof-tui misc",
    output: "",
    options: &["keep"],
    sees: Sees::Machine,
    across: None,
    interval: Some(1.0),
    make: |settings| Ok(Box::new(Misc::new(settings)?)),
};

#[derive(Clone, Debug)]
struct Misc {
    keep: usize,
    log: VecDeque<(u64, u64, &'static str, String)>,
    counts: BTreeMap<&'static str, u64>,
    number: u64,
}

impl Misc {
    fn new(settings: &Settings) -> Result<Self, String> {
        let keep = settings.number("keep", 10_000)? as usize;
        Ok(Self { keep: keep.max(1), log: VecDeque::new(), counts: BTreeMap::new(), number: 0 })
    }

    fn add(&mut self, time: u64, kind: &'static str, words: String) {
        if self.log.len() == self.keep {
            self.log.pop_front();
        }
        self.log.push_back((self.number, time, kind, words));
        self.number += 1;
        *self.counts.entry(kind).or_default() += 1;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

impl Unit for Misc {
    fn is_log(&self) -> bool {
        true
    }

    fn event_requests(&self) -> Vec<EventRequest> {
        vec![EventRequest { text_poke: true, ..EventRequest::new("dummy|~") }.counted()]
    }

    fn on_sideband(&mut self, record: &Record<'_>, time: u64, _cx: &mut Context<'_>) {
        if time == 0 {
            return;
        }
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        match record {
            Record::Bpf { unload, id, tag } => {
                let tag: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
                let kind = if *unload { "BPF unload" } else { "BPF load" };
                self.add(time, kind, format!("program {id} tag {tag}"));
            }
            // A function of a program, not of the kernel.
            Record::Ksymbol { addr, .. } if Language::of_address(*addr).is_some() => {}
            Record::Ksymbol { addr, len, unregister, name: symbol, .. } => {
                let kind = if *unregister { "symbol gone" } else { "symbol" };
                self.add(time, kind, format!("{} at {addr:#x}, {len} bytes", name(symbol)));
            }
            Record::Cgroup { id, path } => self.add(time, "cgroup", format!("{} id {id}", name(path))),
            Record::TextPoke { addr, old, new } => {
                self.add(time, "code patched", format!("{addr:#x}: {} to {}", hex(old), hex(new)));
            }
            _ => {}
        }
    }

    fn loss_text(&self) -> &'static str {
        "changes may be missing"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let newest = self.log.iter().skip(self.log.len().saturating_sub(at.look.rows));
        let log = Sheet::of(newest, |(number, ..)| *number)
            .right("time_ns", "At", 9, |(_, time, ..)| Cell::Time(at.after(*time)))
            .left("kind", "What", 14, |(_, _, kind, _)| text(*kind))
            .left("text", "Which", 0, |(.., words)| text(words.as_str()));
        let counts = Sheet::of(self.counts.iter().enumerate(), |(i, _)| i as u64)
            .left("kind", "What", 20, |(_, (kind, _))| text(*kind))
            .right("times", "Times", 12, |(_, (_, n))| Cell::Count(*n));
        vec![Panel::new("Log", Body::Log(log.rows())), counts.whole("Counts")]
    }

    fn reset(&mut self, _now: u64) {
        self.log.clear();
        self.counts.clear();
    }
}
