//! A server under test, and connections to it.

use std::ops::Deref;

use std::time::Duration;

use tokio::net::TcpStream;
use zoolet_server::{Clock, InProcessStream, Server, ServerBuilder};

use crate::*;

/// A server under test.
pub struct Zk {
    server: Server,
}

impl Zk {
    /// A server without a socket.
    pub async fn start() -> Self {
        Self::with(|settings| settings).await
    }

    /// A server that listens on a free port.
    pub async fn start_tcp() -> Self {
        Self::with(|settings| settings.bind("127.0.0.1:0")).await
    }

    pub async fn with(change: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        limit();
        // 2025-12-31: before 2026 zxids begin at 0.
        let clock = Clock::tokio().starting_at(Duration::from_secs(1_767_139_200));
        let settings = Server::builder().clock(clock).tick_time(TICK);
        Self { server: stored(change(settings)).start().await.expect("a server that starts") }
    }

    /// A client with a session, in this process.
    pub async fn wire(&self) -> Wire {
        self.connect(Hello::new()).await
    }

    pub async fn connect(&self, hello: Hello) -> Wire {
        Wire::open(self.stream(), hello).await
    }

    /// A client with a session, by TCP.
    pub async fn tcp_wire(&self) -> Wire {
        Wire::open(self.tcp().await, Hello::new()).await
    }

    /// A connection in this process, before its handshake.
    pub fn stream(&self) -> InProcessStream {
        self.in_process()().into_inner().expect("a server that takes connections")
    }

    pub fn raw(&self) -> Wire {
        Wire::over(self.stream())
    }

    /// A TCP connection before its handshake.
    pub async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.addrs()[0]).await.expect("a server that listens")
    }

    pub async fn raw_tcp(&self) -> Wire {
        Wire::over(self.tcp().await)
    }

    /// Creates a znode, in a session of its own.
    pub async fn create(&self, path: &str, data: &str) {
        self.apart(create(path).data(data)).await;
    }

    /// Sets data, in a session of its own.
    pub async fn set(&self, path: &str, data: &str) {
        self.apart(set_data(path, data)).await;
    }

    pub async fn delete(&self, path: &str) {
        self.apart(delete(path)).await;
    }

    /// Whether a znode exists.
    pub async fn has(&self, path: &str) -> bool {
        let mut wire = self.wire().await;
        let answer = wire.ask(exists(path)).await;
        wire.close_session().await;
        answer.error.is_none()
    }

    /// The children of a znode.
    pub async fn children(&self, path: &str) -> Vec<String> {
        let mut wire = self.wire().await;
        let names = wire.ask(get_children(path)).await.names();
        wire.close_session().await;
        names
    }

    /// Asserts that another client is served as usual.
    pub async fn serves_others(&self) {
        let mut other = self.wire().await;
        assert_eq!(other.ask(get_data("/")).await.error, None);
        other.close_session().await;
    }

    /// The answer to a four-letter word.
    pub async fn word(&self, word: &str) -> String {
        let mut wire = self.raw();
        wire.send_bytes(word.as_bytes()).await;
        String::from_utf8(wire.rest().await).expect("text")
    }

    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }

    async fn apart(&self, ask: Request) {
        let mut wire = self.wire().await;
        let answer = wire.ask(ask).await;
        assert_eq!(answer.error, None);
        wire.close_session().await;
    }
}

impl Deref for Zk {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}
