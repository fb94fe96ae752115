//! Changes of the target: the events are opened on other tasks or cgroups.

use crate::source::SourceEvent;
use crate::source::ViewFilter;
use crate::source::live::containers::Scanner;
use crate::source::live::target::Target;
use crate::source::live::target::family::Family;
use crate::source::live::{LiveSource, OpenError};

use super::line;

impl LiveSource {
    pub(super) fn attach_to(&mut self, text: &str) -> Result<String, String> {
        if let Some(wanted) = Target::wanted(text) {
            let wanted = wanted.map_err(|error| line(&error))?;
            let filter = wanted.view(&mut Scanner::here()).map_err(|error| line(&error))?;
            if let Some(filter) = filter.filter(|_| self.attachment.common.cgroups) {
                self.sample("all")?;
                let filter = ViewFilter { filter, words: wanted.viewed() };
                self.pending.events.push(SourceEvent::ViewFilter(filter));
                return Ok(String::new());
            }
        }
        self.sample(text)
    }

    fn sample(&mut self, text: &str) -> Result<String, String> {
        let target = Target::parse(text).map_err(|error| line(&error))?;
        if self.attachment.by_task && !self.attachment.rights.system_wide() {
            return Err("this user may sample only its own tasks; restart with -p".to_owned());
        }
        let cgroups = target.open_cgroups().map_err(|error| line(&error))?;
        let mut family = Family::default();
        let need = target.tasks(self.inherit.then_some(&mut family)).len().max(1)
            * self.attachment.rings.len()
            * self.attachment.slots.len();
        OpenError::room_for(need, self.attachment.opened.len() + 64).map_err(|error| line(&error))?;
        let common = self.attachment.common;
        let tasks = target.is_tasks();
        let words = match target.label() {
            all if all.is_empty() => "the whole machine".to_owned(),
            some => some,
        };
        let before = (
            std::mem::replace(&mut self.target, target),
            std::mem::replace(&mut self.attachment.cgroups, cgroups),
            std::mem::replace(&mut self.family, family),
        );
        self.attachment.common.inherit = self.inherit && tasks;
        self.attachment.common.tasks = tasks;
        self.attachment.is_narrow = self.target != Target::System;
        self.attachment.common.copies = self.attachment.is_auto && self.attachment.is_narrow;
        self.attachment.common.enable_on_exec = false;
        if self.attachment.by_task {
            self.own_rings().map_err(|error| line(&error))?;
        }
        if let Err(error) = self.reopen_all() {
            (self.target, self.attachment.cgroups, self.family) = before;
            self.attachment.common = common;
            self.attachment.is_narrow = self.target != Target::System;
            return Err(line(&error));
        }
        Ok(format!("sampling {words} from now on"))
    }

    /// Replaces the rings of tasks by rings of CPUs.
    pub(super) fn own_rings(&mut self) -> Result<(), OpenError> {
        let mut batch = std::mem::take(&mut self.pending);
        let cpus: Vec<u32> = self.attachment.rings.keys().copied().collect();
        for cpu in &cpus {
            self.close_cpu(*cpu, &mut batch);
        }
        self.pending = batch;
        self.attachment.by_task = false;
        for cpu in cpus {
            self.attachment.open_ring(cpu, -1)?;
            self.watch(cpu);
        }
        Ok(())
    }
}
