//! [`SnapshotWriter`]: a snapshot under a temporary name, until it is complete.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BufMut;
use simd_adler32::Adler32;
use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{SnapshotHeader, Tree, ZnodeRecord};

use super::acls::AclIds;
use super::dir::ValidSnapshots;
use super::format::{DBID, DIGEST_VERSION, MAGIC, TERMINATOR, VERSION};
use super::sink::{CHUNK, Sink};
use super::{SnapshotReader, file};
use crate::disk::Disk;
use crate::disk::files::TemporaryFile;
use crate::error::StorageError;
use crate::options::{Compression, StorageOptions};

/// Writes a snapshot: all znodes by [`add`](Self::add), then [`sync`](Self::sync), then [`CompleteSnapshot::publish`].
///
/// Until it is published it has a name that no server takes for a snapshot. If it is dropped before, its file is removed.
pub struct SnapshotWriter {
    sink: Sink,
    temporary: TemporaryFile,
    valid: ValidSnapshots,
    /// Bytes that are neither written nor in the checksum yet.
    buffer: Vec<u8>,
    sum: Adler32,
    acls: AclIds,
    zxid: Zxid,
    digest: Option<u64>,
    compression: Compression,
    last_zxid_section: bool,
    znodes: u64,
}

impl SnapshotWriter {
    pub(super) fn create(
        (disk, valid): (Arc<dyn Disk>, ValidSnapshots),
        dir: &Path,
        options: &StorageOptions,
        sessions: &[(SessionId, i32)],
        header: SnapshotHeader,
    ) -> Result<Self, StorageError> {
        let SnapshotHeader { zxid, digest, acls, restored_at, .. } = header;
        let path = dir.join(format!(".zoolet-snapshot-{:x}.tmp", zxid.0));
        let sink = Sink::create(&*disk, &path, options.compression)?;
        let temporary = TemporaryFile { disk, path, is_there: true };
        let acls = AclIds::new(acls);
        let mut writer = Self {
            sink,
            temporary,
            valid,
            buffer: Vec::with_capacity(CHUNK + (4 << 10)),
            sum: Adler32::new(),
            acls,
            zxid,
            digest,
            compression: options.compression,
            last_zxid_section: options.last_zxid_section,
            znodes: 0,
        };
        writer.header(sessions, restored_at)?;
        Ok(writer)
    }

    /// Sets the digest of the tree, if it was not known when the snapshot began.
    pub fn set_digest(&mut self, digest: u64) {
        self.digest = Some(digest);
    }

    /// Adds a znode. Its parent comes before it, the root first.
    ///
    /// # Errors
    /// If the file cannot be written, or if the znode's access control list is not among those that the snapshot was created with.
    pub fn add(&mut self, znode: &ZnodeRecord) -> Result<(), StorageError> {
        let acl = self.acls.id(&znode.acl).ok_or_else(|| StorageError::UnknownAcl {
            path: znode.path.to_string(),
            snapshot: self.temporary.path.clone(),
        })?;
        let path = if &*znode.path == "/" { "" } else { &*znode.path };
        self.field(Some(path.as_bytes()))?;
        self.field(znode.data.as_deref())?;
        // This order differs from that of the digest, and from that of the stat that clients get.
        let mut rest = [0; 68];
        let mut out = &mut rest[..];
        out.put_i64(acl);
        out.put_i64(znode.czxid.0);
        out.put_i64(znode.mzxid.0);
        out.put_i64(znode.ctime);
        out.put_i64(znode.mtime);
        out.put_i32(znode.version);
        // Java counts with an int, so the file has the low 32 bits.
        out.put_i32(znode.creates as i32);
        out.put_i32(znode.aversion);
        out.put_i64(znode.owner.code());
        out.put_i64(znode.pzxid.0);
        self.znodes += 1;
        self.put(&rest)
    }

    /// Adds all znodes of a tree whose snapshot has begun, and ends that. `progress` gets how many are added.
    ///
    /// # Errors
    /// As those of [`add`](Self::add); the snapshot of the tree has not ended then.
    pub fn add_tree(&mut self, tree: &mut Tree, mut progress: impl FnMut(u64)) -> Result<(), StorageError> {
        let (mut more, mut records) = (true, Vec::new());
        while more {
            more = tree.next_slice(1_000, 1 << 20, &mut |record| records.push(record));
            for record in records.drain(..) {
                self.add(&record)?;
            }
            progress(self.znodes);
        }
        tree.end_snapshot();
        Ok(())
    }

    /// Writes what comes after the last znode, and makes the content durable. The file keeps its temporary name.
    ///
    /// # Errors
    /// If the file cannot be written or synced. It is then removed.
    pub fn sync(mut self) -> Result<CompleteSnapshot, StorageError> {
        self.put(&TERMINATOR)?;
        self.seal()?;
        if let Some(digest) = self.digest {
            self.put(&self.zxid.0.to_be_bytes())?;
            self.put(&DIGEST_VERSION.to_be_bytes())?;
            self.put(&digest.to_be_bytes())?;
            self.seal()?;
            // ZooKeeper 3.8 and 3.9 cannot read this section without that of the digest.
            if self.last_zxid_section {
                self.put(&self.zxid.0.to_be_bytes())?;
                self.seal()?;
            }
        }
        self.write_out()?;
        let Self { sink, temporary, valid, zxid, compression, znodes, .. } = self;
        let mut appender = sink.finish().map_err(StorageError::io("write", &temporary.path))?;
        appender.file.sync().map_err(StorageError::io("sync", &temporary.path))?;
        Ok(CompleteSnapshot { temporary, valid, zxid, compression, znodes, len: appender.len })
    }

    /// [`sync`](Self::sync), then [`CompleteSnapshot::publish`].
    ///
    /// # Errors
    /// Those of both.
    pub fn finish(self) -> Result<Published, StorageError> {
        self.sync()?.publish()
    }

    fn header(
        &mut self,
        sessions: &[(SessionId, i32)],
        restored_at: Option<Zxid>,
    ) -> Result<(), StorageError> {
        self.put(&MAGIC)?;
        self.put(&VERSION.to_be_bytes())?;
        // No server reads the id of the database, so it says since which transaction this is another history.
        self.put(&restored_at.map_or(DBID, |zxid| zxid.0).to_be_bytes())?;
        self.count(sessions.len())?;
        for (session, timeout) in sessions {
            self.put(&session.0.to_be_bytes())?;
            self.put(&timeout.to_be_bytes())?;
        }
        let lists = self.acls.lists().to_vec();
        self.count(lists.len())?;
        for (id, acl) in (1i64..).zip(&lists) {
            self.put(&id.to_be_bytes())?;
            self.count(acl.len())?;
            for entry in &**acl {
                self.put(&entry.perms.0.to_be_bytes())?;
                self.field(Some(entry.scheme.as_bytes()))?;
                self.field(Some(entry.id.as_bytes()))?;
            }
        }
        Ok(())
    }

    /// The checksum of everything before it, which includes earlier checksums.
    fn seal(&mut self) -> Result<(), StorageError> {
        self.write_out()?;
        let sum = i64::from(self.sum.finish());
        self.put(&sum.to_be_bytes())?;
        self.put(&TERMINATOR)
    }

    fn field(&mut self, bytes: Option<&[u8]>) -> Result<(), StorageError> {
        match bytes {
            None => self.put(&(-1i32).to_be_bytes()),
            Some(bytes) => {
                self.count(bytes.len())?;
                self.put(bytes)
            }
        }
    }

    fn count(&mut self, count: usize) -> Result<(), StorageError> {
        let too_many = |error| StorageError::io("write", &self.temporary.path)(std::io::Error::other(error));
        let count = i32::try_from(count).map_err(too_many)?;
        self.put(&count.to_be_bytes())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> Result<(), StorageError> {
        self.sum.write(&self.buffer);
        self.sink.write(&self.buffer).map_err(StorageError::io("write", &self.temporary.path))?;
        self.buffer.clear();
        // A disk that gets a whole snapshot at once lets the syncs of the log wait until it has written it.
        self.sink.sync_written().map_err(StorageError::io("sync", &self.temporary.path))
    }
}

impl fmt::Debug for SnapshotWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotWriter")
            .field("zxid", &self.zxid)
            .field("znodes", &self.znodes)
            .finish_non_exhaustive()
    }
}

/// A complete snapshot that is durable but for its name. If it is dropped, its file is removed.
#[derive(Debug)]
pub struct CompleteSnapshot {
    temporary: TemporaryFile,
    valid: ValidSnapshots,
    zxid: Zxid,
    compression: Compression,
    znodes: u64,
    len: u64,
}

impl CompleteSnapshot {
    /// The zxid of the last transaction in it. Do not publish it before that transaction is durable.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Gives it its name, and makes the name durable. If a valid snapshot has that name already, that one is kept.
    ///
    /// # Errors
    /// If the file cannot be renamed or the directory cannot be synced. Whether the snapshot has its name is then unknown.
    pub fn publish(self) -> Result<Published, StorageError> {
        let Self { mut temporary, valid, zxid, compression, znodes, len } = self;
        let (disk, from) = (&temporary.disk, &temporary.path);
        let dir = from.parent().unwrap_or(Path::new(""));
        let name = file::name(zxid, compression);
        let path = dir.join(&name);
        let entries = disk.list(dir).map_err(StorageError::io("list", dir))?;
        if entries.iter().any(|entry| entry.name == *name) {
            if let Some(there) = SnapshotReader::validate(&**disk, &path, &mut |_| {})? {
                return Ok(Published { path, zxid, znodes: there.znodes, len: there.file_len, kept: true });
            }
        }
        disk.rename(from, &path).map_err(StorageError::io("give its name to", from))?;
        disk.sync_dir(dir).map_err(StorageError::io("sync", dir))?;
        temporary.is_there = false;
        valid.add(&path);
        Ok(Published { path, zxid, znodes, len, kept: false })
    }
}

/// A snapshot that has its name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The file.
    pub path: PathBuf,
    /// The zxid of the last transaction in it.
    pub zxid: Zxid,
    /// The number of its znodes.
    pub znodes: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Whether a valid snapshot had that name already, and was kept.
    pub kept: bool,
}
