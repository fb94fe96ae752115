//! Tests of attachments on a scripted kernel: fallbacks, errors and their remedies, opening and closing of events.

use super::*;
use crate::kernel::attr::{SW_BPF_OUTPUT, SW_DUMMY, TYPE_SOFTWARE};
use crate::kernel::fake::FakeSys;
use crate::record::in_place::u64_at;
use crate::record::kinds::HEADER;
use crate::source::live::attr::Rate;
use crate::source::live::attr::tests::COMMON;
use crate::source::{Batch, RunState};

const ALL: EventTarget = EventTarget::Task(-1);

pub(crate) fn rights(paranoid: i64) -> Rights {
    Rights { kptr_restrict: 0, shut_out: paranoid > 2, ..Rights::staged(paranoid, 0) }
}

pub(crate) fn attachment(sys: FakeSys, events: Vec<Event>, paranoid: i64) -> Attachment {
    let common = CommonAttrs { inherit: false, tasks: false, ..COMMON };
    Attachment::new(Box::new(sys), rights(paranoid), events, common, 64, false)
}

fn is_dummy(attr: &Attr) -> bool {
    attr.kind == TYPE_SOFTWARE && attr.config == SW_DUMMY
}

#[test]
fn without_a_pmu_cycles_become_cpu_clock() {
    for errno in [Errno::NOENT, Errno::OPNOTSUPP, Errno::NODEV] {
        let sys = FakeSys::new(move |attr, _, _| if attr.kind == TYPE_HARDWARE { Err(errno) } else { Ok(()) });
        let mut a = attachment(sys, vec![Event::cycles()], 0);
        assert_eq!(a.open(0, ALL), Ok(true));
        assert_eq!(a.slots[0].event.name, "cpu-clock");
        assert!(a.slots[0].note.as_ref().is_some_and(|n| n.contains("cycles")));
        assert_eq!(a.fresh_ids.len(), 2, "the event's and the dummy's");
    }
}

#[test]
fn a_period_of_cycles_is_none_of_nanoseconds() {
    for (cycles, ns) in [(300_000, 100_000), (1_000, SHORTEST_NS)] {
        let sys = FakeSys::new(|attr, _, _| if attr.kind == TYPE_HARDWARE { Err(Errno::NOENT) } else { Ok(()) });
        let mut a = attachment(sys, vec![Event::cycles()], 0);
        a.common.rate = Rate::Period(cycles);
        assert_eq!(a.open(0, ALL), Ok(true));
        assert_eq!(a.attr(0).period_or_freq, ns);
        let note = a.slots[0].note.clone().unwrap_or_default();
        assert!(note.ends_with(&format!("{cycles} cycles {} µs", ns / 1000)), "{note}");
    }
}

#[test]
fn a_cpu_that_went_offline_meanwhile_is_skipped() {
    let at =
        |ring: bool| FakeSys::new(move |attr, _, _| if is_dummy(attr) == ring { Err(Errno::NODEV) } else { Ok(()) });
    for ring in [false, true] {
        assert_eq!(attachment(at(ring), vec![Event::cpu_clock()], 0).open(4095, ALL), Ok(false));
        assert!(attachment(at(ring), vec![Event::cpu_clock()], 0).open(0, ALL).is_err(), "it is online");
    }
}

/// The kernel opens events of tasks on a CPU that is offline, but not the event that the walking program writes to.
#[test]
fn a_cpu_that_goes_offline_before_its_walks_is_skipped() {
    let open = |by_tables: bool, cpu: u32| {
        let is_walks = |attr: &Attr| attr.kind == TYPE_SOFTWARE && attr.config == SW_BPF_OUTPUT;
        let sys = FakeSys::new(move |attr, _, _| if is_walks(attr) { Err(Errno::NODEV) } else { Ok(()) });
        let mut a = attachment(sys, vec![Event::cpu_clock()], 0);
        a.walks = Some(StackWalks::staged(by_tables));
        (a.open(cpu, ALL).map_err(drop), a.walks.is_some(), a.rings.contains_key(&cpu))
    };
    for by_tables in [true, false] {
        assert_eq!(open(by_tables, 4095), (Ok(false), true, false));
    }
    // CPU 0 is online: copied stacks work without the program.
    assert_eq!(open(true, 0), (Err(()), true, false));
    assert_eq!(open(false, 0), (Ok(true), false, true));
}

/// The next program counts from 0.
#[test]
fn stacks_that_were_lost_count_after_the_program_that_lost_them() {
    let mut a = attachment(FakeSys::new(|_, _, _| Ok(())).losing(100), vec![Event::cpu_clock()], 0);
    assert_eq!(a.open(0, ALL), Ok(true));
    let missing = |a: &mut Attachment| {
        let losses = a.counts().losses;
        let mut batch = Batch::default();
        a.report_losses(&losses, &mut batch);
        u64_at(&batch.bytes, HEADER + 8)
    };
    // The event, the owner of the ring, and the listener for the kernel's code.
    assert_eq!(missing(&mut a), Some(300));
    let writer = std::fs::File::open("/dev/null").expect("there").into();
    a.walks = Some(StackWalks::staged(true).with_writer(0, writer));
    assert_eq!(missing(&mut a), Some(100));
    for _ in 0..2 {
        let writer = std::fs::File::open("/dev/null").expect("there").into();
        assert!(a.detach_walks().is_some());
        assert_eq!(missing(&mut a), None);
        a.walks = Some(StackWalks::staged(true).with_writer(0, writer));
        assert_eq!(missing(&mut a), Some(100), "of the next program");
    }
}

#[test]
fn the_most_precision_is_what_the_cpu_has_and_a_number_of_it_is_that_or_nothing() {
    let open = |name: &str, letters: &str| {
        let mut event = Event::cycles();
        event.name = name.to_owned();
        event.set_modifiers(letters).expect("modifiers");
        let sys = FakeSys::new(|attr, _, _| if attr.precise() > 1 { Err(Errno::OPNOTSUPP) } else { Ok(()) });
        let mut a = attachment(sys, vec![event], 0);
        let opened = a.open(0, ALL);
        (opened.map_err(|error| error.to_string()), a.slots[0].event.attr.precise(), a.slots[0].note.clone())
    };
    for name in ["cycles", "cpu/cycles/"] {
        assert_eq!(open(name, "P"), (Ok(true), 1, None));
    }
    assert_eq!(open("cycles", "p"), (Ok(true), 1, None));
    for (name, letters) in [("cycles", "pp"), ("cycles", "uppp"), ("cpu/cycles/", "pp")] {
        let refused = open(name, letters).0.expect_err("refused");
        assert!(refused.contains("does not sample it as precisely") && refused.contains(name), "{refused}");
    }
}

#[test]
fn an_old_kernel_gets_the_features_that_it_knows() {
    let sys = FakeSys::new(|attr, _, _| if attr.read_format & 16 != 0 { Err(Errno::INVAL) } else { Ok(()) });
    let mut a = attachment(sys, vec![Event::cpu_clock()], 0);
    assert_eq!(a.open(0, ALL), Ok(true));
    assert_eq!(a.have, KernelFeatures { deferred: false, lost: false, ..KernelFeatures::default() });
    assert_eq!(a.counts().counts.of[0].lost, 0);
}

#[test]
fn the_kernels_code_is_listened_to_beside_each_dummy_where_the_kernel_knows_how() {
    for (known, by_task) in [(true, false), (true, true), (false, false), (false, true)] {
        let sys = FakeSys::new(move |attr, _, _| {
            let listens = attr.has(Flag::Ksymbol) || attr.has(Flag::BpfEvent);
            assert!(!(listens && attr.has(Flag::SampleIdAll)), "others' records would grow");
            if listens && !known { Err(Errno::INVAL) } else { Ok(()) }
        });
        let mut a = attachment(sys, vec![Event::cpu_clock()], 0);
        a.by_task = by_task;
        let whos = if by_task { [7, 8].map(EventTarget::Task).to_vec() } else { vec![ALL] };
        for (cpu, who) in [0, 1].into_iter().flat_map(|cpu| whos.iter().map(move |who| (cpu, *who))) {
            assert_eq!(a.open(cpu, who), Ok(true));
        }
        let dummies = a.opened.iter().filter(|open| open.event.is_none()).count();
        // The owner of a ring is the dummy of its first task.
        let own = 2 * (whos.len() - 1);
        assert_eq!(dummies, own + if known { 2 * whos.len() } else { 0 }, "{known} {by_task}");
        assert_eq!((a.have.ksymbol, a.have.cgroup), (known, true));
        let reported = 2 * whos.len() * 2;
        assert_eq!(a.fresh_ids.len(), reported, "of events and of dummies with sample ids");
    }
}

#[test]
fn an_event_that_is_refused_takes_nothing_from_the_others() {
    let sys = FakeSys::new(|attr, _, _| if attr.kind == TYPE_BREAKPOINT { Err(Errno::INVAL) } else { Ok(()) });
    let mut a = attachment(sys, vec![Event::cpu_clock()], 0);
    assert_eq!(a.open(0, ALL), Ok(true));
    let mut event = Event::cpu_clock();
    event.attr.kind = TYPE_BREAKPOINT;
    a.slots.push(Slot::new(event));
    assert!(a.reopen(&[1], &[ALL]).is_err());
    assert_eq!(a.have, KernelFeatures::default(), "losses are still counted");
}

#[test]
fn without_rights_to_the_kernel_user_code_is_sampled() {
    let sys = FakeSys::new(|attr, _, _| if attr.has(Flag::ExcludeKernel) { Ok(()) } else { Err(Errno::ACCESS) });
    let mut a = attachment(sys, vec![Event::cpu_clock()], 2);
    a.by_task = true;
    assert_eq!(a.open(0, EventTarget::Task(7)), Ok(true));
    assert!(a.notes[0].contains("user code only") && a.notes.len() == 1);
    assert_eq!(a.states()[0].name, "cpu-clock:u");
}

/// If kernel code is denied, the name of an event, or of the timer in its place, shows :u.
#[test]
fn names_say_where_only_user_code_is_sampled() {
    let names = |text: &str, paranoid| {
        let sys = FakeSys::new(move |attr, _, _| match attr.kind {
            TYPE_HARDWARE => Err(Errno::NOENT),
            _ if paranoid > 1 && !attr.has(Flag::ExcludeKernel) => Err(Errno::ACCESS),
            _ => Ok(()),
        });
        let events = crate::event::parse(text, &crate::event::spec::LookupPaths::system()).expect("events");
        let mut a = attachment(sys, events, paranoid);
        a.by_task = true;
        a.open(0, EventTarget::Task(7)).map(|_| a.states().into_iter().map(|s| s.name).collect::<Vec<_>>().join(" "))
    };
    let named = [
        ("cycles", "cpu-clock", "cpu-clock:u"),
        ("cycles:u", "cpu-clock:u", "cpu-clock:u"),
        ("cycles:upp", "cpu-clock:u", "cpu-clock:u"),
        ("cycles:H", "cpu-clock:H", "cpu-clock:Hu"),
        ("cycles/name=q/u", "cpu-clock:u", "cpu-clock:u"),
        ("cpu-clock/name=q/", "q", "q:u"),
        ("cpu-clock/period=7/,cs", "cpu-clock/period=7/ cs", "cpu-clock/period=7/u cs:u"),
        ("dummy", "dummy", "dummy"),
    ];
    for (text, root, anybody) in named {
        assert_eq!(names(text, 0).as_deref(), Ok(root), "{text}");
        assert_eq!(names(text, 2).as_deref(), Ok(anybody), "{text}");
    }
    assert_eq!(names("cycles:k", 0).as_deref(), Ok("cpu-clock:k"));
    // An event of kernel code alone has nothing left to sample.
    for text in ["cycles:k", "cpu-clock,cs:k"] {
        let why = names(text, 2).expect_err("refused").to_string();
        assert!(why.contains("event c") && why.contains("perf_event_paranoid is 2"), "{why}");
        assert!(!why.contains("dummy") && !why.contains("tracepoints"), "{why}");
    }
}

#[test]
fn each_errno_is_an_error_with_a_remedy() {
    for (errno, paranoid, words) in [
        (Errno::ACCESS, 2, "perf_event_paranoid is 2"),
        (Errno::PERM, 3, "only root may use perf events"),
        (Errno::MFILE, 0, "ulimit -n"),
        (Errno::INVAL, 0, "does not accept these settings"),
        (Errno::NOSPC, 0, "the kernel says"),
        (Errno::BUSY, 0, "exclusively"),
        (Errno::TOOBIG, 0, "the kernel says"),
    ] {
        let sys = FakeSys::new(move |attr, _, _| if is_dummy(attr) { Ok(()) } else { Err(errno) });
        let error = attachment(sys, vec![Event::cpu_clock()], paranoid).open(0, ALL).expect_err("refused");
        assert!(error.to_string().contains(words), "{errno:?}: {error}");
    }
    let sys = FakeSys::new(|attr, _, _| if attr.has(Flag::Freq) { Err(Errno::INVAL) } else { Ok(()) });
    let mut a = attachment(sys, vec![Event::cpu_clock()], 0);
    a.common.rate = Rate::Frequency(200_000);
    assert!(a.open(0, ALL).expect_err("too fast").to_string().contains("perf_event_max_sample_rate"));
    let sys = FakeSys::new(|attr, _, _| if attr.kind == TYPE_BREAKPOINT { Err(Errno::NOSPC) } else { Ok(()) });
    let mut event = Event::cpu_clock();
    event.attr.kind = TYPE_BREAKPOINT;
    assert!(attachment(sys, vec![event], 0).open(0, ALL).expect_err("slots").to_string().contains("x86 has 4"));
}
use crate::kernel::attr::TYPE_BREAKPOINT;

#[test]
fn one_event_takes_over_from_another_and_paused_ones_stay_so() {
    let sys = FakeSys::new(|attr, _, _| if attr.period_or_freq == 7 { Err(Errno::INVAL) } else { Ok(()) });
    let log = sys.log.clone();
    let mut a = attachment(sys, vec![Event::cpu_clock(), Event::cpu_clock()], 0);
    assert_eq!(a.open(2, ALL), Ok(true));
    let id = |a: &Attachment, slot| a.opened.iter().find(|o| o.event == Some(slot)).expect("open").id;
    let (first, second) = (id(&a, 0), id(&a, 1));
    a.pause(1, true);
    log.lock().clear();
    let handover = a.reopen(&[1], &[ALL]).expect("reopened");
    assert_eq!((handover.old, handover.new, id(&a, 0)), (vec![second], vec![id(&a, 1)], first));
    assert!(!log.lock().iter().any(|l| l == "enable"), "it was resting");
    a.pause(1, false);
    assert_eq!((a.slots[1].run.clone(), log.lock().last().cloned()), (RunState::Running, Some("enable".into())));
    a.slots[1].event.attr.period_or_freq = 7;
    let now = id(&a, 1);
    assert!(a.reopen(&[1], &[ALL]).is_err());
    assert_eq!((id(&a, 0), id(&a, 1), a.opened.len()), (first, now, 3), "as it was, with the dummy that listens");
    a.slots[1].run = RunState::Stopped;
    assert_eq!(a.reopen(&[1], &[ALL]).map(|h| (h.old, h.new)), Ok((vec![now], Vec::new())));
    a.slots[0].event.cpus = Some(vec![5]);
    assert_eq!(a.reopen(&[0], &[ALL]).map(|h| h.old), Ok(vec![first]));
    assert!(a.opened.iter().all(|open| open.event.is_none()), "no CPU of its own is sampled");
}

#[test]
fn rings_shrink_under_the_memory_limit() {
    let mut a = attachment(FakeSys::new(|_, _, _| Ok(())).max_pages(16), vec![Event::cpu_clock()], 0);
    assert_eq!(a.open(0, ALL), Ok(true));
    assert_eq!((a.pages, a.notes.len()), (16, 1));
    // The memory that the kernel grants two CPUs: -m 512 must leave enough for the second ring.
    let two = 2 * 516 * 1024 / rustix::param::page_size();
    let mut a = attachment(FakeSys::new(|_, _, _| Ok(())).budget(two), vec![Event::cpu_clock()], 0);
    a.pages = 512;
    assert_eq!([a.open(0, ALL), a.open(1, ALL)], [Ok(true), Ok(true)]);
    let share = a.rights.ring_share();
    assert_eq!(
        (a.pages, a.notes.len(), a.common.watermark as usize),
        (share, 1, share * rustix::param::page_size() / 2)
    );
    let mut a = attachment(FakeSys::new(|_, _, _| Ok(())).max_pages(2), vec![Event::cpu_clock()], 0);
    assert!(a.open(0, ALL).expect_err("too small").to_string().contains("perf_event_mlock_kb"));
}

#[test]
fn a_thread_that_ended_is_skipped() {
    let sys = FakeSys::new(|_, pid, _| if pid == 9 { Err(Errno::SRCH) } else { Ok(()) });
    let mut a = attachment(sys, vec![Event::cpu_clock()], 0);
    a.by_task = true;
    assert_eq!(a.open(0, EventTarget::Task(9)), Ok(false));
    assert_eq!(a.open(0, EventTarget::Task(8)), Ok(true));
    assert_eq!(a.open(0, EventTarget::Task(9)), Ok(false));
}

#[test]
fn a_group_has_its_first_event_as_leader_and_one_ring() {
    let sys = FakeSys::new(|_, _, _| Ok(()));
    let log = sys.log.clone();
    let group = |mut e: Event| {
        e.group = Some(1);
        e
    };
    let mut a = attachment(sys, vec![group(Event::cpu_clock()), group(Event::cpu_clock())], 0);
    assert_eq!(a.open(3, ALL), Ok(true));
    let log = log.lock();
    assert_eq!(log.iter().filter(|l| l.starts_with("map")).count(), 1);
    assert_eq!(log.iter().filter(|l| *l == "set_output").count(), 3, "theirs and that of the dummy that listens");
}
