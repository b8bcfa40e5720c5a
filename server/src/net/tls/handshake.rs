//! One handshake.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::net::TcpStream;
use tokio::task::yield_now;
use zoolet_tls::tokio_rustls::TlsAcceptor;
use zoolet_tls::tokio_rustls::server::TlsStream;

use crate::net::PortKind;
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
            slot.state.note(true);
        }
        Ok(Spoken::Plain) if kind == PortKind::Unified => return Ok(Opened::Plain(socket)),
        Ok(Spoken::Plain) => {
            let error =
                io::Error::new(io::ErrorKind::InvalidData, "the peer does not speak TLS, as this port does");
            return Err((error, socket.stream));
        }
        Err(error) => return Err((error, socket.stream)),
    }
    let stream = in_turns(ports, slot, socket).await?;
    match ports.live.settings().client_subject(stream.get_ref().1.peer_certificates(), peer) {
        Ok(certificate) => Ok(Opened::Tls(Box::new(TlsTransport::new(stream)), certificate)),
        Err(error) => Err((error, stream.into_inner().0.stream)),
    }
}

/// Shakes hands. What is read is dealt with in turns, and other tasks run between two of them.
async fn in_turns(
    ports: &TlsPorts,
    slot: &HandshakeSlot,
    mut socket: TlsSocket,
) -> Result<TlsStream<TlsSocket>, Refusal> {
    let config = ports.live.current().await;
    let held = socket.begin_handshake(&ports.turns, &slot.state);
    let mut accepting = TlsAcceptor::from(config).accept(socket).into_fallible();
    let accepted = poll_fn(|cx| {
        held.give_back();
        let polled = Pin::new(&mut accepting).poll(cx);
        if polled.is_pending() && held.is_held() {
            // Wakes this task, to give the turn back, when the others have run and the sockets were looked at.
            let _ = pin!(yield_now()).poll(cx);
        }
        polled
    })
    .await;
    yield_now().await;
    held.give_back();
    match accepted {
        Ok(mut stream) => {
            stream.get_mut().0.end_handshake();
            Ok(stream)
        }
        Err((error, socket)) => Err((error, socket.stream)),
    }
}
