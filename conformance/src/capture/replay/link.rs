//! [`Link`]: a connection of a replay.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zoolet_proto::{Request, Xid};

use crate::wire::conversation::{Conversation, Frames, FromServer};
use crate::wire::encoding::{framed, payload};
use crate::wire::fields::{Fields, of_event};

/// A connection to the new server. What comes is taken off at once, so that the server is never kept waiting.
pub(super) struct Link {
    to: OwnedWriteHalf,
    /// Unbounded, as nobody may take anything from it while other connections are waited for.
    came: UnboundedReceiver<Bytes>,
    reading: JoinHandle<()>,
    conversation: Conversation,
    /// How long the server may take to accept something.
    limit: Duration,
    /// The events that nothing was compared with yet.
    pub(super) events: Vec<Fields>,
    /// How many events of the capture were compared.
    pub(super) compared_events: usize,
    /// The captured session that it has.
    pub(super) session: Option<i64>,
}

impl Link {
    pub(super) async fn open(address: &str, limit: Duration) -> std::io::Result<Self> {
        let stream = timeout(limit, TcpStream::connect(address)).await??;
        stream.set_nodelay(true)?;
        let (from, to) = stream.into_split();
        let (sender, came) = unbounded_channel();
        let reading = tokio::spawn(read(from, sender));
        Ok(Self {
            to,
            came,
            reading,
            conversation: Conversation::default(),
            limit,
            events: Vec::new(),
            compared_events: 0,
            session: None,
        })
    }

    /// Sends the payload of a frame. If that fails, reading tells.
    pub(super) async fn send(&mut self, payload: &[u8]) {
        // What does not decode is not a request, and is not answered.
        let _ = self.conversation.from_client(payload);
        self.send_bytes(&framed(payload)).await;
    }

    /// Sends a request, and returns its number.
    pub(super) async fn ask(&mut self, payload: &[u8]) -> usize {
        let number = self.conversation.asked;
        self.send(payload).await;
        number
    }

    pub(super) async fn ping(&mut self) {
        self.send(&payload(|out| Request::Ping.encode_frame(Xid::PING, out))).await;
    }

    pub(super) async fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = timeout(self.limit, self.to.write_all(bytes)).await;
    }

    /// What comes next, or why it cannot be read; none at the end. Events are kept as well. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<Result<FromServer, String>> {
        let payload = self.came.recv().await?;
        let message = self.conversation.from_server(&payload);
        if let Ok(FromServer::Event(zxid, event)) = &message {
            self.events.push(of_event(*zxid, event));
        }
        Some(message)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// Passes on whole payloads, or bytes as they are if they are not frames.
async fn read(mut from: OwnedReadHalf, came: UnboundedSender<Bytes>) {
    let mut frames = Frames::default();
    loop {
        let payload = match frames.receive(&mut from).await {
            Ok(Some(payload)) => payload,
            Ok(None) => return,
            // The answer to a four-letter word. This empties the buffer, so that the next bytes are looked at as new ones.
            Err(_) => frames.take(),
        };
        if came.send(payload).is_err() {
            return;
        }
    }
}
