//! Samples as they are taken in: by whom, with which chain and text, and what they end.

use crate::profile::{SiteId, TraceId};
use crate::record::kinds::misc;
use crate::record::{Header, Sample};
use crate::session::Origin;

use super::Core;
use crate::ingest::chains::Chains;

impl Core {
    pub(super) fn sample(&mut self, input: usize, time: u64, header: Header, body: &[u8]) {
        if self.inputs.is_cut(time, header, body) {
            return;
        }
        let Some((form, mut sample)) = self.inputs.decoder(input).formed(header, body) else {
            self.profile.ledger.malformed += 1;
            return;
        };
        sample.time = time;
        if let Some(code) = &mut self.code {
            code.follow(&mut self.session, time);
        }
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

    fn take(&mut self, event: u16, sample: Sample<'_>, header: Header) {
        let mut chains = self.chains.take();
        self.take_by(event, sample, header, chains.as_deref_mut());
        self.chains = chains;
    }

    /// Takes a sample whose chain the other completes.
    fn take_by<'a>(&mut self, event: u16, sample: Sample<'a>, header: Header, mut chains: Option<&'a mut Chains>) {
        let mut sample = sample;
        let (time, mode) = (sample.time, header.misc & misc::CPUMODE_MASK);
        let live = self.session.origin() == Origin::Live;
        if sample.tid != sample.pid {
            self.session.met(sample.pid, sample.tid);
        }
        // A task that has ended has no number any more, and goes on to its last switch.
        if live
            && sample.tid == -1
            && let Some((pid, tid)) = self.exited.get(&sample.cpu)
        {
            (sample.pid, sample.tid) = (*pid, *tid);
        }
        if self.units.takes(event) {
            if self.start == 0 {
                self.start = time;
            }
            let own = self.own_pid == Some(sample.pid);
            if self.units.wants_stack(event)
                && let Some(chains) = chains.take()
            {
                self.session.seen(sample.pid, time, mode == misc::USER, sample.chain);
                let branches = self.events[usize::from(event)].attr.branch_sample_type;
                sample = chains.follow(&self.session, sample, branches, self.units.caller(event, &sample));
            }
            // Units ask where threads are, also of those whose samples nobody keeps.
            if sample.cgroup != 0 {
                self.session.task_in(sample.pid, sample.tid, sample.cgroup);
            }
            self.units.sample(event, &sample, mode, own, &mut self.session, &mut self.profile);
        }
        if self.units.is_quiet(event) {
            return;
        }
        if let Some(switches) = &self.switches {
            let names = switches.names(event, sample.raw);
            names.into_iter().flatten().for_each(|(tid, name)| self.session.told(tid, name));
        }
        if self.own_pid == Some(sample.pid) {
            self.profile.ledger.own += 1;
            return self.derive_from(event, &sample, None);
        }
        self.session.seen(sample.pid, sample.time, mode == misc::USER, sample.chain);
        let text = self.tracing.text(&self.events[usize::from(event)], sample.raw, &self.session);
        let trace = text.map_or(TraceId::default(), |text| self.profile.sites.trace(&text));
        self.count(time, event);
        if !self.wants.chains {
            sample.chain = &[];
        } else if let Some(chains) = chains {
            let branches = self.events[usize::from(event)].attr.branch_sample_type;
            sample = match self.wants.history {
                true => chains.with_history(sample, branches),
                false => chains.follow(&self.session, sample, branches, None),
            };
        }
        let site = self.profile.add(&mut self.session, &sample, mode, event, trace);
        if let Some(log) = &mut self.hardware {
            let (position, of) = (self.profile.end() - 1, &self.events[usize::from(event)]);
            let rare = of.layout().rare(sample.tail, of.attr.regs_intr).unwrap_or_default();
            log.take(&self.session, &mut self.profile, (&sample, &rare), position);
        }
        self.derive_from(event, &sample, Some(site));
    }

    /// Counts what a sample ends.
    fn derive_from(&mut self, event: u16, sample: &Sample<'_>, site: Option<SiteId>) {
        let Self { derived, profile, session, .. } = self;
        derived[session.at()].sample(event, sample, site, profile.epoch(), |own, (began, ns)| {
            profile.push(sample.time, began, ns.max(1), sample.cpu as u16, own);
        });
    }

    /// Counts the absence of a thread that is back.
    pub(super) fn back(&mut self, tid: i32, time: u64, cpu: u32) {
        let Self { derived, profile, session, .. } = self;
        derived[session.at()].came(tid, time, profile.epoch(), |own, (left, ns)| {
            profile.push(time, left, ns.max(1), cpu as u16, own);
        });
    }
}
