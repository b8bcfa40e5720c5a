//! Connections without a socket.

use std::future::{Ready, ready};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Weak;

use tokio::io::{DuplexStream, duplex};

use crate::server::Shared;

/// How many bytes may be on the way in each direction.
const PIPE: usize = 64 << 10;

/// A function that opens a connection to `server`; what it gives is the client's end. It does not keep the server
/// alive, and fails with `ConnectionRefused` once that is stopped.
pub(crate) fn connector(
    server: Weak<Shared>,
) -> impl Fn() -> Ready<io::Result<DuplexStream>> + Clone + Send + Sync + 'static {
    move || ready(connect(&server))
}

fn connect(server: &Weak<Shared>) -> io::Result<DuplexStream> {
    let server = server.upgrade().filter(|server| !server.stop.is_cancelled());
    let server =
        server.ok_or_else(|| io::Error::new(io::ErrorKind::ConnectionRefused, "the server is stopped"))?;
    let (ours, theirs) = duplex(PIPE);
    server.serve(ours, IpAddr::V4(Ipv4Addr::LOCALHOST));
    Ok(theirs)
}
