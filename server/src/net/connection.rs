//! A connection: one task with two loops, one that reads and one that writes. When either ends, both end.

use std::fmt;
use std::future::{pending, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use smallvec::smallvec;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::task::coop::consume_budget;
use tokio::task::yield_now;
use tokio::time::timeout;
use tracing::Instrument;
use zoolet_proto::{FourLetterWord, Incoming, Zxid, frame, jute};
use zoolet_server_core::Input;

use crate::engine::Batch;
use crate::net::close::linger;
use crate::net::flow::budget::Charge;
use crate::net::flow::buffer::{SendBuffer, is_little};
use crate::net::flow::limits::{
    BACK_PRESSURE_TIMEOUT, BATCH, KEEP, LINGER, MAX_HELD_REPLIES, MAX_READ, MIN_READ,
};
use crate::net::flow::outbox::{Next, Outbox};
use crate::net::registry::{Peer, Registration};
use crate::net::stream::{Half, Transport, send_all};
use crate::shared::Shared;

/// How a request of HTTP begins.
const HTTP_METHODS: [&[u8]; 6] = [b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI"];

/// Why a connection is closed, for the log: by its client, or by the server that stops or an embedding program that cuts it.
const LEFT: &str = "closed by its client";
const RESET: &str = "reset by its client";
const STOPPED: &str = "cut off";

/// Why the loops of a connection have ended.
#[derive(Debug)]
enum CloseReason {
    /// The peer has closed, or has broken the protocol beyond repair, or is cut off: which of them, for the log.
    Close(&'static str),
    /// Everything is sent that the server had to send. If the peer asked for the end, it sends nothing more.
    Flushed { asked: bool },
    /// The peer has sent a four-letter word instead of a connect request, and these bytes after it.
    Word(FourLetterWord, BytesMut),
}

pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) registration: Registration,
}

impl Connection {
    /// Serves the connection to its end.
    pub(crate) async fn run(self, stream: impl Transport) {
        let span = self.registration.peer.span.clone();
        self.serve(stream).instrument(span).await;
    }

    async fn serve(self, stream: impl Transport) {
        let stream = Mutex::new(stream);
        let (mut reader, mut writer) = (Half(&stream), Half(&stream));
        let peer = &self.registration.peer;
        let open = Input::Open(peer.origin());
        self.shared.turns.submit(&self.registration, &mut smallvec![open]).await;
        let reason = caught(pin!(self.run_loops(&mut reader, &mut writer))).await;
        // Turns may still push to it, and nothing would empty it any more.
        self.registration.peer.outbox.abort();
        if self.registration.peer.outbox.has_overflowed() {
            self.shared.stats.overflowed.fetch_add(1, Relaxed);
            if let Some(count) = self.shared.overflowed.count(self.shared.clock.now()) {
                tracing::warn!(count, "too much waits to be sent; closing the connection");
            }
        }
        // Also after a panic: the session must not keep a connection that is gone.
        self.shared.turns.submit(&self.registration, &mut smallvec![Input::Closed]).await;
        let reason = reason.unwrap_or_else(|panic| resume_unwind(panic));
        self.log_closed(&reason);
        let close = pin!(async {
            let asked = match reason {
                CloseReason::Close(_) => return,
                CloseReason::Flushed { asked } => asked,
                CloseReason::Word(word, rest) => {
                    if !self.answer(word, &rest, &mut reader, &mut writer).await {
                        return;
                    }
                    false
                }
            };
            let _ = timeout(LINGER, linger(&mut reader, &mut writer, asked)).await;
        });
        // A server that stops waits for no peer.
        self.shared.stop.run_until_cancelled(close).await;
    }

    /// Reads and writes until either ends.
    async fn run_loops<S: Transport>(
        &self,
        reader: &mut Half<'_, S>,
        writer: &mut Half<'_, S>,
    ) -> CloseReason {
        let outbox = &self.registration.peer.outbox;
        let mut reading = pin!(self.read_loop(reader));
        // The block drops the write loop, which has ended: what follows can use its memory.
        let error = {
            let mut writing = pin!(self.write_loop(writer));
            match poll_fn(|cx| outbox.poll_loops(cx, writing.as_mut(), reading.as_mut())).await {
                Ok(reason) => return reason,
                Err(error) => error,
            }
        };
        tracing::debug!(%error, "cannot write");
        // Replies cannot be sent any more. The outbox drops them, so that the read loop does not wait for that: the requests that the
        // peer has sent are still executed.
        outbox.abort();
        let mut nothing = pin!(pending());
        let reading = poll_fn(|cx| outbox.poll_loops(cx, nothing.as_mut(), reading.as_mut()));
        self.shared.stop.run_until_cancelled(pin!(timeout(LINGER, reading))).await;
        CloseReason::Close(lost(&error))
    }

    async fn read_loop(&self, reader: &mut (impl AsyncRead + Unpin)) -> CloseReason {
        let reason = self.read_requests(reader).await;
        // A peer that sends nothing more still gets what waits for the log. What its stream does not take at once is lost; an Apache
        // server sends nothing any more.
        self.registration.peer.outbox.held_at_most(0).await;
        reason
    }

    /// Submits what the peer sends, until it ends its side or sends what no client may.
    async fn read_requests(&self, reader: &mut (impl AsyncRead + Unpin)) -> CloseReason {
        let outbox = &self.registration.peer.outbox;
        let mut buffer = BytesMut::new();
        let mut room = MIN_READ;
        let mut attached = false;
        let mut inputs = Batch::new();
        let mut back_pressure = BackPressure::default();
        loop {
            // All whole frames in the buffer, a batch at a time.
            loop {
                let (parsed, reason) = self.parse(&mut buffer, &mut attached, &mut inputs);
                // A reason to close waits until the frames before it are executed; then it is found once more.
                if inputs.is_empty() {
                    match reason {
                        Some(reason) => return reason,
                        None => break,
                    }
                }
                let submitted = inputs.len();
                if !self.shared.turns.submit(&self.registration, &mut inputs).await {
                    return CloseReason::Close(STOPPED);
                }
                // Their frames stay in the buffer until they are processed: what a full turn did not reach is parsed again.
                match outbox.ready_for_requests().await {
                    0 => buffer.advance(parsed),
                    unprocessed => skip_frames(&mut buffer, submitted - unprocessed),
                }
                // A connection that cannot be written to is always ready, and its stream may never be pending: nothing else in this
                // loop would yield then.
                consume_budget().await;
                // Another client waits for one batch, not for as many as the loops take in a row.
                if submitted == BATCH {
                    yield_now().await;
                }
                // Last, when other tasks may have released messages already.
                back_pressure.wait_for_log(outbox, submitted).await;
            }
            // A buffer grows with what arrives, not with the length that a frame announces. An empty one is let go while the
            // peer sends nothing.
            if buffer.is_empty() && buffer.capacity() > room.max(KEEP) {
                buffer = BytesMut::new();
            }
            buffer.reserve(room);
            let spare = buffer.capacity() - buffer.len();
            let got = match reader.read_buf(&mut buffer).await {
                Ok(0) => {
                    self.shared.stats.dropped.fetch_add(1, Relaxed);
                    return CloseReason::Close(LEFT);
                }
                Ok(got) => got,
                Err(error) => {
                    self.shared.stats.dropped.fetch_add(1, Relaxed);
                    tracing::debug!(%error, "cannot read");
                    return CloseReason::Close(lost(&error));
                }
            };
            self.shared.stats.bytes_received.fetch_add(got as u64, Relaxed);
            if got == spare {
                room = (room * 2).min(MAX_READ);
            } else if is_little(got, room) {
                room = (room / 2).max(MIN_READ);
            }
        }
    }

    /// Parses whole frames at the front of the buffer, up to a batch of them. Returns how many bytes these are, and why the
    /// connection is to close after them, if it is.
    fn parse(
        &self,
        buffer: &mut BytesMut,
        attached: &mut bool,
        inputs: &mut Batch,
    ) -> (usize, Option<CloseReason>) {
        let limit = self.shared.net.max_frame;
        let mut parsed = 0;
        while inputs.len() < BATCH {
            if !*attached {
                if let Some(word) = buffer.first_chunk().and_then(|first| FourLetterWord::from_bytes(*first))
                {
                    let rest = buffer.split_off(frame::PREFIX);
                    return (0, Some(CloseReason::Word(word, rest)));
                }
            }
            let frame = match frame::split(&buffer[parsed..], limit) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    self.log_foreign(&error, buffer, *attached);
                    return (parsed, Some(CloseReason::Close("a frame of an illegal length")));
                }
            };
            let len = frame.len();
            if inputs.len() == inputs.capacity() {
                // Assumes that the frames after this one are as long.
                let more = (buffer.len() - parsed) / (frame::PREFIX + len);
                inputs.reserve_exact(more.min(BATCH - inputs.len()));
            }
            let is_whole = if *attached {
                Incoming::parse(frame).map(|request| inputs.push(Input::Request(request))).is_some()
            } else {
                jute::parse(frame).map(|request| inputs.push(Input::Connect(request))).is_ok()
            };
            if !is_whole {
                tracing::debug!(len, "a frame without a whole header");
                return (parsed, Some(CloseReason::Close("a frame without a whole header")));
            }
            *attached = true;
            parsed += frame::PREFIX + len;
        }
        (parsed, None)
    }

    /// Logs the end of a connection: who it was, and why.
    fn log_closed(&self, reason: &CloseReason) {
        let Peer { addr: peer, outbox, .. } = &*self.registration.peer;
        let session = self.registration.peer.session();
        // What the server has decided comes first: its client may have seen it, and closed in turn.
        let reason = match (outbox.close_reason(), reason) {
            (Some(reason), _) => reason,
            (None, CloseReason::Close(reason)) => reason,
            (None, CloseReason::Flushed { .. }) => STOPPED,
            // Asked every few seconds by whatever watches the server.
            (None, CloseReason::Word(word, _)) => {
                return tracing::debug!(%peer, word = word.name(), "four-letter word");
            }
        };
        // A probe of the port, just as often.
        if [LEFT, RESET].contains(&reason) && self.registration.peer.state.received.load(Relaxed) == 0 {
            return tracing::debug!(%peer, reason, "connection closed before it was used");
        }
        if let Some(count) = self.shared.closed.count(self.shared.clock.now()) {
            let (conn, session) = (self.registration.id, session.map(tracing::field::display));
            let unlogged = Some(count - 1).filter(|unlogged| *unlogged > 0);
            tracing::info!(%peer, session, %conn, reason, unlogged, "connection closed");
        }
    }

    /// Logs a frame that is too long, which is how the first bytes of other protocols read.
    fn log_foreign(&self, error: &dyn fmt::Display, begin: &[u8], attached: bool) {
        tracing::debug!(%error, "closing the connection");
        let protocol = match begin {
            _ if attached => return,
            [0x16, 3, ..] => "TLS",
            _ if HTTP_METHODS.iter().any(|method| begin.starts_with(method)) => "HTTP",
            _ => return,
        };
        self.shared.stats.foreign.fetch_add(1, Relaxed);
        if let Some(count) = self.shared.foreign.count(self.shared.clock.now()) {
            let peer = self.registration.peer.addr.ip();
            tracing::warn!(%peer, protocol, count, "a client speaks another protocol than ZooKeeper's; closing the connection");
        }
    }

    async fn write_loop<S: Transport>(&self, writer: &mut Half<'_, S>) -> io::Result<CloseReason> {
        let outbox = &self.registration.peer.outbox;
        let mut bytes = SendBuffer::default();
        loop {
            match outbox.next(&mut bytes).await {
                Next::Send => {}
                Next::SendLast => writer.with(Transport::cork),
                Next::Finish { asked } => return Ok(CloseReason::Flushed { asked }),
                Next::Abort => return Ok(CloseReason::Close(STOPPED)),
            }
            let stream = Half(writer.0);
            let progress = || self.registration.peer.state.progress.store(self.shared.now().0, Relaxed);
            if !send_all(writer, &mut bytes, &self.shared.bulk, || self.overdue(&stream), progress).await? {
                return Ok(CloseReason::Close("its client does not read"));
            }
        }
    }

    /// Waits until writing is given up: the connection is closing, and its peer does not read.
    async fn overdue(&self, stream: &Half<'_, impl Transport>) {
        let outbox = &self.registration.peer.outbox;
        outbox.closing().await;
        // The peer has as long again if the stream itself delays the writing, as a fault of a test makes it do.
        while timeout(LINGER, outbox.aborted()).await.is_err() && stream.with(Transport::is_delaying) {}
    }

    /// Answers a four-letter word; false if the peer does not take it, or does not send what belongs to the word.
    async fn answer(
        &self,
        word: FourLetterWord,
        rest: &[u8],
        reader: &mut (impl AsyncRead + Unpin + Send),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> bool {
        let mut rest = AsyncReadExt::chain(rest, reader);
        let answer = self.shared.answer(&self.registration.peer, word, &mut rest);
        let text = match word {
            // What belongs to the word may never come.
            FourLetterWord::Stmk => timeout(LINGER, answer).await.ok(),
            _ => Some(answer.await),
        };
        let Some(text) = text else { return false };
        // As if it were queued: if all clients together leave too much untaken, one that has much to take is not waited for.
        let budget = &self.shared.registry.budget;
        let (mut charge, is_large) = (Charge::new(budget), text.len() > budget.mark());
        charge.set(text.len());
        let wait = || tokio::time::sleep(if is_large && budget.is_spent() { Duration::ZERO } else { LINGER });
        let mut bytes = SendBuffer::default();
        bytes.share(&text.into());
        match send_all(writer, &mut bytes, &self.shared.bulk, wait, || {}).await {
            Ok(sent) => sent,
            Err(error) => {
                tracing::debug!(word = word.name(), %error, "cannot answer");
                false
            }
        }
    }
}

/// Keeps a connection from being read while many of its messages wait for the log: the latency of other clients grows with what
/// one client has in flight.
#[derive(Default)]
struct BackPressure {
    /// Requests that were submitted since the last look, which takes a lock.
    submitted: usize,
    /// The transaction whose sync was slow. Throughput needs many transactions per sync then, so that the next look does not
    /// wait for it.
    slow: Option<Zxid>,
}

impl BackPressure {
    /// Waits while more than [`MAX_HELD_REPLIES`] messages wait for the log, but not for a slow sync.
    async fn wait_for_log(&mut self, outbox: &Outbox, submitted: usize) {
        self.submitted += submitted;
        if self.submitted < BATCH {
            return;
        }
        self.submitted = 0;
        let Some(first) = outbox.first_held_beyond(MAX_HELD_REPLIES) else { return };
        if self.slow != Some(first) {
            // Boxed to keep idle connections small.
            let few = Box::pin(timeout(BACK_PRESSURE_TIMEOUT, outbox.held_at_most(MAX_HELD_REPLIES)));
            self.slow = few.await.err().map(|_| first);
        }
    }
}

/// Why a connection is lost, in the words of the log.
fn lost(error: &io::Error) -> &'static str {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut};
    match error.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset => RESET,
        TimedOut => "its client is not reachable",
        _ => "its stream has failed",
    }
}

/// Removes whole frames from the front of a buffer.
fn skip_frames(buffer: &mut BytesMut, frames: usize) {
    for _ in 0..frames {
        if let Ok(Some(frame)) = frame::split(buffer, usize::MAX) {
            let len = frame.len();
            buffer.advance(frame::PREFIX + len);
        }
    }
}

/// The output of a future, or the payload of its panic: a stream that was handed in may have bugs.
///
/// The caller pins the future: a function that holds a future and moves it reserves memory for two.
async fn caught<T>(mut future: Pin<&mut impl Future<Output = T>>) -> std::thread::Result<T> {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
