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
use crate::cli::commands::export::why;
use crate::cli::output::complain;
use crate::cli::{input, usage};

pub(crate) fn run(args: InjectArgs) -> anyhow::Result<u8> {
    let path = args.recording.path();
    if args.output.as_os_str() == "-" {
        return Err(usage("a recording cannot be written to standard output; name a file with -o"));
    }
    let adds = args.build_ids || args.buildid_all;
    if adds && path.as_os_str() == "-" {
        return Err(usage("standard input can be read only once; save it to a file first, then add build ids"));
    }
    let recording = RecordingArgs::from_files(vec![path], args.names.clone());
    let added = if adds { missing_build_ids(&recording, args.buildid_all)? } else { Vec::new() };
    let mut source = input::open_silently(&recording, true)?.0.into_source();
    let mut sleeps = if args.sched_stat { Some(Sleeps::of(source.info())) } else { None };
    if let Some(Err(why)) = &sleeps {
        complain(&format!("no sleep times added: {why}"));
    }
    let marks = marks::decode_from(&source.info().hosts.first().machine);
    let mut merging = sleeps.as_mut().and_then(|sleeps| sleeps.as_mut().ok());
    let written = copy::copy(&mut *source, &|_, _| true, &marks, &added, merging.as_deref_mut(), &args.output)
        .map_err(|error| anyhow::anyhow!("{}", why(&args.output, &error)))?;
    let mut words = vec![counted(written.samples as u64, "sample")];
    words.extend(merging.map(|sleeps| counted(sleeps.merged(), "sleep")));
    words.extend(adds.then(|| counted(added.len() as u64, "more build id")));
    complain(&format!("wrote {}, {} to {}", words.join(", "), unit::bytes(written.bytes), args.output.display()));
    Ok(0)
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
