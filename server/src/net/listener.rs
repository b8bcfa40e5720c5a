//! The accept loop of one listening socket.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};

use crate::error::StartError;
use crate::net::PortKind;
use crate::net::flow::limits::ACCEPT_PAUSE;
use crate::net::stream::{Link, Transport};
use crate::shared::Shared;

/// Listens on each of the addresses, as [`bind_first`] finds them. No socket accepts a connection before all are
/// bound, as a client that connects must be answered. Returns the addresses with the actual ports as well.
pub(crate) async fn listen(
    addrs: &[String],
    backlog: u32,
) -> Result<(Vec<SocketAddr>, Vec<TcpListener>), StartError> {
    let fail = |addr: &String, source| StartError::Bind { addr: addr.clone(), source };
    let mut sockets = Vec::with_capacity(addrs.len());
    for addr in addrs {
        sockets.push(bind_first(addr).await.map_err(|source| fail(addr, source))?);
    }
    let listen = |(addr, socket): (_, TcpSocket)| {
        let listener = socket.listen(backlog).and_then(|listener| Ok((listener.local_addr()?, listener)));
        listener.map_err(|source| fail(addr, source))
    };
    addrs.iter().zip(sockets).map(listen).collect()
}

/// A socket with the first of the addresses that `addr` resolves to and that this machine has.
///
/// # Errors
/// If there is none, or if it cannot be bound, most often because it is in use: clients that resolve the name
/// would reach another server there.
pub async fn bind_first(addr: &str) -> io::Result<TcpSocket> {
    first_here(in_order(lookup_host(addr).await?))
}

/// The addresses of a name in the order in which they are tried. IPv4 comes first, as in Java: if `localhost` is both, it
/// is 127.0.0.1 to most clients.
fn in_order(found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    let tried = found.into_iter().flat_map(|addr| {
        // The unspecified address works on a machine without IPv6 too.
        let instead = is_everywhere(addr).then_some((Ipv4Addr::UNSPECIFIED, addr.port()).into());
        [addr].into_iter().chain(instead)
    });
    tried.collect()
}

fn is_everywhere(addr: SocketAddr) -> bool {
    addr.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
}

fn first_here(addrs: Vec<SocketAddr>) -> io::Result<TcpSocket> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for addr in addrs {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let socket = match socket {
            Ok(socket) => socket,
            // This machine lacks the address family, for which `ErrorKind` has no name. If it lacks anything else, a
            // socket of the other family fails too.
            Err(error) => {
                last = error;
                continue;
            }
        };
        match bind(&socket, addr) {
            Ok(()) => return Ok(socket),
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

fn bind(socket: &TcpSocket, addr: SocketAddr) -> io::Result<()> {
    // A server can be restarted at once: connections of the old one may still be in TIME_WAIT. On Windows the option
    // would let two servers share a port.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    if is_everywhere(addr) {
        // The default is a setting of the system; on Windows such a socket has no IPv4.
        SockRef::from(socket).set_only_v6(false)?;
    }
    socket.bind(addr)
}

/// Accepts connections until the server is stopped.
pub(crate) async fn run(shared: Arc<Shared>, listener: TcpListener, replica: usize, kind: PortKind) {
    loop {
        let Some(accepted) = shared.stop.run_until_cancelled(listener.accept()).await else { return };
        match accepted {
            Ok((stream, peer)) => admit(&shared, stream, peer, replica, kind),
            // The peer left the backlog; the next one may be there.
            Err(error) if is_of_peer(&error) => tracing::debug!(%error, "cannot accept a connection"),
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

fn admit(shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr, replica: usize, kind: PortKind) {
    if !shared.admits(peer.ip()) {
        return stream.reset_on_close();
    }
    let (per_ip, total) = (shared.net.max_per_ip, shared.net.max_connections);
    let Some(permit) = shared.registry.permit(peer.ip().to_canonical(), per_ip, total) else {
        shared.stats.rejected.fetch_add(1, Relaxed);
        if let Some(count) = shared.refused.count(shared.clock.now()) {
            tracing::warn!(%peer, count, "too many connections; closing this one");
        }
        return;
    };
    if let Err(error) = stream.set_nodelay(true) {
        // The peer is gone already; reading reports it.
        tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
    }
    match kind {
        PortKind::Plain => {
            shared.serve_from(stream, peer, Link::default(), replica, Some(permit));
        }
        #[cfg(feature = "tls")]
        kind => crate::net::tls::accept(shared, stream, peer, replica, permit, kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addrs(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().expect("an address")).collect()
    }

    #[test]
    fn of_the_addresses_of_a_name_those_of_ipv4_are_tried_first() {
        let found = addrs(&["[::1]:1", "127.0.0.1:1", "[fe80::1]:1", "10.0.0.1:1"]);
        let tried = addrs(&["127.0.0.1:1", "10.0.0.1:1", "[::1]:1", "[fe80::1]:1"]);
        assert_eq!(in_order(found.into_iter()), tried);
        assert_eq!(in_order(addrs(&["[::]:1"]).into_iter()), addrs(&["[::]:1", "0.0.0.0:1"]));
    }

    #[tokio::test]
    async fn an_address_that_is_not_of_this_machine_is_passed_over() {
        // The first is reserved for documentation.
        let socket = first_here(addrs(&["192.0.2.1:0", "127.0.0.1:0"])).expect("the second");
        assert_eq!(socket.local_addr().expect("an address").ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let error = first_here(addrs(&["192.0.2.1:0"])).expect_err("nothing to listen on");
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    }

    #[tokio::test]
    async fn an_address_in_use_is_not_passed_over() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let tried = [taken.local_addr().expect("an address"), (Ipv4Addr::LOCALHOST, 0).into()];
        let error = first_here(tried.to_vec()).expect_err("in use");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn everywhere_is_ipv4_too_whatever_the_system_says() {
        let Ok(socket) = TcpSocket::new_v6() else { return };
        SockRef::from(&socket).set_only_v6(true).expect("as a system may have it");
        if bind(&socket, (Ipv6Addr::UNSPECIFIED, 0).into()).is_ok() {
            assert!(!SockRef::from(&socket).only_v6().expect("a setting"));
        }
    }
}
