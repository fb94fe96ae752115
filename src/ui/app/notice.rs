//! The message above the screens: dismissing it, and going to its subject.

use crate::session::DsoKind;
use crate::ui::app::App;
use crate::ui::notice::is_unnamed;
use crate::ui::selection::NoticeSubject;

impl App {
    /// Dismisses the message.
    pub(crate) fn dismiss(&mut self) {
        match self.scene().notice() {
            Some(notice) => {
                self.selection.dismissed.insert(notice.of);
            }
            None => self.say("there is no message to dismiss"),
        }
    }

    /// Goes to the message's subject.
    pub(crate) fn go_to_notice(&mut self) {
        match self.scene().notice().map(|notice| notice.of) {
            Some(NoticeSubject::Unnamed(path)) => self.go_to_unnamed(&path),
            Some(NoticeSubject::Cut) => self.say(":call-graph dwarf,SIZE copies more of each stack"),
            _ => self.go_to_finding(),
        }
    }

    /// Goes to a DSO's first unsymbolized row, and shows how to symbolize it.
    fn go_to_unnamed(&mut self, path: &str) {
        let answer = self.context.answer.clone();
        let Some(at) = answer.view.lines.iter().position(|line| is_unnamed(line) && &*line.dso_path == path) else {
            return;
        };
        self.views.top.go(at, &answer);
        let line = &answer.view.lines[at];
        let remedy = match line.kind {
            kind if kind.is_kernel() => {
                "run as root, or sysctl kernel.kptr_restrict=0; of a recording: --kallsyms FILE of that machine"
                    .to_owned()
            }
            DsoKind::Anon => "its runtime writes /tmp/perf-PID.map when told to: node --perf-basic-prof, java with \
                             perf-map-agent, python -X perf"
                .to_owned(),
            _ => format!(
                "{path} is stripped: its package of debug symbols, or DEBUGINFOD_URLS in the environment, names it; of \
                 another machine's recording: --symfs DIR"
            ),
        };
        self.say(format!("{}: {remedy}", self.scene().why_unnamed(line)));
    }
}
