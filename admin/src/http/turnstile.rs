//! [`Turnstile`]: what HTTP may cost the clients of the ZooKeeper server, which share its runtime.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::Semaphore;
use tokio::task::yield_now;

use super::request::{HttpBody, HttpRequest};
use super::response::HttpResponse;
use super::service::HttpHandler;

/// Works on one request at a time, and lets the runtime serve everybody else before the next one; a request that waits lets the next
/// one through. So at most one stands before a client's request, however many have come.
pub(super) struct Turnstile<H> {
    handler: Arc<H>,
    turn: Semaphore,
}

impl<H> Turnstile<H> {
    pub(super) fn new(handler: Arc<H>) -> Self {
        Self { handler, turn: Semaphore::new(1) }
    }
}

impl<H: HttpHandler> HttpHandler for Turnstile<H> {
    async fn handle(&self, request: HttpRequest, body: &mut HttpBody) -> HttpResponse {
        let mut work = pin!(self.handler.handle(request, body));
        let turn = self.turn.acquire().await;
        // What an answer costs, it costs before it waits for the first time.
        let first = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
        // Without this, hyper goes on with the requests that are there until the socket is full.
        yield_now().await;
        drop(turn);
        match first {
            Poll::Ready(response) => response,
            Poll::Pending => work.await,
        }
    }
}
