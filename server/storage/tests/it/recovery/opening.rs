//! Directories as servers leave them.

use std::path::Path;
use std::sync::Arc;

use zoolet_proto::{SessionId, Zxid};
use zoolet_server_core::{Owner, TxnOp};
use zoolet_simdisk::{DiskFault, DiskOp, SimulatedDisk};
use zoolet_storage::disk::{Disk, RealDisk};
use zoolet_storage::{Durability, Recovered, RecoveryWarning, StorageError, StorageOptions, open, read};

use super::support::{
    DATA, DIR, SESSION, Writer, entries, files, options, path, read_dir, without_markers, znodes,
};

/// What a directory with a bit of everything has: in log.1 the transactions 1 to 10, a snapshot of 10, in log.b those from 11 on.
fn written(disk: &SimulatedDisk) -> Writer {
    let mut server = Writer::open(disk);
    server.append(TxnOp::CreateSession { timeout: 10_000 }).unwrap();
    server.create("/a", Owner::PERSISTENT);
    server.create("/e", Owner::session(SESSION));
    server.create("/c", Owner::CONTAINER);
    server.create("/t", Owner::ttl(5_000).unwrap());
    server.refuse();
    server.set_until(10);
    server.snapshot();
    server.set_until(12);
    server.session = SessionId(0x0100_0000_0000_0002);
    server.append(TxnOp::CreateSession { timeout: 20_000 }).unwrap();
    server.create("/a/e", Owner::session(server.session));
    let session = std::mem::replace(&mut server.session, SESSION);
    server.append(TxnOp::CloseSession { ephemerals: vec!["/e".into()] }).unwrap();
    server.session = session;
    server.commit();
    server
}

#[test]
fn an_empty_directory_gets_a_snapshot_before_a_log() {
    let disk = SimulatedDisk::new(1);
    let server = Writer::open(&disk);
    assert_eq!(server.last(), Zxid(0));
    let names: Vec<_> = files(&disk).into_iter().map(|(path, _)| path).collect();
    assert_eq!(names, [path("snapshot.0")]);
    let recovered = read_dir(&disk).unwrap();
    assert_eq!(recovered.report.snapshot, Some((path("snapshot.0"), Zxid(0))));
    assert!(recovered.report.warnings.is_empty());
}

#[test]
fn a_directory_in_which_no_file_can_be_created_is_refused_at_the_start() {
    let disk = SimulatedDisk::new(1);
    let mut both = options();
    both.log_dir = Some("/log".into());
    let mut server = Writer::open_with(&disk, both.clone());
    server.create("/a", Owner::PERSISTENT);
    server.commit();
    drop(server);
    let names = || files(&disk).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    let before = names();
    for nth in 1..=2 {
        disk.place(DiskOp::Create.any().nth(nth), DiskFault::Fail).unwrap();
        let error = open(Arc::new(disk.clone()), both.clone()).unwrap_err();
        let dir = ["/data", "/log"][nth as usize - 1];
        let expected = format!("cannot create {dir}/version-2/.zoolet-writable.tmp: ");
        assert!(error.to_string().starts_with(&expected), "{error}");
        disk.clear_faults();
    }
    drop(Writer::open_with(&disk, both));
    assert_eq!(names(), before);
}

#[test]
fn what_was_written_is_recovered_exactly() {
    let disk = SimulatedDisk::new(1);
    let mut server = written(&disk);
    let mut recovered = read_dir(&disk).unwrap();
    assert_eq!(znodes(&mut recovered.tree), znodes(&mut server.tree));
    assert_eq!(recovered.tree.digest(), server.tree.digest());
    assert_eq!(recovered.sessions, [(server.session, 20_000)]);
    assert_eq!(recovered.highest_session, Some(server.session));
    let report = recovered.report;
    assert_eq!(report.snapshot, Some((path("snapshot.a"), Zxid(10))));
    assert_eq!((report.last_zxid, report.replayed, report.skipped), (Zxid(15), 5, 10));
    assert_eq!((report.log_files, report.cut), (2, None));
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
}

#[test]
fn a_server_goes_on_where_the_last_one_ended() {
    let disk = SimulatedDisk::new(1);
    written(&disk);
    let disk = disk.kill();
    let mut server = Writer::open(&disk);
    server.set_until(20);
    let disk = disk.kill();
    let mut recovered = read_dir(&disk).unwrap();
    assert_eq!(znodes(&mut recovered.tree), znodes(&mut server.tree));
    assert_eq!(recovered.tree.last_zxid(), Zxid(20));
    assert_eq!(entries(&disk, "log.10").len(), 5, "each server begins a file");
}

#[test]
fn a_log_without_markers_and_without_digests_is_read() {
    let disk = SimulatedDisk::new(1);
    let mut server = written(&disk);
    without_markers(&disk, "log.1");
    without_markers(&disk, "log.b");
    let mut recovered = read_dir(&disk).unwrap();
    assert_eq!(znodes(&mut recovered.tree), znodes(&mut server.tree));
    let mut options = options();
    options.digests = false;
    let recovered = read(&disk, &options).unwrap();
    assert_eq!((recovered.tree.digest(), recovered.tree.last_zxid()), (None, Zxid(15)));
}

#[test]
fn log_and_snapshots_may_have_a_directory_each() {
    let disk = SimulatedDisk::new(1);
    let mut options = options();
    options.log_dir = Some("/log".into());
    let mut server = Writer::open_with(&disk, options.clone());
    server.create("/a", Owner::PERSISTENT);
    server.set_until(5);
    server.snapshot();
    server.set_until(8);
    let names: Vec<_> = files(&disk).into_iter().map(|(path, _)| path.display().to_string()).collect();
    let snapshots =
        ["/data/version-2/.zoolet-log-dir", "/data/version-2/snapshot.0", "/data/version-2/snapshot.5"];
    let log = ["/log/version-2/.zoolet-data-dir", "/log/version-2/log.1", "/log/version-2/log.6"];
    assert_eq!(names, [snapshots, log].concat());
    let recovered = read(&disk, &options).unwrap();
    assert_eq!(recovered.tree.last_zxid(), Zxid(8));
    let disk = Arc::new(disk);
    assert!(matches!(open(disk, options), Err(StorageError::InUse(dir)) if dir == Path::new(DIR)));
}

/// Apache refuses a directory whose last log has no header (ZOOKEEPER-1621).
#[test]
fn a_log_that_has_its_name_has_its_header_whenever_the_power_is_lost() {
    let disk = SimulatedDisk::new(1);
    disk.keep_history();
    let mut server = Writer::open(&disk);
    server.create("/a", Owner::PERSISTENT);
    server.set_until(5);
    server.snapshot();
    server.set_until(8);
    let header = disk.read(path("log.1")).unwrap()[..16].to_vec();
    let mut logs = 0;
    for (step, before) in disk.take_history() {
        for seed in 0..10 {
            let disk = before.fork().power_loss(seed);
            let found = files(&disk);
            for (path, bytes) in found.iter().filter(|(path, _)| path.to_string_lossy().contains("/log.")) {
                let is_whole = bytes.starts_with(&header);
                assert!(is_whole, "{}, step {step}, seed {seed}\n{}", path.display(), disk.tree());
                logs += 1;
            }
        }
    }
    assert!(logs > 100, "{logs}");
}

#[test]
fn a_log_directory_is_one_servers_at_a_time_too() {
    let disk = SimulatedDisk::new(1);
    let at = |data: &str, log: Option<&str>| {
        let mut options = StorageOptions::new(data);
        options.log_dir = log.map(Into::into);
        open(Arc::new(disk.clone()), options)
    };
    let in_use = |opened: Result<_, StorageError>, dir: &str| match opened {
        Err(StorageError::InUse(of)) => assert_eq!(of, Path::new(dir)),
        other => panic!("{dir}: {other:?}"),
    };
    let (first, _) = at("/data", Some("/log")).unwrap();
    in_use(at("/other", Some("/log")), "/log/version-2");
    in_use(at("/log", None), "/log/version-2");
    in_use(at("/data", Some("/elsewhere")), "/data/version-2");
    // A refusal leaves the other directory free.
    at("/other", None).unwrap();
    drop(first);
    at("/data", Some("/log")).unwrap();
}

#[test]
fn a_directory_is_one_servers_at_a_time() {
    let disk = SimulatedDisk::new(1);
    let server = written(&disk);
    let error = open(Arc::new(disk.clone()), options()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/data/version-2 is in use by another server; stop that one first, or choose another directory"
    );
    // One that only reads disturbs nobody.
    assert_eq!(read_dir(&disk).unwrap().tree.last_zxid(), server.last());
    drop(server);
    open(Arc::new(disk), options()).unwrap();
}

#[test]
fn a_snapshot_is_due_after_so_many_transactions_or_bytes() {
    let disk = SimulatedDisk::new(1);
    let mut options = options();
    options.snapshot_after_txns = 10;
    let mut server = Writer::open_with(&disk, options.clone());
    server.create("/a", Owner::PERSISTENT);
    server.set_until(9);
    assert!(!server.storage.snapshot_is_due());
    server.set_until(10);
    assert!(server.storage.snapshot_is_due());
    server.snapshot();
    assert!(!server.storage.snapshot_is_due());
    server.set_until(19);
    drop(server);
    // What was replayed counts.
    let mut server = Writer::open_with(&disk, options.clone());
    assert!(!server.storage.snapshot_is_due());
    server.set_until(20);
    assert!(server.storage.snapshot_is_due());
    drop(server);
    options.snapshot_after_txns = 1_000;
    options.snapshot_after_bytes = Some(2_000);
    let mut server = Writer::open_with(&disk, options);
    assert!(!server.storage.snapshot_is_due());
    server.set("/a", &[7; 2_000]);
    assert!(server.storage.snapshot_is_due());
}

#[test]
fn what_is_recovered_is_durable_before_anything_else_happens() {
    // Killed between a write and its sync, then opened, then a power loss: readers may have seen what was recovered.
    for seed in 0..50 {
        let disk = SimulatedDisk::new(seed);
        let mut server = written(&disk);
        disk.place(DiskOp::Sync.any(), DiskFault::Fail).unwrap();
        server.set("/a", b"written, not synced");
        assert!(server.storage.commit().is_err());
        let disk = disk.kill();
        disk.clear_faults();
        let shown = Writer::open(&disk).last();
        let disk = disk.power_loss(seed);
        assert_eq!(read_dir(&disk).unwrap().tree.last_zxid(), shown, "seed {seed}\n{}", disk.tree());
    }
}

#[test]
fn every_acknowledged_transaction_survives_a_power_loss_at_any_step() {
    let script = |disk: &SimulatedDisk, acknowledged: &mut Zxid| -> Result<(), StorageError> {
        let (storage, recovered) = open(Arc::new(disk.clone()), options())?;
        let Recovered { tree, sessions, .. } = recovered;
        let mut server = Writer { storage, tree, sessions, session: SESSION };
        server.try_create(&format!("/n{}", server.last().0), Owner::PERSISTENT)?;
        for round in 0..6 {
            for _ in 0..=round {
                server.append(TxnOp::CreateSession { timeout: 1 })?;
            }
            server.storage.commit()?;
            *acknowledged = server.last();
            if round == 3 {
                server.storage.roll()?;
            }
        }
        Ok(())
    };
    let whole = SimulatedDisk::new(0);
    script(&whole, &mut Zxid(0)).unwrap();
    let steps = whole.steps();
    assert!(steps > 20, "{steps}");
    for step in 1..=steps {
        for seed in 0..8 {
            let seed = step * 8 + seed;
            let mut acknowledged = Zxid(0);
            let mut disk = SimulatedDisk::new(seed);
            // Twice: the second server opens what the first one left.
            for _ in 0..2 {
                disk.crash_at(disk.steps() + step);
                let done = script(&disk, &mut acknowledged);
                assert_eq!(done.is_err(), disk.has_crashed(), "seed {seed}");
                disk = disk.power_loss(seed);
                let last = match read_dir(&disk) {
                    Err(StorageError::NoData(_)) => Zxid(0),
                    recovered => match recovered {
                        Ok(recovered) => recovered.tree.last_zxid(),
                        Err(error) => panic!("seed {seed}: {error}\n{}", disk.tree()),
                    },
                };
                assert!(
                    last >= acknowledged,
                    "seed {seed}: {acknowledged} is lost, {last} is left\n{}",
                    disk.tree()
                );
            }
        }
    }
}

#[test]
fn without_syncs_a_power_loss_leaves_a_beginning() {
    let mut options = options();
    options.durability = Durability::Os;
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed);
        let mut server = Writer::open_with(&disk, options.clone());
        server.create("/a", Owner::PERSISTENT);
        for zxid in 2..60 {
            server.set("/a", &[7; 200]);
            server.commit();
            if zxid == 30 {
                server.snapshot();
            }
        }
        let disk = disk.power_loss(seed);
        let recovered =
            read(&disk, &options).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", disk.tree()));
        assert!((Zxid(30)..=Zxid(59)).contains(&recovered.tree.last_zxid()), "seed {seed}");
    }
}

#[test]
fn a_file_that_ends_is_durable_even_without_syncs() {
    // Or a hole would be left where it ended, and the next file refused for it.
    let mut options = options();
    options.durability = Durability::Os;
    options.log_size_limit = Some(1_000);
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed);
        let mut server = Writer::open_with(&disk, options.clone());
        server.create("/a", Owner::PERSISTENT);
        for _ in 0..30 {
            server.set("/a", &[7; 100]);
            server.commit();
        }
        let disk = disk.power_loss(seed);
        let recovered = read(&disk, &options);
        let recovered = recovered.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", disk.tree()));
        assert!(recovered.report.log_files > 1, "seed {seed}");
    }
}

#[test]
fn every_file_of_the_log_is_durable_once_it_is_recovered() {
    // Apache may be killed before it syncs the end of one file and the beginning of the next.
    let written_by_apache = SimulatedDisk::new(0);
    drop(written(&written_by_apache));
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        for (path, bytes) in files(&written_by_apache) {
            disk.create_dir(path.parent().unwrap()).unwrap();
            disk.create(&path).unwrap().write_at(&bytes, 0).unwrap();
        }
        disk.remove(&path("snapshot.a")).unwrap();
        let disk = disk.kill();
        let shown = Writer::open(&disk).last();
        let disk = disk.power_loss(seed);
        let found = read_dir(&disk).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", disk.tree()));
        assert_eq!(found.tree.last_zxid(), shown, "seed {seed}");
    }
}

#[test]
fn a_directory_without_data_is_an_error_for_those_who_only_read() {
    let disk = SimulatedDisk::new(1);
    let error = read_dir(&disk).unwrap_err();
    assert_eq!(error.to_string(), "/data has no data of a server");
    assert!(files(&disk).is_empty());
}

#[test]
fn an_empty_database_may_need_to_be_allowed() {
    let disk = SimulatedDisk::new(1);
    let mut options = options();
    options.create_database = false;
    let opened = |options: &StorageOptions| open(Arc::new(disk.clone()), options.clone()).map(|_| ());
    assert!(matches!(opened(&options), Err(StorageError::NoData(_))));
    disk.write("/data/initialize", b"").unwrap();
    opened(&options).unwrap();
    assert!(disk.read("/data/initialize").is_err(), "it counts once");
    opened(&options).unwrap();
    let elsewhere = StorageOptions::new("/elsewhere");
    let mut missing = elsewhere.clone();
    missing.create_directories = false;
    let refused = opened(&missing).unwrap_err().to_string();
    assert!(
        refused.contains("/elsewhere/version-2: there is no such directory, and datadir.autocreate is false"),
        "{refused}"
    );
    opened(&elsewhere).unwrap();
}

#[test]
fn what_a_server_was_writing_when_it_ended_is_removed() {
    let disk = SimulatedDisk::new(1);
    drop(written(&disk));
    let leftovers = [path(".zoolet-log.tmp"), path(".zoolet-snapshot-f.tmp")];
    for path in &leftovers {
        disk.write(path, b"half").unwrap();
    }
    let warned = leftovers.clone().map(|file| RecoveryWarning::Leftover { file });
    assert_eq!(read_dir(&disk).unwrap().report.warnings, warned);
    let (_, recovered) = open(Arc::new(disk.clone()), options()).unwrap();
    assert_eq!(recovered.report.warnings, warned);
    assert!(leftovers.iter().all(|path| disk.read(path).is_err()));
}

#[test]
fn the_room_that_a_log_has_reserved_is_given_back_by_the_next_server() {
    let disk = SimulatedDisk::new(1);
    written(&disk);
    let mut disk = disk.kill();
    for _ in 0..5 {
        let mut server = Writer::open(&disk);
        server.set_until(server.last().0 + 1);
        disk = disk.kill();
    }
    let lens: Vec<_> = files(&disk).into_iter().map(|(_, bytes)| bytes.len()).collect();
    // The last file, and the one that ended with the snapshot, which is removed together with older snapshots.
    assert_eq!(lens.iter().filter(|len| **len >= 8192).count(), 2, "{lens:?}");
    assert_eq!(read_dir(&disk).unwrap().report.last_zxid, Zxid(20));
}

#[test]
fn the_first_snapshot_of_apache_may_be_unfinished() {
    let disk = SimulatedDisk::new(1);
    disk.write(path("snapshot.0"), b"ZKSN").unwrap();
    assert!(matches!(read_dir(&disk), Err(StorageError::NoData(_))));
    let (_, recovered) = open(Arc::new(disk.clone()), options()).unwrap();
    assert!(matches!(&recovered.report.warnings[..], [RecoveryWarning::SnapshotSkipped(_)]));
    let again = read_dir(&disk).unwrap();
    assert_eq!(again.report.snapshot, Some((path("snapshot.0"), Zxid(0))));
    assert!(again.report.warnings.is_empty());
}

#[test]
fn the_counter_of_a_server_alone_carries_into_the_epoch() {
    let disk = SimulatedDisk::new(1);
    let mut server = Writer::open(&disk);
    server.create("/a", Owner::PERSISTENT);
    let last = Zxid((1 << 32) - 1);
    // A leader's first transactions, up to one below the last of the epoch.
    server.snapshot();
    drop(server);
    let renamed = |from: &str, to: &str| disk.rename(&path(from), &path(to)).unwrap();
    disk.remove(&path("log.1")).unwrap();
    disk.remove(&path("snapshot.0")).unwrap();
    renamed("snapshot.1", "snapshot.1");
    let mut bytes = disk.read(path("snapshot.1")).unwrap();
    // Without the sections after the tree nothing but the name says how new it is.
    let tree = bytes.len() - 33 - 21;
    bytes.truncate(tree);
    disk.write(path("snapshot.ffffffff"), bytes).unwrap();
    disk.write(path(".zoolet-complete"), b"0xffffffff\n").unwrap();
    disk.remove(&path("snapshot.1")).unwrap();
    let alone = disk.fork();
    let mut server = Writer::open(&alone);
    assert_eq!(server.last(), last);
    server.set("/a", b"first of epoch 1");
    server.set("/a", b"second of epoch 1");
    server.commit();
    drop(server);
    assert_eq!(read_dir(&alone).unwrap().tree.last_zxid(), Zxid((1 << 32) + 1));
    // A directory that says which epoch it is of would be refused by its ensemble afterwards.
    disk.write(path("currentEpoch"), b"0").unwrap();
    let error = open(Arc::new(disk.clone()), options()).unwrap_err().to_string();
    assert!(
        error.starts_with("/data/version-2/currentEpoch: epoch 0 has no zxid after 0xffffffff"),
        "{error}"
    );
}

#[test]
fn the_last_zxid_of_an_epoch_is_not_passed_in_the_directory_of_an_ensemble_member() {
    let disk = SimulatedDisk::new(1);
    let mut server = Writer::open(&disk);
    server.create("/a", Owner::PERSISTENT);
    server.snapshot();
    drop(server);
    let mut bytes = disk.read(path("snapshot.1")).unwrap();
    bytes.truncate(bytes.len() - 33 - 21);
    disk.remove(&path("snapshot.1")).unwrap();
    disk.remove(&path("log.1")).unwrap();
    disk.write(path("snapshot.fffffffe"), bytes).unwrap();
    disk.write(path(".zoolet-complete"), b"0xfffffffe\n").unwrap();
    disk.write(path("currentEpoch"), b"0").unwrap();
    let mut server = Writer::open(&disk);
    server.set("/a", b"the last of epoch 0");
    server.commit();
    let error = server.append(TxnOp::CreateSession { timeout: 1 }).unwrap_err().to_string();
    assert!(error.contains("cannot be logged: the epoch has no zxid left"), "{error}");
    assert!(matches!(server.storage.commit(), Err(StorageError::Failed(_))));
}

#[test]
fn the_files_of_a_machine_are_recovered_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = StorageOptions::new(dir.path().join(DATA.trim_start_matches('/')));
    options.pre_alloc = 1 << 20;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let (mut storage, recovered) = open(Arc::clone(&disk), options.clone()).unwrap();
    let mut tree = recovered.tree;
    let op = TxnOp::CreateSession { timeout: 4_000 };
    let mut txn = zoolet_server_core::Txn {
        session: SESSION,
        xid: zoolet_proto::Xid(0),
        zxid: Zxid(1),
        time: zoolet_server_core::Millis(1),
        op,
        digest: None,
    };
    tree.apply(&txn, &mut |_, _| {});
    txn.digest = tree.digest();
    storage.append(&txn).unwrap();
    storage.commit().unwrap();
    assert!(matches!(open(Arc::clone(&disk), options.clone()), Err(StorageError::InUse(_))));
    drop(storage);
    let (_, recovered) = open(disk, options).unwrap();
    assert_eq!((recovered.sessions, recovered.tree.last_zxid()), (vec![(SESSION, 4_000)], Zxid(1)));
}
