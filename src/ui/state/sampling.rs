//! Commands that change what a live session samples.

use crate::event::{CPU_CLOCK, CallGraph, Interpreters, base_name};
use crate::filter::Filter;
use crate::filter::capture::Subject;
use crate::ingest::tracepoints;
use crate::lang::quantity;
use crate::query::answer::EventInfo;
use crate::session::Origin;
use crate::source::{Change, Control, RunState};
use crate::ui::input::commands::general;
use crate::ui::popups::prompt::Prompt;
use crate::ui::state::Model;

/// The reason why events cannot be added.
const RECORDED: &str = "the events of a recording cannot be changed";

impl Model {
    pub(crate) fn tracing_failed(&mut self, why: &str) {
        self.context.tracing = false;
        self.error(format!("the time in softirqs cannot be measured: {why}"));
    }

    pub(crate) fn set_frequency(&mut self, text: &str) {
        match quantity::hertz(text) {
            Ok(hz) => self.control(Control::Frequency(hz)),
            Err(_) => self.error(format!("{text}: expected samples per second")),
        }
    }

    pub(crate) fn sample_cpus(&mut self, text: &str) {
        match cpu_list(text) {
            Ok(list) => self.control(Control::Cpus(list)),
            Err(error) => self.error(error),
        }
    }

    /// Sets the kernel filter of an event, or prompts for it; an empty text removes it.
    pub(crate) fn capture_of(&mut self, event: usize, text: Option<String>) {
        if let Some(text) = text {
            let text = Some(text).filter(|text| !text.is_empty());
            return self.control(Control::Event(event, Change::Filter(text)));
        }
        let Some(info) = self.context.answer.events.get(event).filter(|info| info.meter.is_some()) else {
            return self.refuse(&general::CAPTURE, "capture filters need a live session: Esc, then f filters the view");
        };
        let subject = match tracepoints::format(&self.context.info, base_name(&info.name)) {
            Some(format) => Subject::Tracepoint(Box::new(format)),
            None => Subject::Sampling { clock: info.meaning.unit.is_time() },
        };
        let text = info.filter.clone().unwrap_or_default();
        self.frame.prompt = Prompt::about(&general::CAPTURE, text, subject, &self.context);
    }

    /// Starts the event that samples CPUs in a session that measures only for units; returns whether it did.
    pub(crate) fn start_sampling(&mut self) -> bool {
        let starts = self.context.samples_nothing();
        if starts {
            self.add_event(Some(CPU_CLOCK.to_owned()));
        }
        starts
    }

    pub(crate) fn add_event(&mut self, names: Option<String>) {
        match names {
            None if self.context.info.origin == Origin::Recorded => self.refuse(&general::EVENT, RECORDED),
            Some(_) if self.context.info.origin == Origin::Recorded => self.say(RECORDED),
            None => self.ask_for(&general::EVENT, String::new()),
            Some(names) => self.control(Control::Add(names)),
        }
    }

    /// Pauses all events if any is running, otherwise resumes them.
    pub(crate) fn pause_all(&mut self) {
        let runs = |e: &EventInfo| e.meter.as_ref().is_some_and(|m| m.state.run == RunState::Running);
        let on = self.context.answer.events.iter().any(runs);
        self.control(Control::Pause(on));
    }

    /// Sets the call graph mode of user stacks. Without a name, toggles between DWARF and frame pointers.
    pub(crate) fn call_graph(&mut self, way: Option<String>) {
        if self.context.info.origin == Origin::Recorded {
            return self.say("the stacks of a recording cannot be changed");
        }
        let now = self.context.answer.events.iter().find_map(|e| e.meter.as_ref()).map(|meter| meter.state.chains);
        let way = match way {
            Some(text) => match CallGraph::parse(&text) {
                Ok(way) => way,
                Err(why) => return self.error(why),
            },
            None if matches!(now, Some(CallGraph::Dwarf(_))) => CallGraph::Auto,
            None => CallGraph::Dwarf(crate::event::callgraph::STACK),
        };
        self.control(Control::CallGraph(way));
    }

    /// Chooses the frames of interpreted languages. Without a name, takes the next mode.
    pub(crate) fn show_interpreters(&mut self, shown: Option<String>) {
        if self.context.info.origin == Origin::Recorded {
            return self.say("the stacks of a recording cannot be changed; `record --interp` chooses their frames");
        }
        let now = self.context.answer.walked.as_ref().map(|walked| walked.interpreted.shown);
        match shown.map_or_else(|| Ok(now.unwrap_or_default().next()), |text| Interpreters::parse(&text)) {
            Ok(shown) => self.control(Control::Interpreters(shown)),
            Err(why) => self.error(why),
        }
    }
}

pub(crate) fn cpu_list(text: &str) -> Result<Vec<u32>, String> {
    use crate::filter::Test;
    let filter = Filter::parse(&format!("cpu in {text}")).map_err(|f| f.line())?;
    let Some(Test::Ranges(ranges)) = filter.atoms().first().map(|a| &a.test) else { return Err("no CPUs".into()) };
    let list: Vec<u32> = ranges.iter().flat_map(|(a, b)| (*a..=(*b).min(1 << 16)).map(|c| c as u32)).collect();
    if list.is_empty() { Err("no CPU given".into()) } else { Ok(list) }
}
