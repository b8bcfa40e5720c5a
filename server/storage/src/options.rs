//! The settings of a data directory.

use std::path::PathBuf;
use std::time::Duration;

use crate::names::VERSION_DIR;

/// How a transaction is kept before it is acknowledged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// It is on disk: it survives a power loss (`forceSync=yes`).
    #[default]
    Sync,
    /// The operating system has it: it survives the end of the process, but not a power loss (`forceSync=no`). Damage to the last
    /// log file then looks like what a power loss leaves, and is cut off like it.
    Os,
}

/// How snapshots are compressed (`snapshot.compression.method`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// As gzip does.
    Gzip,
    /// By blocks, as snappy's Java library does.
    Snappy,
}

/// The settings of a data directory, each with the default of Apache ZooKeeper 3.9 unless its documentation says otherwise.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StorageOptions {
    /// The directory of the snapshots, in its subdirectory `version-2` (`dataDir`).
    pub data_dir: PathBuf,
    /// The directory of the log, if that is another one (`dataLogDir`).
    pub log_dir: Option<PathBuf>,
    /// How a transaction is kept before it is acknowledged.
    pub durability: Durability,
    /// A sync that takes longer is worth a warning. Default: 1 s (`fsync.warningthresholdms`).
    pub slow_sync: Duration,
    /// By how many bytes a log file is extended at once; 0 for no more than is written. Default: 64 MiB (`preAllocSize`).
    pub pre_alloc: u64,
    /// A log file of more bytes is followed by a new one. Default: no limit (`txnLogSizeLimitInKb`).
    pub log_size_limit: Option<u64>,
    /// The longest entry of the log, in bytes. A transaction for which it is too short ends the server, so it must have room for the
    /// longest request and its access control lists. Default: 2,097,150, the longest that Apache reads: twice its
    /// `jute.maxbuffer`.
    pub max_entry: usize,
    /// A snapshot is due after this number of transactions; on a real disk it begins a second after the one before at the earliest. Default:
    /// 100,000 (`snapCount`). It is also due after a start that found more than three log files since the last one.
    pub snapshot_after_txns: u64,
    /// A snapshot is due after this number of bytes of log as well, with the same limit. Default: 4 GiB; `None` for any number
    /// (`snapSizeLimitInKb`).
    pub snapshot_after_bytes: Option<u64>,
    /// How many snapshots are kept, with the log from the oldest of them on, at least 1; `None` for all.
    /// Default: 3. Apache keeps all by default (`autopurge.purgeInterval`, `autopurge.snapRetainCount`).
    pub retain: Option<usize>,
    /// Whether a directory with a log and no snapshot is taken for one that began empty (`snapshot.trust.empty`).
    pub trust_empty_snapshot: bool,
    /// Whether directories that do not exist are created (`datadir.autocreate`). Default: yes.
    pub create_directories: bool,
    /// Whether a directory without a snapshot and a log becomes an empty database (`db.autocreate`). If not, it does so only if a
    /// file `initialize` is in the directory of the log, which is then removed. Default: yes.
    pub create_database: bool,
    /// How new snapshots are compressed.
    pub compression: Compression,
    /// Whether entries and snapshots have digests of the tree. Default: yes (`zookeeper.digest.enabled`).
    pub digests: bool,
    /// Whether snapshots with a digest also have the section of the last zxid, which ZooKeeper writes since 3.9
    /// (`serializeLastProcessedZxid.enabled`). Default: yes.
    pub last_zxid_section: bool,
}

impl StorageOptions {
    /// The defaults, for this directory.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            log_dir: None,
            durability: Durability::Sync,
            slow_sync: Duration::from_secs(1),
            pre_alloc: 64 << 20,
            log_size_limit: None,
            max_entry: 2 * 0xf_ffff,
            snapshot_after_txns: 100_000,
            snapshot_after_bytes: Some(4 << 30),
            retain: Some(3),
            trust_empty_snapshot: false,
            create_directories: true,
            create_database: true,
            compression: Compression::None,
            digests: true,
            last_zxid_section: true,
        }
    }

    /// Where the snapshots are.
    pub fn snapshot_dir(&self) -> PathBuf {
        self.data_dir.join(VERSION_DIR)
    }

    /// Where the log is.
    pub fn log_file_dir(&self) -> PathBuf {
        self.log_dir.as_ref().unwrap_or(&self.data_dir).join(VERSION_DIR)
    }
}
