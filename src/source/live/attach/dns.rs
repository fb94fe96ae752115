//! The programs that write DNS messages, at the event that has them as samples.

use std::os::fd::{AsFd, OwnedFd};

use crate::kernel::bpf::calls::LoadError;
use crate::kernel::dns_messages::DnsRecorder;
use crate::kernel::sys::Errno;
use crate::source::live::capture::refused_program;
use crate::source::live::error::OpenError;

use super::Attachment;

impl Attachment {
    /// Lets the programs write the messages of a CPU by an event that was just opened, if it is the one for them.
    pub(super) fn record_dns(&mut self, slot: usize, cpu: u32, fd: &OwnedFd, id: u64) -> Result<(), OpenError> {
        let event = &self.slots[slot].event;
        if !event.is_dns_messages() {
            return Ok(());
        }
        let name = event.name.clone();
        self.write_dns(cpu, fd, id).map_err(|error| {
            let (reason, remedy) = match error.errno {
                // A type or a field that the kernel lacks.
                Errno::OPNOTSUPP if !error.log.is_empty() => (error.log, String::new()),
                _ => refused_program(&error, ""),
            };
            OpenError::new(format!("event {name}"), "opened", reason, remedy)
        })
    }

    fn write_dns(&mut self, cpu: u32, fd: &OwnedFd, id: u64) -> Result<(), LoadError> {
        let recorder = match &mut self.dns {
            Some(recorder) => recorder,
            none => none.insert(DnsRecorder::load()?),
        };
        Ok(recorder.write_by(cpu, fd.as_fd(), id)?)
    }

    /// Ends the messages of an event that is closed, and the programs with the last one.
    pub(super) fn end_dns(&mut self, slot: usize, cpu: u32, id: u64) {
        if self.slots[slot].event.is_dns_messages() {
            self.dns.take_if(|recorder| !recorder.write_no_more(cpu, id));
        }
    }

    /// Ends the programs if events could not be opened, so that none has their messages.
    pub(super) fn drop_unused_dns(&mut self) {
        let Self { opened, slots, dns, .. } = self;
        let is_dns = |event: u16| slots[usize::from(event)].event.is_dns_messages();
        dns.take_if(|_| !opened.iter().filter_map(|open| open.event).any(is_dns));
    }
}
