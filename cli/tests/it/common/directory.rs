//! Data directories with known content, and `zoolet data` on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tempfile::TempDir;
use zoolet_client::ErrorCode;
use zoolet_proto::{Acl, Perms, SessionId, Xid};
use zoolet_server_core::{Millis, Owner, Txn, TxnOp};
use zoolet_storage::disk::RealDisk;
use zoolet_storage::{StorageOptions, open};

/// 2026-11-23, 00:00:00 UTC.
const BEGIN: i64 = 1_795_392_000_000;
const SESSION: SessionId = SessionId(0x1000_0000_000a);

/// A data directory in a directory of its own.
pub struct DataDirectory {
    temp: TempDir,
}

impl DataDirectory {
    /// `snapshot.0` and `log.1` with ten transactions of one session, which is still open.
    pub fn sample() -> Self {
        let directory = Self { temp: TempDir::new().unwrap() };
        directory.append(sample());
        directory
    }

    /// Appends transactions, each with the zxid after the one before, and synced alone.
    pub fn append(&self, ops: Vec<TxnOp>) {
        self.write(ops, 1);
    }

    /// Appends transactions in one batch.
    pub fn append_batch(&self, ops: Vec<TxnOp>) {
        self.write(ops, usize::MAX);
    }

    fn write(&self, ops: Vec<TxnOp>, batch: usize) {
        let mut options = StorageOptions::new(self.path());
        options.pre_alloc = 64 << 10;
        let (mut storage, _) = open(Arc::new(RealDisk), options).unwrap();
        for (n, op) in ops.into_iter().enumerate() {
            let zxid = storage.last_zxid().next();
            let xid = Xid(i32::try_from(zxid.0).unwrap() - 1);
            let time = Millis(BEGIN + 1_000 * zxid.0);
            storage.append(&Txn { session: SESSION, xid, zxid, time, op, digest: None }).unwrap();
            if (n + 1) % batch == 0 {
                storage.commit().unwrap();
            }
        }
        storage.commit().unwrap();
    }

    pub fn path(&self) -> PathBuf {
        self.temp.path().join("data")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join("version-2").join(name)
    }

    /// The names of its files.
    pub fn names(&self) -> Vec<String> {
        names(&self.path())
    }

    /// Runs `zoolet data <command> <this directory> <arguments>`.
    pub fn run(&self, command: &str, arguments: &[&str]) -> Ran {
        let directory = self.path();
        run(&[&["data", command, directory.to_str().unwrap()], arguments].concat())
    }

    /// Where an entry of a log file begins.
    pub fn entry(&self, log: &str, number: usize) -> usize {
        let bytes = fs::read(self.file(log)).unwrap();
        let len = |at: usize| u32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        (0..number).fold(16, |at, _| at + 12 + len(at) + 1)
    }

    /// Changes a file.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.file(name)).unwrap();
        change(&mut bytes);
        fs::write(self.file(name), bytes).unwrap();
    }
}

/// The files below `version-2` of a data directory.
pub fn names(directory: &Path) -> Vec<String> {
    let files = fs::read_dir(directory.join("version-2")).unwrap();
    let mut names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// How the binary ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// What it has printed; it must have succeeded and complained of nothing.
    pub fn clean(&self) -> &str {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{self:?}");
        &self.out
    }

    /// Its one line on stderr; it must have failed with this code and printed nothing.
    pub fn refused(&self, code: i32) -> &str {
        assert_eq!((self.code, self.out.as_str(), self.err.lines().count()), (Some(code), "", 1), "{self:?}");
        self.err.trim_end()
    }
}

/// Runs the binary.
pub fn run(arguments: &[&str]) -> Ran {
    let output =
        assert_cmd::Command::new(super::BINARY).args(arguments).env_remove("RUST_LOG").output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

pub fn create(path: &str, data: &'static str, owner: Owner) -> TxnOp {
    let acl = Acl::open().into();
    TxnOp::Create {
        path: path.into(),
        data: Some(Bytes::from_static(data.as_bytes())),
        acl,
        owner,
        parent_creates: 1,
    }
}

fn sample() -> Vec<TxnOp> {
    let acl = vec![Acl::digest(Perms::ALL, "bob", "secret"), Acl::new(Perms::READ, "ip", "10.0.0.0/8")];
    let set = |path: &str, data: &'static [u8], version| TxnOp::SetData {
        path: path.into(),
        data: Some(Bytes::from_static(data)),
        version,
    };
    vec![
        TxnOp::CreateSession { timeout: 30_000 },
        create("/app", "v1", Owner::PERSISTENT),
        create("/app/leader", "host:1", Owner::session(SESSION)),
        set("/app", b"v2", 1),
        TxnOp::SetAcl { path: "/app".into(), acl: acl.into(), aversion: 1 },
        TxnOp::Error(ErrorCode::NodeExists),
        TxnOp::Multi(vec![
            TxnOp::Check { path: "/app".into() },
            create("/jobs", "", Owner::CONTAINER),
            create("/cache", "x", Owner::ttl(60_000).unwrap()),
        ]),
        create("/gone", "", Owner::PERSISTENT),
        TxnOp::Delete { path: "/gone".into() },
        set("/cache", &[0xff, 0], 1),
    ]
}
