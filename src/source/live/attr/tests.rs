//! Tests of attrs for requested settings.

use super::*;
use crate::event::callgraph::STACK;
use crate::kernel::walk::Hook;

pub(crate) const COMMON: CommonAttrs = CommonAttrs {
    rate: Rate::Frequency(999),
    chains: CallGraph::Fp,
    tables: true,
    copies: false,
    exclude: Exclude { kernel: false, user: false, guest: false, idle: false },
    inherit: true,
    tasks: true,
    watermark: 4096,
    enable_on_exec: false,
    cgroups: true,
    extras: Extras {
        fields: 0,
        kernel_chains_only: false,
        user_chains_only: false,
        deferred: false,
        defers_fp: false,
        switches: false,
        namespaces: false,
        no_bpf: false,
        thread_counts: false,
        branches: 0,
        intr_regs: 0,
        user_regs: 0,
        call_regs: 0,
    },
};

/// Like perf, ignores the modes in the event's own name.
#[test]
fn what_all_are_of_each_is_of_whatever_it_says_itself() {
    let flags = |exclude: Exclude, own: &[Flag]| {
        let mut attr = Attr::default();
        own.iter().for_each(|flag| attr.set(*flag, true));
        exclude.apply(&mut attr);
        [Flag::ExcludeKernel, Flag::ExcludeUser, Flag::ExcludeIdle].map(|flag| attr.has(flag))
    };
    let (user, kernel) = (Exclude { kernel: true, ..Exclude::default() }, Exclude { user: true, ..Exclude::default() });
    for own in [&[][..], &[Flag::ExcludeKernel], &[Flag::ExcludeUser]] {
        assert_eq!(flags(user, own), [true, false, false], "{own:?}");
        assert_eq!(flags(kernel, own), [false, true, false], "{own:?}");
    }
    let none = Exclude::default();
    assert_eq!(flags(none, &[Flag::ExcludeUser, Flag::ExcludeIdle]), [false, true, true]);
    assert_eq!(flags(Exclude { idle: true, ..none }, &[Flag::ExcludeKernel]), [true, false, true]);
}

#[test]
fn branches_are_asked_of_a_pmu_and_counts_of_threads_that_are_followed() {
    let asked = |branches, thread_counts, inherit, what: &Event| {
        let extras = Extras { branches, thread_counts, ..COMMON.extras };
        event(what, &CommonAttrs { extras, inherit, ..COMMON }, KernelFeatures::default())
    };
    let cycles = asked(0b1001, true, true, &Event::cycles());
    assert!(cycles.sample_type & sample::BRANCH_STACK != 0 && cycles.branch_sample_type == 0b1001);
    assert!(cycles.has(Flag::InheritStat));
    let clock = asked(0b1001, true, false, &Event::cpu_clock());
    assert_eq!((clock.sample_type & sample::BRANCH_STACK, clock.branch_sample_type), (0, 0));
    assert!(!clock.has(Flag::InheritStat), "no thread is followed");
    assert_eq!(asked(0, false, true, &Event::cycles()).branch_sample_type, 0);
}

#[test]
fn registers_are_asked_for_beside_those_that_stacks_are_unwound_with() {
    let of = |chains| {
        let common =
            CommonAttrs { extras: Extras { intr_regs: 5, user_regs: 1 << 40, ..COMMON.extras }, chains, ..COMMON };
        event(&Event::cpu_clock(), &common, KernelFeatures::default())
    };
    let (plain, copied) = (of(CallGraph::None), of(CallGraph::Dwarf(8192)));
    assert_eq!((plain.regs_intr, plain.regs_user), (5, 1 << 40));
    let both = sample::REGS_USER | sample::REGS_INTR;
    assert_eq!((plain.sample_type & both, copied.regs_user), (both, REGS_USER | 1 << 40));
    let none = event(&Event::cpu_clock(), &COMMON, KernelFeatures::default());
    assert_eq!((none.sample_type & sample::REGS_INTR, none.regs_intr), (0, 0));
    let common = CommonAttrs { extras: Extras { call_regs: 4, ..COMMON.extras }, ..COMMON };
    let traced = |name: &str| {
        let tracepoint = Some(("raw_syscalls".to_owned(), name.to_owned()));
        let attr = event(&Event { tracepoint, ..Event::cpu_clock() }, &common, KernelFeatures::default());
        (attr.regs_user, attr.sample_type & sample::REGS_USER)
    };
    assert_eq!([traced("sys_enter"), traced("sys_exit")], [(REGS_LINK | 4, sample::REGS_USER), traced("other")]);
}

#[test]
fn clocks_have_a_frequency_and_tracepoints_take_every_hit() {
    let clock = event(&Event::cpu_clock(), &COMMON, KernelFeatures::default());
    assert!(clock.has(Flag::Freq) && clock.period_or_freq == 999 && clock.sample_type & sample::CALLCHAIN != 0);
    let mut tp = Event::cpu_clock();
    tp.attr.kind = TYPE_TRACEPOINT;
    let seldom = |mut e: Event| {
        e.attr.period_or_freq = 10;
        event(&e, &COMMON, KernelFeatures::default()).sample_type & sample::PERIOD
    };
    assert_eq!((seldom(tp.clone()), seldom(Event::cpu_clock())), (0, sample::PERIOD));
    let tp = event(&tp, &COMMON, KernelFeatures::default());
    assert_eq!(tp.sample_type & sample::PERIOD, sample::PERIOD);
    assert!(!tp.has(Flag::Freq) && tp.period_or_freq == 1 && tp.sample_type & sample::RAW != 0);
}

#[test]
fn all_newer_features_can_be_given_up() {
    let mut have = KernelFeatures::default();
    let mut steps = 0;
    while let Some(less) = have.less() {
        have = less;
        steps += 1;
    }
    assert_eq!(steps, 3);
    let dummy = owner(&COMMON, have);
    assert!(!dummy.has(Flag::Cgroup) && dummy.has(Flag::Mmap2));
}

#[test]
fn recordings_defer_chains_that_are_not_walked_by_tables() {
    let of = |chains, extras: Extras, have| {
        let common = CommonAttrs { chains, tables: false, extras: Extras { deferred: true, ..extras }, ..COMMON };
        let sampled = event(&Event::cpu_clock(), &common, have);
        (sampled.has(Flag::DeferCallchain), owner(&common, have).has(Flag::DeferOutput))
    };
    let (have, none) = (KernelFeatures::default(), COMMON.extras);
    assert_eq!(of(CallGraph::Fp, none, have), (true, true));
    assert_eq!(of(CallGraph::Dwarf(8192), none, have), (false, true));
    assert_eq!(of(CallGraph::Fp, Extras { kernel_chains_only: true, ..none }, have), (false, true));
    assert_eq!(of(CallGraph::Fp, none, have.less().expect("less")), (false, false));
    let plain = event(&Event::cpu_clock(), &CommonAttrs { tables: false, ..COMMON }, have);
    assert!(!plain.has(Flag::DeferCallchain) && !owner(&COMMON, have).has(Flag::DeferOutput));
}

#[test]
fn who_listens_to_the_kernels_code_asks_for_no_sample_ids() {
    let mut patched = Event::cpu_clock();
    patched.attr.set(Flag::TextPoke, true);
    let events = [patched, Event::cpu_clock()];
    let events = events.map(|asked| opened(event(&asked, &COMMON, KernelFeatures::default())));
    let all = [owner(&COMMON, KernelFeatures::default()), listener(&COMMON, KernelFeatures::default())]
        .into_iter()
        .chain(events);
    let listens = |attr: &Attr| [Flag::Ksymbol, Flag::BpfEvent, Flag::TextPoke].iter().any(|flag| attr.has(*flag));
    let (loud, silent): (Vec<Attr>, Vec<Attr>) = all.partition(listens);
    assert_eq!((loud.len(), silent.len()), (2, 2));
    assert!(!loud.iter().any(|attr| attr.has(Flag::SampleIdAll)));
    assert!(silent.iter().all(|attr| attr.has(Flag::SampleIdAll)));
    let no_bpf = CommonAttrs { extras: Extras { no_bpf: true, ..COMMON.extras }, ..COMMON };
    let listener = listener(&no_bpf, KernelFeatures::default());
    assert!(!listener.has(Flag::BpfEvent) && listener.has(Flag::Ksymbol));
}

#[test]
fn rings_grow_with_the_rate() {
    let events = [Event::cpu_clock()];
    let kb = |hz| ring_pages(Rate::Frequency(hz), &events, CallGraph::Fp) * rustix::param::page_size() / 1024;
    assert_eq!((kb(99), kb(999), kb(9_999), kb(49_999)), (512, 512, 2048, 2048));
}

#[test]
fn an_events_own_terms_hold_for_it_alone() {
    let places = crate::event::spec::LookupPaths::system();
    let of = |terms: &str, chains, inherit| {
        let asked = crate::event::parse(&format!("cpu-clock/{terms}/"), &places).expect(terms);
        event(&asked[0], &CommonAttrs { chains, inherit, ..COMMON }, KernelFeatures::default())
    };
    let own = of("freq=99,call-graph=dwarf,stack-size=4096,no-inherit", CallGraph::None, true);
    assert!(own.has(Flag::Freq) && own.period_or_freq == 99 && !own.has(Flag::Inherit));
    assert_eq!((own.stack_user, own.sample_type & sample::STACK_USER), (4096, sample::STACK_USER));
    assert!(own.has(Flag::ExcludeCallchainUser) && !own.has(Flag::ExcludeCallchainKernel));
    let bare = of("call-graph=no,period=1000", CallGraph::Dwarf(8192), false);
    assert_eq!((bare.period_or_freq, bare.sample_type & (sample::CALLCHAIN | sample::STACK_USER)), (1000, 0));
    assert!(!bare.has(Flag::Freq));
    let short = of("max-stack=3,inherit", CallGraph::None, false);
    assert!(short.max_stack == 3 && short.sample_type & sample::CALLCHAIN != 0 && short.has(Flag::Inherit));
    assert_eq!(of("stack-size=64", CallGraph::Dwarf(8192), true).stack_user, 64);
    assert_eq!(of("max-stack=0", CallGraph::Fp, true).max_stack, 0);
    let branches = of("branch_type=any_call", CallGraph::Fp, true);
    assert_eq!(
        (branches.branch_sample_type, branches.sample_type & sample::BRANCH_STACK),
        (1 << 4, sample::BRANCH_STACK)
    );
}

/// A program walks by tables for events that request it, if available.
#[test]
fn tables_are_taken_where_something_walks_by_them() {
    let mut asked = Event::cpu_clock();
    asked.chains = Some(CallGraph::Auto);
    let of = |tables| way(&asked, &CommonAttrs { chains: CallGraph::None, tables, ..COMMON });
    assert_eq!((of(true), of(false)), (CallGraph::Tables, CallGraph::Fp));
    let session = CommonAttrs { chains: CallGraph::Tables, tables: true, ..COMMON };
    asked.chains = Some(CallGraph::Fp);
    assert!(!walks(&asked, &session) && walks(&Event::cpu_clock(), &session));
}

/// A program at the tracepoint walks where each hit has a sample.
#[test]
fn stacks_of_tracepoints_are_walked_at_the_tracepoint() {
    let session = CommonAttrs { chains: CallGraph::Tables, tables: true, copies: true, ..COMMON };
    let traced = |system: &str, name: &str| Event {
        tracepoint: Some((system.into(), name.into())),
        attr: Attr { kind: TYPE_TRACEPOINT, ..Attr::default() },
        for_units: true,
        ..Event::cpu_clock()
    };
    let at = |event: &Event| hook(event, &session);
    let switch = traced("sched", "sched_switch");
    assert_eq!(at(&switch), Some(Hook::Tracepoint("sched_switch".into())));
    assert_eq!(at(&traced("raw_syscalls", "sys_enter")), Some(Hook::Tracepoint("sys_enter".into())));
    let number = |name: &str| name.parse::<syscalls::Sysno>().map_or(0, |call| call.id() as u32);
    for (call, name) in [("read", "read"), ("newfstatat", "newfstatat"), ("newuname", "uname"), ("umount", "umount2")] {
        assert_eq!(at(&traced("syscalls", &format!("sys_enter_{call}"))), Some(Hook::Call("sys_enter", number(name))));
        assert_eq!(at(&traced("syscalls", &format!("sys_exit_{call}"))), Some(Hook::Call("sys_exit", number(name))));
    }
    assert_eq!(at(&traced("syscalls", "sys_enter_nonesuch")), None);
    let own = traced(&format!("perfprof_{}", std::process::id()), "malloc");
    assert_eq!(at(&own), Some(Hook::Probe(own.attr.config)));
    let filter = Some(crate::event::spec::Capture { trace: Some("a == 1".into()), ..Default::default() });
    assert_eq!(at(&Event { filter, ..switch.clone() }), None, "it would walk at hits without a sample");
    let mut seldom = switch.clone();
    seldom.set_rate(Rate::Period(100));
    assert_eq!(at(&seldom), None);
    assert_eq!(at(&Event { no_chains: true, ..switch.clone() }), None);
    assert_eq!(at(&Event { chains: Some(CallGraph::Fp), ..switch.clone() }), None);
    assert_eq!(hook(&switch, &CommonAttrs { tables: false, ..session }), None);
    assert_eq!(hook(&Event::cpu_clock(), &session), None);
    // Without the program, stacks of the target are copied.
    let walked = Event { is_walked: true, ..switch.clone() };
    assert_eq!([&switch, &walked].map(|event| way(event, &session)), [CallGraph::Dwarf(STACK), CallGraph::Tables]);
    assert_eq!([&switch, &walked].map(|event| walks(event, &session)), [false, true]);
}

/// Without a program at the tracepoint, units copy the stacks of their target.
#[test]
fn stacks_of_what_units_trace_are_copied_where_a_target_is_chosen() {
    let traced =
        Event { for_units: true, attr: Attr { kind: TYPE_TRACEPOINT, ..Attr::default() }, ..Event::cpu_clock() };
    let narrow = CommonAttrs { chains: CallGraph::Tables, copies: true, ..COMMON };
    let at = |event: &Event, common: &CommonAttrs| {
        (way(event, common), super::event(event, common, KernelFeatures::default()).stack_user)
    };
    assert_eq!(at(&traced, &narrow), (CallGraph::Dwarf(STACK), STACK));
    // The copies of all threads of a machine would cost too much.
    assert_eq!(at(&Event { machine_wide: true, ..traced.clone() }, &narrow).1, 0);
    // Not on the whole machine, not for a clock, which tables unwind, and not for the user's own events.
    assert_eq!(at(&traced, &CommonAttrs { copies: false, ..narrow }).1, 0);
    assert_eq!(at(&Event { for_units: true, ..Event::cpu_clock() }, &narrow), (CallGraph::Tables, 0));
    assert_eq!(at(&Event { for_units: false, ..traced.clone() }, &narrow).1, 0);
    assert_eq!(at(&Event { no_chains: true, ..traced.clone() }, &narrow), (CallGraph::None, 0));
    assert_eq!(at(&traced, &CommonAttrs { chains: CallGraph::None, ..narrow }), (CallGraph::None, 0));
}
