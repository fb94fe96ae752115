//! Scripts for the completions of shells. Profile types, labels and values of stores are not known in advance: in a
//! line with the address of a store, bash, zsh and fish ask the program for them.

use clap_complete::{Shell, generate};

use crate::cli::NAME;
use crate::cli::args::whole;

/// The name of the function that the generator gives to bash.
const BASH_FUNCTION: &str = "_perfprof__tui";

/// Falls back to the generated function. bash inserts what is printed as it is; without quotes, it replaces only the part
/// after the last colon.
const BASH: &str = r#"
_perfprof__tui_or_store() {
    local line="${COMP_LINE:0:COMP_POINT}" typed
    if [[ "$line" =~ (pyroscope|parca)s?:// ]]; then
        mapfile -t COMPREPLY < <(perfprof-tui completions bash --line "$line" 2>/dev/null)
        if ((${#COMPREPLY[@]})); then
            typed="${line##*[[:space:]=]}"
            if [[ "$COMP_WORDBREAKS" == *:* && "$typed" == *:* && "$typed" != *[\"\']* ]]; then
                COMPREPLY=("${COMPREPLY[@]#"${typed%:*}:"}")
            fi
            return 0
        fi
    fi
    _perfprof__tui "$@"
}
"#;

/// The generated argument of the live screen.
const ZSH_SAMPLED: &str = "'::cmd -- Command to run and sample:_default' \\\n";

/// The action of the option `--query`. zsh quotes what it inserts.
const ZSH: &str = r#"_perfprof-tui_query() {
    local -a found
    local line="perfprof-tui ${(j: :)words[1,CURRENT]}"
    if [[ "$line" == *(pyroscope|pyroscopes|parca|parcas)://* ]]; then
        found=(${(f)"$(perfprof-tui completions zsh --line "$line" 2>/dev/null)"})
        compadd -S '' -a found
    fi
}

"#;

const FISH: &str = r#"
complete -c perfprof-tui -n 'string match -qr "(pyroscope|parca)s?://" -- (commandline -cp)' -s q -l query -x -a '(perfprof-tui completions fish --line (commandline -cp | string join " ") 2>/dev/null)'
"#;

/// Returns the script of a shell.
pub(super) fn script(shell: Shell) -> String {
    let mut out = Vec::new();
    generate(shell, &mut whole(), NAME, &mut out);
    let text = String::from_utf8_lossy(&out).into_owned();
    match shell {
        Shell::Bash => {
            // The generator has two forms of a program's name with a hyphen, so that no command would have options.
            let text = text.replace("perfprof__subcmd__tui", "perfprof__tui");
            let registered = text.replace(&format!("-F {BASH_FUNCTION} "), &format!("-F {BASH_FUNCTION}_or_store "));
            registered.replacen(&format!("{BASH_FUNCTION}() {{"), &format!("{BASH}\n{BASH_FUNCTION}() {{"), 1)
        }
        Shell::Zsh => {
            // The generator counts the command to sample, which follows `--`, as the word before a subcommand.
            let text = text.replacen(ZSH_SAMPLED, "", 1).replace("$line[2]", "$line[1]");
            // Options may follow files.
            let text = text.replace("\n'*::files ", "\n'*:files ");
            let text = text.replace(":QUERY:_default", ":QUERY:_perfprof-tui_query");
            text.replacen("_perfprof-tui() {", &format!("{ZSH}_perfprof-tui() {{"), 1)
        }
        Shell::Fish => text + FISH,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_name_the_commands_and_ask_for_queries_of_stores() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = script(shell);
            let words = ["rundelay", "kmemleak", "record", "call-graph", &format!("completions {shell} --line")];
            assert!(words.iter().all(|word| text.contains(word)), "{shell}");
        }
        let bash = script(Shell::Bash);
        assert!(bash.contains("complete -F _perfprof__tui_or_store "), "{bash}");
        let named = bash.lines().filter_map(|line| line.trim().strip_prefix("cmd=\"")?.strip_suffix('"'));
        let has_options = |name: &str| bash.contains(&format!("\n        {name})\n"));
        let missing: Vec<&str> = named.filter(|name| !name.is_empty() && !has_options(name)).collect();
        assert_eq!(missing, [""; 0]);
        assert!(!bash.contains("complete -F _perfprof__tui ") && bash.contains("\n_perfprof__tui() {"), "{bash}");
        let zsh = script(Shell::Zsh);
        assert!(zsh.contains("'*-q+[") && !zsh.contains(":QUERY:_default"), "{zsh}");
        assert_eq!(zsh.matches("\n_perfprof-tui() {").count(), 1);
        assert!(!zsh.contains("'::cmd") && !zsh.contains("$line[2]") && zsh.contains("case $line[1] in"), "{zsh}");
        assert!(!zsh.contains("'*::files") && zsh.contains("'*:files"), "{zsh}");
        assert!(!script(Shell::Elvish).contains("completions elvish --line"));
    }
}
