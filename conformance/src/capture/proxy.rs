//! [`Capture`]: a proxy that records what passes.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{self, Sender};
use tokio::sync::oneshot;

use super::format::OBSERVER;
use super::observer::Observer;
use super::writer::{self, CaptureEvent, Captured, Seen};
use crate::error::CaptureError;
use crate::history::Side;
use crate::wire::connection::is_local;
use crate::wire::proxy::{Proxy, connect};

/// How many bytes are forwarded at once.
const CHUNK: usize = 64 << 10;
/// How many chunks may wait to be written. Forwarding waits when there are more.
const WAITING: usize = 256;

/// A proxy before a server that records all connections. Bytes are forwarded as they come, and recorded afterwards.
///
/// At most 16 MiB wait to be written, and each connection has up to two frames that are not whole yet.
#[derive(Debug)]
pub struct Capture {
    proxy: Proxy,
    begun: Instant,
    observer: Option<Observer>,
    seen: Sender<Seen>,
    writer: oneshot::Receiver<Result<Captured, CaptureError>>,
    path: PathBuf,
    /// Why a connection was not forwarded, if that is the fault of this side.
    unforwarded: Arc<OnceLock<io::Error>>,
}

impl Capture {
    /// Listens for clients of `server`, both as HOST:PORT, and begins the file, which is replaced if it exists.
    ///
    /// # Errors
    /// If the server is not a ZooKeeper that answers, the address cannot be listened on, or the file cannot be created.
    pub async fn start(listen: &str, server: &str, path: &Path) -> Result<Self, CaptureError> {
        let observer = Observer::start(server).await?;
        let (seen, waiting) = mpsc::channel(WAITING);
        let (begun, unforwarded) = (Instant::now(), Arc::<OnceLock<_>>::default());
        let (server, failed, recorded) = (Arc::<str>::from(server), Arc::clone(&unforwarded), seen.clone());
        let mut number = OBSERVER;
        let serve = move |client| {
            number += 1;
            let recorder = Recorder { number, begun, seen: recorded.clone() };
            let (server, failed) = (Arc::clone(&server), Arc::clone(&failed));
            async move {
                if let Ok(Some(error)) = forward_both(client, &server, recorder).await {
                    _ = failed.set(error);
                }
            }
        };
        // A client that could not be accepted comes again, or is gone already.
        let proxy = Proxy::start(listen, |_| (), serve).await;
        let refused = |source| CaptureError::Listen { address: listen.to_owned(), source };
        let proxy = proxy.map_err(refused)?;
        let file = File::create(path).map_err(|source| CaptureError::write(path, source))?;
        let to = path.to_owned();
        // A thread of its own: while a blocking task of tokio runs, a paused clock of tokio stands still.
        let (done, writer) = oneshot::channel();
        thread::spawn(move || done.send(writer::write(file, &to, waiting)));
        Ok(Self { proxy, begun, observer, seen, writer, path: path.to_owned(), unforwarded })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.proxy.address
    }

    /// Forwards and records until `stop` is ready. All connections are cut then, and the file is whole.
    ///
    /// # Errors
    /// If the file cannot be written. All connections are cut then as well.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<Captured, CaptureError> {
        let recorder = Recorder { number: OBSERVER, begun: self.begun, seen: self.seen.clone() };
        let (stop_observer, stopped) = oneshot::channel::<()>();
        let observing = self.observer.map(|observer| tokio::spawn(observer.run(recorder, stopped)));
        tokio::select! {
            () = stop => {}
            // The writer has failed.
            () = self.seen.closed() => {}
        }
        drop((self.proxy, stop_observer));
        let mut warnings = Vec::new();
        if let Some(error) = self.unforwarded.get() {
            let what = "not all connections were forwarded to the server, though the file says that it has ended them";
            warnings.push(format!("{what}: {error}"));
        }
        if let Some(observing) = observing {
            if let Ok(Err(error)) = observing.await {
                let what = "what the server has deleted by itself is not known to the end of the capture";
                warnings.push(format!("{what}: {error}"));
            }
        }
        // The writer ends when the last connection has: each of them has a sender.
        drop(self.seen);
        let written = self.writer.await;
        let written = written.unwrap_or_else(|_| {
            Err(CaptureError::write(&self.path, io::Error::other("the writer has panicked")))
        })?;
        Ok(Captured { warnings, ..written })
    }
}

/// Records what happens on a connection.
pub(super) struct Recorder {
    number: u32,
    begun: Instant,
    seen: Sender<Seen>,
}

/// The writer has failed, and says why itself.
pub(super) struct NotRecorded;

impl Recorder {
    pub(super) async fn record(&self, what: CaptureEvent) -> Result<(), NotRecorded> {
        let seen = Seen { time: self.begun.elapsed(), connection: self.number, what };
        self.seen.send(seen).await.map_err(|_| NotRecorded)
    }
}

/// Forwards both directions of a connection until one end has ended it. Without a server, the client's is ended. Returns why, if that
/// is the fault of this side.
async fn forward_both(
    client: TcpStream,
    server: &str,
    recorder: Recorder,
) -> Result<Option<io::Error>, NotRecorded> {
    recorder.record(CaptureEvent::Opened).await?;
    let server = match connect(&client, server).await {
        Ok(server) => server,
        Err(error) => {
            recorder.record(CaptureEvent::Ended(Side::Server)).await?;
            recorder.record(CaptureEvent::Over).await?;
            return Ok(Some(error).filter(is_local));
        }
    };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let up = forward(from_client, to_server, Side::Client, &recorder);
    let down = forward(from_server, to_client, Side::Server, &recorder);
    until_ended(up, down, &recorder).await?;
    Ok(None)
}

/// Forwards both directions until an end has ended the connection, and records that.
async fn until_ended(
    up: impl Future<Output = Result<Side, NotRecorded>>,
    down: impl Future<Output = Result<Side, NotRecorded>>,
    recorder: &Recorder,
) -> Result<(), NotRecorded> {
    let (mut up, mut down) = (pin!(up), pin!(down));
    let (ended, is_down_over) = tokio::select! {
        // A request is recorded before what it leads to.
        biased;
        ended = &mut up => (ended?, false),
        // It also ends if the client takes nothing any more, which is the end of the client then.
        ended = &mut down => (ended?, true),
    };
    recorder.record(CaptureEvent::Ended(ended)).await?;
    if ended == Side::Client && !is_down_over {
        // What the server still has for it.
        down.await?;
    }
    recorder.record(CaptureEvent::Over).await
}

/// Forwards one direction until an end has ended it, and returns which.
async fn forward(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    end: Side,
    recorder: &Recorder,
) -> Result<Side, NotRecorded> {
    let other = if end == Side::Client { Side::Server } else { Side::Client };
    let mut chunk = vec![0; CHUNK];
    loop {
        let Ok(count @ 1..) = from.read(&mut chunk).await else {
            // If that fails, the other end is gone, too.
            let _ = to.shutdown().await;
            return Ok(end);
        };
        if to.write_all(&chunk[..count]).await.is_err() {
            return Ok(other);
        }
        recorder.record(CaptureEvent::Bytes(end, Bytes::copy_from_slice(&chunk[..count]))).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_client_that_takes_nothing_any_more_has_ended_its_connection() {
        let (seen, mut recorded) = mpsc::channel(10);
        let recorder = Recorder { number: 1, begun: Instant::now(), seen };
        let ended = until_ended(pending(), ready(Ok(Side::Client)), &recorder).await;
        assert!(ended.is_ok());
        let first = recorded.recv().await.map(|seen| seen.what);
        assert!(matches!(first, Some(CaptureEvent::Ended(Side::Client))), "{first:?}");
        let second = recorded.recv().await.map(|seen| seen.what);
        assert!(matches!(second, Some(CaptureEvent::Over)), "{second:?}");
    }
}
