//! A dump of all records of a recording.

use std::io::Write;

use crate::ingest::{RecordOrder, replay_all};
use crate::panel::printable::EscapeForm;
use crate::record::kinds::{misc, types};
use crate::report::dump::Dump;

use crate::cli::input::Opened;
use crate::cli::output::texts;
use crate::cli::usage;

/// Prints all records in the order in which they are processed.
pub(crate) fn print(opened: Opened) -> anyhow::Result<u8> {
    let info = opened.source.info().clone();
    if info.inputs.is_empty() {
        return Err(usage(format!("{} is text and has no records", opened.name)));
    }
    let dump = Dump::new(&opened.name, &info.events, &info.arch);
    let mut out = texts(EscapeForm::Text);
    let mut text = String::new();
    replay_all(&mut *opened.into_source(), RecordOrder::Time, |core, record| {
        text.clear();
        dump.record(core, &record, &mut text);
        if record.header.kind == types::SAMPLE {
            if let Some((_, sample)) = core.decode(record.input, record.header, record.body()) {
                let is_user = record.header.misc & misc::CPUMODE_MASK == misc::USER;
                core.session.seen(sample.pid, record.time, is_user, sample.chain);
            }
            dump.owner(core, &record, &mut text);
        } else if record.header.kind < types::USER_START {
            core.apply(record.input, record.time, record.bytes);
        }
        anyhow::Ok(out.write_all(text.as_bytes())?)
    })?;
    out.finish()?;
    Ok(0)
}
