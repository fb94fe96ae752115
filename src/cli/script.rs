//! `script`: each sample as text, in perf script's layout.

use crate::engine::IntakeOptions;
use crate::panel::printable::EscapeForm;
use crate::report::script::{Fields, Printer};

use super::Usage;
use super::args::Script;
use super::open;
use super::output::texts;
use super::report::chosen_events;

/// `perfprof-tui script`.
pub(crate) fn run(args: Script) -> anyhow::Result<u8> {
    args.which.check()?;
    let fields = args
        .fields
        .as_deref()
        .map(Fields::parse)
        .transpose()
        .map_err(|word| Usage(format!("-F: {word} is no field; there are {}", Fields::NAMES.join(", "))))?;
    let opened = open::open(&args.recording, args.frames.no_demangle)?;
    let loaded = opened.load(IntakeOptions {
        traces: true,
        addresses: true,
        inline: args.frames.inline,
        lines: fields.as_ref().is_some_and(Fields::wants_lines),
        ..IntakeOptions::default()
    })?;
    let events = chosen_events(&loaded, &args.which)?;
    let filter = args.which.filter(&loaded)?;
    let core = loaded.ingest.core();
    let mut printer = Printer::new(loaded.data(), &core.events, fields.unwrap_or_default(), args.ns);
    let mut out = texts(EscapeForm::Text);
    printer.print(filter, &events, &mut out)?;
    drop(out);
    let code = loaded.exit_code();
    std::mem::forget(loaded);
    Ok(code)
}
