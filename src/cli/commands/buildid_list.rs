//! `buildid-list`: the build ids of a recording's files, of the running kernel, or of a program.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;

use crate::engine::IntakeOptions;
use crate::engine::offline::{self, Offline};
use crate::panel::text::clean;
use crate::perfdata::build_ids;
use crate::record::kinds::BuildId;
use crate::session::{DsoId, DsoKind};
use crate::symbols::bytes::Bytes;
use crate::symbols::kallsyms::{self, Kallsyms};
use crate::symbols::{door, elf};

use crate::cli::args::listed::BuildidListArgs;
use crate::cli::args::{NameArgs, RecordingArgs};
use crate::cli::input;
use crate::cli::output::print;

pub(crate) fn run(args: BuildidListArgs) -> anyhow::Result<u8> {
    if args.kernel {
        let id = build_ids::of_kernel().context("the running kernel does not report its build id")?;
        print(&format!("{id}\n"))?;
        return Ok(0);
    }
    if args.kernel_maps {
        print(&of_kernel()?)?;
        return Ok(0);
    }
    let path = args.recording.path();
    if let Some(id) = of_program(&path)? {
        print(&format!("{id}\n"))?;
        return Ok(0);
    }
    let recording = RecordingArgs::from_files(vec![path], NameArgs::default());
    let opened = input::open_silently(&recording, true)?.0;
    let files = opened.source.info().build_ids.clone();
    if !args.with_hits && !files.is_empty() {
        let lines = files.iter().map(|file| line(Some(file.id), &file.path));
        print(&lines.collect::<String>())?;
        return Ok(0);
    }
    // Build ids do not require the files to exist here.
    let wants = IntakeOptions { chains: false, fields: false, ..IntakeOptions::default() };
    let symbols = opened.symbols.clone();
    let loaded = offline::load(&mut *opened.into_source(), symbols, wants)?;
    print(&of_samples(&loaded))?;
    Ok(loaded.exit_code())
}

fn line(id: Option<BuildId>, name: &str) -> String {
    format!("{:<40} {}\n", id.map(|id| id.to_string()).unwrap_or_default(), clean(name))
}

/// Returns the files with samples, with an empty id if it is unknown.
fn of_samples(loaded: &Offline) -> String {
    let data = loaded.data();
    let hit = hits(loaded);
    let is_file = |kind: DsoKind| matches!(kind, DsoKind::File | DsoKind::Kernel | DsoKind::Module | DsoKind::Vdso);
    let wanted = data.session.dsos.all().iter().filter(|dso| is_file(dso.kind) && hit.contains(&dso.id));
    wanted.map(|dso| line(dso.build_id, &dso.path)).collect()
}

pub(crate) fn hits(loaded: &Offline) -> BTreeSet<DsoId> {
    let data = loaded.data();
    let leaf_of = |site: u32| {
        let site = data.profile.sites.all()[site as usize];
        let frame = data.profile.trie.walk(site.stack).next()?;
        Some(data.session.dsos.map_of(data.profile.frames.get(frame).map).dso)
    };
    let mut sites = BTreeSet::new();
    for (chunk, range) in data.profile.between(0, u64::MAX) {
        sites.extend(chunk.site[range].iter().copied());
    }
    sites.into_iter().filter_map(leaf_of).collect()
}

/// Returns the running kernel and its modules with their addresses.
fn of_kernel() -> anyhow::Result<String> {
    let known = Kallsyms::read(Path::new("/proc/kallsyms"))?;
    let start = known
        .text
        .filter(|text| *text != 0)
        .context("/proc/kallsyms hides the kernel's addresses; run as root, or set kernel.kptr_restrict=0")?;
    let place = |start: u64, end: u64, name: &str| format!("{start:016x} {end:016x} {name}");
    let end = known.end.unwrap_or(start);
    let mut out = line(build_ids::of_kernel(), &place(start, end, "[kernel.kallsyms]"));
    for module in kallsyms::modules() {
        let note = std::fs::read(format!("/sys/module/{}/notes/.note.gnu.build-id", module.name)).unwrap_or_default();
        let name = format!("[{}]", module.name);
        out.push_str(&line(build_ids::of_notes(&note), &place(module.start, module.start + module.len, &name)));
    }
    Ok(out)
}

fn of_program(path: &Path) -> anyhow::Result<Option<BuildId>> {
    let Ok(file) = door::own(path) else { return Ok(None) };
    let bytes = Bytes::of(&file)?;
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    let id = elf::parse(&bytes).ok().as_ref().and_then(elf::build_id);
    id.map(Some).with_context(|| format!("{} has no build id", path.display()))
}
