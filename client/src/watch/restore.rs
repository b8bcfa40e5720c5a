//! The requests that restore the watches of an earlier connection, none of them too long for a server.

use zoolet_proto::records::{SetWatches, SetWatches2};
use zoolet_proto::{Request, Zxid};

use super::WatchTable;
use super::table::by_path;

/// Most bytes of paths in one request, as in the Java client: far below what servers accept.
const CHUNK: usize = 128 * 1024;

/// Bytes of a request without its paths: header, zxid, and the lengths of five lists.
const OVERHEAD: usize = 8 + 8 + 5 * 4;

/// The requests that set every watch of `table` again, in the order of the paths. Servers report at once what changed
/// after `last_seen`. No request is longer than `max_request`, unless a single path is.
///
/// A request with persistent watches is a setWatches2, which servers know since 3.6; the others are a setWatches.
pub(crate) fn restore(table: &WatchTable, last_seen: Zxid, max_request: usize) -> Vec<Request> {
    let most = CHUNK.min(max_request.saturating_sub(OVERHEAD));
    let mut chunks = Chunks { last_seen, most, requests: Vec::new(), open: empty(last_seen), bytes: 0 };
    for (path, entry) in by_path(&table.data) {
        chunks.add(path, if entry.missing { |open| &mut open.exist } else { |open| &mut open.data });
    }
    by_path(&table.child).into_iter().for_each(|(path, _)| chunks.add(path, |open| &mut open.child));
    by_path(&table.persistent)
        .into_iter()
        .for_each(|(path, _)| chunks.add(path, |open| &mut open.persistent));
    by_path(&table.recursive).into_iter().for_each(|(path, _)| chunks.add(path, |open| &mut open.recursive));
    chunks.close();
    chunks.requests
}

struct Chunks {
    last_seen: Zxid,
    most: usize,
    requests: Vec<Request>,
    open: SetWatches2,
    bytes: usize,
}

impl Chunks {
    fn add(&mut self, path: &str, list: fn(&mut SetWatches2) -> &mut Vec<String>) {
        let bytes = path.len() + 4;
        if self.bytes + bytes > self.most {
            self.close();
        }
        self.bytes += bytes;
        list(&mut self.open).push(path.to_owned());
    }

    fn close(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes == 0 {
            return;
        }
        let chunk = std::mem::replace(&mut self.open, empty(self.last_seen));
        self.requests.push(if chunk.persistent.is_empty() && chunk.recursive.is_empty() {
            let SetWatches2 { relative_zxid, data, exist, child, .. } = chunk;
            Request::SetWatches(SetWatches { relative_zxid, data, exist, child })
        } else {
            Request::SetWatches2(chunk)
        });
    }
}

fn empty(relative_zxid: Zxid) -> SetWatches2 {
    SetWatches2 {
        relative_zxid,
        data: Vec::new(),
        exist: Vec::new(),
        child: Vec::new(),
        persistent: Vec::new(),
        recursive: Vec::new(),
    }
}
