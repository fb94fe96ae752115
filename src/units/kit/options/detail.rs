//! The events kept around a slow case: `--detail`, as in perf-prof.

use crate::lang::quantity;
use crate::units::kit::Settings;

/// Default number of events.
const EVENTS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CaseDetail {
    /// Maximum number of events, those nearest to the end.
    pub(crate) events: usize,
    /// Whether events must be on the case's CPU, of its process, thread or key. If none is set, all events count.
    pub(crate) cpu: bool,
    pub(crate) process: bool,
    pub(crate) thread: bool,
    pub(crate) key: bool,
    /// The end of the case that these refer to; both if neither or both are set.
    pub(crate) ends: [bool; 2],
    /// Nanoseconds before the case that count as well.
    pub(crate) before: u64,
    /// Events within this time after the last shown one are omitted.
    pub(crate) gap: u64,
}

impl Default for CaseDetail {
    fn default() -> Self {
        Self { events: EVENTS, cpu: true, process: false, thread: true, key: true, ends: [true; 2], before: 0, gap: 0 }
    }
}

impl CaseDetail {
    /// Parses the option: a number of events, or perf-prof's comma-separated words.
    pub(crate) fn of(settings: &Settings) -> Result<Self, String> {
        match settings.get("detail") {
            None => Ok(Self::default()),
            Some(text) if text.bytes().all(|c| c.is_ascii_alphanumeric()) && !text.starts_with("same") => {
                Ok(Self { events: settings.number("detail", 0)? as usize, ..Self::default() })
            }
            Some(text) => Self::parse(text).map_err(|why| format!("--detail={text}: {why}")),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut out = Self { cpu: false, thread: false, key: false, ends: [false; 2], ..Self::default() };
        let time = |text: &str| quantity::time_by(text, 1).map_err(|why| format!("{text}: {why}"));
        for word in text.split(',').map(str::trim) {
            match word {
                "samecpu" => out.cpu = true,
                "samepid" => out.process = true,
                "sametid" => out.thread = true,
                "samekey" => out.key = true,
                "1" => out.ends[0] = true,
                "2" => out.ends[1] = true,
                _ => match (word.strip_prefix('-'), word.strip_prefix("hide<"), word.strip_prefix('+')) {
                    (Some(before), ..) => out.before = time(before)?,
                    (_, Some(gap), _) => out.gap = time(gap)?,
                    (.., Some(_)) => return Err(format!("{word}: events after a case are not available")),
                    _ => {
                        return Err(format!(
                            "{word}: expected a number of events, or some of samecpu, samepid, sametid, samekey, 1, 2, \
                             -TIME and hide<TIME"
                        ));
                    }
                },
            }
        }
        if !(out.cpu || out.process || out.thread || out.key) {
            (out.cpu, out.thread, out.key) = (true, true, true);
        }
        if out.ends == [false; 2] {
            out.ends = [true; 2];
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<CaseDetail, String> {
        let mut settings = Settings::default();
        settings.set("detail", text);
        CaseDetail::of(&settings)
    }

    #[test]
    fn a_number_or_words() {
        let all = CaseDetail::default();
        assert_eq!(of("7"), Ok(CaseDetail { events: 7, ..all.clone() }));
        assert_eq!(of("1k"), Ok(CaseDetail { events: 1000, ..all.clone() }));
        assert_eq!(of("samecpu"), Ok(CaseDetail { thread: false, key: false, ..all.clone() }));
        let of_one =
            CaseDetail { cpu: false, process: true, thread: true, key: false, ends: [false, true], ..all.clone() };
        assert_eq!(of("samepid,sametid,2"), Ok(of_one));
        assert_eq!(of("-1ms,hide<2us"), Ok(CaseDetail { before: 1_000_000, gap: 2_000, ..all.clone() }));
        assert_eq!(of("1,2"), Ok(all));
        assert!(of("+1ms").expect_err("later").contains("not available"));
        assert!(of("samecup").expect_err("a slip").contains("samecpu, samepid"));
        assert!(of("-1parsec").is_err() && of("1x2").is_err());
    }
}
