//! Snapshots byte by byte, with right checksums around whatever is in them.

use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use zoolet_simdisk::SimulatedDisk;
use zoolet_storage::{SnapshotReader, SnapshotSummary, StorageError};

use super::support::{DIR, disk};

/// The parts of an uncompressed snapshot.
#[derive(Debug, Clone)]
pub struct Raw {
    pub header: Vec<u8>,
    pub sessions: Vec<u8>,
    pub acls: Vec<u8>,
    pub znodes: Vec<Vec<u8>>,
    pub terminator: Vec<u8>,
    /// Each is followed by a checksum. The first checksum is before them.
    pub sections: Vec<Vec<u8>>,
    /// What follows the last checksum.
    pub rest: Vec<u8>,
}

impl Raw {
    /// That of a server that has done nothing yet, as Apache 3.9 writes it. Its znodes are at the bytes 59, 135, 221 and 314; the
    /// checksums are at 411, 444 and 465.
    pub fn fresh() -> Self {
        Self {
            header: [b"ZKSN".as_slice(), &2i32.to_be_bytes(), &(-1i64).to_be_bytes()].concat(),
            sessions: 0i32.to_be_bytes().into(),
            acls: [1i32.to_be_bytes().into(), acl(1, 1, b"world", b"anyone")].concat(),
            znodes: vec![
                znode_bytes(b"", -1, &[0; 60]),
                znode_bytes(b"/zookeeper", -1, &[0; 60]),
                znode_bytes(b"/zookeeper/config", 1, &config_stat()),
                znode_bytes(b"/zookeeper/quota", -1, &[0; 60]),
            ],
            terminator: b"\0\0\0\x01/".into(),
            sections: vec![digest(0, 2, &1_371_985_504u64.to_be_bytes()), 0i64.to_be_bytes().into()],
            rest: Vec::new(),
        }
    }

    /// Changed in one way.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let Self { header, sessions, acls, znodes, terminator, sections, rest } = self;
        let mut bytes = [header.as_slice(), sessions, acls, &znodes.concat(), terminator].concat();
        seal(&mut bytes);
        for section in sections {
            bytes.extend(section);
            seal(&mut bytes);
        }
        bytes.extend(rest);
        bytes
    }
}

fn seal(bytes: &mut Vec<u8>) {
    let sum = simd_adler32::adler32(&bytes.as_slice());
    bytes.extend(u64::from(sum).to_be_bytes());
    bytes.extend(b"\0\0\0\x01/");
}

pub fn session(id: i64, timeout: i32) -> Vec<u8> {
    [id.to_be_bytes().as_slice(), &timeout.to_be_bytes()].concat()
}

pub fn acl(id: i64, perms: i32, scheme: &[u8], name: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes(), 1i32.to_be_bytes().as_slice(), &perms.to_be_bytes(), &field(scheme), &field(name)]
        .concat()
}

pub fn znode_bytes(path: &[u8], acl: i64, stat: &[u8; 60]) -> Vec<u8> {
    [&field(path), field(b"").as_slice(), &acl.to_be_bytes(), stat].concat()
}

pub fn field(bytes: &[u8]) -> Vec<u8> {
    [i32::try_from(bytes.len()).unwrap().to_be_bytes().as_slice(), bytes].concat()
}

pub fn digest(zxid: i64, version: i32, digest: &[u8]) -> Vec<u8> {
    [&zxid.to_be_bytes(), version.to_be_bytes().as_slice(), digest].concat()
}

fn config_stat() -> [u8; 60] {
    let mut stat = [0; 60];
    stat[40..44].copy_from_slice(&(-1i32).to_be_bytes());
    stat
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn snappy(bytes: &[u8]) -> Vec<u8> {
    let mut compressed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for block in bytes.chunks(32 << 10) {
        compressed.extend(field(&snap::raw::Encoder::new().compress_vec(block).unwrap()));
    }
    compressed
}

/// Puts the bytes on a disk, as a snapshot of this name.
pub fn on_disk(name: &str, bytes: &[u8]) -> SimulatedDisk {
    let disk = disk();
    disk.write(Path::new(DIR).join(name), bytes).unwrap();
    disk
}

/// Reads all of it.
pub fn check(name: &str, bytes: &[u8]) -> Result<SnapshotSummary, StorageError> {
    SnapshotReader::open(&on_disk(name, bytes), &Path::new(DIR).join(name)).and_then(SnapshotReader::check)
}
