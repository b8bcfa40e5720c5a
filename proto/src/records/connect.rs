//! The handshake.

use std::fmt;

use bytes::{Bytes, BytesMut};
use nom::Parser;

use crate::codec::{ByteSink, Codec, Parsed, fields};
use crate::frame;
use crate::id::{SessionId, Zxid};

/// Length of a session password.
pub const PASSWORD_LEN: usize = 16;

/// The first frame of a client. It has no header.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    /// Ignored by servers; clients send 0.
    pub protocol_version: i32,
    /// The highest zxid the client has seen. A server that has not reached it closes the connection.
    pub last_zxid_seen: Zxid,
    /// The requested session timeout, in milliseconds.
    pub timeout: i32,
    /// The session to resume; 0 for a new one.
    pub session: SessionId,
    /// The password of that session; ignored for a new one.
    pub password: Option<Bytes>,
    /// Whether the client accepts a read-only server; `None` if it does not send the byte, which the response must then not
    /// have either.
    pub read_only: Option<bool>,
}

/// The first frame of a server. It has no header.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectResponse {
    /// Always 0.
    pub protocol_version: i32,
    /// The negotiated session timeout, in milliseconds; 0 refuses the session.
    pub timeout: i32,
    /// The session; 0 refuses it.
    pub session: SessionId,
    /// Proves ownership of the session on a later connection.
    pub password: Bytes,
    /// Whether the server is read-only; present only if the request had the byte.
    pub read_only: Option<bool>,
}

impl ConnectRequest {
    /// Appends the request as a frame.
    pub fn encode_frame(&self, out: &mut BytesMut) {
        frame::put(out, |out| self.put(out));
    }
}

impl ConnectResponse {
    /// The response that refuses a session: no timeout, no id, a password of zeros.
    pub fn refusal(read_only: Option<bool>) -> Self {
        let password = Bytes::from_static(&[0; PASSWORD_LEN]);
        Self { protocol_version: 0, timeout: 0, session: SessionId(0), password, read_only }
    }

    /// Whether the session was refused. Some clients check the timeout and others the id, so either counts.
    pub fn is_refusal(&self) -> bool {
        self.timeout <= 0 || self.session == SessionId(0)
    }

    /// Appends the response as a frame.
    pub fn encode_frame(&self, out: &mut BytesMut) {
        frame::put(out, |out| self.put(out));
    }
}

fields!(ConnectRequest { protocol_version, last_zxid_seen, timeout, session, password, read_only });
fields!(ConnectResponse { protocol_version, timeout, session, password, read_only });

/// The last byte of a record, which old clients and servers leave out.
impl Codec for Option<bool> {
    fn parse(i: &[u8]) -> Parsed<'_, Self> {
        if i.is_empty() { Ok((i, None)) } else { bool::parse.map(Some).parse(i) }
    }

    fn put(&self, out: &mut impl ByteSink) {
        self.iter().for_each(|value| value.put(out));
    }
}

// Hand-written, to keep passwords out of logs.
impl fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectRequest")
            .field("session", &self.session)
            .field("timeout", &self.timeout)
            .field("last_zxid_seen", &self.last_zxid_seen)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ConnectResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectResponse")
            .field("session", &self.session)
            .field("timeout", &self.timeout)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jute::parse;

    #[test]
    fn the_read_only_byte_is_present_only_if_it_was_sent() {
        for (read_only, request_len, response_len) in [(None, 44, 36), (Some(false), 45, 37)] {
            let password = Bytes::from_static(&[7; PASSWORD_LEN]);
            let request = ConnectRequest {
                protocol_version: 0,
                last_zxid_seen: Zxid(5),
                timeout: 10_000,
                session: SessionId(9),
                password: Some(password.clone()),
                read_only,
            };
            let response = ConnectResponse {
                protocol_version: 0,
                timeout: 10_000,
                session: SessionId(9),
                password,
                read_only,
            };
            let (mut one, mut other) = (BytesMut::new(), BytesMut::new());
            request.put(&mut one);
            response.put(&mut other);
            assert_eq!((one.len(), other.len()), (request_len, response_len));
            assert_eq!((parse(&one), parse(&other)), (Ok(request), Ok(response)));
        }
    }

    #[test]
    fn debug_output_has_no_password() {
        let text = format!("{:?}", ConnectResponse::refusal(None));
        assert!(!text.contains("password"), "{text}");
    }
}
