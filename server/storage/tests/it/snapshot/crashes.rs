//! A crash or a failing disk while a snapshot is written never leaves a wrong one.

use zoolet_proto::Zxid;
use zoolet_simdisk::{DiskFault, DiskOp};
use zoolet_storage::{Compression, SnapshotReader, StorageError};

use super::support::*;

#[test]
fn a_power_loss_at_any_step_leaves_the_old_snapshot_and_the_new_one_whole_or_not_at_all() {
    for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
        let old = Content { zxid: Zxid(4), ..Content::varied() };
        let start = disk();
        old.write(&dir(&start, compression)).unwrap();
        let new = Content::varied();
        let steps = {
            let disk = start.fork();
            new.write(&dir(&disk, compression)).unwrap();
            disk.steps() - start.steps()
        };
        assert!(steps >= 5, "{steps}");
        for step in 1..=steps + 1 {
            let crashed = start.fork();
            crashed.crash_at(start.steps() + step);
            let outcome = new.write(&dir(&crashed, compression));
            assert_eq!(outcome.is_ok(), step > steps, "step {step}: {outcome:?}");
            for seed in 0..10 {
                let disk = crashed.fork().power_loss(seed);
                let there = dir(&disk, compression).list().unwrap();
                for file in &there {
                    let expected = if file.zxid == new.zxid { &new } else { &old };
                    let read = Content::read(&disk, &file.path);
                    assert_eq!(
                        read.as_ref().ok(),
                        Some(expected),
                        "step {step}, seed {seed}\n{}",
                        disk.tree()
                    );
                }
                let zxids: Vec<_> = there.iter().map(|file| file.zxid).collect();
                assert!(zxids.ends_with(&[old.zxid]), "step {step}, seed {seed}");
                assert!(outcome.is_err() || zxids == [new.zxid, old.zxid], "step {step}, seed {seed}");
            }
        }
    }
}

#[test]
fn an_error_of_the_disk_leaves_no_file_and_names_the_step() {
    for (op, pattern, action) in [
        (DiskOp::Create, "*.tmp", "create"),
        (DiskOp::Write, "*.tmp", "write"),
        (DiskOp::Sync, "*.tmp", "sync"),
        (DiskOp::List, "*", "list"),
        (DiskOp::Rename, "snapshot.*", "give its name to"),
    ] {
        let disk = disk();
        disk.place(op.on(pattern), DiskFault::Fail).unwrap();
        let error = Content::varied().write(&dir(&disk, Compression::None)).unwrap_err();
        assert!(
            matches!(&error, StorageError::Io { action: failed, .. } if *failed == action),
            "{op}: {error}"
        );
        disk.clear_faults();
        assert!(!disk.tree().contains("snapshot"), "{op}:\n{}", disk.tree());
    }
    // After the rename it is there, and perhaps not for long.
    let disk = disk();
    disk.place(DiskOp::SyncDir.any(), DiskFault::Fail).unwrap();
    let error = Content::varied().write(&dir(&disk, Compression::None)).unwrap_err();
    assert!(matches!(&error, StorageError::Io { action: "sync", .. }), "{error}");
}

#[test]
fn a_full_disk_leaves_no_part_of_a_snapshot() {
    let disk = disk();
    disk.set_free_space(Some(100 << 10));
    let error = Content::varied().write(&dir(&disk, Compression::None)).unwrap_err();
    assert!(error.to_string().starts_with("cannot write /data/version-2/.zoolet-snapshot-"), "{error}");
    assert!(!disk.tree().contains("snapshot"), "{}", disk.tree());
    disk.set_free_space(Some(400 << 10));
    let published = Content::varied().write(&dir(&disk, Compression::None)).unwrap();
    assert!(SnapshotReader::open(&disk, &published.path).and_then(SnapshotReader::check).is_ok());
}
