//! Compares weights with a plain loop.

use super::*;
use crate::query::staged::Staged;
use proptest::prelude::*;

fn by(cpu: bool) -> &'static [ColumnKey] {
    if cpu { &[ColumnKey::Cpu] } else { &[] }
}

/// One sample per second, each with its own site.
fn recorded(n: u64) -> Staged {
    let mut staged = Staged::default();
    (0..n).for_each(|i| staged.sample((i + 1) * 1_000_000_000, i as i32, &[], 1000));
    staged
}

fn decaying(half_life: Option<u64>) -> Aggregate {
    Aggregate::of(SampleSelection { half_life, ..SampleSelection::default() }, None)
}

#[test]
fn a_sample_counts_half_after_its_half_life() {
    let staged = recorded(5);
    let data = staged.data();
    let mut at_once = decaying(Some(1_000_000_000));
    at_once.update(data, 0..u64::MAX);
    let periods = |fold: &Aggregate| fold.sites().iter().map(|(_, site, acc)| (*site, acc.period)).collect::<Vec<_>>();
    // The oldest ones have less than half a sample left.
    assert_eq!(periods(&at_once), [(3, 500), (4, 1000)]);
    assert_eq!(at_once.total(), Acc { samples: 2, period: 1937 });
    let mut piecemeal = decaying(Some(1_000_000_000));
    (1..=5).for_each(|until| piecemeal.update(data, 0..until));
    assert_eq!(periods(&piecemeal), periods(&at_once));
}

#[test]
fn what_decays_is_shown_in_whole_samples() {
    let staged = recorded(5);
    let data = staged.data();
    let whole = [Acc::default(), Acc::default(), Acc { samples: 0, period: 250 }, Acc { samples: 1, period: 500 }];
    for by_cpu in [false, true] {
        let mut fold = decaying(Some(1_000_000_000)).group_by(by(by_cpu));
        fold.update(data, 0..u64::MAX);
        assert_eq!((fold.by_site()[2..4].to_vec(), fold.by_site()[4]), (whole[2..].to_vec(), Acc::one(1000)));
        let mut fold = Aggregate::new(0, None).group_by(by(by_cpu));
        fold.update(data, 0..u64::MAX);
        assert_eq!(*fold.by_site(), [Acc::one(1000); 5]);
        assert_eq!(matches!(fold.by_site(), Cow::Borrowed(_)), !by_cpu, "copied without need");
    }
}

/// More than a float can hold: a weight without decay is not rounded.
#[test]
fn what_has_not_aged_is_exact() {
    let mut staged = Staged::default();
    [1 << 53, 1].into_iter().for_each(|weight| staged.sample(9, 1, &[], weight));
    let data = staged.data();
    let mut fold = decaying(Some(1_000));
    (1..=2).chain([2]).for_each(|until| fold.update(data, 0..until));
    assert_eq!(fold.total(), Acc { samples: 2, period: (1 << 53) + 1 });
}

/// The first samples that pass a filter do not age what is already there.
#[test]
fn changes_of_weights_that_decay_are_not_followed() {
    let staged = recorded(4);
    let mut fold = decaying(Some(1_000_000_000));
    for (until, is_changed) in [(0, true), (0, false), (2, true), (2, false), (4, true)] {
        fold.update(staged.data(), 0..until);
        let changes = fold.take_changes();
        assert_eq!((changes.full_rebuild, changes.is_empty()), (is_changed, !is_changed), "{until}");
    }
}

#[test]
fn what_decays_is_not_taken_out() {
    let second = 1_000_000_000;
    let staged = recorded(4);
    let data = staged.data();
    let mut fold = decaying(Some(second));
    fold.update(data, 0..3);
    fold.update(data, 3..4);
    assert_eq!(fold.total(), Acc { samples: 2, period: 1875 });
    let n = crate::profile::CHUNK as u64 + 1;
    let mut staged = recorded(n);
    let mut fold = decaying(Some(n * second));
    fold.update(staged.data(), 0..n);
    let before = fold.total();
    let chunk = staged.profile.evict().expect("a full one");
    fold.forget(staged.data(), &chunk);
    assert!(before.samples > n / 2 && fold.total() == before, "{before:?}");
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn a_moving_window(steps in proptest::collection::vec((-3i64..9, -3i64..9), 1..20)) {
        let staged = recorded(60);
        let data = staged.data();
        let (mut kept, mut from, mut until) = (Aggregate::new(0, None), 0u64, 0u64);
        for (a, b) in steps {
            (from, until) = (from.saturating_add_signed(a), until.saturating_add_signed(b));
            let mut fresh = Aggregate::new(0, None);
            kept.update(data, from..until);
            fresh.update(data, from..until);
            if from <= until {
                prop_assert_eq!(kept.sites(), fresh.sites());
                prop_assert_eq!(kept.total(), fresh.total());
            }
        }
    }
}

/// Samples of two events on three CPUs and two processes. Each one's weight is its number.
fn mixed(n: u64) -> Staged {
    let mut staged = Staged::default();
    let sites = [1, 2].map(|pid| staged.site(pid, &[]));
    let site = |i: u64| sites[(i / 3 % 2) as usize];
    (0..n).for_each(|i| staged.profile.push(i + 1, site(i), i, (i % 3) as u16, (i % 5 == 0) as u16));
    staged
}

/// The same in a plain loop: (CPU, site) to (samples, period).
fn by_hand(range: Range<u64>, by_cpu: bool, keep: impl Fn(u64) -> bool) -> Vec<(u32, u32, Acc)> {
    let mut sums: std::collections::BTreeMap<(u32, u32), Acc> = Default::default();
    for i in range.filter(|i| i % 5 != 0 && keep(*i)) {
        let cpu = if by_cpu { (i % 3) as u32 } else { 0 };
        *sums.entry((cpu, (i / 3 % 2) as u32)).or_default() += Acc::one(i);
    }
    sums.into_iter().map(|((cpu, site), acc)| (cpu, site, acc)).collect()
}

fn sum<'a>(list: impl IntoIterator<Item = &'a (u32, u32, Acc)>) -> Acc {
    list.into_iter().map(|(_, _, acc)| *acc).sum()
}

fn check(fold: &Aggregate, want: &[(u32, u32, Acc)]) {
    assert_eq!(fold.sites(), want);
    assert_eq!(fold.total(), sum(want));
    for (site, acc) in fold.by_site().iter().enumerate() {
        assert_eq!(*acc, sum(want.iter().filter(|(_, s, _)| *s as usize == site)));
    }
}

#[test]
fn many_samples_are_shared_among_threads() {
    let n = PARALLEL as u64 + 50_000;
    let staged = mixed(n);
    let data = staged.data();
    for by_cpu in [false, true] {
        let mut fold = Aggregate::new(0, None).group_by(by(by_cpu));
        fold.update(data, 0..u64::MAX);
        check(&fold, &by_hand(0..n, by_cpu, |_| true));
        let filter = Arc::new(Filter::parse("cpu == 1 && pid == 2").expect("parses"));
        let mut fold = Aggregate::new(0, Some(filter)).group_by(by(by_cpu));
        fold.update(data, 0..u64::MAX);
        check(&fold, &by_hand(0..n, by_cpu, |i| i % 3 == 1 && i / 3 % 2 == 1));
    }
}

#[test]
fn what_was_evicted_is_taken_out() {
    const CHUNK: u64 = crate::profile::CHUNK as u64;
    let n = 3 * CHUNK + 100;
    for (range, by_cpu) in
        [(0..u64::MAX, false), (0..u64::MAX, true), (50..2 * CHUNK + 7, false), (CHUNK + 9..n, false), (0..40, true)]
    {
        let mut staged = mixed(n);
        let mut fold = Aggregate::new(0, None).group_by(by(by_cpu));
        fold.update(staged.data(), range.clone());
        for chunks in 1..=3u64 {
            let chunk = staged.profile.evict().expect("a full one");
            let data = staged.data();
            fold.forget(data, &chunk);
            let left = range.start.max(chunks * CHUNK)..range.end.min(n);
            check(&fold, &by_hand(left.clone(), by_cpu, |_| true));
            // Counting continues from there.
            fold.update(data, range.clone());
            check(&fold, &by_hand(left, by_cpu, |_| true));
        }
    }
}

#[test]
fn only_some_times_count() {
    let staged = mixed(300);
    let data = staged.data();
    for window in [0..10, 10..20, 20..20, 299..400, 301..500, 300..301] {
        let mut fold =
            Aggregate::of(SampleSelection { window: Some(window.clone()), ..SampleSelection::default() }, None);
        fold.update(data, 0..u64::MAX);
        check(&fold, &by_hand(0..300, false, |i| window.contains(&(i + 1))));
    }
}

#[test]
fn selections_differ_by_what_is_counted() {
    let filter = |text: &str| Some(Arc::new(Filter::parse(text).expect("parses")));
    let field = crate::query::column::traced("sched_switch.next_comm");
    let of = |event, filter: Option<Arc<Filter>>, half_life, keys: &[ColumnKey]| {
        let of = CountedSamples { event, wall: None };
        SampleSelection { of, filter, half_life, ..SampleSelection::default() }.group_by(keys)
    };
    let (a, by_cpu) = (filter("pid == 1"), &[ColumnKey::Cpu][..]);
    let one = of(1, a.clone(), Some(5), by_cpu);
    assert_eq!(one, of(1, filter("pid == 1"), Some(5), &[ColumnKey::Sym, ColumnKey::Cpu]));
    for other in [
        of(0, a.clone(), Some(5), by_cpu),
        of(1, filter("pid == 2"), Some(5), by_cpu),
        of(1, None, Some(5), by_cpu),
        of(1, a.clone(), Some(5), &[]),
        of(1, a.clone(), Some(5), &[ColumnKey::Cpu, field]),
        of(1, a.clone(), None, by_cpu),
        of(1, a.clone(), Some(6), by_cpu),
        SampleSelection { window: Some(0..9), ..one.clone() },
    ] {
        assert_ne!(one, other);
    }
    let fold = Aggregate::of(one.clone(), None);
    let partner = Aggregate::of_event(2, &fold.group_by(&[ColumnKey::Cpu, field]));
    assert_eq!(partner.selection, SampleSelection { of: CountedSamples { event: 2, wall: None }, ..one });
    assert_eq!(partner.evaluator.map(|evaluator| evaluator.filter().clone()), a);
}

#[test]
fn after_compaction_all_is_counted_anew() {
    const CHUNK: u64 = crate::profile::CHUNK as u64;
    let mut staged = mixed(CHUNK + 2);
    let filter = Arc::new(Filter::parse("pid == 2").expect("parses"));
    let mut fold = Aggregate::new(0, Some(filter));
    fold.update(staged.data(), 0..u64::MAX);
    let chunk = staged.profile.evict().expect("a full one");
    staged.profile.compact(&mut staged.session);
    let data = staged.data();
    fold.forget(data, &chunk);
    fold.update(data, 0..u64::MAX);
    let want: u64 = (CHUNK..CHUNK + 2).filter(|i| i % 5 != 0 && i / 3 % 2 == 1).sum();
    assert!(want > 0 && fold.total().period == want, "{want}");
}
