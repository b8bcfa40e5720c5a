//! A connection: one task with two loops, one that reads and one that writes. When either ends, both do.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tracing::Instrument;
use zoolet_core::Input;
use zoolet_proto::frame::{self, FourLetterWord};
use zoolet_proto::records::ConnectRequest;
use zoolet_proto::{Incoming, jute};

use crate::net::outbox::Next;
use crate::net::registry::Member;
use crate::server::Shared;

/// How many requests go to the driver at once. Between two such batches the outbox is looked at, so this bounds what
/// one connection can have asked for and not read.
const BATCH: usize = 32;

/// Sizes of a read buffer: what an idle connection keeps, and what a busy one reads at once.
const MIN_READ: usize = 1 << 10;
const MAX_READ: usize = 64 << 10;

/// How long a closing connection may take to send what is left, and then to close its end.
const LINGER: Duration = Duration::from_secs(2);

/// Why the read loop has ended.
#[derive(Debug)]
enum End {
    /// The peer has closed, or broken the protocol beyond repair.
    Close,
    /// The peer has sent a four-letter word instead of a connect request.
    Word(FourLetterWord),
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
    pub(crate) async fn run(self, stream: impl AsyncRead + AsyncWrite + Send) {
        let span = self.member.peer.span.clone();
        self.serve(stream).instrument(span).await;
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Send) {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let open = Input::Open { peer: self.member.peer.addr.ip() };
        self.send(vec![open]).await;
        let end = tokio::select! {
            biased;
            outcome = self.write_loop(&mut writer) => {
                if let Err(error) = outcome {
                    tracing::debug!(%error, "cannot write");
                }
                None
            }
            end = self.read_loop(&mut reader) => Some(end),
        };
        match end {
            Some(Ok(End::Word(word))) => self.answer(word, &mut writer).await,
            Some(Ok(End::Close)) => {}
            Some(Err(error)) => tracing::debug!(%error, "cannot read"),
            None => linger(&mut reader, &mut writer).await,
        }
        self.send(vec![Input::Closed]).await;
    }

    async fn read_loop(&self, reader: &mut ReadHalf<impl AsyncRead>) -> io::Result<End> {
        let mut buffer = BytesMut::new();
        let mut room = MIN_READ;
        let mut attached = false;
        loop {
            loop {
                let inputs = match self.take(&mut buffer, &mut attached) {
                    Ok(inputs) => inputs,
                    Err(Taken { before, end }) => {
                        self.send(before).await;
                        return Ok(end);
                    }
                };
                if inputs.is_empty() {
                    break;
                }
                self.send(inputs).await;
                self.member.peer.outbox.room().await;
            }
            // A buffer grows with what arrives, never with what a length promises.
            if buffer.is_empty() && buffer.capacity() > MAX_READ {
                buffer = BytesMut::new();
                room = MIN_READ;
            }
            buffer.reserve(room);
            let spare = buffer.capacity() - buffer.len();
            let got = reader.read_buf(&mut buffer).await?;
            if got == 0 {
                return Ok(End::Close);
            }
            self.shared.stats.bytes_received.fetch_add(got as u64, Relaxed);
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
                    return Err(Taken { before: inputs, end: End::Word(word) });
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

    async fn send(&self, inputs: Vec<Input>) {
        let received =
            inputs.iter().filter(|input| matches!(input, Input::Connect(_) | Input::Request(_))).count();
        if received > 0 {
            self.member.peer.outbox.with_stats(|stats| stats.received += received as u64);
            let requests = inputs.iter().filter(|input| matches!(input, Input::Request(_))).count();
            self.shared.stats.received.fetch_add(requests as u64, Relaxed);
        }
        if !inputs.is_empty() {
            self.shared.inbox.send(self.member.id, self.shared.clock.now(), inputs).await;
        }
    }

    async fn write_loop(&self, writer: &mut WriteHalf<impl AsyncWrite>) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        loop {
            match self.member.peer.outbox.next(&mut bytes).await {
                Next::Send => writer.write_all(&bytes).await?,
                Next::Finish | Next::Abort => return Ok(()),
            }
        }
    }

    async fn answer(&self, word: FourLetterWord, writer: &mut WriteHalf<impl AsyncWrite>) {
        let text = self.shared.answer(word).await;
        let sending = async {
            writer.write_all(text.as_bytes()).await?;
            writer.shutdown().await
        };
        if let Ok(Err(error)) = tokio::time::timeout(LINGER, sending).await {
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
/// the peer may lose what it has not read either.
async fn linger(reader: &mut ReadHalf<impl AsyncRead>, writer: &mut WriteHalf<impl AsyncWrite>) {
    let closing = async {
        writer.shutdown().await?;
        let mut rest = [0; 512];
        while reader.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = tokio::time::timeout(LINGER, closing).await;
}
