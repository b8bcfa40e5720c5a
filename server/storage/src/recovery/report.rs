//! [`RecoveryReport`]: what recovery found, and what it did about it.

use std::fmt;
use std::path::PathBuf;

use zoolet_proto::Zxid;

use crate::error::Damage;
use crate::log::Fault;

/// What a data directory held, and what was done about what was not in order.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// The snapshot that the tree was loaded from, and its zxid. `None` if the directory began empty.
    pub snapshot: Option<(PathBuf, Zxid)>,
    /// The last transaction.
    pub last_zxid: Zxid,
    /// How many entries of the log were applied to the snapshot.
    pub replayed: u64,
    /// How many bytes of the log that is.
    pub replayed_bytes: u64,
    /// How many entries were read that the snapshot includes.
    pub skipped: u64,
    /// How many log files were read.
    pub log_files: usize,
    /// What was cut from the end of the log, or would be in an open to write: none of it was acknowledged.
    pub cut: Option<Cut>,
    /// Everything that an operator should know of.
    pub warnings: Vec<RecoveryWarning>,
}

impl fmt::Display for RecoveryReport {
    /// One line, without the warnings.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.snapshot {
            Some((file, _)) => write!(f, "loaded {}", file.display())?,
            None => f.write_str("began empty")?,
        }
        write!(f, ", {} transactions of the log, up to zxid {}", self.replayed, self.last_zxid)?;
        match &self.cut {
            Some(cut) => write!(f, "; {cut}"),
            None => Ok(()),
        }
    }
}

/// A torn end of the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}, byte {offset}: cut here, as {fault}: the last write was not finished", file.display())]
#[non_exhaustive]
pub struct Cut {
    /// The file.
    pub file: PathBuf,
    /// From where on it is cut.
    pub offset: u64,
    /// What is wrong there.
    pub fault: Fault,
}

/// Something that is not as a server leaves it, and that does not keep it from going on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryWarning {
    /// A snapshot cannot be used. An older one, or none, is used with the log, which is complete.
    #[error("a snapshot is skipped: {0}")]
    SnapshotSkipped(Damage),
    /// The tree that was loaded has another digest than the snapshot says.
    #[error("{}: the tree has another digest than the snapshot says", file.display())]
    SnapshotDigest {
        /// The snapshot.
        file: PathBuf,
    },
    /// After a transaction the tree has another digest than its entry says. Apache writes wrong ones for some requests.
    #[error("the digest in the log is not that of the tree after {count} transactions from {zxid} on")]
    Digest {
        /// The first such transaction.
        zxid: Zxid,
        /// How many there are.
        count: u64,
    },
    /// A log file has a bad entry, and is followed by a file that begins with the next transaction, so nothing is missing.
    #[error("{}, byte {offset}: {fault}; the next file goes on from here{}", file.display(), and_ignored(ignored))]
    TornEnd {
        /// The file with the bad entry.
        file: PathBuf,
        /// Where it is.
        offset: u64,
        /// What is wrong with it.
        fault: Fault,
        /// A valid entry after it, which is ignored.
        ignored: Option<Zxid>,
    },
    /// A log file has a bad entry before what the snapshot needs of it.
    #[error("{}, byte {offset}: {fault}; the snapshot includes what is missing", file.display())]
    OldDamage {
        /// The file.
        file: PathBuf,
        /// Where it is.
        offset: u64,
        /// What is wrong with it.
        fault: Fault,
    },
    /// A log file has no transaction. An open to write removes it.
    #[error("{}: a log without a transaction", file.display())]
    EmptyLog {
        /// The file.
        file: PathBuf,
    },
    /// A file looks like a log or a snapshot, but no server gives it this name. It is ignored; Apache may read it.
    #[error("{}: no log and no snapshot has this name; ignored", file.display())]
    ForeignName {
        /// The file.
        file: PathBuf,
    },
    /// A file that was being written when a server ended. An open to write removes it.
    #[error("{}: left over from a server that ended while writing it", file.display())]
    Leftover {
        /// The file.
        file: PathBuf,
    },
    /// There was no valid snapshot, and the settings say that the log is complete without one.
    #[error("there is no snapshot: the log is taken for complete")]
    NoSnapshot,
    /// There is no log, which a server would have left beside the snapshot.
    #[error("there is no log: what was written after transaction {last} is not there")]
    NoLog {
        /// The transaction of the newest snapshot.
        last: Zxid,
    },
}

/// The end of a sentence about the entries after a bad one.
fn and_ignored(ignored: &Option<Zxid>) -> String {
    ignored.map_or_else(String::new, |zxid| {
        format!(", and what follows, such as transaction {zxid}, is ignored")
    })
}
