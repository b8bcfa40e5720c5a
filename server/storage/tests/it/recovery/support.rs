//! A data directory on a simulated disk, written transaction by transaction.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use zoolet_proto::{Acl, ErrorCode, SessionId, Xid, Zxid};
use zoolet_server_core::{Millis, Owner, Tree, Txn, TxnOp, ZnodeRecord};
use zoolet_simdisk::SimulatedDisk;
use zoolet_storage::disk::Disk;
use zoolet_storage::log::{LogItem, LogReader};
use zoolet_storage::{Recovered, Storage, StorageError, StorageOptions, open, read};

pub(crate) const DATA: &str = "/data";
pub(crate) const DIR: &str = "/data/version-2";
pub(crate) const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);

pub(crate) fn options() -> StorageOptions {
    let mut options = StorageOptions::new(DATA);
    // The files of tests are short and compared often.
    options.pre_alloc = 8192;
    options
}

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// A server that does nothing but write.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) storage: Storage,
    pub(crate) tree: Tree,
    pub(crate) sessions: Vec<(SessionId, i32)>,
    /// The session of the next transactions.
    pub(crate) session: SessionId,
}

impl Writer {
    pub(crate) fn open(disk: &SimulatedDisk) -> Self {
        Self::open_with(disk, options())
    }

    pub(crate) fn open_with(disk: &SimulatedDisk, options: StorageOptions) -> Self {
        let (storage, recovered) = open(Arc::new(disk.clone()), options).unwrap();
        let Recovered { tree, sessions, .. } = recovered;
        Self { storage, tree, sessions, session: SESSION }
    }

    pub(crate) fn last(&self) -> Zxid {
        self.tree.last_zxid()
    }

    /// Decides a transaction and appends it.
    pub(crate) fn append(&mut self, op: TxnOp) -> Result<(), StorageError> {
        self.append_as(self.last().next(), op)
    }

    pub(crate) fn append_as(&mut self, zxid: Zxid, op: TxnOp) -> Result<(), StorageError> {
        let (time, session) = (Millis(1_700_000_000_000 + zxid.0), self.session);
        let mut txn = Txn { session, xid: Xid(1), zxid, time, op, digest: None };
        self.tree.apply(&txn, &mut |_, _| {});
        match txn.op {
            TxnOp::CreateSession { timeout } => self.sessions.push((session, timeout)),
            TxnOp::CloseSession { .. } => self.sessions.retain(|(id, _)| *id != session),
            _ => {}
        }
        if !matches!(txn.op, TxnOp::Error(_)) {
            txn.digest = self.tree.digest();
        }
        self.storage.append(&txn)
    }

    pub(crate) fn create(&mut self, path: &str, owner: Owner) {
        self.try_create(path, owner).unwrap();
    }

    pub(crate) fn try_create(&mut self, path: &str, owner: Owner) -> Result<(), StorageError> {
        let parent = zoolet_proto::path::parent(path);
        let parent_creates = {
            let stat = self.tree.get(parent).unwrap().stat();
            i64::from((stat.cversion + stat.num_children) / 2) + 1
        };
        let (path, data, acl) = (path.into(), Some(Bytes::from_static(b"x")), Acl::open().into());
        self.append(TxnOp::Create { path, data, acl, owner, parent_creates })
    }

    pub(crate) fn set(&mut self, path: &str, data: &[u8]) {
        let version = self.tree.get(path).unwrap().stat().version + 1;
        let data = Some(Bytes::copy_from_slice(data));
        self.append(TxnOp::SetData { path: path.into(), data, version }).unwrap();
    }

    pub(crate) fn refuse(&mut self) {
        self.append(TxnOp::Error(ErrorCode::NoNode)).unwrap();
    }

    /// As many changes of `/a` as make this the last transaction, and a commit.
    pub(crate) fn set_until(&mut self, zxid: i64) {
        while self.last() < Zxid(zxid) {
            self.set("/a", format!("value {}", self.last().0 + 1).as_bytes());
        }
        self.commit();
    }

    pub(crate) fn commit(&mut self) {
        self.storage.commit().unwrap();
    }

    /// Rolls the log and writes a snapshot.
    pub(crate) fn snapshot(&mut self) {
        self.storage.roll().unwrap();
        let header = self.tree.begin_snapshot();
        let snapshots = self.storage.snapshots();
        let mut writer = snapshots.begin(header, &self.sessions).unwrap();
        for znode in take_znodes(&mut self.tree) {
            writer.add(&znode).unwrap();
        }
        writer.finish().unwrap();
    }
}

fn take_znodes(tree: &mut Tree) -> Vec<ZnodeRecord> {
    let mut znodes = Vec::new();
    while tree.next_slice(100, 1 << 20, &mut |znode| znodes.push(znode)) {}
    tree.end_snapshot();
    znodes
}

/// Everything that a tree has.
pub(crate) fn znodes(tree: &mut Tree) -> Vec<ZnodeRecord> {
    tree.begin_snapshot();
    take_znodes(tree)
}

/// Where the entries of a log are: offset, length, zxid.
pub(crate) fn entries(disk: &SimulatedDisk, name: &str) -> Vec<(usize, usize, i64)> {
    let file = path(name);
    let mut reader = LogReader::new(disk.open(&file).unwrap(), &file).unwrap();
    let mut entries = Vec::new();
    while let LogItem::Entry(entry) = reader.next().unwrap() {
        entries.push((entry.offset as usize, entry.len as usize, entry.txn.zxid.0));
    }
    entries
}

/// All files below `/data`, with their content.
pub(crate) fn files(disk: &SimulatedDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut dirs = vec![PathBuf::from("/")];
    while let Some(dir) = dirs.pop() {
        for entry in disk.list(&dir).unwrap() {
            let path = dir.join(&entry.name);
            if entry.is_dir {
                dirs.push(path);
            } else {
                files.push((path.clone(), disk.read(&path).unwrap()));
            }
        }
    }
    files.sort_unstable();
    files
}

pub(crate) fn read_dir(disk: &SimulatedDisk) -> Result<Recovered, StorageError> {
    read(disk, &options())
}

/// The log as Apache would have written it: without the markers of batches.
pub(crate) fn without_markers(disk: &SimulatedDisk, name: &str) {
    let bytes = disk.read(path(name)).unwrap();
    let mut plain = bytes[..16].to_vec();
    for (offset, len, _) in entries(disk, name) {
        let payload = &bytes[offset + 12..offset + len - 5];
        push_entry(&mut plain, payload);
    }
    disk.write(path(name), plain).unwrap();
}

/// Appends an entry with this payload, by the rules of the format and none of the crate's code.
pub(crate) fn push_entry(log: &mut Vec<u8>, payload: &[u8]) {
    let (mut a, mut b) = (1u32, 0u32);
    for byte in payload {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    log.extend_from_slice(&[0; 4]);
    log.extend_from_slice(&(b << 16 | a).to_be_bytes());
    log.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    log.extend_from_slice(payload);
    log.push(0x42);
}

/// What the next process may find after each step that was kept.
pub(crate) fn crashes(disk: &SimulatedDisk) -> Vec<(String, SimulatedDisk)> {
    let mut crashes = Vec::new();
    for (step, before) in disk.take_history() {
        crashes.push((format!("kill at {step}"), before.fork().kill()));
        let losses =
            (0..8).map(|seed| (format!("power loss {seed} at {step}"), before.fork().power_loss(seed)));
        crashes.extend(losses);
    }
    crashes
}
