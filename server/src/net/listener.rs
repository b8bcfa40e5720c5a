//! The accept loop of one listening socket.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};

use crate::error::StartError;
use crate::net::stream::{Ending, OfSocket};
use crate::server::Shared;

/// How long accepting pauses after an error, most often that of having no descriptor left.
const PAUSE: Duration = Duration::from_millis(50);

/// Listens on each of the addresses: the first that it resolves to and that can be had. None takes a connection before
/// all are bound, as who connects is to be answered.
pub(crate) async fn listen(addrs: &[String], backlog: u32) -> Result<Vec<TcpListener>, StartError> {
    let fail = |addr: &String, source| StartError::Bind { addr: addr.clone(), source };
    let mut sockets = Vec::with_capacity(addrs.len());
    for addr in addrs {
        sockets.push(bind_first(addr).await.map_err(|source| fail(addr, source))?);
    }
    let listen = |(addr, socket): (_, TcpSocket)| socket.listen(backlog).map_err(|source| fail(addr, source));
    addrs.iter().zip(sockets).map(listen).collect()
}

async fn bind_first(addr: &str) -> io::Result<TcpSocket> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let candidates = lookup_host(addr).await?.flat_map(|found| {
        // Everywhere is everywhere, on a machine without IPv6 too.
        let everywhere = found.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        [found].into_iter().chain(everywhere.then_some((Ipv4Addr::UNSPECIFIED, found.port()).into()))
    });
    for candidate in candidates {
        match bind(candidate) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn bind(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // So that a server can be started again at once: connections of the old one may still be in TIME_WAIT. On Windows
    // it would let two servers have one port.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

/// Accepts connections until the server is stopped.
pub(crate) async fn run(shared: Arc<Shared>, listener: TcpListener, endpoint: usize) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => admit(&shared, stream, peer, endpoint),
            // The peer has gone while it waited; the next one has not.
            Err(error) if is_of_the_peer(&error) => tracing::debug!(%error, "cannot accept a connection"),
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn is_of_the_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

fn admit(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr, endpoint: usize) {
    if shared.refuses(peer.ip()) {
        return OfSocket.reset(&stream);
    }
    let (per_ip, total) = (shared.net.max_per_ip, shared.net.max_connections);
    let Some(place) = shared.registry.place(peer.ip().to_canonical(), per_ip, total) else {
        shared.stats.rejected.fetch_add(1, Relaxed);
        tracing::warn!(%peer, "too many connections; closing this one");
        return;
    };
    if let Err(error) = stream.set_nodelay(true) {
        // The peer is gone already; reading will say so.
        tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
    }
    shared.serve_from(stream, peer, endpoint, Some(place), OfSocket);
}
