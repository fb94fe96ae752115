//! The processes whose functions of interpreted languages can be shown.

use std::collections::BTreeMap;

use super::{Check, good, limited};
use crate::record::interpreted::Language;
use crate::symbols::languages::NotWalked;
use crate::symbols::languages::runtime_file::LanguageVersion;
use crate::symbols::languages::survey::{SurveyedProcess, survey};

pub(super) fn languages() -> Check {
    check(&survey())
}

fn check(processes: &[SurveyedProcess]) -> Check {
    /// Processes of a reason that are named.
    const PIDS: usize = 3;
    let mut walked: BTreeMap<LanguageVersion, usize> = BTreeMap::new();
    let mut others: BTreeMap<(Language, NotWalked), Vec<i32>> = BTreeMap::new();
    for process in processes {
        match process.walked {
            Ok(()) => *walked.entry(process.version).or_default() += 1,
            Err(why) => others.entry((process.version.language, why)).or_default().push(process.pid),
        }
    }
    let versions: Vec<String> = walked.iter().map(|(version, n)| format!("{n} × {version}")).collect();
    let versions = versions.join(", ");
    let Some(((language, why), first)) = others.first_key_value() else {
        return good(if versions.is_empty() {
            "no process runs CPython, PHP, Ruby, Perl, Java or Node now".to_owned()
        } else {
            versions
        });
    };
    let mut parts: Vec<String> = (!versions.is_empty()).then_some(versions).into_iter().collect();
    for ((language, why), pids) in &others {
        let list: Vec<String> = pids.iter().take(PIDS).map(i32::to_string).collect();
        let more = if pids.len() > PIDS { format!(" and {} more", pids.len() - PIDS) } else { String::new() };
        parts.push(format!("native frames of {} in pid {}{more}: {why}", language.name(), list.join(", ")));
    }
    limited(parts.join("; "), why.remedy(*language, first.first().copied()))
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    #[test]
    fn processes_are_counted_by_version_and_reason() {
        let python = |minor| LanguageVersion { language: Language::Python, major: 3, minor };
        let php = LanguageVersion { language: Language::Php, major: 8, minor: 2 };
        let one = |pid, version, walked| SurveyedProcess { pid, version, walked };
        assert_eq!(check(&[]).state, CheckState::Good);
        let walked =
            [one(1, python(11), Ok(())), one(2, python(8), Ok(())), one(3, python(11), Ok(())), one(4, php, Ok(()))];
        let found = check(&walked);
        assert_eq!((found.state, &*found.found), (CheckState::Good, "1 × python 3.8, 2 × python 3.11, 1 × php 8.2"));
        let mut all = walked.to_vec();
        all.extend((4..9).map(|pid| one(pid, python(12), Err(NotWalked::Unreadable))));
        all.push(one(9, python(14), Err(NotWalked::Version)));
        let found = check(&all);
        assert_eq!(found.state, CheckState::Limited);
        assert_eq!(
            found.found,
            "1 × python 3.8, 2 × python 3.11, 1 × php 8.2; native frames of python in pid 9: this version is not \
             supported; native frames of python in pid 4, 5, 6 and 2 more: this user may not read its memory"
        );
        assert_eq!(found.remedy, NotWalked::Version.remedy(Language::Python, Some(9)));
        let java = LanguageVersion { language: Language::Java, major: 26, minor: 0 };
        let found = check(&[one(41, java, Err(NotWalked::Version)), one(42, java, Err(NotWalked::Version))]);
        assert_eq!(found.remedy, "Write a perf map by jcmd 41 Compiler.perfmap.");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_process_of_this_machine_is_found() {
        use std::process::{Command, Stdio};
        let mut sleep = Command::new("python3");
        sleep.args(["-c", "import sys; print(flush=True); sys.stdin.read()"]).stdin(Stdio::piped());
        let Ok(mut child) = sleep.stdout(Stdio::piped()).spawn() else { return };
        let mut first = [0];
        std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut first).expect("it runs");
        let found = survey().into_iter().find(|process| process.pid == child.id() as i32);
        let _ = child.kill();
        let _ = child.wait();
        // A user without rights cannot open what is mapped.
        let is_known = found.as_ref().is_some_and(|process| process.walked != Err(NotWalked::Version));
        assert!(!is_known || found.is_some_and(|process| process.walked == Ok(())));
    }
}
