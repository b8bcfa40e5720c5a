//! What a power loss takes and leaves.

use super::*;

fn strings<const N: usize>(names: [&[&str]; N]) -> BTreeSet<Vec<String>> {
    names.iter().map(|names| names.iter().map(|name| (*name).to_owned()).collect()).collect()
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
fn a_name_that_is_used_again_never_hides_what_it_stood_for() {
    let disk = disk();
    disk.write(path("a"), b"old").unwrap();
    disk.rename(&path("a"), &path("b")).unwrap();
    drop(disk.create(&path("a")).unwrap());
    for seed in 0..500 {
        let disk = disk.fork().power_loss(seed);
        let old = ["a", "b"]
            .into_iter()
            .filter_map(|name| disk.read(path(name)).ok())
            .find(|bytes| bytes == b"old");
        assert!(old.is_some(), "seed {seed}\n{}", disk.tree());
    }
}

#[test]
fn bytes_behind_the_end_that_is_left_do_not_come_back() {
    let (disk, mut file) = disk_with("a");
    file.write_at(&[1; 10_000], 0).unwrap();
    file.write_at(&[1; 1], 20_000).unwrap();
    let mut cut = 0;
    for seed in 0..500 {
        let disk = disk.fork().power_loss(seed);
        let mut file = disk.open_to_write(&path("a")).unwrap();
        let len = file.len().unwrap() as usize;
        file.set_len(20_001).unwrap();
        cut += usize::from(len < 20_001);
        assert!(disk.read(path("a")).unwrap()[len..].iter().all(|byte| *byte == 0), "seed {seed}");
    }
    assert!(cut > 0);
}

#[test]
fn a_sync_reaches_a_sector_that_was_written_long_before_its_page() {
    let (disk, mut file) = disk_with("a");
    file.write_at(&[1; 512], 0).unwrap();
    for _ in 0..100 {
        file.write_at(&[2; 512], 512).unwrap();
    }
    file.sync().unwrap();
    assert_eq!(disk.power_loss(0).read(path("a")).unwrap(), [[1; 512], [2; 512]].concat());
}
