//! Prints requests in the words of cases, by the table of operations. They are decoded here and not by `zoolet-proto`, so that a
//! mistake there is found.

use bytes::{Buf, Bytes};
use zoolet_proto::records::Create;
use zoolet_proto::{AclList, AddWatchMode, ErrorCode, Incoming, Request, WatchKind, Zxid};

use crate::wire::acl;
use crate::wire::encoding::{lossy, take_bytes};
use crate::wire::fields::{Fields, Value, named};
use crate::wire::operations::{Kind, operation};

/// A create of a persistent znode with which everybody may do everything.
pub(crate) fn create(path: impl Into<String>, data: impl Into<Bytes>) -> Create {
    Create { path: path.into(), data: Some(data.into()), acl: Some(AclList::OPEN), flags: 0 }
}

/// The path and kind of the watch that a request has set, if it was answered like this.
pub(crate) fn watch_set(request: &Request, error: Option<ErrorCode>) -> Option<(&str, WatchKind)> {
    let done = error.is_none();
    match request {
        // The only read that sets a watch if the znode does not exist.
        Request::Exists(get) if get.watch && (done || error == Some(ErrorCode::NoNode)) => {
            Some((&get.path, WatchKind::Data))
        }
        Request::GetData(get) if get.watch && done => Some((&get.path, WatchKind::Data)),
        Request::GetChildren(get) | Request::GetChildren2(get) if get.watch && done => {
            Some((&get.path, WatchKind::Child))
        }
        Request::AddWatch(add) if done => {
            let kind = AddWatchMode::from_code(add.mode)?.into();
            Some((add.path.as_deref().unwrap_or_default(), kind))
        }
        _ => None,
    }
}

/// A watch that a setWatches or a setWatches2 restores.
pub(crate) struct RestoredWatch<'r> {
    pub(crate) path: &'r str,
    pub(crate) kind: WatchKind,
    /// Whether it was set while the znode was absent.
    pub(crate) is_of_absent: bool,
}

/// The watches that a setWatches or a setWatches2 restores, in the order in which a server looks at them.
pub(crate) fn watches_restored(request: &Request) -> impl Iterator<Item = RestoredWatch<'_>> {
    let none = &[][..];
    let (data, exist, child, persistent, recursive) = match request {
        Request::SetWatches(set) => (&set.data[..], &set.exist[..], &set.child[..], none, none),
        Request::SetWatches2(set) => {
            (&set.data[..], &set.exist[..], &set.child[..], &set.persistent[..], &set.recursive[..])
        }
        _ => (none, none, none, none, none),
    };
    let lists = [
        (data, WatchKind::Data, false),
        (exist, WatchKind::Data, true),
        (child, WatchKind::Child, false),
        (persistent, WatchKind::Persistent, false),
        (recursive, WatchKind::Recursive, false),
    ];
    lists.into_iter().flat_map(|(paths, kind, is_of_absent)| {
        paths.iter().map(move |path| RestoredWatch { path, kind, is_of_absent })
    })
}

/// The zxid from which on a setWatches or a setWatches2 asks for missed events.
pub(crate) fn relative_zxid(request: &Request) -> Option<Zxid> {
    match request {
        Request::SetWatches(set) => Some(set.relative_zxid),
        Request::SetWatches2(set) => Some(set.relative_zxid),
        _ => None,
    }
}

/// The length of a request header.
const HEADER: usize = 8;

/// The fields of a request, as a case writes it; the first one is its name. If the body does not decode: why, and its bytes.
pub(crate) fn of_incoming(request: &Incoming, payload: &[u8]) -> Fields {
    let body = payload.get(HEADER..).unwrap_or_default();
    if let (Ok(_), Some(fields)) = (&request.body, take_request(request.op, &mut &*body)) {
        return fields;
    }
    let mut fields = named(&operation_or_number(request.op));
    if let Err(error) = &request.body {
        fields.push(("malformed", Value::Text(error.to_string())));
        fields.push(("body", Value::Data(Some(Bytes::copy_from_slice(body)))));
    }
    fields
}

/// The name of an operation, or its number.
pub(crate) fn operation_or_number(code: i32) -> String {
    operation(code).map_or_else(|| format!("opcode-{code}"), |operation| operation.name.to_owned())
}

fn take_request(code: i32, body: &mut &[u8]) -> Option<Fields> {
    let operation = operation(code)?;
    let mut fields = named(operation.name);
    let mut values = vec![Value::Data(None); operation.fields.len()];
    for at in operation.wire_order() {
        values[at] = take_value(operation.fields[at].1, body)?;
    }
    fields.extend(operation.fields.iter().map(|(name, ..)| *name).zip(values));
    Some(fields)
}

/// The parts of a multi, up to the header that says that there are no more.
fn take_parts(body: &mut &[u8]) -> Option<Vec<Fields>> {
    let mut parts = Vec::new();
    loop {
        let (code, is_done) = (body.try_get_i32().ok()?, body.try_get_u8().ok()? != 0);
        body.try_get_i32().ok()?;
        if is_done {
            return Some(parts);
        }
        parts.push(take_request(code, body)?);
    }
}

fn take_value(kind: Kind, body: &mut &[u8]) -> Option<Value> {
    let null = || Value::Text("null".to_owned());
    Some(match kind {
        Kind::Int => Value::Int(body.try_get_i32().ok()?.into()),
        Kind::Long => Value::Int(body.try_get_i64().ok()?),
        Kind::Bool | Kind::OptionalBool => Value::Int(body.try_get_u8().ok()?.into()),
        Kind::Data | Kind::Secret => Value::Data(take_bytes(body)?.map(Bytes::copy_from_slice)),
        Kind::Text => take_bytes(body)?.map_or_else(null, |bytes| Value::Text(lossy(bytes))),
        Kind::Texts => take_list(body, |body| take_bytes(body)?.map(lossy))?.map_or_else(null, Value::List),
        Kind::Acl => {
            let entry = |body: &mut &[u8]| acl::take(body).map(|entry| acl::show(&entry));
            take_list(body, entry)?.map_or_else(null, Value::List)
        }
        Kind::Parts => Value::Results(take_parts(body)?),
        Kind::Raw => Value::Data(Some(Bytes::copy_from_slice(std::mem::take(body)))),
    })
}

fn take_list<T>(body: &mut &[u8], mut item: impl FnMut(&mut &[u8]) -> Option<T>) -> Option<Option<Vec<T>>> {
    match usize::try_from(body.try_get_i32().ok()?) {
        Ok(count) => (0..count).map(|_| item(body)).collect::<Option<_>>().map(Some),
        Err(_) => Some(None),
    }
}
