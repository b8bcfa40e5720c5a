//! [`HttpResponse`]: a status, header fields, and a body that is there or comes piece by piece.

use std::any::Any;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;

use super::limits::PIECES;

/// An answer.
pub(crate) struct HttpResponse {
    status: StatusCode,
    headers: HeaderMap,
    body: ResponseBody,
}

/// Where the pieces of a streamed body are sent to. Dropping it ends the body. Sending waits for the client, and fails if that is
/// gone.
pub(crate) type PieceSender = mpsc::Sender<io::Result<Bytes>>;

impl HttpResponse {
    /// An answer without a body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self::new(status, Content::Fixed(None))
    }

    /// An answer of this content type.
    pub(crate) fn text(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        let response = Self::new(status, Content::Fixed(Some(body.into())));
        response.with_header(CONTENT_TYPE, HeaderValue::from_static(content_type))
    }

    /// An answer without a content type, as the list of commands is.
    pub(crate) fn untyped(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::new(status, Content::Fixed(Some(body.into())))
    }

    /// An answer whose body is sent while it is made, of `len` bytes if that is known. An error in place of a piece ends the
    /// connection, so that the client does not take a part for the whole.
    pub(crate) fn stream(
        status: StatusCode,
        content_type: &'static str,
        len: Option<u64>,
    ) -> (Self, PieceSender) {
        let (sender, pieces) = mpsc::channel(PIECES);
        let response = Self::new(status, Content::Stream { pieces, left: len });
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

    fn new(status: StatusCode, content: Content) -> Self {
        Self { status, headers: HeaderMap::new(), body: ResponseBody { content, _held: None } }
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Keeps something until the body is sent or the connection has ended: a permit for the memory that it takes.
    pub(crate) fn holding(mut self, held: impl Any + Send) -> Self {
        self.body._held = Some(Box::new(held));
        self
    }

    pub(super) fn into_hyper(self) -> Response<ResponseBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// The body of an answer.
pub(super) struct ResponseBody {
    content: Content,
    _held: Option<Box<dyn Any + Send>>,
}

enum Content {
    Fixed(Option<Bytes>),
    Stream { pieces: mpsc::Receiver<io::Result<Bytes>>, left: Option<u64> },
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.content {
            Content::Fixed(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Content::Stream { pieces, left } => pieces.poll_recv(cx).map(|piece| {
                let piece = piece?;
                if let (Ok(piece), Some(left)) = (&piece, left) {
                    *left = left.saturating_sub(piece.len() as u64);
                }
                Some(piece.map(Frame::data))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Fixed(body) => body.as_ref().is_none_or(Bytes::is_empty),
            Content::Stream { left, .. } => *left == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Fixed(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Content::Stream { left, .. } => left.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
