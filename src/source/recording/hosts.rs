//! Inputs of several machines: the machine of each input, the differences of their clocks, and equivalent events.

use std::sync::Arc;

use crate::event::base_name;
use crate::kernel::attr::Flag;
use crate::perfdata::EventDesc;
use crate::perfdata::bytes::ByteReader;
use crate::perfdata::features::bit;
use crate::record::kinds::BuildId;
use crate::session::hosts::PerHost;
use crate::source::hosts::{Hosts, SourceHost};

use super::input::Input;

pub(crate) fn of(inputs: &[Input], named: &[String]) -> Hosts {
    let told = |name: &String| -> Arc<str> { if name.is_empty() { "unnamed".into() } else { name.as_str().into() } };
    let mut list = PerHost::one(describe(&inputs[0], told(&named[0]), &inputs[0]));
    let mut of_input = Vec::new();
    for (input, name) in inputs.iter().zip(named.iter().map(told)) {
        let known = list.iter().find(|(_, host)| host.name == name).map(|(id, _)| id);
        let id = known.unwrap_or_else(|| list.push(describe(input, name, &inputs[0])));
        list[id].kernel_id = list[id].kernel_id.or_else(|| kernel_id(input));
        of_input.push(id);
    }
    if !list.are_many() {
        // A single machine is shown by its host name.
        let rec = &inputs[0].rec;
        list[of_input[0]].name = rec.features.text(bit::HOSTNAME, rec.big).unwrap_or_default().into();
    }
    if list.iter().any(|(_, host)| host.shift.is_none()) {
        list.values_mut().for_each(|host| host.shift = None);
    }
    Hosts::new(list, of_input)
}

/// Returns a machine as if its timestamps were in the first machine's clock.
fn describe(input: &Input, name: Arc<str>, first: &Input) -> SourceHost {
    let carried = |input: &Input| input.rec.features.carried(input.rec.big).into_iter();
    let is_clock = |feature: &(u8, Vec<u8>)| [bit::CLOCKID, bit::CLOCK_DATA].contains(&feature.0);
    let shift = || ahead(input).zip(ahead(first)).map(|(own, other)| own.wrapping_sub(other));
    SourceHost {
        name,
        kernel: input.rec.features.text(bit::OSRELEASE, input.rec.big).unwrap_or_default(),
        kernel_id: None,
        shift: if std::ptr::eq(input, first) { Some(0) } else { shift() },
        machine: carried(input).filter(|f| !is_clock(f)).chain(carried(first).filter(is_clock)).collect(),
    }
}

fn kernel_id(input: &Input) -> Option<BuildId> {
    let files = input.rec.features.identified_files(input.rec.big);
    files.iter().find(|file| file.kernel && file.path.starts_with("[kernel.kallsyms]")).map(|file| file.id)
}

/// Returns the wall clock minus an input's clock, in nanoseconds (CLOCK_DATA in perf.data-file-format.txt).
fn ahead(input: &Input) -> Option<i64> {
    let mut bytes = ByteReader::new(input.rec.features.get(bit::CLOCK_DATA)?, input.rec.big);
    let (_, _, wall, at) = (bytes.u32()?, bytes.u32()?, bytes.u64()?, bytes.u64()?);
    Some(wall.wrapping_sub(at) as i64)
}

pub(crate) fn note(hosts: &Hosts) -> Option<String> {
    let names: Vec<&str> = hosts.several().filter(|host| host.shift.is_none()).map(|host| &*host.name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "the clocks of {} cannot be compared: their recordings are laid so that they begin together \
             (perf record -k CLOCK_MONOTONIC tells clocks)",
            names.join(", ")
        )
    })
}

/// Returns whether events of different machines count the same, at any rate: the same name, and the same exclusions.
/// Tracepoints also need the same number in each kernel, because it identifies their fields.
pub(crate) fn is_alike(a: &EventDesc, b: &EventDesc) -> bool {
    let left_out = [Flag::ExcludeUser, Flag::ExcludeKernel, Flag::ExcludeIdle];
    base_name(&a.name) == base_name(&b.name)
        && (a.attr.kind, a.attr.config) == (b.attr.kind, b.attr.config)
        && left_out.iter().all(|flag| a.attr.has(*flag) == b.attr.has(*flag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::attr::Attr;
    use crate::perfdata::features::string;
    use crate::perfdata::read::Recording;
    use crate::source::recording::reader::ByteSource;

    fn input(clock: Option<(u64, u64)>) -> Input {
        let mut rec = Recording::default();
        if let Some((wall, at)) = clock {
            let data = [&1u32.to_le_bytes()[..], &1u32.to_le_bytes(), &wall.to_le_bytes(), &at.to_le_bytes()];
            rec.features.set(bit::CLOCK_DATA, data.concat());
        }
        rec.features.set(bit::OSRELEASE, string("6.1"));
        Input::new(rec, ByteSource::Stream { stream: Box::new(std::io::empty()), at: 0, failed: None })
    }

    /// The first machine's clock is 900 behind the wall clock, the second's 200: its timestamps are higher by 700.
    #[test]
    fn what_is_added_to_a_machines_times_makes_them_the_first_ones() {
        let inputs =
            [input(Some((1000, 100))), input(Some((1000, 800))), input(Some((1000, 800))), input(Some((0, 5)))];
        let hosts = of(&inputs, &["a", "b", "b", ""].map(String::from));
        let shifts: Vec<_> = hosts.several().map(|host| (&*host.name, host.shift)).collect();
        assert_eq!(shifts, [("a", Some(0)), ("b", Some(200 - 900)), ("unnamed", Some(-5 - 900))]);
        let name = |input: usize| &*hosts[hosts.of_input(input)].name;
        assert_eq!([0, 1, 2, 3].map(name), ["a", "b", "b", "unnamed"]);
        assert!(note(&hosts).is_none() && hosts.several().all(|host| host.kernel == "6.1"));
        // One that cannot be related makes all of them unrelated.
        let hosts = of(&[input(Some((1000, 100))), input(None)], &["a", "b"].map(String::from));
        assert!(hosts.several().all(|host| host.shift.is_none()));
        assert!(note(&hosts).is_some_and(|note| note.contains("the clocks of a, b cannot be compared")));
        // A single machine needs no distinguishing name.
        assert_eq!(of(&[input(None), input(None)], &["a", "a"].map(String::from)).several().count(), 0);
    }

    #[test]
    fn events_that_leave_something_out_are_others() {
        let attr = Attr { kind: 0, config: 3, ..Attr::default() };
        let event = |name: &str, attr: &Attr| EventDesc { name: name.into(), attr: attr.clone(), ids: vec![] };
        let one = event("cycles", &attr);
        assert!(is_alike(&one, &event("cycles", &Attr { period_or_freq: 99, ..attr.clone() })));
        assert!(!is_alike(&one, &event("cycles", &Attr { config: 4, ..attr.clone() })));
        assert!(!is_alike(&one, &event("cycles", &Attr { kind: 4, ..attr.clone() })));
        assert!(!is_alike(&one, &event("branches", &attr)));
        for flag in [Flag::ExcludeUser, Flag::ExcludeKernel, Flag::ExcludeIdle] {
            let mut other = attr.clone();
            other.set(flag, true);
            assert!(!is_alike(&one, &event("cycles", &other)));
        }
    }
}
