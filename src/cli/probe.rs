//! `probe`: makes, lists and removes probes of functions and of programs' static probes.

use std::path::Path;
use std::sync::Arc;

use globset::GlobMatcher;

use crate::event::probe::args::Parameters;
use crate::event::probe::elf::{self, Elf};
use crate::event::probe::kernel::KernelFunctions;
use crate::event::probe::lines::ProbeLine;
use crate::event::probe::usdt::Usdt;
use crate::event::probe::{self, as_name, tracefs};
use crate::event::spec::LookupPaths;
use crate::panel::{Align, Cell, Column, Table};
use crate::source::live::probes;
use crate::symbols::kallsyms::Kallsyms;

use super::args::Probe;
use super::output::{complain, print, print_table};
use super::probe_places::{self, debug_info, exec, source};

/// `perfprof-tui probe`.
pub(crate) fn run(args: Probe) -> anyhow::Result<u8> {
    let root = || LookupPaths::system().tracefs.map_err(|why| anyhow::anyhow!("{why}"));
    let added = definitions(&args);
    if !added.is_empty() {
        return add(&args, &root()?, &added);
    }
    if let Some(glob) = &args.del {
        let glob = probe_places::glob(glob)?;
        return removed(&root()?, &|known| glob.is_match(known.event()));
    }
    if args.clean {
        return removed(&root()?, &probes::is_left_over);
    }
    if let Some(glob) = &args.funcs {
        return functions(&args, glob);
    }
    if let Some(function) = &args.vars {
        return variables(&args, function);
    }
    if let Some(function) = &args.line {
        return lines(&args, function);
    }
    if let (true, Some(path)) = (args.list, &args.exec) {
        return static_probes(&args, path);
    }
    let known = tracefs::list(&root()?)?;
    let rows = known.iter().map(|p| vec![text(&p.event()), text(&p.what)]).collect();
    show(&args, &Table { columns: vec![column("event", "Event"), column("what", "Place and arguments")], rows })
}

fn column(name: &'static str, title: &'static str) -> Column {
    Column::new(name, title, Align::Left, 0)
}

fn text(text: &str) -> Cell {
    Cell::Text(Arc::from(text))
}

fn show(args: &Probe, table: &Table) -> anyhow::Result<u8> {
    print_table(table, args.format).map(|()| 0)
}

/// perf's groups: `probe` for the kernel, `probe_FILE` for programs, by their names as far as the first `-` or `.`.
fn group(args: &Probe) -> String {
    let name = args.exec.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    match name.as_deref().and_then(|name| name.split(['-', '.']).find(|part| !part.is_empty())) {
        Some(name) => format!("probe_{}", as_name(name).trim_start_matches('_')),
        None => "probe".to_owned(),
    }
}

/// The probes to add: of each -a, and of the words without one; the words behind a single -a are its arguments.
fn definitions(args: &Probe) -> Vec<String> {
    let mut list: Vec<String> = args.add.iter().chain(&args.definition).cloned().collect();
    match (list.as_mut_slice(), args.args.as_slice()) {
        (_, []) => {}
        ([one], words) => *one = format!("{one} {}", words.join(" ")),
        (_, words) => list.push(words.join(" ")),
    }
    list
}

fn add(args: &Probe, root: &Path, added: &[String]) -> anyhow::Result<u8> {
    let specs = added.iter().map(|spec| probe_places::named(args, spec)).collect::<anyhow::Result<Vec<_>>>()?;
    for spec in specs.concat() {
        let typed = match &args.exec {
            Some(path) => format!("-x {} {spec}", path.display()),
            None => spec,
        };
        let made = probe::parse(&typed, &group(args)).map_err(|why| anyhow::anyhow!("--add: {why}"))?;
        if args.dry_run || args.definition.is_some() {
            print(&format!("{}\n", made.line()))?;
            continue;
        }
        tracefs::add(root, &made).map_err(|why| anyhow::anyhow!("{why}"))?;
        print(&format!("{}\n", made.event()))?;
        complain(&format!("measure it with -e {}; probe --del {} takes it away", made.event(), made.event()));
    }
    Ok(0)
}

fn removed(root: &Path, which: &dyn Fn(&tracefs::ExistingProbe) -> bool) -> anyhow::Result<u8> {
    let gone = tracefs::remove(root, which).map_err(|why| anyhow::anyhow!("{why}"))?;
    gone.iter().try_for_each(|probe| print(&format!("{}\n", probe.event())))?;
    if gone.is_empty() {
        complain("no such probe: perfprof-tui probe -l lists those that there are");
    }
    Ok(u8::from(gone.is_empty()))
}

fn static_row(found: &Usdt) -> Vec<Cell> {
    vec![text(&found.event()), text("static probe"), text(&found.operands.join(" "))]
}

/// The static probes of a file.
fn static_probes(args: &Probe, path: &Path) -> anyhow::Result<u8> {
    let probes = elf::static_probes(path).map_err(|why| anyhow::anyhow!("{why}"))?;
    if probes.is_empty() {
        complain(&format!("{}: has no static probes; -F lists its functions", path.display()));
    }
    let columns = vec![column("name", "Name"), column("kind", "Kind"), column("what", "Operands")];
    show(args, &Table { columns, rows: probes.iter().map(static_row).collect() })
}

/// The functions and static probes of a file, or the functions of the kernel.
fn functions(args: &Probe, glob: &str) -> anyhow::Result<u8> {
    let matcher = NameChoice::of(args, glob)?;
    if args.exec.is_none() {
        return kernel_functions(args, &matcher);
    }
    let file = Elf::open(exec(args)?).map_err(|why| anyhow::anyhow!("{why}"))?;
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for found in file.probes.iter().filter(|p| matcher.is_match(&p.name) || matcher.is_match(&p.event())) {
        rows.push(static_row(found));
    }
    let mut last = "";
    for (name, size) in file.functions().filter(|(name, _)| matcher.is_match(name)) {
        if name != last {
            rows.push(vec![text(name), text("function"), text(&format!("{size} bytes"))]);
        }
        last = name;
    }
    let columns = vec![column("name", "Name"), column("kind", "Kind"), column("what", "Operands or size")];
    show(args, &Table { columns, rows })
}

/// The choice of functions by -F and --filter.
struct NameChoice {
    globs: [GlobMatcher; 2],
    /// Whether the second one tells what is left out.
    without: bool,
}

impl NameChoice {
    fn of(args: &Probe, glob: &str) -> anyhow::Result<Self> {
        let filter = args.filter.as_deref().unwrap_or("*");
        let (without, filter) = filter.strip_prefix('!').map_or((false, filter), |filter| (true, filter));
        Ok(Self { globs: [probe_places::glob(glob)?, probe_places::glob(filter)?], without })
    }

    fn is_match(&self, name: &str) -> bool {
        self.globs[0].is_match(name) && self.globs[1].is_match(name) != self.without
    }
}

/// The functions of the running kernel, by their names.
fn kernel_functions(args: &Probe, matcher: &NameChoice) -> anyhow::Result<u8> {
    let path = Path::new("/proc/kallsyms");
    let known = Kallsyms::read(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    if known.restricted {
        anyhow::bail!(
            "this user may not read the addresses of the kernel's functions\nsysctl kernel.kptr_restrict=0, or run as root"
        );
    }
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut names: Vec<String> =
        known.table.iter().map(|symbol| String::from_utf8_lossy(symbol.name).into_owned()).collect();
    names.sort_unstable();
    names.dedup();
    rows.extend(names.iter().filter(|name| matcher.is_match(name)).map(|name| vec![text(name), text("function")]));
    show(args, &Table { columns: vec![column("name", "Name"), column("kind", "Kind")], rows })
}

/// The lines of a function that have code, with their text where the source is at hand.
fn lines(args: &Probe, function: &str) -> anyhow::Result<u8> {
    if args.exec.is_none() {
        anyhow::bail!("lines of kernel functions are not known here; -x FILE -L shows a program's");
    }
    let info = debug_info(exec(args)?, "")?;
    let (function, wanted) = probe_places::range(function);
    let mut lines = info.lines(function).ok_or_else(|| anyhow::anyhow!("nothing describes a function {function}"))?;
    lines.retain(|line| wanted.contains(&line.relative));
    let source = lines.first().and_then(|line| source(exec(args).ok()?, Path::new(&line.file))).unwrap_or_default();
    let row = |line: &ProbeLine| {
        let words = source.lines().nth(line.number.saturating_sub(1) as usize).unwrap_or_default();
        vec![
            Cell::Id(line.relative as i64),
            text(&format!("{}:{}", line.file, line.number)),
            text(&format!("{:#x}", line.address)),
            text(words.trim_end()),
        ]
    };
    let columns =
        vec![column("line", "Line"), column("place", "Place"), column("address", "Address"), column("text", "Text")];
    show(args, &Table { columns, rows: lines.iter().map(row).collect() })
}

/// The parameters of a function.
fn variables(args: &Probe, function: &str) -> anyhow::Result<u8> {
    let known = match &args.exec {
        Some(path) => debug_info(path, "; arg1 to arg6 are the registers")?.of(function),
        None => KernelFunctions::system().of(function),
    };
    let known = known.ok_or_else(|| anyhow::anyhow!("nothing describes a function {function}"))?;
    let rows = known.iter().map(|p| vec![text(&p.name), text(&p.kind), text(&p.fetch)]).collect();
    let columns = vec![column("name", "Parameter"), column("type", "Type"), column("fetch", "Read as")];
    show(args, &Table { columns, rows })
}
