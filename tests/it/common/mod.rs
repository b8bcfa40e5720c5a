//! A server, and clients for it that speak in raw frames: a test is a script of what one side sends and the other
//! must answer.

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test file uses its part of this")]

pub mod ask;
pub mod dice;
pub mod expect;
pub mod hello;
pub mod mishap;
pub mod process;
pub mod samples;
pub mod wire;

use std::ops::Deref;
use std::time::Duration;

use tokio::net::TcpStream;
use zoolet::server::{InProcessStream, Server, ServerBuilder};

pub use ask::*;
pub use expect::*;
pub use hello::*;
pub use wire::*;
pub use zoolet_proto::{ErrorCode, EventType, OpCode, Reply, Request, SessionId, Xid, Zxid};

/// The tick of every server here, and the session timeout that [`Hello::new`] asks for.
pub const TICK: Duration = secs(2);
pub const TIMEOUT: Duration = secs(10);

pub const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

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
        let settings = Server::builder().tick_time(TICK);
        Self { server: change(settings).start().await.expect("a server that starts") }
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

    /// A connection in this process that has said nothing yet.
    pub fn stream(&self) -> InProcessStream {
        self.in_process()().into_inner().expect("a server that takes connections")
    }

    pub fn raw(&self) -> Wire {
        Wire::over(self.stream())
    }

    /// A TCP connection that has said nothing yet.
    pub async fn tcp(&self) -> TcpStream {
        TcpStream::connect(self.addrs()[0]).await.expect("a server that listens")
    }

    pub async fn raw_tcp(&self) -> Wire {
        Wire::over(self.tcp().await)
    }

    /// Creates a znode, by a session of its own that is gone afterwards.
    pub async fn create(&self, path: &str, data: &str) {
        self.apart(create(path).data(data)).await;
    }

    /// Sets data, by a session of its own that is gone afterwards.
    pub async fn set(&self, path: &str, data: &str) {
        self.apart(set_data(path, data)).await;
    }

    pub async fn delete(&self, path: &str) {
        self.apart(delete(path)).await;
    }

    /// Whether there is a znode.
    pub async fn has(&self, path: &str) -> bool {
        let mut wire = self.wire().await;
        let answer = wire.ask(exists(path)).await;
        wire.close_session().await;
        answer.error.is_none()
    }

    /// The names below a znode.
    pub async fn children(&self, path: &str) -> Vec<String> {
        let mut wire = self.wire().await;
        let names = wire.ask(get_children(path)).await.names();
        wire.close_session().await;
        names
    }

    /// That somebody else is served as if nothing had happened.
    pub async fn serves_others(&self) {
        let mut other = self.wire().await;
        assert_eq!(other.ask(get_data("/")).await.error, None);
        other.close_session().await;
    }

    /// What a four-letter word is answered.
    pub async fn word(&self, word: &str) -> String {
        let mut wire = self.raw();
        wire.send_bytes(word.as_bytes()).await;
        String::from_utf8(wire.rest().await).expect("text")
    }

    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }

    async fn apart(&self, ask: Ask) {
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
