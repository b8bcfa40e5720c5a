//! What is different at a server of 3.4, which is recognised by not knowing create2.
//!
//! At an operation that it does not know, such a server replies with `Unimplemented` ahead of everything else and closes the
//! connection. So create2, and what [`is_newer`] names, are sent at most once: `Session::has_create2` is what is known of the
//! server. What came with 3.6, and checkWatches and reconfig, are sent whenever they are asked for.

use zoolet_proto::records::{self, Op};
use zoolet_proto::{CreateMode, ErrorCode, Reply, Request, SessionId, Stat, Zxid};

/// Whether the answer says that the server does not know create2; then the request was not executed. In a multi, 3.4.14
/// answers it with `MarshallingError` (`MultiTransactionRecord.deserialize`), with which others answer what fails inside of
/// them. `known` is what was known before.
pub(super) fn lacks_create2(request: &Request, error: Option<ErrorCode>, known: Option<bool>) -> bool {
    match (request, error) {
        (Request::Create2(_), Some(ErrorCode::Unimplemented)) => true,
        (Request::Multi(ops), Some(ErrorCode::MarshallingError)) if known != Some(true) => {
            ops.iter().any(|op| matches!(op, Op::Create2(_)))
        }
        _ => false,
    }
}

/// The same request without create2.
pub(super) fn without_create2(request: Request) -> Request {
    match request {
        Request::Create2(create) => Request::Create(create),
        Request::Multi(ops) => {
            let plain = |op| if let Op::Create2(create) = op { Op::Create(create) } else { op };
            Request::Multi(ops.into_iter().map(plain).collect())
        }
        request => request,
    }
}

/// Whether a server without create2 lacks this operation too, for which it would close the connection.
pub(super) fn is_newer(request: &Request) -> bool {
    matches!(request, Request::CreateContainer(_) | Request::CreateTtl(_) | Request::RemoveWatches(_))
}

/// The reply to create as one to create2. `zxid` is that of its header, which is the transaction of the create. So all of the
/// Stat is known but the time by the server's clock.
pub(super) fn created(create: &records::Create, path: String, zxid: Zxid, session: SessionId) -> Reply {
    let is_ephemeral = CreateMode::from_code(create.flags).is_some_and(CreateMode::is_ephemeral);
    let stat = Stat {
        czxid: zxid,
        mzxid: zxid,
        pzxid: zxid,
        ephemeral_owner: if is_ephemeral { session } else { SessionId(0) },
        data_length: create.data.as_ref().map_or(0, |data| i32::try_from(data.len()).unwrap_or(i32::MAX)),
        ..Stat::default()
    };
    Reply::Created2(path, stat)
}
