//! `record --trigger`: no file is written all the time; what is kept in memory is saved when something happens.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::engine::{Engine, Notice, Options};
use crate::kernel::spawn::Output;
use crate::panel::unit;
use crate::symbols::SymbolOptions;

use super::args::Record;
use super::flight_recorder::Retention;
use super::output::complain;
use super::{signals, source_config};

/// The longest time until a signal is seen.
const PATIENCE: Duration = Duration::from_millis(100);

/// Runs until a signal comes or the command ends.
pub(crate) fn run(args: &mut Record, kept: Retention) -> anyhow::Result<u8> {
    args.sampling.counted = kept.counted();
    // Ctrl-C while events are opened ends what is begun in order, too.
    let stop = signals::stop_flag()?;
    let started = source_config::start(&args.sampling, &args.cmd, Output::Inherit)?;
    source_config::warn(started.warning.as_ref());
    let triggers: Vec<String> =
        kept.watched.iter().flat_map(|w| &w.triggers).map(|trigger| format!("`{trigger}`")).collect();
    let options = options(args, kept, started.per_sample)?;
    let engine = Engine::spawn(Box::new(started.source), options)?;
    if !args.quiet {
        complain(&format!("waiting for {}", triggers.join(" or ")));
    }
    let mut failed = false;
    while !stop.load(Ordering::Relaxed) && engine.answer().ended.is_none() {
        if let Ok(notice) = engine.notices().recv_timeout(PATIENCE) {
            failed |= tell(notice);
        }
    }
    let notices = engine.notices().clone();
    let answer = engine.answer();
    engine.stop();
    // What still waited for its last seconds was saved at the end.
    for notice in notices.try_iter() {
        failed |= tell(notice);
    }
    if !args.quiet {
        let ledger = &answer.ledger;
        let (samples, lost) = (unit::thousands(ledger.received), unit::thousands(ledger.lost()));
        complain(&format!("{samples} samples seen, lost {lost}"));
    }
    Ok(u8::from(failed))
}

/// The settings of a session that keeps samples in memory, and shows none.
pub(super) fn options(args: &Record, kept: Retention, per_sample: Option<Duration>) -> anyhow::Result<Options> {
    Ok(Options {
        no_inline: true,
        keep: kept.keep,
        watched: kept.watched,
        own_pid: (!args.sampling.include_self).then(|| std::process::id() as i32),
        per_sample,
        realtime: source_config::realtime(&args.sampling)?,
        ..source_config::engine_options(SymbolOptions::live(), kept.memory)
    })
}

/// Says what happened; whether that was a failure.
pub(super) fn tell(notice: Notice) -> bool {
    match notice {
        Notice::Reply(Ok(text)) if !text.is_empty() => complain(&text),
        Notice::Reply(Err(text)) => {
            complain(&text);
            return true;
        }
        _ => {}
    }
    false
}
