//! The requests that restore the watches of an earlier connection, none of them too long for a server.

use std::mem;

use zoolet_proto::records::{SetWatches, SetWatches2};
use zoolet_proto::{Request, Zxid};

use super::{WatchKind, WatchTable};

/// Most bytes of paths in one request, as in the Java client: far below what servers accept.
const CHUNK: usize = 128 * 1024;

/// Bytes of a request without its paths: header, zxid, and the lengths of five lists.
const OVERHEAD: usize = 8 + 8 + 5 * 4;

/// The requests that set every watch of `table` again, in the order of the paths. Servers report at once what changed
/// after `last_seen`. No request is longer than `max_request`, unless a single path is.
///
/// Persistent watches are in a setWatches2, which servers know since 3.6, and all others in a setWatches: they survive an older
/// server.
pub(crate) fn restore(table: &WatchTable, last_seen: Zxid, max_request: usize) -> Vec<Request> {
    let most = CHUNK.min(max_request.saturating_sub(OVERHEAD));
    let (mut requests, mut open, mut bytes) = (Vec::new(), empty(last_seen), 0);
    for kind in WatchKind::ALL {
        for (path, entry) in table.entries(kind) {
            let length = path.len() + 4;
            let persists = matches!(kind, WatchKind::Persistent | WatchKind::Recursive);
            let are_others = persists && open.persistent.is_empty() && open.recursive.is_empty();
            if bytes > 0 && (are_others || bytes + length > most) {
                requests.push(request(mem::replace(&mut open, empty(last_seen))));
                bytes = 0;
            }
            bytes += length;
            let list = match kind {
                WatchKind::Data if entry.missing => &mut open.exist,
                WatchKind::Data => &mut open.data,
                WatchKind::Child => &mut open.child,
                WatchKind::Persistent => &mut open.persistent,
                WatchKind::Recursive => &mut open.recursive,
            };
            list.push(path.clone());
        }
    }
    if bytes > 0 {
        requests.push(request(open));
    }
    requests
}

fn empty(relative_zxid: Zxid) -> SetWatches2 {
    SetWatches { relative_zxid, data: Vec::new(), exist: Vec::new(), child: Vec::new() }.into()
}

fn request(all: SetWatches2) -> Request {
    if all.persistent.is_empty() && all.recursive.is_empty() {
        let SetWatches2 { relative_zxid, data, exist, child, .. } = all;
        Request::SetWatches(SetWatches { relative_zxid, data, exist, child })
    } else {
        Request::SetWatches2(Box::new(all))
    }
}
