//! Handmade profiles as traces; the bytes of one were also written by Perfetto's own Python package.

use std::sync::Arc;

use super::messages::{FtraceEvent, SchedSwitch, SchedWaking, TrackDescriptor};
use super::*;
use crate::event::format::Format;
use crate::filter::Filter;
use crate::perfdata::EventDesc;
use crate::profile::{Loss, Site};
use crate::query::staged::Staged;
use crate::session::hosts::HostId;

fn bytes(staged: &Staged, filter: Option<&str>) -> Vec<u8> {
    let input = ExportInput {
        data: crate::query::Data { start: 1000, ..staged.data() },
        event: 0,
        filter: filter.map(|text| Arc::new(Filter::parse(text).expect("parses"))),
        title: "x",
        annotate: false,
        wall_ns: 1_700_000_000_000_000_000,
        period: 0,
        frequency: 99,
        resource: Vec::new(),
    };
    let mut out = Vec::new();
    write(&input, &mut out).expect("written");
    out
}

fn packets(staged: &Staged, filter: Option<&str>) -> Vec<TracePacket> {
    Trace::decode(&bytes(staged, filter)[..]).expect("decodes").packet
}

/// The tracks: `PID NAME`, `PID/TID NAME`, or the name.
fn tracks(packets: &[TracePacket]) -> Vec<String> {
    let tracks = packets.iter().filter_map(|packet| packet.track_descriptor.as_ref());
    let one = |track: &TrackDescriptor| match (&track.process, &track.thread) {
        (Some(process), _) => format!("{} {}", process.pid(), process.process_name()),
        (_, Some(thread)) => format!("{}/{} {}", thread.pid(), thread.tid(), thread.thread_name()),
        _ => track.name().to_owned(),
    };
    tracks.map(one).collect()
}

#[test]
fn the_bytes_of_a_small_profile() {
    let mut staged = Staged::default();
    staged.comm(7, 7, false, "app");
    staged.sample(1500, 7, &["main", "work"], 10);
    let hex: String = bytes(&staged, None).iter().map(|byte| format!("{byte:02x}")).collect();
    // Of the package perfetto 0.59.1: SerializeToString() of the same packets.
    let golden = "\
        0a2c32150a05080610e8070a0c0801108080a8b1e39fe7cb1750016801da030e620c0a0a106352066379636c65730a10\
        5001e2030b08011a07080732036170700a125001e2030d08022209080710072a036170700a6a40dc0b500162522a0808\
        021204776f726b2a08080112046d61696e320c08011002180720ecb5bdd708320c08021001180720c8c7d2cc083a0608\
        02100210018a01100807120c2f7573722f6c69622f6170709a010408073807680292040c08001007180720022802300a";
    assert_eq!(hex, golden);
}

#[test]
fn names_and_stacks_are_written_once_and_periods_are_added() {
    let mut staged = Staged::default();
    staged.inline("g", &["h"]);
    [(5, "g"), (6, "g"), (7, "f")].into_iter().for_each(|(time, leaf)| staged.sample(time, 1, &["main", leaf], time));
    staged.sample(8, 1, &[], 100);
    let site = staged.site(1, &["main", "kernel:g"]);
    staged.profile.push(9, site, 1, 3, 0);
    staged.profile.push(10, site, 1, u16::MAX, 0);
    let packets = packets(&staged, None);
    let with_samples: Vec<&TracePacket> = packets.iter().filter(|packet| packet.perf_sample.is_some()).collect();
    let samples: Vec<_> = with_samples.iter().filter_map(|packet| packet.perf_sample.as_ref()).collect();
    let counts: Vec<_> = samples.iter().map(|sample| (sample.cpu, sample.timebase_count())).collect();
    assert_eq!(counts, [(Some(0), 5), (Some(0), 11), (Some(0), 18), (Some(0), 118), (Some(3), 1), (None, 1)]);
    let modes: Vec<_> = samples.iter().map(|sample| sample.cpu_mode).collect();
    assert_eq!(modes, [Some(2), Some(2), Some(2), None, Some(1), Some(1)]);
    let new = |at: usize| with_samples[at].interned_data.clone().unwrap_or_default();
    let text = |list: &[messages::InternedString]| -> Vec<String> {
        list.iter().map(|one| String::from_utf8_lossy(one.str()).into_owned()).collect()
    };
    let functions: Vec<_> = (0..6).map(|at| text(&new(at).function_names)).collect();
    let none: [&str; 0] = [];
    assert_eq!(functions, [&["h (inlined)", "g", "main"][..], &none, &["f"], &none, &["g"], &none]);
    let frames: Vec<_> = (0..6).map(|at| new(at).frames.len()).collect();
    assert_eq!(frames, [3, 0, 1, 0, 1, 0]);
    let stacks: Vec<_> = (0..6).flat_map(|at| new(at).callstacks).map(|stack| stack.frame_ids).collect();
    assert_eq!(stacks, [vec![3, 2, 1], vec![3, 4], vec![3, 5]]);
    let iids: Vec<_> = samples.iter().map(|sample| sample.callstack_iid).collect();
    assert!(iids[0] == iids[1] && iids[0] != iids[2] && iids[3].is_none() && iids[4] == iids[5], "{iids:?}");
}

#[test]
fn a_thread_has_its_last_name_and_a_task_without_a_number_its_own() {
    let mut staged = Staged::default();
    for name in ["sh", "ls\n"] {
        staged.comm(7, 7, false, name);
        staged.sample(1, 7, &["main"], 1);
    }
    staged.comm(7, 8, false, "worker");
    let mut add = |task| {
        let site = staged.profile.sites.intern(Site { task, stack: NodeId::ROOT, trace: Default::default() });
        staged.profile.push(2, site, 1, 0, 0);
    };
    let session = &mut staged.session;
    add(session.task(7, 8));
    ["a", "b", "a"].into_iter().for_each(|name| add(session.named_task(-1, -1, &name.into())));
    let packets = packets(&staged, None);
    let top = i32::MAX;
    let unnumbered = [(top, 'a'), (top - 1, 'b')].map(|(n, name)| [format!("{n} {name}"), format!("{n}/{n} {name}")]);
    let want = [&["7 ls␊", "7/7 ls␊", "7/8 worker"].map(str::to_owned)[..], &unnumbered.concat()].concat();
    assert_eq!(tracks(&packets), want);
}

/// The slices: (name, begin, end), by the number of their track.
fn slices(packets: &[TracePacket]) -> Vec<(u64, u64, u64)> {
    let mut open = std::collections::BTreeMap::new();
    let mut found = Vec::new();
    for (time, event) in packets.iter().filter_map(|packet| Some((packet.timestamp(), packet.track_event.as_ref()?))) {
        match event.kind() {
            SLICE_BEGIN => assert_eq!(open.insert(event.track_uuid(), time), None),
            _ => found.push((event.track_uuid(), open.remove(&event.track_uuid()).expect("begun"), time)),
        }
    }
    found
}

#[test]
fn durations_are_slices_and_overlapping_ones_have_different_tracks() {
    let mut staged = Staged::default();
    staged.events[1] = "off-cpu".to_owned();
    staged.profile.learn_event(1, &EventDesc::derived("off-cpu"));
    let site = staged.site(7, &["main", "wait"]);
    staged.sample(40, 7, &["main"], 1);
    // The third overlaps both, and the last one begins before time.
    for (end, took) in [(20, 10), (30, 10), (31, 15), (60, 29), (70, 71)] {
        staged.profile.push(end, site, took, 0, 1);
    }
    let packets = packets(&staged, None);
    let [first, second, third] = [3, 4, 5];
    let want = [(first, 10, 20), (first, 20, 30), (second, 16, 31), (first, 31, 60), (third, 0, 70)];
    assert_eq!(slices(&packets), want);
    assert_eq!(tracks(&packets)[2..], ["off-cpu"; 3]);
    assert_eq!(packets.iter().filter(|packet| packet.perf_sample.is_some()).count(), 1);
    // Tracks of slices are those of their thread.
    let parents: Vec<_> = packets.iter().filter_map(|packet| packet.track_descriptor.as_ref()?.parent_uuid).collect();
    assert_eq!(parents, [2, 2, 2]);
}

#[test]
fn overlapping_slices_have_a_limit() {
    let mut staged = Staged::default();
    staged.profile.learn_event(0, &EventDesc::derived("off-cpu"));
    (0..100).for_each(|time| staged.sample(1000 + time, 7, &["main"], 500));
    let packets = packets(&staged, None);
    assert_eq!((slices(&packets).len(), tracks(&packets).len()), (64, 2 + 64));
    assert_eq!(packets.iter().filter(|packet| packet.perf_sample.is_some()).count(), 100);
}

const SWITCH_FORMAT: &str = "name: sched_switch\nID: 1\nformat:\n\
    \tfield:char prev_comm[16];\toffset:0;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t prev_pid;\toffset:16;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:20;\tsize:8;\tsigned:1;\n\
    \tfield:pid_t next_pid;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:char next_comm[16];\toffset:32;\tsize:16;\tsigned:0;\n";
const WAKING_FORMAT: &str = "name: sched_waking\nID: 2\nformat:\n\
    \tfield:char comm[16];\toffset:0;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t pid;\toffset:16;\tsize:4;\tsigned:1;\n";

/// A clock, switches, and wake-ups.
fn scheduled(has_switches: bool) -> Staged {
    let mut staged = Staged::default();
    staged.events.push("sched:sched_waking".to_owned());
    let format = |text: &str| Arc::new(Format::parse("sched", text, false).expect("parses"));
    if has_switches {
        staged.profile.set_format(1, format(SWITCH_FORMAT));
    }
    staged.profile.set_format(2, format(WAKING_FORMAT));
    staged.comm(7, 7, false, "app");
    let site = staged.site(7, &["main"]);
    let name = |text: &str| [text.as_bytes(), &[0; 16]].concat()[..16].to_vec();
    let switch = [&name("app")[..], &7i32.to_le_bytes(), &1i64.to_le_bytes(), &8i32.to_le_bytes(), &name("x\x1b")];
    staged.profile.push_raw(2000, site, 1, 3, 1, &switch.concat());
    // A cut record, and a CPU that the trace processor would not accept.
    staged.profile.push_raw(2100, site, 1, 3, 1, &switch.concat()[..30]);
    staged.profile.push_raw(2100, site, 1, 1024, 1, &switch.concat());
    staged.profile.push_raw(2200, site, 1, 0, 2, &[&name("z")[..], &9i32.to_le_bytes()].concat());
    for (time, pid) in [(2150, 7), (2300, 8)] {
        staged.sample(time, pid, &["main"], 1);
    }
    staged
}

fn scheduler_events(packets: &[TracePacket]) -> Vec<(u32, FtraceEvent)> {
    let bundles = packets.iter().filter_map(|packet| packet.ftrace_events.as_ref());
    bundles.flat_map(|bundle| bundle.event.iter().map(|event| (bundle.cpu(), event.clone()))).collect()
}

#[test]
fn switches_and_wake_ups_have_the_fields_of_their_records() {
    let switch = SchedSwitch {
        prev_comm: Some("app".to_owned()),
        prev_pid: Some(7),
        prev_state: Some(1),
        next_pid: Some(8),
        next_comm: Some("x␛".to_owned()),
        ..SchedSwitch::default()
    };
    let (comm, pid, success) = (Some("z".to_owned()), Some(9), Some(1));
    let waking = SchedWaking { comm, pid, success, ..SchedWaking::default() };
    let event = |time| FtraceEvent { timestamp: Some(time), pid: Some(7), ..FtraceEvent::default() };
    let switched = (3, FtraceEvent { sched_switch: Some(switch), ..event(2000) });
    let woken = (0, FtraceEvent { sched_waking: Some(waking), ..event(2200) });
    let found = scheduler_events(&packets(&scheduled(true), None));
    assert_eq!(found, [switched, woken.clone()]);
    assert!(scheduler_events(&packets(&scheduled(false), None)).is_empty(), "wake-ups alone give no states");
    // A filter selects samples, and the time of all threads' states.
    let of = |filter: &str| scheduler_events(&packets(&scheduled(true), Some(filter)));
    assert_eq!(of("pid == 8 || pid == 7"), [woken]);
    assert_eq!((of("pid == 8"), of("pid == 9")), (vec![], vec![]));
}

#[test]
fn losses_are_a_counter_and_a_statistic_of_their_cpu() {
    let mut staged = Staged::default();
    let host = HostId::default();
    for (time, samples, cpu) in [(5, 2, Some(1)), (9, 3, None)] {
        staged.profile.losses.push(Loss { time, samples, cpu, host });
    }
    let packets = packets(&staged, None);
    let event = |packet: &TracePacket| Some((packet.timestamp(), packet.track_event.as_ref()?.counter_value()));
    assert_eq!(packets.iter().filter_map(event).collect::<Vec<_>>(), [(5, 2), (9, 5)]);
    let lost = |packet: &TracePacket| packet.perf_sample.as_ref().map(|lost| (lost.cpu(), lost.kernel_records_lost()));
    assert_eq!(packets.iter().filter_map(lost).collect::<Vec<_>>(), [(1, 2)]);
    assert_eq!(tracks(&packets), ["lost samples"]);
}

#[test]
fn each_machine_has_its_own_sequence() {
    let mut staged = Staged::default();
    staged.session.name_hosts(["a", "b"].map(Into::into));
    let hosts: Vec<HostId> = staged.session.hosts().iter().map(|(id, _)| id).collect();
    for host in hosts {
        staged.session.turn_to(host);
        staged.comm(7, 7, false, "app");
        staged.sample(5, 7, &["main"], 10);
    }
    let packets = packets(&staged, None);
    let of = |packet: &TracePacket| (packet.machine_id, packet.trusted_packet_sequence_id());
    let begun = packets.iter().filter(|packet| packet.trace_packet_defaults.is_some());
    assert_eq!(begun.map(of).collect::<Vec<_>>(), [(None, 1), (Some(1), 2)]);
    let sampled: Vec<_> = packets.iter().filter(|packet| packet.perf_sample.is_some()).collect();
    assert_eq!(sampled.iter().map(|packet| of(packet)).collect::<Vec<_>>(), [(None, 1), (Some(1), 2)]);
    assert!(sampled.iter().all(|packet| packet.interned_data.is_some()), "numbers belong to their sequence");
    assert_eq!(tracks(&packets), ["7 app", "7/7 app", "7 app", "7/7 app"]);
}
