//! Damage to log files and to the order of transactions.

use super::check;
use crate::recovery::scene::{cut, recovered, refused};
use crate::recovery::support::path;

#[test]
fn transactions_must_follow_each_other() {
    const MISSING: &str = "what was between them is missing";
    const OVERLAP: &str = "two histories overlap";
    check(&[
        ("an entry is missing", |scene| {
            let (from, to) = (scene.at(15), scene.end(15));
            scene.edit("log.b", |log| drop(log.drain(from..to)));
            refused("log.b", from, MISSING)
        }),
        ("an entry is there twice", |scene| {
            let (from, to) = (scene.at(15), scene.end(15));
            scene.edit("log.b", |log| {
                let entry = log[from..to].to_vec();
                drop(log.splice(to..to, entry));
            });
            refused("log.b", to, OVERLAP)
        }),
        ("two entries have changed places", |scene| {
            let (a, b, c) = (scene.at(18), scene.at(19), scene.end(19));
            scene.edit("log.b", |log| log[a..c].rotate_left(b - a));
            refused("log.b", a, MISSING)
        }),
        ("a zxid in the middle of an epoch", |scene| {
            scene.rewrite(16, |payload| payload[15] = 2);
            refused("log.b", scene.at(16), MISSING)
        }),
        ("the zxid 0", |scene| {
            scene.rewrite(16, |payload| payload[12..20].fill(0));
            refused("log.b", scene.at(16), "a zxid that no transaction has")
        }),
        ("the file in the middle is missing", |scene| {
            scene.split(17);
            scene.split(14);
            scene.remove("log.e");
            refused("log.11", None, "transaction 0x11 comes after 0xd: what was between them is missing")
        }),
        ("the first file after the snapshot is missing", |scene| {
            scene.split(14);
            scene.remove("log.b");
            refused("log.e", None, "transaction 0xe comes after 0xa")
        }),
        ("a file has a later name", |scene| {
            scene.rename("log.b", "log.c");
            refused("log.c", None, "transaction 0xc comes after 0xa")
        }),
        ("a file has an earlier name", |scene| {
            scene.rename("log.b", "log.9");
            refused("log.9", 16, "the first transaction is 0xb, and the name says 0x9")
        }),
        ("two files have the same transactions", |scene| {
            let whole = scene.disk.read(path("log.b")).unwrap();
            scene.split(14);
            scene.write("log.b", whole);
            refused("log.e", None, OVERLAP)
        }),
        ("a file before the snapshot goes on beside the one after it", |scene| {
            let bytes = scene.disk.read(path("log.b")).unwrap();
            let entry = bytes[scene.at(11)..scene.end(11)].to_vec();
            let end = scene.end(10);
            scene.edit("log.1", |log| drop(log.splice(end.., entry)));
            refused("log.b", scene.at(11), OVERLAP)
        }),
        ("the same name in two ways", |scene| {
            let bytes = scene.disk.read(path("log.b")).unwrap();
            scene.write("log.0b", bytes);
            refused("log.b", None, "/data/version-2/log.0b begins with the same transaction")
        }),
        ("a torn end, and the next file leaves a hole", |scene| {
            scene.split(14);
            let at = scene.at(13);
            scene.edit("log.b", |log| log[at + 20..].fill(0));
            refused(
                "log.b",
                at,
                "the last byte of an entry is 0x00 instead of 0x42, and transaction 0xe comes after 0xc",
            )
        }),
    ]);
}

#[test]
fn a_file_that_is_not_the_last_may_end_torn_if_nothing_is_missing() {
    check(&[
        ("garbage after its last entry", |scene| {
            scene.split(14);
            scene.edit("log.b", |log| log.extend_from_slice(b"garbage"));
            recovered(20, &["the file ends within an entry; the next file goes on from here"])
        }),
        ("entries that a later server ignored", |scene| {
            scene.as_apache();
            let bytes = scene.disk.read(path("log.b")).unwrap();
            scene.split(14);
            scene.write("log.b", bytes);
            scene.damage(14, |entry| entry[8..12].fill(0));
            recovered(
                20,
                &[
                    "the length of an entry is 0; the next file goes on from here, and what follows, such as transaction 0xf, is ignored",
                ],
            )
        }),
        ("damage that the snapshot makes up for", |scene| {
            scene.damage(3, |entry| entry[60] ^= 4);
            recovered(20, &["the checksum of an entry is wrong; the snapshot includes what is missing"])
        }),
        ("no end of a file that the snapshot makes up for", |scene| {
            let end = scene.at(6) + 30;
            scene.edit("log.1", |log| log.truncate(end));
            recovered(20, &["the file ends within an entry; the next file goes on from here"])
        }),
        ("no log before the snapshot", |scene| {
            scene.remove("log.1");
            recovered(20, &[])
        }),
        ("a log before the snapshot that is none", |scene| {
            scene.write("log.1", b"something else");
            recovered(20, &["the file does not begin with ZKLG; the next file goes on from here"])
        }),
    ]);
}

#[test]
fn the_beginning_of_a_log_file_is_checked() {
    check(&[
        ("another magic", |scene| {
            scene.edit("log.b", |log| log[3] = b'N');
            refused("log.b", 0, "the file does not begin with ZKLG")
        }),
        ("another version", |scene| {
            scene.edit("log.b", |log| log[7] = 3);
            refused("log.b", 4, "the format has version 3 instead of 2")
        }),
        ("zeros before entries", |scene| {
            scene.edit("log.b", |log| log[..16].fill(0));
            refused("log.b", 0, "the file does not begin with ZKLG")
        }),
        ("another database id", |scene| {
            scene.edit("log.b", |log| log[15] = 1);
            recovered(20, &[])
        }),
        ("an empty file", |scene| {
            scene.write("log.b", b"");
            cut(10, "log.b", 0)
        }),
        ("five bytes", |scene| {
            scene.write("log.b", b"ZKLG\0");
            cut(10, "log.b", 0)
        }),
        ("only zeros", |scene| {
            scene.write("log.b", [0; 9_000]);
            cut(10, "log.b", 0)
        }),
        ("only a header", |scene| {
            scene.edit("log.b", |log| log.truncate(16));
            recovered(10, &["a log without a transaction"])
        }),
        ("a header and zeros", |scene| {
            scene.edit("log.b", |log| log[16..].fill(0));
            recovered(10, &["a log without a transaction"])
        }),
        ("an empty file that is not the last", |scene| {
            scene.split(14);
            scene.write("log.b", b"");
            refused("log.b", 0, "the file ends within an entry, and transaction 0xe comes after 0xa")
        }),
        ("an empty file before an epoch", |scene| {
            scene.write("log.100000001", b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0");
            recovered(20, &["a log without a transaction"])
        }),
        ("an empty file that leaves a hole", |scene| {
            scene.write("log.16", b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0");
            refused("log.16", None, "transaction 0x16 comes after 0x14")
        }),
    ]);
}
