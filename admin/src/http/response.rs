//! [`HttpResponse`]: a status, header fields, and a body that is there or comes piece by piece.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::limits::PIECES;
use super::{HttpRequest, permits};

/// An answer.
pub(crate) struct HttpResponse(pub(super) Response<ResponseBody>);

/// The body of an answer.
pub(super) enum ResponseBody {
    Text(Bytes),
    /// With what it keeps.
    Pieces(mpsc::Receiver<io::Result<Bytes>>, Box<dyn Send>),
}

/// A text with what it keeps, which belongs to the memory and not to the body: hyper drops a body as soon as it has queued the bytes.
struct KeepingText<T> {
    text: Bytes,
    _kept: T,
}

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
        Self::new(status, ResponseBody::Text(body.into()))
    }

    /// An answer whose body is sent while it is made, of `len` bytes if that is known. An error in place of a piece ends the
    /// connection, so that the client does not take a part for the whole.
    pub(crate) fn stream(
        status: StatusCode,
        content_type: &'static str,
        len: Option<u64>,
    ) -> (Self, PieceSender) {
        let (sender, pieces) = mpsc::channel(PIECES);
        let response = Self::new(status, ResponseBody::Pieces(pieces, Box::new(())));
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

    fn new(status: StatusCode, body: ResponseBody) -> Self {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        Self(response)
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().insert(name, value);
        self
    }

    /// Keeps a permit for the memory of the text until that is sent, which may not take longer than
    /// [`LIST_TIME`](super::limits::LIST_TIME).
    pub(crate) fn holding(self, permit: Option<OwnedSemaphorePermit>, request: &HttpRequest) -> Self {
        match permit {
            Some(permit) => self.keeping(permits::bounded(permit, request)),
            None => self,
        }
    }

    /// Keeps something until the body is sent, or the connection has ended.
    pub(super) fn keeping(self, kept: impl Send + 'static) -> Self {
        Self(self.0.map(|body| match body {
            ResponseBody::Text(text) => {
                ResponseBody::Text(Bytes::from_owner(KeepingText { text, _kept: kept }))
            }
            ResponseBody::Pieces(pieces, keeping) => ResponseBody::Pieces(pieces, Box::new((keeping, kept))),
        }))
    }
}

impl<T> AsRef<[u8]> for KeepingText<T> {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Text(text) if text.is_empty() => Poll::Ready(None),
            Self::Text(text) => Poll::Ready(Some(Ok(Frame::data(mem::take(text))))),
            Self::Pieces(pieces, _) => {
                pieces.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.len() as u64),
            Self::Pieces(..) => SizeHint::default(),
        }
    }
}
