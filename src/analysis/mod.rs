//! Analysis units: one file each, a type that takes a session in and gives panels out. A unit
//! knows no terminal; screens, text, CSV and JSON come from its panels.

pub mod coverage;
pub mod cpu_columns;
pub mod cpu_table;
pub mod cpus;
pub mod findings;
pub mod frame;
pub mod registry;
pub mod rundelay;
pub mod softirq;
pub mod stat;
pub mod task_state;
pub mod trigger;
