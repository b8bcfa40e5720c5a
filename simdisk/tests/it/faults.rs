//! What faults do.

use super::*;

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
fn after_a_failed_sync_the_length_may_be_lost() {
    let lengths: BTreeSet<_> = (0..50)
        .map(|seed| {
            let disk = SimulatedDisk::new(seed);
            disk.write(path("log"), b"").unwrap();
            let mut file = disk.open_to_write(&path("log")).unwrap();
            disk.place(DiskOp::Sync.any().nth(1), DiskFault::Fail).unwrap();
            file.set_len(100).unwrap();
            file.sync().unwrap_err();
            file.sync().unwrap();
            assert_eq!(file.len().unwrap(), 100);
            disk.power_loss(seed).read(path("log")).unwrap().len()
        })
        .collect();
    assert_eq!(lengths, [0].into());
}

#[test]
fn bytes_that_are_cut_after_a_failed_sync_stay_cut() {
    let (disk, mut file) = disk_with("a");
    file.write_at(&[1; 8192], 0).unwrap();
    file.sync().unwrap();
    disk.place(DiskOp::Sync.any().nth(1), DiskFault::Fail).unwrap();
    file.set_len(0).unwrap();
    file.sync().unwrap_err();
    file.set_len(8192).unwrap();
    file.set_len(0).unwrap();
    file.set_len(8192).unwrap();
    file.sync().unwrap();
    assert_eq!(disk.power_loss(0).read(path("a")).unwrap(), [0; 8192]);
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
fn after_a_failed_sync_of_a_directory_its_names_can_still_be_synced() {
    let disk = disk();
    disk.place(DiskOp::SyncDir.any().nth(1), DiskFault::Full).unwrap();
    drop(disk.create(&path("a")).unwrap());
    assert_eq!(disk.sync_dir(Path::new(DIR)).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(outcomes(&disk, names).contains(&Vec::new()), "nothing is durable yet");
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(outcomes(&disk, names).len(), 1);
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
    other.write_at(b"x", 4096).unwrap();
    other.write_at(b"x", 8192).expect_err("reserved room is given back, and no more");
    drop(file);
    disk.remove(&path("a")).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    other.write_at(&[1; 3 * 4096], 0).unwrap();
    other.write_at(b"x", 3 * 4096).unwrap_err();
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
fn a_power_loss_changes_the_free_space_by_the_room_that_it_takes_or_brings_back() {
    let (disk, mut file) = disk_with("a");
    disk.set_free_space(Some(2 * 4096));
    file.write_at(&[1; 2 * 4096], 0).unwrap();
    let check = |disk: &SimulatedDisk| {
        for seed in 0..100 {
            let disk = disk.fork().power_loss(seed);
            let mut file = disk.open_to_write(&path("a")).unwrap();
            file.write_at(&[2; 2 * 4096], 0).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            file.write_at(b"x", 2 * 4096).expect_err(&format!("seed {seed}: there is room for two pages"));
        }
    };
    check(&disk);
    file.sync().unwrap();
    file.set_len(0).unwrap();
    check(&disk);
}

#[test]
fn faults_match_the_name_that_a_power_loss_or_a_crash_leaves() {
    for seed in 0..50 {
        let lost = SimulatedDisk::new(seed);
        lost.write(path("a"), b"").unwrap();
        let crashed = lost.fork();
        lost.rename(&path("a"), &path("b")).unwrap();
        crashed.crash_at(crashed.steps() + 1);
        crashed.rename(&path("a"), &path("b")).unwrap_err();
        for disk in [lost.power_loss(seed), crashed.kill()] {
            let name = names(&disk).remove(0);
            disk.place(DiskOp::SetLen.on(&name), DiskFault::Fail).unwrap();
            let mut file = disk.open_to_write(&path(&name)).unwrap();
            file.set_len(0).expect_err(&format!("seed {seed}: a fault of {name}"));
        }
    }
}

#[test]
fn a_sync_of_a_directory_has_the_name_of_that_directory() {
    let disk = SimulatedDisk::new(0);
    disk.create_dir(Path::new("/a")).unwrap();
    disk.place(DiskOp::SyncDir.any(), DiskFault::Fail).unwrap();
    assert!(disk.create_dir(Path::new("/a/b")).is_err());
    let synced: Vec<_> = disk.fired().into_iter().map(|fired| fired.name).collect();
    assert_eq!(synced, ["/", "a"]);
}
