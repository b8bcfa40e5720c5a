//! A relay between a client and the server that counts frames and cuts the connection at one of them.

use std::future::{Ready, ready};
use std::io;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use zoolet_server::InProcessStream;

/// The direction of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    ToServer,
    ToClient,
}

/// Cuts the connection instead of passing on the `at`-th frame in one direction, once.
#[derive(Debug, Clone)]
pub struct Cut {
    way: Way,
    left: Arc<Mutex<Option<usize>>>,
}

impl Cut {
    pub fn new(way: Way, at: usize) -> Self {
        Self { way, left: Arc::new(Mutex::new(Some(at))) }
    }

    /// Whether the connection has been cut.
    pub fn happened(&self) -> bool {
        self.left.lock().unwrap().is_none()
    }

    /// A connector that goes through the relay.
    pub fn connector<C>(
        self,
        connect: C,
    ) -> impl Fn() -> Ready<io::Result<DuplexStream>> + Clone + Send + Sync + 'static
    where
        C: Fn() -> Ready<io::Result<InProcessStream>> + Clone + Send + Sync + 'static,
    {
        move || {
            let Ok(server) = connect().into_inner() else {
                return ready(Err(io::ErrorKind::ConnectionRefused.into()));
            };
            let (client, ours) = duplex(1 << 16);
            tokio::spawn(self.clone().run(ours, server));
            ready(Ok(client))
        }
    }

    async fn run(self, client: DuplexStream, server: InProcessStream) {
        let (client_read, client_write) = split(client);
        let (server_read, server_write) = split(server);
        // Whichever ends first drops both: that is the cut.
        tokio::select! {
            _ = self.pass(Way::ToServer, client_read, server_write) => {}
            _ = self.pass(Way::ToClient, server_read, client_write) => {}
        }
    }

    async fn pass(
        &self,
        way: Way,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        loop {
            let len = from.read_u32().await?;
            let mut frame = vec![0; len as usize];
            from.read_exact(&mut frame).await?;
            if way == self.way && self.is_next() {
                return Ok(());
            }
            to.write_u32(len).await?;
            to.write_all(&frame).await?;
        }
    }

    fn is_next(&self) -> bool {
        let mut left = self.left.lock().unwrap();
        match *left {
            Some(0) => {
                *left = None;
                true
            }
            Some(more) => {
                *left = Some(more - 1);
                false
            }
            None => false,
        }
    }
}
