//! [`Proxy`]: a port before a server. The code that starts it decides what is done with the bytes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How long no client is accepted after one could not be: what is missing, such as descriptors, may come back.
const PAUSE: Duration = Duration::from_millis(10);

/// A port whose clients are served until it is dropped. Their connections end with it.
#[derive(Debug)]
pub(crate) struct Proxy {
    /// Where clients connect to.
    pub(crate) address: SocketAddr,
    /// The loop that accepts, which has the tasks of the connections.
    _accepting: JoinSet<()>,
}

impl Proxy {
    /// Listens, and runs `serve` for each client in a task of its own. `failed` gets the errors of accepting; none of them ends the
    /// proxy.
    ///
    /// # Errors
    /// If the address cannot be listened on.
    pub(crate) async fn start<F>(
        listen: &str,
        mut failed: impl FnMut(io::Error) + Send + 'static,
        mut serve: impl FnMut(TcpStream) -> F + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                match listener.accept().await {
                    Ok((client, _)) => _ = connections.spawn(serve(client)),
                    Err(error) => {
                        failed(error);
                        sleep(PAUSE).await;
                    }
                }
                // Those that have ended are forgotten, so that they do not add up.
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, _accepting: accepting })
    }
}

/// Connects a client to its server.
///
/// # Errors
/// If the server cannot be reached.
pub(crate) async fn connect(client: &TcpStream, server: &str) -> io::Result<TcpStream> {
    let server = TcpStream::connect(server).await?;
    // Small frames are not to wait for the acknowledgement of those before. It works without, too.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    Ok(server)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn its_connections_end_with_it() {
        let (accepted, mut served) = tokio::sync::mpsc::unbounded_channel();
        let serve = move |client: TcpStream| {
            let accepted = accepted.clone();
            async move {
                _ = accepted.send(());
                std::future::pending::<()>().await;
                drop(client);
            }
        };
        let proxy = Proxy::start("127.0.0.1:0", |_| (), serve).await.expect("a port");
        let mut client = TcpStream::connect(proxy.address).await.expect("a connection");
        served.recv().await.expect("a task for it");
        drop(proxy);
        let ended = timeout(Duration::from_secs(10), client.read(&mut [0])).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
        assert_eq!(served.recv().await, None);
    }
}
