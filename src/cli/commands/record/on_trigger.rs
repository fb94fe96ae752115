//! `record --trigger` and `record --overwrite`: samples stay in memory until a trigger, a signal or the end saves them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::bounded;

use crate::engine::{Engine, Notice, Options, Request};
use crate::kernel::spawn::{ExitOutcome, Output};
use crate::lang::counted;
use crate::panel::unit;
use crate::source::Control;
use crate::symbols::SymbolOptions;

use crate::cli::args::RecordArgs;
use crate::cli::commands::record::record_file::FileSeries;
use crate::cli::output::complain;
use crate::cli::sampling::flight_recorder::Retention;
use crate::cli::sampling::{snapshot, source_config};
use crate::cli::usage;

/// Longest delay until a signal is handled.
const PATIENCE: Duration = Duration::from_millis(100);
/// Time limit for reading the ring buffers to their ends and copying the samples.
const LAST: Duration = Duration::from_secs(5);

struct Keeper {
    engine: Engine,
    stop: Arc<AtomicBool>,
    fate: ExitOutcome,
    failed: bool,
}

impl Keeper {
    fn start(args: &RecordArgs, kept: Retention) -> anyhow::Result<Self> {
        let (started, stop) = source_config::begin(args, Output::Inherit)?;
        let fate = started.source.fate();
        let options = Options {
            no_inline: true,
            keep: kept.keep,
            watched: kept.watched,
            own_pid: (!args.sampling.include_self).then(|| std::process::id() as i32),
            per_sample: started.per_sample,
            realtime: source_config::realtime(&args.sampling)?,
            ..source_config::engine_options(SymbolOptions::live(), kept.memory)
        };
        Ok(Self { engine: Engine::spawn(Box::new(started.source), options)?, stop, fate, failed: false })
    }

    fn goes_on(&self) -> bool {
        self.engine.answer().ended.is_none()
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn end(self) -> u8 {
        self.engine.stop();
        match self.fate.code(self.stop.load(Ordering::Relaxed)) {
            0 => u8::from(self.failed),
            code => code,
        }
    }

    fn listen(&mut self) {
        if let Ok(notice) = self.engine.notices().recv_timeout(PATIENCE) {
            self.failed |= tell(notice);
        }
    }
}

/// Reports an event of the session; returns true for a failure.
fn tell(notice: Notice) -> bool {
    let Notice::Reply(said) = notice else { return false };
    let failed = said.is_err();
    let (Ok(text) | Err(text)) = said;
    complain(&text);
    failed
}

/// Saves at each trigger until a signal arrives or the command ends.
pub(crate) fn until_triggers(args: &mut RecordArgs, kept: Retention) -> anyhow::Result<u8> {
    args.sampling.counted = kept.counted();
    let triggers: Vec<String> =
        kept.watched.iter().flat_map(|w| &w.triggers).map(|trigger| format!("`{trigger}`")).collect();
    let mut keeper = Keeper::start(args, kept)?;
    if !args.quiet {
        complain(&format!("waiting for {}", triggers.join(" or ")));
    }
    while !keeper.is_stopped() && keeper.goes_on() {
        keeper.listen();
    }
    let notices = keeper.engine.notices().clone();
    let answer = keeper.engine.answer();
    let code = keeper.end();
    // A snapshot that still waited for its last seconds was saved at the end.
    let failed = notices.try_iter().fold(false, |failed, notice| failed | tell(notice));
    if !args.quiet {
        let ledger = &answer.ledger;
        let (samples, lost) = (counted(ledger.received, "sample"), unit::thousands(ledger.lost()));
        complain(&format!("{samples} seen, lost {lost}{}", ledger.or_more()));
    }
    Ok(if code == 0 { u8::from(failed) } else { code })
}

/// Saves the newest samples on request and at the end: when a signal arrives or the command ends.
pub(crate) fn newest(args: &RecordArgs, kept: Retention) -> anyhow::Result<u8> {
    if args.is_streamed() {
        return Err(usage("--overwrite writes at the end and needs a file; use -o FILE"));
    }
    let mut series = FileSeries::of(args)?;
    let mut keeper = Keeper::start(args, kept)?;
    while !keeper.is_stopped() && keeper.goes_on() {
        keeper.listen();
        if series.is_due(0) {
            write(&keeper.engine, &mut series, args.quiet)?;
        }
    }
    keeper.engine.send(Request::Control(Control::Stop));
    let end = Instant::now() + LAST;
    while keeper.goes_on() && Instant::now() < end {
        keeper.listen();
    }
    write(&keeper.engine, &mut series, args.quiet)?;
    Ok(keeper.end())
}

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
