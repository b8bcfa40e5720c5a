//! What peers of the HTTP server are allowed, with the reason for each value.

use std::time::Duration;

/// Connections at a time, of all peers and of one address. A scraper and a browser need a dozen.
pub(crate) const MAX_CONNECTIONS: usize = 64;
pub(crate) const MAX_CONNECTIONS_PER_ADDRESS: usize = 32;

/// One that has waited for its peer for so long gives way to one more; if there is none, that one is closed at once. Nobody needs as
/// long for a handshake, between two requests or for [`LEAST_MOVED`] bytes of a body as silent connections could keep a scraper out.
pub(crate) const STALLED: Duration = Duration::from_secs(1);

/// Bytes of a request line with its header fields, as Jetty allows. A longer one is answered 431.
pub(crate) const MAX_HEAD: usize = 8 << 10;

/// Header fields of a request.
pub(crate) const MAX_FIELDS: usize = 64;

/// How long a connection may take for the head of its next request, from the answer to the one before (`admin.idleTimeout`); and
/// how long it may take for [`LEAST_MOVED`] bytes of a body, in either direction.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What a peer must take of a response, or send of a body, within the idle timeout, so that one byte a minute is not enough.
pub(crate) const LEAST_MOVED: usize = 16 << 10;

/// What is read of a body that nobody wants, so that its sender sees the answer and not a reset.
pub(crate) const DISCARDED: usize = 1 << 20;
pub(crate) const DISCARD_TIME: Duration = Duration::from_secs(2);

/// How long a connection may take until it has shaken hands, as the clients' port allows.
#[cfg(feature = "tls")]
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// How long requests under way may take after the shutdown of the server begins, and how long peers that send half a request or do
/// not read can delay it.
pub(crate) const FINISH_TIME: Duration = Duration::from_millis(500);

/// Lists that are being made or sent at a time, and how long one more waits. Each may be as large as the state.
pub(crate) const MAX_LISTS: usize = 2;
pub(crate) const LIST_WAIT: Duration = Duration::from_secs(10);

/// How long a list may be sent, so that two readers which take just enough within the idle timeout do not keep it from everybody else
/// for hours. A hundred megabytes take that long at 14 Mbit/s.
pub(crate) const LIST_TIME: Duration = Duration::from_secs(60);

/// Pieces of a stream that wait for the peer.
pub(crate) const PIECES: usize = 2;

/// How long accepting pauses after an error, which most often is a lack of descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections may wait to be accepted.
pub(crate) const BACKLOG: u32 = 128;
