//! What is measured by the first element of paths.

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

/// What a request is about whose reply counts, noted before it is executed.
#[derive(Debug)]
pub(crate) enum Access {
    Read(KeyRef, PathLength),
    /// Of a write that may exceed a quota.
    Write(KeyRef),
    /// Of a multi with writes that may exceed one.
    Writes(Vec<Option<KeyRef>>),
    /// Of a multiRead.
    Reads(Vec<Option<(KeyRef, PathLength)>>),
}

type PathLength = usize;

#[derive(Debug)]
pub(crate) enum KeyRef {
    Known(usize),
    /// A key is made only if the request succeeds, or clients could use all of them up by asking.
    New(Arc<str>),
}

impl Keys {
    /// None so far; with quotas, what exceeds them is counted.
    pub(super) fn new(with_quotas: bool) -> Self {
        Self { with_quotas, ..Self::default() }
    }

    /// Looks what a request is about that is executed next, if its reply counts.
    #[inline]
    pub(super) fn begin(&mut self, input: &Input) -> Option<Access> {
        let Input::Request(Incoming { body: Ok(request), .. }) = input else { return None };
        match request {
            Request::GetData(GetData { path, .. })
            | Request::Exists(Exists { path, .. })
            | Request::GetChildren(GetChildren { path, .. })
            | Request::GetChildren2(GetChildren { path, .. }) => {
                Some(Access::Read(self.find(path)?, path.len()))
            }
            Request::Create(Create { path, .. })
            | Request::Create2(Create { path, .. })
            | Request::CreateContainer(Create { path, .. })
            | Request::CreateTtl(CreateTtl { path, .. })
            | Request::SetData(SetData { path, .. })
                if self.with_quotas =>
            {
                Some(Access::Write(self.find(path)?))
            }
            Request::Multi(ops) if self.with_quotas => {
                Some(Access::Writes(ops.iter().map(|op| self.find(op.path())).collect()))
            }
            Request::MultiRead(ops) => {
                let reads = ops.iter().map(|op| Some((self.find(op.path())?, op.path().len())));
                Some(Access::Reads(reads.collect()))
            }
            _ => None,
        }
    }

    /// The place of the last key, if that is the key of this path.
    #[inline]
    fn last_if(&self, path: &str) -> Option<usize> {
        self.keys.get(self.last).filter(|key| is_below(path, &key.name)).map(|_| self.last)
    }

    #[inline]
    fn find(&mut self, path: &str) -> Option<KeyRef> {
        self.last_if(path).map(KeyRef::Known).or_else(|| self.find_other(path))
    }

    #[cold]
    fn find_other(&mut self, path: &str) -> Option<KeyRef> {
        let name = top_level_name(path)?;
        Some(match self.places.get(name) {
            None => KeyRef::New(name.into()),
            Some(at) => {
                self.last = *at;
                KeyRef::Known(*at)
            }
        })
    }

    /// Counts a request that was executed.
    #[inline]
    pub(super) fn executed(&mut self, access: Access, header: &ReplyHeader, reply: &Reply) {
        match (access, reply) {
            (Access::Read(key, path), Reply::Data(data, _)) => {
                self.read(key, path, data.as_ref().map_or(0, |data| data.len()));
            }
            (Access::Read(key, path), Reply::Stat(_)) => self.read(key, path, 0),
            (Access::Read(key, path), Reply::Children(names) | Reply::Children2(names, _)) => {
                self.read(key, path, length(names));
            }
            (Access::Write(key), _) if header.err == ErrorCode::QuotaExceeded.code() => self.exceeded(key),
            (Access::Writes(keys), Reply::Multi(results)) => {
                let refused = OpResult::Error(Some(ErrorCode::QuotaExceeded));
                let part = results.iter().position(|result| *result == refused);
                if let Some(key) = part.and_then(|at| keys.into_iter().nth(at)).flatten() {
                    self.exceeded(key);
                }
            }
            (Access::Reads(reads), Reply::Multi(results)) => {
                for (read, result) in reads.into_iter().zip(results) {
                    let Some((key, path)) = read else { continue };
                    match result {
                        OpResult::GetData(data, _) => {
                            self.read(key, path, data.as_ref().map_or(0, |data| data.len()));
                        }
                        OpResult::GetChildren(names) => self.read(key, path, length(names)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn exceeded(&mut self, key: KeyRef) {
        let place = self.place(key);
        self.keys[place].exceeded += 1;
    }

    #[inline]
    fn read(&mut self, key: KeyRef, path: PathLength, bytes: usize) {
        let place = self.place(key);
        self.keys[place].reads.record((path + bytes + STAT) as u64, 1);
    }

    /// Counts what a transaction has written.
    #[inline]
    pub(super) fn written(&mut self, op: &TxnOp) {
        match op {
            TxnOp::Create { path, data, .. } | TxnOp::SetData { path, data, .. } => {
                self.write_one(path, data.as_ref().map_or(0, |data| data.len()));
            }
            TxnOp::Delete { path } => self.write_one(path, 0),
            TxnOp::CloseSession { ephemerals } => ephemerals.iter().for_each(|path| self.write_one(path, 0)),
            TxnOp::Multi(ops) => ops.iter().for_each(|op| self.written(op)),
            TxnOp::SetAcl { .. } | TxnOp::Check { .. } | TxnOp::CreateSession { .. } | TxnOp::Error(_) => {}
        }
    }

    #[inline]
    fn write_one(&mut self, path: &str, bytes: usize) {
        let place = self.last_if(path).or_else(|| self.find_other(path).map(|key| self.place(key)));
        if let Some(place) = place {
            self.keys[place].writes.record((path.len() + bytes) as u64, 1);
        }
    }

    /// The place of a key, which is made if it is new.
    #[inline]
    fn place(&mut self, key: KeyRef) -> usize {
        match key {
            KeyRef::Known(at) => at,
            KeyRef::New(name) => self.place_new(name),
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
