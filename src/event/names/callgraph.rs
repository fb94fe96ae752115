//! Methods to record the user part of call chains (`--call-graph`, perf-record(1)).

use crate::kernel::perf_event::attr::{Attr, branch, sample};
use crate::lang::quantity;

/// A method to record call chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CallGraph {
    /// No call chains: a sample has a single address.
    None,
    /// The kernel follows frame pointers.
    Fp,
    /// The kernel copies this many bytes of the user stack. They are unwound with the files' tables.
    Dwarf(u32),
    /// The CPU's branch records of the last calls.
    Lbr,
    /// A BPF program walks the stack with the files' tables. Code without tables is walked by frame pointers.
    Tables,
    /// Tables where the kernel allows it, else frame pointers.
    #[default]
    Auto,
}

/// The recorded frames of programs in interpreted languages (`--interp`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpreters {
    /// Functions of the language in place of the interpreter's frames.
    #[default]
    Auto,
    /// Both.
    Both,
    /// Functions of the language only, without frames of native code.
    Only,
    /// Native frames only.
    Off,
}

impl Interpreters {
    /// Parses `auto`, `both`, `only` or `off`; the error names them.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "both" => Ok(Self::Both),
            "only" => Ok(Self::Only),
            "off" => Ok(Self::Off),
            _ => Err(format!("{text}: expected auto, both, only or off")),
        }
    }

    /// Returns the word of `--interp`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Both => "both",
            Self::Only => "only",
            Self::Off => "off",
        }
    }

    /// Returns what the frames are, to follow "from now on".
    pub(crate) fn shown(self) -> &'static str {
        match self {
            Self::Auto => "functions of the language in place of the interpreter's frames",
            Self::Both => "functions of the language, and the interpreter's frames",
            Self::Only => "functions of the language only, without native frames",
            Self::Off => "native frames only",
        }
    }

    /// Returns the mode after this one, in the order of the key that cycles through them.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Auto => Self::Both,
            Self::Both => Self::Only,
            Self::Only => Self::Off,
            Self::Off => Self::Auto,
        }
    }
}

/// Bytes of stack that perf copies by default.
pub(crate) const STACK: u32 = 8192;
/// The kernel's limit of copied stack bytes: below 64 KiB, a multiple of 8.
pub(crate) const MAX_STACK: u32 = 65_528;

impl CallGraph {
    /// Parses `fp`, `tables`, `dwarf`, `dwarf,SIZE`, `lbr`, `auto` or `none`; the error names the expected values.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (way, rest) = text.split_once(',').unwrap_or((text, ""));
        match (way, rest) {
            ("fp", "") => Ok(Self::Fp),
            ("tables", "") => Ok(Self::Tables),
            ("auto", "") => Ok(Self::Auto),
            ("none" | "no", "") => Ok(Self::None),
            ("lbr", "") => Ok(Self::Lbr),
            ("dwarf", "") => Ok(Self::Dwarf(STACK)),
            ("dwarf", size) => match quantity::size::<u32>(size) {
                Ok(size) if (1..=MAX_STACK).contains(&size) => Ok(Self::Dwarf(size.next_multiple_of(8))),
                _ => Err(format!("--call-graph {text}: the size is 8 to {MAX_STACK} bytes")),
            },
            _ => Err(format!("--call-graph {text}: expected fp, tables, dwarf[,SIZE], lbr, auto or none")),
        }
    }

    pub(crate) fn of(attr: &Attr) -> Self {
        if attr.sample_type & sample::STACK_USER != 0 && attr.stack_user > 0 {
            Self::Dwarf(attr.stack_user)
        } else if attr.sample_type & sample::BRANCH_STACK != 0 && attr.branch_sample_type & branch::CALL_STACK != 0 {
            Self::Lbr
        } else if attr.sample_type & sample::CALLCHAIN != 0 {
            Self::Fp
        } else {
            Self::None
        }
    }

    pub(crate) fn without_tables(self) -> Self {
        match self {
            Self::Tables | Self::Auto => Self::Fp,
            other => other,
        }
    }

    pub(crate) fn is_on(self) -> bool {
        self != Self::None
    }

    pub(crate) fn spelling(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Fp => "fp".to_owned(),
            Self::Dwarf(STACK) => "dwarf".to_owned(),
            Self::Dwarf(size) => format!("dwarf,{size}"),
            Self::Lbr => "lbr".to_owned(),
            Self::Tables => "tables".to_owned(),
            Self::Auto => "auto".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_and_sizes() {
        for text in ["fp", "none", "lbr", "dwarf", "dwarf,16384", "tables", "auto"] {
            assert_eq!(CallGraph::parse(text).map(CallGraph::spelling).as_deref(), Ok(text));
        }
        assert_eq!(CallGraph::parse("dwarf,1001"), Ok(CallGraph::Dwarf(1008)));
        for text in ["dwarf,0", "dwarf,65536", "dwarf,x", "fp,9", "", "orc"] {
            assert!(CallGraph::parse(text).is_err(), "{text}");
        }
    }
}
