//! The terms between slashes that every event type accepts. An example is `cpu-clock/freq=99,name=x/` (perf-list(1)).

use crate::event::names::branches;
use crate::event::names::callgraph::{self, CallGraph};
use crate::event::names::pmu::TermError;
use crate::event::names::spec::{Event, Rate};
use crate::lang::quantity;

type Term = (&'static str, fn(&mut Event, Option<&str>) -> Result<(), String>);

const TERMS: &[Term] = &[
    ("name", |event, value| {
        let name = value.map(unquoted).filter(|name| !name.is_empty()).ok_or("expected name=NAME")?;
        if event.tracepoint.is_some() {
            return Err("a tracepoint keeps its name, which identifies its fields".to_owned());
        }
        name.clone_into(&mut event.name);
        Ok(())
    }),
    ("period", |event, value| number(value).map(|n| event.set_rate(Rate::Period(n)))),
    ("freq", |event, value| number(value).map(|n| event.set_rate(Rate::Frequency(n)))),
    ("call-graph", |event, value| {
        let way = CallGraph::parse(value.map(unquoted).unwrap_or_default());
        event.chains = Some(way.map_err(|why| why.replace("--call-graph ", "call-graph="))?);
        Ok(())
    }),
    ("stack-size", |event, value| {
        let size = number(value)?;
        let size = u32::try_from(size).ok().filter(|size| (1..=callgraph::MAX_STACK).contains(size));
        let size = size.ok_or_else(|| format!("the size is 8 to {} bytes", callgraph::MAX_STACK))?;
        event.attr.stack_user = size.next_multiple_of(8);
        Ok(())
    }),
    ("max-stack", |event, value| {
        let most = u16::try_from(number(value)?)
            .map_err(|_| "invalid depth of a call chain; the kernel's default is 127".to_owned())?;
        event.attr.max_stack = most;
        Ok(())
    }),
    ("inherit", |event, value| switch(value).map(|on| event.inherit = Some(on))),
    ("no-inherit", |event, value| switch(value).map(|on| event.inherit = Some(!on))),
    ("branch_type", |event, value| {
        event.attr.branch_sample_type = branches::parse(value.map(unquoted).unwrap_or_default())?;
        Ok(())
    }),
    ("percore", |event, value| switch(value).map(|on| event.per_core = on)),
    ("config", |event, value| number(value).map(|n| event.attr.config = n)),
    ("config1", |event, value| number(value).map(|n| event.attr.config1 = n)),
    ("config2", |event, value| number(value).map(|n| event.attr.config2 = n)),
    // Samples keep their timestamps for sorting, and metric groups are not supported by `-e`.
    ("time", |_, value| switch(value).map(drop)),
    ("metric-id", |_, _| Ok(())),
    // It ends `perf trace`; perf record ignores it, too.
    ("nr", |_, value| number(value).map(drop)),
    ("no-overwrite", |_, value| match switch(value)? {
        true => Ok(()),
        false => Err(OVERWRITE.to_owned()),
    }),
    ("overwrite", |_, value| match switch(value)? {
        true => Err(OVERWRITE.to_owned()),
        false => Ok(()),
    }),
    ("aux-output", |_, _| Err(AUX.to_owned())),
    ("aux-sample-size", |_, _| Err(AUX.to_owned())),
    ("aux-action", |_, _| Err(AUX.to_owned())),
];

const OVERWRITE: &str =
    "a CPU's ring buffer is shared by all events; use record --overwrite, which affects all of them";
const AUX: &str = "it requires an AUX area (Intel PT, CoreSight), which is not supported";

/// Sets a term; `None` if it is not a term of all events.
pub(super) fn set(event: &mut Event, name: &str, value: Option<&str>) -> Option<Result<(), TermError>> {
    let (_, set) = TERMS.iter().find(|(known, _)| *known == name)?;
    Some(set(event, value).map_err(|why| TermError { message: format!("{name}: {why}"), known: Vec::new() }))
}

pub(super) fn unknown(of: &str, name: &str) -> TermError {
    TermError { message: format!("unknown term {name} of {of}"), known: names().collect() }
}

pub(super) fn with_names(mut error: TermError) -> TermError {
    if !error.known.is_empty() {
        error.known.extend(names());
    }
    error
}

fn names() -> impl Iterator<Item = String> {
    TERMS.iter().map(|(name, _)| (*name).to_owned())
}

pub(super) fn agree(event: &mut Event) -> Result<(), &'static str> {
    if event.attr.max_stack > 0 {
        // Like perf, a depth alone enables call chains.
        let way = event.chains.get_or_insert(CallGraph::Fp);
        if matches!(way, CallGraph::Tables | CallGraph::Auto) {
            return Err("max-stack requires frame pointers: call-graph=fp,max-stack=N");
        }
    }
    if let (Some(CallGraph::Dwarf(own)), size @ 1..) = (&mut event.chains, event.attr.stack_user) {
        *own = size;
    }
    if event.chains == Some(CallGraph::Lbr) && event.attr.branch_sample_type != 0 {
        return Err("branch_type conflicts with call-graph=lbr: both use the CPU's branch records");
    }
    Ok(())
}

fn number(value: Option<&str>) -> Result<u64, String> {
    let text = value.unwrap_or("1");
    quantity::count(text).map_err(|_| format!("{text} is not a number"))
}

fn switch(value: Option<&str>) -> Result<bool, String> {
    match value.unwrap_or("1") {
        "0" => Ok(false),
        "1" => Ok(true),
        other => Err(format!("expected 0 or 1, not {other}")),
    }
}

fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}
