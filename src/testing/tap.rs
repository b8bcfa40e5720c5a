//! [`Tap`]: wraps a client's end of a connection, counts the bytes and, if asked to, records the messages.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::history::History;
use super::recorder::Recorder;

/// Wraps a client's end of a connection. Bytes pass unchanged and at once.
pub struct Tap<S> {
    stream: S,
    counts: Arc<TapCounts>,
    recorder: Option<Recorder>,
}

/// The bytes that have passed through one or several [`Tap`]s.
#[derive(Debug, Default)]
pub struct TapCounts {
    written: AtomicU64,
    read: AtomicU64,
    over: AtomicBool,
}

impl TapCounts {
    /// Bytes written by clients. Raised before the write, so that no byte is in flight uncounted; bytes that a full
    /// stream does not accept are counted for a moment.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Whether a client has reached the end of its connection, or has dropped it.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Bytes read by clients.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::SeqCst)
    }
}

impl<S> Tap<S> {
    /// Wraps the client's end of an unused connection.
    pub fn new(stream: S) -> Self {
        Self { stream, counts: Arc::default(), recorder: None }
    }

    /// Adds all further bytes to `counts`.
    #[must_use]
    pub fn counting(mut self, counts: &Arc<TapCounts>) -> Self {
        self.counts = Arc::clone(counts);
        self
    }

    /// Records the messages in `history`, as a connection of its own. Call it before the first byte passes.
    #[must_use]
    pub fn recording(mut self, history: &History) -> Self {
        self.recorder = Some(Recorder::new(history.clone()));
        self
    }

    /// The bytes so far; stays readable while the tap is in use elsewhere.
    pub fn counts(&self) -> Arc<TapCounts> {
        Arc::clone(&self.counts)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tap<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let (capacity, before) = (buf.remaining(), buf.filled().len());
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        let new = &buf.filled()[before..];
        this.counts.read.fetch_add(new.len() as u64, Ordering::SeqCst);
        if polled.is_ready() && new.is_empty() && capacity > 0 {
            this.counts.over.store(true, Ordering::SeqCst);
        }
        if let Some(recorder) = &mut this.recorder {
            match polled {
                Poll::Ready(Ok(())) if !new.is_empty() => recorder.received(new),
                Poll::Ready(Ok(())) if capacity == 0 => {}
                Poll::Ready(_) => recorder.ended(),
                Poll::Pending => {}
            }
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let began = this.recorder.as_ref().map(Recorder::now);
        this.counts.written.fetch_add(buf.len() as u64, Ordering::SeqCst);
        let polled = Pin::new(&mut this.stream).poll_write(cx, buf);
        let accepted = match polled {
            Poll::Ready(Ok(accepted)) => accepted,
            _ => 0,
        };
        this.counts.written.fetch_sub((buf.len() - accepted) as u64, Ordering::SeqCst);
        if let (Some(recorder), Some(began)) = (&mut this.recorder, began) {
            recorder.sent(began, &buf[..accepted]);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S> Drop for Tap<S> {
    fn drop(&mut self) {
        self.counts.over.store(true, Ordering::SeqCst);
    }
}

impl<S> fmt::Debug for Tap<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("counts", &self.counts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use zoolet_proto::records::{ConnectRequest, ConnectResponse, GetData, WatchedEvent};
    use zoolet_proto::{
        ErrorCode, EventType, Incoming, KeeperState, OpCode, Reply, ReplyHeader, Request, SessionId, Xid,
        Zxid,
    };

    use super::*;
    use crate::testing::history::{HistoryEvent, Side};

    fn connect_request() -> BytesMut {
        let mut bytes = BytesMut::new();
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(3),
            timeout: 4000,
            session: SessionId(0),
            password: None,
            read_only: None,
        }
        .encode_frame(&mut bytes);
        bytes
    }

    fn connect_response() -> BytesMut {
        let mut bytes = BytesMut::new();
        let password = Bytes::from_static(&[7; 16]);
        let (protocol_version, timeout, session, read_only) = (0, 4000, SessionId(9), None);
        ConnectResponse { protocol_version, timeout, session, password, read_only }.encode_frame(&mut bytes);
        bytes
    }

    fn get_data() -> Request {
        Request::GetData(GetData { path: "/a".into(), watch: true })
    }

    fn event() -> WatchedEvent {
        let (kind, state) = (EventType::NodeDeleted, KeeperState::SyncConnected);
        WatchedEvent { kind, state, path: "/a".into() }
    }

    /// The bytes of a conversation, by side.
    fn conversation() -> (BytesMut, BytesMut) {
        let (mut sent, mut received) = (connect_request(), connect_response());
        get_data().encode_frame(Xid(1), &mut sent);
        Request::Ping.encode_frame(Xid(77), &mut sent);
        Reply::Empty.encode_frame(ReplyHeader::error(Xid(1), Zxid(4), ErrorCode::NoNode), &mut received);
        Reply::Event(event()).encode_frame(ReplyHeader::ok(Xid::EVENT, Zxid(5)), &mut received);
        Reply::Empty.encode_frame(ReplyHeader::ok(Xid::PING, Zxid(5)), &mut received);
        (sent, received)
    }

    /// Passes the bytes on in pieces of a given size, and returns what was recorded.
    async fn recorded(sent: &[u8], received: &[u8], piece: usize) -> Vec<HistoryEvent> {
        let history = History::new();
        let (client, mut server) = duplex(1 << 16);
        let mut tap = Tap::new(client).recording(&history);
        for piece in sent.chunks(piece) {
            tap.write_all(piece).await.expect("a write");
        }
        let (mut passed, mut arrived) = (vec![0; sent.len()], Vec::new());
        server.read_exact(&mut passed).await.expect("all of it");
        server.write_all(received).await.expect("a write");
        drop::<DuplexStream>(server);
        let mut part = vec![0; piece];
        loop {
            match tap.read(&mut part).await.expect("a read") {
                0 => break,
                got => arrived.extend_from_slice(&part[..got]),
            }
        }
        assert_eq!((&passed[..], &arrived[..]), (sent, received));
        assert_eq!(tap.counts().written(), sent.len() as u64);
        assert_eq!(tap.counts().read(), received.len() as u64);
        drop(tap);
        let entries = history.entries();
        assert!(entries.windows(2).all(|pair| pair[0].at <= pair[1].at));
        entries.into_iter().map(|entry| entry.event).collect()
    }

    #[tokio::test]
    async fn a_conversation_is_recorded_independent_of_its_segments() {
        let (sent, received) = conversation();
        let expected = [
            HistoryEvent::Opened,
            HistoryEvent::ConnectRequest { session: SessionId(0), last_zxid_seen: Zxid(3) },
            HistoryEvent::Request(Incoming { xid: Xid(1), op: OpCode::GetData.code(), body: Ok(get_data()) }),
            HistoryEvent::Request(Incoming {
                xid: Xid(77),
                op: OpCode::Ping.code(),
                body: Ok(Request::Ping),
            }),
            HistoryEvent::ConnectResponse { session: SessionId(9) },
            HistoryEvent::Reply(ReplyHeader::error(Xid(1), Zxid(4), ErrorCode::NoNode), Ok(Reply::Empty)),
            HistoryEvent::Event(Zxid(5), event()),
            HistoryEvent::Reply(ReplyHeader::ok(Xid::PING, Zxid(5)), Ok(Reply::Empty)),
            HistoryEvent::Ended,
        ];
        for piece in [1, 3, 7, 20, 1000] {
            assert_eq!(recorded(&sent, &received, piece).await, expected, "in pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn a_four_letter_word_and_its_answer_are_not_recorded() {
        for piece in [1, 1000] {
            assert_eq!(recorded(b"ruok", b"imok", piece).await, [HistoryEvent::Opened, HistoryEvent::Ended]);
        }
    }

    #[tokio::test]
    async fn invalid_frames_are_recorded_as_such_and_pass() {
        let (sent, mut received) = conversation();
        received.extend_from_slice(b"\0\0\0\x03abc and more");
        let events = recorded(&sent, &received, 1000).await;
        let why = "a reply without a whole header".to_owned();
        assert_eq!(events[8..], [HistoryEvent::Unreadable { from: Side::Server, why }, HistoryEvent::Ended]);

        let events = recorded(b"\xff\xff\xff\xffwhat", b"", 1000).await;
        assert!(matches!(&events[1], HistoryEvent::Unreadable { from: Side::Client, .. }), "{events:?}");
    }

    #[tokio::test]
    async fn a_request_is_recorded_when_its_last_byte_is_accepted() {
        let history = History::new();
        let mut sent = connect_request();
        get_data().encode_frame(Xid(1), &mut sent);
        let (client, mut server) = duplex(sent.len() - 1);
        let mut tap = Tap::new(client).recording(&history);
        let accepted = tap.write(&sent).await.expect("a write");
        assert_eq!((accepted, tap.counts().written()), (sent.len() - 1, sent.len() as u64 - 1));
        assert_eq!(history.entries().len(), 2, "the request is not whole");
        server.read_exact(&mut vec![0; accepted]).await.expect("the accepted bytes");
        tap.write_all(&sent[accepted..]).await.expect("a write");
        assert!(matches!(history.entries()[2].event, HistoryEvent::Request(_)));
    }
}
