//! The message above the screens: the most urgent problem, and the key that leads to it.

use crate::engine::Request;
use crate::event::CallGraph;
use crate::event::callgraph::MAX_STACK;
use crate::machine::deadlocks::Deadlock;
use crate::machine::findings::{CpuFinding, FindingKind};
use crate::machine::triage;
use crate::panel::unit::percent;
use crate::profile::frames::SymState;
use crate::query::TopLine;
use crate::query::unnamed::{UnnamedDso, name_remedy, process_of_jit};
use crate::session::dso::NOT_WALKED;
use crate::session::{DsoKind, Origin};
use crate::ui::state::{BannerSubject, Model, Tab};

/// The share of unsymbolized code above which there is a message.
const UNNAMED_PERCENT: f64 = 10.0;
/// The age of the view in seconds from which there is a message.
const LATE: u64 = 10;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Banner {
    pub(crate) text: String,
    /// Additional text, if there is room.
    pub(crate) more: String,
    pub(crate) urgent: bool,
    pub(crate) of: BannerSubject,
}

impl Model {
    /// Returns the most urgent message that was not dismissed.
    pub(crate) fn banner(&self) -> Option<Banner> {
        let kept = |banner: &Banner| !self.selection.dismissed.contains(&banner.of);
        self.deadlock()
            .or_else(|| self.anomaly())
            .or_else(|| self.late().filter(kept))
            .or_else(|| self.unnamed().filter(kept))
            .or_else(|| self.cut().filter(kept))
    }

    /// Returns the message to draw: not one about a row of the screen that is open.
    pub(crate) fn shown_banner(&self) -> Option<Banner> {
        self.banner().filter(|banner| !self.is_in_overview(banner))
    }

    /// Returns whether the overview is open and has a row for the message. Rows of a past range, or of some processes,
    /// do not include all of them.
    fn is_in_overview(&self, banner: &Banner) -> bool {
        let is_row = match &banner.of {
            BannerSubject::Deadlock(..) | BannerSubject::Anomaly(Some(_), _) => true,
            // The overview has a limit of its own for quotas.
            BannerSubject::Anomaly(None, _) => self.selection.points >= triage::THROTTLED,
            BannerSubject::Unnamed(_) | BannerSubject::Cut | BannerSubject::Late => false,
        };
        is_row && self.frame.tab == Tab::Overview && self.selection.range().is_none() && !self.selects_processes()
    }

    fn deadlock(&self) -> Option<Banner> {
        let all = &self.context.host.as_ref()?.history.newest()?.deadlocks;
        let of =
            |found: &Deadlock| BannerSubject::Deadlock(found.pid, found.threads.iter().map(|(tid, _)| *tid).collect());
        let kept: Vec<&Deadlock> = all.iter().filter(|found| !self.selection.dismissed.contains(&of(found))).collect();
        let first = kept.first()?;
        let text = format!("deadlock in {} {}: {}", first.comm, first.pid, first.text());
        let more = if kept.len() > 1 { format!("  and {} more", kept.len() - 1) } else { String::new() };
        Some(Banner { text, more, urgent: true, of: of(first) })
    }

    fn anomaly(&self) -> Option<Banner> {
        // The text of a cgroup's finding begins with its name, which distinguishes it.
        let which = |found: &CpuFinding| match found.kind {
            FindingKind::Quota => found.text.split(" throttled").next().unwrap_or_default().to_owned(),
            kind => format!("{kind:?} {:?}", found.vector),
        };
        let of = |found: &CpuFinding| BannerSubject::Anomaly(found.cpu, which(found));
        let kept = || self.context.findings.iter().filter(|found| !self.selection.dismissed.contains(&of(found)));
        let first = kept().next()?;
        let others: std::collections::BTreeSet<u32> =
            kept().filter(|f| f.cpu != first.cpu).filter_map(|f| f.cpu).collect();
        let more = match others.len() {
            0 => String::new(),
            1 => "  and 1 more CPU".to_owned(),
            n => format!("  and {n} more CPUs"),
        };
        Some(Banner { text: first.text.clone(), more, urgent: true, of: of(first) })
    }

    /// Niceness counts only within a session if the kernel groups tasks by sessions (sched_autogroup_enabled), so that the
    /// program's threads wait on an overloaded machine.
    fn late(&self) -> Option<Banner> {
        self.context.behind.late(self.selection.refresh).filter(|seconds| *seconds >= LATE)?;
        let remedy = if self.context.invocation.may_become_realtime() { "; -r 1 helps" } else { "" };
        let text = format!("the view is late: too little CPU time for this program{remedy}");
        Some(Banner { text, more: String::new(), urgent: false, of: BannerSubject::Late })
    }

    fn unnamed(&self) -> Option<Banner> {
        if self.frame.tab != Tab::Top {
            return None;
        }
        let rows = self.context.unnamed.as_ref().filter(|rows| rows.percent > UNNAMED_PERCENT)?;
        let line = self.context.answer.view.lines.get(rows.most)?;
        let text = format!("{} without names, most in {}", percent(rows.percent), self.why_unnamed(line));
        let of = BannerSubject::Unnamed(line.dso_path.to_string());
        Some(Banner { text, more: String::new(), urgent: false, of })
    }

    pub(crate) fn why_unnamed(&self, line: &TopLine) -> String {
        let why = self.context.answer.sources.get(&line.dso_path).map(|from| &from.text);
        match line.kind {
            kind if kind.is_kernel() => "the kernel: its symbols are hidden".to_owned(),
            DsoKind::Interpreted(language) if language.names_are_read_later() => {
                format!("{}: the process moved functions before their names were read", line.dso)
            }
            DsoKind::Interpreted(_) => format!("{}: names that could not be read", line.dso),
            DsoKind::Anon => format!("{}: JIT code without a map of its symbols", line.dso),
            _ if line.state == SymState::Bounded => format!("{}: stripped", line.dso),
            _ => why.map_or_else(|| format!("{}: no symbols", line.dso), |why| format!("{}: {why}", line.dso)),
        }
    }

    fn cut(&self) -> Option<Banner> {
        const SHORT: f64 = 25.0;
        match self.unwinding()? {
            CallGraph::Dwarf(size) if self.context.answer.cut_percent > SHORT && size < MAX_STACK => {
                let text = format!(
                    "{:.0} % of stacks are longer than the {size} bytes copied",
                    self.context.answer.cut_percent
                );
                Some(Banner { text, more: String::new(), urgent: false, of: BannerSubject::Cut })
            }
            _ => None,
        }
    }

    fn unwinding(&self) -> Option<CallGraph> {
        let live = self.context.info.origin == Origin::Live && self.context.answer.ended.is_none();
        Some(self.context.meter(self.selection.event).filter(|_| live)?.state.chains)
    }

    /// Describes broken call chains of a DSO, with the remedy.
    pub(crate) fn broken(&self, dso: &str) -> Option<String> {
        if dso == NOT_WALKED {
            return Some("sleep whose stacks would have cost more than the limit of CPU time".to_owned());
        }
        let broken = self.context.answer.broken.as_ref().filter(|broken| *broken.dso == *dso)?;
        let share = format!("{:.0} % of its stacks are broken", broken.percent);
        match self.unwinding()? {
            CallGraph::Fp => Some(format!("{share}, as it has no frame pointers: U unwinds by DWARF")),
            CallGraph::Tables => Some(format!("{share}: I says why, U unwinds by DWARF")),
            _ => None,
        }
    }

    pub(crate) fn dismiss(&mut self) {
        match self.banner() {
            Some(banner) => {
                self.selection.dismissed.insert(banner.of);
            }
            None => self.say("there is no message to dismiss"),
        }
    }

    /// Goes to a DSO's first unsymbolized row, and shows how to symbolize it.
    pub(crate) fn go_to_unnamed(&mut self, path: &str) {
        let answer = self.context.answer.clone();
        let Some(at) = answer.view.lines.iter().position(|line| line.is_unnamed_row() && &*line.dso_path == path)
        else {
            return;
        };
        self.top.go(at, &answer);
        let line = &answer.view.lines[at];
        let (remedy, kind) = (name_remedy(line.kind, path, UnnamedDso::default()), line.kind);
        self.say(format!("{}: {remedy}", self.why_unnamed(line)));
        // The engine knows the program and its package, and replies if that helps.
        self.request(Request::Remedy(kind, path.into()));
    }

    /// Returns the process of the JIT code under the cursor; empty for other code.
    pub(crate) fn process_of_jit(&self) -> String {
        let line = self.line().filter(|line| line.kind == DsoKind::Anon);
        line.and_then(|line| process_of_jit(&line.dso_path)).map_or_else(String::new, |pid| pid.to_string())
    }

    /// Requests the names of a Java process's code from the process.
    pub(crate) fn write_perf_map(&mut self, pid: &str) {
        match pid.trim().parse::<i32>() {
            Ok(pid) if pid > 0 => {
                self.say(format!("jcmd {pid} Compiler.perfmap …"));
                self.request(Request::PerfMap(pid));
            }
            _ => {
                self.error(format!("'{}' is not a process ID; the pid column has those of Java processes", pid.trim()))
            }
        }
    }
}
