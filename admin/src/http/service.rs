//! From a request of hyper to an answer: what Jetty decides before Apache's servlets, then the [`HttpHandler`].

use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ALLOW, HOST, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};

use super::limits::{DISCARD_TIME, DISCARDED};
use super::listener::Serving;
use super::request::{HttpBody, HttpClient, HttpRequest, arguments, percent_decoded};
use super::response::{HttpResponse, ResponseBody};

/// What answers requests. The future is dropped if the client is gone, or at the latest a while after the server began to stop.
pub(crate) trait HttpHandler: Send + Sync + 'static {
    /// The answer to a GET or a POST.
    fn handle<'r>(&'r self, request: HttpRequest, body: &'r mut HttpBody) -> Answering<'r>;
}

pub(crate) type Answering<'r> = Pin<Box<dyn Future<Output = HttpResponse> + Send + 'r>>;

/// Answers a request.
pub(super) async fn answer(
    serving: &Serving,
    request: Request<Incoming>,
    client: HttpClient,
) -> Response<ResponseBody> {
    let under_way = client.connection.begin();
    let (parts, incoming) = request.into_parts();
    let mut body = HttpBody::new(incoming, Arc::clone(&client.connection), serving.idle_timeout);
    let is_secure = client.is_secure;
    let refusal = serving.hosts.refusal(&parts, &client).or_else(|| refusal(&parts));
    let response = match refusal {
        Some(response) => response,
        None => match percent_decoded(parts.uri.path(), false) {
            None => HttpResponse::error_page(StatusCode::BAD_REQUEST, parts.uri.path()),
            Some(path) => {
                let query = arguments(parts.uri.query().unwrap_or_default());
                let is_post = parts.method == Method::POST;
                let (host, headers) = (serving.hosts.asked(&parts.headers), parts.headers);
                let tasks = serving.tasks.clone();
                let request = HttpRequest { is_post, path, query, headers, host, client, tasks };
                serving.stepper.run(serving.handler.handle(request, &mut body), |_| {}).await
            }
        },
    };
    let response = if is_secure {
        let policy = HeaderValue::from_static("max-age=86400; includeSubDomains");
        response.with_header(HeaderName::from_static("strict-transport-security"), policy)
    } else {
        response
    };
    body.discard(DISCARDED, DISCARD_TIME).await;
    // The answer to a HEAD has the length of the body, which hyper drops.
    response.keeping(under_way).0
}

/// The answer to what the handler is not asked: everything but GET, HEAD and POST, and a request that does not say to whom.
fn refusal(parts: &hyper::http::request::Parts) -> Option<HttpResponse> {
    if parts.version == Version::HTTP_11 && !parts.headers.contains_key(HOST) {
        return Some(HttpResponse::error_page(StatusCode::BAD_REQUEST, parts.uri.path()));
    }
    match parts.method {
        Method::GET | Method::HEAD | Method::POST => None,
        Method::OPTIONS => {
            let methods = HeaderValue::from_static("GET, HEAD, POST, TRACE, OPTIONS");
            Some(HttpResponse::empty(StatusCode::OK).with_header(ALLOW, methods))
        }
        Method::TRACE => Some(HttpResponse::empty(StatusCode::FORBIDDEN)),
        _ => Some(HttpResponse::empty(StatusCode::METHOD_NOT_ALLOWED)),
    }
}
