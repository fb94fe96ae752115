//! The main loop: processes all pending events, applies the effects, then draws one frame.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;
use ratatui::layout::Position;

use crate::engine::{Engine, Notice, Request, UnitRequest};
use crate::session::Origin;
use crate::ui::app::App;
use crate::ui::draw::screen;
use crate::ui::state::{Effect, OutsideRequest};
use crate::ui::terminal::frame_pacer::FramePacer;
use crate::ui::terminal::inputs::InputReader;
use crate::ui::terminal::term::{self, ScreenTerminal};
use crate::ui::terminal::term_query::{TermFacts, TermQuery};
use crate::ui::theme::{Theme, Themes, suited};

/// An event from outside of terminal and engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutsideEvent {
    /// A signal requests the end.
    Stop,
    /// Another process stopped and continued this one.
    Continued,
    /// A save has ended, with a message or an error.
    Saved(Result<String, String>),
    /// The engine has received the recording of this path to compare with, or the reason why not.
    Baseline(Result<PathBuf, String>),
}

/// How long the first frame waits for the terminal's answers. Later ones are processed when they arrive.
const PATIENCE: Duration = Duration::from_millis(150);

/// Carries out requests on files and processes; results arrive as [`OutsideEvent`].
pub(crate) type Serve<'a> = &'a mut dyn FnMut(&Engine, OutsideRequest);

/// Runs the interface until the user leaves it. The terminal must be set up.
pub(crate) fn run(
    app: &mut App,
    themes: &Themes,
    engine: &Engine,
    outside: &Receiver<OutsideEvent>,
    serve: Serve<'_>,
) -> io::Result<()> {
    let mut screen = term::screen()?;
    let (width, height) = term::size()?;
    app.resize(width, height);
    let by_itself = app.model.frame.theme == "auto";
    let mut asked = TermQuery::ask();
    let all = asked.as_mut().is_none_or(|asked| asked.listen(PATIENCE));
    take_facts(app, themes, by_itself, asked.as_ref().map(TermQuery::facts).unwrap_or_default());
    asked.iter_mut().flat_map(TermQuery::typed).for_each(|input| app.input(&input));
    let reader = InputReader::start(asked.filter(|_| !all))?;
    let mut dirty = true;
    let mut theme = Theme::new(themes.depth);
    theme.charset = themes.charset;
    let mut shown = String::new();
    let mut pace = FramePacer::start();
    let mut priority = engine.thread_priority();
    loop {
        if !effects(app, &mut screen, engine, serve)? {
            return Ok(());
        }
        if app.model.frame.theme != shown {
            theme = themes.get(&app.model.frame.theme).unwrap_or(theme);
            app.model.context.fine = theme.fine;
            shown.clone_from(&app.model.frame.theme);
        }
        if dirty && pace.may_draw(app) {
            dirty = false;
            app.tick(engine.clock());
            frame(app, &theme, &mut screen)?;
            pace.drew(app);
        }
        crossbeam_channel::select! {
            recv(reader.inputs) -> input => match input {
                Ok(input) => app.input(&input),
                Err(_) => return Ok(()),
            },
            recv(engine.notices()) -> notice => match notice {
                Ok(notice) => take_notice(app, engine, notice),
                Err(_) => return Ok(()),
            },
            recv(outside) -> what => match what {
                Ok(OutsideEvent::Stop) | Err(_) => return Ok(()),
                Ok(what) => take_outside(app, &mut screen, what)?,
            },
            recv(reader.late) -> what => if let Ok(what) = what {
                take_facts(app, themes, by_itself, what);
            },
            default(pace.wait(app, dirty)) => {}
        }
        priority.keep();
        while let Ok(input) = reader.inputs.try_recv() {
            app.input(&input);
        }
        while let Ok(notice) = engine.notices().try_recv() {
            take_notice(app, engine, notice);
        }
        dirty = true;
    }
}

fn take_facts(app: &mut App, themes: &Themes, by_itself: bool, facts: TermFacts) {
    term::mark_frames(facts.whole_frames);
    let before = suited(themes.depth, None);
    if by_itself && (app.model.frame.theme == "auto" || app.model.frame.theme == before) {
        app.model.frame.theme = suited(themes.depth, facts.background).to_owned();
    }
}

fn take_notice(app: &mut App, engine: &Engine, notice: Notice) {
    match notice {
        Notice::Answer => {
            app.set_times(engine.softirq_times());
            app.set_answer(engine.answer());
            app.set_units(engine.units());
        }
        Notice::Host => {
            app.set_times(engine.softirq_times());
            app.set_host(engine.host());
        }
        Notice::Catalogue(list) => app.set_catalogue(list),
        Notice::SoftirqsFailed(why) => app.model.tracing_failed(&why),
        Notice::Reply(Ok(text)) if text.is_empty() => {}
        Notice::Reply(Ok(text)) => app.model.say(text),
        Notice::Reply(Err(text)) => app.engine_refused(text),
        Notice::View(view) => {
            app.model.set_filter(view.filter);
            app.model.say(view.words);
        }
        Notice::Listing(target, listing) => app.model.set_listing(&target, listing),
    }
}

fn take_outside(app: &mut App, screen: &mut ScreenTerminal, what: OutsideEvent) -> io::Result<()> {
    match what {
        OutsideEvent::Saved(Ok(text)) => app.model.saved(text),
        OutsideEvent::Saved(Err(text)) => app.model.error(text),
        OutsideEvent::Baseline(Ok(path)) => app.baseline_read(path),
        OutsideEvent::Baseline(Err(why)) => app.model.baseline_failed(why),
        OutsideEvent::Continued => retake(app, screen)?,
        OutsideEvent::Stop => {}
    }
    Ok(())
}

/// Sets the terminal up again after another program used it.
fn retake(app: &mut App, screen: &mut ScreenTerminal) -> io::Result<()> {
    term::enter()?;
    let (width, height) = term::size()?;
    app.resize(width, height);
    screen.clear()
}

fn effects(app: &mut App, screen: &mut ScreenTerminal, engine: &Engine, serve: Serve<'_>) -> io::Result<bool> {
    for effect in std::mem::take(&mut app.model.effects) {
        match effect {
            Effect::Engine(request) => engine.send(request),
            Effect::Refresh(interval) => {
                engine.set_host_interval(interval);
                engine.send(Request::Refresh(interval));
            }
            Effect::Catalogue => engine.list_events(),
            Effect::Softirqs(on) => engine.trace_softirqs(on),
            Effect::CountWork(on) => engine.count_work(on),
            Effect::Follow(processes) => engine.follow(processes),
            Effect::Outside(request @ OutsideRequest::Suspend) => {
                term::leave();
                serve(engine, request);
                retake(app, screen)?;
            }
            Effect::Outside(request) => serve(engine, request),
            Effect::Redraw => screen.clear()?,
            Effect::Copy(text) => term::copy(&text)?,
            Effect::Mouse(on) => term::mouse(on)?,
            // A unit needs the recording to be read again, because its records are not kept.
            Effect::Unit(UnitRequest::Start(spec, settings)) if app.model.context.info.origin == Origin::Recorded => {
                serve(engine, OutsideRequest::Unit(spec, settings));
            }
            Effect::Unit(request) => engine.send(Request::Unit(request)),
            Effect::Quit => return Ok(false),
        }
    }
    Ok(true)
}

fn frame(app: &mut App, theme: &Theme, screen: &mut ScreenTerminal) -> io::Result<()> {
    let mut drawn = (0, 0);
    screen.draw(|frame| {
        let area = frame.area();
        drawn = (area.width, area.height);
        let cursor = screen::draw(&app.model, &app.views, theme, area, frame.buffer_mut());
        if let Some((x, y)) = cursor {
            frame.set_cursor_position(Position { x, y });
        }
    })?;
    // The size-change notification may arrive after the change itself.
    if drawn != app.model.frame.size {
        app.resize(drawn.0, drawn.1);
        screen.draw(|frame| {
            let area = frame.area();
            let _ = screen::draw(&app.model, &app.views, theme, area, frame.buffer_mut());
        })?;
    }
    Ok(())
}

/// Draws a frame into a buffer, for tests and screenshots without a terminal.
pub fn render(app: &App, theme: &Theme, width: u16, height: u16) -> ratatui::buffer::Buffer {
    let area = ratatui::layout::Rect { x: 0, y: 0, width, height };
    let mut buffer = ratatui::buffer::Buffer::empty(area);
    let _ = screen::draw(&app.model, &app.views, theme, area, &mut buffer);
    buffer
}

/// Applies an answer to the model without threads; drawing follows separately.
pub fn show(app: &mut App, answer: crate::query::Answer, width: u16, height: u16) {
    app.resize(width, height);
    app.set_answer(Arc::new(answer));
}
