//! What is written, and under which name.

use std::path::Path;
use std::sync::Arc;

use zoolet_proto::Zxid;
use zoolet_server_core::SnapshotHeader;
use zoolet_storage::disk::Disk;
use zoolet_storage::{Compression, SnapshotDir, SnapshotReader, StorageError, StorageOptions};

use super::support::*;

#[test]
fn a_fresh_tree_has_the_478_bytes_of_apache() {
    let bytes = Content::fresh().bytes();
    assert_eq!(bytes.len(), 478);
    let text: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let zeros = "00".repeat(60);
    let expected = [
        // Header, no session, one list of access control: world:anyone:r.
        "5a4b534e 00000002 ffffffffffffffff 00000000",
        "00000001 0000000000000001 00000001 00000001 00000005 776f726c64 00000006 616e796f6e65",
        // The root, with the open list and a stat of zeros.
        &format!("00000000 00000000 ffffffffffffffff {zeros}"),
        &format!("0000000a 2f7a6f6f6b6565706572 00000000 ffffffffffffffff {zeros}"),
        // The config has another list, and the aversion -1.
        "00000011 2f7a6f6f6b65657065722f636f6e666967 00000000 0000000000000001",
        &"00".repeat(40),
        "ffffffff",
        &"00".repeat(16),
        &format!("00000010 2f7a6f6f6b65657065722f71756f7461 00000000 ffffffffffffffff {zeros}"),
        "00000001 2f",
    ];
    let expected = expected.concat().replace(' ', "");
    let trailer = 13 + 20 + 13 + 8 + 13;
    assert_eq!(text[..478 - trailer].concat(), expected);
    // Digest with its zxid and version, then the last zxid, each after a checksum.
    let sections = &text[478 - trailer..];
    assert_eq!(sections[13..33].concat(), "0000000000000000000000020000000051c6d660");
    assert_eq!(sections[46..54].concat(), "0000000000000000");
    for seal in [0, 33, 54] {
        assert_eq!(sections[seal..seal + 4].concat(), "00000000");
        assert_eq!(sections[seal + 8..seal + 13].concat(), "000000012f");
        let upto = 478 - trailer + seal;
        let sum = simd_adler32::adler32(&&bytes[..upto]);
        assert_eq!(sections[seal + 4..seal + 8].concat(), format!("{sum:08x}"), "of the first {upto} bytes");
    }
}

#[test]
fn without_a_digest_only_the_tree_is_written() {
    let content = Content { digest: None, ..Content::fresh() };
    assert_eq!(content.bytes().len(), 478 - 33 - 21);
}

#[test]
fn the_section_of_the_last_zxid_can_be_left_out() {
    let disk = disk();
    let mut options = StorageOptions::new("/data");
    options.last_zxid_section = false;
    let dir = SnapshotDir::new(Arc::new(disk.clone()), &options);
    for (content, len) in [
        (Content::fresh(), 478 - 21),
        (Content { digest: None, zxid: Zxid(1), ..Content::fresh() }, 478 - 54),
    ] {
        let published = content.write(&dir).unwrap();
        assert_eq!(published.len, len);
        let read = SnapshotReader::open(&disk, &published.path).and_then(SnapshotReader::check).unwrap();
        assert_eq!(read.last_zxid, None);
        assert_eq!(read.digest.and_then(|digest| digest.digest), content.digest);
    }
}

#[test]
fn what_is_written_is_read_back_with_any_compression() {
    for content in [Content::fresh(), Content::varied(), Content { digest: None, ..Content::varied() }] {
        for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
            let disk = disk();
            let published = content.write(&dir(&disk, compression)).unwrap();
            assert_eq!(published.len, disk.read(&published.path).unwrap().len() as u64);
            assert_eq!((published.zxid, published.kept), (content.zxid, false));
            assert_eq!(Content::read(&disk, &published.path).unwrap(), content, "{compression:?}");
        }
    }
}

#[test]
fn a_snapshot_has_no_name_before_it_is_published() {
    let disk = disk();
    let dir = dir(&disk, Compression::None);
    let complete = Content::varied().writer(&dir).unwrap().sync().unwrap();
    assert_eq!(complete.zxid(), Zxid(0x1_0000_0009));
    assert_eq!(dir.list().unwrap(), []);
    // Power is lost at any time before: all that is there then is what the next server removes.
    for seed in 0..20 {
        let left = names(&disk.fork().power_loss(seed));
        assert!(left.iter().all(|name| name == "currentEpoch" || name.starts_with(".zoolet-")), "{left:?}");
    }
    let published = complete.publish().unwrap();
    assert_eq!(dir.list().unwrap()[0].path, published.path);
    assert_eq!(names(&disk), ["currentEpoch", "snapshot.100000009"]);
    for seed in 0..20 {
        let disk = disk.fork().power_loss(seed);
        assert_eq!(Content::read(&disk, &published.path).unwrap(), Content::varied(), "seed {seed}");
    }
}

#[test]
fn an_unfinished_snapshot_is_removed_when_it_is_dropped() {
    let disk = disk();
    let dir = dir(&disk, Compression::Gzip);
    let writer = Content::varied().writer(&dir).unwrap();
    assert_eq!(names(&disk), [".zoolet-snapshot-100000009.tmp", "currentEpoch"]);
    drop(writer);
    assert_eq!(names(&disk), ["currentEpoch"]);
    drop(Content::varied().writer(&dir).unwrap().sync().unwrap());
    assert_eq!(names(&disk), ["currentEpoch"]);
}

#[test]
fn a_valid_snapshot_of_the_same_name_is_kept_and_a_damaged_one_replaced() {
    let disk = disk();
    let dir = dir(&disk, Compression::None);
    let first = Content::varied();
    let published = first.write(&dir).unwrap();
    let second = Content { sessions: Vec::new(), ..first.clone() };
    let again = second.write(&dir).unwrap();
    assert!(again.kept);
    assert_eq!((again.len, again.znodes), (published.len, published.znodes));
    assert_eq!(Content::read(&disk, &published.path).unwrap(), first);
    assert_eq!(names(&disk), ["currentEpoch", "snapshot.100000009"]);

    disk.flip(&published.path, 100, 3).unwrap();
    assert!(!second.write(&dir).unwrap().kept);
    assert_eq!(Content::read(&disk, &published.path).unwrap(), second);
}

#[test]
fn an_acl_that_is_not_in_the_table_is_an_error_and_no_wrong_file() {
    let disk = disk();
    let header = SnapshotHeader::new(Zxid(1), None, vec![read_acl()]);
    let mut writer = dir(&disk, Compression::None).begin(header, &[]).unwrap();
    writer.add(&znode("/", b"", &open_acl())).unwrap();
    writer.add(&znode("/a", b"", &zoolet_proto::Acl::read_only().into())).unwrap();
    let error = writer.add(&znode("/b", b"", &zoolet_proto::Acl::creator_all().into())).unwrap_err();
    assert!(matches!(&error, StorageError::UnknownAcl { path, .. } if path == "/b"), "{error}");
    drop(writer);
    assert_eq!(names(&disk), ["currentEpoch"]);
}

fn names(disk: &dyn Disk) -> Vec<String> {
    let entries = disk.list(Path::new(DIR)).unwrap();
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name.into_string().unwrap()).collect();
    names.sort();
    names
}
