//! `probe`: creates, lists and removes probes on functions and static probes.

mod places;
pub(crate) mod usdt;

use std::path::{Path, PathBuf};

use globset::GlobMatcher;

use crate::event::instance;
use crate::event::probe::args::Parameters;
use crate::event::probe::elf::{self, ProbedFile};
use crate::event::probe::kernel::KernelFunctions;
use crate::event::probe::lines::ProbeLine;
use crate::event::probe::tracefs::ExistingProbe;
use crate::event::probe::usdt::Usdt;
use crate::event::probe::{self, as_name, tracefs};
use crate::panel::{Cell, Column, Table};
use crate::source::live::probes;
use crate::symbols::kallsyms::Kallsyms;

use crate::cli::args::ProbeArgs;
use crate::cli::output::{complain, print, print_table};
use places::{debug_info, exec, root, source};

pub(crate) fn run(args: ProbeArgs) -> anyhow::Result<u8> {
    let added = definitions(&args);
    if !added.is_empty() {
        return add(&args, &root()?, &added);
    }
    if let Some(glob) = &args.del {
        let glob = places::glob(glob)?;
        return removed(&root()?, &|known| glob.is_match(&known.name) || glob.is_match(known.event()));
    }
    if args.clean {
        return clean(&root()?);
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
    show(
        &args,
        [("event", "Event"), ("what", "Place and arguments")],
        known.iter().map(|p| [p.event(), p.what.clone()]),
    )
}

fn show<const N: usize>(
    args: &ProbeArgs,
    columns: [(&'static str, &'static str); N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> anyhow::Result<u8> {
    print_table(&Table::of_texts(columns, rows), args.format).map(|()| 0)
}

/// Returns perf's group: `probe` for the kernel; for programs `probe_FILE`, with the name up to its first `-` or `.`.
fn group(args: &ProbeArgs) -> String {
    let name = args.exec.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    match name.as_deref().and_then(|name| name.split(['-', '.']).find(|part| !part.is_empty())) {
        Some(name) => format!("probe_{}", as_name(name).trim_start_matches('_')),
        None => "probe".to_owned(),
    }
}

/// Returns the probes to add: one for each -a, or from the words without -a. Words after a single -a are its arguments.
fn definitions(args: &ProbeArgs) -> Vec<String> {
    let mut list: Vec<String> = args.add.iter().chain(&args.definition).cloned().collect();
    match (list.as_mut_slice(), args.args.as_slice()) {
        (_, []) => {}
        ([one], words) => *one = format!("{one} {}", words.join(" ")),
        (_, words) => list.push(words.join(" ")),
    }
    list
}

fn add(args: &ProbeArgs, root: &Path, added: &[String]) -> anyhow::Result<u8> {
    let specs = added.iter().map(|spec| places::named(args, spec)).collect::<anyhow::Result<Vec<_>>>()?;
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
        tracefs::add(root, &made).map_err(anyhow::Error::msg)?;
        print(&format!("{}\n", made.event()))?;
        complain(&format!("measure it with -e {}; remove it with probe --del {}", made.event(), made.event()));
    }
    Ok(0)
}

fn removed(root: &Path, which: &dyn Fn(&ExistingProbe) -> bool) -> anyhow::Result<u8> {
    let gone = tracefs::remove(root, which).map_err(anyhow::Error::msg)?;
    gone.iter().try_for_each(|probe| print(&format!("{}\n", probe.event())))?;
    if gone.is_empty() {
        complain("no such probe; perfprof-tui probe -l lists existing probes");
    }
    Ok(u8::from(gone.is_empty()))
}

/// Removes what killed sessions left: probes, and instances of tracefs.
fn clean(root: &Path) -> anyhow::Result<u8> {
    let events = |gone: Vec<ExistingProbe>| gone.iter().map(ExistingProbe::event).collect();
    let paths = |gone: Vec<PathBuf>| gone.iter().map(|dir| dir.display().to_string()).collect();
    let removed: [Result<Vec<String>, String>; 2] =
        [tracefs::remove(root, &probes::is_left_over).map(events), instance::remove_left_over(root).map(paths)];
    removed.iter().flatten().flatten().try_for_each(|line| print(&format!("{line}\n")))?;
    let [probes, instances] = removed.each_ref().map(|gone| gone.as_ref().map_or(0, Vec::len));
    let described = probes::described(probes, instances);
    if let Some(removed) = &described {
        complain(&format!("removed {removed} of killed sessions"));
    }
    if let Some(error) = removed.into_iter().find_map(Result::err) {
        anyhow::bail!(error);
    }
    if described.is_none() {
        complain("nothing to remove: killed sessions left no probes and no instances of tracefs");
    }
    Ok(u8::from(described.is_none()))
}

fn static_row(found: &Usdt) -> [String; 3] {
    [found.event(), "static probe".to_owned(), found.operands.join(" ")]
}

fn static_probes(args: &ProbeArgs, path: &Path) -> anyhow::Result<u8> {
    let probes = elf::static_probes(path).map_err(anyhow::Error::msg)?;
    if probes.is_empty() {
        complain(&format!("{}: no static probes; -F lists its functions", path.display()));
    }
    show(args, [("name", "Name"), ("kind", "Kind"), ("what", "Operands")], probes.iter().map(static_row))
}

fn functions(args: &ProbeArgs, glob: &str) -> anyhow::Result<u8> {
    let matcher = NameChoice::of(args, glob)?;
    if args.exec.is_none() {
        return kernel_functions(args, &matcher);
    }
    let file = ProbedFile::open(exec(args)?).map_err(anyhow::Error::msg)?;
    let probes = file.probes.iter().filter(|p| matcher.is_match(&p.name) || matcher.is_match(&p.event()));
    let mut functions: Vec<_> = file.functions().filter(|(name, _)| matcher.is_match(name)).collect();
    functions.dedup_by_key(|(name, _)| *name);
    let function = |(name, size): (&str, _)| [name.to_owned(), "function".to_owned(), format!("{size} bytes")];
    let rows = probes.map(static_row).chain(functions.into_iter().map(function));
    show(args, [("name", "Name"), ("kind", "Kind"), ("what", "Operands or size")], rows)
}

struct NameChoice {
    globs: [GlobMatcher; 2],
    /// True if the second pattern excludes functions.
    without: bool,
}

impl NameChoice {
    fn of(args: &ProbeArgs, glob: &str) -> anyhow::Result<Self> {
        let filter = args.filter.as_deref().unwrap_or("*");
        let (without, filter) = filter.strip_prefix('!').map_or((false, filter), |filter| (true, filter));
        Ok(Self { globs: [places::glob(glob)?, places::glob(filter)?], without })
    }

    fn is_match(&self, name: &str) -> bool {
        self.globs[0].is_match(name) && self.globs[1].is_match(name) != self.without
    }
}

fn kernel_functions(args: &ProbeArgs, matcher: &NameChoice) -> anyhow::Result<u8> {
    let path = Path::new("/proc/kallsyms");
    let known = Kallsyms::read(path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    if known.restricted {
        anyhow::bail!(
            "the kernel hides the addresses of its functions from this user\nset sysctl kernel.kptr_restrict=0, or \
             run as root"
        );
    }
    let mut names: Vec<String> =
        known.table.iter().map(|symbol| String::from_utf8_lossy(symbol.name).into_owned()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| matcher.is_match(name));
    show(args, [("name", "Name"), ("kind", "Kind")], names.into_iter().map(|name| [name, "function".to_owned()]))
}

/// Lists the lines of a function that have code, with their text if the source is available.
fn lines(args: &ProbeArgs, function: &str) -> anyhow::Result<u8> {
    if args.exec.is_none() {
        anyhow::bail!("lines of kernel functions are not supported; for a program, use -x FILE -L");
    }
    let info = debug_info(exec(args)?, "")?;
    let (function, wanted) = places::range(function);
    let mut lines =
        info.lines(function).ok_or_else(|| anyhow::anyhow!("no debug information for function {function}"))?;
    lines.retain(|line| wanted.contains(&line.relative));
    let source = lines.first().and_then(|line| source(exec(args).ok()?, Path::new(&line.file))).unwrap_or_default();
    let row = |line: &ProbeLine| {
        let words = source.lines().nth(line.number.saturating_sub(1) as usize).unwrap_or_default();
        vec![
            Cell::Id(line.relative as i64),
            Cell::Text(format!("{}:{}", line.file, line.number).into()),
            Cell::Text(format!("{:#x}", line.address).into()),
            Cell::Text(words.trim_end().into()),
        ]
    };
    let columns = [("line", "Line"), ("place", "Place"), ("address", "Address"), ("text", "Text")];
    let columns = columns.map(|(name, title)| Column::texts(name, title)).to_vec();
    print_table(&Table { columns, rows: lines.iter().map(row).collect() }, args.format).map(|()| 0)
}

fn variables(args: &ProbeArgs, function: &str) -> anyhow::Result<u8> {
    let known = match &args.exec {
        Some(path) => debug_info(path, "; use the registers arg1 to arg6")?.of(function),
        None => KernelFunctions::system().of(function),
    };
    let known = known.ok_or_else(|| anyhow::anyhow!("no debug information for function {function}"))?;
    let rows = known.iter().map(|p| [p.name.clone(), p.kind.clone(), p.fetch.clone()]);
    show(args, [("name", "Parameter"), ("type", "Type"), ("fetch", "Read as")], rows)
}
