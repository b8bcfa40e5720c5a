//! The data directory of a ZooKeeper server, in Apache ZooKeeper's own format: transaction log, snapshots, recovery, retention.
//!
//! All I/O blocks and goes through a [`Disk`](disk::Disk). There is no runtime, thread or clock here: a server drives this crate.

pub mod disk;
mod error;
mod inspect;
pub mod log;
mod marks;
mod names;
mod options;
mod progress;
mod recovery;
mod repair;
mod snapshot;
mod storage;
mod text;
mod verify;

pub use error::{Damage, StorageError};
pub use inspect::{InspectedLog, InspectedSnapshot, Inspection, LogSummary, inspect};
pub use log::{SpareJob, SpareLog};
pub use names::LogFile;
pub use options::{Compression, Durability, StorageOptions};
pub use recovery::{Cut, Recovered, RecoveryReport, RecoveryWarning, open, open_with, read, read_with};
pub use repair::{Copied, copy};
pub use snapshot::{
    CompleteSnapshot, MissingAcl, Published, Purged, SnapshotDigest, SnapshotDir, SnapshotFile,
    SnapshotReader, SnapshotSpool, SnapshotSummary, SnapshotWriter, SpooledState,
};
pub use storage::Storage;
pub use verify::{Verification, verify};
