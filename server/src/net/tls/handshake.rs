//! One handshake.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio_util::sync::PollSemaphore;
use zoolet_tls::tokio_rustls::TlsAcceptor;
use zoolet_tls::tokio_rustls::server::TlsStream;
use zoolet_tls::{LiveTls, ServerTls, names_address, rustls, subject};

use crate::net::listener::PortKind;
use crate::net::tls::socket::{HeldTurn, Spoken, TlsSocket};
use crate::net::tls::stream::TlsTransport;

/// Whose turn it is to compute for a handshake. A thousand that were ready at once would keep every other task of the thread waiting
/// for as many signatures.
#[derive(Debug)]
pub(crate) struct HandshakeTurns(Arc<Semaphore>);

impl Default for HandshakeTurns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

/// A connection that can be served.
pub(crate) enum Opened {
    Plain(TlsSocket),
    Tls(Box<TlsTransport>),
}

/// A connection that cannot.
pub(crate) struct Refusal {
    pub(crate) error: io::Error,
    /// The socket, if the peer may still read from it.
    pub(crate) stream: Option<TcpStream>,
}

impl Refusal {
    fn new(error: io::Error, socket: TlsSocket) -> Self {
        Self { error, stream: Some(socket.into_tcp()) }
    }
}

/// Finds out what a connection speaks, and shakes hands.
pub(crate) async fn open(
    live: &Arc<LiveTls<ServerTls>>,
    turns: &HandshakeTurns,
    mut socket: TlsSocket,
    peer: IpAddr,
    kind: PortKind,
) -> Result<Opened, Refusal> {
    match socket.look(kind).await {
        Ok(Spoken::Tls) => {}
        Ok(Spoken::Plain) if kind == PortKind::Unified => {
            socket.end_handshake();
            return Ok(Opened::Plain(socket));
        }
        Ok(Spoken::Plain) => {
            let error =
                io::Error::new(io::ErrorKind::InvalidData, "the peer does not speak TLS, as this port does");
            return Err(Refusal::new(error, socket));
        }
        Ok(Spoken::Nothing) => return Err(Refusal::new(io::ErrorKind::UnexpectedEof.into(), socket)),
        Err(error) => return Err(Refusal { error, stream: None }),
    }
    let config = live.current().await;
    let stream = in_turns(turns, config, socket).await?;
    match certificate_of(&stream, live.settings(), peer) {
        Ok(certificate) => Ok(Opened::Tls(Box::new(TlsTransport::new(stream, certificate)))),
        Err(error) => Err(Refusal::new(error, stream.into_inner().0)),
    }
}

/// Shakes hands. What is read is dealt with in turns, and other tasks run between two of them.
async fn in_turns(
    turns: &HandshakeTurns,
    config: Arc<rustls::ServerConfig>,
    mut socket: TlsSocket,
) -> Result<TlsStream<TlsSocket>, Refusal> {
    let held = HeldTurn::default();
    socket.begin_handshake(PollSemaphore::new(Arc::clone(&turns.0)), held.clone());
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
        Err((error, socket)) => Err(Refusal::new(error, socket)),
    }
}

/// The subject of the peer's certificate, if it has one.
fn certificate_of(
    stream: &TlsStream<TlsSocket>,
    settings: &ServerTls,
    peer: IpAddr,
) -> io::Result<Option<Arc<str>>> {
    let chain = stream.get_ref().1.peer_certificates();
    let Some(leaf) = chain.and_then(<[_]>::first) else { return Ok(None) };
    let invalid = |problem| io::Error::new(io::ErrorKind::InvalidData, problem);
    if settings.verifies_client_address() && !names_address(leaf, peer) {
        return Err(invalid("the certificate of the client does not name its address"));
    }
    let subject = subject(leaf).ok_or_else(|| invalid("the certificate of the client cannot be read"))?;
    Ok(Some(subject.into()))
}
