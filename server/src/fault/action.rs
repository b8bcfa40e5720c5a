//! [`Action`]: what happens to what a fault has met.

use std::fmt;
use std::time::Duration;

use zoolet_proto::ErrorCode;

/// What happens to what a fault has met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// The connection is broken off before it is served.
    Refuse,
    /// The request is not executed, and the connection closed.
    DropRequest,
    /// The request is executed, and the connection closed before the reply.
    LoseReply,
    /// The request is executed, and its reply left out; the connection stays.
    WithholdReply,
    /// The request, and what its connection sends behind it, is executed later.
    DelayRequest(Duration),
    /// The reply, and what its connection is sent behind it, is sent later.
    DelayReply(Duration),
    /// The request is executed, and only so many bytes of its reply's frame are sent before the connection is closed.
    CutReply(usize),
    /// The request is not executed, and the connection reset.
    Reset,
    /// The reply, and all that its connection is sent from then on, goes out in pieces.
    Drip {
        /// Bytes in each piece.
        bytes: usize,
        /// The pause behind each.
        every: Duration,
    },
    /// The request is not executed, and answered with an error.
    Fail(ErrorCode),
    /// Nothing passes in either direction, this request included, until the connection is healed.
    Freeze,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse => f.write_str("refuse"),
            Self::DropRequest => f.write_str("drop the request"),
            Self::LoseReply => f.write_str("lose the reply"),
            Self::WithholdReply => f.write_str("withhold the reply"),
            Self::DelayRequest(by) => write!(f, "delay the request by {by:?}"),
            Self::DelayReply(by) => write!(f, "delay the reply by {by:?}"),
            Self::CutReply(bytes) => write!(f, "cut the reply behind {bytes} bytes"),
            Self::Reset => f.write_str("reset the connection"),
            Self::Drip { bytes, every } => write!(f, "drip {bytes} bytes every {every:?}"),
            Self::Fail(code) => write!(f, "fail: {code}"),
            Self::Freeze => f.write_str("freeze the connection"),
        }
    }
}
