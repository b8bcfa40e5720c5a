//! One connection: requests one after the other, until it is closed, idle for too long, or the server stops.

use std::convert::Infallible;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::limits::{FINISH_TIME, MAX_FIELDS, MAX_HEAD};
use super::listener::Serving;
use super::paced::Paced;
use super::request::HttpClient;
use super::service;

/// Serves a connection to its end.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    client: HttpClient,
    serving: &Serving,
) {
    let peer = client.addr;
    // Every failure is an answer.
    let answer = service_fn(|request| async {
        Ok::<_, Infallible>(service::answer(serving, request, client.clone()).await)
    });
    let io = TokioIo::new(Paced::new(stream, serving.idle_timeout));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(serving.idle_timeout)
        .max_headers(MAX_FIELDS)
        .max_buf_size(MAX_HEAD);
    let connection = builder.serve_connection(io, answer);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = serving.stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            // What is not finished by then is dropped.
            timeout(FINISH_TIME, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        // A peer can cause any number of these.
        tracing::debug!(%peer, %error, "an HTTP connection has failed");
    }
}
