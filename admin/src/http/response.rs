//! [`HttpResponse`]: a status, header fields, and a body that is there or comes piece by piece.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;

use super::limits::PIECES;

/// An answer.
pub(crate) struct HttpResponse(pub(super) Response<ResponseBody>);

/// The body of an answer.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, io::Error>;

/// Where the pieces of a streamed body are sent to. Dropping it ends the body. Sending waits for the client, and fails if that is
/// gone.
pub(crate) type PieceSender = mpsc::Sender<io::Result<Bytes>>;

impl HttpResponse {
    /// An answer without a body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self::untyped(status, Bytes::new())
    }

    /// An answer of this content type.
    pub(crate) fn text(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self::untyped(status, body).with_header(CONTENT_TYPE, HeaderValue::from_static(content_type))
    }

    /// An answer without a content type, as the list of commands is.
    pub(crate) fn untyped(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::new(status, Full::new(body.into()).map_err(|never| match never {}))
    }

    /// An answer whose body is sent while it is made, of `len` bytes if that is known. An error in place of a piece ends the
    /// connection, so that the client does not take a part for the whole.
    pub(crate) fn stream(
        status: StatusCode,
        content_type: &'static str,
        len: Option<u64>,
    ) -> (Self, PieceSender) {
        let (sender, pieces) = mpsc::channel(PIECES);
        let response = Self::new(status, Pieces(pieces));
        let response = match len {
            Some(len) => response.with_header(CONTENT_LENGTH, HeaderValue::from(len)),
            None => response,
        };
        (response.with_header(CONTENT_TYPE, HeaderValue::from_static(content_type)), sender)
    }

    /// The page that Jetty sends with an error.
    pub(crate) fn error_page(status: StatusCode, path: &str) -> Self {
        let path =
            path.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        let (code, reason) = (status.as_str(), status.canonical_reason().unwrap_or_default());
        let page = format!(
            "<html>\n<head>\n<meta http-equiv=\"Content-Type\" content=\"text/html;charset=utf-8\"/>\n\
             <title>Error {code} {reason}</title>\n</head>\n<body><h2>HTTP ERROR {code} {reason}</h2>\n<table>\n\
             <tr><th>URI:</th><td>{path}</td></tr>\n<tr><th>STATUS:</th><td>{code}</td></tr>\n\
             <tr><th>MESSAGE:</th><td>{reason}</td></tr>\n</table>\n\n</body>\n</html>\n"
        );
        Self::text(status, "text/html;charset=utf-8", page)
    }

    fn new(status: StatusCode, body: impl Body<Data = Bytes, Error = io::Error> + Send + 'static) -> Self {
        let mut response = Response::new(body.boxed_unsync());
        *response.status_mut() = status;
        Self(response)
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().insert(name, value);
        self
    }

    /// Keeps something until the body is sent or the connection has ended: a permit for the memory that it takes.
    pub(crate) fn holding(self, held: impl Send + 'static) -> Self {
        // The body owns its functions, and with this one what it holds.
        let holding = move |error| {
            let _ = &held;
            error
        };
        Self(self.0.map(|body| body.map_err(holding).boxed_unsync()))
    }
}

/// The body of a stream.
struct Pieces(mpsc::Receiver<io::Result<Bytes>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}
