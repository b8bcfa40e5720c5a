//! Old snapshots and log files are removed, and never what a recovery needs.

use std::path::Path;
use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_simdisk::{DiskFault, DiskOp, SimulatedDisk};
use zoolet_storage::disk::Disk;
use zoolet_storage::{Compression, SnapshotDir, StorageError, StorageOptions};

use super::raw::*;
use super::support::*;

type Zxids = &'static [i64];

/// A disk with valid snapshots of these zxids, empty ones of the others, and log files that begin at these.
fn disk_with(valid: &[i64], damaged: &[i64], logs: &[i64]) -> (SimulatedDisk, SnapshotDir) {
    let disk = disk();
    for zxid in valid {
        disk.write(format!("{DIR}/snapshot.{zxid:x}"), tree_only()).unwrap();
    }
    for zxid in damaged {
        disk.write(format!("{DIR}/snapshot.{zxid:x}"), [0; 100]).unwrap();
    }
    for zxid in logs {
        disk.write(format!("{DIR}/log.{zxid:x}"), "a log").unwrap();
    }
    let dir = dir(&disk, Compression::None);
    (disk, dir)
}

fn tree_only() -> Vec<u8> {
    Raw::fresh().with(|raw| raw.sections.clear()).bytes()
}

fn left(disk: &dyn Disk) -> String {
    let mut names: Vec<_> = disk
        .list(Path::new(DIR))
        .unwrap()
        .into_iter()
        .map(|entry| entry.name.into_string().unwrap())
        .filter(|name| name != "currentEpoch")
        .collect();
    names.sort_by_key(|name| {
        let (kind, zxid) = name.split_once('.').unwrap_or((name, ""));
        (kind.to_owned(), i64::from_str_radix(zxid, 16).unwrap_or(0), zxid.to_owned())
    });
    names.join(" ")
}

#[test]
fn the_newest_snapshots_stay_with_the_log_since_the_oldest_of_them() {
    let rows: [(Zxids, Zxids, Zxids, usize, &str); 10] = [
        (
            &[1, 5, 9, 12],
            &[],
            &[1, 2, 6, 10, 13],
            3,
            "log.2 log.6 log.a log.d snapshot.5 snapshot.9 snapshot.c",
        ),
        (&[1, 5, 9, 12], &[], &[1, 2, 6, 10, 13], 1, "log.a log.d snapshot.c"),
        // One at least.
        (&[1, 5], &[], &[1, 2, 6], 0, "log.2 log.6 snapshot.5"),
        // Fewer than may stay.
        (&[5, 9], &[], &[1, 6, 10], 3, "log.1 log.6 log.a snapshot.5 snapshot.9"),
        // A log file that began exactly at the snapshot, and one that goes on over it.
        (&[0, 5], &[], &[1, 5, 6], 1, "log.5 log.6 snapshot.5"),
        (&[0, 5], &[], &[1, 9], 1, "log.1 log.9 snapshot.5"),
        (&[0, 5], &[], &[6, 9], 1, "log.6 log.9 snapshot.5"),
        // Damaged ones are not counted, and removed only if they are older than what stays.
        (
            &[1, 5, 9],
            &[7, 12],
            &[1, 6, 10, 13],
            2,
            "log.1 log.6 log.a log.d snapshot.5 snapshot.7 snapshot.9 snapshot.c",
        ),
        (&[5, 9], &[3, 7], &[1, 6, 10], 1, "log.6 log.a snapshot.9"),
        // None is good: nothing is removed.
        (&[], &[3, 7], &[1, 4, 8], 1, "log.1 log.4 log.8 snapshot.3 snapshot.7"),
    ];
    for (valid, damaged, logs, retain, expected) in rows {
        let (disk, dir) = disk_with(valid, damaged, logs);
        let purged = dir.purge(retain).unwrap();
        assert_eq!(left(&disk), expected, "{valid:?} {damaged:?} {logs:?} {retain}");
        assert_eq!(
            purged.removed.len(),
            valid.len() + damaged.len() + logs.len() - expected.split(' ').count()
        );
        assert!(dir.purge(retain).unwrap().removed.is_empty(), "a second time");
        // The names are durable.
        assert_eq!(left(&disk.power_loss(1)), expected);
    }
}

#[test]
fn a_snapshot_that_lacks_an_acl_is_not_counted() {
    let (disk, dir) = disk_with(&[5], &[], &[1, 6]);
    let lacking = Raw::fresh().with(|raw| {
        raw.sections.clear();
        raw.znodes.push(znode_bytes(b"/a", 7, &[0; 60]));
    });
    disk.write(format!("{DIR}/snapshot.9"), lacking.bytes()).unwrap();
    let purged = dir.purge(1).unwrap();
    assert_eq!(left(&disk), "log.1 log.6 snapshot.5 snapshot.9");
    assert_eq!((purged.oldest, purged.damaged.len()), (Some(Zxid(5)), 1));
}

#[test]
fn files_that_no_server_names_so_stay() {
    let (disk, dir) = disk_with(&[1, 9], &[], &[1, 10]);
    let others = [
        "log.0.old",
        "log.A0",
        "log.x",
        "log.00",
        "snapshot.0.bak",
        "snapshot.00",
        "myid",
        "snapshot.x",
        "log",
        "log.-1",
    ];
    for name in others {
        disk.write(format!("{DIR}/{name}"), tree_only()).unwrap();
    }
    for gone in ["snapshot.2.gz", "snapshot.3.snappy"] {
        disk.write(format!("{DIR}/{gone}"), "").unwrap();
    }
    disk.create_dir(&Path::new(DIR).join("log.0")).unwrap();
    dir.purge(1).unwrap();
    let mut left: Vec<_> = disk.list(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name).collect();
    left.sort();
    let mut expected = [&others[..], &["currentEpoch", "log.0", "log.1", "log.a", "snapshot.9"]].concat();
    expected.sort_unstable();
    assert_eq!(left, expected);
}

#[test]
fn two_files_of_one_zxid_are_one_snapshot() {
    let (disk, dir) = disk_with(&[1, 5, 9], &[], &[1, 6]);
    disk.write(format!("{DIR}/snapshot.9.gz"), gzip(&tree_only())).unwrap();
    dir.purge(2).unwrap();
    assert_eq!(left(&disk), "log.1 log.6 snapshot.9.gz snapshot.5 snapshot.9");
}

#[test]
fn what_is_known_to_be_valid_is_not_read_again() {
    let (disk, dir) = disk_with(&[1, 5, 9], &[], &[1, 6, 10]);
    dir.purge(2).unwrap();
    disk.place(DiskOp::Read.on("snapshot.*"), DiskFault::Fail).unwrap();
    dir.purge(1).unwrap();
    assert_eq!(left(&disk), "log.6 log.a snapshot.9");
}

#[test]
fn the_snapshot_that_was_loaded_at_the_start_is_not_read_again() {
    let (disk, _) = disk_with(&[1, 9], &[], &[]);
    disk.write(format!("{DIR}/.zoolet-complete"), b"0x9\n").unwrap();
    let (storage, _) = zoolet_storage::open(Arc::new(disk.clone()), StorageOptions::new("/data")).unwrap();
    disk.place(DiskOp::Read.on("snapshot.*"), DiskFault::Fail).unwrap();
    storage.snapshots().purge(1).unwrap();
    assert_eq!(left(&disk), ".zoolet-complete snapshot.9");
}

#[test]
fn nothing_is_removed_when_a_snapshot_cannot_be_read() {
    let (disk, dir) = disk_with(&[1, 5, 9], &[], &[1, 6, 10]);
    disk.place(DiskOp::Read.on("snapshot.9"), DiskFault::Fail).unwrap();
    assert!(matches!(dir.purge(1), Err(StorageError::Io { action: "read", .. })));
    assert_eq!(left(&disk), "log.1 log.6 log.a snapshot.1 snapshot.5 snapshot.9");
}

#[test]
fn a_power_loss_within_a_purge_leaves_what_a_recovery_needs() {
    let (disk, dir) = disk_with(&[1, 3, 5, 9], &[], &[1, 2, 4, 6, 10]);
    disk.keep_history();
    dir.purge(1).unwrap();
    let history = disk.take_history();
    assert!(history.len() >= 8);
    for (step, disk) in history {
        for seed in 0..10 {
            let left = left(&disk.fork().power_loss(seed));
            assert!(left.ends_with("snapshot.9"), "step {step}, seed {seed}: {left}");
            assert!(left.contains("log.6 log.a"), "step {step}, seed {seed}: {left}");
        }
    }
}

#[test]
fn the_log_may_be_in_another_directory() {
    let disk = disk();
    for zxid in ["1", "9"] {
        disk.write(format!("{DIR}/snapshot.{zxid}"), tree_only()).unwrap();
    }
    for zxid in ["1", "2", "a"] {
        disk.write(format!("/log/version-2/log.{zxid}"), "").unwrap();
    }
    let mut options = StorageOptions::new("/data");
    options.log_dir = Some("/log".into());
    let dir = SnapshotDir::new(Arc::new(disk.clone()), &options);
    let removed = dir.purge(1).unwrap().removed;
    assert_eq!(removed, ["/data/version-2/snapshot.1", "/log/version-2/log.1"].map(Path::new));
}
