//! The time of threads that is shown: on the CPUs, off them, or both; and whether idle time is part of it.

use crate::perfdata::OFF_CPU_TIME;
use crate::ui::input::commands::general;
use crate::ui::input::shown;
use crate::ui::state::{Model, Tab};

/// The time of threads that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShownTime {
    Cpu,
    Wall,
    OffCpu,
}

impl Model {
    /// Shows or hides idle time.
    pub(crate) fn toggle_idle(&mut self) {
        self.selection.hide_idle = !self.selection.hide_idle;
        self.say(match (self.selection.hide_idle, self.selection.shows_sleep(&self.context)) {
            (true, true) => "idle CPUs and idle threads of the kernel are hidden",
            (true, false) => "idle CPUs are hidden",
            (false, true) => "idle CPUs and idle threads of the kernel are shown",
            (false, false) => "idle CPUs are shown",
        });
    }

    /// Turns from CPU time to wall time, or back.
    pub(crate) fn toggle_off_cpu(&mut self) {
        self.show_time(if self.selection.off_cpu { ShownTime::Cpu } else { ShownTime::Wall });
    }

    /// Returns the time that follows the shown one.
    fn time_after(&self) -> ShownTime {
        let is_off_cpu = self.context.off_cpu_event() == Some(self.selection.event);
        match (self.selection.off_cpu, is_off_cpu) {
            (true, _) => ShownTime::OffCpu,
            (false, true) => ShownTime::Cpu,
            (false, false) => ShownTime::Wall,
        }
    }

    /// Describes what the key that turns the time shows next.
    pub(crate) fn next_time(&self) -> &'static str {
        match self.time_after() {
            ShownTime::Cpu => "CPU time",
            ShownTime::Wall => "wall time",
            ShownTime::OffCpu => "off-CPU time",
        }
    }

    /// Turns from CPU time to wall time, to time off the CPUs alone, and back, or shows the named one.
    pub(crate) fn turn_time(&mut self, text: Option<String>) {
        let next = match text.as_deref().map(str::trim) {
            Some("cpu") => ShownTime::Cpu,
            Some("wall") => ShownTime::Wall,
            Some("off-cpu") => ShownTime::OffCpu,
            Some(text) => return self.error(format!("{text}: expected cpu, wall or off-cpu")),
            None => self.time_after(),
        };
        self.show_time(next);
    }

    /// Says where the time off the CPUs before the start of a unit is kept.
    pub(crate) fn point_to_kept_sleep(&mut self, unit: &str) {
        let is_kept = |event: usize| self.context.answer.events[event].name == OFF_CPU_TIME;
        if !["offcpu", "waits"].contains(&unit) || !self.context.off_cpu_event().is_some_and(is_kept) {
            return;
        }
        let key = self.context.keymap.key_of(&general::WALL).map_or_else(|| ":wall".to_owned(), shown);
        self.say(format!(
            "{unit} measures from now on; {key} shows the time off the CPUs before it in table, flame graph and map"
        ));
    }

    fn show_time(&mut self, time: ShownTime) {
        let Some(off) = self.context.off_cpu_event() else {
            let measured = self.context.answer.events.iter().find(|event| event.name == OFF_CPU_TIME);
            return self.say(match measured.and_then(|event| event.note.as_ref()) {
                Some(why) => format!("only CPU time is kept: {why}"),
                None => "time off the CPUs is not kept; with -e, it needs -e cpu-clock,sched:sched_switch".to_owned(),
            });
        };
        let Some(clock) = self.context.on_cpu_event() else {
            return self
                .say("time on the CPUs needs cpu-clock in addition to the switches: -e cpu-clock,sched:sched_switch");
        };
        let is_kept = self.context.answer.events[off].name == OFF_CPU_TIME;
        let note = self.context.answer.events[off].note.clone();
        self.selection.off_cpu = time == ShownTime::Wall;
        self.selection.event = if time == ShownTime::OffCpu { off } else { clock };
        self.top.home();
        let idle = match self.selection.hide_idle && is_kept {
            true => "; without idle kernel threads (i)",
            false => "",
        };
        self.say(match time {
            ShownTime::Cpu => "time on the CPUs".to_owned(),
            ShownTime::OffCpu => format!("time off the CPUs{idle}"),
            ShownTime::Wall if self.frame.tab == Tab::Flame => {
                note.unwrap_or_else(|| format!("time on the CPUs, and off them where hatched{idle}"))
            }
            ShownTime::Wall => note.unwrap_or_else(|| format!("wall time: threads on the CPUs and off them{idle}")),
        });
    }
}
