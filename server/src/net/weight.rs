//! How much memory replies are, before they are encoded and behind that.

use zoolet_proto::records::OpResult;
use zoolet_proto::{Acl, Reply};

/// The bytes in a reply that it shares with nothing.
pub(crate) fn own_weight(reply: &Reply) -> usize {
    match reply {
        Reply::Ephemerals(paths) => paths.iter().map(|path| size_of::<String>() + path.len()).sum(),
        Reply::Acl(acl, _) => {
            acl.iter().map(|entry| size_of::<Acl>() + entry.scheme.len() + entry.id.len()).sum()
        }
        _ => 0,
    }
}

/// The bytes in a reply that it shares with others until it is encoded, data and lists of names: a multiRead of many
/// times the same znode takes no memory before.
pub(crate) fn shared_weight(reply: &Reply) -> usize {
    let shared_by = |result: &OpResult| match result {
        OpResult::GetData(Some(data), _) => data.len(),
        OpResult::GetChildren(names) => names.encoded_len(),
        _ => 0,
    };
    match reply {
        Reply::Data(Some(data), _) => data.len(),
        Reply::Children(names) | Reply::Children2(names, _) => names.encoded_len(),
        Reply::Multi(results) => results.iter().map(shared_by).sum(),
        _ => 0,
    }
}
