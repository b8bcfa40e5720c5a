//! The limit of the machine: a bare tokio server without state. It answers each request at once with a frame as long as the
//! real reply, and each watch with an event. With a journal it writes and syncs changes first.

use std::collections::HashMap;
use std::hint;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, BytesMut};
use clap::ValueEnum;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::runtime::{Builder, Runtime};
use zoolet_proto::frame::{self, PREFIX};
use zoolet_proto::records::{ConnectResponse, PASSWORD_LEN};
use zoolet_proto::{OpCode, SessionId};

use crate::exchange::DATA_LEN;
use crate::journal::Journal;
use crate::wire::HEADER;

const STAT: usize = 68;
const READ_AHEAD: usize = 16 * 1024;
/// The xid of an event.
const EVENT: [u8; 4] = [0xff; 4];
static ZEROS: [u8; 512] = [0; 512];

/// The kind of tokio runtime a server runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Flavor {
    /// One thread.
    CurrentThread,
    /// A worker thread per core.
    MultiThread,
}

impl Flavor {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CurrentThread => "current_thread",
            Self::MultiThread => "multi_thread",
        }
    }

    fn runtime(self) -> io::Result<Runtime> {
        match self {
            Self::CurrentThread => Builder::new_current_thread().enable_all().build(),
            Self::MultiThread => Builder::new_multi_thread().enable_all().build(),
        }
    }
}

/// Serves until the process is killed. With a `journal`, changes are written to this file and synced before they are answered;
/// `on_thread` is whether a thread of its own does that. Each change takes so much `work` of the thread that serves.
pub(crate) fn run(
    flavor: Flavor,
    port: u16,
    journal: Option<&Path>,
    on_thread: bool,
    work: Duration,
) -> io::Result<()> {
    let journal = journal.map(|path| Journal::create(path, on_thread)).transpose()?;
    flavor.runtime()?.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let watches = Watches::default();
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let (read, write) = stream.into_split();
            let connection = Connection {
                write: Arc::new(write),
                watches: watches.clone(),
                outbox: BytesMut::new(),
                journal: journal.clone(),
                changes: Vec::new(),
                work,
                events: Vec::new(),
            };
            // An error means that the client disconnected.
            tokio::spawn(async move { drop(connection.serve(read).await) });
        }
    })
}

/// The watchers of each path: the only state of the echo server, as it could send no event without it.
type Watches = Arc<Mutex<HashMap<Vec<u8>, Vec<Arc<OwnedWriteHalf>>>>>;

struct Connection {
    write: Arc<OwnedWriteHalf>,
    watches: Watches,
    outbox: BytesMut,
    /// Where changes are written before they are answered, and those of one read.
    journal: Option<Journal>,
    changes: Vec<u8>,
    /// The work of a change.
    work: Duration,
    /// Events for other connections, sent together with the replies to one read.
    events: Vec<(Arc<OwnedWriteHalf>, BytesMut)>,
}

impl Connection {
    async fn serve(mut self, mut read: OwnedReadHalf) -> io::Result<()> {
        let mut inbox = BytesMut::new();
        let mut connected = false;
        let mut closing = false;
        while !closing {
            inbox.reserve(READ_AHEAD);
            if read.read_buf(&mut inbox).await? == 0 {
                return Ok(());
            }
            while let Some(frame) =
                frame::split(&inbox, frame::DEFAULT_MAX_FRAME).map_err(io::Error::other)?
            {
                if connected {
                    closing |= self.answer(frame);
                } else {
                    put_session(&mut self.outbox);
                    connected = true;
                }
                let len = frame.len();
                inbox.advance(PREFIX + len);
            }
            if let Some(journal) = &self.journal {
                journal.append(&self.changes).await?;
                self.changes.clear();
            }
            self.flush().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        for (write, events) in self.events.drain(..) {
            // They fit: the send buffer of a connection that waits for events is almost empty. If it is closed, ignore it.
            drop(write.try_write(&events));
        }
        while !self.outbox.is_empty() {
            match self.write.try_write(&self.outbox) {
                Ok(written) => self.outbox.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.write.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Handles a request and appends its reply; returns whether it was the last.
    fn answer(&mut self, frame: &[u8]) -> bool {
        let (Some((xid, rest)), Some(op)) = (frame.split_first_chunk::<4>(), int(frame, 4)) else {
            return true;
        };
        // All records used here begin with a path.
        let len = int(rest, 4).and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
        let (path, rest) = rest.get(8..).and_then(|record| record.split_at_checked(len)).unwrap_or_default();
        let op = OpCode::from_code(op);
        let body = match op {
            Some(OpCode::GetData) => {
                if rest.first() == Some(&1) {
                    self.watch(path);
                }
                4 + DATA_LEN + STAT
            }
            Some(OpCode::SetData) => {
                self.tell(path);
                STAT
            }
            Some(OpCode::Create) => 4 + path.len(),
            _ => 0,
        };
        if !matches!(op, Some(OpCode::GetData | OpCode::Ping)) {
            spend(self.work);
            if self.journal.is_some() {
                self.changes.extend_from_slice(frame);
            }
        }
        put_frame(*xid, HEADER + body, &mut self.outbox);
        op == Some(OpCode::CloseSession)
    }

    fn watch(&self, path: &[u8]) {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.entry(path.to_vec()).or_default().push(Arc::clone(&self.write));
    }

    /// Appends an event for each watcher of the path, and removes the watchers.
    fn tell(&mut self, path: &[u8]) {
        let told = {
            let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
            if watches.is_empty() { None } else { watches.remove(path) }
        };
        for write in told.into_iter().flatten() {
            // Type, state and path follow the header.
            let len = HEADER + 12 + path.len();
            if Arc::ptr_eq(&write, &self.write) {
                put_frame(EVENT, len, &mut self.outbox);
            } else if let Some((_, events)) = self.events.last_mut().filter(|(to, _)| Arc::ptr_eq(to, &write))
            {
                put_frame(EVENT, len, events);
            } else {
                let mut events = BytesMut::new();
                put_frame(EVENT, len, &mut events);
                self.events.push((write, events));
            }
        }
    }
}

/// Keeps the processor busy.
fn spend(work: Duration) {
    if work.is_zero() {
        return;
    }
    let begun = Instant::now();
    while begun.elapsed() < work {
        hint::spin_loop();
    }
}

/// Appends a frame with an xid and zeros.
fn put_frame(xid: [u8; 4], len: usize, out: &mut BytesMut) {
    let len = len.min(ZEROS.len());
    out.reserve(PREFIX + len);
    out.put_u32(len as u32);
    out.put_slice(&xid);
    out.put_slice(&ZEROS[..len - xid.len()]);
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
}

fn put_session(out: &mut BytesMut) {
    let response = ConnectResponse {
        protocol_version: 0,
        timeout: 30_000,
        session: SessionId(1),
        password: bytes::Bytes::from_static(&[0; PASSWORD_LEN]),
        read_only: Some(false),
    };
    response.encode_frame(out);
}
