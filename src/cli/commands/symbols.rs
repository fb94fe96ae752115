//! `symbols`: names addresses from standard input, like `pprof --symbols` for gperftools' heap checker (symbolize.cc
//! there). Input is lines of /proc/self/maps, then one address per line; output is one name per line.

use std::io::{BufRead, Write};
use std::os::unix::ffi::OsStrExt;

use anyhow::Context;

use crate::kernel::procfs::parse_maps_line;
use crate::panel::printable::EscapeForm;
use crate::panel::text::clean;
use crate::record::Record;
use crate::record::kinds::{FileId, Mmap};
use crate::session::{MapId, Origin, Session};
use crate::symbols::ProblemKind;
use crate::symbols::Resolver;
use crate::symbols::bytes::Bytes;
use crate::symbols::debug_image::Image;
use crate::symbols::door;
use crate::symbols::lines::Lines;

use crate::cli::args::names::SymbolsArgs;
use crate::cli::commands::annotate::plain_options;

/// Longer lines are invalid.
const MAX_LINE: u64 = 1 << 16;

pub(crate) fn run(args: SymbolsArgs) -> anyhow::Result<u8> {
    let path = std::fs::canonicalize(&args.binary).with_context(|| args.binary.display().to_string())?;
    let file = door::own(&path).with_context(|| args.binary.display().to_string())?;
    let image = Image::of(Bytes::of(&file)?).with_context(|| args.binary.display().to_string())?;
    let options = plain_options(args.no_demangle);
    let mut named = AddressNamer {
        session: Session::new(Origin::Recorded),
        resolver: Resolver::new(options.clone()),
        lines: Lines::new(options),
        image,
        has_maps: false,
        with_lines: args.lines,
    };
    // The program itself, at its link addresses.
    named.map(PROGRAM, 0, u64::MAX, 0, path.as_os_str().as_bytes());
    let mut out = crate::cli::output::texts(EscapeForm::Text);
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        if std::io::Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if let Some(text) = named.line(&line) {
            out.write_all(text.as_bytes())?;
            // The client may wait for each answer.
            out.flush()?;
        }
    }
    let problems = named.resolver.take_problems().into_iter().chain(named.lines.take_problems());
    // The user has chosen the file.
    let problems = problems.filter(|(_, why)| why.kind != ProblemKind::Unproven);
    problems.collect::<Vec<_>>().iter().for_each(|(_, why)| crate::cli::output::complain(&why.to_string()));
    Ok(0)
}

/// Process id for a program without maps, and for the process that sent its maps.
const PROGRAM: i32 = 1;
const PROCESS: i32 = 2;

struct AddressNamer {
    session: Session,
    resolver: Resolver,
    lines: Lines,
    image: Image,
    has_maps: bool,
    with_lines: bool,
}

impl AddressNamer {
    fn map(&mut self, pid: i32, start: u64, len: u64, pgoff: u64, name: &[u8]) {
        let map = Mmap { pid, tid: pid, start, len, pgoff, file: FileId::None, prot: 5, flags: 2, name };
        self.session.apply(&Record::Mmap(map), 0);
    }

    /// Handles a line; returns the answer if it was an address.
    fn line(&mut self, line: &[u8]) -> Option<String> {
        let line = line.trim_ascii();
        if let Some(map) = parse_maps_line(line).filter(|_| memchr::memchr(b'-', line).is_some_and(|at| at < 17)) {
            if map.prot & 4 != 0 && map.name.starts_with(b"/") {
                self.map(PROCESS, map.start, map.end - map.start, map.offset, &map.name);
                self.has_maps = true;
            }
            return None;
        }
        let text = std::str::from_utf8(line).ok()?;
        let address = u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()?;
        Some(self.name(address))
    }

    fn name(&mut self, address: u64) -> String {
        let mapped = Some(self.session.user_map(PROCESS, address)).filter(|map| *map != MapId::UNKNOWN);
        let (map, at) = match mapped {
            Some(map) => (map, Some(self.session.dsos.map_of(map).to_dso(address))),
            None => (self.session.user_map(PROGRAM, address), self.image.segments.to_offset(address)),
        };
        let unknown = || "??\n".to_owned();
        let Some(at) = at.filter(|_| mapped.is_some() || !self.has_maps) else { return unknown() };
        let dso = self.session.dsos.of_map(map);
        let found = self.resolver.resolve(dso, at).map(|found| clean(&found.name).into_owned());
        if !self.with_lines {
            return found.map_or_else(unknown, |name| name + "\n");
        }
        let places = self.lines.places(dso, at);
        let last = places.len().saturating_sub(1);
        let mut out = String::new();
        for (i, place) in places.iter().enumerate() {
            let own = place.function.as_deref().map(|f| clean(f).into_owned());
            let name = if i == last { found.clone().or(own) } else { own.map(|n| n + " (inlined)") };
            let line = place.line.as_ref().map(|l| format!(" {}:{}", clean(&l.file), l.line)).unwrap_or_default();
            out.push_str(&format!("{}{line}\n", name.unwrap_or_else(|| "??".to_owned())));
        }
        if out.is_empty() { found.map_or_else(unknown, |name| name + "\n") } else { out }
    }
}
