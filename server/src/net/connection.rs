//! A connection: one task with two loops, one that reads and one that writes. When either ends, both do.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf};
use tracing::Instrument;
use zoolet_core::Input;
use zoolet_proto::frame::{self, FourLetterWord};
use zoolet_proto::records::ConnectRequest;
use zoolet_proto::{Incoming, jute};

use crate::net::outbox::{Drip, Next};
use crate::net::registry::Member;
use crate::server::Shared;

/// How many requests go to the driver at once. The next such batch goes when the replies of this one are in the outbox
/// and there is room in that: this bounds what one connection can have asked for and not read, and is its fair turn.
const BATCH: usize = 32;

/// Sizes of a read buffer: what an idle connection keeps, and what a busy one reads at once.
const MIN_READ: usize = 1 << 10;
const MAX_READ: usize = 64 << 10;

/// How long a closing connection may take to send what is left, and then as long again to close its end.
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
        reset: impl FnOnce(&S),
    ) {
        let span = self.member.peer.span.clone();
        self.serve(stream, reset).instrument(span).await;
    }

    async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin>(self, stream: S, reset: impl FnOnce(&S)) {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let open = Input::Open { peer: self.member.peer.addr.ip() };
        self.send(vec![open]).await;
        let end = self.talk(&mut reader, &mut writer).await;
        self.member.peer.traffic.all_taken();
        self.send(vec![Input::Closed]).await;
        let farewell = async {
            match end {
                End::Close => return,
                End::Flushed { asked } => return linger(&mut reader, &mut writer, asked).await,
                End::Word(word, behind) => self.answer(word, &behind, &mut reader, &mut writer).await,
            }
            linger(&mut reader, &mut writer, false).await;
        };
        // A server that stops waits for no peer.
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => {}
            _ = tokio::time::timeout(LINGER, farewell) => {}
        }
        if self.member.peer.outbox.is_reset() {
            reset(&reader.unsplit(writer));
        }
    }

    /// Reads and writes until either is over.
    async fn talk(
        &self,
        reader: &mut ReadHalf<impl AsyncRead>,
        writer: &mut WriteHalf<impl AsyncWrite>,
    ) -> End {
        let mut reading = std::pin::pin!(self.read_loop(reader));
        tokio::select! {
            biased;
            outcome = self.write_loop(writer) => match outcome {
                Ok(end) => return end,
                Err(error) => tracing::debug!(%error, "cannot write"),
            },
            end = &mut reading => return end,
        }
        // Nothing can be answered any more, but what the peer has sent is still to be done.
        self.member.peer.outbox.kill();
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => {}
            _ = tokio::time::timeout(LINGER, reading) => {}
        }
        End::Close
    }

    async fn read_loop(&self, reader: &mut ReadHalf<impl AsyncRead>) -> End {
        let mut buffer = BytesMut::new();
        let mut room = MIN_READ;
        let mut attached = false;
        let traffic = &self.member.peer.traffic;
        loop {
            loop {
                let inputs = match self.take(&mut buffer, &mut attached) {
                    Ok(inputs) => inputs,
                    Err(Taken { before, end }) => {
                        self.send(before).await;
                        return end;
                    }
                };
                if inputs.is_empty() {
                    break;
                }
                if !self.send(inputs).await {
                    return End::Close;
                }
                self.member.peer.outbox.room().await;
            }
            // A buffer grows with what arrives, never with what a length promises.
            traffic.all_taken();
            if buffer.is_empty() && buffer.capacity() > MAX_READ {
                buffer = BytesMut::new();
                room = MIN_READ;
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
            }
        }
    }

    /// Takes whole frames off the front of the buffer, up to a batch of them.
    fn take(&self, buffer: &mut BytesMut, attached: &mut bool) -> Result<Vec<Input>, Taken> {
        let mut inputs = Vec::new();
        let limit = self.shared.net.max_frame;
        while inputs.len() < BATCH {
            if !*attached {
                if let Some(word) = buffer.first_chunk().and_then(|first| FourLetterWord::from_bytes(*first))
                {
                    let behind = buffer.split_off(frame::PREFIX);
                    return Err(Taken { before: inputs, end: End::Word(word, behind) });
                }
            }
            let frame = match frame::split(buffer, limit) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!(%error, "closing the connection");
                    return Err(Taken { before: inputs, end: End::Close });
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
                return Err(Taken { before: inputs, end: End::Close });
            };
            *attached = true;
            inputs.push(input);
            buffer.advance(frame::PREFIX + len);
        }
        Ok(inputs)
    }

    /// Sends inputs to the driver; false if there is none any more.
    async fn send(&self, inputs: Vec<Input>) -> bool {
        if inputs.is_empty() {
            return true;
        }
        let frames =
            inputs.iter().filter(|input| matches!(input, Input::Connect(_) | Input::Request(_))).count();
        if frames > 0 {
            self.member.peer.outbox.asked(frames);
            self.shared.stats.received.fetch_add(frames as u64, Relaxed);
        }
        self.shared.inbox.send(self.member.id, self.shared.now(), inputs).await
    }

    async fn write_loop(&self, writer: &mut WriteHalf<impl AsyncWrite>) -> io::Result<End> {
        let outbox = &self.member.peer.outbox;
        let mut bytes = BytesMut::new();
        loop {
            let drip = match outbox.next(&mut bytes).await {
                Next::Send(drip) => drip,
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
        writer: &mut WriteHalf<impl AsyncWrite>,
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
    async fn write(&self, writer: &mut WriteHalf<impl AsyncWrite>, bytes: &[u8]) -> io::Result<bool> {
        if bytes.is_empty() {
            return Ok(true);
        }
        let writing = async {
            writer.write_all(bytes).await?;
            // Streams that were handed in may buffer what is written.
            writer.flush().await
        };
        tokio::select! {
            biased;
            written = writing => written?,
            () = self.overdue() => return Ok(false),
        }
        self.member.peer.traffic.written.fetch_add(bytes.len() as u64, Release);
        Ok(true)
    }

    /// Waits until sending is to be given up: the connection is to close, and its peer does not read.
    async fn overdue(&self) {
        self.member.peer.outbox.closing().await;
        let _ = tokio::time::timeout(LINGER, self.member.peer.outbox.dead()).await;
    }

    async fn answer(
        &self,
        word: FourLetterWord,
        behind: &[u8],
        reader: &mut ReadHalf<impl AsyncRead>,
        writer: &mut WriteHalf<impl AsyncWrite>,
    ) {
        let behind = AsyncReadExt::chain(behind, reader);
        let text = self.shared.answer(&self.member.peer, word, behind).await;
        if let Err(error) = writer.write_all(text.as_bytes()).await {
            tracing::debug!(word = word.name(), %error, "cannot answer");
        }
    }
}

/// What was taken before the end of a connection, and the end.
struct Taken {
    before: Vec<Input>,
    end: End,
}

/// Closes so that the peer gets what was sent: a socket that is closed with bytes unread resets the connection, and
/// the peer may lose what it has not read either. One that asked for the end is not waited for, unless it sends on.
async fn linger(reader: &mut ReadHalf<impl AsyncRead>, writer: &mut WriteHalf<impl AsyncWrite>, asked: bool) {
    if writer.shutdown().await.is_err() || (asked && is_quiet(reader).await) {
        return;
    }
    let mut rest = [0; 512];
    while reader.read(&mut rest).await.is_ok_and(|got| got > 0) {}
}

/// Whether nothing has arrived that was not read.
async fn is_quiet(reader: &mut ReadHalf<impl AsyncRead>) -> bool {
    let mut rest = [0; 1];
    let mut rest = ReadBuf::new(&mut rest);
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *reader).poll_read(cx, &mut rest).is_pending())).await
}
