//! The secret that protects a session.

use std::fmt;

use bytes::Bytes;

/// The password of a session, from [`Client::session_password`](crate::Client::session_password). Who has it, and the id,
/// can resume the session and end it: keep it like any secret. Its `Debug` output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionPassword(pub(crate) Bytes);

impl SessionPassword {
    /// The bytes, to store them: sixteen of a ZooKeeper server.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<B: Into<Bytes>> From<B> for SessionPassword {
    fn from(bytes: B) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for SessionPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionPassword(not shown)")
    }
}
