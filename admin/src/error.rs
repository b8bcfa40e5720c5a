//! Why an HTTP server did not start.

use std::fmt;
use std::io;

/// Why an admin or metrics server did not start. The message is one line with the setting, its value and what to do.
///
/// `Debug` prints the message as well, because that is what a `main` which returns the error shows its user.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// It cannot listen on the address; most often another program does.
    #[error("cannot listen on {} for HTTP: {source}; choose another address, or port 0 for any free one", .addr.escape_debug())]
    Listen {
        /// The address.
        addr: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// HTTPS cannot be set up.
    #[cfg(feature = "tls")]
    #[error("no HTTPS: {0}")]
    Tls(#[from] zoolet_tls::TlsError),
    /// A setting has an invalid value.
    #[error("{setting} = {}: {hint}", .value.escape_debug())]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What is required.
        hint: &'static str,
    },
}

impl fmt::Debug for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
