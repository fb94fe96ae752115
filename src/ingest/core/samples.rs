//! Applying samples: their task, chain and text, and the durations that they end.

use crate::kernel::attr::sample;
use crate::profile::{SiteId, TraceId};
use crate::record::kinds::misc;
use crate::record::{Header, Sample};
use crate::session::Origin;

use super::IngestState;
use crate::ingest::chains::Chains;

impl IngestState {
    pub(super) fn sample(&mut self, input: usize, time: u64, mut header: Header, body: &[u8]) {
        if self.inputs.is_cut(time, header, body) {
            return;
        }
        let Some((form, mut sample)) = self.inputs.decoder(input).formed(header, body) else {
            self.profile.ledger.malformed += 1;
            return;
        };
        // Live, an event's ids may become known after its first samples.
        if self.session.origin() == Origin::Recorded && self.inputs.decoder(input).is_of_no_event(&sample) {
            self.profile.ledger.malformed += 1;
            return;
        }
        sample.time = self.times.known(time);
        if let Some(code) = &mut self.code {
            code.follow(&mut self.session, sample.time);
        }
        if form.is_off_cpu {
            self.place_off_cpu(&mut sample);
            // The record's mode is that of the switch, but the stack is that of user code, also if it is empty.
            header.misc = header.misc & !misc::CPUMODE_MASK | misc::USER;
        }
        self.profile.ledger.unjoined += u64::from(sample.deferred.is_some());
        if !form.layout.is_read() {
            return self.take(form.event, sample, header);
        }
        for share in self.inputs.decoder_mut(input).shares(&form, &sample).iter().filter(|share| share.period > 0) {
            let (id, period) = (share.counter.0, share.period);
            match share.event {
                Some(event) => self.take(event, Sample { id, period, ..sample }, header),
                None => self.profile.ledger.malformed += 1,
            }
        }
    }

    /// Swaps a sample's process and thread if only the thread is known as a process: perf 6.16 writes them in one order
    /// in its BPF program and in the other in user space, and reads the latter.
    fn place_off_cpu(&self, sample: &mut Sample<'_>) {
        let is_process = |pid: i32| self.session.places(pid).knows_user();
        if sample.pid != sample.tid && !is_process(sample.pid) && is_process(sample.tid) {
            (sample.pid, sample.tid) = (sample.tid, sample.pid);
        }
    }

    fn take(&mut self, event: u16, sample: Sample<'_>, header: Header) {
        let mut chains = self.chains.take();
        self.take_by(event, sample, header, chains.as_deref_mut());
        self.chains = chains;
    }

    fn take_by<'a>(&mut self, event: u16, sample: Sample<'a>, header: Header, mut chains: Option<&'a mut Chains>) {
        let mut sample = sample;
        let (time, mode) = (sample.time, header.misc & misc::CPUMODE_MASK);
        let live = self.session.origin() == Origin::Live;
        if sample.tid != sample.pid {
            self.session.met(sample.pid, sample.tid);
        }
        if live && sample.tid == -1 {
            self.running.name_exited(&mut sample);
        }
        if let Some(parallelism) = &mut self.parallelism {
            parallelism.traced(event, &sample, &self.session);
        }
        if self.units.takes(event) {
            self.times.begin(time);
            let own = self.running.own_pid == Some(sample.pid);
            if self.units.wants_stack(event)
                && let Some(chains) = chains.take()
            {
                self.session.seen(sample.pid, time, mode == misc::USER, sample.chain);
                let attr = &self.events[usize::from(event)].attr;
                let caller = self.units.caller(event, &sample);
                if self.units.is_of_target(&sample, &self.session) {
                    chains.examine(&self.session, &sample, caller);
                }
                sample = chains.follow(&self.session, sample, attr);
            }
            // Units use threads' locations, even without kept samples.
            if sample.cgroup != 0 {
                self.session.task_in(sample.pid, sample.tid, sample.cgroup);
            }
            self.units.sample(event, &sample, mode, own, &mut self.session, &mut self.profile);
        }
        if self.units.is_quiet(event) {
            self.profile.ledger.unit_records += 1;
            return;
        }
        if let Some(switches) = &self.running.switches {
            let names = switches.names(event, sample.raw);
            names.into_iter().flatten().for_each(|(tid, name)| self.session.told(tid, name));
        }
        if self.running.own_pid == Some(sample.pid) {
            self.profile.ledger.own += 1;
            return self.derive_from(event, &sample, None);
        }
        self.session.seen(sample.pid, sample.time, mode == misc::USER, sample.chain);
        let text = self.tracing.text(&self.events[usize::from(event)], sample.raw, &self.session);
        let trace = text.map_or(TraceId::default(), |text| self.profile.sites.trace(&text));
        self.count(time, event, 1);
        if !self.wants.chains {
            sample.chain = &[];
        } else if let Some(chains) = chains {
            let attr = &self.events[usize::from(event)].attr;
            sample = match self.wants.history {
                true => chains.with_history(sample, attr.branch_sample_type),
                false => {
                    if self.units.is_of_target(&sample, &self.session) {
                        chains.examine(&self.session, &sample, None);
                    }
                    chains.follow(&self.session, sample, attr)
                }
            };
        }
        let threads = self.running_threads(event, &sample);
        let raw = threads.map(u32::to_ne_bytes);
        let sample = Sample { raw: raw.as_ref().map_or(sample.raw, |raw| raw), ..sample };
        let site = self.profile.add(&mut self.session, &sample, mode, event, trace);
        self.weigh_latency(threads, &sample, site);
        if let Some(log) = &mut self.hardware {
            let (position, of) = (self.profile.end() - 1, &self.events[usize::from(event)]);
            let rare = of.layout().rare(sample.tail, of.attr.regs_intr).unwrap_or_default();
            log.take(&self.session, &mut self.profile, (&sample, &rare), position);
        }
        self.derive_from(event, &sample, Some(site));
    }

    /// Returns the number of running threads of a sampled process, for a sample that the latency profile weighs.
    fn running_threads(&mut self, event: u16, sample: &Sample<'_>) -> Option<u32> {
        let parallelism = self.parallelism.as_mut().filter(|parallelism| parallelism.clock == event)?;
        let has_cpu = self.events[usize::from(event)].attr.sample_type & sample::CPU != 0;
        Some(parallelism.sampled(sample.pid, sample.tid, has_cpu.then_some(sample.cpu)))
    }

    fn weigh_latency(&mut self, threads: Option<u32>, sample: &Sample<'_>, site: SiteId) {
        let Some((threads, event)) = threads.zip(self.parallelism.as_ref().map(|of| of.event)) else { return };
        let threads = u64::from(threads);
        let weight = sample.period.saturating_add(threads / 2) / threads;
        self.profile.push_raw(sample.time, site, weight, sample.cpu as u16, event, sample.raw);
    }

    fn derive_from(&mut self, event: u16, sample: &Sample<'_>, site: Option<SiteId>) {
        let Self { derived, profile, session, .. } = self;
        derived[session.at()].sample(event, sample, site, profile.epoch(), |own, (began, ns)| {
            profile.push(sample.time, began, ns.max(1), sample.cpu as u16, own);
        });
    }

    pub(super) fn back(&mut self, tid: i32, time: u64, cpu: u32) {
        let Self { derived, profile, session, .. } = self;
        derived[session.at()].switched_in(tid, time, profile.epoch(), |own, (left, ns)| {
            profile.push(time, left, ns.max(1), cpu as u16, own);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::{Ingest, IntakeOptions};
    use crate::kernel::attr::{Attr, Flag, SW_BPF_OUTPUT, TYPE_SOFTWARE, sample};
    use crate::kernel::procfs;
    use crate::perfdata::EventDesc;
    use crate::profile::Site;
    use crate::record::kinds::tests::bytes;
    use crate::record::kinds::{Mmap, encode, encode_comm, types};
    use crate::record::off_cpu::NO_TIME;
    use crate::record::sample::CONTEXT_USER;
    use crate::session::MapId;
    use crate::source::live::Target;
    use crate::source::{Batch, Info};

    /// /proc no longer shows the mappings of a target that has ended.
    #[test]
    fn the_mappings_of_a_target_outlive_it() {
        use std::io::{Read, Write};
        use std::process::{Command, Stdio};
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("cat");
        // It runs and has all its mappings once it answers.
        child.stdin.as_mut().expect("piped").write_all(b"x").expect("written");
        child.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("answered");
        let pid = child.id() as i32;
        let maps = procfs::exec_maps(pid);
        let info = Info { whom: Target::Processes(vec![pid]), ..Info::new(Origin::Live) };
        let mut ingest = Ingest::new(&info, None, IntakeOptions::default());
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert!(!maps.is_empty() && procfs::exec_maps(pid).is_empty());
        let session = &mut ingest.core_mut().session;
        session.task(pid, pid);
        let files = maps.iter().filter(|map| map.inode != 0);
        let lost: Vec<_> = files.filter(|map| session.user_map(pid, map.start) == MapId::UNKNOWN).collect();
        assert!(lost.is_empty(), "{lost:?}");
        assert_eq!(session.comm_of(pid).as_deref(), Some("cat"));
    }

    /// The same for a process outside of the target, or of a target that was chosen later.
    #[test]
    fn the_mappings_of_running_processes_outlive_them() {
        use std::process::{Command, Stdio};
        for whom in [Target::System, Target::Processes(vec![std::process::id() as i32])] {
            let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
            let pid = child.id() as i32;
            let files = || procfs::exec_maps(pid).into_iter().filter(|map| map.inode != 0).map(|map| map.start);
            while procfs::comm(pid, pid).is_none_or(|comm| comm != b"cat") || files().count() < 3 {
                std::thread::yield_now();
            }
            let starts: Vec<u64> = files().collect();
            let info = Info { whom, alone: true, ..Info::new(Origin::Live) };
            let mut ingest = Ingest::new(&info, None, IntakeOptions::default());
            let session = &mut ingest.core_mut().session;
            session.learn_earlier(std::time::Duration::from_secs(20));
            child.kill().expect("killed");
            child.wait().expect("ended");
            assert!(!session.places(pid).knows_user(), "no record yet");
            session.task(pid, pid);
            assert!(starts.iter().all(|start| session.user_map(pid, *start) != MapId::UNKNOWN), "{starts:x?}");
        }
    }

    /// An event of the whole machine has samples of other processes, too: their stacks say nothing about the target.
    #[test]
    fn stacks_of_other_processes_are_not_judged() {
        let judged = |whom: fn(i32) -> Target| {
            let (own, other) = (i32::MAX - 2, i32::MAX - 1);
            let mut attr = Attr { kind: TYPE_SOFTWARE, ..Attr::default() };
            attr.sample_type = sample::IP | sample::TID | sample::TIME | sample::CALLCHAIN;
            attr.set(Flag::SampleIdAll, true);
            let event = EventDesc { name: "cpu-clock".into(), attr, ids: Vec::new() };
            let info = Info { whom: whom(own), events: vec![event], ..Info::new(Origin::Live) };
            let mut ingest = Ingest::new(&info, None, IntakeOptions::default());
            ingest.complete_chains(crate::symbols::SymbolOptions::live());
            let mut records = Vec::new();
            for (pid, name, chain) in [(own, &b"/a"[..], &[0x40_0010, 0x40_0020][..]), (other, b"/b", &[0x40_0010])] {
                let task = u64::from(pid as u32) << 32 | u64::from(pid as u32);
                let map = Mmap { pid, tid: pid, start: 0x40_0000, len: 0x1000, prot: 5, name, ..Mmap::default() };
                map.encode(&mut records, &bytes(&[task, 1])).expect("fits");
                let body = [&[chain[0], task, 2, 1 + chain.len() as u64, CONTEXT_USER][..], chain].concat();
                for _ in 0..100 {
                    encode(&mut records, types::SAMPLE, misc::USER, |out| out.extend(bytes(&body))).expect("fits");
                }
            }
            ingest.feed(&mut Batch { bytes: records, complete_until: Some(u64::MAX), ..Batch::default() });
            let core = ingest.core();
            let broken = core.chains.as_ref().expect("completed").broken();
            broken.map(|(dso, _)| core.session.dsos.get(dso).short.to_string())
        };
        assert_eq!(judged(|_| Target::System).as_deref(), Some("b"));
        assert_eq!(judged(|own| Target::Processes(vec![own])), None);
    }

    /// Appends an off-CPU time in the format of perf 6.16: the sample's own fields have only the time.
    fn off_cpu(out: &mut Vec<u8>, time: u64, task: u64, period: u64, chain: &[u64]) {
        let raw = bytes(&[&[task, period, chain.len() as u64][..], chain, &[9]].concat());
        let body = [bytes(&[0, 0, time, 1]), (raw.len() as u32).to_le_bytes().to_vec(), raw, vec![0; 4]].concat();
        encode(out, types::SAMPLE, misc::KERNEL, |out| out.extend(body)).expect("fits");
    }

    /// Reads off-CPU times of a thread whose program is mapped.
    fn sleeper(times: &[u8]) -> Ingest {
        let mut attr = Attr { kind: TYPE_SOFTWARE, config: SW_BPF_OUTPUT, ..Attr::default() };
        attr.sample_type = sample::IP | sample::TID | sample::TIME | sample::PERIOD | sample::RAW;
        attr.set(Flag::SampleIdAll, true);
        let event = EventDesc { name: "offcpu-time".into(), attr, ids: Vec::new() };
        let trailer = bytes(&[201 << 32 | 200, 1]);
        let mut records = Vec::new();
        encode_comm(&mut records, 200, 201, false, b"sleeper", &trailer).expect("fits");
        let map = Mmap { pid: 200, tid: 200, start: 0x40_0000, len: 0x1000, prot: 5, name: b"/a", ..Mmap::default() };
        map.encode(&mut records, &trailer).expect("fits");
        records.extend_from_slice(times);
        let info = Info { events: vec![event], ..Info::new(Origin::Recorded) };
        let mut ingest = Ingest::new(&info, None, IntakeOptions { addresses: true, ..IntakeOptions::default() });
        ingest.feed(&mut Batch { bytes: records, complete_until: Some(u64::MAX), ..Batch::default() });
        ingest
    }

    #[test]
    fn times_off_the_cpu_are_of_their_threads() {
        let (mut records, chain) = (Vec::new(), [CONTEXT_USER, 0x40_0200, 0x40_0300]);
        off_cpu(&mut records, 1000, 201 << 32 | 200, 500, &chain);
        // As its BPF program writes it: the thread first.
        off_cpu(&mut records, 2000, 200 << 32 | 201, 600, &chain);
        off_cpu(&mut records, NO_TIME + 1, 201 << 32 | 200, 700, &chain);
        let ingest = sleeper(&records);
        let (core, mut got) = (ingest.core(), Vec::new());
        for (chunk, range) in core.profile.between(0, u64::MAX) {
            for row in range {
                let site = core.profile.sites.all()[chunk.site[row] as usize];
                let task = &core.session.tasks()[site.task.0 as usize];
                let ips: Vec<u64> = core.profile.trie.walk(site.stack).map(|f| core.profile.frames.get(f).ip).collect();
                assert_eq!(
                    (task.pid, task.tid, &*task.comm, &*ips),
                    (200, 201, "sleeper", &[0x40_0200, 0x40_0300][..])
                );
                got.push((chunk.time[row], chunk.weight[row]));
            }
        }
        assert_eq!((got, core.profile.ledger.malformed), (vec![(1000, 500), (2000, 600), (2000, 700)], 0));
        assert!(core.profile.has_durations(0) && core.profile.unit(0).is_time());
    }

    /// A switch happens in the kernel, but a missing stack is not one of the kernel.
    #[test]
    fn times_without_a_stack_are_not_of_the_kernel() {
        for chain in [&[CONTEXT_USER][..], &[]] {
            let mut records = Vec::new();
            off_cpu(&mut records, 1000, 201 << 32 | 200, 500, chain);
            let ingest = sleeper(&records);
            let core = ingest.core();
            let maps: Vec<MapId> = core.profile.sites.all().iter().map(|site| leaf(core, site)).collect();
            assert!(!maps.is_empty() && !maps.contains(&MapId::KERNEL), "{chain:?} {maps:?}");
        }
    }

    fn leaf(core: &IngestState, site: &Site) -> MapId {
        core.profile.trie.walk(site.stack).next().map_or(MapId::UNKNOWN, |frame| core.profile.frames.get(frame).map)
    }
}
