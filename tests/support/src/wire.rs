//! A client that sends and receives frames, over any stream.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, timeout};
use zoolet_proto::records::{ConnectResponse, WatchedEvent};
use zoolet_proto::{OpCode, Reply, ReplyHeader, Xid, frame, jute};

use crate::{Answer, Event, Expected, Frame, Hello, Outgoing, close_session, ping, secs};

/// The limit of every wait.
const LIMIT: Duration = secs(60);

pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub type Receiver = ReadHalf<Box<dyn Stream>>;
pub type Sender = WriteHalf<Box<dyn Stream>>;

/// One end of a connection. It checks by itself that replies come in the order of the requests.
pub struct Wire {
    reader: Reader,
    writer: Sender,
    last_xid: i32,
    /// What the server answered to the handshake.
    pub welcome: ConnectResponse,
}

struct Reader {
    stream: Receiver,
    buffer: BytesMut,
    /// Requests without an answer yet: number and opcode, in the order they were sent.
    sent: VecDeque<(Xid, i32)>,
}

impl Wire {
    /// A connection before its handshake.
    pub fn over(stream: impl Stream + 'static) -> Self {
        let stream: Box<dyn Stream> = Box::new(stream);
        let (stream, writer) = split(stream);
        let reader = Reader { stream, buffer: BytesMut::new(), sent: VecDeque::new() };
        Self { reader, writer, last_xid: 0, welcome: ConnectResponse::refusal(None) }
    }

    /// A connection with a session.
    pub async fn open(stream: impl Stream + 'static, hello: Hello) -> Self {
        let mut wire = Self::over(stream);
        let welcome = wire.hello(hello).await;
        assert!(!welcome.is_refusal(), "the session was refused");
        wire
    }

    pub async fn hello(&mut self, hello: Hello) -> ConnectResponse {
        self.send_bytes(&hello.bytes()).await;
        self.expect_welcome().await
    }

    pub async fn expect_welcome(&mut self) -> ConnectResponse {
        let payload = self.payload().await.expect("an answer to the handshake");
        self.welcome = jute::parse(&payload).expect("a connect response");
        self.welcome.clone()
    }

    pub async fn send(&mut self, ask: impl Into<Outgoing>) -> Xid {
        let bytes = &mut BytesMut::new();
        let xid = self.encode(ask, bytes);
        self.send_bytes(bytes).await;
        xid
    }

    /// Sends bytes as they are.
    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.try_send_bytes(bytes).await.expect("a connection that takes bytes");
    }

    pub async fn try_send_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let writing = async {
            self.writer.write_all(bytes).await?;
            self.writer.flush().await
        };
        timeout(LIMIT, writing).await.expect("the server does not read")
    }

    /// Sends a frame with any opcode and any body.
    pub async fn send_raw(&mut self, xid: i32, op: i32, body: &[u8]) {
        let mut bytes = BytesMut::new();
        frame::put(&mut bytes, |out| {
            out.put_i32(xid);
            out.put_i32(op);
            out.put_slice(body);
        });
        self.reader.sent.push_back((Xid(xid), op));
        self.send_bytes(&bytes).await;
    }

    /// The bytes of a request, whose answer is expected from now on.
    pub fn encode(&mut self, ask: impl Into<Outgoing>, out: &mut BytesMut) -> Xid {
        let ask = ask.into();
        let xid = ask.xid.unwrap_or_else(|| {
            self.last_xid += 1;
            Xid(self.last_xid)
        });
        self.reader.sent.push_back((xid, ask.request.op().code()));
        ask.request.encode_frame(xid, out);
        xid
    }

    /// Sends a request and waits for its answer, which must be the next frame.
    pub async fn ask(&mut self, ask: impl Into<Outgoing>) -> Answer {
        self.send(ask).await;
        self.next().await.answer()
    }

    /// Sends all at once and reads at the same time, until the last of them is answered.
    pub async fn pipeline(&mut self, asks: impl IntoIterator<Item = impl Into<Outgoing>>) -> Vec<Frame> {
        let mut bytes = BytesMut::new();
        for ask in asks {
            self.encode(ask, &mut bytes);
        }
        let Self { reader, writer, .. } = self;
        let writing = async { writer.write_all(&bytes).await.expect("a connection that takes bytes") };
        let reading = async {
            let mut frames = Vec::new();
            while !reader.sent.is_empty() {
                frames.push(reader.next().await);
            }
            frames
        };
        tokio::join!(writing, reading).1
    }

    /// The next frame.
    pub async fn next(&mut self) -> Frame {
        self.reader.next().await
    }

    /// The next frame must be this.
    pub async fn expect(&mut self, expected: Expected) -> Frame {
        let frame = self.next().await;
        expected.check(&frame);
        frame
    }

    /// The payload of the next frame; `None` if the connection ends instead.
    pub async fn payload(&mut self) -> Option<Bytes> {
        self.reader.payload().await
    }

    /// The payload of the next frame; `None` if the connection ends instead, be it inside of a frame.
    pub async fn payload_or_end(&mut self) -> Option<Bytes> {
        self.reader.payload_or_end().await
    }

    /// The connection must end, before any timeout could be the reason, and not a byte come before that.
    pub async fn expect_closed(&mut self) {
        let start = Instant::now();
        self.expect_end().await;
        assert!(start.elapsed() < secs(9), "it was closed only after {:?}", start.elapsed());
    }

    /// The connection must end at some time, and not a byte come before that.
    pub async fn expect_end(&mut self) {
        let rest = self.rest().await;
        assert!(rest.is_empty(), "{} bytes before the end: {rest:02x?}", rest.len());
    }

    /// All bytes up to the end of the connection.
    pub async fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.reader.buffer).to_vec();
        let reading = async { while self.reader.more(&mut rest).await > 0 {} };
        timeout(LIMIT, reading).await.expect("the connection does not end");
        rest
    }

    /// Nothing may come for a second. Only for paused time.
    pub async fn expect_silence(&mut self) {
        if let Ok(payload) = timeout(secs(1), self.reader.payload()).await {
            panic!("expected silence, but got {payload:02x?}");
        }
    }

    /// The connection must be alive, and nothing in flight to this end.
    pub async fn expect_nothing_more(&mut self) {
        let answer = self.ask(ping()).await;
        assert_eq!((answer.xid, answer.error), (Xid::PING, None));
    }

    /// Whether the server still answers on this connection.
    pub async fn is_alive(&mut self) -> bool {
        let mut bytes = BytesMut::new();
        let xid = self.encode(ping(), &mut bytes);
        if self.try_send_bytes(&bytes).await.is_err() {
            return false;
        }
        while let Some(payload) = self.payload().await {
            let header = header_of(&payload);
            if header.xid == xid {
                self.reader.sent.retain(|(sent, _)| *sent != xid);
                return true;
            }
        }
        false
    }

    /// Waits for the answer to `xid` past any events; false if the connection ends instead.
    pub async fn is_answered(&mut self, xid: i32) -> bool {
        while let Some(payload) = self.payload().await {
            match header_of(&payload).xid {
                Xid::EVENT => {}
                other => {
                    assert_eq!(other, Xid(xid), "the answer to something else");
                    return true;
                }
            }
        }
        false
    }

    /// Ends what is sent, and goes on reading.
    pub async fn finish(&mut self) {
        self.writer.shutdown().await.expect("a connection that can be ended");
    }

    /// Ends the session and waits for the end of the connection.
    pub async fn close_session(mut self) -> Answer {
        let answer = self.ask(close_session()).await;
        self.expect_closed().await;
        answer
    }

    /// The two halves, for a peer that only reads or only writes.
    pub fn into_halves(self) -> (Receiver, Sender) {
        (self.reader.stream, self.writer)
    }
}

impl Reader {
    async fn next(&mut self) -> Frame {
        let payload = self.payload().await.expect("a frame, but the connection ended");
        let header = header_of(&payload);
        let body = &payload[16..];
        if header.xid == Xid::EVENT {
            let WatchedEvent { kind, path, .. } = jute::parse(body).expect("a watch event");
            return Frame::Event(Event { zxid: header.zxid.0, kind, path });
        }
        let (xid, op) = self.sent.pop_front().unwrap_or_else(|| panic!("{header:?} answers nothing"));
        // Whatever its number, a ping is answered under that of pings.
        let wanted = if op == OpCode::Ping.code() { Xid::PING } else { xid };
        assert_eq!(header.xid, wanted, "replies out of order");
        let error = header.error_code();
        let reply = match (error, OpCode::from_code(op)) {
            (None, Some(op)) => Reply::parse(op, body).expect("the body of a reply"),
            _ => Reply::Empty,
        };
        Frame::Answer(Answer { xid: header.xid, zxid: header.zxid.0, error, reply })
    }

    async fn payload(&mut self) -> Option<Bytes> {
        let payload = self.payload_or_end().await;
        assert!(payload.is_some() || self.buffer.is_empty(), "the connection ended inside a frame");
        payload
    }

    async fn payload_or_end(&mut self) -> Option<Bytes> {
        let reading = async {
            loop {
                if let Some(payload) = frame::split(&self.buffer, i32::MAX as usize).expect("a legal length")
                {
                    let payload = Bytes::copy_from_slice(payload);
                    self.buffer.advance(frame::PREFIX + payload.len());
                    return Some(payload);
                }
                let mut got = Vec::new();
                if self.more(&mut got).await == 0 {
                    return None;
                }
                self.buffer.put_slice(&got);
            }
        };
        timeout(LIMIT, reading).await.expect("nothing comes")
    }

    /// Reads some bytes more; 0 at the end, which may also be a reset.
    async fn more(&mut self, into: &mut Vec<u8>) -> usize {
        into.reserve(64 << 10);
        self.stream.read_buf(into).await.unwrap_or(0)
    }
}

fn header_of(payload: &[u8]) -> ReplyHeader {
    jute::parse(payload).expect("a reply header")
}
