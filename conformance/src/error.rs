//! What keeps a check from being made. A finding of a check is not an error.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A text that is not a list of cases.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}:{line}: {reason}")]
pub struct SyntaxError {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) reason: String,
}

/// Nothing can be judged.
#[derive(Debug, Error)]
#[error("{address}: {reason}")]
pub struct RunError {
    pub(crate) address: String,
    pub(crate) reason: String,
    pub(crate) is_locked: bool,
    pub(crate) may_be_starting: bool,
}

impl RunError {
    /// Whether nothing else is wrong than that something cannot be deleted that a case or a random request has locked. A good server
    /// refuses that as well.
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Whether there is no server yet that opens sessions, and there may be one later.
    pub fn may_be_starting(&self) -> bool {
        self.may_be_starting
    }
}

/// A client cannot be judged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The command does not start.
    #[error("cannot run {command}: {source}; the command and its arguments are to stand after `--`")]
    Command {
        /// The command.
        command: String,
        /// Why not.
        source: io::Error,
    },
    /// The server is not as it must be.
    #[error("cannot prepare the server: {0}")]
    Server(String),
    /// Not all connections of the program could be let in.
    #[error("cannot pass on a connection of the program, so nothing is judged: {0}")]
    Proxy(io::Error),
    /// No port can be opened.
    #[error("cannot listen on 127.0.0.1: {0}")]
    Listen(io::Error),
}

/// Why nothing is captured, shown or replayed any longer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be read or written.
    #[error("cannot {action} {}: {source}", .file.display())]
    File {
        /// What failed.
        action: &'static str,
        /// The capture.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is not a capture: it does not begin as `zoolet capture` writes it", .file.display())]
    NoCapture {
        /// The file.
        file: PathBuf,
    },
    /// The file was written by another version.
    #[error("{} is a capture of version {version}: only version 1 can be read", .file.display())]
    Version {
        /// The capture.
        file: PathBuf,
        /// Its version.
        version: u8,
    },
    /// A checksum in the file is wrong.
    #[error("{} is damaged at offset {offset}: a checksum is wrong", .file.display())]
    Damaged {
        /// The capture.
        file: PathBuf,
        /// Where the record that is damaged begins, in bytes.
        offset: u64,
    },
    /// There is not a ZooKeeper, or no longer.
    #[error("{address}: {reason}")]
    Server {
        /// Where it should be.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The proxy cannot listen for clients.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
}

impl CaptureError {
    pub(crate) fn read(file: &Path, source: io::Error) -> Self {
        Self::File { action: "read", file: file.to_owned(), source }
    }

    pub(crate) fn write(file: &Path, source: io::Error) -> Self {
        Self::File { action: "write", file: file.to_owned(), source }
    }

    pub(crate) fn server(address: &str, reason: impl Into<String>) -> Self {
        Self::Server { address: address.to_owned(), reason: reason.into() }
    }
}

impl From<RunError> for CaptureError {
    fn from(RunError { address, reason, .. }: RunError) -> Self {
        Self::Server { address, reason }
    }
}
