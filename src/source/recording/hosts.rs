//! Inputs of several machines: which is of which, how far their clocks are apart, which events are the same.

use crate::event::plain;
use crate::kernel::attr::Flag;
use crate::perfdata::EventDesc;
use crate::perfdata::bytes::Bytes;
use crate::perfdata::features::bit;
use crate::source::Host;

use super::input::Input;

/// The machines of inputs whose names are known, and which each input is of; both empty where all are of one.
pub fn of(inputs: &[Input], named: &[String]) -> (Vec<Host>, Vec<u16>) {
    let mut hosts: Vec<Host> = Vec::new();
    let mut host_of = Vec::new();
    for (input, name) in inputs.iter().zip(named) {
        let name = if name.is_empty() { "unnamed" } else { name };
        let at = hosts.iter().position(|host| *host.name == *name).unwrap_or(hosts.len());
        if at == hosts.len() {
            hosts.push(describe(input, name, &inputs[0]));
        }
        host_of.push(at as u16);
    }
    if hosts.iter().any(|host| host.shift.is_none()) {
        hosts.iter_mut().for_each(|host| host.shift = None);
    }
    if hosts.len() > 1 { (hosts, host_of) } else { (Vec::new(), Vec::new()) }
}

fn describe(input: &Input, name: &str, first: &Input) -> Host {
    let rec = &input.rec;
    let ids = rec.features.build_ids(rec.big);
    let is_kernel = |(kernel, _, path): &&(bool, _, String)| *kernel && path.starts_with("[kernel.kallsyms]");
    Host {
        name: name.into(),
        kernel: rec.features.text(bit::OSRELEASE, rec.big).unwrap_or_default(),
        kernel_id: ids.iter().find(is_kernel).map(|(_, id, _)| *id),
        shift: if std::ptr::eq(input, first) {
            Some(0)
        } else {
            ahead(input).zip(ahead(first)).map(|(own, other)| own.wrapping_sub(other))
        },
        machine: rec.features.carried(rec.big),
    }
}

/// How far the wall's clock is ahead of an input's, in nanoseconds (CLOCK_DATA in perf.data-file-format.txt).
fn ahead(input: &Input) -> Option<i64> {
    let mut bytes = Bytes::new(input.rec.features.get(bit::CLOCK_DATA)?, input.rec.big);
    let (_, _, wall, at) = (bytes.u32()?, bytes.u32()?, bytes.u64()?, bytes.u64()?);
    Some(wall.wrapping_sub(at) as i64)
}

/// What the user should know of machines whose clocks cannot be compared.
pub fn note(hosts: &[Host]) -> Option<String> {
    let names: Vec<&str> = hosts.iter().filter(|host| host.shift.is_none()).map(|host| &*host.name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the clocks of {} cannot be compared: their recordings are laid so that they begin together \
             (perf record -k CLOCK_MONOTONIC tells clocks)",
            names.join(", ")
        )
    })
}

/// Whether events of different machines count the same, at whatever rates: the same name, and nothing left out by
/// one of them. Tracepoints also need the number that each kernel gives them, as their fields are known by it.
pub fn is_alike(a: &EventDesc, b: &EventDesc) -> bool {
    let left_out = [Flag::ExcludeUser, Flag::ExcludeKernel, Flag::ExcludeIdle];
    plain(&a.name) == plain(&b.name)
        && (a.attr.kind, a.attr.config) == (b.attr.kind, b.attr.config)
        && left_out.iter().all(|flag| a.attr.has(*flag) == b.attr.has(*flag))
}
