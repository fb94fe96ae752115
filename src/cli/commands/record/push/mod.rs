//! `record --push URL`: sends the profile of each interval to a profile store over HTTP.

mod grpc;
mod store;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::engine::curl::hidden;
use crate::engine::intervals::Slices;
use crate::engine::read_ahead;
use crate::kernel::spawn::Output;
use crate::kernel::{EndRequests, wall_ns};
use crate::lang::counted;
use crate::panel::unit::bytes;
use crate::source::{Progress, Rate, Source};
use crate::symbols::SymbolOptions;

use crate::cli::args::RecordArgs;
use crate::cli::output::complain;
use crate::cli::sampling::source_config;
use crate::cli::usage;
use store::{ProfileStore, SendOutcome, UploadPayload};

/// Maximum bytes of queued profiles while the store is unreachable; the oldest are dropped first.
const SPOOL: usize = 64 << 20;
/// First pause after a failure; it doubles up to the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// Time limit for sending the last profiles at the end.
const FAREWELL: Duration = Duration::from_secs(10);

/// Samples and sends profiles until a signal arrives or the command ends.
pub(crate) fn run(args: &RecordArgs) -> anyhow::Result<u8> {
    let store = Arc::new(ProfileStore::of(args)?);
    let interval = args.push_interval;
    if interval < Duration::from_secs(1) {
        return Err(usage(format!("--push-interval {interval:?}: expected 1 second or more")));
    }
    let (started, stop) = source_config::begin(args, Output::Inherit)?;
    let mut source = started.source;
    let fate = source.fate();
    let own_pid = (!args.sampling.include_self).then(|| std::process::id() as i32);
    let mut slices = Slices::new(source.info(), own_pid, SymbolOptions::of_user());
    let period = source.info().events.first().map_or(0, |event| match Rate::of(&event.attr) {
        Rate::Period(period) => period,
        Rate::Frequency(_) => 0,
    });
    let (sender, parcels) = bounded::<UploadPayload>(64);
    let quiet = args.quiet;
    let to = store.clone();
    let post = crate::kernel::thread("push", move || deliver(&to, &parcels, quiet))?;
    // Rings are read on another thread, because naming and writing a slice can take seconds.
    let ended = read_ahead::beside(&mut source, &EndRequests::by_flag(stop.clone()), |coming| {
        let (mut began, mut due) = (Instant::now(), Instant::now() + interval);
        loop {
            let Some((mut batch, step)) = coming.next().transpose()? else {
                break anyhow::Ok("stopped".to_owned());
            };
            batch.notes().for_each(complain);
            slices.feed(&mut batch, |buffer| coming.recycle(buffer));
            let over = matches!(step, Progress::End(_));
            if over || Instant::now() >= due {
                due += interval;
                began = cut(&mut slices, &store, period, began, &sender)?;
            }
            if let Progress::End(why) = step {
                break Ok(why.to_string());
            }
        }
    })
    .context("cannot start the thread that reads samples")??;
    drop((sender, source));
    let Summary { sent, failed } = post.join().unwrap_or_default();
    let lost = slices.counts().1;
    if !quiet {
        complain(&format!(
            "{ended}; {} pushed, {failed} not, lost {}",
            counted(sent, "profile"),
            counted(lost, "sample")
        ));
    }
    Ok(match fate.code(stop.load(Ordering::Relaxed)) {
        0 => u8::from(failed > 0),
        code => code,
    })
}

/// Hands over the slice and begins the next one; returns its start.
fn cut(
    slices: &mut Slices,
    store: &ProfileStore,
    period: u64,
    began: Instant,
    sender: &Sender<UploadPayload>,
) -> anyhow::Result<Instant> {
    let now = Instant::now();
    if slices.counts().0 > 0 {
        // The receiver never blocks for long: profiles that cannot be sent are queued there.
        let (from, until) = span(wall_ns(), now.duration_since(began));
        let profile = store.profile(slices.data(), period, from)?;
        slices.next();
        let _ = sender.send(UploadPayload { profile, from, until });
    }
    Ok(now)
}

/// Returns start and end of a slice that has just ended, in seconds since 1970. The clock may have been set meanwhile.
fn span(wall_ns: u64, took: Duration) -> (u64, u64) {
    let began = wall_ns.saturating_sub(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    (began / 1_000_000_000, wall_ns.div_ceil(1_000_000_000))
}

#[derive(Debug, Default)]
struct Summary {
    sent: u64,
    failed: u64,
}

/// Sends profiles as they arrive; after a failure, retries with growing pauses.
fn deliver(store: &ProfileStore, parcels: &Receiver<UploadPayload>, quiet: bool) -> Summary {
    let mut summary = Summary::default();
    let mut spool: VecDeque<UploadPayload> = VecDeque::new();
    let (mut pause, mut again, mut told) = (PAUSE, Instant::now(), String::new());
    let mut open = true;
    let mut deadline = None;
    while open || !spool.is_empty() {
        let wait = if spool.is_empty() { LONGEST } else { again.saturating_duration_since(Instant::now()) };
        if open {
            match parcels.recv_timeout(wait) {
                Ok(parcel) => summary.failed += keep(&mut spool, parcel),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    open = false;
                    deadline = Some(Instant::now() + FAREWELL);
                }
            }
        } else {
            std::thread::sleep(wait.min(FAREWELL));
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            break;
        }
        while let Some(parcel) = spool.front().filter(|_| Instant::now() >= again || !open) {
            let failed = match store.send(parcel) {
                SendOutcome::Yes => {
                    if !told.is_empty() && !quiet {
                        complain(&format!("{} accepts profiles again", store.shown));
                    }
                    (pause, told) = (PAUSE, String::new());
                    summary.sent += 1;
                    spool.pop_front();
                    continue;
                }
                SendOutcome::Never(why) => {
                    summary.failed += 1;
                    spool.pop_front();
                    why
                }
                SendOutcome::Later(why) => {
                    again = Instant::now() + pause;
                    pause = (pause * 2).min(LONGEST);
                    why
                }
            };
            let failed = hidden(&failed, &store.secrets);
            if told != failed {
                complain(&format!("{}: {failed}; {} queued", store.shown, counted(spool.len() as u64, "profile")));
                told = failed;
            }
            break;
        }
    }
    summary.failed += spool.len() as u64;
    summary
}

/// Queues a profile; returns the number of profiles dropped for it.
fn keep(spool: &mut VecDeque<UploadPayload>, parcel: UploadPayload) -> u64 {
    spool.push_back(parcel);
    let mut held: usize = spool.iter().map(|parcel| parcel.profile.len()).sum();
    let mut gone = 0;
    while held > SPOOL && spool.len() > 1 {
        held -= spool.pop_front().map_or(0, |parcel| parcel.profile.len());
        gone += 1;
    }
    if gone > 0 {
        complain(&format!("dropped {gone} queued profiles: the queue is limited to {}", bytes(SPOOL as u64)));
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_as_long_as_it_took() {
        assert_eq!(span(1_000_500_000_000, Duration::from_secs(10)), (990, 1001));
        assert_eq!(span(5_000_000_000, Duration::from_secs(10)), (0, 5));
    }

    #[test]
    fn the_spool_is_bounded_and_the_oldest_give_way() {
        let mut spool = VecDeque::new();
        let parcel = |from| UploadPayload { profile: vec![0; SPOOL / 2], from, until: from };
        let gone: u64 = (0..5).map(|from| keep(&mut spool, parcel(from))).sum();
        assert_eq!((gone, spool.front().map(|p| p.from), spool.len()), (3, Some(3), 2));
    }
}
