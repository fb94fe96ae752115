//! Completion of `--query` on a shell's command line: profile types, labels and values of the store that the line names.
//! The shell waits meanwhile, so the time is short, and any failure completes nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap_complete::Shell;

use crate::cli::args::StoreQueryArgs;
use crate::cli::args::store_query::store_address;
use crate::kernel::wall_ns;

use super::address::{StoreAddress, StoreSpan};
use super::client::StoreClient;
use super::query::{ConditionPart, last_condition};

/// The time that a store has for all answers.
const TIME: Duration = Duration::from_secs(2);
/// The candidates that are returned.
const MOST: usize = 300;

/// A word of a command line without its quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ShellWord {
    text: String,
    /// Where the quote that is open at the end begins in the text, and which one it is.
    open: Option<(usize, char)>,
    /// Whether other parts of it are quoted.
    is_mixed: bool,
}

/// Splits a command line up to the cursor; the last word is the one at the cursor.
fn words(line: &str) -> Vec<ShellWord> {
    let (mut words, mut word) = (Vec::new(), ShellWord::default());
    let mut is_word = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let quote = word.open.map(|(_, quote)| quote);
        match (quote, c) {
            (None, ' ' | '\t' | '\n') => {
                words.extend(is_word.then(|| std::mem::take(&mut word)));
                is_word = false;
                continue;
            }
            (None, '\'' | '"') => word.open = Some((word.text.len(), c)),
            (Some(quote), c) if quote == c => (word.open, word.is_mixed) = (None, true),
            (None, '\\') => {
                word.text.extend(chars.next());
                word.is_mixed = true;
            }
            (Some('"'), '\\') if chars.peek().is_some_and(|next| "\"\\$`".contains(*next)) => {
                word.text.extend(chars.next());
            }
            (_, c) => word.text.push(c),
        }
        is_word = true;
    }
    words.push(word);
    words
}

/// The part of a command line that is completed.
#[derive(Debug, PartialEq, Eq)]
struct OpenQuery {
    /// The store's address, with the time of the line.
    address: PathBuf,
    /// The part of the last word before the query: empty, `--query=` or `-q`.
    option: &'static str,
    query: String,
    word: ShellWord,
}

impl OpenQuery {
    /// Finds the query at the end of a line; `None` if the cursor is not in one.
    fn of(line: &str) -> Option<Self> {
        let mut words = words(line);
        let word = words.pop()?;
        let is_query = |word: &ShellWord| ["-q", "--query"].contains(&word.text.as_str());
        let option = match words.last() {
            Some(before) if is_query(before) => {
                words.pop();
                ""
            }
            _ => ["--query=", "-q"].into_iter().find(|option| word.text.starts_with(option))?,
        };
        let values = |name: &str| {
            let (apart, joined) = (format!("--{name}"), format!("--{name}="));
            let after = words.windows(2).filter(|two| two[0].text == apart).map(|two| two[1].text.clone());
            let within = words.iter().filter_map(|word| word.text.strip_prefix(&joined).map(str::to_owned));
            after.chain(within).collect::<Vec<_>>()
        };
        // The query before the address gets it, too: each query belongs to the address of its number.
        let number = words.iter().filter(|word| is_query(word) || word.text.starts_with("--query=")).count();
        let mut addresses: Vec<PathBuf> = words.iter().map(|word| PathBuf::from(&word.text)).collect();
        addresses.retain(|path| store_address(path).is_some());
        let mut time = StoreQueryArgs { query: Vec::new(), from: values("from"), until: values("until") };
        time.move_into(&mut addresses);
        let address = addresses.get(number).or(addresses.last())?.clone();
        Some(Self { address, option, query: word.text[option.len()..].to_owned(), word })
    }

    /// Returns a whole query in the form in which a shell replaces the word; `None` if it cannot be inserted safely.
    fn inserted(&self, shell: Shell, query: String) -> Option<String> {
        if !query.chars().all(|c| c.is_alphanumeric() || " _-.:/@+,=()[]#~*{}\"".contains(c)) {
            return None;
        }
        match shell {
            Shell::Bash => {}
            // Others quote what they insert; fish replaces the option as well.
            Shell::Fish => return Some(format!("{}{query}", self.option)),
            _ => return Some(query),
        }
        // bash inserts the text as it is, after the open quote.
        match self.word.open {
            Some((from, quote)) if from == self.option.len() && !self.word.is_mixed => {
                Some(if quote == '"' { query.replace('"', "\\\"") } else { query })
            }
            None if !self.word.is_mixed => {
                let is_plain = query.chars().all(|c| c.is_alphanumeric() || "_-.:/".contains(c));
                is_plain.then_some(query)
            }
            _ => None,
        }
    }
}

/// The lists of a store; `None` if it does not answer.
trait QueryLists {
    fn types(&self) -> Option<Vec<String>>;
    fn labels(&self) -> Option<Vec<String>>;
    fn values(&self, label: &str) -> Option<Vec<String>>;
}

struct StoreLists {
    client: StoreClient,
    span: StoreSpan,
}

impl QueryLists for StoreLists {
    fn types(&self) -> Option<Vec<String>> {
        self.client.types(self.span).ok()
    }

    fn labels(&self) -> Option<Vec<String>> {
        self.client.labels(self.span).ok()
    }

    fn values(&self, label: &str) -> Option<Vec<String>> {
        self.client.values(label, self.span).ok()
    }
}

/// Returns the texts that may replace the word at the end of a command line.
pub(crate) fn candidates(shell: Shell, line: &str) -> Vec<String> {
    let found = || {
        let open = OpenQuery::of(line)?;
        let address = StoreAddress::parse(Path::new(&open.address))?.ok()?;
        let span = address.span(wall_ns()).ok()?;
        let lists = StoreLists { client: StoreClient::new(&address, TIME).ok()?, span };
        let queries = complete(&open.query, &lists)?;
        Some(queries.into_iter().filter_map(|query| open.inserted(shell, query)).take(MOST).collect())
    };
    found().unwrap_or_default()
}

/// Returns the queries that begin with a text. A single one is a whole query: shells end the word after it.
fn complete(typed: &str, lists: &impl QueryLists) -> Option<Vec<String>> {
    if !typed.contains('{') {
        let mut types = lists.types()?;
        types.retain(|kind| kind.starts_with(typed));
        if let [kind] = types.as_slice() {
            let with_labels = format!("{kind}{{");
            types.push(with_labels);
        }
        return Some(types);
    }
    let (head, part) = last_condition(typed)?;
    Some(match part {
        ConditionPart::End => ends(typed),
        ConditionPart::Label(begun) => {
            let used = |label: &String| head.contains(&format!("{{{label}=")) || head.contains(&format!(",{label}="));
            let mut labels = lists.labels()?;
            labels.retain(|label| label.starts_with(begun) && !used(label));
            match labels.as_slice() {
                [label] => with_values(&format!("{head}{label}=\""), "", lists.values(label)?),
                labels => labels.iter().map(|label| format!("{head}{label}=\"")).collect(),
            }
        }
        ConditionPart::Value { label, begun } => with_values(&head, begun, lists.values(label)?),
    })
}

/// Returns a text before a value with each of the values that begin like this.
fn with_values(head: &str, begun: &str, mut values: Vec<String>) -> Vec<String> {
    // Quotes and backslashes would need another form in the query.
    values.retain(|value| value.starts_with(begun) && !value.contains(['"', '\\']));
    match values.as_slice() {
        [value] => ends(&format!("{head}{value}\"")),
        values => values.iter().map(|value| format!("{head}{value}\"")).collect(),
    }
}

/// Returns what may follow a condition.
fn ends(query: &str) -> Vec<String> {
    vec![format!("{query}}}"), format!("{query},")]
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lists;

    impl QueryLists for Lists {
        fn types(&self) -> Option<Vec<String>> {
            Some(["cpu:cpu:ns", "cpu:samples:count", "heap:size:b"].map(str::to_owned).to_vec())
        }

        fn labels(&self) -> Option<Vec<String>> {
            Some(["host", "service", "service_name"].map(str::to_owned).to_vec())
        }

        fn values(&self, label: &str) -> Option<Vec<String>> {
            Some(if label == "host" { vec!["a".to_owned()] } else { vec!["cart".to_owned(), "shop".to_owned()] })
        }
    }

    #[test]
    fn a_query_is_completed_part_by_part() {
        let of = |typed: &str| complete(typed, &Lists).unwrap_or_default();
        assert_eq!(of("").len(), 3);
        assert_eq!(of("cpu"), ["cpu:cpu:ns", "cpu:samples:count"]);
        assert_eq!(of("cpu:c"), ["cpu:cpu:ns", "cpu:cpu:ns{"]);
        assert_eq!(of("cpu:cpu{"), ["cpu:cpu{host=\"", "cpu:cpu{service=\"", "cpu:cpu{service_name=\""]);
        // A single candidate would end the word.
        assert_eq!(of("cpu{service_"), ["cpu{service_name=\"cart\"", "cpu{service_name=\"shop\""]);
        assert_eq!(of("cpu{h"), ["cpu{host=\"a\"}", "cpu{host=\"a\","]);
        assert_eq!(of("cpu{service=\"s"), ["cpu{service=\"shop\"}", "cpu{service=\"shop\","]);
        assert_eq!(of("cpu{service!=\""), ["cpu{service!=\"cart\"", "cpu{service!=\"shop\""]);
        assert_eq!(of("cpu{host=\"a\""), ["cpu{host=\"a\"}", "cpu{host=\"a\","]);
        assert_eq!(of("cpu{host=\"a\", service"), ["cpu{host=\"a\", service=\"", "cpu{host=\"a\", service_name=\""]);
        assert_eq!(of("cpu{host=\"a\",h"), [""; 0], "a label once");
        for whole in ["cpu{host=\"a\"}", "x", "cpu{?", "cpu{host=\"z"] {
            assert_eq!(of(whole), [""; 0], "{whole}");
        }
    }

    #[test]
    fn the_query_at_the_cursor_belongs_to_an_address() {
        let of = |line: &str| OpenQuery::of(line).map(|open| (open.address.display().to_string(), open.query));
        let found = |address: &str, query: &str| Some((address.to_owned(), query.to_owned()));
        assert_eq!(of("p open parca://h:1 -q 'cpu:c"), found("parca://h:1", "cpu:c"));
        assert_eq!(of("p open parca://h -q "), found("parca://h", ""));
        assert_eq!(of("p report parca://h --query=\"cpu{a=\\\"b"), found("parca://h", "cpu{a=\"b"));
        assert_eq!(of("p open parca://h -qcpu"), found("parca://h", "cpu"));
        let two = "p diff parca://a parca://b --from -2h --from=-1h --query cpu --query h";
        assert_eq!(of(two), found("parca://b?from=-1h", "h"));
        for other in ["p open x.data -q c", "p open parca://h", "p open parca://h -q c ", ""] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn what_a_shell_inserts_is_never_code() {
        let of = |shell, typed: &str, query: &str| {
            OpenQuery::of(&format!("p open parca://h {typed}")).and_then(|open| open.inserted(shell, query.to_owned()))
        };
        let query = "cpu:c{a=\"b c\"}";
        let bash = |typed: &str| of(Shell::Bash, typed, query);
        assert_eq!(bash("-q 'c").as_deref(), Some(query));
        assert_eq!(bash("--query='").as_deref(), Some(query));
        assert_eq!(bash("-q \"c").as_deref(), Some("cpu:c{a=\\\"b c\\\"}"));
        assert_eq!(of(Shell::Bash, "-q c", "cpu:c").as_deref(), Some("cpu:c"));
        assert_eq!(of(Shell::Fish, "--query=c", query).as_deref(), Some("--query=cpu:c{a=\"b c\"}"));
        for typed in ["-q c", "-q c'p", "-q 'c'p", "-q c\\p"] {
            assert_eq!(bash(typed), None, "{typed}");
        }
        for hostile in ["c'$(id)'", "$(id)", "`id`", "a;id", "a|id", "a&", "a\\", "a!b", "a\u{1b}", "a>b"] {
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                for typed in ["-q '", "-q \"", "-q "] {
                    assert_eq!(of(shell, typed, hostile), None, "{hostile}");
                }
            }
        }
    }
}
