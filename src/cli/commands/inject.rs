//! `inject`: adds sleep times or build ids to a recording.

use crate::engine::IntakeOptions;
use crate::export::copy;
use crate::export::ids::identified;
use crate::export::sleeps::Sleeps;
use crate::lang::counted;
use crate::panel::unit;
use crate::perfdata::build_ids::IdentifiedFile;
use crate::record::kinds::FileId;
use crate::session::Dso;
use crate::session::marks;

use crate::cli::args::RecordingArgs;
use crate::cli::args::listed::InjectArgs;
use crate::cli::commands::buildid_list;
use crate::cli::commands::export::{shown, written};
use crate::cli::input;
use crate::cli::output::complain;

pub(crate) fn run(args: InjectArgs) -> anyhow::Result<u8> {
    let mut path = args.recording.path();
    let adds = args.build_ids || args.buildid_all;
    // The files with samples are known after a first pass.
    let spooled = (adds && path.as_os_str() == "-").then(spooled).transpose()?;
    path = spooled.as_ref().map_or(path, |file| file.path().to_owned());
    let recording = RecordingArgs::from_files(vec![path], args.names.clone());
    let added = if adds { missing_build_ids(&recording, args.buildid_all)? } else { Vec::new() };
    let mut source = input::open_silently(&recording, true)?.0.into_source();
    let mut sleeps = if args.sched_stat { Some(Sleeps::of(source.info())) } else { None };
    if let Some(Err(why)) = &sleeps {
        complain(&format!("no sleep times added: {why}"));
    }
    let marks = marks::decode_from(&source.info().hosts.first().machine);
    let mut merging = sleeps.as_mut().and_then(|sleeps| sleeps.as_mut().ok());
    let written = written(&args.output, |path| {
        copy::copy(&mut *source, &|_, _| true, &marks, &added, merging.as_deref_mut(), path)
    })?;
    let mut words = vec![counted(written.samples as u64, "sample")];
    words.extend(merging.map(|sleeps| counted(sleeps.merged(), "sleep")));
    words.extend(adds.then(|| counted(added.len() as u64, "more build id")));
    complain(&format!("wrote {}, {} to {}", words.join(", "), unit::bytes(written.bytes), shown(&args.output)));
    Ok(0)
}

/// Copies standard input to a temporary file.
fn spooled() -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file)?;
    Ok(file)
}

/// Returns the build ids of files without one in the recording: files with samples, or all mapped files.
fn missing_build_ids(recording: &RecordingArgs, all: bool) -> anyhow::Result<Vec<IdentifiedFile>> {
    let opened = input::open_silently(recording, true)?.0;
    let symbols = opened.symbols.clone();
    let loaded = opened.load(IntakeOptions { chains: false, fields: false, ..IntakeOptions::default() })?;
    let hit = buildid_list::hits(&loaded);
    let lacks = |dso: &&Dso| dso.build_id.is_none() && (all || hit.contains(&dso.id));
    let found = |dso: &Dso| Some(IdentifiedFile { file: FileId::None, ..identified(dso, &symbols)? });
    Ok(loaded.data().session.dsos.all().iter().filter(lacks).filter_map(found).collect())
}
