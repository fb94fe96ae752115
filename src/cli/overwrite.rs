//! `record --overwrite`: the newest samples are kept in memory, and written when that is asked for and at the end.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

use crate::engine::{Engine, Request};
use crate::kernel::spawn::Output;
use crate::source::Control;

use super::args::Record;
use super::flight_recorder::Retention;
use super::output::complain;
use super::record_file::FileSeries;
use super::{signals, snapshot, source_config, trigger, usage};

/// The longest time until a signal is seen.
const PATIENCE: Duration = Duration::from_millis(100);
/// The time that rings are given to be read to their ends, and samples to be copied.
const LAST: Duration = Duration::from_secs(5);

/// Runs until a signal comes or the command ends.
pub(crate) fn run(args: &Record, kept: Retention) -> anyhow::Result<u8> {
    if args.is_streamed() {
        return Err(usage(
            "--overwrite: a stream is read while it is written; -o FILE is for what is written at the end",
        ));
    }
    let mut series = FileSeries::of(args)?;
    // Ctrl-C while events are opened ends what is begun in order, too.
    let stop = signals::stop_flag()?;
    let started = source_config::start(&args.sampling, &args.cmd, Output::Inherit)?;
    source_config::warn(started.warning.as_ref());
    let options = trigger::options(args, kept, started.per_sample)?;
    let engine = Engine::spawn(Box::new(started.source), options)?;
    let mut failed = false;
    while !stop.load(Ordering::Relaxed) && engine.answer().ended.is_none() {
        if let Ok(notice) = engine.notices().recv_timeout(PATIENCE) {
            failed |= trigger::tell(notice);
        }
        if series.is_due(0) {
            write(&engine, &mut series, args.quiet)?;
        }
    }
    engine.send(Request::Control(Control::Stop));
    let end = Instant::now() + LAST;
    while engine.answer().ended.is_none() && Instant::now() < end {
        if let Ok(notice) = engine.notices().recv_timeout(PATIENCE) {
            failed |= trigger::tell(notice);
        }
    }
    write(&engine, &mut series, args.quiet)?;
    engine.stop();
    Ok(u8::from(failed))
}

/// Writes what is held to the file whose turn it is.
fn write(engine: &Engine, series: &mut FileSeries, quiet: bool) -> anyhow::Result<()> {
    let (reply, moments) = bounded(1);
    engine.send(Request::Save(reply));
    let moment = moments.recv_timeout(LAST).map_err(|_| anyhow::anyhow!("the samples could not be copied in time"))?;
    let path = series.name();
    let saved = snapshot::save(&moment, &path, None).map_err(anyhow::Error::msg)?;
    if !quiet {
        complain(&saved);
    }
    series.ended(&path)
}
