//! The driver of the screen: starts source, engine and interface, and does for them what only this
//! layer may: files, signals, the profiled command's fate.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Sender, unbounded};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};

use crate::engine::{Engine, Moment, Options, Request, Wants};
use crate::export::perfdata;
use crate::kernel::spawn::Output;
use crate::kernel::tty;
use crate::panel::top::Field;
use crate::panel::unit;
use crate::query::Key;
use crate::source::Source;
use crate::symbols::resolver::Options as SymbolOptions;
use crate::ui::run::{Driver, Outside};
use crate::ui::theme::{Depth, Theme};
use crate::ui::{App, Start, run as interface, term};

use super::Usage;
use super::args::{Live, Open, View};
use super::export::save_again;
use super::input::{self, filter_of};
use super::output::complain;
use super::report::keys_of;
use super::setup;

/// The live screen.
pub fn run(args: Live) -> anyhow::Result<u8> {
    let refresh = Duration::try_from_secs_f64(args.refresh).ok().filter(|d| *d >= Duration::from_millis(50));
    let refresh = refresh.ok_or_else(|| Usage(format!("-d {}: expected seconds, 0.05 or more", args.refresh)))?;
    let start = start(&args.view, refresh)?;
    need_terminal("record")?;
    let started = setup::start(&args.sampling, &args.cmd, Output::Discard)?;
    let own_pid = (!args.sampling.include_self).then(|| std::process::id() as i32);
    let symbols = SymbolOptions { demangle: !args.view.no_demangle, ..SymbolOptions::live() };
    let memory = memory(&args.view)?;
    let options =
        Options { symbols, memory, own_pid, wants: Wants::default(), refresh, per_sample: started.per_sample };
    session(Box::new(started.source), options, &args.view, start, started.warning, None)
}

/// The same screen on a recording.
pub fn open(args: Open) -> anyhow::Result<u8> {
    let start = start(&args.view, Duration::from_millis(100))?;
    let from_stdin = args.recording.paths().iter().any(|p| p.as_os_str() == "-");
    if !std::io::stdout().is_terminal() || !from_stdin && !std::io::stdin().is_terminal() {
        need_terminal("report")?;
    }
    let opened = input::open(&args.recording, args.view.no_demangle)?;
    let options = Options {
        symbols: opened.symbols.clone(),
        memory: usize::MAX,
        own_pid: None,
        wants: Wants { chains: true, traces: start.columns.contains(&Field::Key(Key::Trace)) },
        refresh: start.refresh,
        per_sample: None,
    };
    let again = (!from_stdin).then(|| args.recording.paths());
    session(opened.source, options, &args.view, start, None, again)
}

fn need_terminal(instead: &str) -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Usage(format!("this needs a terminal; without one use `perfprof-tui {instead}`")).into())
}

fn memory(view: &View) -> anyhow::Result<usize> {
    let bytes = setup::size(&view.memory).filter(|b| *b >= 16 << 20);
    bytes.ok_or_else(|| Usage(format!("--memory {}: expected a size of 16M or more", view.memory)).into())
}

fn start(view: &View, refresh: Duration) -> anyhow::Result<Start> {
    filter_of(view.filter.as_deref())?;
    for command in &view.exec {
        crate::ui::command::parse(command).map_err(|error| Usage(format!("--exec {command}: {error}")))?;
    }
    let mut columns = vec![Field::Children, Field::SelfTime, Field::Samples];
    columns.extend(keys_of(&view.sort)?.into_iter().map(Field::Key));
    Ok(Start {
        columns,
        children: !view.no_children,
        filter: view.filter.clone(),
        limit: view.percent_limit,
        refresh,
        exec: view.exec.clone(),
    })
}

fn session(
    source: Box<dyn Source>,
    options: Options,
    view: &View,
    start: Start,
    warning: Option<String>,
    recording: Option<Vec<PathBuf>>,
) -> anyhow::Result<u8> {
    let depth = match &view.color {
        Some(text) => Depth::parse(text).map_err(Usage)?,
        None => Depth::detect(),
    };
    let theme = Theme::new(depth);
    let (outside_tx, outside) = unbounded();
    watch_signals(outside_tx.clone())?;
    let engine = Engine::spawn(source, options)?;
    let mut app = App::new(engine.info().clone(), start);
    if let Some(text) = warning.or_else(|| engine.info().event_notes.iter().flatten().next().cloned()) {
        app.say(text);
    }
    term::restore_on_panic();
    term::enter()?;
    let watched = watch_hangup();
    let mut saver = Saver { outside: outside_tx, name: view.output.clone(), recording };
    let result = interface::run(&mut app, &theme, &engine, &outside, &mut saver);
    term::leave();
    watched.store(true, Ordering::Relaxed);
    let ended = engine.answer().ended.clone();
    engine.stop();
    if let Some(text) = ended.filter(|t| t.starts_with("the command")) {
        complain(&text);
    }
    result?;
    Ok(0)
}

/// Ends the process when the terminal is gone: nobody can see or stop it any more.
fn watch_hangup() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    let watch = move || {
        if tty::wait_for_hangup(&|| seen.load(Ordering::Relaxed)) {
            tty::exit_now(1);
        }
    };
    // Without the watchdog a lost terminal still ends us by SIGHUP; only a blocked one would not.
    let _ = std::thread::Builder::new().name("hangup".to_owned()).spawn(watch);
    stop
}

fn watch_signals(outside: Sender<Outside>) -> anyhow::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCONT])?;
    let stopped = SUSPENDED.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let what = match signal {
                // Our own suspension takes the terminal back itself.
                SIGCONT if stopped.lock().is_ok_and(|s| *s) => continue,
                SIGCONT => Outside::Continued,
                _ => Outside::Stop,
            };
            if outside.send(what).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

/// Whether we are stopping ourselves right now.
static SUSPENDED: std::sync::LazyLock<Arc<Mutex<bool>>> = std::sync::LazyLock::new(Arc::default);

/// Saves snapshots beside the running session.
struct Saver {
    outside: Sender<Outside>,
    name: Option<PathBuf>,
    /// A recording's own files: it is saved from them, with all that its samples carry.
    recording: Option<Vec<PathBuf>>,
}

impl Driver for Saver {
    fn save(&mut self, engine: &Engine, path: Option<PathBuf>) {
        let path = path.or_else(|| self.name.clone()).unwrap_or_else(snapshot_name);
        let (reply, moments) = crossbeam_channel::bounded(1);
        let recording = self.recording.clone();
        if recording.is_none() {
            engine.send(Request::Save(reply));
        }
        let outside = self.outside.clone();
        let work = move || {
            let saved = match recording {
                Some(files) => save_again(&files, &path),
                None => match moments.recv() {
                    Ok(moment) => save(&moment, &path),
                    Err(_) => Err("the session has ended".to_owned()),
                },
            };
            let _ = outside.send(Outside::Saved(saved));
        };
        if let Err(error) = std::thread::Builder::new().name("save".to_owned()).spawn(work) {
            let _ = self.outside.send(Outside::Saved(Err(error.to_string())));
        }
    }

    fn suspend(&mut self) {
        let set = |on| {
            if let Ok(mut suspended) = SUSPENDED.lock() {
                *suspended = on;
            }
        };
        set(true);
        tty::stop_self();
        // The signal thread may see SIGCONT a little later than we go on.
        std::thread::sleep(Duration::from_millis(20));
        set(false);
    }
}

fn save(moment: &Moment, path: &Path) -> Result<String, String> {
    let cmdline: Vec<String> = std::env::args().collect();
    let written = perfdata::save(moment, path, &cmdline);
    let written = written.map_err(|e| format!("{} was not saved: {e}; the samples are still here", path.display()))?;
    let samples = unit::thousands(written.samples as u64);
    Ok(format!("saved {samples} samples, {} to {}", unit::bytes(written.bytes), path.display()))
}

/// `perfprof-20261121-054200.data`, in UTC so that names sort.
fn snapshot_name() -> PathBuf {
    let seconds = crate::kernel::wall_ns() / 1_000_000_000;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (y, m, d) = civil(days as i64);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    PathBuf::from(format!("perfprof-{y:04}{m:02}{d:02}-{hour:02}{minute:02}{second:02}.data"))
}

/// Year, month and day of a day since 1970 (Howard Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", civil_from_days).
fn civil(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = (doy - (153 * mp + 2) / 5 + 1) as u32;
    let month = (if mp < 10 { mp + 3 } else { mp - 9 }) as u32;
    (yoe + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_calendar() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(20_778), (2026, 11, 21));
        assert_eq!(civil(11_016), (2000, 2, 29));
    }
}
