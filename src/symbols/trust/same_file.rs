//! Decides whether a file is the one that was mapped.
//! It compares device, inode, generation, size and times. A name from a wrong file is worse than no name.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, StatxFlags, statx};

use crate::kernel::inode_generation;
use crate::record::kinds::FileId;
use crate::session::Dso;

/// The times of a recording in wall-clock time, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedTimes {
    /// The offset from the recording's clock to the wall clock.
    pub(crate) lead: Option<i64>,
    /// A lower bound of that offset, for a recording without it.
    pub(crate) least_lead: Option<i64>,
    /// The wall-clock time of some point in the recording.
    /// It is an upper bound for earlier mappings.
    pub(crate) begun: Option<u64>,
    /// The last change of the recording's file: its records are older.
    pub(crate) until: Option<u64>,
    /// Whether its times are those of CLOCK_MONOTONIC.
    pub(crate) monotonic: bool,
}

impl RecordedTimes {
    /// Converts a time of the recording to wall-clock time, or a later one. 0 stands for before the recording.
    pub(crate) fn wall(&self, at: u64) -> Option<u64> {
        let told = if at == 0 { self.begun } else { self.lead.and_then(|lead| at.checked_add_signed(lead)) };
        [told, self.until].into_iter().flatten().min()
    }

    /// Converts a time of the recording to wall-clock time, or an earlier one.
    /// 0 stands for no time.
    pub(crate) fn earliest(&self, at: u64) -> Option<u64> {
        self.lead.or(self.least_lead).filter(|_| at != 0).and_then(|lead| at.checked_add_signed(lead))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Likeness {
    /// The file is the one that was mapped, unchanged.
    Same,
    Unproven,
    /// The file is another one, or its content changed; with the reason.
    Other(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file that was mapped was replaced ({0})")]
pub(crate) struct Replaced(pub(crate) &'static str);

/// Compares a file with a DSO's. `mapped` is the wall-clock time of the first mapping, or a later one.
pub(crate) fn compare(file: &File, dso: &Dso, mapped: Option<u64>) -> Likeness {
    let Ok(meta) = file.metadata() else { return Likeness::Other("its metadata cannot be read") };
    // Writers of recordings that do not know the inode leave it 0.
    let is_known = !matches!(dso.file, FileId::Inode { inode: 0, .. });
    if is_known && !has_inode(file, &dso.file) {
        return Likeness::Other("another inode");
    }
    let recorded = match dso.file {
        FileId::Inode { generation, .. } => Some(generation).filter(|generation| *generation != 0),
        _ => None,
    };
    if let Some((then, now)) = recorded.zip(inode_generation(file))
        && then != now
    {
        return Likeness::Other("its inode was reused");
    }
    let page = rustix::param::page_size() as u64;
    if dso.extent > meta.size().div_ceil(page).saturating_mul(page) {
        return Likeness::Other("it is shorter");
    }
    let Some(mapped) = mapped else { return Likeness::Unproven };
    if ns(meta.mtime(), meta.mtime_nsec()) > mapped {
        return Likeness::Other("it was written later");
    }
    if born(file).is_some_and(|born| born > mapped) {
        return Likeness::Other("it was created later");
    }
    // Every change updates the change time, which users cannot set.
    if ns(meta.ctime(), meta.ctime_nsec()) <= mapped { Likeness::Same } else { Likeness::Unproven }
}

/// Returns whether a file has the device and inode of a mapping.
pub(crate) fn has_inode(file: &File, id: &FileId) -> bool {
    let FileId::Inode { major, minor, inode, .. } = *id else { return true };
    let Ok(meta) = file.metadata() else { return false };
    meta.ino() == inode && is_same_device((libc::major(meta.dev()), libc::minor(meta.dev())), (major, minor))
}

/// Compares device numbers; anonymous ones may differ, because btrfs and overlay report others in maps than in stat.
pub(crate) fn is_same_device(stat: (u32, u32), mapped: (u32, u32)) -> bool {
    stat == mapped || stat.0 == 0 || mapped.0 == 0
}

/// Returns when a file was created; `None` if the file system does not report it.
fn born(file: &File) -> Option<u64> {
    let told = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let is_known = told.stx_mask & StatxFlags::BTIME.bits() != 0;
    is_known.then(|| ns(told.stx_btime.tv_sec, i64::from(told.stx_btime.tv_nsec)))
}

fn ns(seconds: i64, rest: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(rest.max(0) as u64)
}

/// Returns when a file's content was last changed, in wall-clock time.
pub(crate) fn written(file: &File) -> Option<u64> {
    file.metadata().ok().map(|meta| ns(meta.mtime(), meta.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::super::find_file::tests::dso;
    use super::*;
    use std::io::Write;

    fn set_written(file: &File, at: u64) {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(at);
        file.set_times(std::fs::FileTimes::new().set_modified(time)).expect("set");
    }

    fn mapped(generation: u64) -> (tempfile::NamedTempFile, Dso) {
        let mut file = tempfile::NamedTempFile::new().expect("file");
        file.write_all(&[1; 4096]).expect("written");
        let meta = file.as_file().metadata().expect("meta");
        let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
        let dso = dso(file.path(), FileId::Inode { major, minor, inode: meta.ino(), generation });
        (file, dso)
    }

    #[test]
    fn times_tell_a_file_that_was_rewritten() {
        let (file, dso) = mapped(0);
        let meta = file.as_file().metadata().expect("meta");
        let changed = ns(meta.ctime(), meta.ctime_nsec());
        let compare = |at| compare(file.as_file(), &dso, at);
        assert_eq!((compare(Some(changed)), compare(None)), (Likeness::Same, Likeness::Unproven));
        assert_eq!(compare(Some(changed - 1)), Likeness::Other("it was written later"));
        // Written in place, with the modification time reset: no longer proven.
        set_written(file.as_file(), 1_000_000_000);
        assert_eq!(compare(Some(u64::MAX)), Likeness::Same);
        let earlier = compare(Some(2_000_000_000));
        match born(file.as_file()) {
            Some(_) => assert_eq!(earlier, Likeness::Other("it was created later")),
            None => assert_eq!(earlier, Likeness::Unproven),
        }
    }

    #[test]
    fn numbers_tell_another_file_of_the_same_inode() {
        let (file, dso) = mapped(0);
        let FileId::Inode { major, minor, inode, .. } = dso.file else { unreachable!("made so") };
        let with = |generation, extent| {
            let id = FileId::Inode { major, minor, inode, generation };
            compare(file.as_file(), &Dso { file: id, extent, ..dso.clone() }, Some(u64::MAX))
        };
        assert_eq!((with(0, 4096), with(0, 8192)), (Likeness::Same, Likeness::Other("it is shorter")));
        let of_inode = |inode| {
            let id = FileId::Inode { major: 0, minor: 0, inode, generation: 0 };
            compare(file.as_file(), &Dso { file: id, ..dso.clone() }, None)
        };
        assert_eq!([0, u64::MAX].map(of_inode), [Likeness::Unproven, Likeness::Other("another inode")]);
        if let Some(own) = inode_generation(file.as_file()) {
            assert_eq!(with(own, 4096), Likeness::Same);
            assert_eq!(with(own ^ 1, 4096), Likeness::Other("its inode was reused"));
        }
    }

    #[test]
    fn the_wall_clock_is_never_earlier_than_it_was() {
        let times = |lead, begun, until| RecordedTimes { lead, begun, until, ..RecordedTimes::default() };
        assert_eq!([0, 5].map(|at| times(None, None, None).wall(at)), [None, None]);
        assert_eq!([0, 5].map(|at| times(None, None, Some(70)).wall(at)), [Some(70), Some(70)]);
        assert_eq!([0, 5].map(|at| times(Some(100), Some(90), Some(200)).wall(at)), [Some(90), Some(105)]);
        assert_eq!(times(Some(100), Some(90), Some(80)).wall(5), Some(80));
        assert_eq!(times(Some(-9), None, None).wall(5), None);
    }
}
