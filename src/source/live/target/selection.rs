//! Containers requested by name, id, pattern or pod, and the running ones among them.

use std::path::PathBuf;

use globset::{GlobBuilder, GlobMatcher};

use crate::filter::equals;
use crate::session::containers::Container;

use crate::source::live::containers::{RunningContainer, Scanner};
use crate::source::live::error::{OpenError, nearest_or};

/// The requested containers.
#[derive(Clone, Debug)]
pub struct TargetSelection {
    /// The text of the request: `container web*`, `pod shop/cart-7d9`.
    pub words: String,
    name: String,
    matcher: GlobMatcher,
    /// For a pod: the pattern of its namespace.
    namespace: Option<GlobMatcher>,
    is_pattern: bool,
}

impl PartialEq for TargetSelection {
    fn eq(&self, other: &Self) -> bool {
        self.words == other.words
    }
}

impl Eq for TargetSelection {}

impl TargetSelection {
    /// Returns a request for `NAME`, an unambiguous prefix of an id, or a pattern. Fails if the pattern is malformed.
    pub fn container(name: &str) -> Result<Self, OpenError> {
        let words = format!("container {name}");
        let matcher = glob(name, &words)?;
        Ok(Self { is_pattern: is_pattern(name), words, name: name.to_owned(), matcher, namespace: None })
    }

    /// Returns a request for `NAMESPACE/NAME`, or NAME in any namespace. Fails if one is a malformed pattern.
    pub fn pod(text: &str) -> Result<Self, OpenError> {
        let words = format!("pod {text}");
        let (namespace, name) = text.split_once('/').unwrap_or(("*", text));
        let (namespace, matcher) = (Some(glob(namespace, &words)?), glob(name, &words)?);
        Ok(Self { is_pattern: is_pattern(text), words, name: name.to_owned(), matcher, namespace })
    }

    pub(crate) fn is(&self, container: &Container) -> bool {
        match &self.namespace {
            Some(namespace) => {
                !container.pod.is_empty()
                    && self.matcher.is_match(&*container.pod)
                    && namespace.is_match(&*container.namespace)
            }
            None => container.is_called(&self.name, |name| self.matcher.is_match(name)),
        }
    }

    /// Returns the running containers that match. Finding none is an error, unless later ones may match the pattern.
    pub fn running(&self, scanner: &mut Scanner) -> Result<Vec<RunningContainer>, OpenError> {
        let all = scanner.look().came;
        let found: Vec<RunningContainer> =
            all.iter().filter(|running| self.is(&running.named.container)).cloned().collect();
        if found.is_empty() && !self.is_pattern {
            let of = |container: &Container| match self.namespace {
                Some(_) => container.pod.to_string(),
                None => container.name.to_string(),
            };
            let names: Vec<String> = all.iter().map(|running| of(&running.named.container)).collect();
            let otherwise = "See perfprof-tui list containers; a pattern also matches containers that start later.";
            let remedy = nearest_or(&self.name, names.iter().map(String::as_str), otherwise);
            return Err(OpenError::new(&self.words, "sampled", "no such container runs", remedy));
        }
        Ok(found)
    }

    /// Returns a view's filter if events cannot be bound to the groups, else `None`. Fails like [`Self::running`].
    pub fn view(&self, scanner: &mut Scanner) -> Result<Option<String>, OpenError> {
        let found = self.running(scanner)?;
        if found.is_empty() || found.iter().any(|running| running.place.is_some()) {
            return Ok(None);
        }
        if self.is_pattern {
            return Ok(Some(self.matching()));
        }
        let one = |running: &RunningContainer| {
            let Container { name, pod, namespace, .. } = &*running.named.container;
            let clauses = [("container", name), ("pod", pod), ("namespace", namespace)];
            let clauses = clauses.into_iter().filter(|(_, value)| !value.is_empty());
            format!("({})", clauses.map(|(field, value)| equals(field, value)).collect::<Vec<_>>().join(" && "))
        };
        Ok(Some(found.iter().map(one).collect::<Vec<_>>().join(" || ")))
    }

    /// Returns the filter for its pattern, which also matches containers that start later.
    fn matching(&self) -> String {
        let name = |field: &str, glob: &str| format!("{field} ~ \"{}\"", glob.replace('"', "?"));
        match self.namespace.as_ref().map(|namespace| namespace.glob().glob()) {
            None => name("container", &self.name),
            Some("*") => name("pod", self.matcher.glob().glob()),
            Some(namespace) => {
                format!("{} && {}", name("namespace", namespace), name("pod", self.matcher.glob().glob()))
            }
        }
    }

    /// Returns the message about a view with this filter.
    pub fn viewed(&self) -> String {
        format!(
            "{}: the whole machine is sampled, as events cannot be bound to its group; a filter shows it",
            self.words
        )
    }

    /// Returns its groups' directories in the hierarchy of perf events. Fails like `running`, or if all are in others.
    pub fn groups(&self, scanner: &mut Scanner) -> Result<Vec<TargetGroup>, OpenError> {
        let found = self.running(scanner)?;
        let groups: Vec<TargetGroup> = found.iter().filter_map(TargetGroup::of).collect();
        if groups.is_empty() && !found.is_empty() {
            return Err(OpenError::new(
                &self.words,
                "sampled alone",
                "perf events can be bound only to groups of version 2 or of the perf_event hierarchy, and it is in neither",
                "The live screen filters what it shows; record all (-a), then report --where 'container == NAME'",
            ));
        }
        Ok(groups)
    }
}

/// The group of a sampled container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetGroup {
    /// The container's cgroup.
    pub root: std::sync::Arc<str>,
    pub(crate) dir: PathBuf,
}

impl TargetGroup {
    pub(crate) fn of(running: &RunningContainer) -> Option<Self> {
        Some(Self { root: running.named.root.clone(), dir: running.place.clone()? })
    }
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

fn glob(text: &str, words: &str) -> Result<GlobMatcher, OpenError> {
    let glob = GlobBuilder::new(text).build();
    let glob = glob.map_err(|e| OpenError::new(words, "sampled", format!("not a pattern: {}", e.kind()), ""))?;
    Ok(glob.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_found_by_name_id_pattern_and_pod() {
        let cart = Container {
            id: "4f1c0a7be2d9".into(),
            name: "app".into(),
            pod: "cart-7d9".into(),
            namespace: "shop".into(),
            ..Container::default()
        };
        let alone = Container { name: "cart-7d9".into(), ..Container::default() };
        let container = |text: &str| TargetSelection::container(text).expect(text);
        let pod = |text: &str| TargetSelection::pod(text).expect(text);
        for (wanted, is) in [
            (container("app"), true),
            (container("a*"), true),
            (container("4f1c0a"), true),
            (container("cart-7d9"), false),
            (pod("shop/cart-7d9"), true),
            (pod("cart-*"), true),
            (pod("s*/cart-*"), true),
            (pod("other/cart-7d9"), false),
            (pod("shop/app"), false),
        ] {
            assert_eq!(wanted.is(&cart), is, "{}", wanted.words);
        }
        assert!(!pod("*/*").is(&alone) && container("cart-7d9").is(&alone));
        assert!(TargetSelection::container("a[").is_err() && TargetSelection::pod("a/b[").is_err());
    }

    #[test]
    fn a_name_must_run_and_a_pattern_may_wait() {
        let wanted = |text: &str| TargetSelection::container(text).expect(text);
        let error = wanted("no-such-container-here").groups(&mut Scanner::here()).expect_err("none");
        assert!(error.to_string().contains("no such container runs"), "{error}");
        assert_eq!(wanted("no-such-container-h*").groups(&mut Scanner::here()), Ok(Vec::new()));
    }
}
