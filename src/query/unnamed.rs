//! How code without function names can be given names.

use crate::session::DsoKind;

/// Returns the remedy for code without names in a DSO, which its kind and path identify.
pub(crate) fn name_remedy(kind: DsoKind, path: &str) -> String {
    match kind {
        kind if kind.is_kernel() => {
            "run as root, or sysctl kernel.kptr_restrict=0; of a recording: --kallsyms FILE of that machine".to_owned()
        }
        DsoKind::Anon => jit_remedy(path),
        DsoKind::Interpreted(language) if language.names_are_read_later() => {
            "names are read soon after a sample; a lower \
            rate (-F) or fewer processes (-p) leave more time for them"
                .to_owned()
        }
        DsoKind::Interpreted(_) => "their memory was not resident or not complete when the sample was taken".to_owned(),
        _ => format!(
            "{path} is stripped: its package of debug symbols, or DEBUGINFOD_URLS in the environment, names it; of \
             another machine's recording: --symfs DIR"
        ),
    }
}

/// Returns how a runtime can be made to name its code. The path of a JIT's code has the number of its process.
fn jit_remedy(path: &str) -> String {
    let pid = path.strip_prefix("/tmp/perf-").and_then(|rest| rest.strip_suffix(".map"));
    let pid = pid.filter(|pid| pid.parse::<u32>().is_ok()).unwrap_or("PID");
    format!(
        "its runtime must write /tmp/perf-{pid}.map; Java 17 or later does at once: jcmd {pid} Compiler.perfmap; others \
         need a restart: node --perf-basic-prof, python -X perf (3.12 or later)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::interpreted::Language;

    #[test]
    fn the_remedy_for_functions_whose_names_were_not_read() {
        let of = |language| name_remedy(DsoKind::Interpreted(language), "[x]");
        assert!(of(Language::JavaScript).contains("-F") && of(Language::Java).contains("-F"));
        assert!(!of(Language::Python).contains("-F") && !of(Language::Python).contains("stripped"));
    }

    #[test]
    fn the_remedy_for_a_jit_names_its_process() {
        assert!(jit_remedy("/tmp/perf-4344.map").contains("jcmd 4344 Compiler.perfmap"));
        for other in ["//anon", "/tmp/perf-x.map", ""] {
            assert!(jit_remedy(other).contains("jcmd PID Compiler.perfmap"), "{other}");
        }
    }
}
