//! What is measured by the first element of paths.

use std::mem;
use std::sync::Arc;

use hashbrown::HashMap;
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
    /// The key of the last request, which the next one most often has too.
    last: usize,
    /// Whether there are quotas that a write may exceed.
    with_quotas: bool,
    run: Run,
}

/// Equal values in a row, which are recorded together.
#[derive(Debug, Clone, Default)]
struct Run {
    key: usize,
    is_read: bool,
    bytes: u64,
    times: u64,
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

/// What the parts of a request are about.
pub(crate) enum Accesses {
    None,
    One(Access),
    /// Of a multiRead.
    Many(Vec<Access>),
}

impl Keys {
    /// None so far; with quotas, what exceeds them is counted.
    pub(super) fn new(with_quotas: bool) -> Self {
        Self { with_quotas, ..Self::default() }
    }

    pub(super) fn with_quotas(&self) -> bool {
        self.with_quotas
    }

    /// What a request is about, if that is measured.
    pub(super) fn accesses(&mut self, input: &Input) -> Accesses {
        let Input::Request(Incoming { body: Ok(request), .. }) = input else { return Accesses::None };
        let is_read = match request {
            Request::GetData(_) | Request::Exists(_) | Request::GetChildren(_) | Request::GetChildren2(_) => {
                true
            }
            // They may exceed a quota.
            Request::Create(_)
            | Request::Create2(_)
            | Request::CreateContainer(_)
            | Request::CreateTtl(_)
            | Request::SetData(_)
                if self.with_quotas =>
            {
                false
            }
            Request::MultiRead(ops) => {
                let place = |op: &Op| self.access(op.path(), true).unwrap_or(Access::IGNORED);
                return Accesses::Many(ops.iter().map(place).collect());
            }
            _ => return Accesses::None,
        };
        request.path().and_then(|path| self.access(path, is_read)).map_or(Accesses::None, Accesses::One)
    }

    fn access(&mut self, path: &str, is_read: bool) -> Option<Access> {
        let is_last = self.keys.get(self.last).is_some_and(|key| is_below(path, &key.name));
        let key = if is_last {
            KeyRef::Known(self.last)
        } else {
            let name = top_level_name(path)?;
            match self.places.get(name) {
                None => KeyRef::New(name.into()),
                Some(at) => {
                    self.last = *at;
                    KeyRef::Known(*at)
                }
            }
        };
        Some(Access { key, read: is_read.then_some(path.len()) })
    }

    /// Counts a request that was executed.
    pub(super) fn executed(&mut self, accesses: Accesses, header: &ReplyHeader, reply: &Reply) {
        let access = match (accesses, reply) {
            (Accesses::One(access), _) => access,
            (Accesses::Many(accesses), Reply::Multi(results)) => {
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
            _ => return,
        };
        match reply {
            _ if header.err == ErrorCode::QuotaExceeded.code() => {
                let at = self.place(access.key);
                self.keys[at].exceeded += 1;
            }
            Reply::Data(data, _) => self.read(access, data.as_ref().map_or(0, |data| data.len())),
            Reply::Stat(_) => self.read(access, 0),
            Reply::Children(names) | Reply::Children2(names, _) => self.read(access, length(names)),
            _ => {}
        }
    }

    fn read(&mut self, access: Access, bytes: usize) {
        let Some(path) = access.read else { return };
        let key = self.place(access.key);
        self.add(key, true, (path + bytes + STAT) as u64);
    }

    fn add(&mut self, key: usize, is_read: bool, bytes: u64) {
        let run = &mut self.run;
        if (run.key, run.is_read, run.bytes) != (key, is_read, bytes) {
            self.end_run();
            self.run = Run { key, is_read, bytes, times: 0 };
        }
        self.run.times += 1;
    }

    /// Records what is still counted together. Comes before anybody looks.
    pub(super) fn end_run(&mut self) {
        let Run { key, is_read, bytes, times } = mem::take(&mut self.run);
        if let Some(key) = self.keys.get_mut(key) {
            if is_read { &mut key.reads } else { &mut key.writes }.record(bytes, times);
        }
    }

    /// Counts what a transaction has written.
    pub(super) fn written(&mut self, op: &TxnOp) {
        let mut write = |path: &str, bytes: usize| {
            if let Some(access) = self.access(path, false) {
                let key = self.place(access.key);
                self.add(key, false, (path.len() + bytes) as u64);
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

    fn place(&mut self, key: KeyRef) -> usize {
        let name = match key {
            KeyRef::Known(at) => return at,
            KeyRef::New(name) => name,
        };
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

/// Whether the first element of a path is this name.
fn is_below(path: &str, name: &str) -> bool {
    let rest = path.strip_prefix('/').and_then(|path| path.strip_prefix(name));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The bytes of names, without their lengths.
fn length(names: &NameList) -> usize {
    names.encoded_len() - 4 * names.len()
}
