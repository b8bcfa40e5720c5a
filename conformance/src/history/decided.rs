//! [`Decided`]: a transaction as the server reports it.

use zoolet_proto::{ErrorCode, Request, SessionId, Xid, Zxid};

/// A transaction, as far as a check of a history needs it. Where it comes from, such as a log file or the server in this process, is a
/// matter of who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// Its position in the order.
    pub zxid: Zxid,
    /// When it was decided, in milliseconds.
    pub time: i64,
    /// The session of the request; the session itself for its creation and end. 0 if the server did it by itself.
    pub session: SessionId,
    /// The xid of the request.
    pub xid: Xid,
    /// What was decided.
    pub decision: Decision,
}

/// The effect of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The session was opened.
    Opened,
    /// A write was refused.
    Refused(ErrorCode),
    /// As this request: a create in its mode with its whole path, a delete, setData or setACL of any version, the end of the session, or
    /// a multi of such parts and of checks.
    Applied(Request),
}

impl Decision {
    /// The error of a refused write.
    pub(super) fn refusal(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(code) => Some(*code),
            Self::Opened | Self::Applied(_) => None,
        }
    }
}
