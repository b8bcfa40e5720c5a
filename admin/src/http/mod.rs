//! HTTP/1.1 for the admin server, the metrics endpoint and the page: a listener, its connections, requests and responses.
//!
//! What a peer decides is bounded: the number of its connections, the bytes of a head and the time for it, the pace of a body and of
//! reading a response, and the bytes that a stream holds. See [`limits`]. The bytes of a body are for its reader to bound; those of a
//! restore are not.
//!
//! What Jetty does before Apache's servlets see a request is done here, by [`service`]: the answers to other methods than GET and POST,
//! and to requests without a host.

mod connection;
pub(crate) mod limits;
mod listener;
mod paced;
mod permits;
mod request;
mod response;
#[cfg(feature = "tls")]
mod secure;
mod service;
mod sites;
mod slots;
#[cfg(test)]
mod tests;

pub(crate) use listener::HttpServer;
pub(crate) use permits::ListPermits;
pub(crate) use request::{HttpBody, HttpRequest};
pub(crate) use response::{HttpResponse, PieceSender};
#[cfg(feature = "tls")]
pub(crate) use secure::Https;
pub(crate) use service::{Answering, HttpHandler};
pub(crate) use sites::{AskedHost, without_port};

/// Without the feature there is none.
#[cfg(not(feature = "tls"))]
pub(crate) enum Https {}
