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
/// The longest of them in bytes, as a scrape has each in several lines.
const LONGEST_KEY: usize = 256;
/// The key of all that come later or are longer. No element of a path has a slash.
const OTHERS: &str = "/others";
/// Its place among the keys.
const PLACE_OF_OTHERS: usize = 0;
/// What Apache adds to the bytes of a read: those of the Stat (`DataTree.STAT_OVERHEAD_BYTES`).
const STAT: usize = 68;

/// The keys of some families. None is ever forgotten: the recorder of an embedding program has each for ever.
#[derive(Debug, Clone)]
pub(crate) struct KeyNames {
    places: HashMap<Arc<str>, usize>,
    names: Vec<Arc<str>>,
}

/// Bytes read and written, and refusals, by key.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    names: KeyNames,
    /// By the places of their names.
    keys: Vec<Key>,
    /// The key of the last request, which the next one most often has too.
    last: usize,
    /// Whether there are quotas that a write may exceed.
    pub(super) with_quotas: bool,
}

#[derive(Debug, Clone)]
struct Key {
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
    /// A key is made only if the request succeeds or exceeds a quota, or clients could use all of them up by asking.
    New(Arc<str>),
}

impl Default for KeyNames {
    fn default() -> Self {
        Self { places: HashMap::new(), names: vec![OTHERS.into()] }
    }
}

impl KeyNames {
    fn find(&self, name: &str) -> KeyRef {
        match self.places.get(name) {
            Some(at) => KeyRef::Known(*at),
            None if name.len() > LONGEST_KEY || self.places.len() == MOST_KEYS => {
                KeyRef::Known(PLACE_OF_OTHERS)
            }
            None => KeyRef::New(name.into()),
        }
    }

    /// The place of a key, which is made if it is new.
    fn place(&mut self, key: KeyRef) -> usize {
        let name = match key {
            KeyRef::Known(at) => return at,
            KeyRef::New(name) => name,
        };
        // Meanwhile another part of the same request may have made it, or the last one that there was room for.
        match self.find(&name) {
            KeyRef::Known(at) => at,
            KeyRef::New(name) => {
                self.places.insert(Arc::clone(&name), self.names.len());
                self.names.push(name);
                self.names.len() - 1
            }
        }
    }

    /// The key of a name, which is made if it is new.
    pub(super) fn key(&mut self, name: &str) -> Arc<str> {
        let place = self.place(self.find(name));
        Arc::clone(&self.names[place])
    }
}

impl Key {
    fn new() -> Self {
        Self { reads: Distribution::coarse(), writes: Distribution::coarse(), exceeded: 0 }
    }
}

impl Keys {
    /// None so far; with quotas, what exceeds them is counted.
    #[cfg(feature = "metrics")]
    pub(super) fn new(with_quotas: bool) -> Self {
        Self { names: KeyNames::default(), keys: vec![Key::new()], last: PLACE_OF_OTHERS, with_quotas }
    }

    /// Forgets what was counted, but no name.
    pub(super) fn reset(&mut self) {
        self.keys.fill(Key::new());
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
        is_below(path, &self.names.names[self.last]).then_some(self.last)
    }

    #[inline]
    fn find(&mut self, path: &str) -> Option<KeyRef> {
        self.last_if(path).map(KeyRef::Known).or_else(|| self.find_other(path))
    }

    #[cold]
    fn find_other(&mut self, path: &str) -> Option<KeyRef> {
        let key = self.names.find(top_level_name(path)?);
        if let KeyRef::Known(at) = key {
            self.last = at;
        }
        Some(key)
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
            KeyRef::New(_) => self.place_new(key),
        }
    }

    #[cold]
    fn place_new(&mut self, key: KeyRef) -> usize {
        let place = self.names.place(key);
        self.keys.resize_with(self.names.names.len(), Key::new);
        place
    }

    pub(super) fn distributions(&mut self) -> impl Iterator<Item = &mut Distribution> {
        self.keys.iter_mut().flat_map(|key| [&mut key.reads, &mut key.writes])
    }

    pub(super) fn write(&self, summaries: &mut Summaries, exceeded: &mut ByKey<i64>) {
        let mut keys: Vec<_> = self.names.names.iter().zip(&self.keys).collect();
        keys.sort_unstable_by_key(|(name, _)| *name);
        for (name, Key { reads, writes, exceeded: refused }) in keys {
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
