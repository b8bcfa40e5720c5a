//! Damage to entries.

use zoolet_storage::verify;

use super::check;
use crate::recovery::scene::{Scene, cut, recovered, refused};
use crate::recovery::support::{path, read_dir};

#[test]
fn an_acknowledged_entry_that_is_damaged_is_refused() {
    check(&[
        ("a bit of the content", |scene| {
            scene.damage(13, |entry| entry[60] ^= 4);
            refused(
                "log.b",
                scene.at(13),
                "the checksum of an entry is wrong, and valid ones follow, the first of them transaction 0xe",
            )
        }),
        ("a bit of the checksum", |scene| {
            scene.damage(13, |entry| entry[7] ^= 1);
            refused("log.b", scene.at(13), "the checksum of an entry is wrong")
        }),
        ("the upper half of the checksum", |scene| {
            scene.damage(12, |entry| entry[0] = 1);
            refused("log.b", scene.at(12), "the checksum of an entry is wrong")
        }),
        ("the last byte", |scene| {
            scene.damage(14, |entry| entry[0] = 0);
            let before = scene.end(13) - scene.at(13) - 1;
            scene.damage(13, |entry| entry[before] = 0);
            refused("log.b", scene.at(13), "the last byte of an entry is 0x00 instead of 0x42")
        }),
        ("the length 0", |scene| {
            scene.damage(14, |entry| entry[8..12].fill(0));
            refused("log.b", scene.at(14), "the length of an entry is 0")
        }),
        ("the length -1", |scene| {
            scene.damage(14, |entry| entry[8..12].fill(0xff));
            refused("log.b", scene.at(14), "the length of an entry is -1")
        }),
        ("a length that no reader takes", |scene| {
            scene.damage(14, |entry| entry[8] = 0x10);
            refused("log.b", scene.at(14), "the length of an entry is 268435")
        }),
        ("a length beyond the file", |scene| {
            scene.damage(14, |entry| entry[9] = 0x10);
            refused("log.b", scene.at(14), "the file ends within an entry")
        }),
        ("a length one too long", |scene| {
            scene.damage(14, |entry| entry[11] += 1);
            refused("log.b", scene.at(14), "the last byte of an entry is 0x00")
        }),
        ("the length of two entries", |scene| {
            let two = scene.end(17) - scene.at(16) - 13;
            scene.damage(16, |entry| entry[11] = two as u8);
            refused("log.b", scene.at(16), "the checksum of an entry is wrong")
        }),
        ("an entry of zeros", |scene| {
            let len = scene.end(16) - scene.at(16);
            scene.damage(16, |entry| entry[..len].fill(0));
            refused("log.b", scene.at(16), "the length of an entry is 0")
        }),
        ("a block of zeros over several entries", |scene| {
            let len = scene.at(18) - scene.at(13) - 20;
            scene.damage(13, |entry| entry[20..20 + len].fill(0));
            refused("log.b", scene.at(13), "the last byte of an entry is 0x00")
        }),
        ("a page that was never written between entries", |scene| {
            let at = scene.at(14);
            scene.edit("log.b", |log| drop(log.splice(at..at, [0; 4096])));
            refused("log.b", at, "the length of an entry is 0")
        }),
        ("a byte too many", |scene| {
            let at = scene.at(14);
            scene.edit("log.b", |log| log.insert(at, 0));
            refused("log.b", at, "the")
        }),
        ("a byte too few", |scene| {
            let at = scene.at(14);
            scene.edit("log.b", |log| _ = log.remove(at));
            refused("log.b", at, "the")
        }),
        ("the first entry, and the batch after it is whole", |scene| {
            scene.damage(11, |entry| entry[60] ^= 4);
            refused("log.b", 16, "the checksum of an entry is wrong")
        }),
        ("something before the first entry", |scene| {
            scene.edit("log.b", |log| drop(log.splice(16..16, *b"something else")));
            refused("log.b", 16, "the length of an entry is")
        }),
        ("garbage over everything but the last batch", |scene| {
            let len = scene.at(18) - scene.at(11);
            scene.damage(11, |entry| entry[..len].fill(0x42));
            refused("log.b", 16, "the length of an entry is 1111638594")
        }),
    ]);
}

#[test]
fn what_the_last_write_left_is_cut() {
    check(&[
        ("the first entry of the last batch", |scene| {
            scene.damage(18, |entry| entry[60] ^= 4);
            cut(17, "log.b", scene.at(18))
        }),
        ("one in the middle of the last batch", |scene| {
            scene.damage(19, |entry| entry[60] ^= 4);
            cut(18, "log.b", scene.at(19))
        }),
        ("one of zeros in the middle of the last batch", |scene| {
            let len = scene.end(19) - scene.at(19);
            scene.damage(19, |entry| entry[..len].fill(0));
            cut(18, "log.b", scene.at(19))
        }),
        ("the length of one in the last batch", |scene| {
            scene.damage(18, |entry| entry[8] = 0x80);
            cut(17, "log.b", scene.at(18))
        }),
        ("the last byte of the last entry", |scene| {
            let len = scene.end(20) - scene.at(20);
            scene.damage(20, |entry| entry[len - 1] = 0);
            cut(19, "log.b", scene.at(20))
        }),
        ("the last entry ends in zeros", |scene| {
            scene.damage(20, |entry| entry[20..].fill(0));
            cut(19, "log.b", scene.at(20))
        }),
        ("the file ends within the last entry", |scene| {
            let end = scene.end(20) - 1;
            scene.edit("log.b", |log| log.truncate(end));
            cut(19, "log.b", scene.at(20))
        }),
        ("the file ends within a prefix", |scene| {
            let end = scene.at(20) + 9;
            scene.edit("log.b", |log| log.truncate(end));
            cut(19, "log.b", scene.at(20))
        }),
        ("garbage in the room that is reserved", |scene| {
            let at = scene.end(20);
            scene.edit("log.b", |log| log[at + 1_000..at + 1_010].fill(7));
            cut(20, "log.b", at)
        }),
        ("the only entry of the file", |scene| {
            scene.damage(11, |entry| entry[20..].fill(0));
            cut(10, "log.b", 16)
        }),
        // Nothing shows that there was more: the end of a file is lost like one that was never written.
        ("the file ends with an earlier entry", |scene| {
            let end = scene.end(15);
            scene.edit("log.b", |log| log.truncate(end));
            recovered(15, &[])
        }),
        ("zeros from an earlier entry on", |scene| {
            scene.damage(16, |entry| entry.fill(0));
            recovered(15, &[])
        }),
    ]);
}

#[test]
fn a_log_of_apache_is_cut_only_where_nothing_follows() {
    check(&[
        ("the last entry", |scene| {
            scene.as_apache();
            scene.damage(20, |entry| entry[60] ^= 4);
            cut(19, "log.b", scene.at(20))
        }),
        ("the last byte of the last entry", |scene| {
            scene.as_apache();
            let len = scene.end(20) - scene.at(20);
            scene.damage(20, |entry| entry[len - 1] = 0);
            cut(19, "log.b", scene.at(20))
        }),
        ("the last but one", |scene| {
            scene.as_apache();
            scene.damage(19, |entry| entry[60] ^= 4);
            refused("log.b", scene.at(19), "the checksum of an entry is wrong, and valid ones follow")
        }),
        ("the length 0 in the middle", |scene| {
            scene.as_apache();
            scene.damage(15, |entry| entry[8..12].fill(0));
            refused("log.b", scene.at(15), "the length of an entry is 0")
        }),
        ("the last byte of one in the middle", |scene| {
            scene.as_apache();
            let len = scene.end(15) - scene.at(15);
            scene.damage(15, |entry| entry[len - 1] = 0);
            refused("log.b", scene.at(15), "the last byte of an entry is 0x00")
        }),
    ]);
}

#[test]
fn an_entry_with_a_right_checksum_must_be_one() {
    check(&[
        ("an unknown type", |scene| {
            scene.rewrite(20, |payload| payload[28..32].copy_from_slice(&[0, 0, 0, 3]));
            refused(
                "log.b",
                scene.at(20),
                "an entry with a right checksum has an unknown type of transaction",
            )
        }),
        ("a record that is too short", |scene| {
            scene.rewrite(20, |payload| payload.truncate(40));
            refused("log.b", scene.at(20), "the record is shorter than its fields")
        }),
        ("less than a header", |scene| {
            scene.rewrite(20, |payload| payload.truncate(20));
            refused("log.b", scene.at(20), "the record is shorter than its fields")
        }),
        ("an invalid path", |scene| {
            scene.rewrite(20, |payload| payload[37] = b'/');
            refused("log.b", scene.at(20), "an invalid path")
        }),
        ("a path that is not UTF-8", |scene| {
            scene.rewrite(20, |payload| payload[37] = 0xff);
            refused("log.b", scene.at(20), "a path that is not UTF-8")
        }),
        ("another digest in an entry of ours", |scene| {
            scene.rewrite(14, |payload| {
                let len = payload.len();
                payload[len - 5] ^= 1;
            });
            refused("log.b", scene.at(14), "after transaction 0xe the digest of the tree is ")
        }),
        ("other data than the digest was made of", |scene| {
            scene.rewrite(14, |payload| payload[42] ^= 1);
            refused("log.b", scene.at(14), "after transaction 0xe the digest of the tree is ")
        }),
        ("another digest in an entry of Apache", |scene| {
            scene.as_apache();
            for zxid in [14, 16] {
                scene.rewrite(zxid, |payload| *payload.last_mut().unwrap() ^= 1);
            }
            recovered(20, &["the digest in the log is not that of the tree after 2 transactions from 0xe on"])
        }),
        ("the bytes after a digest", |scene| {
            scene.rewrite(20, |payload| payload.extend_from_slice(&[1, 2, 3]));
            recovered(20, &[])
        }),
    ]);
}

#[test]
fn every_bit_of_a_log_is_flipped_and_none_goes_unnoticed() {
    // What is acknowledged is refused or read as it was, whatever bit of it has changed.
    let scene = Scene::new();
    let whole = scene.disk.read(path("log.b")).unwrap();
    let (last_batch, end) = (scene.at(18), scene.end(20));
    for at in 0..end {
        let bit = at % 8;
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << bit;
        scene.write("log.b", bytes);
        let found = read_dir(&scene.disk);
        let what = format!("bit {bit} of byte {at}");
        match found {
            Err(error) => assert!(at < last_batch && error.to_string().contains("log.b"), "{what}: {error}"),
            // The id of the database, which nobody looks at.
            Ok(found) if (8..16).contains(&at) => assert_eq!(found.report.last_zxid.0, 20, "{what}"),
            Ok(found) => {
                assert!(at >= last_batch && found.report.cut.is_some(), "{what}: {:?}", found.report)
            }
        }
    }
}

/// Apache gives a write that it cannot decode no zxid of its own: it logs the refusal with that of the transaction before.
#[test]
fn a_refused_write_of_apache_may_have_the_zxid_of_the_one_before() {
    fn insert(scene: &Scene, of: i64, after: i64) {
        let (from, to, at) = (scene.at(of), scene.end(of), scene.end(after));
        scene.edit("log.b", |log| {
            let copy = log[from..to].to_vec();
            log.splice(at..at, copy);
        });
    }
    check(&[
        ("a refusal twice", |scene| {
            scene.as_apache();
            insert(scene, 15, 15);
            recovered(20, &[])
        }),
        ("a refusal again at the beginning of the next file", |scene| {
            scene.as_apache();
            let bytes = scene.disk.read(path("log.b")).unwrap();
            let (refusal, rest) = (scene.at(15), scene.end(15));
            scene.write("log.f", [&bytes[..16], &bytes[refusal..]].concat());
            scene.write("log.b", &bytes[..rest]);
            recovered(20, &[])
        }),
        ("a change twice", |scene| {
            scene.as_apache();
            insert(scene, 16, 16);
            refused("log.b", scene.end(16), "transaction 0x10 comes after 0x10: two histories overlap")
        }),
        ("a refusal later", |scene| {
            scene.as_apache();
            insert(scene, 15, 16);
            refused("log.b", scene.end(16), "transaction 0xf comes after 0x10: two histories overlap")
        }),
        ("a refusal of ours twice", |scene| {
            insert(scene, 15, 15);
            refused("log.b", scene.end(15), "transaction 0xf comes after 0xf: two histories overlap")
        }),
    ]);
    let mut scene = Scene::new();
    scene.as_apache();
    insert(&scene, 15, 15);
    let found = verify(&scene.disk, &scene.options, &mut |_, _| {}).unwrap();
    assert!(found.faults.is_empty(), "{:?}", found.faults);
}
