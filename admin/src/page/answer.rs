//! What the API answers: JSON, or an error with a code and a message.

use hyper::StatusCode;
use serde_json::{Value, json};
use zoolet_proto::ErrorCode;

use crate::http::{HttpResponse, ListPermits};

const JSON: &str = "application/json; charset=utf-8";

/// What the API answers to a request, or what it is made of.
pub(super) type ApiResult<T = Value> = Result<T, ApiError>;

pub(super) fn response(answer: &Value) -> HttpResponse {
    HttpResponse::text(StatusCode::OK, JSON, answer.to_string())
}

/// Why a request is refused. The message is for the reader of the page.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) code: String,
    pub(super) message: String,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into() }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "there is nothing at this path")
    }

    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    pub(super) fn read_only() -> Self {
        let message = "this page is read-only: start the admin server as writable to change znodes";
        Self::new(StatusCode::FORBIDDEN, "ReadOnly", message)
    }

    /// The server has stopped, or its log has failed.
    pub(super) fn stopped() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Stopped", "the server has stopped")
    }

    /// Others read what takes as much memory.
    pub(super) fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Busy", ListPermits::NONE)
    }

    /// What the server refuses, as it would refuse a client.
    pub(super) fn refused(code: ErrorCode, path: &str) -> Self {
        let path = path.escape_debug();
        let (status, message) = match code {
            ErrorCode::NoNode => (StatusCode::NOT_FOUND, format!("there is no znode {path}")),
            ErrorCode::NoAuth => {
                (StatusCode::FORBIDDEN, format!("the ACL does not allow this to you: {path}"))
            }
            ErrorCode::BadArguments => (StatusCode::BAD_REQUEST, format!("{path}: {code}")),
            _ => (StatusCode::CONFLICT, format!("{path}: {code}")),
        };
        Self::new(status, &format!("{code:?}"), message)
    }

    pub(super) fn into_response(self) -> HttpResponse {
        let body = json!({ "code": self.code, "message": self.message });
        HttpResponse::text(self.status, JSON, body.to_string())
    }
}
