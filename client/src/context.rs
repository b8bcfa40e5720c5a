//! What a request is about, for messages and for telling reads from writes.

use std::fmt;

use zoolet_proto::{OpCode, Request, records::Op};

use crate::chroot::Chroot;

/// The call an [`Error`](crate::Error) belongs to: its operation, its path, and how far it had come.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorContext {
    operation: &'static str,
    path: String,
    may_have_applied: bool,
}

impl ErrorContext {
    /// Of a request that has been sent, or has not.
    pub(crate) fn of(request: &Request, sent: bool, chroot: &Chroot) -> Self {
        let path = match path_of(request) {
            "" => "",
            path => chroot.strip(path),
        };
        let op = request.op();
        Self { operation: name(op), path: path.to_owned(), may_have_applied: sent && has_side_effects(op) }
    }

    /// Of a request of which nobody knows how far it came.
    pub(crate) fn unanswered(op: OpCode) -> Self {
        Self { operation: name(op), path: String::new(), may_have_applied: has_side_effects(op) }
    }

    /// Of one operation inside a multi that was refused as a whole.
    pub(crate) fn of_multi_op(op: &Op, chroot: &Chroot) -> Self {
        let (op, path) = match op {
            Op::Create(create) => (OpCode::Create, &create.path),
            Op::Create2(create) => (OpCode::Create2, &create.path),
            Op::CreateContainer(create) => (OpCode::CreateContainer, &create.path),
            Op::CreateTtl(create) => (OpCode::CreateTtl, &create.path),
            Op::Delete(delete) => (OpCode::Delete, &delete.path),
            Op::SetData(set) => (OpCode::SetData, &set.path),
            Op::Check(check) => (OpCode::Check, &check.path),
            Op::GetData(get) => (OpCode::GetData, &get.path),
            Op::GetChildren(get) => (OpCode::GetChildren, &get.path),
        };
        Self::local(name(op), chroot.strip(path))
    }

    /// Of something that never leaves the client.
    pub(crate) fn local(operation: &'static str, path: impl Into<String>) -> Self {
        Self { operation, path: path.into(), may_have_applied: false }
    }

    /// The name of the operation as ZooKeeper spells it, such as `setData`; `watch` for a watch.
    pub fn operation(&self) -> &str {
        self.operation
    }

    /// The path as the caller gave it; empty for an operation without one.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether it is a write that a server may have received.
    pub(crate) fn may_have_applied(&self) -> bool {
        self.may_have_applied
    }
}

// As it is displayed: an error that ends a `main` is printed by `Debug`.
impl fmt::Debug for ErrorContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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

/// Whether an operation may leave a trace, so that it must not be sent twice.
pub(crate) fn is_write(op: OpCode) -> bool {
    use OpCode::*;
    matches!(
        op,
        Create
            | Create2
            | CreateContainer
            | CreateTtl
            | Delete
            | DeleteContainer
            | SetData
            | SetAcl
            | Multi
            | Reconfig
            | CloseSession
    )
}

/// Whether an operation changes anything: a znode, or what the server keeps of the session.
fn has_side_effects(op: OpCode) -> bool {
    is_write(op) || matches!(op, OpCode::RemoveWatches | OpCode::Auth)
}

fn name(op: OpCode) -> &'static str {
    match op {
        OpCode::Create | OpCode::Create2 => "create",
        OpCode::CreateContainer => "createContainer",
        OpCode::CreateTtl => "createTTL",
        OpCode::Delete => "delete",
        OpCode::DeleteContainer => "deleteContainer",
        OpCode::Exists => "exists",
        OpCode::GetData => "getData",
        OpCode::SetData => "setData",
        OpCode::GetAcl => "getACL",
        OpCode::SetAcl => "setACL",
        OpCode::GetChildren | OpCode::GetChildren2 => "getChildren",
        OpCode::GetAllChildrenNumber => "getAllChildrenNumber",
        OpCode::GetEphemerals => "getEphemerals",
        OpCode::Sync => "sync",
        OpCode::Check => "check",
        OpCode::Multi => "multi",
        OpCode::MultiRead => "multiRead",
        OpCode::Reconfig => "reconfig",
        OpCode::CheckWatches => "checkWatches",
        OpCode::RemoveWatches => "removeWatches",
        OpCode::AddWatch => "addWatch",
        OpCode::SetWatches | OpCode::SetWatches2 => "setWatches",
        OpCode::Auth => "addAuth",
        OpCode::Sasl => "sasl",
        OpCode::WhoAmI => "whoAmI",
        OpCode::Ping => "ping",
        OpCode::CreateSession => "createSession",
        OpCode::CloseSession => "closeSession",
    }
}

fn path_of(request: &Request) -> &str {
    match request {
        Request::Create(create) | Request::Create2(create) | Request::CreateContainer(create) => &create.path,
        Request::CreateTtl(create) => &create.path,
        Request::Delete(delete) => &delete.path,
        Request::DeleteContainer(delete) => &delete.path,
        Request::Exists(exists) => &exists.path,
        Request::GetData(get) => &get.path,
        Request::SetData(set) => &set.path,
        Request::GetAcl(get) => &get.path,
        Request::SetAcl(set) => &set.path,
        Request::GetChildren(get) | Request::GetChildren2(get) => &get.path,
        Request::GetAllChildrenNumber(get) => &get.path,
        Request::GetEphemerals(get) => get.prefix.as_deref().unwrap_or_default(),
        Request::Sync(sync) => sync.path.as_deref().unwrap_or_default(),
        Request::Check(check) => &check.path,
        Request::CheckWatches(check) => check.path.as_deref().unwrap_or_default(),
        Request::RemoveWatches(remove) => remove.path.as_deref().unwrap_or_default(),
        Request::AddWatch(add) => add.path.as_deref().unwrap_or_default(),
        Request::Multi(_)
        | Request::MultiRead(_)
        | Request::Reconfig(_)
        | Request::SetWatches(_)
        | Request::SetWatches2(_)
        | Request::Auth(_)
        | Request::Sasl(_)
        | Request::WhoAmI
        | Request::Ping
        | Request::CreateSession(_)
        | Request::CloseSession => "",
    }
}
