//! Impossible periods, as in damaged recordings: a single sample with such a period determines all shares.

use crate::kernel::perf_event::attr::{SW_CPU_CLOCK, SW_TASK_CLOCK, TYPE_HARDWARE, TYPE_SOFTWARE};
use crate::lang::thousands;
use crate::perfdata::EventDesc;

use super::Profile;

/// An impossible period is this many times the median.
const FACTOR: u64 = 1000;
/// Events with fewer samples are not judged: the first periods of a sampling frequency are small, because the kernel has
/// to find the right one.
const LEAST: usize = 100;

/// The periods of an event's samples.
#[derive(Clone, Copy, Debug, Default)]
struct Periods {
    samples: usize,
    sum: u128,
    largest: u64,
}

/// Returns a note for each event with one sample whose period is larger than those of all others together, and much
/// larger than the median. Only events of clocks and of hardware are judged: the periods of others, such as times that
/// threads wait, differ this much.
pub(crate) fn notes(events: &[EventDesc], profile: &Profile) -> Vec<String> {
    let mut all = vec![Periods::default(); events.len()];
    for (chunk, rows) in profile.between(profile.first(), profile.end()) {
        for row in rows {
            let Some(of) = all.get_mut(usize::from(chunk.event[row])) else { continue };
            of.samples += 1;
            of.sum += u128::from(chunk.weight[row]);
            of.largest = of.largest.max(chunk.weight[row]);
        }
    }
    let note = |(event, of): (&EventDesc, (usize, &Periods))| {
        let (number, of) = of;
        if of.samples < LEAST || u128::from(of.largest) * 2 <= of.sum || !is_steady(event) {
            return None;
        }
        let median = median(profile, number);
        (of.largest / FACTOR >= median.max(1)).then(|| {
            format!(
                "{}: one sample has a period of {}, more than all others together (median {}): the recording may be \
                 damaged; --where 'period < {}' leaves this sample out",
                event.name,
                thousands(of.largest),
                thousands(median),
                of.largest
            )
        })
    };
    events.iter().zip(all.iter().enumerate()).filter_map(note).collect()
}

/// Returns whether an event's samples have periods of similar size.
fn is_steady(event: &EventDesc) -> bool {
    match event.attr.kind {
        TYPE_HARDWARE => true,
        TYPE_SOFTWARE => [SW_CPU_CLOCK, SW_TASK_CLOCK].contains(&event.attr.config),
        _ => false,
    }
}

fn median(profile: &Profile, event: usize) -> u64 {
    let mut periods = Vec::new();
    for (chunk, rows) in profile.between(profile.first(), profile.end()) {
        periods.extend(rows.filter(|row| usize::from(chunk.event[*row]) == event).map(|row| chunk.weight[row]));
    }
    let middle = periods.len() / 2;
    if periods.is_empty() { 0 } else { *periods.select_nth_unstable(middle).1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::perf_event::attr::{Attr, TYPE_TRACEPOINT};
    use crate::profile::SiteId;

    fn noted(kind: u32, periods: impl Iterator<Item = u64>) -> Vec<String> {
        let attr = Attr { kind, config: 0, ..Attr::default() };
        let events = [EventDesc { name: "cycles".to_owned(), attr, ids: Vec::new() }];
        let mut profile = Profile::default();
        periods.for_each(|period| profile.push(1, SiteId(0), period, 0, 0));
        notes(&events, &profile)
    }

    #[test]
    fn one_period_of_another_magnitude_is_noted() {
        let flipped = || (0..200).map(|_| 1_000_000).chain([281_474_554_232_142]);
        let list = noted(TYPE_HARDWARE, flipped());
        assert!(
            list.len() == 1 && list[0].contains("cycles: one sample has a period of 281,474,554,232,142"),
            "{list:?}"
        );
        assert!(list[0].contains("--where 'period < 281474554232142'"), "{list:?}");
        assert_eq!(noted(TYPE_SOFTWARE, flipped()).len(), 1, "cpu-clock");
        // Waiting times.
        assert_eq!(noted(TYPE_TRACEPOINT, flipped()), [""; 0]);
        // The kernel searches the right period for a frequency.
        assert_eq!(noted(TYPE_HARDWARE, [1, 1, 50, 4_000_000].into_iter()), [""; 0]);
        assert_eq!(noted(TYPE_HARDWARE, (0..200).map(|i| 1_000_000 + i)), [""; 0]);
        assert_eq!(noted(TYPE_HARDWARE, std::iter::empty()), [""; 0]);
    }
}
