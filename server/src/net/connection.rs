//! A connection: one task with two loops, one that reads and one that writes. When either ends, both do.

use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use smallvec::smallvec;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::task::coop::consume_budget;
use tracing::Instrument;
use zoolet_proto::records::ConnectRequest;
use zoolet_proto::{FourLetterWord, frame};
use zoolet_proto::{Incoming, jute};
use zoolet_server_core::{Input, Millis};

use crate::net::driver::Batch;
use crate::net::farewell::{linger, send_all};
use crate::net::outbox::{Drip, KEEP, Next, is_little};
use crate::net::registry::Member;
use crate::net::stream::{Ending, Half};
use crate::server::Shared;

/// How many requests go to a turn at once. The next such batch goes when the replies of this one are in the outbox
/// and there is room in that: this bounds what one connection can have asked for and not read, and is its fair turn.
const BATCH: usize = 32;

/// How often a connection writes what there is and reads, before other tasks run. Twice does for one that is asked one thing:
/// it reads, and then it answers and finds nothing more.
const IN_A_ROW: usize = 2;

/// How much a connection reads at once: first, and at most.
const MIN_READ: usize = 1 << 10;
const MAX_READ: usize = 64 << 10;

/// How long the peer of a closing connection may take none of what is left to be sent, and then to close its end.
const LINGER: Duration = Duration::from_secs(2);

/// How the talk with a peer has ended.
#[derive(Debug)]
enum End {
    /// The peer has closed, or broken the protocol beyond repair, or is to be cut off.
    Close,
    /// The server has said its last word, be it because the peer said its own.
    Flushed { asked: bool },
    /// The peer has sent a four-letter word instead of a connect request, and these bytes behind it.
    Word(FourLetterWord, BytesMut),
}

pub(crate) struct Connection {
    shared: Arc<Shared>,
    member: Member,
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>, member: Member) -> Self {
        Self { shared, member }
    }

    /// Serves the connection to its end.
    pub(crate) async fn run<S: AsyncRead + AsyncWrite + Send + Unpin>(
        self,
        stream: S,
        ending: impl Ending<S>,
    ) {
        let span = self.member.peer.span.clone();
        self.serve(stream, ending).instrument(span).await;
    }

    async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin>(self, stream: S, ending: impl Ending<S>) {
        let stream = Mutex::new(stream);
        let (mut reader, mut writer) = Half::both(&stream);
        let open = Input::Open { peer: self.member.peer.addr.ip() };
        self.send(&mut smallvec![open]).await;
        let end = caught(pin!(self.talk(&mut reader, &mut writer, &ending))).await;
        // What waits for room is dealt with as well.
        self.member.peer.outbox.writer_is_gone();
        self.member.peer.traffic.all_taken();
        self.send(&mut smallvec![Input::Closed]).await;
        let end = end.unwrap_or_else(|panic| resume_unwind(panic));
        let farewell = async {
            let asked = match end {
                End::Close => return,
                End::Flushed { asked } => asked,
                End::Word(word, behind) => {
                    if !self.answer(word, &behind, &mut reader, &mut writer).await {
                        return;
                    }
                    false
                }
            };
            let _ = tokio::time::timeout(LINGER, linger(&mut reader, &mut writer, asked)).await;
        };
        // A server that stops waits for no peer.
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => {}
            () = farewell => {}
        }
        if self.member.peer.outbox.is_reset() {
            reader.with(|stream| ending.reset(stream));
        }
    }

    /// Reads and writes until either is over.
    async fn talk<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        reader: &mut Half<'_, S>,
        writer: &mut Half<'_, S>,
        ending: &impl Ending<S>,
    ) -> End {
        let mut reading = pin!(self.read_loop(reader));
        {
            let mut writing = pin!(self.write_loop(writer, ending));
            match poll_fn(|cx| self.poll_loops(cx, reading.as_mut(), writing.as_mut())).await {
                Ok(end) => return end,
                Err(error) => tracing::debug!(%error, "cannot write"),
            }
        }
        // Nothing can be answered any more, but what the peer has sent is still to be done.
        self.member.peer.outbox.writer_is_gone();
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => {}
            _ = tokio::time::timeout(LINGER, reading) => {}
        }
        End::Close
    }

    /// Polls both loops; the end is that of either. The write loop goes first, so that an end that was decided comes before
    /// what there is to read, and again behind whatever was asked for: most often it is answered by then.
    fn poll_loops(
        &self,
        cx: &mut Context<'_>,
        mut reading: Pin<&mut impl Future<Output = End>>,
        mut writing: Pin<&mut impl Future<Output = io::Result<End>>>,
    ) -> Poll<io::Result<End>> {
        for _ in 0..IN_A_ROW {
            if let Poll::Ready(outcome) = writing.as_mut().poll(cx) {
                return Poll::Ready(outcome);
            }
            if let Poll::Ready(end) = reading.as_mut().poll(cx) {
                return Poll::Ready(Ok(end));
            }
            if !self.member.peer.outbox.writer_is_next() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    async fn read_loop(&self, reader: &mut (impl AsyncRead + Unpin)) -> End {
        let mut buffer = BytesMut::new();
        let mut room = MIN_READ;
        let mut attached = false;
        let mut inputs = Batch::new();
        let traffic = &self.member.peer.traffic;
        loop {
            loop {
                let end = self.take(&mut buffer, &mut attached, &mut inputs);
                if let Some(end) = end {
                    self.member.peer.outbox.take_nothing_back();
                    self.send(&mut inputs).await;
                    return end;
                }
                if inputs.is_empty() {
                    break;
                }
                while !inputs.is_empty() {
                    if !self.send(&mut inputs).await {
                        return End::Close;
                    }
                    inputs.extend(self.member.peer.outbox.room().await);
                }
                // Where nothing can be sent there is always room, and a stream need not make anybody wait.
                consume_budget().await;
            }
            // A buffer grows with what arrives, never with what a length promises.
            traffic.all_taken();
            if buffer.is_empty() && buffer.capacity() > room.max(KEEP) {
                buffer = BytesMut::new();
            }
            buffer.reserve(room);
            let spare = buffer.capacity() - buffer.len();
            let got = match reader.read_buf(&mut buffer).await {
                Ok(0) => return End::Close,
                Ok(got) => got,
                Err(error) => {
                    tracing::debug!(%error, "cannot read");
                    return End::Close;
                }
            };
            self.shared.stats.bytes_received.fetch_add(got as u64, Relaxed);
            traffic.read.fetch_add(got as u64, Release);
            if got == spare {
                room = (room * 2).min(MAX_READ);
            } else if is_little(got, room) {
                room = (room / 2).max(MIN_READ);
            }
        }
    }

    /// Takes whole frames off the front of the buffer, up to a batch of them; gives the end, if that is behind them.
    fn take(&self, buffer: &mut BytesMut, attached: &mut bool, inputs: &mut Batch) -> Option<End> {
        let limit = self.shared.net.max_frame;
        while inputs.len() < BATCH {
            if !*attached {
                if let Some(word) = buffer.first_chunk().and_then(|first| FourLetterWord::from_bytes(*first))
                {
                    let behind = buffer.split_off(frame::PREFIX);
                    return Some(End::Word(word, behind));
                }
            }
            let frame = match frame::split(buffer, limit) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "closing the connection");
                    return Some(End::Close);
                }
            };
            let input = if *attached {
                Incoming::parse(frame).map(Input::Request)
            } else {
                jute::parse::<ConnectRequest>(frame).ok().map(Input::Connect)
            };
            let len = frame.len();
            let Some(input) = input else {
                tracing::debug!(len, "a frame without a whole header; closing the connection");
                return Some(End::Close);
            };
            *attached = true;
            buffer.advance(frame::PREFIX + len);
            if inputs.len() == inputs.capacity() {
                // As if all that is still to come were as long as this one.
                let more = buffer.len() / (frame::PREFIX + len);
                inputs.reserve_exact(more.min(BATCH - inputs.len()).max(1));
            }
            inputs.push(input);
        }
        None
    }

    /// Brings the inputs to a turn; false, and they stay, if the server has stopped.
    async fn send(&self, inputs: &mut Batch) -> bool {
        if inputs.is_empty() {
            return true;
        }
        let frames =
            inputs.iter().filter(|input| matches!(input, Input::Connect(_) | Input::Request(_))).count();
        if frames > 0 {
            self.member.peer.outbox.asked(frames);
        }
        if !self.shared.inbox.send(self.member.id, inputs).await {
            return false;
        }
        // Only now is it sure that they will be dealt with: a connection that is closed while it waits for a place takes
        // them along.
        self.shared.stats.received.fetch_add(frames as u64, Relaxed);
        true
    }

    async fn write_loop<S: AsyncWrite + Unpin>(
        &self,
        writer: &mut Half<'_, S>,
        ending: &impl Ending<S>,
    ) -> io::Result<End> {
        let outbox = &self.member.peer.outbox;
        let mut bytes = BytesMut::new();
        loop {
            let drip = match outbox.next(&mut bytes).await {
                Next::Send(drip) => drip,
                Next::SendLast => {
                    writer.with(|stream| ending.hold_back(stream));
                    None
                }
                Next::MakeRoom => {
                    let conn = self.member.id;
                    let turn = self.shared.inbox.act(move |engine, now| engine.made_room(now, conn));
                    if turn.await.is_none() {
                        return Ok(End::Close);
                    }
                    continue;
                }
                Next::Finish { asked } => return Ok(End::Flushed { asked }),
                Next::Abort => return Ok(End::Close),
            };
            let at_once = drip.map_or(bytes.len(), |drip| drip.behind.min(bytes.len()));
            let (at_once, in_pieces) = bytes.split_at(at_once);
            let sent = self.write(writer, at_once).await?
                && match drip {
                    Some(drip) => self.drip(writer, in_pieces, drip).await?,
                    None => true,
                };
            if !sent {
                return Ok(End::Close);
            }
        }
    }

    /// Sends bytes a few at a time; false if it is to be given up.
    async fn drip(
        &self,
        writer: &mut (impl AsyncWrite + Unpin),
        bytes: &[u8],
        Drip { bytes: few, every, .. }: Drip,
    ) -> io::Result<bool> {
        let outbox = &self.member.peer.outbox;
        for piece in bytes.chunks(few) {
            if !self.write(writer, piece).await? {
                return Ok(false);
            }
            let pause = self.shared.clock.sleep(every);
            outbox.set_pausing(true);
            tokio::select! {
                biased;
                () = outbox.dead() => return Ok(false),
                () = pause => {}
            }
            outbox.set_pausing(false);
        }
        Ok(true)
    }

    /// Sends bytes; false if it is to be given up.
    async fn write(&self, writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<bool> {
        if bytes.is_empty() {
            return Ok(true);
        }
        let took = || self.member.peer.traffic.took(Millis(self.shared.clock.unix_millis()));
        if !send_all(writer, bytes, || self.overdue(), took).await? {
            return Ok(false);
        }
        self.member.peer.traffic.written.fetch_add(bytes.len() as u64, Release);
        Ok(true)
    }

    /// Waits until sending is to be given up: the connection is to close, and its peer does not read.
    async fn overdue(&self) {
        self.member.peer.outbox.closing().await;
        let _ = tokio::time::timeout(LINGER, self.member.peer.outbox.dead()).await;
    }

    /// Answers a four-letter word; false if the peer does not take it, or does not send what belongs to the word.
    async fn answer(
        &self,
        word: FourLetterWord,
        behind: &[u8],
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> bool {
        let behind = AsyncReadExt::chain(behind, reader);
        let text = tokio::time::timeout(LINGER, self.shared.answer(&self.member.peer, word, behind)).await;
        let Ok(text) = text else { return false };
        match send_all(writer, text.as_bytes(), || tokio::time::sleep(LINGER), || {}).await {
            Ok(sent) => sent,
            Err(error) => {
                tracing::debug!(word = word.name(), %error, "cannot answer");
                false
            }
        }
    }
}

/// The output of a future, or what it panicked with: a stream that was handed in may have its bugs.
///
/// Pinned outside, as what holds a future and moves it holds room for two.
async fn caught<T>(mut future: Pin<&mut impl Future<Output = T>>) -> std::thread::Result<T> {
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
