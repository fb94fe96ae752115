//! How code without names gets them on this machine, on request.

use std::process::{Command, Stdio};
use std::sync::Arc;

use super::Aggregator;
use crate::engine::Notice;
use crate::query::unnamed::{UnnamedDso, name_remedy, process_of_jit};
use crate::session::DsoKind;
use crate::symbols::debug_package;

impl Aggregator {
    /// Replies how to name a DSO's code, if its program or its package tell more than its kind and path.
    pub(super) fn find_remedy(&self, kind: DsoKind, path: Arc<str>) {
        let session = &self.ingest.core().session;
        let found = session.dsos.all().iter().rfind(|dso| dso.kind == kind && dso.path == path);
        let Some(dso) = found else { return };
        let task = process_of_jit(&path).and_then(|pid| session.tasks().iter().rfind(|task| task.pid == pid));
        let program = task.map(|task| task.program.clone());
        let mapped_by = dso.via.map(|(pid, ..)| pid).filter(|_| self.live && kind == DsoKind::File);
        let (short, notices) = (dso.short.clone(), self.links.notices.clone());
        // The lists of packages have some megabytes.
        let work = move || {
            let install = mapped_by.and_then(|pid| debug_package::install_command(pid, &path));
            let known = UnnamedDso { program: program.as_deref(), install: install.as_deref() };
            let remedy = name_remedy(kind, &path, known);
            if remedy != name_remedy(kind, &path, UnnamedDso::default()) {
                let _ = notices.send(Notice::Reply(Ok(format!("{short}: {remedy}"))));
            }
        };
        // Without the thread, the general remedy stays on the screen.
        let _ = crate::kernel::thread("remedy", work);
    }

    /// Has a Java process write its map, and looks for the names of its code again.
    pub(super) fn write_perf_map(&mut self, pid: i32) {
        if !self.live {
            return self.reply(Err("only a process of a live session can write its map".to_owned()));
        }
        let core = self.ingest.core_mut();
        let dsos = &core.session.dsos;
        let is_own = |dso: &crate::session::Dso| dso.kind == DsoKind::Anon && process_of_jit(&dso.path) == Some(pid);
        let frames = core.profile.frames.of_dso(|map| is_own(dsos.of_map(map)));
        self.names.retry(frames);
        let notices = self.links.notices.clone();
        let work = move || drop(notices.send(Notice::Reply(jcmd(pid))));
        if let Err(error) = crate::kernel::thread("jcmd", work) {
            self.reply(Err(format!("jcmd cannot be started: {error}")));
        }
    }
}

/// Runs jcmd to its end. What it prints comes from the process, and is not shown.
fn jcmd(pid: i32) -> Result<String, String> {
    let mut command = Command::new("jcmd");
    command
        .args([&pid.to_string(), "Compiler.perfmap"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(format!("process {pid} has written the names of its code")),
        Ok(_) => Err(format!("jcmd {pid} Compiler.perfmap failed: it needs a JVM of Java 17 or later")),
        Err(error) => Err(format!("jcmd cannot be started, which is in packages of the JDK: {error}")),
    }
}
