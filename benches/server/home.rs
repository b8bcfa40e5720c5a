//! The folder of a server: its data, its settings and its log.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::peer::target_dir;

/// Where a server keeps its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In memory. For Apache that is a file system in memory, if there is one.
    Memory,
    /// The same, with clients that connect by TLS.
    MemoryByTls,
    /// On the disk of the target folder, synced before each reply.
    Disk,
}

/// A folder. Removed on drop.
pub(crate) struct Home {
    dir: TempDir,
    pub(crate) place: Place,
}

/// Settings of a `zoo.cfg`, in which servers on disk are equal. Not named: `preAllocSize`, `snapCount` and `forceSync` have the same
/// defaults.
pub(crate) type Settings<'s> = &'s [(&'s str, &'s str)];

/// Those of every server on disk.
const ALWAYS: Settings<'static> = &[("tickTime", "2000"), ("maxClientCnxns", "0")];

impl Home {
    /// A folder in memory, if the system has one.
    pub(crate) fn in_memory(place: Place) -> io::Result<Self> {
        let dir = TempDir::with_prefix_in("zoolet-bench-", "/dev/shm")
            .or_else(|_| TempDir::with_prefix("zoolet-bench-"))?;
        Ok(Self { dir, place })
    }

    /// A folder on the disk of the target folder.
    pub(crate) fn on_disk() -> io::Result<Self> {
        let parent = target_dir()?.join("bench");
        fs::create_dir_all(&parent)?;
        Ok(Self { dir: TempDir::with_prefix_in("data-", parent)?, place: Place::Disk })
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Where the server's errors are written.
    pub(crate) fn log(&self) -> PathBuf {
        self.path().join("log")
    }

    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// The folder of log and snapshots.
    pub(crate) fn files(&self) -> PathBuf {
        self.data().join("version-2")
    }

    /// Writes a `zoo.cfg` with these settings, and returns its path.
    pub(crate) fn config(&self, settings: Settings<'_>) -> io::Result<PathBuf> {
        let path = self.path().join("zoo.cfg");
        let lines = ALWAYS.iter().chain(settings).map(|(key, value)| format!("{key}={value}\n"));
        fs::write(&path, lines.collect::<String>())?;
        Ok(path)
    }
}
