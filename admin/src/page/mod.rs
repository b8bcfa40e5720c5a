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
        // Tens of thousands of paths are looked at, and thousands are sent.
        let permit = match name {
            "locks" => Some(self.lists.take().await.ok_or_else(ApiError::busy)?),
            _ => None,
        };
        let answer = answer::response(&self.call(name, request, body).await?);
        Ok(answer.holding(permit, request))
    }

    async fn call(&self, name: &str, request: &HttpRequest, body: &mut HttpBody) -> ApiResult {
        let is_write = matches!(name, "create" | "set" | "delete");
        if request.is_post != is_write {
            return Err(ApiError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "Method",
                "another method is expected here",
            ));
        }
        let reader = Reader::of(request, &self.observer).await?;
        match name {
            "server" => load::server(&reader, self.is_writable).await,
            "load" => load::load(&self.observer, request).await,
            "znode" => znodes::znode(&reader, request).await,
            "children" => znodes::children(&reader, request).await,
            "search" => znodes::search(&reader, request).await,
            "sessions" => sessions::sessions(&reader, request).await,
            "session" => sessions::session(&reader, request).await,
            "locks" => locks::locks(&reader).await,
            "transactions" => transactions::transactions(&reader, request).await,
            _ if is_write => {
                guard::write(request)?;
                if !self.is_writable {
                    return Err(ApiError::read_only());
                }
                writes::write(name, &reader, body).await
            }
            _ => Err(ApiError::not_found()),
        }
    }
}
