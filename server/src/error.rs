//! Why a server did not start.

use std::fmt;
use std::io;

/// Why a server did not start. The message is one line that names the thing, its value and the hint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be listened on; most often another server does already.
    #[error("cannot listen on {}: {source}; choose another address, or port 0 for any free one", .addr.escape_debug())]
    Bind {
        /// The address as it was given.
        addr: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A setting has a value that cannot work.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// A setting with a value that cannot work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError {
    /// Which setting.
    pub setting: &'static str,
    /// Its value, as text.
    pub value: String,
    /// What it must be.
    pub hint: &'static str,
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}: {}", self.setting, self.value, self.hint)
    }
}

impl std::error::Error for SettingError {}
