//! Snapshots to write and to read, on a simulated disk.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_proto::{Acl, AclList, Perms, SessionId, Zxid};
use zoolet_server_core::{Owner, SnapshotHeader, ZnodeRecord};
use zoolet_simdisk::SimulatedDisk;
use zoolet_storage::{
    Compression, Published, SnapshotDir, SnapshotReader, SnapshotWriter, StorageError, StorageOptions,
};

pub const DIR: &str = "/data/version-2";

pub fn disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new(0);
    disk.write(Path::new(DIR).join("currentEpoch"), "0").unwrap();
    disk
}

pub fn dir(disk: &SimulatedDisk, compression: Compression) -> SnapshotDir {
    let mut options = StorageOptions::new("/data");
    options.compression = compression;
    SnapshotDir::new(Arc::new(disk.clone()), &options)
}

pub fn open_acl() -> AclList {
    Acl::open().into()
}

pub fn read_acl() -> AclList {
    Acl::read_only().into()
}

/// A znode with stats of zero.
pub fn znode(path: &str, data: &[u8], acl: &AclList) -> ZnodeRecord {
    ZnodeRecord {
        path: path.into(),
        data: Some(Bytes::copy_from_slice(data)),
        acl: acl.clone(),
        czxid: Zxid(0),
        mzxid: Zxid(0),
        pzxid: Zxid(0),
        ctime: 0,
        mtime: 0,
        version: 0,
        creates: 0,
        aversion: 0,
        owner: Owner::from_code(0),
    }
}

/// What a snapshot has.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    pub zxid: Zxid,
    pub digest: Option<u64>,
    pub sessions: Vec<(SessionId, i32)>,
    pub znodes: Vec<ZnodeRecord>,
}

impl Content {
    /// The tree of a server that has done nothing yet.
    pub fn fresh() -> Self {
        let config = ZnodeRecord { aversion: -1, ..znode("/zookeeper/config", b"", &read_acl()) };
        Self {
            zxid: Zxid(0),
            digest: Some(1_371_985_504),
            sessions: Vec::new(),
            znodes: vec![
                znode("/", b"", &open_acl()),
                znode("/zookeeper", b"", &open_acl()),
                config,
                znode("/zookeeper/quota", b"", &open_acl()),
            ],
        }
    }

    /// One of everything that a snapshot can have.
    pub fn varied() -> Self {
        let bob: AclList =
            vec![Acl::digest(Perms::ALL, "bob", "secret"), Acl::new(Perms::READ, "ip", "10.0.0.0/8")].into();
        let mut znodes = Self::fresh().znodes;
        let stat = ZnodeRecord {
            czxid: Zxid(0x1_0000_0002),
            mzxid: Zxid(0x1_0000_0003),
            pzxid: Zxid(0x1_0000_0004),
            ctime: 1_795_000_000_000,
            mtime: 1_795_000_000_001,
            version: 5,
            creates: 0xffff_fffe,
            aversion: 7,
            ..znode("/app", b"value", &bob)
        };
        znodes.extend([
            stat.clone(),
            ZnodeRecord { path: "/app/null".into(), data: None, ..stat.clone() },
            ZnodeRecord {
                path: "/app/session".into(),
                owner: Owner::session(SessionId(0x0100_0a56)),
                ..stat.clone()
            },
            ZnodeRecord {
                path: "/app/ttl".into(),
                owner: Owner::ttl(5_000).unwrap(),
                version: -1,
                ..stat.clone()
            },
            ZnodeRecord { path: "/app/container".into(), owner: Owner::from_code(i64::MIN), ..stat.clone() },
            ZnodeRecord { path: "/app/ünïcode 語".into(), acl: open_acl(), ..stat.clone() },
            ZnodeRecord { path: "/long".into(), data: Some(vec![7; 300_000].into()), ..stat },
        ]);
        Self {
            zxid: Zxid(0x1_0000_0009),
            digest: Some(0x0123_4567_89ab_cdef),
            sessions: vec![(SessionId(0x0100_0a56), 10_000), (SessionId(-5), 4_000)],
            znodes,
        }
    }

    pub fn acls(&self) -> Vec<AclList> {
        self.znodes.iter().map(|znode| znode.acl.clone()).collect()
    }

    /// A writer that has all znodes.
    pub fn writer(&self, dir: &SnapshotDir) -> Result<SnapshotWriter, StorageError> {
        let mut writer =
            dir.begin(SnapshotHeader::new(self.zxid, self.digest, self.acls()), &self.sessions)?;
        for znode in &self.znodes {
            writer.add(znode)?;
        }
        Ok(writer)
    }

    pub fn write(&self, dir: &SnapshotDir) -> Result<Published, StorageError> {
        self.writer(dir)?.finish()
    }

    /// The bytes of the uncompressed file.
    pub fn bytes(&self) -> Vec<u8> {
        let disk = disk();
        let published = self.write(&dir(&disk, Compression::None)).unwrap();
        disk.read(published.path).unwrap()
    }

    /// Reads a whole snapshot, whose sections must agree.
    pub fn read(disk: &SimulatedDisk, path: impl AsRef<Path>) -> Result<Self, StorageError> {
        let mut reader = SnapshotReader::open(disk, path.as_ref())?;
        let mut znodes = Vec::new();
        while let Some(znode) = reader.next_znode()? {
            znodes.push(znode);
        }
        assert_eq!(reader.missing_acls(), []);
        let (done, len) = reader.progress();
        assert_eq!(done, len, "all of the file is read");
        let name = path.as_ref().file_name().unwrap().to_str().unwrap();
        let zxid = Zxid(i64::from_str_radix(name.split('.').nth(1).unwrap(), 16).unwrap());
        let digest = reader.digest();
        assert_eq!(digest.map(|digest| digest.zxid), digest.map(|_| zxid));
        assert_eq!(reader.last_zxid(), digest.map(|_| zxid));
        let digest = digest.map(|digest| digest.digest.expect("a digest of the current version"));
        Ok(Self { zxid, digest, sessions: reader.sessions().to_vec(), znodes })
    }
}
