//! Analysis units: one file each, a type that takes a session in and gives panels out. A unit
//! knows no terminal; screens, text, CSV and JSON come from its panels.

pub mod blktrace;
pub mod coverage;
pub mod cpu_columns;
pub mod cpu_table;
pub mod cpus;
pub mod event_stat;
pub mod findings;
pub mod frame;
pub mod hrcount;
pub mod hrtimer;
pub mod multi_trace;
pub mod nested_trace;
pub mod num_dist;
pub mod offcpu;
pub mod oncpu;
pub mod percpu_stat;
pub mod registry;
pub mod rundelay;
pub mod softirq;
pub mod stat;
pub mod syscalls;
pub mod task_state;
pub mod top;
pub mod trace;
pub mod trigger;
pub mod wakeups;
