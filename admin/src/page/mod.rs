//! The page of an admin server at `/`, and the API under `/api/` that it uses.
//!
//! What it shows is read with the identities that a request proves, in slices of some hundred entries, so that no client of the server
//! waits for it. ACLs hold as for any client. Everything that it answers is bounded in number and in bytes.

mod answer;
mod assets;
mod guard;
mod load;
mod locks;
mod sessions;
mod short_session;
mod transactions;
mod visible;
mod writes;
mod znodes;

use hyper::StatusCode;
use zoolet_server::Observer;

use self::answer::{ApiError, ApiResult};
use self::visible::Reader;
use crate::http::{HttpBody, HttpRequest, HttpResponse, ListPermits};

/// Where the API is.
const API: &str = "/api/";

/// The page of one server.
#[derive(Debug)]
pub(crate) struct Page {
    observer: Observer,
    is_writable: bool,
    lists: ListPermits,
}

impl Page {
    /// The page of a server, which may change znodes if it is writable.
    pub(crate) fn new(observer: Observer, is_writable: bool, lists: ListPermits) -> Self {
        Self { observer, is_writable, lists }
    }

    /// Whether it answers this path.
    pub(crate) fn has(path: &str) -> bool {
        path.starts_with(API) || assets::find(path).is_some()
    }

    /// The answer to a request for one of its paths.
    pub(crate) async fn respond(&self, request: &HttpRequest, body: &mut HttpBody) -> HttpResponse {
        let answer = self.answer(request, body).await;
        guard::protected(answer.unwrap_or_else(ApiError::into_response))
    }

    async fn answer(&self, request: &HttpRequest, body: &mut HttpBody) -> ApiResult<HttpResponse> {
        guard::host(request)?;
        let Some(name) = request.path.strip_prefix(API) else {
            return assets::find(&request.path).ok_or_else(ApiError::not_found);
        };
        let is_write = matches!(name, "create" | "set" | "delete");
        if request.is_post != is_write {
            return Err(ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "Method",
                "another method is expected here",
            ));
        }
        let reader = Reader::of(request, &self.observer).await?;
        let mut permit = None;
        let answer = match name {
            "server" => load::server(&reader, self.is_writable).await,
            "load" => load::load(&self.observer, request).await,
            "znode" => znodes::znode(&reader, request).await,
            "children" => znodes::children(&reader, request).await,
            "search" => znodes::search(&reader, request).await,
            "sessions" => sessions::sessions(&reader, request).await,
            "session" => sessions::session(&reader, request).await,
            "locks" => {
                // Tens of thousands of paths are looked at, and thousands are sent.
                permit = Some(self.lists.take().await.ok_or_else(ApiError::busy)?);
                locks::locks(&reader).await
            }
            "transactions" => transactions::transactions(&reader, request).await,
            _ if is_write => {
                guard::write(request)?;
                if !self.is_writable {
                    return Err(ApiError::read_only());
                }
                writes::write(name, &reader, body).await
            }
            _ => Err(ApiError::not_found()),
        };
        Ok(answer::response(&answer?).holding(permit, request))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::time::Instant;
    use zoolet_server::Server;

    use super::*;
    use crate::http::limits::{IDLE_TIMEOUT, LIST_WAIT};
    use crate::http::{Answering, HttpHandler, HttpServer};

    impl HttpHandler for Page {
        fn handle<'r>(&'r self, request: HttpRequest, body: &'r mut HttpBody) -> Answering<'r> {
            Box::pin(async move { self.respond(&request, body).await })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_gets_no_list_does_not_wait_for_those_of_others() {
        let server = Server::builder().bind("127.0.0.1:0").start().await.expect("a server");
        let lists = ListPermits::new();
        let page = Page::new(server.observer(), false, lists.clone());
        let http = HttpServer::start("127.0.0.1:0", &[], IDLE_TIMEOUT, page, None).await.expect("a port");
        let _others = [lists.take().await, lists.take().await];
        for (method, field, status) in
            [("POST", "", "405"), ("GET", "Authorization: Basic dTpw\r\n", "401"), ("GET", "", "503")]
        {
            let begun = Instant::now();
            let mut stream = TcpStream::connect(http.addr()).await.expect("a connection");
            let request = format!("{method} /api/locks HTTP/1.1\r\nHost: localhost\r\n{field}\r\n");
            stream.write_all(request.as_bytes()).await.expect("sent");
            let mut got = [0; 12];
            stream.read_exact(&mut got).await.expect("a status");
            let (status_got, has_waited) = (&got[9..], begun.elapsed() >= LIST_WAIT);
            assert_eq!((status_got, has_waited), (status.as_bytes(), status == "503"), "{method} {field}");
        }
    }
}
