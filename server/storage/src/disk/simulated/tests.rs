use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use proptest::prelude::*;

use super::*;

const DIR: &str = "/data";

fn path(name: &str) -> std::path::PathBuf {
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

fn strings<const N: usize>(names: [&[&str]; N]) -> BTreeSet<Vec<String>> {
    names.iter().map(|names| names.iter().map(|name| (*name).to_owned()).collect()).collect()
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
fn synced_bytes_survive_and_others_may_not() {
    let (disk, mut file) = disk_with("a");
    file.write_at(b"old", 0).unwrap();
    file.sync().unwrap();
    file.write_at(b"new!", 0).unwrap();
    let left = outcomes(&disk, |disk| disk.read(path("a")).unwrap());
    assert_eq!(left, BTreeSet::from([b"old".to_vec(), b"new!".to_vec(), b"new".to_vec(), b"old\0".to_vec()]));
}

#[test]
fn a_sector_may_be_left_as_it_was_at_any_time_since_the_last_sync() {
    let (disk, mut file) = disk_with("a");
    for byte in 1..=3 {
        file.write_at(&[byte; 512], 0).unwrap();
    }
    let left = outcomes(&disk, |disk| disk.read(path("a")).unwrap().first().copied());
    assert_eq!(left, [None, Some(0), Some(1), Some(2), Some(3)].into());
}

#[test]
fn sectors_of_unsynced_pages_are_lost_in_any_combination() {
    let (disk, mut file) = disk_with("a");
    file.set_len(3 * 512).unwrap();
    file.sync().unwrap();
    file.write_at(&[1; 3 * 512], 0).unwrap();
    let left = outcomes(&disk, |disk| {
        let bytes = disk.read(path("a")).unwrap();
        assert!(
            bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])),
            "a sector is torn"
        );
        [bytes[0], bytes[512], bytes[1024]]
    });
    assert_eq!(left.len(), 8, "{left:?}");
}

#[test]
fn the_name_of_a_new_file_is_lost_unless_its_directory_is_synced() {
    let disk = disk();
    let mut file = disk.create(&path("a")).unwrap();
    file.write_at(b"x", 0).unwrap();
    file.sync().unwrap();
    assert_eq!(outcomes(&disk, names), strings([&[], &["a"]]));
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(outcomes(&disk, |disk| disk.read(path("a")).unwrap()), BTreeSet::from([b"x".to_vec()]));
}

#[test]
fn a_rename_is_atomic_and_needs_the_file_to_have_been_created() {
    let disk = disk();
    drop(disk.create(&path("tmp")).unwrap());
    disk.rename(&path("tmp"), &path("final")).unwrap();
    assert_eq!(outcomes(&disk, names), strings([&[], &["tmp"], &["final"]]));
}

#[test]
fn a_rename_over_a_file_leaves_one_or_the_other() {
    let disk = disk();
    disk.write(path("a"), b"old").unwrap();
    disk.write(path("tmp"), b"new").unwrap();
    disk.rename(&path("tmp"), &path("a")).unwrap();
    let left = outcomes(&disk, |disk| (names(disk), disk.read(path("a")).unwrap()));
    let either = [(vec!["a".into(), "tmp".into()], b"old".to_vec()), (vec!["a".into()], b"new".to_vec())];
    assert_eq!(left, BTreeSet::from(either));
}

#[test]
fn changes_of_different_names_may_be_lost_in_any_order() {
    let disk = disk();
    drop(disk.create(&path("first")).unwrap());
    drop(disk.create(&path("second")).unwrap());
    let left = outcomes(&disk, names);
    assert_eq!(left, strings([&[], &["first"], &["second"], &["first", "second"]]));
}

#[test]
fn a_file_renamed_without_a_sync_may_be_empty() {
    let disk = disk();
    disk.create(&path("tmp")).unwrap().write_at(&[1; 5000], 0).unwrap();
    disk.rename(&path("tmp"), &path("a")).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    let lengths = outcomes(&disk, |disk| disk.read(path("a")).unwrap().len());
    assert!(lengths.contains(&0) && lengths.contains(&5000), "{lengths:?}");
}

#[test]
fn a_removed_file_comes_back_unless_its_directory_is_synced() {
    let (disk, mut file) = disk_with("a");
    file.write_at(b"x", 0).unwrap();
    file.sync().unwrap();
    disk.remove(&path("a")).unwrap();
    assert_eq!(disk.open(&path("a")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(outcomes(&disk, names), strings([&[], &["a"]]));
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(outcomes(&disk, names), strings([&[]]));
    file.write_at(b"y", 1).unwrap();
    assert_eq!(file.len().unwrap(), 2, "a file that is open stays until it is closed");
}

#[test]
fn a_new_directory_is_durable_with_its_parents() {
    let disk = SimulatedDisk::new(0);
    disk.create_dir(Path::new("/a/b/c")).unwrap();
    for seed in 0..100 {
        assert!(disk.fork().power_loss(seed).list(Path::new("/a/b/c")).unwrap().is_empty());
    }
    disk.write("/a/file", b"").unwrap();
    assert_eq!(disk.create_dir(Path::new("/a/file/x")).unwrap_err().kind(), ErrorKind::NotADirectory);
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
fn what_survives_a_power_loss_is_durable() {
    let (disk, mut file) = disk_with("a");
    file.write_at(&[1; 20_000], 0).unwrap();
    for seed in 0..100 {
        let disk = disk.fork().power_loss(seed);
        let first = disk.read(path("a")).unwrap();
        assert_eq!(disk.power_loss(seed + 1).read(path("a")).unwrap(), first);
    }
}

#[test]
fn a_crash_tears_its_step_and_everything_later_fails() {
    let (disk, mut file) = disk_with("a");
    let mut lengths = BTreeSet::new();
    for seed in 0..50 {
        let disk = SimulatedDisk::new(seed);
        disk.write(path("a"), b"").unwrap();
        let mut file = disk.open_to_write(&path("a")).unwrap();
        disk.crash_at(disk.steps() + 2);
        file.write_at(b"12", 0).unwrap();
        assert!(!disk.has_crashed());
        file.write_at(&[b'x'; 100], 2).unwrap_err();
        assert!(disk.has_crashed());
        assert_eq!(disk.steps(), 2);
        file.len().unwrap_err();
        disk.open(&path("a")).unwrap_err();
        disk.create(&path("b")).unwrap_err();
        let next = disk.kill();
        lengths.insert(next.read(path("a")).unwrap().len());
        next.create(&path("b")).unwrap();
    }
    assert!(lengths.len() > 10, "{lengths:?}");
    disk.crash_at(disk.steps() + 1);
    file.sync().unwrap_err();
    assert_eq!(file.len().unwrap_err().to_string(), "the simulated machine is off");
}

#[test]
fn a_crash_at_a_sync_may_leave_the_data_or_not() {
    let (disk, mut file) = disk_with("a");
    file.write_at(b"x", 0).unwrap();
    disk.crash_at(disk.steps() + 1);
    file.sync().unwrap_err();
    let left = outcomes(&disk, |disk| disk.read(path("a")).unwrap());
    assert!(left.contains(b"".as_slice()) && left.contains(b"x".as_slice()), "{left:?}");
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
fn the_same_seed_leaves_the_same() {
    let (disk, mut file) = disk_with("a");
    file.write_at(&[1; 100_000], 0).unwrap();
    drop(disk.create(&path("b")).unwrap());
    for seed in 0..50 {
        let left = || {
            let disk = disk.fork().power_loss(seed);
            (names(&disk), disk.read(path("a")).unwrap())
        };
        assert_eq!(left(), left(), "seed {seed}");
    }
}

#[test]
fn after_a_failed_sync_a_second_one_succeeds_and_data_are_lost() {
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed);
        disk.write(path("log"), b"").unwrap();
        let mut file = disk.open_to_write(&path("log")).unwrap();
        disk.place(DiskOp::Sync.on("log").nth(1), DiskFault::Fail).unwrap();
        file.write_at(&[1; 10_000], 0).unwrap();
        file.sync().unwrap_err();
        file.sync().unwrap();
        assert_eq!(disk.read(path("log")).unwrap(), [1; 10_000], "the cache shows everything");
        let left = disk.power_loss(seed).read(path("log")).unwrap();
        assert_ne!(left, [1; 10_000], "seed {seed}");
    }
}

#[test]
fn the_bytes_that_are_written_after_a_failed_sync_are_durable_again() {
    let (disk, mut file) = disk_with("a");
    disk.place(DiskOp::Sync.any().nth(1), DiskFault::Fail).unwrap();
    file.write_at(&[1; 8192], 0).unwrap();
    file.sync().unwrap_err();
    file.write_at(&[2; 8192], 0).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.power_loss(0).read(path("a")).unwrap(), [2; 8192]);
}

#[test]
fn after_a_failed_sync_of_a_directory_the_names_are_lost() {
    let disk = disk();
    disk.place(DiskOp::SyncDir.any().nth(1), DiskFault::Full).unwrap();
    drop(disk.create(&path("a")).unwrap());
    assert_eq!(disk.sync_dir(Path::new(DIR)).unwrap_err().kind(), ErrorKind::StorageFull);
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(names(&disk), ["a"]);
    assert!(names(&disk.power_loss(0)).is_empty());
}

#[test]
fn a_lie_is_found_out_at_the_next_power_loss() {
    let (disk, mut file) = disk_with("a");
    let lie = disk.place(DiskOp::Sync.on("a"), DiskFault::Lie).unwrap();
    file.write_at(b"x", 0).unwrap();
    file.sync().unwrap();
    assert!(outcomes(&disk, |disk| disk.read(path("a")).unwrap()).contains(b"".as_slice()));
    assert!(disk.remove_fault(lie));
    file.sync().unwrap();
    assert_eq!(outcomes(&disk, |disk| disk.read(path("a")).unwrap()).len(), 1);
}

#[test]
fn faults_fire_for_their_operation_and_file_and_are_recorded() {
    let (disk, mut file) = disk_with("log.1");
    let nth = disk.place(DiskOp::Write.on("log.*").nth(2), DiskFault::Short { bytes: 3 }).unwrap();
    file.write_at(b"first", 0).unwrap();
    disk.create(&path("other")).unwrap().write_at(b"other", 0).unwrap();
    file.write_at(b"second", 5).unwrap_err();
    file.write_at(b"third", 8).unwrap();
    assert_eq!(disk.read(path("log.1")).unwrap(), b"firstsecthird");
    disk.clear_faults();
    disk.place(DiskOp::Rename.on("log.2"), DiskFault::Fail).unwrap();
    disk.rename(&path("log.1"), &path("log.2")).unwrap_err();
    assert_eq!(names(&disk), ["log.1", "other"]);
    disk.rename(&path("log.1"), &path("log.3")).unwrap();
    disk.place(DiskOp::SetLen.on("*.3"), DiskFault::Fail).unwrap();
    file.set_len(0).expect_err("a fault matches the present name of an open file");
    let fired = disk.fired();
    assert_eq!(fired[0].id, nth);
    assert_eq!(fired[0].step, 8);
    let lines: Vec<_> = fired.iter().map(ToString::to_string).collect();
    let expected = [
        "step 8: write log.1: stop after 3 bytes",
        "step 10: rename to log.2: fail",
        "step 12: set the length of log.3: fail",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_short_read_returns_fewer_bytes() {
    let (disk, mut file) = disk_with("a");
    file.write_at(b"12345", 0).unwrap();
    disk.place(DiskOp::Read.any(), DiskFault::Short { bytes: 2 }).unwrap();
    assert_eq!(file.read_at(&mut [0; 5], 0).unwrap(), 2);
    assert_eq!(disk.steps(), disk.fork().steps(), "a read is no step");
}

#[test]
fn a_fault_that_has_no_effect_is_refused() {
    let disk = disk();
    let error = disk.place(DiskOp::Rename.any(), DiskFault::Lie).unwrap_err();
    assert_eq!(error, DiskFaultError::NoEffect { op: DiskOp::Rename, fault: DiskFault::Lie });
    disk.place(DiskOp::Sync.any(), DiskFault::Short { bytes: 1 }).unwrap_err();
    disk.place(DiskOp::Read.any(), DiskFault::Full).unwrap_err();
    assert_eq!(disk.place(DiskOp::Read.any().nth(0), DiskFault::Fail), Err(DiskFaultError::NthZero));
}

#[test]
fn a_full_disk_takes_what_fits_and_has_room_again_after_a_removal() {
    let (disk, mut file) = disk_with("a");
    disk.set_free_space(Some(3 * 4096));
    file.reserve(4 * 4096).unwrap_err();
    file.reserve(2 * 4096).unwrap();
    file.write_at(&[1; 2 * 4096], 0).unwrap();
    let error = file.write_at(&[2; 2 * 4096], 2 * 4096).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 3 * 4096, "the first page fits");
    file.write_at(&[3; 3 * 4096], 0).expect("what is there can be overwritten");
    let mut other = disk.create(&path("b")).unwrap();
    other.write_at(b"x", 0).unwrap_err();
    file.set_len(4096).unwrap();
    other.write_at(b"x", 0).unwrap();
    drop(file);
    disk.remove(&path("a")).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    other.write_at(&[1; 3 * 4096], 0).unwrap();
}

#[test]
fn a_flipped_bit_stays_flipped() {
    let disk = disk();
    disk.write(path("a"), b"abc").unwrap();
    disk.flip(path("a"), 1, 0).unwrap();
    assert_eq!(disk.read(path("a")).unwrap(), b"acc");
    assert_eq!(disk.power_loss(3).read(path("a")).unwrap(), b"acc");
    assert_eq!(disk.flip(path("a"), 3, 0).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert_eq!(disk.flip(path("b"), 0, 0).unwrap_err().kind(), ErrorKind::NotFound);
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
fn memory_is_bounded_though_nothing_is_ever_synced() {
    let (disk, mut file) = disk_with("a");
    for n in 0..100_000 {
        file.write_at(b"x", n % 8192).unwrap();
        file.set_len(8192 + n % 10).unwrap();
        if n % 16 == 0 {
            disk.create(&path("b")).unwrap();
            disk.remove(&path("b")).unwrap();
        }
    }
    let machine = disk.machine();
    let held = format!("{machine:?}").matches("Version").count();
    assert!(held <= 8 * 3, "{held} states of three pages");
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

#[derive(Debug, Clone)]
enum Change {
    Write { file: u8, offset: u16, len: u16, byte: u8 },
    SetLen { file: u8, len: u16 },
    Reserve { file: u8, len: u16 },
    Sync { file: u8 },
    Rename { from: u8, to: u8 },
    Remove { file: u8 },
    SyncDir,
}

fn change() -> impl Strategy<Value = Change> {
    let file = 0..4u8;
    prop_oneof![
        4 => (file.clone(), 0..20_000u16, 0..9000u16, 1..=255u8)
            .prop_map(|(file, offset, len, byte)| Change::Write { file, offset, len, byte }),
        1 => (file.clone(), 0..20_000u16).prop_map(|(file, len)| Change::SetLen { file, len }),
        1 => (file.clone(), 0..20_000u16).prop_map(|(file, len)| Change::Reserve { file, len }),
        3 => file.clone().prop_map(|file| Change::Sync { file }),
        1 => (file.clone(), 0..4u8).prop_map(|(from, to)| Change::Rename { from, to }),
        1 => file.prop_map(|file| Change::Remove { file }),
        2 => Just(Change::SyncDir),
    ]
}

proptest! {
    /// The model keeps whole contents by name. What is synced is there after a power loss; what is not had its bytes at some time.
    #[test]
    fn synced_data_always_survive(changes in prop::collection::vec(change(), 1..60), seed: u64) {
        let disk = disk();
        let name = |file: u8| path(&format!("f{file}"));
        // By file: what a read shows, and whether all of it is synced. By name: the same for the directory.
        let mut contents: Vec<(Vec<u8>, bool)> = Vec::new();
        let mut open: Vec<Box<dyn DiskFile>> = Vec::new();
        let mut present: BTreeMap<u8, usize> = BTreeMap::new();
        let mut durable: BTreeMap<u8, usize> = BTreeMap::new();
        let mut touched: BTreeSet<u8> = BTreeSet::new();
        for change in &changes {
            let (Change::Write { file, .. } | Change::SetLen { file, .. } | Change::Reserve { file, .. } | Change::Sync { file }
                | Change::Rename { from: file, .. } | Change::Remove { file }) = *change else {
                disk.sync_dir(Path::new(DIR)).unwrap();
                durable = present.clone();
                touched.clear();
                continue;
            };
            let id = match present.get(&file) {
                Some(id) => *id,
                None => {
                    open.push(disk.create(&name(file)).unwrap());
                    contents.push((Vec::new(), true));
                    touched.insert(file);
                    present.insert(file, open.len() - 1);
                    open.len() - 1
                }
            };
            let (handle, (bytes, is_synced)) = (&mut open[id], &mut contents[id]);
            match *change {
                Change::Write { offset, len, byte, .. } => {
                    handle.write_at(&vec![byte; len.into()], offset.into()).unwrap();
                    let end = usize::from(offset) + usize::from(len);
                    if len > 0 {
                        bytes.resize(bytes.len().max(end), 0);
                        bytes[offset.into()..end].fill(byte);
                        *is_synced = false;
                    }
                }
                Change::SetLen { len, .. } => {
                    handle.set_len(len.into()).unwrap();
                    *is_synced &= bytes.len() == usize::from(len);
                    bytes.resize(len.into(), 0);
                }
                Change::Reserve { len, .. } => {
                    handle.reserve(len.into()).unwrap();
                    *is_synced &= bytes.len() >= usize::from(len);
                    bytes.resize(bytes.len().max(len.into()), 0);
                }
                Change::Sync { .. } => {
                    handle.sync().unwrap();
                    *is_synced = true;
                }
                Change::Rename { from, to } => {
                    disk.rename(&name(from), &name(to)).unwrap();
                    if from != to {
                        present.remove(&from);
                        present.insert(to, id);
                        touched.extend([from, to]);
                    }
                }
                Change::Remove { file } => {
                    disk.remove(&name(file)).unwrap();
                    present.remove(&file);
                    touched.insert(file);
                }
                Change::SyncDir => {}
            }
        }
        for (file, id) in &present {
            prop_assert_eq!(&disk.read(name(*file)).unwrap(), &contents[*id].0);
        }
        let after = disk.power_loss(seed);
        for (file, id) in durable.iter().filter(|(file, _)| !touched.contains(file)) {
            let left = after.read(name(*file));
            prop_assert!(left.is_ok(), "f{} is gone", file);
            if contents[*id].1 {
                prop_assert_eq!(&left.unwrap(), &contents[*id].0, "f{}", file);
            }
        }
        for file in (0..4).filter(|file| !durable.contains_key(file) && !touched.contains(file)) {
            prop_assert!(after.read(name(file)).is_err(), "f{} was removed durably", file);
        }
    }
}
