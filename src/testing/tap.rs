//! [`Tap`]: a client's end of a connection that counts what passes and, when asked to, records it.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::history::History;
use super::recorder::Recorder;

/// The client's end of a connection. It passes on what is written and read, unchanged and at once.
pub struct Tap<S> {
    stream: S,
    counts: Arc<TapCounts>,
    recorder: Option<Recorder>,
}

/// How many bytes have passed through one or several [`Tap`]s.
#[derive(Debug, Default)]
pub struct TapCounts {
    written: AtomicU64,
    read: AtomicU64,
    over: AtomicBool,
}

impl TapCounts {
    /// Bytes written by clients. Raised before they are handed over, so that none is on its way uncounted; bytes that a
    /// full stream then does not take are counted for a moment.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Whether a client has seen the end of its connection, or has dropped it.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Bytes read by clients.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::SeqCst)
    }
}

impl<S> Tap<S> {
    /// A tap on the client's end of a connection that has not been used yet.
    pub fn new(stream: S) -> Self {
        Self { stream, counts: Arc::default(), recorder: None }
    }

    /// Adds to `counts` what passes from now on.
    #[must_use]
    pub fn counting(mut self, counts: &Arc<TapCounts>) -> Self {
        self.counts = Arc::clone(counts);
        self
    }

    /// Records in `history` what passes, as a connection of its own. It must be the whole talk, from the first byte.
    #[must_use]
    pub fn recording(mut self, history: &History) -> Self {
        self.recorder = Some(Recorder::new(history.clone()));
        self
    }

    /// What has passed, readable while the tap is in use elsewhere.
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
        let (room, before) = (buf.remaining(), buf.filled().len());
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        let got = &buf.filled()[before..];
        this.counts.read.fetch_add(got.len() as u64, Ordering::SeqCst);
        if polled.is_ready() && got.is_empty() && room > 0 {
            this.counts.over.store(true, Ordering::SeqCst);
        }
        if let Some(recorder) = &mut this.recorder {
            match polled {
                Poll::Ready(Ok(())) if !got.is_empty() => recorder.received(got),
                Poll::Ready(Ok(())) if room == 0 => {}
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
        let taken = match polled {
            Poll::Ready(Ok(taken)) => taken,
            _ => 0,
        };
        this.counts.written.fetch_sub((buf.len() - taken) as u64, Ordering::SeqCst);
        if let (Some(recorder), Some(began)) = (&mut this.recorder, began) {
            recorder.sent(began, &buf[..taken]);
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

    fn hello() -> BytesMut {
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

    fn welcome() -> BytesMut {
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

    /// A talk of both sides, in bytes.
    fn talk() -> (BytesMut, BytesMut) {
        let (mut asked, mut answered) = (hello(), welcome());
        get_data().encode_frame(Xid(1), &mut asked);
        Request::Ping.encode_frame(Xid(77), &mut asked);
        Reply::Empty.encode_frame(ReplyHeader::error(Xid(1), Zxid(4), ErrorCode::NoNode), &mut answered);
        Reply::Event(event()).encode_frame(ReplyHeader::ok(Xid::EVENT, Zxid(5)), &mut answered);
        Reply::Empty.encode_frame(ReplyHeader::ok(Xid::PING, Zxid(5)), &mut answered);
        (asked, answered)
    }

    /// Lets the talk pass in pieces of so many bytes, and gives what was recorded of it.
    async fn recorded(asked: &[u8], answered: &[u8], piece: usize) -> Vec<HistoryEvent> {
        let history = History::new();
        let (client, mut server) = duplex(1 << 16);
        let mut tap = Tap::new(client).recording(&history);
        for piece in asked.chunks(piece) {
            tap.write_all(piece).await.expect("a write");
        }
        let (mut passed, mut arrived) = (vec![0; asked.len()], Vec::new());
        server.read_exact(&mut passed).await.expect("all of it");
        server.write_all(answered).await.expect("a write");
        drop::<DuplexStream>(server);
        let mut part = vec![0; piece];
        loop {
            match tap.read(&mut part).await.expect("a read") {
                0 => break,
                got => arrived.extend_from_slice(&part[..got]),
            }
        }
        assert_eq!((&passed[..], &arrived[..]), (asked, answered));
        assert_eq!(tap.counts().written(), asked.len() as u64);
        assert_eq!(tap.counts().read(), answered.len() as u64);
        drop(tap);
        let entries = history.entries();
        assert!(entries.windows(2).all(|pair| pair[0].at <= pair[1].at));
        entries.into_iter().map(|entry| entry.what).collect()
    }

    #[tokio::test]
    async fn a_talk_is_recorded_whatever_pieces_it_comes_in() {
        let (asked, answered) = talk();
        let expected = [
            HistoryEvent::Opened,
            HistoryEvent::Hello { session: SessionId(0), last_zxid_seen: Zxid(3) },
            HistoryEvent::Request(Incoming { xid: Xid(1), op: OpCode::GetData.code(), body: Ok(get_data()) }),
            HistoryEvent::Request(Incoming {
                xid: Xid(77),
                op: OpCode::Ping.code(),
                body: Ok(Request::Ping),
            }),
            HistoryEvent::Welcome { session: SessionId(9) },
            HistoryEvent::Reply(ReplyHeader::error(Xid(1), Zxid(4), ErrorCode::NoNode), Ok(Reply::Empty)),
            HistoryEvent::Event(Zxid(5), event()),
            HistoryEvent::Reply(ReplyHeader::ok(Xid::PING, Zxid(5)), Ok(Reply::Empty)),
            HistoryEvent::Ended,
        ];
        for piece in [1, 3, 7, 20, 1000] {
            assert_eq!(recorded(&asked, &answered, piece).await, expected, "in pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn a_four_letter_word_and_its_answer_are_not_recorded() {
        for piece in [1, 1000] {
            assert_eq!(recorded(b"ruok", b"imok", piece).await, [HistoryEvent::Opened, HistoryEvent::Ended]);
        }
    }

    #[tokio::test]
    async fn what_is_no_frame_is_recorded_as_such_and_passes() {
        let (asked, mut answered) = talk();
        answered.extend_from_slice(b"\0\0\0\x03abc and more");
        let what = recorded(&asked, &answered, 1000).await;
        let why = "a reply without a whole header".to_owned();
        assert_eq!(what[8..], [HistoryEvent::Unreadable { from: Side::Server, why }, HistoryEvent::Ended]);

        let what = recorded(b"\xff\xff\xff\xffwhat", b"", 1000).await;
        assert!(matches!(&what[1], HistoryEvent::Unreadable { from: Side::Client, .. }), "{what:?}");
    }

    #[tokio::test]
    async fn a_request_is_recorded_when_its_last_byte_is_taken() {
        let history = History::new();
        let mut asked = hello();
        get_data().encode_frame(Xid(1), &mut asked);
        let (client, mut server) = duplex(asked.len() - 1);
        let mut tap = Tap::new(client).recording(&history);
        let taken = tap.write(&asked).await.expect("a write");
        assert_eq!((taken, tap.counts().written()), (asked.len() - 1, asked.len() as u64 - 1));
        assert_eq!(history.entries().len(), 2, "the request is not whole");
        server.read_exact(&mut vec![0; taken]).await.expect("what was taken");
        tap.write_all(&asked[taken..]).await.expect("a write");
        assert!(matches!(history.entries()[2].what, HistoryEvent::Request(_)));
    }
}
