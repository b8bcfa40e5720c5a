//! One handshake.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::net::TcpStream;
use zoolet_tls::tokio_rustls::TlsAcceptor;
use zoolet_tls::tokio_rustls::server::TlsStream;

use crate::net::PortKind;
use crate::net::flow::limits::MAX_HANDSHAKE;
use crate::net::tls::ports::TlsPorts;
use crate::net::tls::slots::HandshakeSlot;
use crate::net::tls::socket::{Spoken, TlsSocket};
use crate::net::tls::stream::TlsTransport;

/// A connection that can be served.
pub(crate) enum Opened {
    Plain(TlsSocket),
    /// With the subject of the client's certificate.
    Tls(Box<TlsTransport>, Option<Arc<str>>),
}

/// Why a connection cannot be served, and its socket, from which the peer may still read.
pub(crate) type Refusal = (io::Error, TcpStream);

/// Finds out what a connection speaks, and shakes hands. Notes when its peer has begun to.
pub(crate) async fn open(
    ports: &TlsPorts,
    slot: &HandshakeSlot,
    stream: TcpStream,
    peer: IpAddr,
    kind: PortKind,
    has_begun: &AtomicBool,
) -> Result<Opened, Refusal> {
    let mut socket = TlsSocket::new(stream);
    match socket.look(kind).await {
        Ok(Spoken::Tls) => {
            has_begun.store(true, Relaxed);
            slot.state.wait.note(true);
        }
        Ok(Spoken::Plain) if kind == PortKind::Unified => return Ok(Opened::Plain(socket)),
        Ok(Spoken::Plain) => {
            let error =
                io::Error::new(io::ErrorKind::InvalidData, "the peer does not speak TLS, as this port does");
            return Err((error, socket.stream));
        }
        Err(error) => return Err((error, socket.stream)),
    }
    let stream = shake_hands(ports, slot, socket).await?;
    match ports.live.settings().client_subject(stream.get_ref().1.peer_certificates(), peer) {
        Ok(certificate) => Ok(Opened::Tls(Box::new(TlsTransport::new(stream)), certificate)),
        Err(error) => Err((error, stream.into_inner().0.stream)),
    }
}

/// Shakes hands. Between two steps of that, other tasks run.
async fn shake_hands(
    ports: &TlsPorts,
    slot: &HandshakeSlot,
    mut socket: TlsSocket,
) -> Result<TlsStream<TlsSocket>, Refusal> {
    socket.left = Some(MAX_HANDSHAKE);
    let accepting = TlsAcceptor::from(ports.live.current().await).accept(socket).into_fallible();
    match ports.stepper.run(accepting, |has_bytes| slot.state.wait.note(has_bytes)).await {
        Ok(mut stream) => {
            stream.get_mut().0.left = None;
            Ok(stream)
        }
        Err((error, socket)) => Err((error, socket.stream)),
    }
}
