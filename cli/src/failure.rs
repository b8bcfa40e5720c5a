//! Errors that end the process.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_server::StartError;
use zoolet_storage::StorageError;

use crate::health::Trouble;
use crate::missing_features;
use crate::settings::SettingMistake;
use crate::text::quoted;
use crate::zoo_cfg::ConfigError;

/// The exit code for an operator's mistake.
pub(crate) const MISTAKE: u8 = 2;

/// An error that ends the process. The message is one line with the setting, its value and a hint; several mistakes have a line each.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{}", lines(.0))]
    Several(Vec<Self>),
    #[error(transparent)]
    Start(#[from] StartError),
    #[cfg(feature = "admin")]
    #[error(transparent)]
    Admin(#[from] zoolet_admin::AdminError),
    #[error("--log {}: {hint}", quoted(.filter))]
    Log { filter: String, hint: String },
    #[error(transparent)]
    Setting(#[from] SettingMistake),
    #[cfg(feature = "tls")]
    #[error("TLS: {0}")]
    Tls(#[from] zoolet_tls::TlsError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(
        "the data directory can no longer be written, so the server has stopped: {0}; what it has acknowledged is there"
    )]
    Disk(Arc<StorageError>),
    #[error("{} is no data directory: {hint}", .dir.display())]
    NotADataDirectory { dir: PathBuf, hint: String },
    #[error("there is no znode {}", quoted(.path))]
    NoSuchZnode { path: String },
    #[error("there is no transaction {at}: the last one is {last}")]
    NoSuchTransaction { at: Zxid, last: Zxid },
    #[error("cannot {action} {}: {source}", .file.display())]
    File { action: &'static str, file: PathBuf, source: io::Error },
    #[error(
        "{address} must be HOST:PORT,HOST:PORT, or @NAME of a cluster in the file of clusters{}",
        missing_features()
    )]
    Servers { address: String },
    #[cfg(feature = "conformance")]
    #[error(transparent)]
    Kit(crate::kit::KitFailure),
    #[cfg(feature = "shell")]
    #[error(transparent)]
    Shell(#[from] zoolet_shell::ShellError),
    #[error("{address} does not serve: {trouble}")]
    Unhealthy { address: String, trouble: Trouble },
    #[error("cannot write to stdout: {0}")]
    Output(io::Error),
    #[error("cannot {action}: {source}")]
    System { action: &'static str, source: io::Error },
}

impl Failure {
    /// For `map_err`: what was to be done, and with which file.
    pub(crate) fn file(action: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, file: file.to_owned(), source }
    }

    /// Whether nobody reads stdout any longer.
    pub(crate) fn is_reader_gone(&self) -> bool {
        match self {
            Self::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            #[cfg(feature = "shell")]
            Self::Shell(error) => error.is_reader_gone(),
            _ => false,
        }
    }

    /// The exit code of the process.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Several(all) => all.iter().map(Self::code).max().unwrap_or(MISTAKE),
            #[cfg(feature = "conformance")]
            Self::Kit(failure) => failure.code(),
            #[cfg(feature = "shell")]
            Self::Shell(error) => error.reason().code(),
            // The verdict was not read to its end.
            _ if self.is_reader_gone() => MISTAKE,
            Self::Storage(StorageError::InUse(_) | StorageError::NoData(_) | StorageError::NotEmpty(_)) => {
                MISTAKE
            }
            Self::System { .. }
            | Self::Unhealthy { .. }
            | Self::Disk(_)
            | Self::Storage(_)
            | Self::Output(_)
            | Self::NoSuchZnode { .. } => 1,
            _ => MISTAKE,
        }
    }
}

fn lines(mistakes: &[Failure]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
