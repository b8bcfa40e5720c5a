//! What a reply means to the caller of its request.

use zoolet_proto::records::{Op, OpResult};
use zoolet_proto::{AddWatchMode, ErrorCode, Reply, Request};

use crate::chroot::Chroot;
use crate::command::{CallOutcome, DecodedReply, ReplyExtra};
use crate::context::ErrorContext;
use crate::error::Error;
use crate::hint;
use crate::watch::{WatchKind, WatchReply};

/// The watch that a request sets if it succeeds, with the server's path.
pub(crate) fn watch_of(request: &Request) -> Option<(WatchKind, &str)> {
    match request {
        Request::GetData(get) if get.watch => Some((WatchKind::Data, &get.path)),
        Request::Exists(exists) if exists.watch => Some((WatchKind::Data, &exists.path)),
        Request::GetChildren(get) | Request::GetChildren2(get) if get.watch => {
            Some((WatchKind::Child, &get.path))
        }
        Request::AddWatch(add) => Some((AddWatchMode::from_code(add.mode)?.into(), add.path.as_deref()?)),
        _ => None,
    }
}

/// What a reply means for that watch.
pub(crate) fn watch_reply(request: &Request, error: Option<ErrorCode>) -> WatchReply {
    match (request, error) {
        (_, None) => WatchReply::Set { missing: false },
        (Request::Exists(_), Some(ErrorCode::NoNode)) => WatchReply::Set { missing: true },
        (_, Some(_)) => WatchReply::Unset,
    }
}

/// An answer without a body.
pub(crate) fn empty() -> DecodedReply {
    DecodedReply { reply: Reply::Empty, extra: None }
}

/// The outcome for the caller, with the caller's paths. `has_identity` is whether the session has added an identity.
pub(crate) fn outcome(
    request: &Request,
    error: Option<ErrorCode>,
    reply: Reply,
    chroot: &Chroot,
    has_identity: bool,
) -> CallOutcome {
    match (request, error) {
        (_, None) => {}
        // To exists, an absent znode is a result.
        (Request::Exists(_), Some(ErrorCode::NoNode)) => return Ok(empty()),
        (_, Some(code)) => {
            let hint = hint::explain(request, code, chroot, has_identity);
            return Err(Error::Refused { context: ErrorContext::of(request, true, chroot).with(hint), code });
        }
    }
    let mut extra = None;
    let reply = match (request, reply) {
        (Request::Multi(ops), Reply::Multi(results)) => {
            Reply::Multi(multi_results(request, ops, results, chroot, has_identity)?)
        }
        (Request::MultiRead(ops), Reply::Multi(results)) if !is_answered(ops, &results) => {
            return Err(Error::Protocol(ErrorContext::of(request, true, chroot)));
        }
        (_, Reply::Created(path)) => Reply::Created(chroot.strip_owned(path)),
        (_, Reply::Created2(path, stat)) => {
            extra = sequence_of(request, &path).map(|number| Box::new(ReplyExtra::Sequence(number)));
            Reply::Created2(chroot.strip_owned(path), stat)
        }
        (_, Reply::Ephemerals(paths)) => {
            // The prefix matches text, not components, so it may match paths outside the chroot.
            Reply::Ephemerals(
                paths.iter().filter_map(|path| chroot.inside(path)).map(str::to_owned).collect(),
            )
        }
        // Without a path that is the server's.
        (
            _,
            reply @ (Reply::Empty
            | Reply::Stat(_)
            | Reply::Data(..)
            | Reply::Acl(..)
            | Reply::Children(_)
            | Reply::Children2(..)
            | Reply::Count(_)
            | Reply::WhoAmI(_)
            | Reply::Sasl(_)
            | Reply::Multi(_)
            | Reply::WatchAdded),
        ) => reply,
        // A path that no caller gets to see: that of a sync, and of an event, which is not a reply to a request.
        (_, reply @ (Reply::Synced(_) | Reply::Event(_))) => reply,
    };
    Ok(DecodedReply { reply, extra })
}

/// The results of a multi with the caller's paths, if it was executed.
fn multi_results(
    request: &Request,
    ops: &[Op],
    mut results: Vec<OpResult>,
    chroot: &Chroot,
    has_identity: bool,
) -> Result<Vec<OpResult>, Error> {
    // The first code is the reason; the later ones only mark operations that were not tried.
    let refused = results.iter().enumerate().find_map(|(index, result)| match result {
        OpResult::Error(Some(code)) => Some((index, *code)),
        _ => None,
    });
    if let Some((index, code)) = refused {
        let operation = ops.get(index).cloned().map(Request::from);
        let refused = operation.as_ref().unwrap_or(request);
        let hint = hint::explain(refused, code, chroot, has_identity);
        let context = ErrorContext::of(refused, false, chroot).with(hint);
        return Err(Error::MultiRefused { index, context, code });
    }
    if !is_answered(ops, &results) {
        return Err(Error::Protocol(ErrorContext::of(request, true, chroot)));
    }
    for result in &mut results {
        if let OpResult::Create(path) | OpResult::Create2(path, _) = result {
            *path = chroot.strip_owned(std::mem::take(path));
        }
    }
    Ok(results)
}

/// The number that the server has appended to the path of a create; none if that was not sequential, as nothing was
/// appended.
fn sequence_of(request: &Request, created: &str) -> Option<i32> {
    created.strip_prefix(request.path()?)?.parse().ok()
}

/// Whether `results` has one result of the right kind for each of `ops`.
fn is_answered(ops: &[Op], results: &[OpResult]) -> bool {
    let fits = |(op, result): (&Op, &OpResult)| match op {
        Op::Create(_) | Op::Create2(_) | Op::CreateContainer(_) | Op::CreateTtl(_) => {
            matches!(result, OpResult::Create(_) | OpResult::Create2(..))
        }
        Op::Delete(_) => matches!(result, OpResult::Delete),
        Op::SetData(_) => matches!(result, OpResult::SetData(_)),
        Op::Check(_) => matches!(result, OpResult::Check),
        Op::GetData(_) => matches!(result, OpResult::GetData(..) | OpResult::Error(Some(_))),
        Op::GetChildren(_) => matches!(result, OpResult::GetChildren(_) | OpResult::Error(Some(_))),
    };
    ops.len() == results.len() && ops.iter().zip(results).all(fits)
}
