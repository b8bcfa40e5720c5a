//! What is measured by the first element of paths.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;
use zoolet_proto::records::{Op, OpResult};
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
}

#[derive(Debug, Clone)]
struct Key {
    name: Arc<str>,
    reads: Distribution,
    writes: Distribution,
    exceeded: i64,
}

/// What a request is about, noted before it is executed.
pub(crate) struct Access {
    key: KeyRef,
    /// The length of the path if it is a read that counts.
    read: Option<usize>,
}

enum KeyRef {
    Known(usize),
    /// A key is made only if the request succeeds, or clients could use all of them up by asking.
    New(Arc<str>),
}

/// One for most requests, several for a multiRead.
pub(crate) type Accesses = SmallVec<[Access; 1]>;

impl Keys {
    /// What a request is about, if that is measured.
    pub(super) fn accesses(&self, input: &Input) -> Accesses {
        let Input::Request(Incoming { body: Ok(request), .. }) = input else { return Accesses::new() };
        let is_read = match request {
            Request::GetData(_) | Request::Exists(_) | Request::GetChildren(_) | Request::GetChildren2(_) => {
                true
            }
            // They may exceed a quota.
            Request::Create(_)
            | Request::Create2(_)
            | Request::CreateContainer(_)
            | Request::CreateTtl(_)
            | Request::SetData(_) => false,
            Request::MultiRead(ops) => {
                let place = |op: &Op| self.access(op.path(), true).unwrap_or(Access::IGNORED);
                return ops.iter().map(place).collect();
            }
            _ => return Accesses::new(),
        };
        request.path().and_then(|path| self.access(path, is_read)).into_iter().collect()
    }

    fn access(&self, path: &str, is_read: bool) -> Option<Access> {
        let name = top_level_name(path)?;
        let key = self.places.get(name).map_or_else(|| KeyRef::New(name.into()), |at| KeyRef::Known(*at));
        Some(Access { key, read: is_read.then_some(path.len()) })
    }

    /// Counts a request that was executed.
    pub(super) fn executed(&mut self, accesses: Accesses, header: &ReplyHeader, reply: &Reply) {
        if let Reply::Multi(results) = reply {
            for (access, result) in accesses.into_iter().zip(results) {
                match result {
                    OpResult::GetData(data, _) => {
                        self.read(access, data.as_ref().map_or(0, |data| data.len()))
                    }
                    OpResult::GetChildren(names) => self.read(access, length(names)),
                    _ => {}
                }
            }
            return;
        }
        let Some(access) = accesses.into_iter().next() else { return };
        match reply {
            _ if header.err == ErrorCode::QuotaExceeded.code() => self.key(access.key).exceeded += 1,
            Reply::Data(data, _) => self.read(access, data.as_ref().map_or(0, |data| data.len())),
            Reply::Stat(_) => self.read(access, 0),
            Reply::Children(names) | Reply::Children2(names, _) => self.read(access, length(names)),
            _ => {}
        }
    }

    fn read(&mut self, access: Access, bytes: usize) {
        let Some(path) = access.read else { return };
        self.key(access.key).reads.record((path + bytes + STAT) as u64, 1);
    }

    /// Counts what a transaction has written.
    pub(super) fn written(&mut self, op: &TxnOp) {
        let mut write = |path: &str, bytes: usize| {
            if let Some(access) = self.access(path, false) {
                self.key(access.key).writes.record((path.len() + bytes) as u64, 1);
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

    fn key(&mut self, key: KeyRef) -> &mut Key {
        let at = match key {
            KeyRef::Known(at) => at,
            KeyRef::New(name) => self.place(name),
        };
        &mut self.keys[at]
    }

    fn place(&mut self, name: Arc<str>) -> usize {
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

impl Access {
    const IGNORED: Self = Self { key: KeyRef::Known(0), read: None };
}

/// The bytes of names, without their lengths.
fn length(names: &NameList) -> usize {
    names.encoded_len() - 4 * names.len()
}
