//! The value of -g: which call chains are printed, and how.

use crate::lang::quantity;
use crate::query::Direction;
use crate::query::rows::lines::CHAIN_LIMIT;
use crate::query::tree::heaviest_chain::ApartBy;
use crate::report::chain_spec::{ChainForm, ChainSpec, ChainValue};

use crate::cli::args::ReportArgs;
use crate::cli::usage;

/// Returns the call chains of a report. `children`: rows include callees; `by_itself`: print chains by default.
pub(super) fn of(args: &ReportArgs, children: bool, by_itself: bool) -> anyhow::Result<Option<ChainSpec>> {
    let least = if args.percent_limit > 0.0 { args.percent_limit } else { CHAIN_LIMIT };
    // The default order explains a row's figure (perf-report(1), --call-graph).
    let direction = if children || args.more.inverted { Direction::Callees } else { Direction::Callers };
    let (form, value) = (ChainForm::Graph, ChainValue::Percent);
    let spec = ChainSpec { form, value, direction, least, most: usize::MAX, apart: ApartBy::Nothing };
    match args.call_graph.as_deref() {
        Some(text) => parse(text, spec),
        None => Ok((args.more.inverted || by_itself && !args.no_call_graph).then_some(spec)),
    }
}

pub(super) fn has_word(args: &ReportArgs, word: &str) -> bool {
    args.call_graph.as_deref().is_some_and(|text| text.split(',').any(|typed| typed.trim() == word))
}

/// Parses `graph,0.5,10,caller,function,percent`; each word is optional.
fn parse(text: &str, spec: ChainSpec) -> anyhow::Result<Option<ChainSpec>> {
    let mut spec = spec;
    let (mut shown, mut numbers) = (true, 0);
    for word in text.split(',').map(str::trim) {
        match word {
            "" | "function" => spec.apart = ApartBy::Nothing,
            "address" => spec.apart = ApartBy::Address,
            "srcline" => spec.apart = ApartBy::Line,
            // The report warns if the recording has branches.
            "branch" => {}
            "none" => shown = false,
            "graph" => spec.form = ChainForm::Graph,
            "fractal" => spec.form = ChainForm::Fractal,
            "flat" => spec.form = ChainForm::Flat,
            "folded" => spec.form = ChainForm::Folded,
            "caller" => spec.direction = Direction::Callees,
            "callee" => spec.direction = Direction::Callers,
            "percent" => spec.value = ChainValue::Percent,
            "period" => spec.value = ChainValue::Period,
            "count" => spec.value = ChainValue::Count,
            number => {
                let refused = || usage(format!("-g {text}: unknown word {word}; see --help"));
                match numbers {
                    0 => spec.least = quantity::share(number).map_err(|_| refused())?,
                    1 => spec.most = quantity::count(number).map_err(|_| refused())?,
                    _ => return Err(refused()),
                }
                numbers += 1;
            }
        }
    }
    Ok(shown.then_some(spec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn perfs_words_in_any_order() {
        let spec = ChainSpec {
            form: ChainForm::Graph,
            value: ChainValue::Percent,
            direction: Direction::Callers,
            least: 0.5,
            most: usize::MAX,
            apart: ApartBy::Nothing,
        };
        let of = |text| parse(text, spec).map_err(|error| error.to_string());
        assert_eq!(of("graph"), Ok(Some(spec)));
        assert_eq!(of("graph,0.5,callee"), Ok(Some(spec)));
        assert_eq!(of("none"), Ok(None));
        assert_eq!(
            of("caller,fractal,2,3,function,period"),
            Ok(Some(ChainSpec {
                form: ChainForm::Fractal,
                value: ChainValue::Period,
                direction: Direction::Callees,
                least: 2.0,
                most: 3,
                apart: ApartBy::Nothing
            }))
        );
        for (words, apart) in [
            ("caller,address", ApartBy::Address),
            ("caller,srcline", ApartBy::Line),
            ("caller,branch", ApartBy::Nothing),
        ] {
            assert_eq!(of(words).map(|spec| spec.map(|s| s.apart)), Ok(Some(apart)));
        }
        assert_eq!(
            of("folded,0,count").map(|spec| spec.map(|s| (s.form, s.least, s.value))),
            Ok(Some((ChainForm::Folded, 0.0, ChainValue::Count)))
        );
        for wrong in ["sideways", "graph,0.5,2,3", "graph,0.5,1.5"] {
            assert!(of(wrong).is_err_and(|said| said.starts_with(&format!("-g {wrong}: "))), "{wrong}");
        }
    }
}
