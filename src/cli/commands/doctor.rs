//! `doctor`: prints what this machine and this user can measure.

use crate::cli::args::{DoctorArgs, OutputFormat};
use crate::cli::output::{print, print_json};
use crate::cli::usage;
use crate::report::doctor;

pub(crate) fn run(args: DoctorArgs) -> anyhow::Result<u8> {
    let items = doctor::examine();
    match args.format {
        OutputFormat::Text => print(&doctor::text(&items))?,
        OutputFormat::Json => {
            let list: Vec<_> = items.iter().map(|i| serde_json::json!({ "name": i.name, "state": i.state.word(), "found": i.found, "remedy": i.remedy })).collect();
            print_json(&list)?;
        }
        OutputFormat::Csv => return Err(usage("doctor: use --format text or json")),
    }
    Ok(0)
}
