//! `annotate`: a function of a recording, instruction by instruction.

use anyhow::{anyhow, bail};

use crate::engine::{IntakeOptions, Offline};
use crate::panel::listing as print;
use crate::profile::SymId;
use crate::query::annotate::{self, AnnotatedFunction};
use crate::query::{Aggregate, ColumnKey, RowLimit, Top, TopSpec};
use crate::report::annotated::json;
use crate::symbols::lines::Lines;
use crate::symbols::{Resolver, SymbolOptions, code};

use super::args::names::{Annotate, AnnotateFormat};
use super::report::chosen_events;
use super::{open, output, usage};

/// `perfprof-tui annotate`.
pub(crate) fn run(args: Annotate) -> anyhow::Result<u8> {
    let Some((recording, symbol)) = args.split() else {
        return Err(usage("one recording and one function; a name with blanks goes in quotes"));
    };
    let by_stack = args.which.check()?.is_some_and(|f| f.needs_chains());
    let opened = open::open(&recording, args.no_demangle)?;
    let options = opened.symbols.clone();
    let loaded = opened.load(IntakeOptions {
        chains: by_stack,
        fields: args.which.needs_fields(),
        ..IntakeOptions::default()
    })?;
    let event = *chosen_events(&loaded, &args.which)?.first().ok_or_else(|| anyhow!("the recording has no event"))?;
    let mut fold = Aggregate::new(event, args.which.filter(&loaded)?);
    fold.update(loaded.data(), 0..u64::MAX);
    let target = target(&loaded, &fold, symbol.as_deref())?;
    let Some((dso, at)) = annotate::locate(loaded.data(), &target, Some(&fold)) else {
        bail!("{} has no samples", target.function);
    };
    let hits = annotate::hits(loaded.data(), &fold, &target);
    let dso = loaded.ingest.core().session.dsos.get(dso);
    let (mut resolver, mut lines) = (Resolver::new(options.clone()), Lines::new(options.clone()));
    let listing = code::list(dso, at, &mut resolver, &mut lines, &options)
        .map_err(|why| anyhow!("{} in {}: {why}", target.function, dso.path))?;
    let rows = annotate::rows(&listing, &hits, !args.no_source);
    let name = &loaded.event_names[event];
    match args.format {
        AnnotateFormat::Text => {
            output::print(&print::text(&listing, &hits, &rows, name, print::ListingOptions { raw: args.asm_raw }))?;
        }
        AnnotateFormat::Json => output::print_json(&json(&listing, &hits, &rows, name))?,
    }
    Ok(0)
}

/// The function that is asked for, by its whole name or the only one that has the word in it; else the
/// hottest one.
fn target(loaded: &Offline, fold: &Aggregate, symbol: Option<&str>) -> anyhow::Result<AnnotatedFunction> {
    let data = loaded.data();
    let spec = TopSpec { keys: vec![ColumnKey::Dso, ColumnKey::Sym], children: false, ..TopSpec::default() };
    let top = Top::build(data, fold, &spec, RowLimit::First(usize::MAX));
    let rows = top.rows.iter().filter(|row| row.own.samples > 0).filter_map(|row| top.symbol(data, row.label));
    let named: Vec<AnnotatedFunction> = rows
        .filter_map(|sym| Some(AnnotatedFunction { function: sym.function.clone()?, dso: sym.dso_name.clone() }))
        .collect();
    let Some(symbol) = symbol else {
        return named.into_iter().next().ok_or_else(|| anyhow!("no function with a name has samples"));
    };
    let exact = named.iter().find(|t| *t.function == *symbol);
    if let Some(exact) = exact {
        return Ok(exact.clone());
    }
    let mut near: Vec<&AnnotatedFunction> = named.iter().filter(|t| t.function.contains(symbol)).collect();
    near.dedup_by(|a, b| a == b);
    match near.as_slice() {
        [one] => Ok((*one).clone()),
        [] => {
            let known = (0..data.profile.frames.n_syms() as u32).map(|i| data.profile.frames.sym(SymId(i)));
            let called = known.into_iter().any(|sym| sym.function.as_deref() == Some(symbol));
            if called {
                bail!("{symbol} has no samples of its own: it only calls functions that have");
            }
            let names = named.iter().map(|t| &*t.function);
            let hint = crate::lang::nearest_hint(symbol, names);
            bail!("no function is called {symbol}{hint}")
        }
        many => {
            let names: Vec<&str> = many.iter().take(8).map(|t| &*t.function).collect();
            bail!("{symbol} is part of {} functions' names: {}", many.len(), names.join(", "))
        }
    }
}

/// SymbolOptions of names for a file by itself.
pub(crate) fn plain_options(no_demangle: bool) -> SymbolOptions {
    let form = if no_demangle { crate::symbols::NameForm::Raw } else { crate::symbols::NameForm::Plain };
    SymbolOptions { form, live: false, ..SymbolOptions::of_user() }
}
