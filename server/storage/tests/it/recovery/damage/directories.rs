//! Damage to snapshots and epochs, and wrong directories.

use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_server_core::{Owner, TxnOp};
use zoolet_simdisk::{DiskFault, DiskOp, SimulatedDisk};
use zoolet_storage::disk::Disk;
use zoolet_storage::{StorageError, open, read};

use super::check;
use crate::recovery::scene::{Expected, Scene, recovered, refused};
use crate::recovery::support::{Writer, entries, options, path, read_dir};

#[test]
fn a_damaged_snapshot_is_done_without_if_the_log_is_whole() {
    check(&[
        ("a bit of the newest", |scene| {
            scene.edit("snapshot.a", |snapshot| snapshot[300] ^= 4);
            recovered(20, &["a snapshot is skipped: /data/version-2/snapshot.a"])
        }),
        ("half of the newest", |scene| {
            scene.edit("snapshot.a", |snapshot| snapshot.truncate(300));
            recovered(20, &["a snapshot is skipped: /data/version-2/snapshot.a"])
        }),
        ("nothing of the newest", |scene| {
            scene.write("snapshot.a", b"");
            recovered(20, &["a snapshot is skipped: /data/version-2/snapshot.a"])
        }),
        ("the newest, and the log before it is damaged", |scene| {
            scene.edit("snapshot.a", |snapshot| snapshot[300] ^= 4);
            scene.damage(6, |entry| entry[60] ^= 4);
            refused(
                "snapshot.a",
                scene_seal(scene),
                "and it cannot be done without: /data/version-2/log.1, byte",
            )
        }),
        ("the newest, and the log before it is missing", |scene| {
            scene.edit("snapshot.a", |snapshot| snapshot[300] ^= 4);
            scene.remove("log.1");
            refused(
                "snapshot.a",
                scene_seal(scene),
                "and it cannot be done without: /data/version-2/log.b: transaction 0xb comes after 0x0",
            )
        }),
        ("the newest, and the log ends before it", |scene| {
            scene.edit("snapshot.a", |snapshot| snapshot[300] ^= 4);
            scene.remove("log.b");
            let end = scene.end(8);
            scene.edit("log.1", |log| log.truncate(end));
            refused("snapshot.a", scene_seal(scene), "and the log ends before it, with 0x8")
        }),
        ("all of them", |scene| {
            scene.edit("snapshot.a", |snapshot| snapshot[300] ^= 4);
            scene.edit("snapshot.0", |snapshot| snapshot[300] ^= 4);
            refused("snapshot.a", scene_seal(scene), "the checksum of the bytes before is")
        }),
        ("none is there", |scene| {
            scene.remove("snapshot.a");
            scene.remove("snapshot.0");
            refused("", None, "there is a log, and no snapshot")
        }),
        ("none is there, and none is needed", |scene| {
            scene.remove("snapshot.a");
            scene.remove("snapshot.0");
            scene.options.trust_empty_snapshot = true;
            recovered(20, &["there is no snapshot: the log is taken for complete"])
        }),
        ("none is there or needed, and the log does not begin with 1", |scene| {
            scene.remove("snapshot.a");
            scene.remove("snapshot.0");
            scene.remove("log.1");
            scene.options.trust_empty_snapshot = true;
            refused("log.b", None, "transaction 0xb comes after 0x0")
        }),
        ("the newest has a later name", |scene| {
            scene.rename("snapshot.a", "snapshot.f");
            recovered(20, &["a snapshot is skipped: /data/version-2/snapshot.f"])
        }),
        // It is replayed like one of Apache, which shows parts of what comes after its zxid: digests differ at first.
        ("the newest has an earlier name", |scene| {
            scene.rename("snapshot.a", "snapshot.5");
            recovered(20, &[])
        }),
        ("the newest has an earlier name, and the log ends before what it shows", |scene| {
            scene.rename("snapshot.a", "snapshot.5");
            scene.remove("log.b");
            let end = scene.end(8);
            scene.edit("log.1", |log| log.truncate(end));
            refused("snapshot.5", None, "it shows transaction 0xa, and the log ends with 0x8")
        }),
        ("the oldest is missing", |scene| {
            scene.remove("snapshot.0");
            recovered(20, &[])
        }),
        ("no log after the newest", |scene| {
            scene.remove("log.b");
            recovered(10, &[])
        }),
        ("no log at all", |scene| {
            scene.remove("log.1");
            scene.remove("log.b");
            refused("", None, "there is a snapshot of transaction 0xa, and no log")
        }),
    ]);
}

/// Where the checksum of `snapshot.a` is that says that something before it is wrong: 13 bytes before the section of the digest.
fn scene_seal(scene: &Scene) -> usize {
    scene.disk.read(path("snapshot.a")).unwrap().len() - 13 - 33 - 21
}

#[test]
fn names_decide_what_is_read() {
    check(&[
        ("a copy of a log", |scene| {
            let bytes = scene.disk.read(path("log.b")).unwrap();
            scene.write("log.b.old", bytes);
            recovered(20, &["/data/version-2/log.b.old: no log and no snapshot has this name; ignored"])
        }),
        ("a copy of a snapshot", |scene| {
            let bytes = scene.disk.read(path("snapshot.0")).unwrap();
            scene.write("snapshot.ff.bak", bytes);
            recovered(20, &["/data/version-2/snapshot.ff.bak: no log and no snapshot has this name"])
        }),
        ("a log that has no zxid", |scene| {
            scene.write("log.txt", b"x");
            recovered(20, &["log.txt"])
        }),
        ("a directory with the name of a log", |scene| {
            scene.disk.create_dir(&path("log.20")).unwrap();
            refused("log.20", None, "it is a directory, and has the name of a file of the data")
        }),
        ("a directory in the place of the last log", |scene| {
            scene.remove("log.b");
            scene.disk.create_dir(&path("log.b")).unwrap();
            refused("log.b", None, "it is a directory, and has the name of a file of the data")
        }),
        ("a directory in the place of the newest snapshot", |scene| {
            scene.remove("snapshot.a");
            scene.disk.create_dir(&path("snapshot.a")).unwrap();
            refused("snapshot.a", None, "it is a directory, and has the name of a file of the data")
        }),
        ("directories with names that no server gives", |scene| {
            scene.disk.create_dir(&path("log.old")).unwrap();
            scene.disk.create_dir(&path("snapshot.28.bak")).unwrap();
            recovered(20, &["log.old: no log and no snapshot has this name; ignored"])
        }),
        ("what has nothing to do with it", |scene| {
            scene.write("notes", b"x");
            scene.write("acceptedEpoch.bak", b"x");
            recovered(20, &[])
        }),
        ("what a server of ours left", |scene| {
            scene.write(".zoolet-log.tmp", b"x");
            recovered(20, &["left over from a server that ended while writing it"])
        }),
    ]);
}

#[test]
fn a_directory_that_looks_empty_and_is_not_is_refused() {
    let at = |file: &str, reason: &str| Expected::Refused {
        file: file.into(),
        offset: None,
        reason: reason.into(),
    };
    let moved = |to: &str| {
        let mut scene = Scene::new();
        for name in ["snapshot.0", "snapshot.a", "log.1", "log.b"] {
            let bytes = scene.disk.read(path(name)).unwrap();
            scene.remove(name);
            scene.disk.write(format!("{to}/{name}"), bytes).unwrap();
        }
        scene.options.create_directories = true;
        scene
    };
    moved("/data")
        .check("files in the directory itself", &at("/data/log.1", "the files are in the directory itself"));
    moved("/data/version-3")
        .check("another version", &at("/data/version-3", "it has the data of another version of the format"));
    let mut scene = Scene::new();
    scene.options.data_dir = "/data/version-2".into();
    scene.check(
        "the subdirectory itself",
        &at("/data/version-2/log.1", "the files are in the directory itself"),
    );
    let mut scene = Scene::new();
    scene.options.log_dir = Some("/log".into());
    scene.check(
        "a log beside the snapshots",
        &at("/data/version-2/log.1", "a log in the directory of the snapshots"),
    );
    let mut scene = Scene::new();
    scene.options.log_dir = Some("/data".into());
    scene.options.data_dir = "/snapshots".into();
    scene.check(
        "a snapshot beside the log",
        &at("/data/version-2/snapshot.0", "a snapshot in the directory of the log"),
    );
    let mut scene = moved("/log/version-2");
    scene.options.log_dir = Some("/log".into());
    scene.check(
        "both beside the log",
        &at("/log/version-2/snapshot.0", "a snapshot in the directory of the log"),
    );
}

#[test]
fn the_epochs_of_an_ensemble_member_must_fit() {
    check(&[
        ("epochs that fit", |scene| {
            scene.write("currentEpoch", b"0");
            scene.write("acceptedEpoch", b"1\n");
            recovered(20, &[])
        }),
        ("transactions of a later epoch", |scene| {
            scene.write("currentEpoch", b"0");
            scene.write("acceptedEpoch", b"0");
            let mut server = Writer::open(&scene.disk);
            server.append_as(Zxid(3 << 32 | 1), TxnOp::CreateSession { timeout: 1 }).unwrap();
            server.commit();
            refused(
                "currentEpoch",
                None,
                "the epoch is 0, and the last transaction, 0x300000001, is of epoch 3",
            )
        }),
        ("transactions of a later epoch than the coming one", |scene| {
            let mut server = Writer::open(&scene.disk);
            server.append_as(Zxid(3 << 32 | 1), TxnOp::CreateSession { timeout: 1 }).unwrap();
            server.commit();
            scene.write("currentEpoch.tmp", b"2");
            refused(
                "currentEpoch",
                None,
                "the epoch is 2, and the last transaction, 0x300000001, is of epoch 3",
            )
        }),
        ("an epoch that is none", |scene| {
            scene.write("currentEpoch", b"zero");
            refused("currentEpoch", None, "this is not an epoch")
        }),
        ("an empty file", |scene| {
            scene.write("acceptedEpoch", b"");
            refused("acceptedEpoch", None, "this is not an epoch")
        }),
        ("a current epoch that was not accepted", |scene| {
            scene.write("currentEpoch", b"2");
            scene.write("acceptedEpoch", b"1");
            refused("acceptedEpoch", None, "the accepted epoch is 1, and the current one is 2")
        }),
        ("epochs and no data", |scene| {
            scene.write("currentEpoch", b"2");
            for name in ["snapshot.0", "snapshot.a", "log.1", "log.b"] {
                scene.remove(name);
            }
            refused("", None, "it is of an ensemble member, and has no snapshot and no log")
        }),
    ]);
}

/// A member that ended while it replaced `currentEpoch`: it goes on with what is in the other file.
#[test]
fn the_coming_epoch_of_an_ensemble_member_counts() {
    let scene = Scene::new();
    let mut server = Writer::open(&scene.disk);
    server.append_as(Zxid(3 << 32 | 1), TxnOp::CreateSession { timeout: 1 }).unwrap();
    server.commit();
    scene.write("currentEpoch", b"0");
    scene.write("acceptedEpoch", b"3");
    assert!(read_dir(&scene.disk).is_err(), "the last transaction is of epoch 3");
    scene.write("currentEpoch.tmp", b"3");
    assert_eq!(read_dir(&scene.disk).unwrap().tree.last_zxid(), Zxid(3 << 32 | 1));
    for unusable in ["", "three", "-1"] {
        scene.write("currentEpoch.tmp", unusable);
        assert!(read_dir(&scene.disk).is_err(), "{unusable:?} is no epoch");
    }
}

/// A snapshot has sections that tell what it shows, unless digests are off or an old Apache wrote it. Then its znodes tell.
#[test]
fn a_snapshot_without_digest_that_shows_more_than_the_log_has_is_refused() {
    let disk = SimulatedDisk::new(1);
    let mut options = options();
    options.digests = false;
    let mut server = Writer::open_with(&disk, options.clone());
    server.create("/a", Owner::PERSISTENT);
    server.set_until(10);
    server.snapshot();
    drop(server);
    disk.rename(&path("snapshot.a"), &path("snapshot.5")).unwrap();
    assert_eq!(read(&disk, &options).unwrap().tree.last_zxid(), Zxid(10));
    let end = entries(&disk, "log.1").into_iter().find(|entry| entry.2 == 9).map(|entry| entry.0).unwrap();
    let mut log = disk.read(path("log.1")).unwrap();
    log.truncate(end);
    disk.write(path("log.1"), log).unwrap();
    for directory in ["the log is short", "no log is needed"] {
        let Err(StorageError::Damaged(damage)) = read(&disk, &options) else { panic!("{directory}") };
        assert_eq!(damage.file, path("snapshot.5"), "{directory}: {damage}");
        assert!(damage.reason.contains("it shows transaction 0xa"), "{directory}: {damage}");
        let _ = disk.remove(&path("log.1"));
        disk.write(path(".zoolet-complete"), b"0x5\n").unwrap();
    }
}

/// An older snapshot would be old data, if the log before the newest is purged.
#[test]
fn a_snapshot_that_the_disk_cannot_read_now_is_no_reason_to_take_an_older_one() {
    for op in [DiskOp::Read, DiskOp::Open] {
        let scene = Scene::new();
        scene.remove("log.1");
        scene.remove("log.b");
        let disk = &scene.disk;
        disk.write(path(".zoolet-complete"), b"0xa\n").unwrap();
        disk.place(op.on("snapshot.a").nth(1), DiskFault::Fail).unwrap();
        let failed = open(Arc::new(disk.clone()), scene.options.clone());
        assert!(matches!(failed, Err(StorageError::Io { .. })), "{op:?}: {failed:?}");
        assert!(!disk.fired().is_empty());
        let (_, recovered) = open(Arc::new(disk.clone()), scene.options.clone()).unwrap();
        assert_eq!(recovered.tree.last_zxid(), Zxid(10), "the next time it can");
    }
}
