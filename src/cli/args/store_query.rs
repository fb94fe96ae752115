//! Options of profile stores. They become a part of the store's address, so that every command that takes a file takes
//! a store, too: `pyroscope://HOST:4040/?query=process_cpu:cpu{service_name="cart"}&from=-1h&until=now`.

use std::path::{Path, PathBuf};

use clap::{ArgAction, Args as ClapArgs};

use crate::engine::curl::decoded;

/// The schemes of addresses.
const SCHEMES: [&str; 4] = ["pyroscope://", "pyroscopes://", "parca://", "parcas://"];

/// Profiles to read from stores, and their time. The n-th value of an option belongs to the n-th address, the last one to all further.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct StoreQueryArgs {
    /// Profiles to read from pyroscope:// or parca://, e.g. 'process_cpu:cpu{service_name="cart"}'; with two addresses
    /// two queries may be given [default: an error that lists what the store has]
    #[arg(long, value_name = "QUERY", action = ArgAction::Append, hide_short_help = true)]
    pub(crate) query: Vec<String>,
    /// Beginning of the time to read from a store: -1h, 14:03, or a date and time [default: -1h]
    #[arg(long, value_name = "TIME", action = ArgAction::Append, allow_hyphen_values = true, hide_short_help = true)]
    pub(crate) from: Vec<String>,
    /// End of the time to read from a store [default: now]
    #[arg(long, value_name = "TIME", action = ArgAction::Append, allow_hyphen_values = true, hide_short_help = true)]
    pub(crate) until: Vec<String>,
}

impl StoreQueryArgs {
    /// Moves the options into the addresses among these paths, where the addresses lack them. Without addresses, the
    /// options stay.
    pub(crate) fn move_into(&mut self, paths: &mut [PathBuf]) {
        let mut n = 0;
        for path in paths {
            let Some(mut address) = store_address(path).map(str::to_owned) else { continue };
            for (name, values) in [("query", &self.query), ("from", &self.from), ("until", &self.until)] {
                let Some(value) = values.get(n).or(values.last()) else { continue };
                if parameter(&address, name).is_none() {
                    address.push(if address.contains('?') { '&' } else { '?' });
                    address.push_str(&format!("{name}={}", value.replace('%', "%25").replace('&', "%26")));
                }
            }
            *path = address.into();
            n += 1;
        }
        if n > 0 {
            *self = Self::default();
        }
    }

    /// Returns why the options cannot be used, if any is left and none of the paths is a store's address.
    pub(crate) fn misplaced(&self, paths: &[PathBuf]) -> Option<&'static str> {
        let is_used = [&self.query, &self.from, &self.until].iter().any(|values| !values.is_empty());
        let has_address = paths.iter().any(|path| store_address(path).is_some());
        (is_used && !has_address)
            .then_some("--query, --from and --until need a store's address: pyroscope://HOST:PORT or parca://HOST:PORT")
    }
}

/// Returns a path as text if it is the address of a store.
pub(crate) fn store_address(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| SCHEMES.iter().any(|scheme| text.starts_with(scheme)))
}

/// Returns a value of an address's query.
pub(crate) fn parameter(address: &str, name: &str) -> Option<String> {
    let pairs = address.split_once('?')?.1.split('&');
    pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| decoded(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_a_part_of_addresses() {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let all = StoreQueryArgs {
            query: texts(&["cpu{a=\"x&y%\"}"]),
            from: texts(&["-2h", "-1h"]),
            until: texts(&["-1h", "now"]),
        };
        let of = |paths: &[&str]| {
            let mut paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            let mut args = all.clone();
            args.move_into(&mut paths);
            let is_wrong = args.misplaced(&paths).is_some();
            (paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(), is_wrong)
        };
        let (both, is_wrong) = of(&["pyroscope://h:1/", "x.data", "parcas://h?query=heap&until=14:00"]);
        assert_eq!(both[0], "pyroscope://h:1/?query=cpu{a=\"x%26y%25\"}&from=-2h&until=-1h");
        assert_eq!(both[1..], ["x.data", "parcas://h?query=heap&until=14:00&from=-1h"]);
        assert_eq!(parameter(&both[0], "query").as_deref(), Some("cpu{a=\"x&y%\"}"));
        assert!(!is_wrong && of(&["x.data"]).1, "the options need a store");
        assert_eq!((parameter(&both[0], "fro"), parameter("parca://h", "from")), (None, None));
    }
}
