//! TLS on a port: what a connection speaks is found out, and it shakes hands, before it is a connection to the rest of the server.
//!
//! Until then it costs others nothing that counts: handshakes are bounded in number, time and bytes, and at most one computes before
//! other tasks run.

mod frame_records;
mod handshake;
mod ports;
mod slots;
mod socket;
mod stream;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::net::PortKind;
use crate::net::close::linger;
use crate::net::flow::limits::{HANDSHAKE_TIME, LINGER};
use crate::net::registry::ConnectionPermit;
use crate::net::stream::Link;
use crate::net::tls::handshake::Opened;
pub(crate) use crate::net::tls::ports::TlsPorts;
use crate::net::tls::slots::HandshakeSlot;
use crate::shared::Shared;

/// Takes a connection that was accepted on a port with TLS.
pub(crate) fn accept(
    shared: &Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    replica: usize,
    permit: ConnectionPermit,
    kind: PortKind,
) {
    let Some(ports) = &shared.tls else { return };
    let accepted = Accepted { shared: Arc::clone(shared), ports: Arc::clone(ports), peer, replica, permit };
    match ports.slots.take() {
        Some(slot) => shared.spawn_for_connection(accepted.open(stream, slot, kind)),
        None => accepted.refuse(),
    }
}

/// A connection that is accepted and not served yet.
struct Accepted {
    shared: Arc<Shared>,
    ports: Arc<TlsPorts>,
    peer: SocketAddr,
    replica: usize,
    permit: ConnectionPermit,
}

impl Accepted {
    /// Finds out what it speaks, shakes hands, and serves it.
    async fn open(self, stream: TcpStream, slot: HandshakeSlot, kind: PortKind) {
        // On a unified port a peer that has not begun TLS may be one of plaintext: as on Apache, its end is no handshake that fails.
        let has_begun = AtomicBool::new(kind != PortKind::Unified);
        let opened = {
            let opening = handshake::open(&self.ports, &slot, stream, self.peer.ip(), kind, &has_begun);
            tokio::select! {
                biased;
                () = self.shared.stop.cancelled() => return,
                () = slot.lost() => return self.refuse(),
                opened = timeout(HANDSHAKE_TIME, opening) => opened,
            }
        };
        match opened {
            Ok(Ok(opened)) => {
                drop(slot);
                self.serve(opened);
            }
            Ok(Err((error, stream))) => {
                self.fail(&error, has_begun.into_inner());
                self.close(stream, slot).await;
            }
            Err(_) => {
                let error = io::Error::new(io::ErrorKind::TimedOut, "it takes too long");
                self.fail(&error, has_begun.into_inner());
            }
        }
    }

    fn serve(self, opened: Opened) {
        let Self { shared, peer, replica, permit, .. } = self;
        match opened {
            Opened::Plain(socket) => shared.serve_from(socket, peer, Link::default(), replica, Some(permit)),
            Opened::Tls(stream, certificate) => {
                shared.stats.handshakes.done.fetch_add(1, Relaxed);
                let link = Link { is_secure: true, certificate, ..Link::default() };
                shared.serve_from(*stream, peer, link, replica, Some(permit))
            }
        };
    }

    /// Closes so that the peer gets the alert, which a reset would discard. A certificate that is refused after the handshake has none:
    /// rustls sends no alert then. It is the peer that is waited for, so that the slot is free for another.
    async fn close(&self, mut stream: TcpStream, slot: HandshakeSlot) {
        slot.state.wait.note(false);
        let (mut reader, mut writer) = stream.split();
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => {}
            () = slot.lost() => {}
            _ = timeout(LINGER, linger(&mut reader, &mut writer, false)) => {}
        }
    }

    fn refuse(&self) {
        self.shared.stats.handshakes.refused.fetch_add(1, Relaxed);
        if let Some(count) = self.ports.refused.count(self.shared.clock.now()) {
            tracing::warn!(peer = %self.peer, count, "too many TLS handshakes at once; closing this connection");
        }
    }

    fn fail(&self, error: &io::Error, has_begun: bool) {
        let peer = self.peer;
        if !has_begun {
            tracing::debug!(%peer, %error, "closed before it was known what it speaks");
            return;
        }
        self.shared.stats.handshakes.failed.fetch_add(1, Relaxed);
        if error.kind() == io::ErrorKind::UnexpectedEof {
            // So do checks that a port is open.
            tracing::debug!(%peer, "closed before a TLS handshake was complete");
        } else if let Some(count) = self.ports.failed.count(self.shared.clock.now()) {
            tracing::warn!(%peer, %error, count, "a TLS handshake has failed");
        }
    }
}
