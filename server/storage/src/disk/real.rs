//! [`RealDisk`]: the file system of the machine.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::{DirLock, Disk, DiskEntry, DiskFile};

/// The file system of the machine.
///
/// A lock is a `flock` on the directory itself, where the system has it: it leaves no file and ends with the process, and
/// servers that know nothing of it are not disturbed. Elsewhere it is a file that is open exclusively.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let missing: Vec<_> = dir.ancestors().take_while(|dir| !named(dir).is_dir()).collect();
        let exists = missing.last().map_or(Some(dir), |first| first.parent());
        // A process that died may have created it and not synced its name. Its parent may belong to somebody else.
        if let Some(parent) = exists.and_then(Path::parent) {
            _ = self.sync_dir(parent);
        }
        // From the top down, each synced before the next: of directories that exist, only the last can be unsynced.
        for dir in missing.into_iter().rev() {
            match fs::create_dir(dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
                result => result?,
            }
            if let Some(parent) = dir.parent() {
                self.sync_dir(parent)?;
            }
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DiskEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(named(dir))? {
            let entry = entry?;
            // What a symbolic link points at, or the link itself if that is nothing.
            match fs::metadata(entry.path()).or_else(|_| entry.metadata()) {
                Ok(metadata) => entries.push(DiskEntry {
                    name: entry.file_name(),
                    len: if metadata.is_dir() { 0 } else { metadata.len() },
                    is_dir: metadata.is_dir(),
                    is_file: metadata.is_file(),
                }),
                // Removed since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(File::open(path)?)))
    }

    fn open_to_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?,
        )))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        system::sync_dir(named(dir))
    }

    fn lock(&self, dir: &Path) -> io::Result<Option<DirLock>> {
        system::lock(named(dir))
    }

    fn modified(&self, path: &Path) -> Option<SystemTime> {
        fs::metadata(path).and_then(|file| file.modified()).ok()
    }
}

/// A directory as the system names it: the empty path, the parent of a relative one, is the current directory.
fn named(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match system::read_at(&self.0, buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        system::write_at(&self.0, bytes, offset)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn reserve(&mut self, len: u64) -> io::Result<()> {
        if system::allocate(&self.0, len)? || self.len()? >= len {
            return Ok(());
        }
        self.0.set_len(len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn begin_write(&mut self, offset: u64, len: u64) {
        system::begin_write(&self.0, offset, len);
    }
}

#[cfg(unix)]
mod system {
    use std::fs::File;
    use std::io;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    use std::num::NonZeroU64;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    #[cfg(any(target_os = "linux", target_os = "android"))]
    use rustix::fs::{Advice, FallocateFlags};
    use rustix::fs::{FlockOperation, flock};
    use rustix::io::{Errno, retry_on_intr};

    use crate::disk::DirLock;

    pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(buffer, offset)
    }

    pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    /// Whether the file system keeps the room now. A full disk is an error.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn allocate(file: &File, len: u64) -> io::Result<bool> {
        if len == 0 {
            return Ok(true);
        }
        match retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Linux begins to write what need not stay in the page cache, and keeps it there until it is written.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn begin_write(file: &File, offset: u64, len: u64) {
        // A hint: there is nothing to do about an error.
        let _ = rustix::fs::fadvise(file, offset, NonZeroU64::new(len), Advice::DontNeed);
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn begin_write(_file: &File, _offset: u64, _len: u64) {}

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub(super) fn allocate(_file: &File, _len: u64) -> io::Result<bool> {
        Ok(false)
    }

    pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
        match File::open(dir)?.sync_all() {
            // How a file system says that its directories cannot be synced.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
            {
                Ok(())
            }
            result => result,
        }
    }

    pub(super) fn lock(dir: &Path) -> io::Result<Option<DirLock>> {
        Ok(DirectoryLock::take(dir)?.map(|lock| Box::new(lock) as DirLock))
    }

    /// A lock on a directory. Dropping it ends the lock also where closing the file would not: a process that somebody starts
    /// meanwhile has a copy of the descriptor until it executes its program.
    #[derive(Debug)]
    pub(super) struct DirectoryLock(pub(super) File);

    impl DirectoryLock {
        pub(super) fn take(dir: &Path) -> io::Result<Option<Self>> {
            let dir = File::open(dir)?;
            match retry_on_intr(|| flock(&dir, FlockOperation::NonBlockingLockExclusive)) {
                Ok(()) => Ok(Some(Self(dir))),
                Err(Errno::WOULDBLOCK) => Ok(None),
                Err(error) => Err(error.into()),
            }
        }
    }

    impl Drop for DirectoryLock {
        fn drop(&mut self) {
            // If it fails, the lock ends when the last copy is closed.
            let _ = flock(&self.0, FlockOperation::Unlock);
        }
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs::{File, OpenOptions};
    use std::io::{self, Read, Seek, SeekFrom, Write};
    use std::path::Path;

    use crate::disk::DirLock;

    // Every access seeks first, so that it does not matter where the last one left the position.
    pub(super) fn read_at(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        file.seek(SeekFrom::Start(offset))?;
        file.read(buffer)
    }

    pub(super) fn write_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }

    pub(super) fn begin_write(_file: &File, _offset: u64, _len: u64) {}

    pub(super) fn allocate(_file: &File, _len: u64) -> io::Result<bool> {
        Ok(false)
    }

    /// Directories cannot be synced: the file system's journal has to do.
    pub(super) fn sync_dir(_dir: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn lock(dir: &Path) -> io::Result<Option<DirLock>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        exclusively(&mut options);
        match options.open(dir.join(".zoolet-lock")) {
            Ok(file) => Ok(Some(Box::new(file))),
            Err(error) if is_locked(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Nobody else may open the file, and the system removes it when it is closed, at the latest with the process.
    #[cfg(windows)]
    fn exclusively(options: &mut OpenOptions) {
        use std::os::windows::fs::OpenOptionsExt;
        const FILE_FLAG_DELETE_ON_CLOSE: u32 = 0x0400_0000;
        options.share_mode(0).custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
    }

    #[cfg(windows)]
    fn is_locked(error: &io::Error) -> bool {
        const ERROR_SHARING_VIOLATION: i32 = 32;
        error.raw_os_error() == Some(ERROR_SHARING_VIOLATION)
    }

    /// Such a system has no processes that could compete.
    #[cfg(not(windows))]
    fn exclusively(_options: &mut OpenOptions) {}

    #[cfg(not(windows))]
    fn is_locked(_error: &io::Error) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn directory() -> (tempfile::TempDir, PathBuf) {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let path = temporary.path().to_owned();
        (temporary, path)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            RealDisk.list(dir).unwrap().into_iter().map(|e| e.name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn bytes_are_read_where_they_were_written() {
        let (_keep, dir) = directory();
        let mut file = RealDisk.create(&dir.join("a")).unwrap();
        assert!(file.is_empty().unwrap());
        file.write_at(b"world", 6).unwrap();
        file.write_at(b"hello ", 0).unwrap();
        file.sync().unwrap();
        let file = RealDisk.open(&dir.join("a")).unwrap();
        let mut buffer = [0; 20];
        assert_eq!(file.read_at(&mut buffer, 3).unwrap(), 8);
        assert_eq!(&buffer[..8], b"lo world");
        assert_eq!(file.read_at(&mut buffer, 11).unwrap(), 0, "the end of the file");
    }

    /// Whether bytes are on the disk shows after a power loss only. But the system cannot sync this file, and says so if asked.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_sync_reaches_the_system() {
        let mut null = RealDisk.open_to_write(Path::new("/dev/null")).unwrap();
        assert_eq!(null.sync().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    #[cfg(unix)]
    fn a_lock_ends_although_a_process_that_is_being_started_has_its_descriptor() {
        let (_keep, dir) = directory();
        let lock = system::DirectoryLock::take(&dir).unwrap().unwrap();
        let inherited = lock.0.try_clone().unwrap();
        assert!(RealDisk.lock(&dir).unwrap().is_none(), "it is held");
        drop(lock);
        assert!(RealDisk.lock(&dir).unwrap().is_some());
        drop(inherited);
    }

    #[test]
    fn a_sync_of_a_directory_reaches_the_system() {
        let (_keep, dir) = directory();
        RealDisk.sync_dir(&dir).unwrap();
        assert_eq!(RealDisk.sync_dir(&dir.join("missing")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn create_empties_a_file_and_open_to_write_keeps_it() {
        let (_keep, dir) = directory();
        let path = dir.join("a");
        assert_eq!(RealDisk.open_to_write(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        RealDisk.create(&path).unwrap().write_at(b"content", 0).unwrap();
        let mut file = RealDisk.open_to_write(&path).unwrap();
        assert_eq!(file.len().unwrap(), 7);
        file.set_len(3).unwrap();
        assert_eq!(file.len().unwrap(), 3);
        assert_eq!(RealDisk.create(&path).unwrap().len().unwrap(), 0);
    }

    #[test]
    fn a_file_that_is_open_to_read_cannot_be_written() {
        let (_keep, dir) = directory();
        let path = dir.join("a");
        RealDisk.create(&path).unwrap().write_at(b"content", 0).unwrap();
        assert!(RealDisk.open(&path).unwrap().write_at(b"x", 0).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"content");
    }

    #[test]
    fn reserved_room_is_zeros_and_keeps_what_is_written() {
        let (_keep, dir) = directory();
        let mut file = RealDisk.create(&dir.join("a")).unwrap();
        file.write_at(b"head", 0).unwrap();
        file.reserve(10_000).unwrap();
        assert_eq!(file.len().unwrap(), 10_000);
        file.reserve(100).unwrap();
        assert_eq!(file.len().unwrap(), 10_000, "reserving less cuts nothing");
        file.reserve(0).unwrap();
        let mut buffer = vec![1; 10_000];
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 10_000);
        assert_eq!(&buffer[..4], b"head");
        assert!(buffer[4..].iter().all(|byte| *byte == 0));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn reserved_room_is_taken_from_the_disk_at_once() {
        use std::os::unix::fs::MetadataExt;
        let (_keep, dir) = directory();
        if !system::allocate(&File::create(dir.join("probe")).unwrap(), 1).unwrap() {
            return; // The file system of the temporary directory cannot do that.
        }
        let path = dir.join("a");
        let mut file = RealDisk.create(&path).unwrap();
        file.reserve(1 << 20).unwrap();
        assert!(fs::metadata(&path).unwrap().blocks() * 512 >= 1 << 20);
        file.reserve(1 << 60).expect_err("no disk is that large");
        assert_eq!(file.len().unwrap(), 1 << 20, "a reservation that fails changes nothing");
    }

    #[test]
    fn missing_parents_are_created_and_a_directory_may_exist() {
        let (_keep, dir) = directory();
        let deep = dir.join("a/b/c");
        RealDisk.create_dir(&deep).unwrap();
        RealDisk.create_dir(&deep).unwrap();
        assert!(deep.is_dir());
        let file = deep.join("file");
        RealDisk.create(&file).unwrap();
        assert!(RealDisk.create_dir(&file).is_err(), "a file is in the way");
        assert!(RealDisk.create_dir(&file.join("below")).is_err(), "a file is no parent");
    }

    #[test]
    fn files_are_listed_renamed_over_others_and_removed() {
        let (_keep, dir) = directory();
        RealDisk.create_dir(&dir.join("sub")).unwrap();
        RealDisk.create(&dir.join("a")).unwrap().write_at(b"new", 0).unwrap();
        RealDisk.create(&dir.join("b")).unwrap();
        RealDisk.rename(&dir.join("a"), &dir.join("b")).unwrap();
        RealDisk.sync_dir(&dir).unwrap();
        let mut entries = RealDisk.list(&dir).unwrap();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let expected = [
            DiskEntry { name: "b".into(), len: 3, is_dir: false, is_file: true },
            DiskEntry { name: "sub".into(), len: 0, is_dir: true, is_file: false },
        ];
        assert_eq!(entries, expected);
        RealDisk.remove(&dir.join("b")).unwrap();
        assert_eq!(names(&dir), ["sub"]);
    }

    #[test]
    #[cfg(unix)]
    fn a_link_is_listed_as_what_it_points_at() {
        let (_keep, dir) = directory();
        RealDisk.create(&dir.join("a")).unwrap().write_at(b"12345", 0).unwrap();
        std::os::unix::fs::symlink(dir.join("a"), dir.join("link")).unwrap();
        std::os::unix::fs::symlink(dir.join("nothing"), dir.join("broken")).unwrap();
        let entry =
            |name: &str| RealDisk.list(&dir).unwrap().into_iter().find(|entry| entry.name == name).unwrap();
        let (link, broken) = (entry("link"), entry("broken"));
        assert_eq!((link.len, link.is_file, link.is_dir), (5, true, false));
        assert_eq!((broken.is_file, broken.is_dir), (false, false));
        assert_eq!(names(&dir), ["a", "broken", "link"]);
    }

    #[test]
    fn a_locked_directory_is_refused_until_the_lock_is_dropped() {
        let (_keep, dir) = directory();
        let lock = RealDisk.lock(&dir).unwrap().expect("it is free");
        assert!(RealDisk.lock(&dir).unwrap().is_none());
        drop(lock);
        assert!(RealDisk.lock(&dir).unwrap().is_some());
        assert!(RealDisk.lock(&dir.join("missing")).is_err());
    }

    #[test]
    #[cfg(unix)]
    fn a_lock_leaves_no_file() {
        let (_keep, dir) = directory();
        let lock = RealDisk.lock(&dir).unwrap();
        assert!(names(&dir).is_empty());
        drop(lock);
        assert!(names(&dir).is_empty());
    }
}
