//! One write by a session of its own, as a client would send it: every check, every ACL and every watch is that of the server.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zoolet_proto::frame::{self, DEFAULT_MAX_FRAME};
use zoolet_proto::records::{AuthPacket, ConnectRequest, ConnectResponse};
use zoolet_proto::{ErrorCode, Jute, ReplyHeader, Request, SessionId, Xid, Zxid, jute};
use zoolet_server::InProcessStream;

/// How long a write may take, until it is durable.
const DEADLINE: Duration = Duration::from_secs(10);
/// The session ends with the write. If its end is lost, the server ends it this long after, or after its shortest timeout.
const TIMEOUT: i32 = 4_000;
const WRITE: Xid = Xid(1);

/// Why a write has no reply.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The server refuses it.
    #[error("{0}")]
    Refused(ErrorCode),
    /// Whether it was executed is not known.
    #[error("no answer within 10 s; the write may be executed later")]
    Slow,
    /// The same.
    #[error("the server has closed the connection; the write may have been executed: {0}")]
    Lost(#[from] io::Error),
}

/// Sends one request with these credentials of the scheme `digest`, and returns the body of the reply.
///
/// # Cancel safety
/// If the future is dropped, the write may have been executed or not.
pub(super) async fn execute(
    stream: InProcessStream,
    credentials: Option<Vec<u8>>,
    request: Request,
) -> Result<Bytes, WriteError> {
    timeout(DEADLINE, exchange(stream, credentials, request)).await.unwrap_or(Err(WriteError::Slow))
}

async fn exchange(
    mut stream: InProcessStream,
    credentials: Option<Vec<u8>>,
    request: Request,
) -> Result<Bytes, WriteError> {
    let hello = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: TIMEOUT,
        session: SessionId(0),
        password: None,
        read_only: Some(false),
    };
    let mut out = BytesMut::new();
    hello.encode_frame(&mut out);
    if let Some(credentials) = credentials {
        let auth = AuthPacket { kind: 0, scheme: Some("digest".to_owned()), auth: Some(credentials.into()) };
        Request::Auth(auth).encode_frame(Xid::AUTH, &mut out);
    }
    request.encode_frame(WRITE, &mut out);
    Request::CloseSession.encode_frame(Xid(2), &mut out);
    stream.write_all(&out).await?;
    let mut read = BytesMut::new();
    let hello: ConnectResponse = jute::parse(&next_frame(&mut stream, &mut read).await?).map_err(invalid)?;
    if hello.is_refusal() {
        return Err(WriteError::Refused(ErrorCode::SessionExpired));
    }
    let mut outcome = Err(WriteError::Lost(io::ErrorKind::UnexpectedEof.into()));
    // To the end: then the session is closed, and its end is not a surprise to anybody.
    while let Ok(frame) = next_frame(&mut stream, &mut read).await {
        let mut body = &frame[..];
        let header = ReplyHeader::decode(&mut body).map_err(invalid)?;
        let refused = header.error_code().map(WriteError::Refused);
        match (header.xid, refused) {
            (WRITE, None) => outcome = Ok(frame.slice_ref(body)),
            // Nothing follows credentials that are refused.
            (WRITE | Xid::AUTH, Some(refused)) => outcome = Err(refused),
            _ => {}
        }
    }
    outcome
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

async fn next_frame(stream: &mut InProcessStream, read: &mut BytesMut) -> io::Result<Bytes> {
    loop {
        if let Some(len) = frame::split(read, DEFAULT_MAX_FRAME).map_err(invalid)?.map(<[u8]>::len) {
            read.advance(frame::PREFIX);
            return Ok(read.split_to(len).freeze());
        }
        if stream.read_buf(read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
