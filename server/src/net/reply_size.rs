//! How large replies are, before they are encoded.

use zoolet_proto::records::OpResult;
use zoolet_proto::{Acl, NameList, Reply, frame};

/// A length in front of a string or a list, or an int.
const INT: usize = 4;

/// A [`Stat`](zoolet_proto::Stat).
const STAT: usize = 68;

/// A [`ReplyHeader`](zoolet_proto::ReplyHeader).
const HEADER: usize = 16;

/// A [`MultiHeader`](zoolet_proto::records::MultiHeader).
const PART: usize = 9;

/// How long the frame of a reply is.
pub(crate) fn reply_size(reply: &Reply) -> usize {
    let body = match reply {
        Reply::Created(path) => string(path),
        Reply::Created2(path, _) => string(path) + STAT,
        Reply::Stat(_) => STAT,
        Reply::Data(data, _) => bytes(data.as_deref()) + STAT,
        Reply::Acl(acl, _) => INT + acl.iter().map(entry).sum::<usize>() + STAT,
        Reply::Children(names) => list(names),
        Reply::Children2(names, _) => list(names) + STAT,
        Reply::Ephemerals(paths) => INT + paths.iter().map(|path| string(path)).sum::<usize>(),
        Reply::Synced(path) => bytes(path.as_deref().map(str::as_bytes)),
        Reply::WhoAmI(ids) => INT + ids.iter().map(|id| string(&id.scheme) + string(&id.user)).sum::<usize>(),
        Reply::Sasl(token) => bytes(token.as_deref()),
        Reply::Multi(results) => {
            results.iter().map(|result| PART + result_size(result)).sum::<usize>() + PART
        }
        Reply::Event(event) => 2 * INT + string(&event.path),
        Reply::Count(_) | Reply::WatchAdded => INT,
        _ => 0,
    };
    frame::PREFIX + HEADER + body
}

fn result_size(result: &OpResult) -> usize {
    match result {
        OpResult::Create(path) => string(path),
        OpResult::Create2(path, _) => string(path) + STAT,
        OpResult::SetData(_) => STAT,
        OpResult::GetData(data, _) => bytes(data.as_deref()) + STAT,
        OpResult::GetChildren(names) => list(names),
        OpResult::Error(_) => INT,
        OpResult::Delete | OpResult::Check => 0,
    }
}

fn string(text: &str) -> usize {
    INT + text.len()
}

fn bytes(bytes: Option<&[u8]>) -> usize {
    INT + bytes.map_or(0, <[u8]>::len)
}

fn list(names: &NameList) -> usize {
    INT + names.encoded_len()
}

fn entry(entry: &Acl) -> usize {
    INT + string(&entry.scheme) + string(&entry.id)
}
