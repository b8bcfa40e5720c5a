//! [`Server`]: the handle to a running server.

use std::fmt;
use std::future::pending;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use zoolet_proto::Zxid;
use zoolet_storage::{RecoveryReport, StorageError};

use crate::config::ServerBuilder;
use crate::durable::{Close, Work};
use crate::error::SnapshotError;
use crate::locked::locked;
use crate::metrics::ServerMetrics;
use crate::net::in_process::{self, InProcess};
use crate::net::stream::Link;
use crate::observer::Observer;
use crate::own_thread::OwnThread;
use crate::shared::Shared;

/// A running server. Dropping it stops the server without waiting; [`Server::shutdown`] waits.
#[must_use = "a server stops when its handle is dropped"]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
    /// Its thread, if it has one of its own.
    pub(crate) thread: Option<OwnThread>,
}

impl Server {
    /// Settings for a new server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The addresses it listens on, in the order of the `bind` calls, with the actual ports.
    pub fn addrs(&self) -> &[SocketAddr] {
        &self.shared.addrs
    }

    /// The addresses of the ports that speak TLS alone, in the order of the `bind_tls` calls, with the actual ports.
    #[cfg(feature = "tls")]
    pub fn tls_addrs(&self) -> &[SocketAddr] {
        &self.shared.tls_addrs
    }

    /// Reads the files of TLS again now. They are read by themselves when they have changed; this reports whether they could be.
    ///
    /// # Errors
    /// If one is missing or broken, or the runtime of the server was shut down; new connections use what was there before.
    ///
    /// # Cancel safety
    /// The files are read even if the future is dropped.
    #[cfg(feature = "tls")]
    pub async fn reload_tls(&self) -> Result<(), zoolet_tls::TlsError> {
        match &self.shared.tls {
            Some(tls) => tls.live.reload_in(&self.shared.runtime).await,
            None => Ok(()),
        }
    }

    /// The zxid at which it began: every transaction that it decides has a later one. With a data directory it is the last one
    /// there. Otherwise it follows from the time of the start, 16 for each microsecond since 2026-01-01, so that a server
    /// which takes the place of an earlier one begins above it.
    pub fn initial_zxid(&self) -> Zxid {
        locked(&self.shared.engine).bus.core().config().initial_zxid
    }

    /// What a client needs to connect by TCP: `host:port` of every address. Empty without one.
    pub fn connect_string(&self) -> String {
        let reachable = |addr: &SocketAddr| match addr.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => format!("127.0.0.1:{}", addr.port()),
            IpAddr::V6(ip) if ip.is_unspecified() => format!("[::1]:{}", addr.port()),
            _ => addr.to_string(),
        };
        self.shared.addrs.iter().map(reachable).collect::<Vec<_>>().join(",")
    }

    /// A connector for clients in this process: each call opens a connection and returns the client's end. No socket is
    /// involved; to the server the connection comes from 127.0.0.1. It does not keep the server running, and fails with
    /// `ConnectionRefused` once that has stopped, or with `Unsupported`, as it can never succeed again, if the runtime of the
    /// server was shut down before.
    ///
    /// With a data directory, a session that is opened like this ends with the process: the next server on the directory deletes
    /// its ephemerals before it takes the first connection, and the id is unknown then. A session of any other connection, also by
    /// TCP from this process, lives on for its timeout.
    pub fn in_process(&self) -> InProcess {
        in_process::connector(Arc::downgrade(&self.shared), 0)
    }

    /// A handle that looks at the server, for whoever shows it to an operator. It does not keep the server running.
    pub fn observer(&self) -> Observer {
        Observer::new(&self.shared)
    }

    /// Serves a stream that was accepted elsewhere: TLS, a Unix socket, a simulator. `peer` is its address, for ACLs of the
    /// scheme `ip`. Limits on connections do not apply. Returns at once, and has no effect once the server has stopped.
    pub fn serve_stream(&self, stream: impl AsyncRead + AsyncWrite + Send + 'static, peer: IpAddr) {
        if self.shared.admits(peer) {
            self.shared.serve_from(Box::pin(stream), SocketAddr::new(peer, 0), Link::default(), 0, None);
        }
    }

    /// Writes a snapshot of the state, beside what clients do meanwhile, and returns its zxid once it is durable. If nothing has
    /// changed since the last one, that is it. The log before the oldest snapshot that is kept is deleted.
    ///
    /// A server writes snapshots by itself, after a number of transactions or bytes of log, and when it is shut down.
    ///
    /// # Errors
    /// [`SnapshotError::InMemory`] without a data directory. Otherwise the snapshot could not be written, or the server has
    /// stopped; the log still has everything.
    ///
    /// # Cancel safety
    /// The snapshot is written even if the future is dropped.
    pub async fn snapshot(&self) -> Result<Zxid, SnapshotError> {
        self.shared.log.as_ref().ok_or(SnapshotError::InMemory)?.snapshot().await
    }

    /// Waits until the server has failed, and returns why: its data directory can no longer be written. It has stopped then,
    /// and has acknowledged nothing that is not durable. Start another server on the directory to go on.
    ///
    /// Never returns for a server in memory, nor for one that is shut down.
    ///
    /// # Cancel safety
    /// Nothing is lost if the future is dropped.
    pub async fn failed(&self) -> Arc<StorageError> {
        match &self.shared.log {
            Some(log) => log.queue.failed().await,
            None => pending().await,
        }
    }

    /// What the server has counted by now, and how it is; also once it has stopped. See [`metrics`](crate::metrics) for what to do
    /// with it. Takes some microseconds of the time in which requests are executed, and reads `/proc` for the descriptors.
    pub fn metrics(&self) -> ServerMetrics {
        self.shared.metrics(0)
    }

    /// Records distributions from now on: latencies, the times of syncs, the bytes of reads and writes by the first element of their
    /// path. Before, they cost nothing. An endpoint for metrics calls it.
    #[cfg(feature = "metrics")]
    pub fn measure(&self) {
        self.shared.measure();
    }

    /// What was found in the data directory when the server started; `None` for a server in memory.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.shared.log.as_ref().map(|log| &log.report)
    }

    /// Stops the server: closes its sockets and connections, and waits until its last task has ended. Clients lose their
    /// connections; a client that wants its session closed must close it before. With a data directory, a snapshot is written
    /// if anything has changed since the last one.
    ///
    /// # Cancel safety
    /// The server stops even if the future is dropped.
    pub async fn shutdown(mut self) {
        self.shared.halt();
        self.shared.tasks.wait().await;
        // After all turns.
        if let Some(log) = &self.shared.log {
            log.queue.send(Work::Close(Close::Clean));
        }
        self.shared.log_ended().await;
        if let Some(thread) = self.thread.take() {
            thread.ended().await;
        }
    }
}

impl From<&Server> for Observer {
    fn from(server: &Server) -> Self {
        server.observer()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("addrs", &self.shared.addrs).finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.halt();
        if let Some(log) = &self.shared.log {
            log.queue.send(Work::Close(Close::Drop));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadBuf};
    use zoolet_clock::Clock;
    use zoolet_test_support::{Hello, RequestExt, Wire, exists};

    use super::*;
    use crate::net::flow::budget::Charge;
    use crate::net::flow::limits::ALL_OUTBOXES;

    #[test]
    fn without_timers_it_does_not_start() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let clock = Clock::manual();
        let start = AssertUnwindSafe(|| runtime.block_on(Server::builder().clock(clock).start()));
        assert!(catch_unwind(start).is_err());
    }

    #[test]
    fn a_server_whose_runtime_has_gone_before_it_ran_takes_nobody() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let server = runtime.block_on(Server::builder().start()).expect("a server");
        drop(runtime);
        assert!(server.in_process()().into_inner().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_answer_to_a_word_counts_as_unsent_and_is_given_up_if_there_is_too_much_of_that() {
        let server = Server::builder().all_four_letter_words().start().await.expect("a server");
        let connect = || server.in_process()().into_inner().expect("a server that takes connections");
        let mut watcher = Wire::open(connect(), Hello::new()).await;
        let watch = |n| exists(&format!("/{n}-{}", "x".repeat(200))).watch();
        watcher.pipeline((0..2_000).map(watch).collect::<Vec<_>>()).await;
        let mut slow = connect();
        slow.write_all(b"wchp").await.expect("a connection that takes bytes");
        slow.read_u8().await.expect("an answer");
        let budget = &server.shared.registry.budget;
        assert!(budget.used() > 400_000, "{}", budget.used());
        let mut others = Charge::new(budget);
        others.set(ALL_OUTBOXES);
        slow.read_u8().await.expect("an answer");
        while budget.used() > ALL_OUTBOXES {
            tokio::task::yield_now().await;
        }
        let mut rest = Vec::new();
        slow.read_to_end(&mut rest).await.expect("the end");
        assert!(rest.len() < 400_000, "{}", rest.len());
    }

    #[tokio::test]
    async fn a_stream_that_panics_takes_its_connection_along() {
        struct Panics;
        impl AsyncRead for Panics {
            fn poll_read(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                _: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                panic!("as if there were a bug")
            }
        }
        impl AsyncWrite for Panics {
            fn poll_write(
                self: Pin<&mut Self>,
                _: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                Poll::Ready(Ok(bytes.len()))
            }
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
        }
        let server = Server::builder().start().await.expect("a server");
        server.serve_stream(Panics, IpAddr::from([127, 0, 0, 1]));
        let conn = server.shared.registry.all()[0].0;
        while server.shared.registry.len() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(server.shared.turns.read(move |core| core.is_open(conn)), Some(false));
        assert!(server.in_process()().into_inner().is_ok(), "nobody else notices");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_with_a_turn_that_panics_leaves_nobody_waiting() {
        let server = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
        let connect = server.in_process();
        let mut client = connect().into_inner().expect("a connection");
        let turns = Arc::clone(&server.shared.turns);
        let turn = tokio::spawn(async move { turns.read(|_| -> () { panic!("as if there were a bug") }) });
        assert!(turn.await.is_err());
        assert_eq!(client.read(&mut [0]).await.expect("an end"), 0);
        assert!(connect().into_inner().is_err());
        server.shutdown().await;
    }
}
