//! How long a million znodes take. Not in a normal run:
//! `cargo test --release -p zoolet-storage --test it -- --ignored --nocapture a_million`

use std::sync::Arc;
use std::time::Instant;

use zoolet_proto::{Acl, Perms, Zxid};
use zoolet_server_core::TreeLoader;
use zoolet_storage::disk::{Disk, RealDisk};
use zoolet_storage::{Compression, SnapshotDir, SnapshotReader, StorageOptions};

use super::support::*;

#[test]
#[ignore = "measures; it checks nothing that others do not"]
#[allow(clippy::print_stdout)]
fn a_million_znodes_are_written_and_read() {
    let temp = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    disk.create_dir(&temp.path().join("version-2")).unwrap();
    let acls: Vec<Arc<[Acl]>> =
        (0..8).map(|i| vec![Acl::new(Perms::ALL, "ip", format!("10.0.0.{i}"))].into()).collect();
    let mut znodes = Content::fresh().znodes;
    for parent in 0..1_000 {
        znodes.push(znode(&format!("/parent-{parent:04}"), b"", &open_acl()));
        for child in 0..999 {
            let path = format!("/parent-{parent:04}/child-{child:010}");
            znodes.push(znode(&path, &[7; 100], &acls[child % 8]));
        }
    }
    let content = Content { zxid: Zxid(1), digest: Some(1), sessions: Vec::new(), znodes };
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
        let mut options = StorageOptions::new(temp.path());
        options.compression = compression;
        let dir = SnapshotDir::new(Arc::clone(&disk), &options);
        let mut times = Vec::new();
        let mut clock = Instant::now();
        let mut lap = |what: &str| {
            times.push(format!("{what} {:.3} s", clock.elapsed().as_secs_f64()));
            clock = Instant::now();
        };
        let complete = content.writer(&dir).unwrap().sync().unwrap();
        lap("written and synced");
        let published = complete.publish().unwrap();
        lap("published");
        let mut reader = SnapshotReader::open(&*disk, &published.path).unwrap();
        while let Some(znode) = reader.next_znode().unwrap() {
            drop(znode);
        }
        lap("read");
        SnapshotReader::open(&*disk, &published.path).and_then(SnapshotReader::check).unwrap();
        lap("checked");
        let mut reader = SnapshotReader::open(&*disk, &published.path).unwrap();
        let mut loader = TreeLoader::new(true);
        while let Some(znode) = reader.next_znode().unwrap() {
            loader.insert(znode).unwrap();
        }
        let tree = loader.finish(Zxid(1)).unwrap();
        lap("loaded with its digest");
        drop(tree);
        println!("{compression:?}, {} MB: {}", published.len >> 20, times.join(", "));
    }
}
