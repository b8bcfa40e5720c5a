//! The handshake, as clients vary it, and the password of a session.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{SessionId, Zxid};

/// A connect request that a test builds.
#[derive(Clone)]
pub struct Hello(pub ConnectRequest);

impl Hello {
    /// What a modern client asks for: a new session.
    pub fn new() -> Self {
        Self(ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout: crate::TIMEOUT.as_millis() as i32,
            session: SessionId(0),
            password: Some(Bytes::from_static(&[0; 16])),
            read_only: Some(false),
        })
    }

    /// Resumes a session.
    pub fn again(session: &ConnectResponse) -> Self {
        Self::new().session(session.session).password(&session.password)
    }

    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = timeout.as_millis() as i32;
        self
    }

    pub fn timeout_ms(mut self, timeout: i32) -> Self {
        self.0.timeout = timeout;
        self
    }

    pub fn session(mut self, id: SessionId) -> Self {
        self.0.session = id;
        self
    }

    pub fn password(mut self, password: &[u8]) -> Self {
        self.0.password = Some(Bytes::copy_from_slice(password));
        self
    }

    pub fn no_password(mut self) -> Self {
        self.0.password = None;
        self
    }

    pub fn has_seen(mut self, zxid: i64) -> Self {
        self.0.last_zxid_seen = Zxid(zxid);
        self
    }

    /// Whether a read-only server is accepted.
    pub fn read_only(mut self, allowed: bool) -> Self {
        self.0.read_only = Some(allowed);
        self
    }

    /// As go-zookeeper and very old clients send it: without the last byte.
    pub fn without_read_only_byte(mut self) -> Self {
        self.0.read_only = None;
        self
    }

    pub fn protocol_version(mut self, version: i32) -> Self {
        self.0.protocol_version = version;
        self
    }

    /// As encoded.
    pub fn bytes(&self) -> BytesMut {
        let mut bytes = BytesMut::new();
        self.0.encode_frame(&mut bytes);
        bytes
    }
}

impl Default for Hello {
    fn default() -> Self {
        Self::new()
    }
}

/// The password that a server derives from the id of a session, computed independently (`java.util.Random`).
pub fn password_of(session: SessionId) -> Bytes {
    let mut seed = (session.0 ^ 0xB341_5C00 ^ 0x5_DEEC_E66D) & ((1 << 48) - 1);
    let mut next = || {
        seed = seed.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        ((seed >> 16) as i32).to_le_bytes()
    };
    [next(), next(), next(), next()].concat().into()
}
