//! The handshake, as clients vary it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zoolet_proto::records::{ConnectRequest, ConnectResponse};
use zoolet_proto::{SessionId, Zxid};

/// A connect request that is being written.
#[derive(Clone)]
pub struct Hello(ConnectRequest);

impl Hello {
    /// What a modern client asks for: a new session.
    pub fn new() -> Self {
        Self(ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout: super::TIMEOUT.as_millis() as i32,
            session: SessionId(0),
            password: Some(Bytes::from_static(&[0; 16])),
            read_only: Some(false),
        })
    }

    /// Takes up a session again.
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

    /// Whether a server that is cut off from its ensemble will do.
    pub fn read_only(mut self, allowed: bool) -> Self {
        self.0.read_only = Some(allowed);
        self
    }

    /// As go-zookeeper and very old clients say it: the last byte left out.
    pub fn without_read_only_byte(mut self) -> Self {
        self.0.read_only = None;
        self
    }

    pub fn protocol_version(mut self, version: i32) -> Self {
        self.0.protocol_version = version;
        self
    }

    /// As it stands on the wire.
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
