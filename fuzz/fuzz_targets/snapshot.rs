//! Snapshots of any bytes: no panic, memory bounded by the bytes, and what loads is written and loads equal.

#![no_main]

use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{SnapshotHeader, TreeLoader, ZnodeRecord};
use zoolet_simdisk::SimulatedDisk;
use zoolet_storage::{SnapshotDir, SnapshotReader, StorageError, StorageOptions};

const DIR: &str = "/data/version-2";

/// What gzip makes of a byte at most.
const INFLATION: u64 = 1_032;

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else { return };
    match kind % 5 {
        0 => file("snapshot.0", data, 1),
        1 => file("snapshot.0.gz", data, INFLATION),
        // A block of snappy may promise 22 times its bytes, and one that is wrong a whole block.
        2 => file("snapshot.0.snappy", data, 22),
        3 => file("snapshot.0", &sealed(data, &[]), 1),
        _ => {
            let (sections, body) = data.split_at(data.len().min(28));
            file("snapshot.0", &sealed(body, sections), 1);
        }
    }
});

/// Reads a file, and writes it again.
fn file(name: &str, data: &[u8], inflation: u64) {
    let disk = SimulatedDisk::new(0);
    let path = Path::new(DIR).join(name);
    disk.write(&path, data).expect("a disk without faults");
    let mut loaded = None;
    let memory = allocation_counter::measure(|| loaded = load(&disk, &path).ok());
    // The buffers, and what a record of few bytes becomes.
    let allowed = (10 << 20) + data.len() as u64 * inflation * 64;
    assert!(memory.bytes_max < allowed, "{} bytes for {}", memory.bytes_max, data.len());

    let Some((sessions, digest, znodes)) = loaded else { return };
    // Whether it is valid does not depend on the tree.
    assert!(SnapshotReader::open(&disk, &path).and_then(SnapshotReader::check).is_ok());
    let disk = SimulatedDisk::new(0);
    disk.write("/data/version-2/currentEpoch", "0").expect("a disk without faults");
    let dir = SnapshotDir::new(Arc::new(disk.clone()), &StorageOptions::new("/data"));
    let acls = znodes.iter().map(|znode| znode.acl.clone()).collect();
    let header = SnapshotHeader::new(Zxid(0), digest, acls);
    let mut writer = dir.begin(header, &sessions).expect("a disk without faults");
    for znode in &znodes {
        writer.add(znode).expect("a disk without faults");
    }
    let published = writer.finish().expect("a disk without faults");
    assert_eq!(load(&disk, &published.path).expect("a valid snapshot"), (sessions, digest, znodes));
}

type Content = (Vec<(SessionId, i32)>, Option<u64>, Vec<ZnodeRecord>);

fn load(disk: &SimulatedDisk, path: &Path) -> Result<Content, StorageError> {
    let mut reader = SnapshotReader::open(disk, path)?;
    let mut loader = TreeLoader::new(true);
    let mut znodes = Vec::new();
    while let Some(znode) = reader.next_znode()? {
        loader.insert(znode.clone()).map_err(|error| reader.refuse(error.to_string()))?;
        znodes.push(znode);
    }
    let tree = loader.finish(Zxid(0)).map_err(|error| reader.refuse(error.to_string()))?;
    assert!(tree.digest().is_some());
    Ok((reader.sessions().to_vec(), reader.digest().and_then(|digest| digest.digest), znodes))
}

/// The body with right checksums, which a fuzzer does not find, after it and after the sections.
fn sealed(body: &[u8], sections: &[u8]) -> Vec<u8> {
    let mut bytes = body.to_vec();
    seal(&mut bytes);
    for section in [sections.get(..20), sections.get(20..28)].into_iter().flatten() {
        bytes.extend(section);
        seal(&mut bytes);
    }
    bytes
}

fn seal(bytes: &mut Vec<u8>) {
    let sum = simd_adler32::adler32(&bytes.as_slice());
    bytes.extend(u64::from(sum).to_be_bytes());
    bytes.extend(b"\0\0\0\x01/");
}
