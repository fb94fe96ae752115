//! The interpreters of this machine's processes, without walking them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::NotWalked;
use super::prober::{ProbeJob, Prober};
use super::runtime_file::{FoundRuntime, LanguageVersion, RuntimeFile};
use crate::kernel::procfs::{self, ProcMapping};
use crate::record::interpreted::Language;
use crate::symbols::bytes::Bytes;
use crate::symbols::trust::find_file;

/// A process that has an interpreter mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SurveyedProcess {
    pub(crate) pid: i32,
    pub(crate) version: LanguageVersion,
    pub(crate) walked: Result<(), NotWalked>,
}

type Recognized = Option<(LanguageVersion, Result<Arc<RuntimeFile>, NotWalked>)>;

/// Looks at all processes; those whose mappings this user may not read are missing.
pub(crate) fn survey() -> Vec<SurveyedProcess> {
    let (mut files, mut prober) = (HashMap::new(), Prober::new());
    procfs::processes().into_iter().filter_map(|pid| process(pid, &mut files, &mut prober)).collect()
}

fn process(pid: i32, files: &mut HashMap<(u32, u32, u64), Recognized>, prober: &mut Prober) -> Option<SurveyedProcess> {
    let maps = procfs::exec_maps(pid);
    let of_files = maps.iter().filter(|map| map.inode != 0);
    let mut recognized = of_files.filter_map(|map| {
        let file = files.entry((map.major, map.minor, map.inode)).or_insert_with(|| recognize(pid, map));
        Some((file.clone()?, map))
    });
    let ((mut version, file), map) = recognized.next()?;
    let walked = match file {
        Ok(file) => {
            let bias = file.bias(map).or_else(|| recognized.find_map(|(_, map)| file.bias(map)));
            let found = bias.map(|bias| prober.read_now(ProbeJob { pid, file: file.clone(), bias }));
            if let Some(Ok(FoundRuntime::Machine(machine))) = &found {
                version.major = machine.layout.major;
            }
            found.unwrap_or(Err(NotWalked::NotBegun)).map(drop)
        }
        Err(why) => Err(why),
    };
    Some(SurveyedProcess { pid, version, walked })
}

/// Returns the languages whose interpreters these processes have mapped, without reading their memory.
pub(crate) fn languages(pids: impl IntoIterator<Item = i32>) -> BTreeSet<Language> {
    let mut files = HashMap::new();
    let mut language = |pid: i32, map: &ProcMapping| {
        let file = files.entry((map.major, map.minor, map.inode)).or_insert_with(|| recognize(pid, map));
        Some(file.as_ref()?.0.language)
    };
    let of = |pid| {
        let maps = procfs::exec_maps(pid);
        maps.iter().filter(|map| map.inode != 0).find_map(|map| language(pid, map))
    };
    pids.into_iter().filter_map(of).collect()
}

fn recognize(pid: i32, map: &ProcMapping) -> Recognized {
    let file = find_file::of_mapping(pid, map).ok()?;
    let (version, file) = RuntimeFile::of(&Bytes::of(&file).ok()?)?;
    Some((version, file.map(Arc::new)))
}
