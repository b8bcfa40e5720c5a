//! Why a data directory cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use zoolet_proto::Zxid;

/// Why a data directory cannot be read or written. The message is one line with the file, the reason and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The operating system refuses an operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was to be done: a verb, such as `read` or `sync`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// Another server, in this process or another one, uses the directory.
    #[error("{} is in use by another server; stop that one first, or choose another directory", .0.display())]
    InUse(PathBuf),
    /// A znode has an access control list that the snapshot being written does not list: a defect of the server.
    #[error("cannot write {}: the ACL of the znode {path} is not in its table; report this as a defect", snapshot.display())]
    UnknownAcl {
        /// The path of the znode.
        path: String,
        /// The snapshot.
        snapshot: PathBuf,
    },
    /// There is no data of a server, and none is to be created.
    #[error("{} has no data of a server", .0.display())]
    NoData(PathBuf),
    /// Data are to be written into a directory that has some.
    #[error("{} is not empty; name a directory that is, or one that does not exist", .0.display())]
    NotEmpty(PathBuf),
    /// A transaction has no place in the log.
    #[error("transaction {zxid} cannot be logged: {reason}")]
    Unloggable {
        /// Which one.
        zxid: Zxid,
        /// Why.
        reason: String,
    },
    /// An earlier call failed, so nothing is known of what is on disk, and nothing more is written.
    #[error("storage has failed before: {0}")]
    Failed(String),
    /// The content is not what a server can have written.
    #[error(transparent)]
    Damaged(#[from] Damage),
}

impl StorageError {
    /// For `map_err`: what was to be done, and with which file.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}

/// Damage to a data directory: where, what, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {reason}; {hint}", file.display(), at_byte(offset))]
pub struct Damage {
    /// The file, or the directory if it is not one file alone.
    pub file: PathBuf,
    /// Where in it: the first byte of the entry or section.
    pub offset: Option<u64>,
    /// What is wrong.
    pub reason: String,
    /// What the operator can do.
    pub hint: &'static str,
}

impl Damage {
    pub(crate) fn new(file: impl Into<PathBuf>, reason: impl Into<String>, hint: &'static str) -> Self {
        Self { file: file.into(), offset: None, reason: reason.into(), hint }
    }

    pub(crate) fn at(self, offset: u64) -> Self {
        Self { offset: Some(offset), ..self }
    }
}

/// Where in the file, if that is known.
fn at_byte(offset: &Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(", byte {offset}"))
}
