//! [`Connection`]: frames to a server and from it.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use zoolet_proto::records::{ConnectRequest, ConnectResponse, PASSWORD_LEN, WatchedEvent};
use zoolet_proto::{ErrorCode, OpCode, Reply, ReplyHeader, Request, SessionId, Xid, Zxid, frame, jute};

use crate::error::RunError;
use crate::wire::conversation::{Frames, parse_reply, reply_xid};
use crate::wire::fields::{Fields, Value, of_connected, of_event, of_reply};

/// How long a server may take for an answer, unless the caller knows better.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The session timeout that is asked for, in milliseconds.
pub(crate) const SESSION_TIMEOUT: i32 = 30_000;

/// Id and password of a session that is to be opened.
pub(crate) const NO_SESSION: (i64, Bytes) = (0, Bytes::from_static(&[0; PASSWORD_LEN]));

/// A connection of a case.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    /// How long the server may take for an answer.
    pub(crate) limit: Duration,
    frames: Frames,
    last_xid: i32,
    /// Requests without a reply: xid and opcode, in the order in which they were sent.
    sent: VecDeque<(i32, i32)>,
}

/// What a server has sent.
pub(crate) enum Frame {
    Reply(Fields),
    Event(Fields),
}

enum Received {
    Reply(Option<ErrorCode>, Zxid, Reply),
    Event(Zxid, WatchedEvent),
    /// What a createSession inside a session is answered with.
    Connected(ConnectResponse),
}

/// Why there is no frame.
#[derive(Debug, Error)]
pub(crate) enum ReceiveError {
    /// The server has ended the connection.
    #[error("the server has ended the connection")]
    Ended,
    /// There is no connection, and why.
    #[error("cannot connect: {0}")]
    Unreachable(String),
    /// Nothing that was waited for has come within this time.
    #[error("nothing has come within {} s", .0.as_secs_f64())]
    Late(Duration),
    /// It is none that a ZooKeeper sends.
    #[error("{0}")]
    Invalid(String),
}

impl Connection {
    pub(crate) async fn to(address: &str, limit: Duration) -> io::Result<Self> {
        let connecting = timeout(limit, TcpStream::connect(address)).await;
        let stream = connecting.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        stream.set_nodelay(true)?;
        Ok(Self { stream, limit, frames: Frames::default(), last_xid: 0, sent: VecDeque::new() })
    }

    /// Connects, and opens a new session.
    ///
    /// # Errors
    /// If there is no server that does so.
    pub(crate) async fn with_session(address: &str, limit: Duration) -> Result<Self, RunError> {
        let no_session = |reason, may_be_starting| {
            let address = address.to_owned();
            RunError { address, reason, is_locked: false, may_be_starting }
        };
        let connecting = Self::to(address, limit).await;
        let mut connection =
            connecting.map_err(|error| no_session(format!("cannot connect: {error}"), !is_local(&error)))?;
        let opened = connection.open(NO_SESSION, 0, SESSION_TIMEOUT).await;
        let may_be_starting = !matches!(opened, Err(ReceiveError::Invalid(_)));
        let reason = match opened {
            Ok((response, _)) if !response.is_refusal() => return Ok(connection),
            Ok(_) => "it refuses a new session".to_owned(),
            Err(ReceiveError::Ended) => {
                "it ends the connection instead of opening a session; is it a ZooKeeper, and does it serve yet?".to_owned()
            }
            Err(ReceiveError::Late(limit)) => format!(
                "it does not open a session within {} s; is it a ZooKeeper, and does it serve yet?",
                limit.as_secs_f64()
            ),
            Err(error @ ReceiveError::Unreachable(_)) => error.to_string(),
            Err(ReceiveError::Invalid(what)) => format!("it is not a ZooKeeper: it sends {what}"),
        };
        Err(no_session(reason, may_be_starting))
    }

    /// Opens a session, or takes one up.
    pub(crate) async fn open(
        &mut self,
        (session, password): (i64, Bytes),
        last_zxid: i64,
        session_timeout: i32,
    ) -> Result<(ConnectResponse, Fields), ReceiveError> {
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(last_zxid),
            timeout: session_timeout,
            session: SessionId(session),
            password: Some(password),
            read_only: Some(false),
        };
        let mut bytes = BytesMut::new();
        request.encode_frame(&mut bytes);
        self.handshake(&bytes).await
    }

    /// Sends bytes as the first ones, and reads the answer to a handshake.
    pub(crate) async fn handshake(
        &mut self,
        bytes: &[u8],
    ) -> Result<(ConnectResponse, Fields), ReceiveError> {
        self.send_bytes(bytes).await?;
        let payload = self.payload().await?;
        let response = connected(&payload)?;
        let mut fields = of_connected(&response);
        let read_only = response.read_only.map_or(Value::Data(None), |flag| Value::Int(flag.into()));
        fields.extend([("protocol", Value::Int(response.protocol_version.into())), ("readOnly", read_only)]);
        Ok((response, fields))
    }

    /// Sends a request, and waits for its reply past any events.
    pub(crate) async fn ask(
        &mut self,
        request: &Request,
    ) -> Result<(Option<ErrorCode>, Zxid, Reply), ReceiveError> {
        let xid = if *request == Request::Ping { Xid::PING.0 } else { self.next_xid() };
        let mut bytes = BytesMut::new();
        request.encode_frame(Xid(xid), &mut bytes);
        self.sent.push_back((xid, request.op().code()));
        self.send_bytes(&bytes).await?;
        let limit = self.limit;
        let answering = async {
            loop {
                if let Received::Reply(error, zxid, reply) = self.receive().await? {
                    return Ok((error, zxid, reply));
                }
            }
        };
        // Events do not keep an answer waiting for ever.
        timeout(limit, answering).await.unwrap_or(Err(ReceiveError::Late(limit)))
    }

    fn next_xid(&mut self) -> i32 {
        self.last_xid += 1;
        self.last_xid
    }

    /// Sends a ping. What the server had to send before comes before its reply.
    pub(crate) async fn ping(&mut self) -> Result<(), ReceiveError> {
        self.send(OpCode::Ping.code(), Some(Xid::PING.0), &[]).await
    }

    /// Sends a request. `xid` is the next one if it is left out.
    pub(crate) async fn send(&mut self, op: i32, xid: Option<i32>, body: &[u8]) -> Result<(), ReceiveError> {
        let xid = xid.unwrap_or_else(|| self.next_xid());
        let mut bytes = BytesMut::new();
        frame::put(&mut bytes, |out| {
            out.put_i32(xid);
            out.put_i32(op);
            out.put_slice(body);
        });
        self.sent.push_back((xid, op));
        self.send_bytes(&bytes).await
    }

    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ReceiveError> {
        match timeout(self.limit, self.stream.write_all(bytes)).await {
            Err(_) => Err(ReceiveError::Late(self.limit)),
            Ok(Err(_)) => Err(ReceiveError::Ended),
            Ok(Ok(())) => Ok(()),
        }
    }

    /// Ends the connection from this side, and waits until the server has ended it too. Its session stays.
    pub(crate) async fn leave(mut self) {
        let _ = self.stream.shutdown().await;
        let limit = self.limit;
        let ending = async { while self.payload().await.is_ok() {} };
        // A server that sends on and on is left alone.
        let _ = timeout(limit, ending).await;
    }

    /// Closes the session, and waits until the server has ended the connection. A server that does not is left alone.
    pub(crate) async fn close(&mut self) {
        let limit = self.limit;
        let ending = async {
            let _ = self.send(OpCode::CloseSession.code(), None, &[]).await;
            while self.receive().await.is_ok() {}
        };
        let _ = timeout(limit, ending).await;
    }

    /// The time at which an answer that is asked for now is late.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    /// As [`next`](Self::next), until `deadline`.
    pub(crate) async fn next_until(&mut self, deadline: Instant) -> Result<Frame, ReceiveError> {
        let limit = self.limit;
        timeout_at(deadline, self.next()).await.unwrap_or(Err(ReceiveError::Late(limit)))
    }

    /// The next event, past any replies. Dropping the future loses nothing.
    pub(crate) async fn event(&mut self) -> Result<(Zxid, WatchedEvent), ReceiveError> {
        loop {
            if let Received::Event(zxid, event) = self.receive().await? {
                return Ok((zxid, event));
            }
        }
    }

    /// The next frame, which must be an event or the reply to the first request that has none.
    pub(crate) async fn next(&mut self) -> Result<Frame, ReceiveError> {
        Ok(match self.receive().await? {
            Received::Reply(error, zxid, reply) => Frame::Reply(of_reply(error, zxid, &reply)),
            Received::Event(zxid, event) => Frame::Event(of_event(zxid, &event)),
            Received::Connected(response) => Frame::Reply(of_connected(&response)),
        })
    }

    async fn receive(&mut self) -> Result<Received, ReceiveError> {
        let payload = self.payload().await?;
        let header: ReplyHeader = jute::parse(&payload).map_err(|error| invalid(&error, &payload))?;
        let body = payload.get(16..).unwrap_or_default();
        if header.xid == Xid::EVENT {
            let event: WatchedEvent = jute::parse(body).map_err(|error| invalid(&error, &payload))?;
            must_be(&payload, |out| Reply::Event(event.clone()).encode_frame(header, out))?;
            return Ok(Received::Event(header.zxid, event));
        }
        // The answer to a createSession has no header, unless it is an error.
        let asked = self.sent.front().map(|(_, op)| *op);
        if asked == Some(OpCode::CreateSession.code()) && !body.is_empty() {
            self.sent.pop_front();
            return connected(&payload).map(Received::Connected);
        }
        let Some((xid, op)) = self.sent.pop_front() else {
            return Err(ReceiveError::Invalid(format!("a reply with xid {} to no request", header.xid)));
        };
        let due = reply_xid(op, Xid(xid));
        if header.xid != due {
            return Err(ReceiveError::Invalid(format!(
                "a reply with xid {} where that to {due} is due",
                header.xid
            )));
        }
        let error = header.error_code();
        let reply = parse_reply(OpCode::from_code(op), error.is_some(), body);
        let reply = reply.map_err(|error| invalid(&error, &payload))?;
        must_be(&payload, |out| reply.encode_frame(header, out))?;
        Ok(Received::Reply(error, header.zxid, reply))
    }

    async fn payload(&mut self) -> Result<Bytes, ReceiveError> {
        match timeout(self.limit, self.frames.receive(&mut self.stream)).await {
            Err(_) => Err(ReceiveError::Late(self.limit)),
            Ok(Err(what)) => Err(ReceiveError::Invalid(what)),
            Ok(Ok(payload)) => payload.ok_or(ReceiveError::Ended),
        }
    }
}

/// Whether a failure to open a connection is the fault of this side: no more descriptors or ports may be opened. It shows nothing of
/// the server.
pub(crate) fn is_local(error: &io::Error) -> bool {
    // EMFILE and ENFILE of Unix, and WSAEMFILE. The standard library has no kind for them.
    let codes: &[i32] = if cfg!(windows) { &[10_024] } else { &[23, 24] };
    error.kind() == io::ErrorKind::AddrNotAvailable
        || error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

fn connected(payload: &[u8]) -> Result<ConnectResponse, ReceiveError> {
    let response: ConnectResponse = jute::parse(payload).map_err(|error| invalid(&error, payload))?;
    must_be(payload, |out| response.encode_frame(out))?;
    Ok(response)
}

/// A payload has to be the bytes of what it decodes to, and nothing else.
fn must_be(payload: &[u8], encode: impl FnOnce(&mut BytesMut)) -> Result<(), ReceiveError> {
    let mut exact = BytesMut::new();
    encode(&mut exact);
    if exact[frame::PREFIX..] == *payload { Ok(()) } else { Err(invalid(&"it has other bytes", payload)) }
}

fn invalid(error: &dyn std::fmt::Display, payload: &[u8]) -> ReceiveError {
    ReceiveError::Invalid(format!("a frame that does not decode ({error}): {payload:02x?}"))
}
