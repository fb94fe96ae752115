//! The message above the screens: dismissing it, and going to its subject.

use crate::session::DsoKind;
use crate::ui::app::App;
use crate::ui::state::BannerSubject;
use crate::ui::state::banner::is_unnamed;

impl App {
    pub(crate) fn dismiss(&mut self) {
        match self.scene().banner() {
            Some(banner) => {
                self.selection.dismissed.insert(banner.of);
            }
            None => self.say("there is no message to dismiss"),
        }
    }

    pub(crate) fn go_to_banner(&mut self) {
        match self.scene().banner().map(|banner| banner.of) {
            Some(BannerSubject::Unnamed(path)) => self.go_to_unnamed(&path),
            Some(BannerSubject::Cut) => self.say(":call-graph dwarf,SIZE copies more of each stack"),
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
            DsoKind::Anon => jit_remedy(path),
            _ => format!(
                "{path} is stripped: its package of debug symbols, or DEBUGINFOD_URLS in the environment, names it; of \
                 another machine's recording: --symfs DIR"
            ),
        };
        self.say(format!("{}: {remedy}", self.scene().why_unnamed(line)));
    }
}

/// Returns how a runtime can be made to name its code. The path of a JIT's code has the number of its process.
fn jit_remedy(path: &str) -> String {
    let pid = path.strip_prefix("/tmp/perf-").and_then(|rest| rest.strip_suffix(".map"));
    let pid = pid.filter(|pid| pid.parse::<u32>().is_ok()).unwrap_or("PID");
    format!(
        "its runtime must write /tmp/perf-{pid}.map; Java 17 or later does at once: jcmd {pid} Compiler.perfmap; others \
         need a restart: node --perf-basic-prof, python -X perf (3.12 or later)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_for_a_jit_names_its_process() {
        assert!(jit_remedy("/tmp/perf-4344.map").contains("jcmd 4344 Compiler.perfmap"));
        for other in ["//anon", "/tmp/perf-x.map", ""] {
            assert!(jit_remedy(other).contains("jcmd PID Compiler.perfmap"), "{other}");
        }
    }
}
