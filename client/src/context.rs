//! What an error is about: the operation and path of a request, and whether it may have been executed.

use std::fmt;

use std::sync::Arc;

use zoolet_proto::{OpCode, OpKind, Request};

use crate::chroot::Chroot;
use crate::connection_error::ConnectionError;

/// The call that an [`Error`](crate::Error) belongs to, displayed as `setData /a`.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorContext {
    operation: &'static str,
    path: String,
    may_have_applied: bool,
    detail: Option<ErrorDetail>,
}

/// The parent that is missing, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingParent {
    pub(crate) path: String,
    pub(crate) advice: &'static str,
}

/// What else is known about an error. Displayed after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ErrorDetail {
    /// Why there was no connection.
    Connection(ConnectionError),
    /// A create was refused because there is no parent. Boxed, to keep errors small.
    MissingParent(Box<MissingParent>),
    /// What the server did not say, such as the version that the call expected.
    Hint(Arc<str>),
}

impl ErrorContext {
    /// For a request. `sent` is whether a server may have received it.
    pub(crate) fn of(request: &Request, sent: bool, chroot: &Chroot) -> Self {
        let path = request.path().filter(|path| !path.is_empty()).map_or("", |path| chroot.strip(path));
        let op = request.op();
        let may_have_applied = sent && has_side_effects(op);
        Self { may_have_applied, ..Self::local(name(op), path) }
    }

    /// For a request that may or may not have been sent.
    pub(crate) fn unanswered(op: OpCode) -> Self {
        Self { may_have_applied: has_side_effects(op), ..Self::local(name(op), "") }
    }

    /// For something that is never sent.
    pub(crate) fn local(operation: &'static str, path: impl Into<String>) -> Self {
        Self { operation, path: path.into(), may_have_applied: false, detail: None }
    }

    /// For several requests, of which a part may have been executed.
    pub(crate) fn possibly_applied(self) -> Self {
        Self { may_have_applied: true, ..self }
    }

    /// With what else is known.
    pub(crate) fn with(self, detail: impl Into<Option<ErrorDetail>>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// With other advice about a missing parent, if that is what it reports.
    pub(crate) fn set_parent_advice(&mut self, new: &'static str) {
        if let Some(ErrorDetail::MissingParent(parent)) = &mut self.detail {
            parent.advice = new;
        }
    }

    /// With the reason why there was no connection, if that is known.
    pub(crate) fn because_of(self, last: Option<ConnectionError>) -> Self {
        self.with(last.map(ErrorDetail::Connection))
    }

    /// With a hint.
    pub(crate) fn hint(self, hint: impl Into<Arc<str>>) -> Self {
        self.with(ErrorDetail::Hint(hint.into()))
    }

    /// The name of the operation as ZooKeeper spells it, such as `setData`; `watch` for a watch.
    pub fn operation(&self) -> &str {
        self.operation
    }

    /// The path as the caller sees it; empty for an operation without one.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Why there was no connection.
    pub(crate) fn connection_error(&self) -> Option<&ConnectionError> {
        match &self.detail {
            Some(ErrorDetail::Connection(error)) => Some(error),
            _ => None,
        }
    }

    /// What else is known, as the end of a message.
    pub(crate) fn detail(&self) -> String {
        self.detail.as_ref().map_or_else(String::new, |detail| format!("; {detail}"))
    }

    /// Whether it is a write that a server may have received.
    pub(crate) fn may_have_applied(&self) -> bool {
        self.may_have_applied
    }
}

impl fmt::Display for ErrorDetail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => write!(f, "last connection error: {error}"),
            Self::MissingParent(parent) => {
                write!(f, "its parent {} does not exist, {}", parent.path, parent.advice)
            }
            Self::Hint(hint) => f.write_str(hint),
        }
    }
}

// All that is known, because an error that `main` returns is printed by `Debug`.
impl fmt::Debug for ErrorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}{}", self.detail())
    }
}

impl fmt::Display for ErrorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(self.operation),
            path => write!(f, "{} {path}", self.operation),
        }
    }
}

/// Whether an operation changes a znode, or what the server keeps for the session.
fn has_side_effects(op: OpCode) -> bool {
    op.kind() != OpKind::Read
}

/// The name of the call that sends the opcode.
pub(crate) fn name(op: OpCode) -> &'static str {
    match op {
        OpCode::Create2 => "create",
        OpCode::GetChildren2 => "getChildren",
        OpCode::SetWatches2 => "setWatches",
        OpCode::Auth => "addAuth",
        _ => op.name(),
    }
}
