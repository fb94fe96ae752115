//! How an event gets the user stacks of its samples: by the walking program, by copies, or by the kernel.

use crate::event::callgraph::STACK;
use crate::event::{CallGraph, Event, own_names};
use crate::kernel::attr::TYPE_TRACEPOINT;
use crate::kernel::walk::Hook;

use super::{CommonAttrs, KernelFeatures};

/// Returns whether a BPF program walks the user stacks of an event's samples.
pub(crate) fn walks(event: &Event, common: &CommonAttrs) -> bool {
    way(event, common) == CallGraph::Tables && has_user_chains(common) && (may_be_walked(event) || event.is_walked)
}

fn has_user_chains(common: &CommonAttrs) -> bool {
    !common.exclude.user && !common.extras.kernel_chains_only
}

/// Returns where a program can walk the user stacks of a traced event's samples, if they are requested. Only for the
/// session's own probes, the program is on a perf event: at a tracepoint it would also decide about the samples of other
/// perf users. It walks at each hit, so that the event must sample each hit.
pub(crate) fn hook(event: &Event, common: &CommonAttrs) -> Option<Hook> {
    let by_tables = settled(event.chains.unwrap_or(common.chains), common) == CallGraph::Tables;
    let is_filtered = event.filter.as_ref().is_some_and(|filter| filter.trace.is_some());
    let each_hit = super::event(event, common, KernelFeatures::default()).period_or_freq == 1 && !is_filtered;
    let off = event.no_chains || event.no_samples || !has_user_chains(common);
    traced_at(event).filter(|_| by_tables && each_hit && !off)
}

/// Returns where the stacks of a traced event can be walked.
pub(crate) fn traced_at(event: &Event) -> Option<Hook> {
    let (system, name) = event.tracepoint.as_ref().filter(|_| event.attr.kind == TYPE_TRACEPOINT)?;
    match system.as_str() {
        "syscalls" => {
            let of = |hook: &'static str| Some((hook, name.strip_prefix(hook)?.strip_prefix('_')?));
            let (hook, call) = ["sys_enter", "sys_exit"].into_iter().find_map(of)?;
            Some(Hook::Call(hook, number_of_call(call)?))
        }
        system if own_names::is_own(system) => Some(Hook::Probe(event.attr.config)),
        _ => Some(Hook::Tracepoint(name.clone())),
    }
}

fn number_of_call(function: &str) -> Option<u32> {
    let name = match function {
        "newstat" | "newlstat" | "newfstat" | "newuname" => &function["new".len()..],
        "umount" => "umount2",
        "sendfile64" => "sendfile",
        other => other,
    };
    u32::try_from(name.parse::<syscalls::Sysno>().ok()?.id()).ok()
}

pub(crate) fn copies(event: &Event, common: &CommonAttrs) -> bool {
    matches!(way(event, common), CallGraph::Dwarf(_)) && !common.exclude.user && may_be_walked(event)
}

pub(crate) fn way(event: &Event, common: &CommonAttrs) -> CallGraph {
    if event.no_chains { CallGraph::None } else { own_way(event, common) }
}

/// Returns the mode in which an event records call chains while they are switched on.
pub(super) fn own_way(event: &Event, common: &CommonAttrs) -> CallGraph {
    let is_limited = !event.machine_wide && !event.is_walked;
    let is_copied = is_limited && event.chains.is_none() && event.for_units && is_traced(event) && !event.no_chains;
    match common.copies && common.chains.is_on() && is_copied {
        true => CallGraph::Dwarf(STACK),
        false => settled(event.chains.unwrap_or(common.chains), common),
    }
}

/// Replaces table-based modes by frame pointers if there is no program.
fn settled(way: CallGraph, common: &CommonAttrs) -> CallGraph {
    match way {
        CallGraph::Tables | CallGraph::Auto if common.tables => CallGraph::Tables,
        other => other.without_tables(),
    }
}

/// Returns whether the program of an event can walk the stacks of its samples, if requested.
pub(crate) fn may_be_walked(event: &Event) -> bool {
    !event.no_chains && !event.no_samples && !is_traced(event)
}

fn is_traced(event: &Event) -> bool {
    let probe = ["kprobe/", "uprobe/"].iter().any(|pmu| event.name.starts_with(pmu));
    event.attr.kind == TYPE_TRACEPOINT || event.tracepoint.is_some() || probe
}
