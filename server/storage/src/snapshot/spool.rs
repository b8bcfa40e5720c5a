//! [`SnapshotSpool`]: a snapshot that comes from elsewhere, piece by piece, and replaces what a server has.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{SnapshotHeader, Tree, TreeLoader};

use super::{Published, SnapshotDir, SnapshotReader};
use crate::disk::files::{self, TemporaryFile};
use crate::disk::{Disk, DiskFile};
use crate::error::{Damage, StorageError};
use crate::options::Compression;

/// The number of the next file, so that each of this process has its own name.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// No zxid of a snapshot may be greater: the server counts on after it.
const GREATEST: Zxid = Zxid(i64::MAX >> 1);

/// A file with the bytes of a snapshot: plain, gzip or snappy, as its first bytes say. It is removed when this is dropped.
#[derive(Debug)]
pub struct SnapshotSpool {
    temporary: TemporaryFile,
    file: Box<dyn DiskFile>,
    len: u64,
}

/// What a spooled snapshot holds.
#[derive(Debug)]
#[non_exhaustive]
pub struct SpooledState {
    /// Its tree, as of [`zxid`](Self::zxid).
    pub tree: Tree,
    /// Its sessions, with their timeouts in milliseconds.
    pub sessions: Vec<(SessionId, i32)>,
    /// The last transaction that it says to have.
    pub zxid: Zxid,
    /// The last transaction of which it may show something.
    pub shows: Zxid,
}

impl SnapshotSpool {
    /// Creates the file in a directory, with a name of its own. Servers remove what is left of such files when they start.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, StorageError> {
        let path = dir.join(format!(".zoolet-restore-{}.tmp", NEXT.fetch_add(1, Relaxed)));
        let file = disk.create(&path).map_err(StorageError::io("create", &path))?;
        Ok(Self { temporary: TemporaryFile { disk, path, is_there: true }, file, len: 0 })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.file.write_at(bytes, self.len).map_err(StorageError::io("write", &self.temporary.path))?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Reads all of it. The tree keeps its digest if `digests` is set.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if it is not a whole snapshot.
    pub fn load(&self, digests: bool) -> Result<SpooledState, StorageError> {
        let mut reader = self.reader()?;
        let mut loader = TreeLoader::new(digests);
        while let Some(znode) = reader.next_znode()? {
            loader.insert(znode).map_err(|error| self.refuse(error.to_string()))?;
        }
        // Apache lets the log set them; here there is none.
        if let Some(missing) = reader.missing_acls().first() {
            return Err(self.refuse(missing.damage.reason.clone()));
        }
        let sections = [reader.last_zxid(), reader.digest().map(|digest| digest.zxid)];
        let zxid = sections.into_iter().flatten().next().unwrap_or(loader.newest());
        let shows = loader.newest().max(zxid);
        if zxid < Zxid(0) || shows > GREATEST {
            return Err(self.refuse(format!("no server has the zxid {}", zxid.min(shows))));
        }
        let tree = loader.finish(shows).map_err(|error| self.refuse(error.to_string()))?;
        Ok(SpooledState { tree, sessions: reader.sessions().to_vec(), zxid, shows })
    }

    /// Writes it as a snapshot of a server that has it since the transaction of the header, with these sessions, and makes it durable.
    ///
    /// # Errors
    /// If it cannot be read again, or the snapshot cannot be written.
    pub fn publish(
        &self,
        dir: &SnapshotDir,
        header: SnapshotHeader,
        sessions: &[(SessionId, i32)],
    ) -> Result<Published, StorageError> {
        let mut writer = dir.begin(header, sessions)?;
        let mut reader = self.reader()?;
        while let Some(znode) = reader.next_znode()? {
            writer.add(&znode)?;
        }
        writer.finish()
    }

    fn reader(&self) -> Result<SnapshotReader, StorageError> {
        let TemporaryFile { disk, path, .. } = &self.temporary;
        let begin = files::read(&**disk, path, 2)?.unwrap_or_default();
        let compression = match begin[..] {
            [0x1f, 0x8b] => Compression::Gzip,
            [0x82, b'S'] => Compression::Snappy,
            _ => Compression::None,
        };
        SnapshotReader::open_as(&**disk, path, compression)
    }

    fn refuse(&self, reason: impl Into<String>) -> StorageError {
        Damage::new(&self.temporary.path, reason, "send a whole snapshot").into()
    }
}
