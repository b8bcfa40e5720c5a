//! The error of every call.

use std::time::Duration;

use zoolet_proto::{ErrorCode, PathError};

use crate::connection_error::ConnectionError;
use crate::context::ErrorContext;

/// Why a call failed, or why a watch or the whole session ended.
///
/// Prefer the methods to matching on variants: [`code`](Error::code) returns the protocol's error code,
/// [`is_retryable`](Error::is_retryable) whether the same call may succeed later, and
/// [`may_have_applied`](Error::may_have_applied) whether a write may have been executed, so that sending it again may
/// execute it twice.
///
/// ```no_run
/// # use zoolet_client::{Client, Error, ErrorCode};
/// # async fn example(zk: Client) -> Result<(), Error> {
/// match zk.delete("/job").version(3).await {
///     Ok(()) => println!("deleted"),
///     Err(error) if error.code() == Some(ErrorCode::BadVersion) => println!("changed meanwhile"),
///     Err(error) if error.may_have_applied() => println!("outcome unknown: {error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the request. [`ErrorCode::BadVersion`] also for an expected version of −1, which is not sent.
    #[error("{context}: {code}{}", .context.detail())]
    Refused {
        /// The call.
        context: ErrorContext,
        /// The reason.
        code: ErrorCode,
    },
    /// The server refused one operation of a multi; none of them was executed.
    #[error("multi, operation {index}, {context}: {code}{}", .context.detail())]
    MultiRefused {
        /// The index of the operation, from 0.
        index: usize,
        /// The operation and path of that operation.
        context: ErrorContext,
        /// The reason.
        code: ErrorCode,
    },
    /// There was no connection in time, or it was lost before the reply arrived. The session may continue.
    #[error("{}: connection lost{}", .0, .0.detail())]
    ConnectionLoss(ErrorContext),
    /// The timeout of the call has elapsed.
    #[error("{}: timed out{}", .0, .0.detail())]
    Timeout(ErrorContext),
    /// The session is over: the server has expired it.
    #[error("{}: session expired{}", .0, .0.detail())]
    SessionExpired(ErrorContext),
    /// The session is over: the server has refused its credentials.
    #[error("{}: authentication failed{}", .0, .0.detail())]
    AuthFailed(ErrorContext),
    /// The session is over: it was closed, or the runtime that drove it is gone, which the message tells then.
    #[error("{}: the client is closed{}", .0, .0.detail())]
    Closed(ErrorContext),
    /// The watch was removed by [`Client::remove_watches`](crate::Client::remove_watches), or a server refused to restore it
    /// on a new connection. Changes from now on are not reported; in the second case neither are those since the old
    /// connection was lost. Read again, and set a new watch.
    #[error("{0}: the watch was removed")]
    WatchRemoved(ErrorContext),
    /// The path is invalid by ZooKeeper's rules; nothing was sent.
    #[error("{context}: {reason}{}", .context.detail())]
    InvalidPath {
        /// The call.
        context: ErrorContext,
        /// The rule that it breaks.
        reason: PathError,
    },
    /// Options of the call contradict each other; nothing was sent.
    #[error("{context}: {reason}")]
    InvalidOptions {
        /// The call.
        context: ErrorContext,
        /// Which options, and why.
        reason: String,
    },
    /// The requests that wait for a reply take all of [`max_pending`](crate::ConnectOptions::max_pending); this one was not
    /// sent. Only from `send`; `.await` waits for room.
    #[error("{context}: too many requests wait for a reply; the limit is {max} bytes, `max_pending`")]
    QueueFull {
        /// The call.
        context: ErrorContext,
        /// The limit in bytes.
        max: usize,
    },
    /// The request is larger than [`max_request`](crate::ConnectOptions::max_request). It was not sent, because a server
    /// would close the connection, and other requests would fail with it.
    #[error("{context}: the request has {size} bytes, the limit is {max}, `max_request`")]
    RequestTooLarge {
        /// The call.
        context: ErrorContext,
        /// The length of its frame in bytes.
        size: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The reply is larger than [`max_reply`](crate::ConnectOptions::max_reply); it was skipped.
    #[error("{context}: the reply has {size} bytes, the limit is {max}, `max_reply`")]
    ReplyTooLarge {
        /// The call.
        context: ErrorContext,
        /// The length of its frame in bytes.
        size: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// The reply does not match the call, or is malformed.
    #[error("{0}: malformed reply")]
    Protocol(ErrorContext),
    /// There is no tokio runtime where [`connect`](crate::ConnectOptions::connect) was awaited. The session is driven by a task
    /// of that runtime, so await it inside of one.
    #[error(
        "connect: no tokio runtime here; await it in `#[tokio::main]`, `#[tokio::test]` or `Runtime::block_on`"
    )]
    NoRuntime,
    /// The connect string or an option is invalid.
    #[error("connect: {0}")]
    InvalidTarget(String),
    /// No session could be opened within [`connect_timeout`](crate::ConnectOptions::connect_timeout).
    #[error("connect: no session within {timeout:?}{}", reasons(.hosts))]
    Unreachable {
        /// The connect timeout.
        timeout: Duration,
        /// Why, for each host that was tried; the latest attempt last.
        hosts: Vec<ConnectionError>,
    },
}

/// Most hosts that a message names.
const MAX_HOSTS: usize = 5;

/// The end of a message: what is wrong with each host.
fn reasons(hosts: &[ConnectionError]) -> String {
    let (shown, more) = hosts.split_at(hosts.len().min(MAX_HOSTS));
    let mut reasons: String = shown.iter().map(|host| format!("; {host}")).collect();
    if !more.is_empty() {
        reasons += &format!("; and {} more", more.len());
    }
    reasons
}

impl Error {
    /// The protocol's code for this error, also if it arose in the client; `None` if the protocol has none.
    pub fn code(&self) -> Option<ErrorCode> {
        Some(match self {
            Self::Refused { code, .. } | Self::MultiRefused { code, .. } => *code,
            Self::ConnectionLoss(_) | Self::Unreachable { .. } => ErrorCode::ConnectionLoss,
            Self::Timeout(_) => ErrorCode::OperationTimeout,
            Self::SessionExpired(_) => ErrorCode::SessionExpired,
            Self::AuthFailed(_) => ErrorCode::AuthFailed,
            Self::InvalidPath { .. } | Self::InvalidOptions { .. } => ErrorCode::BadArguments,
            Self::Protocol(_) => ErrorCode::MarshallingError,
            Self::Closed(_)
            | Self::WatchRemoved(_)
            | Self::RequestTooLarge { .. }
            | Self::ReplyTooLarge { .. }
            | Self::QueueFull { .. }
            | Self::NoRuntime
            | Self::InvalidTarget(_) => return None,
        })
    }

    /// Whether the same call on the same client may succeed later without anything else changing.
    ///
    /// Before retrying a write, check [`Error::may_have_applied`].
    pub fn is_retryable(&self) -> bool {
        use ErrorCode::*;
        match self {
            Self::ConnectionLoss(_)
            | Self::Timeout(_)
            | Self::Unreachable { .. }
            | Self::QueueFull { .. } => true,
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

    /// Whether the call is a write whose outcome is unknown: a server may have received it, and no reply arrived. If this
    /// is `false`, the call has changed nothing.
    pub fn may_have_applied(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::MultiRefused { .. } => false,
            _ => self.context().is_some_and(ErrorContext::may_have_applied),
        }
    }

    /// Whether the session is over, so that every later call on this client fails.
    pub fn is_session_over(&self) -> bool {
        matches!(self, Self::SessionExpired(_) | Self::AuthFailed(_) | Self::Closed(_))
    }

    /// The index of the operation of a multi that was refused, from 0.
    pub fn failed_operation(&self) -> Option<usize> {
        match self {
            Self::MultiRefused { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// Why there was no connection, if the call failed for want of one: on `ConnectionLoss`, on `Timeout` and
    /// `SessionExpired` without a connection, and the latest of [`Error::Unreachable`].
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) {
    /// if let Err(error) = zk.get_data("/config").await {
    ///     eprintln!("host: {:?}", error.connection_error().and_then(|cause| cause.host()));
    /// }
    /// # }
    /// ```
    pub fn connection_error(&self) -> Option<&ConnectionError> {
        match self {
            Self::Unreachable { hosts, .. } => hosts.last(),
            _ => self.context()?.connection_error(),
        }
    }

    /// The call that this error belongs to, if it belongs to one.
    pub fn context(&self) -> Option<&ErrorContext> {
        match self {
            Self::Refused { context, .. }
            | Self::MultiRefused { context, .. }
            | Self::InvalidPath { context, .. }
            | Self::InvalidOptions { context, .. }
            | Self::QueueFull { context, .. }
            | Self::RequestTooLarge { context, .. }
            | Self::ReplyTooLarge { context, .. }
            | Self::ConnectionLoss(context)
            | Self::Timeout(context)
            | Self::SessionExpired(context)
            | Self::AuthFailed(context)
            | Self::Closed(context)
            | Self::WatchRemoved(context)
            | Self::Protocol(context) => Some(context),
            Self::NoRuntime | Self::InvalidTarget(_) | Self::Unreachable { .. } => None,
        }
    }
}
