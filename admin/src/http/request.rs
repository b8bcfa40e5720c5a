//! [`HttpRequest`], with its path and its arguments decoded, and [`HttpBody`], read piece by piece.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName};
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use super::limits::LEAST_MOVED;
use super::sites::AskedHost;
use super::slots::ConnectionState;

/// A request, without its body.
#[derive(Debug)]
pub(crate) struct HttpRequest {
    /// Otherwise it is a GET, or a HEAD, whose answer is sent without its body.
    pub(crate) is_post: bool,
    /// Percent-decoded; begins with a slash.
    pub(crate) path: String,
    /// The arguments in their order, decoded.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) host: AskedHost,
    pub(crate) client: HttpClient,
    /// For what goes on beside the answer: a shutdown waits for it.
    pub(crate) tasks: TaskTracker,
}

/// Where a request comes from.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient {
    pub(crate) addr: SocketAddr,
    /// Whether it came by HTTPS.
    pub(crate) is_secure: bool,
    /// The subject of the certificate that the client has proved to own, as Java writes it.
    pub(crate) certificate: Option<Arc<str>>,
    pub(super) connection: Arc<ConnectionState>,
}

impl HttpRequest {
    /// The first argument of this name.
    pub(crate) fn argument(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// The first header field of this name, if it is text.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// The body of a request.
pub(crate) struct HttpBody {
    incoming: Incoming,
    connection: Arc<ConnectionState>,
    /// In which time the client must send [`LEAST_MOVED`] bytes, or the end.
    timeout: Duration,
    /// What is left of that time, which runs while the body is waited for, and what was sent in it.
    left: Duration,
    sent: usize,
}

/// Why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the client has sent fewer than {LEAST_MOVED} bytes in {0:?}")]
    Slow(Duration),
    #[error("the body is longer than {0} bytes")]
    TooLong(usize),
    #[error("the connection has ended within the body: {0}")]
    Broken(#[from] hyper::Error),
}

impl HttpBody {
    pub(super) fn new(incoming: Incoming, connection: Arc<ConnectionState>, timeout: Duration) -> Self {
        Self { incoming, connection, timeout, left: timeout, sent: 0 }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// If the connection ends before, or the client sends too little within the idle timeout.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let begun = Instant::now();
            self.connection.wait.note(false);
            let frame = timeout(self.left, self.incoming.frame()).await;
            self.connection.wait.note(true);
            let frame = frame.map_err(|_| BodyError::Slow(self.timeout))?;
            self.left = self.left.saturating_sub(begun.elapsed());
            match frame.transpose()? {
                None => return Ok(None),
                // Trailers are of no interest.
                Some(frame) => {
                    if let Ok(piece) = frame.into_data() {
                        self.sent += piece.len();
                        if self.sent >= LEAST_MOVED {
                            (self.left, self.sent) = (self.timeout, 0);
                            self.connection.wait.restart(true);
                        }
                        return Ok(Some(piece));
                    }
                }
            }
        }
    }

    /// All of it, if it has at most `max` bytes.
    ///
    /// # Errors
    /// As [`next`](Self::next), or if it is longer.
    pub(crate) async fn collect(&mut self, max: usize) -> Result<Bytes, BodyError> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.next().await? {
            if all.len() + piece.len() > max {
                return Err(BodyError::TooLong(max));
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    /// Reads what is left, up to a limit, and throws it away.
    pub(super) async fn discard(&mut self, max: usize, time: Duration) {
        use hyper::body::Body as _;
        let mut left = max;
        let discard = async {
            while !self.incoming.is_end_stream() {
                let Ok(Some(piece)) = self.next().await else { return };
                let Some(rest) = left.checked_sub(piece.len()) else { return };
                left = rest;
            }
        };
        // What is still missing then closes the connection.
        let _ = timeout(time, discard).await;
        self.connection.wait.note(true);
    }
}

/// Decodes `%2F` and the like; `None` if that gives no text. In arguments a `+` is a blank.
pub(super) fn percent_decoded(text: &str, is_argument: bool) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            b'+' if is_argument => b' ',
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

/// The arguments of a query, in their order. One that does not decode is left out.
pub(super) fn arguments(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let decode = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((percent_decoded(name, true)?, percent_decoded(value, true)?))
    };
    pairs.filter_map(decode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_arguments_are_decoded() {
        for (text, path, argument) in [
            ("/a%2Fb%20c", Some("/a/b c"), Some("/a/b c")),
            ("/a+b", Some("/a+b"), Some("/a b")),
            ("%C3%A4", Some("ä"), Some("ä")),
            ("%", None, None),
            ("%4", None, None),
            ("%zz", None, None),
            ("%+1", None, None),
            ("%ff", None, None),
        ] {
            assert_eq!(percent_decoded(text, false).as_deref(), path, "{text}");
            assert_eq!(percent_decoded(text, true).as_deref(), argument, "{text}");
        }
        let pairs = [("a", "1"), ("a", "2"), ("b", ""), ("c d", "=")];
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(arguments("a=1&a=2&&b&c+d=%3D&x=%zz"), pairs);
    }
}
