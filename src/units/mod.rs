//! Analysis units: one file each, a type that takes records in and gives panels out, listed in [`registry`]; what
//! they are made of is in [`kit`]. A unit knows no terminal; screens, text, CSV and JSON come from its panels.

pub mod blktrace;
pub mod breakpoint;
pub mod event_stat;
pub mod forks;
pub mod hrcount;
pub mod hrtimer;
pub mod kit;
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
pub mod syscalls;
pub mod task_state;
pub mod tlbstat;
pub mod top;
pub mod trace;
pub mod usdt;
pub mod wakeups;
