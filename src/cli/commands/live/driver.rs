//! File operations and process control for the screen.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use crate::engine::{Engine, IntakeOptions, Offline, Request, offline};
use crate::ingest::unit_feed::SEVERAL_HOSTS;
use crate::kernel::tty;
use crate::lang::counted;
use crate::machine::sampler::HostView;
use crate::panel::printable::EscapeForm;
use crate::session::TimeMark;
use crate::ui::OutsideRequest;
use crate::ui::terminal::run::OutsideEvent;
use crate::units;
use crate::units::kit::{Settings, Spec};

use crate::cli::args::{NameArgs, RecordingArgs};
use crate::cli::commands::digest;
use crate::cli::commands::export::save_again;
use crate::cli::output::complain;
use crate::cli::sampling::snapshot::{free_name, save, save_figures};
use crate::cli::{input, output, signals};

pub(crate) struct SessionDriver {
    pub(crate) outside: Sender<OutsideEvent>,
    pub(crate) name: Option<PathBuf>,
    /// Files of the open recording: a save copies from them, with all fields of its samples.
    pub(crate) recording: Option<Vec<PathBuf>>,
    pub(crate) names: NameArgs,
    pub(crate) no_demangle: bool,
    pub(crate) saves: RefCell<Vec<JoinHandle<()>>>,
}

/// Interval of looks at saves that are under way.
const LOOK: Duration = Duration::from_millis(20);
/// Time after which the end's wait for a save is reported.
const LATE: Duration = Duration::from_secs(1);

impl SessionDriver {
    /// Waits for saves under way, until a signal, and reports what the screen no longer can. Whether all succeeded.
    pub(crate) fn finish(&self, outside: &Receiver<OutsideEvent>) -> bool {
        let (begun, mut is_reported, mut succeeded) = (Instant::now(), false, true);
        loop {
            let is_saving = self.saves.borrow().iter().any(|save| !save.is_finished());
            match outside.recv_timeout(if is_saving { LOOK } else { Duration::ZERO }) {
                Ok(OutsideEvent::Saved(Ok(text))) => complain(&text),
                Ok(OutsideEvent::Saved(Err(text))) => {
                    complain(&text);
                    succeeded = false;
                }
                Ok(OutsideEvent::Stop) if is_saving => {
                    complain("the snapshot was not written: a signal ended the program first");
                    return false;
                }
                Ok(_) => {}
                Err(_) if !is_saving => return succeeded,
                Err(_) if !is_reported && begun.elapsed() > LATE => {
                    complain("waiting for the snapshot to be written; SIGINT ends the program without it");
                    is_reported = true;
                }
                Err(_) => {}
            }
        }
    }

    fn tell(&self, said: Result<String, String>) {
        let _ = self.outside.send(OutsideEvent::Saved(said));
    }

    /// Runs slow operations on another thread.
    fn beside(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
        crate::kernel::thread(name, work).map_err(|error| self.tell(Err(error.to_string()))).ok()
    }

    /// Carries out a request of the screen.
    pub(crate) fn serve(&self, engine: &Engine, request: OutsideRequest) {
        match request {
            OutsideRequest::Save(path, range) => self.save(engine, path, range, false),
            OutsideRequest::SaveWithDigest(path, range) => self.save(engine, path, range, true),
            OutsideRequest::Write(path, text) => self.write(&path, &text),
            OutsideRequest::SaveFilters(filters) => self.tell(crate::cli::config::saved_filters::write(&filters)),
            OutsideRequest::Baseline(path) => self.baseline(engine, path),
            OutsideRequest::Unit(spec, settings) => self.unit(engine, spec, settings),
            OutsideRequest::Suspend => suspend(),
        }
    }

    fn save(&self, engine: &Engine, path: Option<PathBuf>, range: Option<(u64, u64)>, with_digest: bool) {
        let path = path.or_else(|| self.name.clone()).unwrap_or_else(|| free_name(Path::new(""), "perfprof-"));
        let (reply, moments) = crossbeam_channel::bounded(1);
        let (figures_reply, figures) = crossbeam_channel::bounded(1);
        engine.send(Request::UnitFigures(figures_reply));
        let recording = self.recording.clone();
        if recording.is_none() {
            engine.send(Request::Save(reply));
        }
        let outside = self.outside.clone();
        let answer = engine.answer();
        let marks: Vec<TimeMark> = answer
            .marks
            .iter()
            .map(|mark| TimeMark { at: mark.at.saturating_add(answer.start), ..mark.clone() })
            .collect();
        let start = (answer.wall_start, answer.start);
        let (names, host) = (self.names.clone(), engine.host());
        let work = move || {
            let saved = match recording {
                Some(files) => save_again(&files, &path, range, &marks),
                None => match moments.recv() {
                    Ok(moment) => save(&moment, &path, range),
                    Err(_) => Err("the session has ended".to_owned()),
                },
            };
            let figures = figures.recv().unwrap_or_default();
            let saved = saved.and_then(|samples| {
                let units = save_figures(&figures, &path, start)?;
                Ok(if units.is_empty() { samples } else { format!("saved {units}; {samples}") })
            });
            let saved =
                saved.map(|text| match with_digest.then(|| write_digest(&path, &names, host.as_deref(), range)) {
                    Some(Ok(page)) => format!("{text}; {page}"),
                    Some(Err(why)) => format!("{text}; no page about it: {why}"),
                    None => text,
                });
            let _ = outside.send(OutsideEvent::Saved(saved));
        };
        let mut saves = self.saves.borrow_mut();
        saves.retain(|save| !save.is_finished());
        saves.extend(self.beside("save", work));
    }

    fn write(&self, path: &Path, text: &str) {
        let written = output::file(path, Some(EscapeForm::Text), |out| Ok(out.write_all(text.as_bytes())?));
        let said =
            written.map(|()| format!("{} written to {}", counted(text.lines().count() as u64, "line"), path.display()));
        self.tell(said.map_err(|error| error.to_string()));
    }

    fn baseline(&self, engine: &Engine, path: PathBuf) {
        let (outside, requests) = (self.outside.clone(), engine.requests());
        let (names, no_demangle) = (self.names.clone(), self.no_demangle);
        let work = move || {
            let recording = RecordingArgs::from_files(vec![path.clone()], names);
            let read = || -> anyhow::Result<Offline> {
                let (mut opened, _) = input::open_silently(&recording, no_demangle)?;
                let wants = IntakeOptions { traces: true, ..IntakeOptions::default() };
                Ok(offline::load(&mut *opened.source, opened.symbols, wants)?)
            };
            let read = read().map(|loaded| {
                let _ = requests.send(Request::Baseline(Some(Box::new(loaded))));
                path
            });
            let _ = outside.send(OutsideEvent::Baseline(read.map_err(|error| format!("{error:#}"))));
        };
        self.beside("baseline", work);
    }

    fn unit(&self, engine: &Engine, spec: &'static Spec, settings: Settings) {
        let (outside, requests) = (self.outside.clone(), engine.requests());
        let (names, no_demangle) = (self.names.clone(), self.no_demangle);
        let Some(files) = self.recording.clone() else {
            let why = match engine.info().hosts.are_many() {
                true => SEVERAL_HOSTS,
                false => "a recording from a pipe cannot be read again for a unit; open it from a file",
            };
            return self.tell(Err(why.to_owned()));
        };
        let work = move || {
            let read = || -> anyhow::Result<Offline> {
                let unit = units::make(spec, &settings).map_err(|why| anyhow::anyhow!("{}: {why}", spec.name))?;
                let recording = RecordingArgs::from_files(files, names);
                let (mut opened, _) = input::open_silently(&recording, no_demangle)?;
                offline::load_unit(&mut *opened.source, opened.symbols, unit).map_err(anyhow::Error::msg)
            };
            match read() {
                Ok(loaded) => drop(requests.send(Request::UnitOf(Box::new(loaded)))),
                Err(error) => drop(outside.send(OutsideEvent::Saved(Err(format!("{error:#}"))))),
            }
        };
        self.beside("unit", work);
    }
}

/// Writes one page about a saved recording next to it; returns a message.
fn write_digest(
    path: &Path,
    names: &NameArgs,
    host: Option<&HostView>,
    range: Option<(u64, u64)>,
) -> Result<String, String> {
    let page = digest::page(path, names, host, range).map_err(|error| format!("{error:#}"))?;
    let mut place = path.as_os_str().to_owned();
    place.push(".digest.txt");
    let place = PathBuf::from(place);
    let written = output::file(&place, Some(EscapeForm::Text), |out| Ok(out.write_all(page.as_bytes())?));
    written.map(|()| format!("one page about it in {}", place.display())).map_err(|error| error.to_string())
}

fn suspend() {
    let set = |on| signals::SUSPENDED.store(on, Ordering::Release);
    set(true);
    tty::stop_self();
    // The signal thread may see SIGCONT shortly after this thread continues.
    std::thread::sleep(Duration::from_millis(20));
    set(false);
}
