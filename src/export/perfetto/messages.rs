//! Messages of Perfetto's traces (github.com/google/perfetto, protos/perfetto/trace, Apache-2.0), with the names and
//! numbers of those files. Only fields that are written here.

use prost::Message;

use crate::source::imported::messages::messages;

messages! {
    "trace.proto and trace_packet.proto",
    Trace {
        [message, repeated] packet: Vec<TracePacket> = "1";
    }
    TracePacket {
        [message, optional] ftrace_events: Option<FtraceEventBundle> = "1";
        [message, optional] clock_snapshot: Option<ClockSnapshot> = "6";
        [uint64, optional] timestamp: Option<u64> = "8";
        [uint32, optional] trusted_packet_sequence_id: Option<u32> = "10";
        [message, optional] track_event: Option<TrackEvent> = "11";
        [message, optional] interned_data: Option<InternedData> = "12";
        [uint32, optional] sequence_flags: Option<u32> = "13";
        [message, optional] trace_packet_defaults: Option<TracePacketDefaults> = "59";
        [message, optional] track_descriptor: Option<TrackDescriptor> = "60";
        [message, optional] perf_sample: Option<PerfSample> = "66";
        [uint32, optional] machine_id: Option<u32> = "98";
    }
}

messages! {
    "clock_snapshot.proto",
    ClockSnapshot {
        [message, repeated] clocks: Vec<Clock> = "1";
    }
    Clock {
        [uint32, optional] clock_id: Option<u32> = "1";
        [uint64, optional] timestamp: Option<u64> = "2";
    }
}

messages! {
    "trace_packet_defaults.proto, profile_packet.proto and perf_events.proto",
    TracePacketDefaults {
        [message, optional] perf_sample_defaults: Option<PerfSampleDefaults> = "12";
    }
    PerfSampleDefaults {
        [message, optional] timebase: Option<Timebase> = "1";
    }
    Timebase {
        [uint64, optional] period: Option<u64> = "1";
        [uint64, optional] frequency: Option<u64> = "2";
        [string, optional] name: Option<String> = "10";
    }
    PerfSample {
        [uint32, optional] cpu: Option<u32> = "1";
        [uint32, optional] pid: Option<u32> = "2";
        [uint32, optional] tid: Option<u32> = "3";
        [uint64, optional] callstack_iid: Option<u64> = "4";
        [uint32, optional] cpu_mode: Option<u32> = "5";
        [uint64, optional] timebase_count: Option<u64> = "6";
        [uint64, optional] kernel_records_lost: Option<u64> = "17";
    }
}

messages! {
    "interned_data.proto and profile_common.proto",
    InternedData {
        [message, repeated] function_names: Vec<InternedString> = "5";
        [message, repeated] frames: Vec<Frame> = "6";
        [message, repeated] callstacks: Vec<Callstack> = "7";
        [message, repeated] build_ids: Vec<InternedString> = "16";
        [message, repeated] mapping_paths: Vec<InternedString> = "17";
        [message, repeated] mappings: Vec<Mapping> = "19";
    }
    InternedString {
        [uint64, optional] iid: Option<u64> = "1";
        [bytes, optional] str: Option<Vec<u8>> = "2";
    }
    Mapping {
        [uint64, optional] iid: Option<u64> = "1";
        [uint64, optional] build_id: Option<u64> = "2";
        [uint64, repeated, packed = "false"] path_string_ids: Vec<u64> = "7";
    }
    Frame {
        [uint64, optional] iid: Option<u64> = "1";
        [uint64, optional] function_name_id: Option<u64> = "2";
        [uint64, optional] mapping_id: Option<u64> = "3";
        [uint64, optional] rel_pc: Option<u64> = "4";
    }
    Callstack {
        [uint64, optional] iid: Option<u64> = "1";
        [uint64, repeated, packed = "false"] frame_ids: Vec<u64> = "2";
    }
}

messages! {
    "the files of track_event",
    TrackDescriptor {
        [uint64, optional] uuid: Option<u64> = "1";
        [string, optional] name: Option<String> = "2";
        [message, optional] process: Option<ProcessDescriptor> = "3";
        [message, optional] thread: Option<ThreadDescriptor> = "4";
        [uint64, optional] parent_uuid: Option<u64> = "5";
        [message, optional] counter: Option<CounterDescriptor> = "8";
    }
    ProcessDescriptor {
        [int32, optional] pid: Option<i32> = "1";
        [string, optional] process_name: Option<String> = "6";
    }
    ThreadDescriptor {
        [int32, optional] pid: Option<i32> = "1";
        [int64, optional] tid: Option<i64> = "2";
        [string, optional] thread_name: Option<String> = "5";
    }
    CounterDescriptor {
        [uint32, optional] unit: Option<u32> = "3";
    }
    TrackEvent {
        [uint32, optional] kind: Option<u32> = "9";
        [uint64, optional] track_uuid: Option<u64> = "11";
        [string, optional] name: Option<String> = "23";
        [int64, optional] counter_value: Option<i64> = "30";
    }
}

messages! {
    "the files of ftrace",
    FtraceEventBundle {
        [uint32, optional] cpu: Option<u32> = "1";
        [message, repeated] event: Vec<FtraceEvent> = "2";
    }
    FtraceEvent {
        [uint64, optional] timestamp: Option<u64> = "1";
        [uint32, optional] pid: Option<u32> = "2";
        [message, optional] sched_switch: Option<SchedSwitch> = "4";
        [message, optional] sched_waking: Option<SchedWaking> = "20";
    }
    SchedSwitch {
        [string, optional] prev_comm: Option<String> = "1";
        [int32, optional] prev_pid: Option<i32> = "2";
        [int32, optional] prev_prio: Option<i32> = "3";
        [int64, optional] prev_state: Option<i64> = "4";
        [string, optional] next_comm: Option<String> = "5";
        [int32, optional] next_pid: Option<i32> = "6";
        [int32, optional] next_prio: Option<i32> = "7";
    }
    SchedWaking {
        [string, optional] comm: Option<String> = "1";
        [int32, optional] pid: Option<i32> = "2";
        [int32, optional] prio: Option<i32> = "3";
        [int32, optional] success: Option<i32> = "4";
        [int32, optional] target_cpu: Option<i32> = "5";
    }
}
