//! Why the binary ends with a complaint.

use std::io;
use std::path::PathBuf;

use zoolet_server::StartError;

use crate::settings::quoted;
use crate::zoo_cfg::ConfigError;

/// The exit code for an operator's mistake.
pub(crate) const MISTAKE: u8 = 2;

/// Why the binary ends with a complaint. The message is one line that names the thing, its value and the hint.
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
    #[error(
        "the shortest session timeout, {min} ms (minSessionTimeout, or 2 ticks), is longer than the longest, \
         {max} ms (maxSessionTimeout, or 20 ticks); lower the first or raise the second"
    )]
    Timeouts { min: u128, max: u128 },
    #[error("cannot {what}: {source}")]
    System { what: &'static str, source: io::Error },
}

impl Failure {
    /// The exit code that tells it.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::System { .. } => 1,
            _ => MISTAKE,
        }
    }
}
