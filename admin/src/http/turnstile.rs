//! [`Turnstile`]: what HTTP may cost the clients of the ZooKeeper server, which share its runtime.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::Semaphore;
use tokio::task::yield_now;

use super::request::{HttpBody, HttpRequest};
use super::service::{Answering, HttpHandler};

/// Works on one request at a time, and lets the runtime serve everybody else before the next one; a request that waits lets the next
/// one through. So at most one stands before a client's request, however many have come.
pub(super) struct Turnstile {
    handler: Arc<dyn HttpHandler>,
    turn: Semaphore,
}

impl Turnstile {
    pub(super) fn new(handler: Arc<dyn HttpHandler>) -> Self {
        Self { handler, turn: Semaphore::new(1) }
    }
}

impl HttpHandler for Turnstile {
    fn handle<'r>(&'r self, request: HttpRequest, body: &'r mut HttpBody) -> Answering<'r> {
        Box::pin(async move {
            let mut work = self.handler.handle(request, body);
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
        })
    }
}
