//! What is measured by the first element of paths.

use std::mem;
use std::sync::Arc;

use hashbrown::HashMap;
use zoolet_proto::records::{Create, CreateTtl, Exists, GetChildren, GetData, OpResult, SetData};
use zoolet_proto::{ErrorCode, Incoming, NameList, Reply, ReplyHeader, Request};
use zoolet_server_core::{Input, TxnOp};

use super::collect::top_level_name;
use super::distribution::Distribution;
use super::snapshot::{ByKey, Summaries};

/// How many first elements are told apart, each of which takes some kilobytes. Apache ZooKeeper has no limit.
const MOST_KEYS: usize = 100;
/// The key of all that come later. No element of a path has a slash.
const OTHERS: &str = "/others";
/// What Apache adds to the bytes of a read: those of the Stat (`DataTree.STAT_OVERHEAD_BYTES`).
const STAT: usize = 68;

/// Bytes read and written, and refusals, by key.
#[derive(Debug, Clone, Default)]
pub(super) struct Keys {
    places: HashMap<Arc<str>, usize>,
    keys: Vec<Key>,
    /// The key of the last request, which the next one most often has too.
    last: usize,
    /// What the request is about that is executed now.
    access: Access,
    /// The same for each part of a multiRead.
    parts: Vec<Access>,
    /// Whether there are quotas that a write may exceed.
    pub(super) with_quotas: bool,
}

#[derive(Debug, Clone)]
struct Key {
    name: Arc<str>,
    reads: Distribution,
    writes: Distribution,
    exceeded: i64,
}

/// What a request is about, noted before it is executed.
#[derive(Debug, Clone, Default)]
struct Access {
    key: KeyRef,
    /// The length of the path if it is a read that counts.
    read: Option<usize>,
}

#[derive(Debug, Clone, Default)]
enum KeyRef {
    #[default]
    None,
    Known(usize),
    /// A key is made only if the request succeeds, or clients could use all of them up by asking.
    New(Arc<str>),
}

impl Keys {
    /// None so far; with quotas, what exceeds them is counted.
    pub(super) fn new(with_quotas: bool) -> Self {
        Self { with_quotas, ..Self::default() }
    }

    /// Notes what a request is about that is executed next, if that is measured.
    #[inline]
    pub(super) fn begin(&mut self, input: &Input) {
        // The last request may have had no reply.
        self.access = Access::default();
        let Input::Request(Incoming { body: Ok(request), .. }) = input else { return };
        match request {
            Request::GetData(GetData { path, .. })
            | Request::Exists(Exists { path, .. })
            | Request::GetChildren(GetChildren { path, .. })
            | Request::GetChildren2(GetChildren { path, .. }) => {
                self.access = Access { key: self.find(path), read: Some(path.len()) };
            }
            // They may exceed a quota.
            Request::Create(Create { path, .. })
            | Request::Create2(Create { path, .. })
            | Request::CreateContainer(Create { path, .. })
            | Request::CreateTtl(CreateTtl { path, .. })
            | Request::SetData(SetData { path, .. })
                if self.with_quotas =>
            {
                self.access = Access { key: self.find(path), read: None };
            }
            Request::MultiRead(ops) => {
                self.parts.clear();
                for op in ops {
                    let access = Access { key: self.find(op.path()), read: Some(op.path().len()) };
                    self.parts.push(access);
                }
            }
            _ => {}
        }
    }

    #[inline]
    fn find(&mut self, path: &str) -> KeyRef {
        match self.keys.get(self.last) {
            Some(key) if is_below(path, &key.name) => KeyRef::Known(self.last),
            _ => self.find_other(path),
        }
    }

    #[cold]
    fn find_other(&mut self, path: &str) -> KeyRef {
        let Some(name) = top_level_name(path) else { return KeyRef::None };
        match self.places.get(name) {
            None => KeyRef::New(name.into()),
            Some(at) => {
                self.last = *at;
                KeyRef::Known(*at)
            }
        }
    }

    /// Counts the request that was begun last, once it is executed.
    #[inline]
    pub(super) fn executed(&mut self, header: &ReplyHeader, reply: &Reply) {
        let access = mem::take(&mut self.access);
        match reply {
            Reply::Data(data, _) => self.read(access, data.as_ref().map_or(0, |data| data.len())),
            Reply::Stat(_) => self.read(access, 0),
            Reply::Children(names) | Reply::Children2(names, _) => self.read(access, length(names)),
            Reply::Multi(results) => self.executed_parts(results),
            _ if header.err == ErrorCode::QuotaExceeded.code() => {
                if let Some(key) = self.place(access.key) {
                    self.keys[key].exceeded += 1;
                }
            }
            _ => {}
        }
    }

    fn executed_parts(&mut self, results: &[OpResult]) {
        let mut parts = mem::take(&mut self.parts);
        for (access, result) in parts.drain(..).zip(results) {
            match result {
                OpResult::GetData(data, _) => self.read(access, data.as_ref().map_or(0, |data| data.len())),
                OpResult::GetChildren(names) => self.read(access, length(names)),
                _ => {}
            }
        }
        self.parts = parts;
    }

    #[inline]
    fn read(&mut self, access: Access, bytes: usize) {
        if let (Some(path), Some(key)) = (access.read, self.place(access.key)) {
            self.keys[key].reads.record((path + bytes + STAT) as u64, 1);
        }
    }

    /// Counts what a transaction has written.
    pub(super) fn written(&mut self, op: &TxnOp) {
        let mut write = |path: &str, bytes: usize| {
            let key = self.find(path);
            if let Some(key) = self.place(key) {
                self.keys[key].writes.record((path.len() + bytes) as u64, 1);
            }
        };
        match op {
            TxnOp::Create { path, data, .. } | TxnOp::SetData { path, data, .. } => {
                write(path, data.as_ref().map_or(0, |data| data.len()));
            }
            TxnOp::Delete { path } => write(path, 0),
            TxnOp::CloseSession { ephemerals } => ephemerals.iter().for_each(|path| write(path, 0)),
            TxnOp::Multi(ops) => ops.iter().for_each(|op| self.written(op)),
            TxnOp::SetAcl { .. } | TxnOp::Check { .. } | TxnOp::CreateSession { .. } | TxnOp::Error(_) => {}
        }
    }

    #[inline]
    fn place(&mut self, key: KeyRef) -> Option<usize> {
        match key {
            KeyRef::None => None,
            KeyRef::Known(at) => Some(at),
            KeyRef::New(name) => Some(self.place_new(name)),
        }
    }

    #[cold]
    fn place_new(&mut self, name: Arc<str>) -> usize {
        let name = if self.keys.len() < MOST_KEYS { name } else { OTHERS.into() };
        *self.places.entry(name).or_insert_with_key(|name| {
            let (reads, writes) = (Distribution::coarse(), Distribution::coarse());
            self.keys.push(Key { name: Arc::clone(name), reads, writes, exceeded: 0 });
            self.keys.len() - 1
        })
    }

    pub(super) fn distributions(&mut self) -> impl Iterator<Item = &mut Distribution> {
        self.keys.iter_mut().flat_map(|key| [&mut key.reads, &mut key.writes])
    }

    pub(super) fn write(&self, summaries: &mut Summaries, exceeded: &mut ByKey<i64>) {
        let mut keys: Vec<_> = self.keys.iter().collect();
        keys.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        for Key { name, reads, writes, exceeded: refused } in keys {
            for (list, values) in [(&mut summaries.read_bytes, reads), (&mut summaries.write_bytes, writes)] {
                let value = values.value(1.0);
                if value.count > 0 {
                    list.push((Arc::clone(name), value));
                }
            }
            if *refused > 0 {
                exceeded.push((Arc::clone(name), *refused));
            }
        }
    }
}

/// Whether the first element of a path is this name.
fn is_below(path: &str, name: &str) -> bool {
    let [b'/', rest @ ..] = path.as_bytes() else { return false };
    matches!(rest.strip_prefix(name.as_bytes()), Some([] | [b'/', ..]))
}

/// The bytes of names, without their lengths.
fn length(names: &NameList) -> usize {
    names.encoded_len() - 4 * names.len()
}

#[cfg(test)]
mod tests {
    use zoolet_proto::{Stat, Xid, Zxid};

    use super::*;

    #[test]
    fn a_read_that_was_not_answered_does_not_count_with_the_answer_to_a_write() {
        let mut keys = Keys::new(false);
        let header = ReplyHeader { xid: Xid(1), zxid: Zxid(1), err: 0 };
        let reads = |keys: &Keys| {
            let mut summaries = Summaries::default();
            keys.write(&mut summaries, &mut Vec::new());
            summaries.read_bytes.iter().map(|(_, values)| values.count).sum::<u64>()
        };
        let read = || Request::GetData(GetData { path: "/a".into(), watch: false });
        keys.begin(&input(read()));
        keys.begin(&input(Request::SetData(SetData { path: "/a".into(), data: None, version: -1 })));
        keys.executed(&header, &Reply::Stat(Stat::default()));
        assert_eq!(reads(&keys), 0);
        keys.begin(&input(read()));
        keys.executed(&header, &Reply::Data(None, Stat::default()));
        assert_eq!(reads(&keys), 1);
    }

    fn input(request: Request) -> Input {
        Input::Request(Incoming { xid: Xid(1), op: request.op().code(), body: Ok(request) })
    }
}
