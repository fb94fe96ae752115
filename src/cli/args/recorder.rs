//! Options of retention and triggers: common to the live screen and `record`.

use std::path::PathBuf;

use clap::{ArgAction, Args as ClapArgs};

/// The flight recorder.
#[derive(Debug, ClapArgs)]
pub struct Keeping {
    /// Memory that the program may use in all before the oldest samples are dropped; 256M, or less on a machine below 4 GB and where a cgroup limits memory
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// How long samples are kept (30s, 10m, 2h, or all)
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub keep: String,
    /// Save the samples around a moment by itself, e.g. 'softirq% > 30 on any cpu for 2s',
    /// 'runqueue > 2*cpus', 'psi.cpu > 20', 'lost > 0', 'sched:sched_switch > 50k'; may be repeated
    #[arg(long = "trigger", value_name = "CONDITION", action = ArgAction::Append)]
    pub triggers: Vec<String>,
    /// Where triggers save
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    pub trigger_dir: PathBuf,
    /// At most so many snapshots of triggers, and so much of the disk, in that directory
    #[arg(long, value_name = "N[,SIZE]", default_value = "10,1G")]
    pub trigger_max: String,
    /// How much of what came before and after a trigger is saved
    #[arg(long, value_name = "BEFORE[,AFTER]", default_value = "60s,5s")]
    pub trigger_span: String,
    /// How long no trigger fires after one has
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub trigger_pause: String,
}
