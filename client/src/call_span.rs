//! [`CallSpan`]: the span of a call, with the names of OpenTelemetry's conventions for databases.

use tracing::field::{Empty, display};
use zoolet_proto::Request;
use zoolet_proto::records::Op;

use crate::chroot::Chroot;
use crate::context::name;
use crate::error::Error;
use crate::state::SharedState;

/// The span of a call, from its submission to its outcome.
#[derive(Debug)]
pub(crate) struct CallSpan(tracing::Span);

impl CallSpan {
    /// `None`, at the price of a load, if nobody listens.
    #[inline]
    pub(crate) fn begin(request: &Request, chroot: &Chroot, shared: &SharedState) -> Option<Self> {
        if !tracing::enabled!(target: "zoolet_client", tracing::Level::DEBUG) {
            return None;
        }
        Self::new(request, chroot, shared)
    }

    #[cold]
    fn new(request: &Request, chroot: &Chroot, shared: &SharedState) -> Option<Self> {
        let operation = operation_name(request);
        // A path is never a part of the name: there would be as many names as znodes.
        let span = tracing::debug_span!(
            target: "zoolet_client",
            "call",
            otel.name = %operation,
            otel.kind = "client",
            otel.status_code = Empty,
            db.system.name = "zookeeper",
            db.operation.name = %operation,
            db.operation.batch.size = Empty,
            db.namespace = Empty,
            db.response.status_code = Empty,
            "error.type" = Empty,
            server.address = Empty,
            server.port = Empty,
        );
        if span.is_disabled() {
            return None;
        }
        if let Some(size) = batch(request).map(<[Op]>::len).filter(|size| *size > 1) {
            span.record("db.operation.batch.size", size);
        }
        if !chroot.as_str().is_empty() {
            span.record("db.namespace", chroot.as_str());
        }
        if let Some((host, port)) = shared.server().as_deref().and_then(|server| server.rsplit_once(':')) {
            span.record("server.address", host.trim_matches(['[', ']']));
            span.record("server.port", port.parse::<u16>().unwrap_or_default());
        }
        Some(Self(span))
    }

    /// The outcome is known, and the span is over.
    pub(crate) fn end<T>(self, outcome: &Result<T, Error>) {
        let (Self(span), Err(error)) = (self, outcome) else { return };
        span.record("otel.status_code", "ERROR");
        match error.code() {
            Some(code) => {
                let code = display(code.code());
                span.record("db.response.status_code", &code);
                span.record("error.type", &code);
            }
            None => _ = span.record("error.type", "_OTHER"),
        }
    }
}

/// The operations of a multi or a multiRead.
fn batch(request: &Request) -> Option<&[Op]> {
    match request {
        Request::Multi(ops) | Request::MultiRead(ops) => Some(ops),
        _ => None,
    }
}

/// `create`, `multi`; and `BATCH create` for a multi of creates.
fn operation_name(request: &Request) -> String {
    let of = |op: &Op| name(op.op());
    match batch(request) {
        Some([first, rest @ ..]) if !rest.is_empty() && rest.iter().all(|op| of(op) == of(first)) => {
            format!("BATCH {}", of(first))
        }
        _ => name(request.op()).to_owned(),
    }
}
