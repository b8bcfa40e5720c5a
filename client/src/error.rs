//! Everything that can go wrong, in one type.

use std::io;
use std::sync::Arc;

use zoolet_proto::{ErrorCode, PathError};

use crate::context::ErrorContext;

/// Why a call failed, or why a watch or the whole session came to its end.
///
/// Rather than matching on variants, ask: [`code`](Error::code) for the protocol's error code,
/// [`is_retryable`](Error::is_retryable) for whether the same call may succeed later, and
/// [`may_have_applied`](Error::may_have_applied) before sending a write again.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the request.
    #[error("{context}: {code}")]
    Refused {
        /// The call.
        context: ErrorContext,
        /// The reason.
        code: ErrorCode,
    },
    /// The server refused one operation of a multi, and so all of them.
    #[error("multi, operation {index}, {context}: {code}")]
    MultiRefused {
        /// Which operation, counted from 0.
        index: usize,
        /// That operation.
        context: ErrorContext,
        /// The reason.
        code: ErrorCode,
    },
    /// There was no connection in time, or it went before the reply came. The session may well live on.
    #[error("{0}: connection lost")]
    ConnectionLoss(ErrorContext),
    /// The time given to the call was up.
    #[error("{0}: timed out")]
    Timeout(ErrorContext),
    /// The session is over: the server has expired it.
    #[error("{0}: session expired")]
    SessionExpired(ErrorContext),
    /// The session is over: the server has refused its credentials.
    #[error("{0}: authentication failed")]
    AuthFailed(ErrorContext),
    /// The session is over: it was closed, or the runtime that drove it is gone.
    #[error("{0}: the client is closed")]
    Closed(ErrorContext),
    /// The watch was taken away by [`Client::remove_watches`](crate::Client::remove_watches), or a server would not set it
    /// again on a new connection. What changes from here on is not told, and in the second case what has changed since
    /// the old connection was lost: look, and watch again.
    #[error("{0}: the watch was removed")]
    WatchRemoved(ErrorContext),
    /// The path is none by ZooKeeper's rules; nothing was sent.
    #[error("{context}: {reason}")]
    InvalidPath {
        /// The call.
        context: ErrorContext,
        /// The rule that is broken.
        reason: PathError,
    },
    /// The request is larger than [`max_request`](crate::ConnectOptions::max_request); it was not sent, as a server
    /// would close the connection and take other requests down with this one.
    #[error("{context}: a request of {size} bytes, where {max} are allowed")]
    RequestTooLarge {
        /// The call.
        context: ErrorContext,
        /// The length of its frame.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// The reply is larger than [`max_reply`](crate::ConnectOptions::max_reply); it was skipped.
    #[error("{context}: a reply of {size} bytes, where {max} are allowed")]
    ReplyTooLarge {
        /// The call.
        context: ErrorContext,
        /// The length of its frame.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// The server answered with something that is no answer to this call.
    #[error("{0}: the reply does not decode")]
    Protocol(ErrorContext),
    /// The connect string or an option says something that cannot be.
    #[error("connect: {0}")]
    InvalidTarget(String),
    /// No session could be opened within [`connect_timeout`](crate::ConnectOptions::connect_timeout).
    #[error("connect: no server gave a session{}", because(.0))]
    Unreachable(#[source] Option<Arc<io::Error>>),
}

fn because(last: &Option<Arc<io::Error>>) -> String {
    last.as_ref().map(|error| format!(", the last attempt failed: {error}")).unwrap_or_default()
}

impl Error {
    /// The protocol's code for this error, local conditions included; `None` where the protocol has none.
    pub fn code(&self) -> Option<ErrorCode> {
        Some(match self {
            Self::Refused { code, .. } | Self::MultiRefused { code, .. } => *code,
            Self::ConnectionLoss(_) | Self::Unreachable(_) => ErrorCode::ConnectionLoss,
            Self::Timeout(_) => ErrorCode::OperationTimeout,
            Self::SessionExpired(_) => ErrorCode::SessionExpired,
            Self::AuthFailed(_) => ErrorCode::AuthFailed,
            Self::InvalidPath { .. } => ErrorCode::BadArguments,
            Self::Protocol(_) => ErrorCode::MarshallingError,
            Self::Closed(_)
            | Self::WatchRemoved(_)
            | Self::RequestTooLarge { .. }
            | Self::ReplyTooLarge { .. }
            | Self::InvalidTarget(_) => return None,
        })
    }

    /// Whether the same call on the same client may succeed later without anything else changing.
    ///
    /// For a write, look at [`Error::may_have_applied`] first.
    pub fn is_retryable(&self) -> bool {
        use ErrorCode::*;
        match self {
            Self::ConnectionLoss(_) | Self::Timeout(_) | Self::Unreachable(_) => true,
            Self::Refused { code, .. } | Self::MultiRefused { code, .. } => matches!(
                code,
                ConnectionLoss
                    | OperationTimeout
                    | RequestTimeout
                    | ReconfigInProgress
                    | SessionMoved
                    | ThrottledOp
                    | NotReadOnly
            ),
            _ => false,
        }
    }

    /// Whether the call is a write whose outcome is unknown: a server may have received it, and no reply said what
    /// became of it. Where this is `false` the call has changed nothing.
    pub fn may_have_applied(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::MultiRefused { .. } => false,
            Self::ConnectionLoss(context)
            | Self::Timeout(context)
            | Self::SessionExpired(context)
            | Self::AuthFailed(context)
            | Self::Closed(context)
            | Self::Protocol(context)
            | Self::ReplyTooLarge { context, .. } => context.may_have_applied(),
            _ => false,
        }
    }

    /// Whether the session is over, so that nothing will succeed on this client any more.
    pub fn is_session_over(&self) -> bool {
        matches!(self, Self::SessionExpired(_) | Self::AuthFailed(_) | Self::Closed(_))
    }

    /// Which operation of a multi was refused, counted from 0.
    pub fn failed_operation(&self) -> Option<usize> {
        match self {
            Self::MultiRefused { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// The call this error belongs to, if it belongs to one.
    pub fn context(&self) -> Option<&ErrorContext> {
        match self {
            Self::Refused { context, .. }
            | Self::MultiRefused { context, .. }
            | Self::InvalidPath { context, .. }
            | Self::RequestTooLarge { context, .. }
            | Self::ReplyTooLarge { context, .. }
            | Self::ConnectionLoss(context)
            | Self::Timeout(context)
            | Self::SessionExpired(context)
            | Self::AuthFailed(context)
            | Self::Closed(context)
            | Self::WatchRemoved(context)
            | Self::Protocol(context) => Some(context),
            Self::InvalidTarget(_) | Self::Unreachable(_) => None,
        }
    }
}
