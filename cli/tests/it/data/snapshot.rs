use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_storage::disk::RealDisk;
use zoolet_storage::{Recovered, SnapshotDir, SnapshotReader, StorageOptions, open, read_with};

use crate::common::directory::DataDirectory;

#[test]
fn a_snapshot_shows_what_the_log_has() {
    let directory = DataDirectory::sample();
    let before = directory.run("dump", &["--data"]);
    let ran = directory.run("snapshot", &[]);
    let expected = format!("{}: zxid 0xa, 8 znodes, 1 session, ", directory.file("snapshot.a").display());
    assert!(ran.clean().starts_with(&expected), "{ran:?}");
    assert_eq!(directory.names(), ["log.1", "snapshot.0", "snapshot.a"]);
    assert_eq!(directory.run("dump", &["--data"]).clean(), before.clean());
    let again = directory.run("snapshot", &[]);
    assert_eq!(again.out, ran.out);
    assert!(
        again.err.contains("there is a snapshot of this transaction already, and it is valid"),
        "{again:?}"
    );
}

#[test]
fn a_snapshot_says_when_the_tree_was_restored() {
    let directory = DataDirectory::sample();
    let options = StorageOptions::new(directory.path());
    let restored = Some(Zxid(5));
    let recovered = read_with(&RealDisk, &options, restored, &mut |_, _| {});
    let Recovered { mut tree, sessions, .. } = recovered.unwrap();
    let mut header = tree.begin_snapshot();
    header.restored_at = restored;
    let mut writer = SnapshotDir::new(Arc::new(RealDisk), &options).begin(header, &sessions).unwrap();
    while tree.next_slice(1_000, 1 << 20, &mut |znode| writer.add(&znode).unwrap()) {}
    writer.finish().unwrap();
    directory.run("snapshot", &[]).clean();
    let written = SnapshotReader::open(&RealDisk, &directory.file("snapshot.a")).unwrap();
    assert_eq!(written.restored_at(), restored);
}

#[test]
fn a_snapshot_can_be_compressed() {
    let directory = DataDirectory::sample();
    for (method, name) in [("gz", "snapshot.a.gz"), ("snappy", "snapshot.a.snappy")] {
        directory.run("snapshot", &["--compression", method]).clean();
        assert!(directory.names().iter().any(|found| found == name), "{:?}", directory.names());
    }
}

#[test]
fn a_directory_in_use_gets_no_snapshot_and_can_be_read() {
    let directory = DataDirectory::sample();
    let server = open(Arc::new(RealDisk), StorageOptions::new(directory.path())).unwrap();
    let ran = directory.run("snapshot", &[]);
    assert!(ran.refused(2).contains("is in use by another server; stop that one first"), "{ran:?}");
    directory.run("dump", &[]).clean();
    drop(server);
    directory.run("snapshot", &[]).clean();
}
