//! How the next log file is made ready.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zoolet_proto::{SessionId, Xid, Zxid};
use zoolet_server_core::{Millis, Txn, TxnOp};
use zoolet_simdisk::{DiskFault, DiskOp, SimulatedDisk};
use zoolet_storage::disk::Disk;
use zoolet_storage::log::{LogEnd, LogItem, LogReader, LogWriter, SpareLog};
use zoolet_storage::{Durability, StorageOptions};

const DIR: &str = "/data/version-2";
const ROOM: u64 = 64 << 10;

struct Scene {
    disk: SimulatedDisk,
    log: LogWriter,
}

impl Scene {
    fn new(change: impl FnOnce(&mut StorageOptions)) -> Self {
        let disk = SimulatedDisk::new(1);
        disk.create_dir(Path::new(DIR)).unwrap();
        let mut options = StorageOptions::new("/data");
        options.pre_alloc = ROOM;
        change(&mut options);
        let log = LogWriter::new(Arc::new(disk.clone()), DIR.into(), &options, Zxid(0));
        Self { disk, log }
    }

    /// Appends and commits so many transactions.
    fn write(&mut self, count: i64) {
        for _ in 0..count {
            let zxid = self.log.last_zxid().next();
            let op = TxnOp::Delete { path: "/a/znode/with/a/name".into() };
            let txn = Txn { session: SessionId(1), xid: Xid(1), zxid, time: Millis(1), op, digest: None };
            self.log.append(&txn).unwrap();
        }
        self.log.commit().unwrap();
    }

    fn make_spare(&mut self) -> Option<SpareLog> {
        self.log.spare_job().expect("it is time for one").run(&AtomicBool::new(false))
    }

    /// The files and their lengths.
    fn files(&self) -> Vec<(String, u64)> {
        let files = self.disk.list(Path::new(DIR)).unwrap().into_iter();
        let mut files: Vec<_> = files.map(|file| (file.name.into_string().unwrap(), file.len)).collect();
        files.sort();
        files
    }

    fn names(&self) -> Vec<String> {
        self.files().into_iter().map(|(name, _)| name).collect()
    }

    fn entries(&self, name: &str) -> usize {
        let path = Path::new(DIR).join(name);
        let mut reader = LogReader::new(self.disk.open(&path).unwrap(), &path).unwrap();
        std::iter::from_fn(|| match reader.next().unwrap() {
            LogItem::Entry(entry) => Some(entry),
            LogItem::End(end) => {
                assert!(matches!(end, LogEnd::Clean { .. }), "{end:?}");
                None
            }
        })
        .count()
    }
}

#[test]
fn the_next_file_is_the_spare_one() {
    let mut scene = Scene::new(|_| {});
    scene.write(100);
    let spare = scene.make_spare().expect("the disk is fine");
    scene.log.put_spare(spare);
    assert!(scene.log.spare_job().is_none(), "one is enough");
    scene.write(10);
    scene.log.roll().unwrap();
    scene.write(20);
    // Nothing is known of earlier files yet, so it is half of what is reserved otherwise.
    assert_eq!(scene.files(), [("log.1".to_owned(), ROOM + 16), ("log.6f".to_owned(), ROOM / 2)]);
    assert_eq!((scene.entries("log.1"), scene.entries("log.6f")), (110, 20));
    // The next one is as long as the first became.
    scene.write(100);
    let spare = scene.make_spare().expect("the disk is fine");
    scene.log.put_spare(spare);
    let before = scene.files();
    assert!((5_000..10_000).contains(&before[0].1) && before[0].0 == ".zoolet-log-next.tmp", "{before:?}");
}

#[test]
fn a_file_that_ended_early_does_not_make_the_spare_one_short() {
    let mut scene = Scene::new(|_| {});
    scene.write(1);
    scene.log.roll().unwrap();
    scene.write(200);
    let spare = scene.make_spare().expect("the disk is fine");
    scene.log.put_spare(spare);
    assert!(scene.files()[0].1 > 10_000, "{:?}", scene.files());
}

#[test]
fn a_file_that_outgrows_the_spare_one_reserves_more() {
    let mut scene = Scene::new(|_| {});
    scene.write(100);
    let spare = scene.make_spare().expect("the disk is fine");
    scene.log.put_spare(spare);
    scene.log.roll().unwrap();
    scene.write(1_000);
    assert_eq!(scene.entries("log.65"), 1_000);
    assert!(scene.files()[1].1 > ROOM, "{:?}", scene.files());
}

#[test]
fn a_server_with_little_to_write_or_without_syncs_makes_none() {
    let mut scene = Scene::new(|_| {});
    assert!(scene.log.spare_job().is_none());
    scene.write(10);
    assert!(scene.log.spare_job().is_none());
    for change in [
        |options: &mut StorageOptions| options.durability = Durability::Os,
        |options: &mut StorageOptions| options.pre_alloc = 0,
    ] {
        let mut scene = Scene::new(change);
        scene.write(5_000);
        assert!(scene.log.spare_job().is_none());
    }
}

#[test]
fn a_spare_file_that_is_not_used_is_removed() {
    let mut scene = Scene::new(|_| {});
    scene.write(100);
    let spare = scene.make_spare().expect("the disk is fine");
    assert_eq!(scene.names(), [".zoolet-log-next.tmp", "log.1"]);
    scene.log.put_spare(spare);
    let Scene { disk, log } = scene;
    drop(log);
    assert_eq!(disk.list(Path::new(DIR)).unwrap().len(), 1);
}

#[test]
fn on_a_full_disk_the_log_takes_the_room_of_the_spare_file() {
    let mut scene = Scene::new(|_| {});
    scene.write(100);
    let spare = scene.make_spare().expect("the disk is fine");
    scene.log.put_spare(spare);
    scene.disk.set_free_space(Some(0));
    // More than is reserved, and less than that with the room of the spare file.
    scene.write(900);
    assert_eq!((scene.names().len(), scene.entries("log.1")), (1, 1_000));
}

#[test]
fn without_a_spare_file_the_log_goes_on() {
    let faults = [DiskOp::Create, DiskOp::Reserve, DiskOp::Write, DiskOp::Sync].map(Some);
    for fault in faults.into_iter().chain([None]) {
        let mut scene = Scene::new(|_| {});
        scene.write(100);
        if let Some(op) = fault {
            scene.disk.place(op.any().nth(1), DiskFault::Fail).unwrap();
        }
        let job = scene.log.spare_job().expect("it is time for one");
        let is_cancelled = AtomicBool::new(fault.is_none());
        assert!(job.run(&is_cancelled).is_none(), "{fault:?}");
        assert_eq!(scene.names(), ["log.1"], "nothing is left of it");
        scene.write(10);
        scene.log.roll().unwrap();
        scene.write(10);
        assert_eq!((scene.entries("log.1"), scene.entries("log.6f")), (110, 10));
    }
}
