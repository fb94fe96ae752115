//! Analysis units: one file each, a type that takes records in and gives panels out, listed in [`registry`]; what
//! they are made of is in [`frame`]. A unit knows no terminal; screens, text, CSV and JSON come from its panels.
//! Beside them, what the CPUs' screen, counters and triggers show.

pub mod blktrace;
pub mod breakpoint;
pub mod coverage;
pub mod cpu_columns;
pub mod cpu_table;
pub mod cpus;
pub mod event_stat;
pub mod findings;
pub mod forks;
pub mod frame;
pub mod hrcount;
pub mod hrtimer;
pub mod kmemleak;
pub mod kmemprof;
pub mod kvm_exit;
pub mod kvmmmu;
pub mod ldlat_loads;
pub mod ldlat_stores;
pub mod llcstat;
pub mod misc;
pub mod multi_trace;
pub mod nested_trace;
pub mod num_dist;
pub mod offcpu;
pub mod oncpu;
pub mod page_faults;
pub mod percpu_stat;
pub mod profile;
pub mod registry;
pub mod rundelay;
pub mod softirq;
pub mod stat;
pub mod syscalls;
pub mod task_state;
pub mod tlbstat;
pub mod top;
pub mod trace;
pub mod trigger;
pub mod usdt;
pub mod wakeups;
