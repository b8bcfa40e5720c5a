//! Errors that end the process.

use std::io;
use std::path::PathBuf;

use zoolet_server::StartError;

use crate::settings::TimeoutError;
use crate::text::quoted;
use crate::zoo_cfg::ConfigError;

/// The exit code for an operator's mistake.
pub(crate) const MISTAKE: u8 = 2;

/// An error that ends the process. The message is one line with the setting, its value and a hint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("--log {}: {hint}", quoted(.filter))]
    Log { filter: String, hint: String },
    #[error("cannot read the super digest from {}: {source}", .file.display())]
    SuperDigestFile { file: PathBuf, source: io::Error },
    // The value is a secret.
    #[error("the super digest of {origin} {hint}")]
    SuperDigest { origin: String, hint: &'static str },
    #[error(transparent)]
    Timeouts(#[from] TimeoutError),
    #[error("cannot {action}: {source}")]
    System { action: &'static str, source: io::Error },
}

impl Failure {
    /// The exit code of the process.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::System { .. } => 1,
            _ => MISTAKE,
        }
    }
}
