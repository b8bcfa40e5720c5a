//! How large replies are, before they are encoded.

use zoolet_proto::Reply;
use zoolet_proto::records::OpResult;

/// A length in front of a string, or an int.
const LENGTH: usize = 4;

/// About how long the encoded body of a reply is: data, names and entries, without what is always short.
pub(crate) fn reply_size(reply: &Reply) -> usize {
    match reply {
        Reply::Data(Some(data), _) => data.len(),
        Reply::Children(names) | Reply::Children2(names, _) => names.encoded_len(),
        Reply::Multi(results) => results.iter().map(result_size).sum(),
        Reply::Ephemerals(paths) => paths.iter().map(|path| LENGTH + path.len()).sum(),
        Reply::Acl(acl, _) => acl.iter().map(|entry| 3 * LENGTH + entry.scheme.len() + entry.id.len()).sum(),
        _ => 0,
    }
}

fn result_size(result: &OpResult) -> usize {
    match result {
        OpResult::GetData(Some(data), _) => data.len(),
        OpResult::GetChildren(names) => names.encoded_len(),
        _ => 0,
    }
}
