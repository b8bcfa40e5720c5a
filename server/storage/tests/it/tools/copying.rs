//! Data are copied into another directory: all, or as far as a transaction.

use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_simdisk::{DiskFault, DiskOp, SimulatedDisk};
use zoolet_storage::disk::Disk;
use zoolet_storage::{Compression, Copied, StorageError, StorageOptions, copy, read};

use super::verifying::reseal;
use crate::recovery::scene::Scene;
use crate::recovery::support::{files, znodes};

fn target() -> StorageOptions {
    StorageOptions::new("/copy")
}

fn copied(scene: &Scene, cut_at: Option<i64>) -> Result<Copied, StorageError> {
    copied_to(scene, &target(), cut_at)
}

fn copied_to(scene: &Scene, to: &StorageOptions, cut_at: Option<i64>) -> Result<Copied, StorageError> {
    let disk: Arc<dyn Disk> = Arc::new(scene.disk.clone());
    copy((&scene.disk, &scene.options), (&disk, to), cut_at.map(Zxid), &mut |_, _| {})
}

/// Checks that the copy has the state after this transaction.
fn check(disk: &SimulatedDisk, scene: &Scene, last: i64) {
    let mut found = read(disk, &target()).unwrap();
    assert_eq!(found.report.last_zxid, Zxid(last));
    assert!(found.report.warnings.is_empty(), "{:?}", found.report.warnings);
    assert_eq!(znodes(&mut found.tree), scene.states[last as usize]);
    assert_eq!(found.sessions, if last == 0 { &[][..] } else { &scene.sessions });
}

fn refusal(result: Result<Copied, StorageError>) -> String {
    match result {
        Err(StorageError::Damaged(damage)) => damage.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_copy_has_all_data_and_changes_nothing() {
    let scene = Scene::new();
    let before = files(&scene.disk);
    let copied = copied(&scene, None).unwrap();
    assert_eq!((copied.zxid, copied.sessions), (Zxid(20), 1));
    assert_eq!(copied.znodes, scene.states[20].len() as u64);
    assert_eq!(copied.report.replayed, 10);
    check(&scene.disk, &scene, 20);
    let after: Vec<_> =
        files(&scene.disk).into_iter().filter(|(path, _)| !path.starts_with("/copy")).collect();
    assert_eq!(after, before);
    // It is durable.
    for seed in 0..10 {
        check(&scene.disk.fork().power_loss(seed), &scene, 20);
    }
}

#[test]
fn a_copy_may_end_after_any_transaction() {
    for last in 0..=20 {
        let scene = Scene::new();
        assert_eq!(copied(&scene, Some(last)).unwrap().zxid, Zxid(last));
        check(&scene.disk, &scene, last);
    }
}

#[test]
fn a_copy_ends_before_damage_and_never_passes_it() {
    for cut_at in 11..=20 {
        let scene = Scene::new();
        scene.damage(16, |entry| entry[20] ^= 1);
        refusal(copied(&scene, None));
        let copied = copied(&scene, Some(cut_at));
        if cut_at < 16 {
            copied.unwrap();
            check(&scene.disk, &scene, cut_at);
        } else {
            assert!(refusal(copied).contains("log.b, byte"), "{cut_at}");
        }
    }
}

#[test]
fn a_copy_ends_before_a_damaged_snapshot() {
    let scene = Scene::new();
    scene.damage(11, |entry| entry[20] ^= 1);
    scene.edit("snapshot.a", |snapshot| snapshot[100] ^= 1);
    for cut_at in [0, 9, 10] {
        let scene = scene.fork();
        copied(&scene, Some(cut_at)).unwrap();
        check(&scene.disk, &scene, cut_at);
    }
    assert!(refusal(copied(&scene, Some(11))).contains("snapshot.a"));
}

#[test]
fn a_copy_does_not_begin_with_a_snapshot_that_shows_more() {
    let scene = Scene::new();
    scene.edit("snapshot.a", |snapshot| {
        let last_zxid = snapshot.len() - 14;
        snapshot[last_zxid] = 13;
        reseal(snapshot);
    });
    for cut_at in [10, 12, 13] {
        let scene = scene.fork();
        let copied = copied(&scene, Some(cut_at)).unwrap();
        check(&scene.disk, &scene, cut_at);
        let expected = if cut_at == 13 { "snapshot.a" } else { "snapshot.0" };
        assert!(copied.report.snapshot.unwrap().0.ends_with(expected), "{cut_at}");
    }
    scene.remove("snapshot.0");
    assert!(refusal(copied(&scene, Some(12))).contains("no snapshot is of transaction 0xc or before it"));
}

#[test]
fn a_transaction_that_is_not_there_is_refused() {
    let scene = Scene::new();
    let reason = refusal(copied(&scene, Some(21)));
    assert!(reason.contains("the last transaction is 0x14, which is before 0x15"), "{reason}");
    scene.remove("snapshot.0");
    let reason = refusal(copied(&scene, Some(9)));
    assert!(reason.contains("no snapshot is of transaction 0x9 or before it"), "{reason}");
    assert!(copied(&scene, Some(10)).is_ok());
}

#[test]
fn a_directory_that_is_not_empty_is_refused() {
    let scene = Scene::new();
    let same = copied_to(&scene, &scene.options, None).unwrap_err();
    assert!(matches!(&same, StorageError::NotEmpty(dir) if dir.ends_with("version-2")), "{same}");
    for name in ["/copy/version-2/snapshot.0", "/copy/version-2/currentEpoch", "/logs/version-2/anything"] {
        let scene = Scene::new();
        scene.disk.write(name, "").unwrap();
        let mut to = target();
        to.log_dir = Some("/logs".into());
        let before = files(&scene.disk);
        // That comes first: to read everything may take long.
        scene.disk.place(DiskOp::Read.any(), DiskFault::Fail).unwrap();
        let error = copied_to(&scene, &to, None).unwrap_err();
        assert!(matches!(error, StorageError::NotEmpty(_)), "{name}: {error}");
        scene.disk.clear_faults();
        assert_eq!(files(&scene.disk), before);
    }
    // What else an operator has there is no data.
    scene.disk.write("/copy/myid", "1").unwrap();
    copied(&scene, None).unwrap();
}

#[test]
fn a_directory_in_use_is_refused() {
    let scene = Scene::new();
    scene.disk.create_dir("/copy/version-2".as_ref()).unwrap();
    let _lock = scene.disk.lock("/copy/version-2".as_ref()).unwrap().unwrap();
    assert!(matches!(copied(&scene, None), Err(StorageError::InUse(_))));
}

#[test]
fn epochs_are_copied() {
    let scene = Scene::new();
    scene.write("currentEpoch", "3");
    scene.write("acceptedEpoch", "4\n");
    copied(&scene, None).unwrap();
    for (name, epoch) in [("currentEpoch", "3"), ("acceptedEpoch", "4\n")] {
        assert_eq!(scene.disk.read(format!("/copy/version-2/{name}")).unwrap(), epoch.as_bytes());
    }
    // Those that are wrong do not keep anybody from cutting.
    let scene = Scene::new();
    scene.write("currentEpoch", "5");
    scene.write("acceptedEpoch", "4");
    assert!(refusal(copied(&scene, None)).contains("acceptedEpoch"));
    copied(&scene, Some(20)).unwrap();
}

#[test]
fn the_copy_is_compressed_and_has_digests_as_its_options_say() {
    let scene = Scene::new();
    let mut to = target();
    to.compression = Compression::Snappy;
    to.digests = false;
    let copied = copied_to(&scene, &to, None).unwrap();
    assert!(copied.snapshot.ends_with("snapshot.14.snappy"));
    let summary =
        zoolet_storage::SnapshotReader::open(&scene.disk, &copied.snapshot).unwrap().check().unwrap();
    assert_eq!((summary.digest, summary.last_zxid), (None, None));
    check(&scene.disk, &scene, 20);
}

#[test]
fn a_crash_leaves_a_whole_copy_or_none() {
    let start = Scene::new();
    let steps = {
        let scene = start.fork();
        let before = scene.disk.steps();
        copied(&scene, None).unwrap();
        scene.disk.steps() - before
    };
    assert!(steps >= 6, "{steps}");
    for step in 1..=steps {
        let scene = start.fork();
        scene.disk.crash_at(scene.disk.steps() + step);
        copied(&scene, None).unwrap_err();
        for seed in 0..10 {
            let disk = scene.disk.fork().power_loss(seed);
            match read(&disk, &target()) {
                Err(StorageError::NoData(_)) => {}
                _ => check(&disk, &scene, 20),
            }
        }
    }
}

#[test]
fn a_failing_disk_leaves_an_empty_directory() {
    let scene = Scene::new();
    scene.disk.place(DiskOp::Sync.on("*.tmp"), DiskFault::Fail).unwrap();
    assert!(matches!(copied(&scene, None), Err(StorageError::Io { action: "sync", .. })));
    scene.disk.clear_faults();
    copied(&scene, None).unwrap();
}

#[test]
fn progress_grows_to_its_total() {
    let scene = Scene::new();
    let disk: Arc<dyn Disk> = Arc::new(scene.disk.clone());
    let mut reports = Vec::new();
    copy((&scene.disk, &scene.options), (&disk, &target()), None, &mut |done, of| reports.push((done, of)))
        .unwrap();
    assert!(reports.is_sorted_by_key(|report| report.0), "{reports:?}");
    let (done, total) = *reports.last().unwrap();
    assert!(done == total && total > 1_000, "{reports:?}");
}
