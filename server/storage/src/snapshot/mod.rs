//! Snapshots: images of the tree and of the sessions, in files of their own.
//!
//! [`SnapshotWriter`] writes one under a temporary name, [`SnapshotReader`] reads one with bounded memory, [`SnapshotDir`] is where
//! a server creates them and removes old ones. Two things always hold: a file that was written here is complete and
//! durable when it gets the name of a snapshot, and a valid snapshot is never overwritten.

mod acls;
mod check;
mod dir;
mod file;
mod format;
mod path_check;
mod reader;
mod sink;
mod snappy;
mod source;
mod spool;
mod writer;

pub use check::SnapshotSummary;
pub use dir::{Purged, SnapshotDir};
pub use file::SnapshotFile;
pub use reader::{MissingAcl, SnapshotDigest, SnapshotReader};
pub use spool::{SnapshotSpool, SpooledState};
pub use writer::{CompleteSnapshot, Published, SnapshotWriter};
