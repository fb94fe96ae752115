//! Fields and texts of tracepoints' samples.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::event::base_name;
use crate::event::calls::CallTables;
use crate::event::format::{Format, Formats};
use crate::kernel::attr::{TYPE_TRACEPOINT, sample};
use crate::perfdata::EventDesc;
use crate::profile::Profile;
use crate::session::{Origin, Session};
use crate::source::Info;
use crate::symbols::{Resolver, SymbolOptions};

use super::{IntakeOptions, tracepoints};

#[derive(Debug)]
pub(crate) struct Tracing {
    recorded: Formats,
    /// The machine's architecture as in uname; empty for this machine.
    arch: String,
    origin: Origin,
    wants: IntakeOptions,
    /// Resolves kernel functions for texts, formatted once, when samples arrive. Loads its tables on first use.
    functions: Option<Mutex<Resolver>>,
}

impl Tracing {
    pub(crate) fn new(info: &Info, wants: IntakeOptions) -> Self {
        let wanted = wants.traces || wants.fields || wants.units_only;
        let recorded = if wanted { Formats::parse(&info.tracing) } else { Formats::default() };
        Self { recorded, arch: info.arch.clone(), origin: info.origin, wants, functions: None }
    }

    /// Names the kernel's functions in texts; `symbols` says where the files are.
    pub(crate) fn name_functions(&mut self, symbols: SymbolOptions) {
        self.functions = self.wants.traces.then(|| Mutex::new(Resolver::new(symbols)));
    }

    /// Returns the format of an event: the recorded one if it `fits`, or that of this machine.
    pub(crate) fn format(&self, desc: &EventDesc, fits: impl Fn(&EventDesc) -> bool) -> Option<Arc<Format>> {
        let recorded = self.recorded.by_id.get(&desc.attr.config).filter(|_| fits(desc)).cloned();
        let found = match self.origin {
            Origin::Live => recorded.or_else(|| tracepoints::of_this_machine(base_name(&desc.name))),
            Origin::Recorded => recorded,
        };
        let calls = CallTables::of(&self.arch);
        found.map(|format| Arc::new(Format { calls, ..format }))
    }

    pub(crate) fn learn(&self, event: usize, desc: &EventDesc, profile: &mut Profile) {
        profile.learn_event(event as u16, desc);
        let has_raw = |desc: &EventDesc| desc.attr.sample_type & sample::RAW != 0;
        if let Some(format) = Some(desc).filter(|_| self.wants.fields).and_then(|desc| self.format(desc, has_raw)) {
            profile.set_format(event as u16, format);
        }
    }

    pub(crate) fn text(&self, desc: &EventDesc, raw: &[u8], session: &Session) -> Option<String> {
        if !self.wants.traces || desc.attr.kind != TYPE_TRACEPOINT && raw.is_empty() {
            return None;
        }
        let format = self.recorded.by_id.get(&desc.attr.config)?;
        Some(match &self.functions {
            Some(functions) => format.text_with(raw, &|at| kernel_function(functions, session, at)),
            None => format.text(raw),
        })
    }
}

fn kernel_function(resolver: &Mutex<Resolver>, session: &Session, address: u64) -> Option<(Arc<str>, u64)> {
    // The kernel is in the upper half of all addresses (Documentation/arch/x86/x86_64/mm.rst, arm64/memory.rst).
    if (address as i64) >= 0 {
        return None;
    }
    let map = session.kernel_map(address);
    let at = session.dsos.map_of(map).to_dso(address);
    let found = resolver.lock().resolve(session.dsos.of_map(map), at)?;
    Some((found.name, at.wrapping_sub(found.start)))
}
