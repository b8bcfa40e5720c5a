//! Tests of the simulated disk.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not take for tests")]

mod faults;
mod power_loss;
mod random;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use zoolet_simdisk::{DiskFault, DiskFaultError, DiskOp, SimulatedDisk};
use zoolet_storage::disk::{Disk, DiskFile};

const DIR: &str = "/data";

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// A disk with a directory that is durable.
fn disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    disk.create_dir(Path::new(DIR)).unwrap();
    disk
}

/// A disk with an empty file that is durable, and the file.
fn disk_with(name: &str) -> (SimulatedDisk, Box<dyn DiskFile>) {
    let disk = disk();
    let file = disk.create(&path(name)).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    (disk, file)
}

fn names(disk: &SimulatedDisk) -> Vec<String> {
    disk.list(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

/// What many power losses leave of a disk.
fn outcomes<T: Ord>(disk: &SimulatedDisk, look: impl Fn(&SimulatedDisk) -> T) -> BTreeSet<T> {
    (0..2000).map(|seed| look(&disk.fork().power_loss(seed))).collect()
}

#[test]
fn it_reads_what_was_written_and_zeros_between() {
    let (disk, mut file) = disk_with("a");
    file.write_at(b"end", 10_000).unwrap();
    file.write_at(b"begin", 0).unwrap();
    assert_eq!(file.len().unwrap(), 10_003);
    let mut expected = vec![0; 10_003];
    expected[..5].copy_from_slice(b"begin");
    expected[10_000..].copy_from_slice(b"end");
    assert_eq!(disk.read(path("a")).unwrap(), expected);
    let mut buffer = [1; 8];
    assert_eq!(file.read_at(&mut buffer, 9_999).unwrap(), 4);
    assert_eq!(&buffer[..4], b"\0end");
    assert_eq!(file.read_at(&mut buffer, 10_003).unwrap(), 0);
    assert_eq!(file.read_at(&mut buffer, u64::MAX).unwrap(), 0);
    file.write_at(b"", 20_000).unwrap();
    assert_eq!(file.len().unwrap(), 10_003, "nothing is written");
}

#[test]
fn cutting_and_extending_leaves_zeros() {
    let (disk, mut file) = disk_with("a");
    file.write_at(&[7; 9000], 0).unwrap();
    file.set_len(5000).unwrap();
    file.set_len(9000).unwrap();
    let bytes = disk.read(path("a")).unwrap();
    assert!(bytes[..5000].iter().all(|byte| *byte == 7) && bytes[5000..].iter().all(|byte| *byte == 0));
    file.sync().unwrap();
    assert_eq!(disk.power_loss(0).read(path("a")).unwrap(), bytes);
}

#[test]
fn a_kill_keeps_what_was_written_and_ends_the_process() {
    let (disk, mut file) = disk_with("a");
    let lock = disk.lock(Path::new(DIR)).unwrap();
    assert!(lock.is_some());
    assert!(disk.lock(Path::new(DIR)).unwrap().is_none(), "it is locked");
    file.write_at(b"kept", 0).unwrap();
    let next = disk.kill();
    assert_eq!(next.read(path("a")).unwrap(), b"kept");
    file.write_at(b"dead", 0).unwrap_err();
    file.sync().unwrap_err();
    disk.remove(&path("a")).unwrap_err();
    disk.create(&path("b")).unwrap_err();
    disk.clone().list(Path::new(DIR)).unwrap_err();
    let mine = next.lock(Path::new(DIR)).unwrap();
    assert!(mine.is_some(), "the lock ended with its process");
    drop((lock, file));
    assert!(next.lock(Path::new(DIR)).unwrap().is_none(), "the dead process releases no lock of another one");
    assert_eq!(next.read(path("a")).unwrap(), b"kept");
    let left = outcomes(&next, |disk| disk.read(path("a")).unwrap());
    assert!(left.contains(b"".as_slice()), "a kill syncs nothing");
}

#[test]
fn history_has_a_disk_from_before_each_step() {
    let (disk, mut file) = disk_with("a");
    disk.keep_history();
    file.write_at(b"1", 0).unwrap();
    file.write_at(b"2", 1).unwrap();
    disk.remove(&path("a")).unwrap();
    let history = disk.take_history();
    let seen: Vec<_> = history.iter().map(|(step, disk)| (*step, disk.read(path("a")).unwrap())).collect();
    let last = disk.steps();
    assert_eq!(seen, [(last - 2, b"".to_vec()), (last - 1, b"1".to_vec()), (last, b"12".to_vec())]);
    assert_eq!(history[0].1.steps(), last - 3);
    assert!(disk.take_history().is_empty());
}

#[test]
fn a_fork_and_its_origin_do_not_see_each_other() {
    let (disk, mut file) = disk_with("a");
    let fork = disk.fork();
    file.write_at(b"x", 0).unwrap();
    assert_eq!(fork.read(path("a")).unwrap(), b"");
    fork.remove(&path("a")).unwrap();
    assert_eq!(disk.read(path("a")).unwrap(), b"x");
}

#[test]
fn reserved_room_takes_no_memory() {
    let (disk, mut file) = disk_with("a");
    for _ in 0..1000 {
        file.reserve(1 << 50).unwrap();
    }
    file.write_at(b"x", 1 << 49).unwrap();
    file.sync().unwrap();
    let disk = disk.power_loss(1);
    let file = disk.open(&path("a")).unwrap();
    assert_eq!(file.len().unwrap(), 1 << 50);
    let mut buffer = [0];
    assert_eq!(file.read_at(&mut buffer, 1 << 49).unwrap(), 1);
    assert_eq!(buffer, *b"x");
}

#[test]
fn the_tree_shows_what_is_not_durable() {
    let (disk, mut file) = disk_with("a");
    file.write_at(b"123", 0).unwrap();
    file.sync().unwrap();
    disk.write(path("old"), b"").unwrap();
    file.write_at(&[0; 5000], 3).unwrap();
    disk.remove(&path("old")).unwrap();
    drop(disk.create(&path("new")).unwrap());
    let expected = "data/\n  a: 5003 bytes, 3 of them synced, 2 pages not synced\n  new: 0 bytes, name not synced\n  \
                    (old: gone, not synced)\n";
    assert_eq!(disk.tree(), expected);
}

#[test]
fn mistakes_are_the_errors_of_a_file_system() {
    let (disk, _file) = disk_with("a");
    disk.create_dir(Path::new("/data/sub")).unwrap();
    let kind = |result: io::Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(disk.remove(&path("b"))), ErrorKind::NotFound);
    assert_eq!(kind(disk.remove(&path("sub"))), ErrorKind::IsADirectory);
    assert_eq!(kind(disk.rename(&path("b"), &path("c"))), ErrorKind::NotFound);
    assert_eq!(kind(disk.rename(&path("a"), &path("sub"))), ErrorKind::IsADirectory);
    assert_eq!(kind(disk.rename(&path("a"), &path("sub/a"))), ErrorKind::CrossesDevices);
    assert_eq!(kind(disk.sync_dir(&path("missing"))), ErrorKind::NotFound);
    assert_eq!(kind(disk.create(&path("a/b")).map(drop)), ErrorKind::NotADirectory);
    assert_eq!(kind(disk.create(Path::new("/")).map(drop)), ErrorKind::IsADirectory);
    assert_eq!(kind(disk.open(&path("a")).unwrap().write_at(b"x", 0)), ErrorKind::PermissionDenied);
    assert_eq!(kind(disk.list(Path::new("/data/../etc")).map(drop)), ErrorKind::InvalidInput);
}
