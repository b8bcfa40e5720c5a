//! Why a server did not start.

use std::fmt;
use std::io;
use std::sync::Arc;

use zoolet_storage::StorageError;

/// Why a server did not start. The message is one line with the setting, its value and what to do.
///
/// `Debug` prints the message as well, because that is what a `main` which returns the error shows its user.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The server cannot listen on the address; most often another server does.
    #[error("cannot listen on {}: {source}{}", .addr.escape_debug(), bind_hint(.source))]
    Bind {
        /// The address.
        addr: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The operating system gives no random bytes, of which the secrets for session passwords and for SASL are made.
    #[error("no random bytes for the secrets of the server: {source}")]
    Random {
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The operating system gives no thread or runtime to a server that is to have its own.
    #[error("cannot start the server's own thread: {source}")]
    Thread {
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// A setting has an invalid value.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The settings of TLS, or the files that they name, cannot be used.
    #[cfg(feature = "tls")]
    #[error("TLS: {0}")]
    Tls(#[from] zoolet_tls::TlsError),
    /// The data directory cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a snapshot was not written. The log has everything in any case.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The server has no data directory.
    #[error("the server is in memory; give it a data directory to write snapshots")]
    InMemory,
    /// The server has stopped.
    #[error("the server has stopped")]
    Stopped,
    /// Another snapshot is being taken, or one restored, and that has not ended within ten seconds.
    #[error("another snapshot is being taken or restored")]
    Busy,
    /// The disk refuses.
    #[error(transparent)]
    Storage(Arc<StorageError>),
}

fn bind_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => "; choose another address, or port 0 for any free one",
        io::ErrorKind::AddrNotAvailable => "; this machine does not have that address",
        _ => "",
    }
}

/// A setting with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} = {value}: {hint}")]
pub struct SettingError {
    /// The setting.
    pub setting: &'static str,
    /// Its value, as text.
    pub value: String,
    /// What is required.
    pub hint: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_returns_the_error_shows_the_sentence() {
        let error = StartError::from(StorageError::InUse("data/version-2".into()));
        let shown: Box<dyn std::error::Error> = Box::new(error);
        assert_eq!(
            format!("Error: {shown:?}"),
            "Error: data/version-2 is in use by another server; stop that one first, or choose another directory"
        );
    }
}
