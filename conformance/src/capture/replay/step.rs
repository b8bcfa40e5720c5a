//! [`Step`]: something that a client or the server did in the capture, and that a replay does again.

use std::time::Duration;

use bytes::Bytes;
use zoolet_proto::Incoming;
use zoolet_proto::records::{ConnectRequest, ConnectResponse};

use crate::wire::fields::Fields;

/// Where something stands in a capture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) time: Duration,
    pub(super) connection: u32,
    /// The number of the record.
    pub(super) at: usize,
}

/// Something that is done again.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) moment: Moment,
    pub(super) action: Action,
    /// The zxid that the captured server had reached before: the new one must have reached its counterpart.
    pub(super) after: i64,
}

#[derive(Debug)]
pub(super) enum Action {
    /// The handshake. Without a response, the server has ended the connection instead.
    Connect {
        request: ConnectRequest,
        response: Option<ConnectResponse>,
        /// How long nothing was heard of the session that is to be resumed.
        silence: Duration,
    },
    Request {
        payload: Bytes,
        request: Incoming,
        reply: Awaited,
    },
    /// Bytes that are not frames, such as a four-letter word, and whether there was an answer.
    Bytes {
        bytes: Bytes,
        is_answered: bool,
    },
    /// The client ends the connection.
    Cut,
    /// The server ends the connection.
    Ended,
    /// The server ends a session that has expired.
    Expire {
        session: i64,
    },
    /// The server deletes a container, or a znode whose TTL is over.
    Delete {
        path: String,
    },
    /// A transaction that deletes nothing: the server was about to delete a container, which had got a child; or the write of a
    /// client that was not captured.
    Refuse,
}

/// What follows a request.
#[derive(Debug)]
pub(super) enum Awaited {
    /// A reply, after this number of events of the connection. If the request was a transaction,
    /// `transaction` is its zxid on the captured server.
    Reply { fields: Fields, events: usize, transaction: Option<i64> },
    /// A reply that the client has not got.
    Lost,
    /// No reply: the server has ended the connection, perhaps because of the request. Nothing is waited for.
    Nothing,
}
