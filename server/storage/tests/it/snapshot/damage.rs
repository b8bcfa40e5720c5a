//! What is not as a server writes it is refused, with the place and the reason.

use std::path::Path;

use zoolet_simdisk::{DiskFault, DiskOp};
use zoolet_storage::{SnapshotReader, StorageError};

use super::raw::*;
use super::support::DIR;

/// Every row: what is wrong, the file, the byte and the reason that the error names.
#[test]
fn every_damage_is_refused_with_its_place_and_reason() {
    let fresh = Raw::fresh().bytes();
    let with = |change: fn(&mut Raw)| Raw::fresh().with(change).bytes();
    let cut = |at: usize| fresh[..at].to_vec();
    let twice = |at: usize| [&fresh[..at], &fresh[..]].concat();
    let rows: Vec<(&str, Vec<u8>, u64, &str)> = vec![
        ("nothing", cut(0), 0, "the file ends within the header"),
        ("a part of the magic", cut(3), 3, "the file ends within the header"),
        ("zeros", vec![0; 478], 0, "this is not a snapshot: it does not begin with ZKSN"),
        ("a log", [b"ZKLG", &fresh[4..]].concat(), 0, "this is not a snapshot: it does not begin with ZKSN"),
        ("another version", with(|raw| raw.header[7] = 3), 4, "version 3 of the format is unknown"),
        ("a cut header", cut(10), 10, "the file ends within the header"),
        // Sessions.
        ("no sessions", cut(16), 16, "the file ends within the sessions"),
        (
            "fewer than no sessions",
            with(|raw| raw.sessions[0] = 0x80),
            16,
            "a count of -2147483648 in the sessions",
        ),
        (
            "more sessions than bytes",
            with(|raw| raw.sessions = [&i32::MAX.to_be_bytes()[..], &session(1, 1)].concat()),
            104,
            "the session 0x0 is there twice",
        ),
        (
            "a session twice",
            with(|raw| raw.sessions = [&2i32.to_be_bytes()[..], &session(5, 1), &session(5, 1)].concat()),
            32,
            "the session 0x5 is there twice",
        ),
        (
            "a timeout below zero",
            with(|raw| raw.sessions = [&1i32.to_be_bytes()[..], &session(5, -1)].concat()),
            20,
            "the session 0x5 has the timeout -1",
        ),
        // Access control lists.
        ("a cut table", cut(30), 30, "the file ends within the table of ACLs"),
        (
            "fewer than no lists",
            with(|raw| raw.acls[0] = 0xff),
            20,
            "a count of -16777215 in the table of ACLs",
        ),
        ("more lists than there are", with(|raw| raw.acls[0] = 0x7f), 67, "a count of -1 in an ACL"),
        (
            "the open list",
            with(|raw| raw.acls[4..12].fill(0xff)),
            24,
            "the table of ACLs has the id -1, which a table does not have",
        ),
        (
            "a list twice",
            with(|raw| {
                raw.acls[3] = 2;
                raw.acls.extend(acl(1, 31, b"ip", b"::1"));
            }),
            59,
            "the table of ACLs has the id 1 twice",
        ),
        ("a null list", with(|raw| raw.acls[12..16].fill(0xff)), 32, "a count of -1 in an ACL"),
        (
            "a scheme of length -2",
            with(|raw| raw.acls[20..24].copy_from_slice(&[255, 255, 255, 254])),
            40,
            "a length of -2 in the table of ACLs",
        ),
        (
            "a scheme that is too long",
            with(|raw| raw.acls[20] = 1),
            478,
            "the file ends within the table of ACLs",
        ),
        ("a scheme that is no UTF-8", with(|raw| raw.acls[24] = 0xff), 40, "a string of an ACL is not UTF-8"),
        // Znodes.
        ("no znode", with(|raw| raw.znodes.clear()), 59, "there is no root"),
        ("no root", with(|raw| drop(raw.znodes.remove(0))), 59, "the first znode is not the root"),
        (
            "two roots",
            with(|raw| raw.znodes.push(znode_bytes(b"", -1, &[0; 60]))),
            406,
            "the root is there twice",
        ),
        ("a null path", with(|raw| raw.znodes[1][..4].fill(0xff)), 135, "a znode has no path"),
        (
            "a path of length -2",
            with(|raw| raw.znodes[1][..4].copy_from_slice(&[255, 255, 255, 254])),
            135,
            "a length of -2 in a path",
        ),
        ("a path that is too long", with(|raw| raw.znodes[1][0] = 0x7f), 478, "the file ends within a path"),
        (
            "a path without a slash",
            with(|raw| raw.znodes[1][4] = b'z'),
            135,
            "a path does not begin with a slash, or ends with one",
        ),
        (
            "a path with a slash at its end",
            with(|raw| raw.znodes[1][13] = b'/'),
            135,
            "a path does not begin with a slash, or ends with one",
        ),
        ("a path that is no UTF-8", with(|raw| raw.znodes[1][5] = 0xff), 135, "a path is not UTF-8"),
        (
            "data of length -2",
            with(|raw| raw.znodes[0][4..8].copy_from_slice(&[255, 255, 255, 254])),
            63,
            "a length of -2 in the data of a znode",
        ),
        (
            "data that are too long",
            with(|raw| raw.znodes[3][20] = 1),
            478,
            "the file ends within the data of a znode",
        ),
        (
            "no parent",
            with(|raw| drop(raw.znodes.remove(1))),
            135,
            "the znode /zookeeper/config comes before its parent /zookeeper",
        ),
        (
            "a parent after its child",
            with(|raw| raw.znodes.swap(1, 3)),
            135,
            "the znode /zookeeper/quota comes before its parent /zookeeper",
        ),
        (
            "an empty component",
            with(|raw| raw.znodes.push(znode_bytes(b"/zookeeper//a", -1, &[0; 60]))),
            406,
            "the znode /zookeeper//a comes before its parent /zookeeper/",
        ),
        (
            "a znode twice",
            with(|raw| raw.znodes.push(raw.znodes[1].clone())),
            406,
            "the znode /zookeeper is there twice",
        ),
        ("a cut stat", cut(130), 130, "the file ends within the stat of a znode"),
        ("an end between znodes", cut(221), 221, "the file ends within a path"),
        // What follows the znodes.
        ("no end of the znodes", with(|raw| raw.terminator.clear()), 406, "the root is there twice"),
        ("no checksum", cut(411), 411, "the file ends within a checksum"),
        ("a cut checksum", cut(423), 423, "the file ends within a checksum"),
        (
            "no slash after a checksum",
            [&fresh[..423], &b"?"[..]].concat(),
            419,
            "a checksum is not followed by a slash",
        ),
        (
            "a byte after the checksum",
            [&fresh[..424], &b"?"[..]].concat(),
            424,
            "1 bytes after the first checksum are neither a digest nor a last zxid",
        ),
        (
            "a digest without its checksum",
            cut(444),
            424,
            "20 bytes after the first checksum are neither a digest nor a last zxid",
        ),
        (
            "a cut last zxid",
            cut(460),
            424,
            "36 bytes after the first checksum are neither a digest nor a last zxid",
        ),
        (
            "a byte after the end",
            with(|raw| raw.rest = vec![0]),
            424,
            "55 bytes after the first checksum are neither a digest nor a last zxid",
        ),
        (
            "a page after the end",
            with(|raw| raw.rest = vec![0; 4_096]),
            424,
            "128 bytes and more after the first checksum are neither a digest nor a last zxid",
        ),
        (
            "itself after the end",
            twice(478),
            424,
            "128 bytes and more after the first checksum are neither a digest nor a last zxid",
        ),
        (
            "a digest of more than 16 digits",
            with(|raw| raw.sections[0] = digest(0, 1, &field(&[b'0'; 17]))),
            424,
            "67 bytes after the first checksum are neither a digest nor a last zxid",
        ),
    ];
    assert!(rows.len() >= 45);
    for (what, bytes, offset, reason) in rows {
        let error = check("snapshot.0", &bytes).expect_err(what);
        let StorageError::Damaged(damage) = &error else { panic!("{what}: {error}") };
        assert_eq!((damage.offset, damage.reason.as_str()), (Some(offset), reason), "{what}");
        assert_eq!(damage.file, Path::new(DIR).join("snapshot.0"), "{what}");
        let message = error.to_string();
        let start = format!("/data/version-2/snapshot.0, byte {offset}: {reason}; move the file away if ");
        assert!(message.starts_with(&start), "{message}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let fresh = Raw::fresh().bytes();
    for bit in 0..8 * fresh.len() {
        let mut bytes = fresh.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = check("snapshot.0", &bytes).expect_err("a flipped bit");
        assert!(matches!(error, StorageError::Damaged(_)), "bit {bit}: {error}");
    }
}

#[test]
fn a_file_cut_anywhere_but_after_a_checksum_is_refused() {
    let fresh = Raw::fresh().bytes();
    for len in 0..fresh.len() {
        let checked = check("snapshot.0", &fresh[..len]);
        // The tree alone, or with its digest, is what other servers write.
        assert_eq!(checked.is_ok(), [424, 457].contains(&len), "{len} bytes: {checked:?}");
    }
}

#[test]
fn each_checksum_covers_all_before_it() {
    let fresh = Raw::fresh().bytes();
    for (at, changed, seals) in [(411, 200, 3), (444, 430, 2), (465, 460, 1)] {
        let mut bytes = fresh.clone();
        bytes[changed] ^= 1;
        let damage = match check("snapshot.0", &bytes) {
            Err(StorageError::Damaged(damage)) => damage,
            other => panic!("{other:?}"),
        };
        assert_eq!(damage.offset, Some(at), "{seals} checksums are wrong, the first is reported");
        assert!(damage.reason.starts_with("the checksum of the bytes before is 0x"), "{damage}");
    }
}

#[test]
fn the_upper_half_of_a_checksum_is_zero() {
    let mut bytes = Raw::fresh().bytes();
    bytes[411] = 1;
    assert!(check("snapshot.0", &bytes).is_err());
}

#[test]
fn a_snapshot_that_ends_before_the_zxid_of_its_name_is_refused() {
    let raw = Raw::fresh().with(|raw| raw.sections[1] = 0x28i64.to_be_bytes().into());
    for (name, is_valid) in [("snapshot.27", true), ("snapshot.28", true), ("snapshot.29", false)] {
        // Apache writes a snapshot while the tree changes: then it ends after the zxid of its name.
        let checked = check(name, &raw.bytes());
        assert_eq!(checked.is_ok(), is_valid, "{name}");
        if let Err(error) = checked {
            let expected = "/data/version-2/snapshot.29, byte 457: its name says zxid 0x29, but it ends at 0x28: it was renamed; ";
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}

#[test]
fn a_znode_whose_acl_is_not_in_the_table_is_reported_for_the_log_to_repair() {
    let raw = Raw::fresh().with(|raw| raw.znodes[3] = znode_bytes(b"/zookeeper/quota", 7, &[0; 60]));
    let summary = check("snapshot.0", &raw.bytes()).unwrap();
    let [missing] = &summary.missing_acls[..] else { panic!("{summary:?}") };
    assert_eq!(&*missing.path, "/zookeeper/quota");
    assert_eq!(missing.damage.offset, Some(314));
    assert_eq!(missing.damage.reason, "the ACL 7 of the znode /zookeeper/quota is not in the snapshot");

    let disk = on_disk("snapshot.0", &raw.bytes());
    let mut reader = SnapshotReader::open(&disk, &Path::new(DIR).join("snapshot.0")).unwrap();
    let mut lists = Vec::new();
    while let Some(znode) = reader.next_znode().unwrap() {
        lists.push(znode.acl.len());
    }
    assert_eq!(lists, [1, 1, 1, 0], "no list stands for the missing one, so that the log may set it");
}

#[test]
fn compressed_files_are_refused_as_well() {
    let fresh = Raw::fresh().bytes();
    let (gz, snappy) = (gzip(&fresh), snappy(&fresh));
    assert!(check("snapshot.0.gz", &gz).is_ok() && check("snapshot.0.snappy", &snappy).is_ok());
    let reason = |name: &str, bytes: &[u8]| match check(name, bytes) {
        Err(StorageError::Damaged(damage)) => damage.reason,
        other => panic!("{name}: {other:?}"),
    };
    for len in 0..gz.len() {
        assert!(reason("snapshot.0.gz", &gz[..len]).starts_with("cannot decompress: "), "{len} bytes");
    }
    for len in 0..snappy.len() {
        let reason = reason("snapshot.0.snappy", &snappy[..len]);
        // A file without a block is an empty one.
        let expected = if len == 16 { "the file ends within the header" } else { "cannot decompress: " };
        assert!(reason.starts_with(expected), "{len} bytes: {reason}");
    }
    let junk = [&gz[..], &[0]].concat();
    assert_eq!(reason("snapshot.0.gz", &junk), "cannot decompress: bytes after the end of the gzip stream");
    let junk = [&snappy[..], &[0, 0, 0, 1, 0]].concat();
    assert!(check("snapshot.0.snappy", &junk).is_ok(), "an empty block is none");
    assert!(reason("snapshot.0.snappy", &[&snappy[..], &[0]].concat()).starts_with("cannot decompress: "));
    // Names and content that do not belong together.
    assert!(reason("snapshot.0.gz", &fresh).starts_with("cannot decompress: "));
    assert_eq!(reason("snapshot.0.snappy", &fresh), "cannot decompress: wrong magic bytes of snappy");
    assert_eq!(reason("snapshot.0.gz.bak", &gz), "this is not a snapshot: it does not begin with ZKSN");
    // The checksum of gzip itself.
    let mut wrong = gz.clone();
    let last = wrong.len() - 5;
    wrong[last] ^= 1;
    assert!(reason("snapshot.0.gz", &wrong).starts_with("cannot decompress: "));
}

#[test]
fn an_error_of_the_disk_is_no_damage() {
    for (name, bytes) in [
        ("snapshot.0", Raw::fresh().bytes()),
        ("snapshot.0.gz", gzip(&Raw::fresh().bytes())),
        ("snapshot.0.snappy", snappy(&Raw::fresh().bytes())),
    ] {
        let disk = on_disk(name, &bytes);
        disk.place(DiskOp::Read.any(), DiskFault::Fail).unwrap();
        let error = SnapshotReader::open(&disk, &Path::new(DIR).join(name)).unwrap_err();
        let StorageError::Io { action, path, .. } = &error else { panic!("{error}") };
        assert_eq!((*action, path.as_path()), ("read", Path::new(DIR).join(name).as_path()));
        // Short reads are no errors at all.
        disk.clear_faults();
        disk.place(DiskOp::Read.any(), DiskFault::Short { bytes: 7 }).unwrap();
        let reader = SnapshotReader::open(&disk, &Path::new(DIR).join(name)).unwrap();
        assert_eq!(reader.check().unwrap().znodes, 4, "{name}");
    }
}
