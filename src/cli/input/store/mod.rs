//! Profiles read back from Pyroscope and Parca: the merged profile of a query, divided by the times of the store's own
//! series. Nothing is kept here: each command requests the store again.

mod address;
mod client;
mod complete;
mod query;

use std::path::PathBuf;

use anyhow::Context;

use crate::cli::{Usage, usage};
use crate::kernel::wall_ns;
use crate::lang::nearest_hint;
use crate::source::imported::{ImportError, ImportedSource, ProfilePart};

use address::{StoreAddress, StoreKind, StoreSpan};
use client::{StoreClient, StoreError, WHOLE};
pub(crate) use complete::candidates;
use query::ProfileQuery;

/// The names of a list that are shown, and the characters of each.
const MOST_NAMES: usize = 20;
const MOST_NAME: usize = 100;

/// Reads the profile of a store's address; `None` if no path is one.
pub(super) fn open(paths: &[PathBuf]) -> anyhow::Result<Option<ImportedSource>> {
    let Some(address) = paths.iter().find_map(|path| StoreAddress::parse(path)) else { return Ok(None) };
    if paths.len() > 1 {
        return Err(usage(
            "profiles of stores cannot be merged with other files; compare two of them with diff, and name profiles with \
             --query (-q does so only with open)",
        ));
    }
    let address = address.map_err(Usage)?;
    let wrong = |why| Usage(format!("--from {} --until {}: {why}", address.from, address.until));
    let span = address.span(wall_ns()).map_err(wrong)?;
    let client = StoreClient::new(&address, WHOLE)?;
    StoreReader { client, span, address: &address }.read().with_context(|| address.shown.clone()).map(Some)
}

struct StoreReader<'a> {
    client: StoreClient,
    span: StoreSpan,
    address: &'a StoreAddress,
}

impl StoreReader<'_> {
    fn read(mut self) -> anyhow::Result<ImportedSource> {
        let StoreAddress { shown, from, until, .. } = self.address;
        let types = self.client.types(self.span)?;
        if types.is_empty() {
            return Err(usage(format!(
                "no profiles from {from} until {until}; choose another time with --from and --until"
            )));
        }
        let Some(text) = &self.address.query else {
            let example = format!("--query '{}{{LABEL=\"VALUE\"}}'", types[0]);
            return Err(usage(format!("--query is missing, e.g. {example}\n{}", self.listing(&types)?)));
        };
        let query = ProfileQuery::parse(text).ok_or_else(|| {
            Usage(format!(
                "--query {text}: expected TYPE{{LABEL=\"VALUE\"}}, e.g. {}\n{}",
                types[0],
                listed("types", &types)
            ))
        })?;
        let kind = match query.matches(&types)[..] {
            [kind] => kind.clone(),
            [] => {
                let near = nearest_hint(&query.kind, types.iter().map(String::as_str));
                return Err(usage(format!("unknown profile type {}{near}\n{}", query.kind, self.listing(&types)?)));
            }
            ref several => {
                let several: Vec<String> = several.iter().map(|kind| (*kind).clone()).collect();
                return Err(usage(format!("{} is more than one type\n{}", query.kind, listed("types", &several))));
            }
        };
        let name = format!("{shown} {kind}{} {from} until {until}", query.selector);
        let bytes = self.client.profile(&kind, &query.selector, self.span)?;
        let parts = [ProfilePart { bytes, time: None }];
        let mut whole = match ImportedSource::of_series(name.clone(), &parts, self.has_period()) {
            Ok(whole) if whole.weight() > 0 => whole,
            Ok(_) | Err(ImportError::Lacks(_)) => return Err(self.nothing(&kind, &query)?),
            Err(error) => return Err(error.into()),
        };
        match self.timed(&name, &kind, &query.selector) {
            Ok(Some(timed)) if timed.weight() == whole.weight() => whole = timed,
            Ok(_) => {
                whole.note("no time map: the store's profiles of parts of the time differ from the whole".to_owned())
            }
            Err(error) => whole.note(format!("no time map: {error:#}")),
        }
        let [from, until] = [self.span.from, self.span.until].map(|ms| ms.saturating_mul(1_000_000));
        whole.set_measured(from, until);
        Ok(whole)
    }

    /// Reads the profile in slices of the time, where the store's series has values.
    fn timed(&mut self, name: &str, kind: &str, selector: &str) -> anyhow::Result<Option<ImportedSource>> {
        let times = self.client.times(kind, selector, self.span)?;
        let slices = self.span.slices(&times);
        if slices.is_empty() {
            return Ok(None);
        }
        let mut parts = Vec::new();
        for slice in slices {
            let bytes = self.client.profile(kind, selector, slice)?;
            parts.push(ProfilePart { bytes, time: Some(slice.from.saturating_mul(1_000_000)) });
        }
        Ok(Some(ImportedSource::of_series(name.to_owned(), &parts, self.has_period())?))
    }

    /// Returns whether profiles have the period of their samples. Pyroscope assumes one for each name of a type: one
    /// second for `process_cpu`.
    fn has_period(&self) -> bool {
        self.address.kind != StoreKind::Pyroscope
    }

    /// Returns the store's types and labels.
    fn listing(&self, types: &[String]) -> Result<String, StoreError> {
        let labels = self.client.labels(self.span)?;
        Ok(format!("{}\n{}", listed("types", types), listed("labels", &labels)))
    }

    /// Returns why no profile matches: the first label or value that the store does not have.
    fn nothing(&self, kind: &str, query: &ProfileQuery) -> Result<anyhow::Error, StoreError> {
        let labels = self.client.labels(self.span)?;
        for condition in query.conditions() {
            let label = &condition.label;
            if !labels.contains(label) {
                let near = nearest_hint(label, labels.iter().map(String::as_str));
                return Ok(usage(format!("no label is named {label}{near}\n{}", listed("labels", &labels))));
            }
            let Some(value) = condition.value else { continue };
            let values = self.client.values(label, self.span)?;
            if !values.contains(&value) {
                let near = nearest_hint(&value, values.iter().map(String::as_str));
                let list = listed(&format!("values of {label}"), &values);
                return Ok(usage(format!("no profile has the label {label}=\"{value}\"{near}\n{list}")));
            }
        }
        let StoreAddress { from, until, .. } = self.address;
        Ok(usage(format!(
            "no profile of {kind}{} from {from} until {until}; choose another time with --from and --until",
            query.selector
        )))
    }
}

/// Returns the beginning of a list under its title.
fn listed(title: &str, names: &[String]) -> String {
    let cut = |name: &String| name.chars().take(MOST_NAME).collect();
    let shown: Vec<String> = names.iter().take(MOST_NAMES).map(cut).collect();
    let more = names.len().saturating_sub(MOST_NAMES);
    let end = if more > 0 { format!(" and {more} more") } else { String::new() };
    match shown.is_empty() {
        true => format!("{title}: (empty)"),
        false => format!("{title}: {}{end}", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_bounded() {
        let many: Vec<String> = (0..100).map(|n| format!("{n} {}", "x".repeat(1000))).collect();
        let text = listed("labels", &many);
        assert!(text.len() < 3000 && text.lines().count() == 1 && text.ends_with(" and 80 more"), "{text}");
        assert_eq!(listed("labels", &["a".to_owned(), "b".to_owned()]), "labels: a, b");
        assert_eq!(listed("types", &[]), "types: (empty)");
    }

    #[test]
    fn only_one_address_is_opened() {
        assert!(open(&["perf.data".into(), "http://h".into()]).is_ok_and(|source| source.is_none()));
        for paths in
            [vec!["parca://h".into(), "x.data".into()], vec!["parca://".into()], vec!["parca://h?from=x".into()]]
        {
            assert!(open(&paths).is_err_and(|error| error.is::<Usage>()), "{paths:?}");
        }
    }
}
