//! Captures: what clients and a server say to each other, recorded by a proxy, shown as text, and sent again.

mod deletions;
mod expiry;
mod format;
mod ids;
mod link;
mod mask;
mod message;
mod observer;
mod order;
mod plan;
mod player;
mod proxy;
mod replay;
mod waiting;
mod words;
mod writer;

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use message::{Message, Messages};
pub use proxy::Capture;
pub use replay::{Replay, ReplayDifference, Replayed};
pub use writer::Captured;

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
    #[error("{} is no capture: it does not begin as `zoolet capture` writes it", .file.display())]
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
    /// There is no ZooKeeper, or no longer.
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
    fn read(file: &Path, source: io::Error) -> Self {
        Self::File { action: "read", file: file.to_owned(), source }
    }

    fn write(file: &Path, source: io::Error) -> Self {
        Self::File { action: "write", file: file.to_owned(), source }
    }

    fn server(address: &str, reason: impl Into<String>) -> Self {
        Self::Server { address: address.to_owned(), reason: reason.into() }
    }
}
