//! A directory whose log is missing is not served as if nothing had been written since its snapshot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_server_core::Owner;
use zoolet_simdisk::{DiskFault, DiskOp, SimulatedDisk};
use zoolet_storage::disk::Disk;
use zoolet_storage::{
    Damage, Durability, RecoveryWarning, SnapshotSpool, Storage, StorageError, StorageOptions, copy, open,
    read, verify,
};

use super::support::{Writer, crashes, files, options, path, without_markers};

fn with_log(dir: &str) -> StorageOptions {
    let mut options = options();
    options.log_dir = Some(dir.into());
    options
}

/// A server that kept its log in `/log`, with a snapshot after the last of its five transactions if `snapshot`.
fn split(snapshot: bool) -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let mut server = Writer::open_with(&disk, with_log("/log"));
    server.create("/a", Owner::PERSISTENT);
    if snapshot {
        server.set_until(4);
        server.snapshot();
    }
    server.set_until(5);
    drop(server);
    disk
}

/// A server that wrote a snapshot after its five transactions, beside its log.
fn with_snapshot() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let mut server = Writer::open(&disk);
    server.create("/a", Owner::PERSISTENT);
    server.set_until(5);
    server.snapshot();
    drop(server);
    disk
}

fn open_on(disk: &SimulatedDisk, options: StorageOptions) -> Result<Storage, StorageError> {
    open(Arc::new(disk.clone()), options).map(|(storage, _)| storage)
}

/// Why it is refused by everybody, with nothing changed.
fn refused(disk: &SimulatedDisk, options: &StorageOptions) -> Damage {
    let before = files(disk);
    let damage = match open_on(disk, options.clone()) {
        Err(StorageError::Damaged(damage)) => damage,
        other => panic!("{other:?}"),
    };
    assert_eq!(read(disk, options).unwrap_err().to_string(), damage.to_string());
    let found = verify(disk, options, &mut |_, _| {}).unwrap();
    assert_eq!(found.last_zxid, None);
    assert!(found.faults.iter().any(|fault| fault.to_string() == damage.to_string()), "{:?}", found.faults);
    assert_eq!(files(disk), before);
    damage
}

/// Moves the log files of a directory.
fn move_logs(disk: &SimulatedDisk, from: &str, to: &str) {
    let (from, to) = (PathBuf::from(from), PathBuf::from(to));
    disk.create_dir(&to).unwrap();
    for entry in disk.list(&from).unwrap() {
        if entry.name.to_string_lossy().starts_with("log.") {
            disk.write(to.join(&entry.name), disk.read(from.join(&entry.name)).unwrap()).unwrap();
            disk.remove(&from.join(&entry.name)).unwrap();
        }
    }
}

#[test]
fn a_log_that_is_elsewhere_must_be_named() {
    for snapshot in [false, true] {
        let disk = split(snapshot);
        let damage = refused(&disk, &options());
        assert!(damage.reason.ends_with("had it in /log"), "{damage}");
        assert!(damage.hint.starts_with("name that directory with --log-dir (dataLogDir)"), "{damage}");
        let storage = open_on(&disk, with_log("/log")).unwrap();
        assert_eq!(storage.last_zxid(), Zxid(5));
    }
}

#[test]
fn a_log_directory_without_the_log_is_refused_as_its_disk_may_not_be_mounted() {
    for snapshot in [false, true] {
        let disk = split(snapshot);
        let damage = refused(&disk, &with_log("/other"));
        assert_eq!(damage.file, Path::new("/other/version-2"));
        for entry in disk.list(Path::new("/log/version-2")).unwrap() {
            disk.remove(&Path::new("/log/version-2").join(entry.name)).unwrap();
        }
        refused(&disk, &with_log("/log"));
    }
}

#[test]
fn a_server_that_kept_its_log_elsewhere_and_wrote_nothing_starts_again() {
    let disk = SimulatedDisk::new(1);
    for _ in 0..2 {
        let (_, recovered) = open(Arc::new(disk.clone()), with_log("/log")).unwrap();
        assert!(recovered.report.warnings.is_empty());
    }
    refused(&disk, &options());
}

#[test]
fn a_log_may_move_to_another_directory_and_into_that_of_the_snapshots() {
    let disk = split(true);
    move_logs(&disk, "/log/version-2", "/other/version-2");
    open_on(&disk, with_log("/other")).unwrap();
    assert!(refused(&disk, &options()).reason.ends_with("had it in /other"));

    move_logs(&disk, "/other/version-2", "/data/version-2");
    let storage = open_on(&disk, options()).unwrap();
    assert_eq!(storage.last_zxid(), Zxid(5));
    assert!(
        !disk
            .list(Path::new("/data/version-2"))
            .unwrap()
            .iter()
            .any(|entry| { entry.name.to_string_lossy().starts_with(".zoolet-") })
    );
}

#[test]
fn a_snapshot_without_any_log_is_served_only_as_a_copy() {
    let disk = with_snapshot();
    disk.remove(&path("log.1")).unwrap();
    let damage = refused(&disk, &options());
    assert!(damage.reason.starts_with("there is a snapshot of transaction 0x5, and no log"), "{damage}");
    assert!(damage.hint.contains("zoolet data import DIR --to NEW"), "{damage}");

    let target: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut to = options();
    to.data_dir = "/copy".into();
    let copied = copy((&disk, &options()), (&target, &to), None, &mut |_, _| {}).unwrap();
    assert_eq!(copied.report.warnings, [RecoveryWarning::NoLog { last: Zxid(5) }]);
    for _ in 0..2 {
        let (_, recovered) = open(Arc::clone(&target), to.clone()).unwrap();
        assert_eq!(recovered.report.last_zxid, Zxid(5));
        assert!(recovered.report.warnings.is_empty(), "{:?}", recovered.report.warnings);
    }

    // Once it has a log of its own it needs one, from the first transaction on.
    let mut server = Writer::open_with(&disk, to.clone());
    server.set_until(6);
    drop(server);
    disk.remove(Path::new("/copy/version-2/log.6")).unwrap();
    refused(&disk, &to);
}

#[test]
fn a_copy_that_is_served_with_its_log_elsewhere_is_refused_without_it() {
    for power_loss in [false, true] {
        let disk = with_snapshot();
        let target: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut to = options();
        to.data_dir = "/copy".into();
        copy((&disk, &options()), (&target, &to), None, &mut |_, _| {}).unwrap();
        let mut split = to.clone();
        split.log_dir = Some("/log".into());

        // A start that writes nothing takes nothing away.
        open_on(&disk, split.clone()).unwrap();
        open_on(&disk, to.clone()).unwrap();
        let mut server = Writer::open_with(&disk, split.clone());
        server.set_until(6);
        drop(server);
        let disk = if power_loss { disk.power_loss(1) } else { disk.kill() };
        assert!(refused(&disk, &to).reason.ends_with("had it in /log"));
        disk.remove(Path::new("/log/version-2/log.6")).unwrap();
        refused(&disk, &split);
    }
}

#[test]
fn the_check_of_an_empty_snapshot_without_a_log_asks_where_the_log_is() {
    let disk = SimulatedDisk::new(1);
    drop(Writer::open(&disk));
    let found = verify(&disk, &options(), &mut |_, _| {}).unwrap();
    assert!(found.faults.is_empty(), "{:?}", found.faults);
    let [note] = &found.notes[..] else { panic!("{:?}", found.notes) };
    assert!(
        note.contains("if the log is elsewhere, name its directory with --log-dir (dataLogDir)"),
        "{note}"
    );
}

/// With the log of the former directory the restore would be undone.
#[test]
fn a_copy_in_the_place_of_a_directory_is_refused_beside_the_log_of_that() {
    for log_dir in ["/log", "/copy"] {
        let disk = SimulatedDisk::new(1);
        let log_options = |dir: &str| {
            let mut options = options();
            (options.data_dir, options.log_dir) = (dir.into(), Some(log_dir.into()));
            options
        };
        let former = if log_dir == "/log" { log_options("/data") } else { options() };
        let mut server = Writer::open_with(&disk, former.clone());
        server.create("/a", Owner::PERSISTENT);
        server.set_until(5);
        let target: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut to = options();
        to.data_dir = "/copy".into();
        copy((&disk, &former), (&target, &to), None, &mut |_, _| {}).unwrap();
        server.set_until(9);
        drop(server);
        if log_dir == "/copy" {
            move_logs(&disk, "/data/version-2", "/copy/version-2");
        }
        let restored = log_options("/copy");
        let damage = refused(&disk, &restored);
        assert!(
            damage.reason.contains("it is not the log of this directory, which is a copy that ends at 0x5"),
            "{damage}"
        );
        assert!(damage.file.ends_with("log.1"), "{damage}");
        // An operator may mean it: the copy is the beginning, and the log goes on to the end.
        disk.remove(Path::new("/copy/version-2/.zoolet-complete")).unwrap();
        assert_eq!(open_on(&disk, restored).unwrap().last_zxid(), Zxid(9));
    }
}

/// So it would be with the snapshot that the former server wrote when it stopped, whatever that has purged.
#[test]
fn a_copy_in_the_place_of_a_directory_is_refused_beside_the_newer_snapshot_of_that() {
    let (disk, to) = copied();
    let mut server = Writer::open_with(&disk, options());
    server.set_until(7);
    server.storage.roll().unwrap();
    server.set_until(9);
    server.snapshot();
    drop(server);
    for (file, named) in
        [("snapshot.9", "version-2"), ("log.8", "log.8"), ("log.6", "log.6"), ("log.1", "log.1")]
    {
        disk.write(to.snapshot_dir().join(file), disk.read(path(file)).unwrap()).unwrap();
        let damage = refused(&disk, &to);
        assert!(damage.file.ends_with(named), "{file}: {damage}");
        let is_foreign = damage.reason.ends_with("which is a copy that ends at 0x5");
        assert_eq!(is_foreign, file != "snapshot.9", "{file}: {damage}");
    }
}

/// It does not know the mark, and goes on with the snapshot as with any other.
#[test]
fn a_copy_that_a_server_of_apache_went_on_with_is_served() {
    let (disk, to) = copied();
    let mut server = Writer::open_with(&disk, to.clone());
    server.set_until(7);
    server.snapshot();
    drop(server);
    let log = to.snapshot_dir().join("log.6");
    disk.write(path("log.6"), disk.read(&log).unwrap()).unwrap();
    without_markers(&disk, "log.6");
    disk.write(log, disk.read(path("log.6")).unwrap()).unwrap();
    disk.write(to.snapshot_dir().join(".zoolet-complete"), b"0x5\n").unwrap();
    assert_eq!(open_on(&disk, to).unwrap().last_zxid(), Zxid(7));
}

/// The fifth transaction as a copy in `/copy`, which needs no log.
fn copied() -> (SimulatedDisk, StorageOptions) {
    let disk = with_snapshot();
    let target: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut to = options();
    to.data_dir = "/copy".into();
    copy((&disk, &options()), (&target, &to), None, &mut |_, _| {}).unwrap();
    (disk, to)
}

/// The first file of a log may be there and have nothing. The next start removes it, and the copy still needs none.
#[test]
fn a_copy_whose_log_has_begun_with_nothing_starts_again_and_again() {
    for durability in [Durability::Sync, Durability::Os] {
        let (disk, mut options) = copied();
        options.durability = durability;
        let mut server = Writer::open_with(&disk, options.clone());
        disk.keep_history();
        server.set_until(6);
        // A step after the commit, so that a crash follows it.
        disk.create(Path::new("/other")).unwrap();
        drop(server);
        for (how, disk) in crashes(&disk) {
            disk.keep_history();
            open_on(&disk, options.clone()).unwrap_or_else(|error| panic!("{how}: {error}"));
            for (then, disk) in crashes(&disk) {
                let opened = open_on(&disk, options.clone());
                opened.unwrap_or_else(|error| panic!("{durability:?}, {how}, then {then}: {error}"));
            }
            let disk = disk.kill();
            let opened = open_on(&disk, options.clone());
            opened.unwrap_or_else(|error| panic!("{durability:?}, {how}, then at the end: {error}"));
        }
    }
}

#[test]
fn after_a_mark_that_cannot_be_removed_nothing_more_is_acknowledged() {
    let (disk, options) = copied();
    disk.place(DiskOp::Remove.on(".zoolet-complete").nth(1), DiskFault::Fail).unwrap();
    let mut server = Writer::open_with(&disk, options);
    server.create("/b", Owner::PERSISTENT);
    let error = server.storage.commit().unwrap_err();
    assert!(matches!(error, StorageError::Io { action: "remove", .. }), "{error}");
    let error = server.storage.commit().unwrap_err();
    assert!(matches!(error, StorageError::Failed(_)), "{error}");
}

#[test]
fn a_mark_that_is_read_in_pieces_is_read_whole() {
    let (disk, options) = copied();
    disk.place(DiskOp::Read.on(".zoolet-complete"), DiskFault::Short { bytes: 1 }).unwrap();
    open_on(&disk, options).unwrap();
}

/// A restore is in no log, so there may be none beside its snapshot.
#[test]
fn a_server_that_is_restored_before_it_has_written_anything_starts_again_whenever_it_crashes() {
    for (disk, options) in [(SimulatedDisk::new(1), options()), copied()] {
        let state = with_snapshot().read(path("snapshot.5")).unwrap();
        let dir = options.snapshot_dir();
        let mut storage = open_on(&disk, options.clone()).unwrap();
        let own = storage.last_zxid();
        disk.keep_history();
        for at in [0x10, 0x20].map(Zxid) {
            let mut spool = SnapshotSpool::create(Arc::new(disk.clone()), &dir).unwrap();
            spool.write(&state).unwrap();
            storage.begin_restore(at).unwrap();
            let mut tree = spool.load(true).unwrap().tree;
            let mut header = tree.begin_snapshot();
            (header.zxid, header.restored_at) = (at, Some(at));
            spool.publish(&storage.snapshots(), header, &[]).unwrap();
            storage.go_on_after(at).unwrap();
        }
        drop(storage);
        for (how, disk) in crashes(&disk) {
            for _ in 0..2 {
                let last = open_on(&disk, options.clone()).map(|storage| storage.last_zxid());
                let last = last.unwrap_or_else(|error| panic!("{how}: {error}"));
                assert!([own, Zxid(0x10), Zxid(0x20)].contains(&last), "{how}: {last}");
            }
        }
        // Once it has a log it needs it.
        let disk = disk.kill();
        let mut server = Writer::open_with(&disk, options.clone());
        assert_eq!(server.last(), Zxid(0x20));
        server.set_until(0x21);
        drop(server);
        disk.remove(&dir.join("log.21")).unwrap();
        refused(&disk, &options);
    }
}
