//! `annotate`: the instructions of a recording's functions.

use anyhow::{anyhow, bail};

use crate::engine::{IntakeOptions, Offline};
use crate::lang::counted;
use crate::profile::SymId;
use crate::query::Aggregate;
use crate::query::annotate::listing::{self as print, ListingColumns};
use crate::query::annotate::{self, SampledFunction};
use crate::report::annotated::json;
use crate::session::Dso;
use crate::symbols::lines::Lines;
use crate::symbols::{Resolver, SymbolOptions, code};

use crate::cli::args::names::{AnnotateArgs, AnnotateFormat};
use crate::cli::commands::report::chosen_events;
use crate::cli::output::complain;
use crate::cli::{input, output, usage};

pub(crate) fn run(args: AnnotateArgs) -> anyhow::Result<u8> {
    let Some((recording, symbol)) = args.split() else {
        return Err(usage("too many arguments: expected one recording and one function; quote a name with spaces"));
    };
    let by_stack = args.which.check()?.is_some_and(|f| f.needs_chains());
    let opened = input::open(&recording, args.no_demangle)?;
    let options = opened.symbols.clone();
    let loaded = opened.load(IntakeOptions {
        chains: by_stack,
        fields: args.which.needs_fields(),
        ..IntakeOptions::default()
    })?;
    let mut printer = ListingPrinter::new(&args, options);
    // For a named function, the reason why an event has no samples of it; otherwise, that there are no samples.
    let mut fault = None;
    for event in chosen_events(&loaded, &args.which)? {
        let fold = Aggregate::new(event, args.which.filter(&loaded)?).over(loaded.data());
        let all = annotate::functions(loaded.data(), &fold);
        match chosen(&loaded, all, symbol.as_deref(), args.percent_limit) {
            Ok(list) => list.iter().try_for_each(|one| printer.print(&loaded, &loaded.event_names[event], one))?,
            Err(why) => fault = fault.or(Some(why)),
        }
    }
    printer.end(fault)?;
    Ok(loaded.exit_code())
}

/// Returns the functions of this name, or of the only name that contains it; by default all above the limit.
fn chosen(
    loaded: &Offline,
    all: Vec<SampledFunction>,
    symbol: Option<&str>,
    least: f64,
) -> anyhow::Result<Vec<SampledFunction>> {
    let mut all = all;
    let Some(symbol) = symbol else {
        all.retain(|one| one.hits.own.percent_of(&one.hits.total) >= least);
        return if all.is_empty() { Err(anyhow!("no samples in functions with a name")) } else { Ok(all) };
    };
    let mut names: Vec<&str> = Vec::new();
    for one in &all {
        if !names.contains(&&*one.function) && one.function.contains(symbol) {
            names.push(&one.function);
        }
    }
    let name = match names.as_slice() {
        list if list.contains(&symbol) => symbol.to_owned(),
        [one] => (*one).to_owned(),
        [] => {
            let frames = &loaded.data().profile.frames;
            let mut known = (0..frames.n_syms() as u32).map(|i| frames.sym(SymId(i)));
            if known.any(|sym| sym.function.as_deref() == Some(symbol)) {
                bail!("{symbol} has no samples of its own, only its callees have");
            }
            let hint = crate::lang::nearest_hint(symbol, all.iter().map(|one| &*one.function));
            bail!("no function is named {symbol}{hint}")
        }
        many => {
            let first: Vec<&str> = many.iter().take(8).copied().collect();
            bail!("{symbol} matches {} functions: {}; name one of them", many.len(), first.join(", "))
        }
    };
    all.retain(|one| *one.function == *name);
    Ok(all)
}

/// Functions of a DSO that are not shown, with one reason.
struct Missing {
    first: String,
    others: usize,
    dso: String,
    why: String,
}

struct ListingPrinter<'a> {
    args: &'a AnnotateArgs,
    resolver: Resolver,
    lines: Lines,
    options: SymbolOptions,
    printed: usize,
    missing: Vec<Missing>,
}

impl<'a> ListingPrinter<'a> {
    fn new(args: &'a AnnotateArgs, options: SymbolOptions) -> Self {
        let (resolver, lines) = (Resolver::new(options.clone()), Lines::new(options.clone()));
        Self { args, resolver, lines, options, printed: 0, missing: Vec::new() }
    }

    fn print(&mut self, loaded: &Offline, event: &str, function: &SampledFunction) -> anyhow::Result<()> {
        let dso = loaded.ingest.core().session.dsos.get(function.dso);
        let listing = code::list(dso, function.start, &mut self.resolver, &mut self.lines, &self.options);
        let listing = match listing {
            Ok(listing) => listing,
            Err(why) => {
                self.miss(dso, function, why);
                return Ok(());
            }
        };
        let hits = &function.hits;
        let rows = annotate::rows(&listing, hits, !self.args.no_source);
        let first = self.printed == 0;
        self.printed += 1;
        match self.args.format {
            AnnotateFormat::Text => {
                let columns = ListingColumns { bytes: self.args.asm_raw, periods: self.args.show_total_period };
                let text = print::text(&listing, hits, &rows, event, columns);
                output::print(&if first { text } else { format!("\n{text}") })
            }
            AnnotateFormat::Json => output::print_json_line(&json(&listing, hits, &rows, event)),
        }
    }

    fn miss(&mut self, dso: &Dso, function: &SampledFunction, why: String) {
        match self.missing.iter_mut().find(|one| *one.dso == *dso.path && one.why == why) {
            Some(same) => same.others += 1,
            None => {
                let first = function.function.to_string();
                self.missing.push(Missing { first, others: 0, dso: dso.path.to_string(), why });
            }
        }
    }

    /// Reports the functions that were not shown; an error if none was shown.
    fn end(self, fault: Option<anyhow::Error>) -> anyhow::Result<()> {
        let said = self.missing.iter().map(|one| {
            let others = if one.others > 0 {
                format!(" and {}", counted(one.others as u64, "more function"))
            } else {
                String::new()
            };
            format!("{}{others} in {}: {}", one.first, one.dso, one.why)
        });
        let said: Vec<String> = said.collect();
        if self.printed > 0 {
            said.iter().for_each(|text| complain(text));
            return Ok(());
        }
        match (said.is_empty(), fault) {
            (false, _) => bail!("{}", said.join("\n")),
            (true, Some(fault)) => Err(fault),
            (true, None) => bail!("the recording has no events"),
        }
    }
}

pub(crate) fn plain_options(no_demangle: bool) -> SymbolOptions {
    let form = if no_demangle { crate::symbols::NameForm::Raw } else { crate::symbols::NameForm::Plain };
    SymbolOptions { form, live: false, ..SymbolOptions::of_user() }
}
