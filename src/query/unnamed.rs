//! How code without function names can be given names.

use crate::session::DsoKind;
use crate::symbols::languages::perf_map_command;

/// Facts about a DSO without names, in addition to its kind and path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnnamedDso<'a> {
    /// The program of the process that has it.
    pub(crate) program: Option<&'a str>,
    /// The command that installs its debug symbols.
    pub(crate) install: Option<&'a str>,
}

/// Runtimes by the names of their programs, which may have more letters, and how their JITs write a map of symbols.
const RUNTIMES: [(&str, &str); 14] = [
    ("node", "start it with node --perf-basic-prof"),
    ("MainThread", "start it with node --perf-basic-prof"),
    ("deno", "start it with deno run --v8-flags=--perf-basic-prof"),
    ("mono", "start it with mono --jitmap"),
    ("dotnet", "start it with DOTNET_PerfMapEnabled=1 in its environment"),
    ("beam.smp", "start it with erl +JPperf true (OTP 25 or later)"),
    ("php", "start it with php -d opcache.jit_debug=16"),
    ("apache2", "set opcache.jit_debug=16 in php.ini"),
    ("ruby", "start it with ruby --yjit-perf (3.3 or later)"),
    ("python", "start it with python -X perf (3.12 or later)"),
    ("luajit", "build LuaJIT with -DLUAJIT_USE_PERFTOOLS"),
    ("openresty", "build LuaJIT with -DLUAJIT_USE_PERFTOOLS"),
    ("wasmtime", "start it with wasmtime run --profile=perfmap"),
    ("qemu-", "start it with -perfmap (QEMU 8.0 or later)"),
];
const JAVA: &str = "java";

/// Returns the remedy for code without names in a DSO, which its kind and path identify.
pub(crate) fn name_remedy(kind: DsoKind, path: &str, known: UnnamedDso<'_>) -> String {
    match kind {
        kind if kind.is_kernel() => {
            "run as root, or sysctl kernel.kptr_restrict=0; of a recording: --kallsyms FILE of that machine".to_owned()
        }
        DsoKind::Anon => jit_remedy(path, known.program),
        DsoKind::Interpreted(language) if language.names_are_read_later() => {
            "names are read soon after a sample; a lower \
            rate (-F) or fewer processes (-p) leave more time for them"
                .to_owned()
        }
        DsoKind::Interpreted(_) => "their memory was not resident or not complete when the sample was taken".to_owned(),
        _ => match known.install {
            Some(install) => format!("{path} is stripped: {install} names it, or DEBUGINFOD_URLS in the environment"),
            None => format!(
                "{path} is stripped: its package of debug symbols, or DEBUGINFOD_URLS in the environment, names it; of \
                 another machine's recording: --symfs DIR"
            ),
        },
    }
}

/// Whether the remedy for code of this kind begins with the DSO's path.
pub(crate) fn remedy_has_path(kind: DsoKind) -> bool {
    !kind.is_kernel() && !matches!(kind, DsoKind::Anon | DsoKind::Interpreted(_))
}

/// Returns the process whose JIT has code with this path.
pub(crate) fn process_of_jit(path: &str) -> Option<i32> {
    path.strip_prefix("/tmp/perf-")?.strip_suffix(".map")?.parse().ok().filter(|pid| *pid > 0)
}

/// Returns how a runtime can be made to name its code. The path of a JIT's code has the number of its process.
fn jit_remedy(path: &str, program: Option<&str>) -> String {
    let pid = process_of_jit(path);
    let map = pid.map_or_else(|| "/tmp/perf-PID.map".to_owned(), |pid| format!("/tmp/perf-{pid}.map"));
    let command = perf_map_command(pid);
    let way = RUNTIMES.iter().find(|(name, _)| program.is_some_and(|program| program.starts_with(name)));
    match (program, way) {
        (Some(JAVA), _) => {
            format!("{command} names it now (Java 17 or later); :perf-map on the live screen runs that")
        }
        (_, Some((_, way))) => format!("its runtime must write {map}: {way}"),
        (_, None) => format!(
            "its runtime must write {map}; Java 17 or later does at once: {command}; others need a restart: node \
             --perf-basic-prof, python -X perf (3.12 or later)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::interpreted::Language;

    #[test]
    fn the_remedy_for_functions_whose_names_were_not_read() {
        let of = |language| name_remedy(DsoKind::Interpreted(language), "[x]", UnnamedDso::default());
        assert!(of(Language::JavaScript).contains("-F") && of(Language::Java).contains("-F"));
        assert!(!of(Language::Python).contains("-F") && !of(Language::Python).contains("stripped"));
    }

    #[test]
    fn the_remedy_for_a_jit_names_its_process() {
        assert!(jit_remedy("/tmp/perf-4344.map", None).contains("jcmd 4344 Compiler.perfmap"));
        for other in ["//anon", "/tmp/perf-x.map", "/tmp/perf--7.map", ""] {
            assert!(jit_remedy(other, None).contains("jcmd PID Compiler.perfmap"), "{other}");
        }
    }

    #[test]
    fn the_remedy_is_that_of_the_runtime() {
        let of = |program| {
            let known = UnnamedDso { program: Some(program), ..UnnamedDso::default() };
            name_remedy(DsoKind::Anon, "/tmp/perf-7.map", known)
        };
        assert!(of("java").starts_with("jcmd 7 Compiler.perfmap names it now") && of("java").contains(":perf-map"));
        let ways = [
            ("node", "--perf-basic-prof"),
            ("deno", "--v8-flags"),
            ("mono-sgen", "--jitmap"),
            ("php-fpm8.2", "jit_debug"),
            ("beam.smp", "+JPperf"),
        ];
        for (program, way) in ways {
            let remedy = of(program);
            assert!(remedy.contains("/tmp/perf-7.map") && remedy.contains(way) && !remedy.contains("jcmd"), "{remedy}");
        }
        assert!(of("javac-like").contains("others need a restart"));
    }

    #[test]
    fn the_remedy_for_a_stripped_file_names_its_package() {
        let known = UnnamedDso { install: Some("apt install zlib1g-dbgsym"), ..UnnamedDso::default() };
        let remedy = name_remedy(DsoKind::File, "/lib/libz.so.1", known);
        assert!(remedy.contains(": apt install zlib1g-dbgsym names it"), "{remedy}");
        for kind in [DsoKind::File, DsoKind::Kernel, DsoKind::Anon, DsoKind::Interpreted(Language::Java)] {
            let remedy = name_remedy(kind, "/lib/libz.so.1", UnnamedDso::default());
            assert_eq!(remedy.starts_with("/lib/libz.so.1"), remedy_has_path(kind), "{remedy}");
        }
        assert!(name_remedy(DsoKind::File, "/lib/libz.so.1", UnnamedDso::default()).contains("--symfs"));
    }
}
