//! Everything that is wrong with a directory is found in one run.

use std::path::Path;
use std::sync::Arc;

use zoolet_proto::{Acl, AclList, Zxid};
use zoolet_server_core::{Owner, SnapshotHeader, TreeLoader, TxnOp, ZnodeRecord};
use zoolet_simdisk::{DiskFault, DiskOp};
use zoolet_storage::{SnapshotDir, SnapshotReader, StorageError, Verification, read, verify};

use crate::recovery::scene::Scene;
use crate::recovery::support::{Writer, files, path};

fn verified(scene: &Scene) -> Verification {
    let before = files(&scene.disk);
    let found = verify(&scene.disk, &scene.options, &mut |_, _| {}).unwrap();
    assert_eq!(files(&scene.disk), before, "nothing is changed");
    found
}

/// File, offset and reason of each fault.
fn faults(found: &Verification) -> Vec<(String, Option<usize>, String)> {
    let fault = |fault: &StorageError| match fault {
        StorageError::Damaged(damage) => {
            let file = damage.file.file_name().unwrap().to_str().unwrap().to_owned();
            (file, damage.offset.map(|offset| offset as usize), damage.reason.clone())
        }
        other => (String::new(), None, other.to_string()),
    };
    found.faults.iter().map(fault).collect()
}

/// Checks that these are the faults, in this order, and that their reasons have these words.
fn expect(scene: &Scene, expected: &[(&str, Option<usize>, &str)]) -> Verification {
    let found = verified(scene);
    let faults = faults(&found);
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for ((file, offset, reason), (in_file, at, words)) in faults.iter().zip(expected) {
        assert!(file == in_file && offset == at && reason.contains(words), "{faults:#?}");
    }
    found
}

#[test]
fn a_directory_without_a_fault_has_none() {
    let found = expect(&Scene::new(), &[]);
    assert_eq!(found.notes, [""; 0]);
    assert_eq!((found.snapshots, found.log_files, found.txns), (2, 2, 20));
    assert_eq!(found.last_zxid, Some(Zxid(20)));
}

#[test]
fn every_fault_is_found_in_one_run() {
    let scene = Scene::new();
    for zxid in [5, 9, 13, 16] {
        scene.damage(zxid, |entry| entry[20] ^= 1);
    }
    scene.edit("snapshot.0", |snapshot| snapshot[100] ^= 1);
    let found = expect(
        &scene,
        &[
            ("snapshot.0", Some(411), "the checksum of the bytes before is"),
            (
                "log.1",
                Some(scene.at(5)),
                "the checksum of an entry is wrong: after transaction 0x4 the next one that can be read is 0x6",
            ),
            ("log.1", Some(scene.at(9)), "after transaction 0x8 the next one that can be read is 0xa"),
            ("log.b", Some(scene.at(13)), "after transaction 0xc the next one that can be read is 0xe"),
            ("log.b", Some(scene.at(16)), "after transaction 0xf the next one that can be read is 0x11"),
        ],
    );
    assert_eq!((found.txns, found.last_zxid), (16, None));
}

#[test]
fn a_torn_end_is_a_note() {
    let scene = Scene::new();
    scene.damage(20, |entry| entry[20] ^= 1);
    let found = expect(&scene, &[]);
    assert_eq!(found.last_zxid, Some(Zxid(19)));
    let [note] = &found.notes[..] else { panic!("{:?}", found.notes) };
    let expected = format!("/data/version-2/log.b, byte {}: cut here", scene.at(20));
    assert!(note.starts_with(&expected), "{note}");
    // In a file that another one follows, too.
    let scene = Scene::new();
    scene.split(18);
    scene.edit("log.b", |log| log.extend([1, 2, 3]));
    let found = expect(&scene, &[]);
    assert!(found.notes[0].contains("the next file goes on from here"), "{:?}", found.notes);
}

#[test]
fn a_hole_is_found_within_a_file_between_files_and_after_a_snapshot() {
    let scene = Scene::new();
    scene.edit("log.b", |log| drop(log.drain(scene.at(14)..scene.end(15))));
    expect(
        &scene,
        &[(
            "log.b",
            Some(scene.at(14)),
            "transaction 0x10 comes after 0xd: what was between them is missing",
        )],
    );

    let scene = Scene::new();
    scene.split(16);
    scene.split(14);
    scene.remove("log.e");
    expect(&scene, &[("log.10", Some(16), "transaction 0x10 comes after 0xd")]);

    let scene = Scene::new();
    scene.split(13);
    scene.remove("log.b");
    scene.remove("log.1");
    let reason = "the log does not go on from this snapshot: transaction 0xd comes after";
    let found = expect(
        &scene,
        &[
            ("snapshot.a", None, reason),
            ("snapshot.0", None, reason),
            ("log.d", None, "transaction 0xd comes after 0xa"),
        ],
    );
    assert_eq!(found.last_zxid, None);

    // A server does not need the older one, until the newer one is damaged.
    let scene = Scene::new();
    scene.remove("log.1");
    let found = expect(
        &scene,
        &[("snapshot.0", None, "transaction 0xb comes after 0x0: what was between them is missing")],
    );
    assert_eq!(found.last_zxid, Some(Zxid(20)));
    let fault = found.faults[0].to_string();
    assert!(fault.contains("a newer snapshot is good") && !fault.contains("--cut-at"), "{fault}");
}

#[test]
fn two_histories_are_found() {
    let scene = Scene::new();
    let log = scene.disk.read(path("log.b")).unwrap();
    scene.write("log.e", [&log[..16], &log[scene.at(14)..scene.end(17)]].concat());
    expect(&scene, &[("log.e", Some(16), "transaction 0xe comes after 0x14: two histories overlap")]);
    // After damage as well.
    scene.damage(20, |entry| entry[20] ^= 1);
    expect(
        &scene,
        &[
            ("log.b", Some(scene.at(20)), "after transaction 0x13 the next one that can be read is 0xe"),
            ("log.e", Some(16), "transaction 0xe comes after 0x13: two histories overlap"),
        ],
    );
}

#[test]
fn wrong_names_are_found() {
    let scene = Scene::new();
    scene.rename("log.b", "log.c");
    expect(
        &scene,
        &[
            ("log.c", Some(16), "the first transaction is 0xb, and the name says 0xc"),
            ("log.c", None, "0xc comes after 0xa"),
        ],
    );
    let scene = Scene::new();
    scene.rename("snapshot.a", "snapshot.c");
    let found = verified(&scene);
    assert!(
        faults(&found)[0].2.contains("its name says zxid 0xc, but it ends at 0xa"),
        "{:?}",
        faults(&found)
    );
    // Without the sections that say so, the log does.
    let scene = Scene::new();
    scene.edit("snapshot.a", |snapshot| snapshot.truncate(snapshot.len() - 54));
    expect(&scene, &[]);
    scene.rename("snapshot.a", "snapshot.c");
    expect(&scene, &[("log.b", Some(scene.at(13)), "the digest of the tree is")]);
}

#[test]
fn a_tree_that_the_log_does_not_lead_to_is_found() {
    let scene = Scene::new();
    rewrite(&scene, raise_version, false);
    let found = expect(
        &scene,
        &[
            (
                "snapshot.a",
                None,
                "the log does not lead to this snapshot: at 0xa its tree has another digest",
            ),
            ("log.b", Some(scene.at(11)), "the digest of the tree is"),
        ],
    );
    assert_eq!(found.last_zxid, None);
    let scene = Scene::new();
    rewrite(&scene, raise_version, true);
    expect(
        &scene,
        &[
            ("snapshot.a", None, "the tree has another digest than the snapshot says"),
            ("log.b", Some(scene.at(11)), "the digest of the tree is"),
        ],
    );
}

#[test]
fn a_digest_section_that_is_wrong_is_a_fault_and_one_of_an_earlier_transaction_does_not_count() {
    let change = |scene: &Scene, at: usize, byte: u8| {
        scene.edit("snapshot.a", |snapshot| {
            // Zxid, version and digest, two checksums and the last zxid before the end.
            let start = snapshot.len() - 54;
            snapshot[start + at] = byte;
            reseal(snapshot);
        });
    };
    let scene = Scene::new();
    change(&scene, 15, 0x77);
    expect(&scene, &[("snapshot.a", None, "the tree has another digest than the snapshot says")]);
    change(&scene, 7, 5);
    expect(&scene, &[]);
}

/// Of a znode that the log does not set later.
fn raise_version(znodes: &mut [ZnodeRecord]) {
    znodes.iter_mut().find(|znode| &*znode.path == "/a/c").unwrap().version += 1;
}

/// Writes `snapshot.a` again, with other znodes and their digest, or with the digest that it has.
fn rewrite(scene: &Scene, change: impl FnOnce(&mut [ZnodeRecord]), keep_digest: bool) {
    let file = path("snapshot.a");
    let mut reader = SnapshotReader::open(&scene.disk, &file).unwrap();
    let mut znodes = Vec::new();
    while let Some(znode) = reader.next_znode().unwrap() {
        znodes.push(znode);
    }
    change(&mut znodes);
    let mut loader = TreeLoader::new(true);
    znodes.iter().for_each(|znode| loader.insert(znode.clone()).unwrap());
    let own = loader.finish(Zxid(10)).unwrap().digest();
    let digest = if keep_digest { reader.digest().unwrap().digest } else { own };
    scene.remove("snapshot.a");
    let dir = SnapshotDir::new(Arc::new(scene.disk.clone()), &scene.options);
    let acls = znodes.iter().map(|znode| znode.acl.clone()).collect();
    let header = SnapshotHeader::new(Zxid(10), digest, acls);
    let mut writer = dir.begin(header, reader.sessions()).unwrap();
    znodes.iter().for_each(|znode| writer.add(znode).unwrap());
    writer.finish().unwrap();
}

#[test]
fn an_entry_with_a_wrong_digest_is_a_fault_and_one_of_apache_a_note() {
    // The digest is before the marker of the batch.
    let digest = |payload: &mut Vec<u8>| {
        let at = payload.len() - 5;
        payload[at] ^= 1;
    };
    let scene = Scene::new();
    scene.rewrite(12, digest);
    expect(&scene, &[("log.b", Some(scene.at(12)), "after transaction 0xc the digest of the tree is")]);
    let mut scene = Scene::new();
    scene.rewrite(12, digest);
    scene.as_apache();
    let found = expect(&scene, &[]);
    assert_eq!(
        found.notes,
        ["the digest in the log is not that of the tree after 1 transactions from 0xc on"]
    );
}

#[test]
fn an_acl_that_is_nowhere_is_a_fault_and_one_in_the_log_a_note() {
    for set_later in [false, true] {
        let scene = Scene::new();
        let mut server = Writer::open_with(&scene.disk, scene.options.clone());
        let set_acl = |version| {
            let acl: AclList = Acl::creator_all().into();
            TxnOp::SetAcl { path: "/b".into(), acl, aversion: version }
        };
        server.append(set_acl(1)).unwrap();
        server.snapshot();
        if set_later {
            server.append(set_acl(2)).unwrap();
        } else {
            server.create("/c", Owner::PERSISTENT);
        }
        server.commit();
        drop(server);
        let mut at = 0;
        scene.edit("snapshot.15", |snapshot| {
            let path: &[u8] = b"\0\0\0\x02/b";
            at = snapshot.windows(path.len()).position(|bytes| bytes == path).unwrap();
            // After the path and a byte of data with its length.
            snapshot[at + 6 + 5 + 7] = 99;
            reseal(snapshot);
        });
        let reason = "the ACL 99 of the znode /b is not in the snapshot";
        let faults = [("snapshot.15", Some(at), reason)];
        let found = expect(&scene, &faults[..usize::from(!set_later)]);
        assert_eq!(
            found.notes,
            ["/data/version-2/snapshot.15: the ACLs of 1 znodes are missing, so the log must set them"]
        );
        // The log after an older snapshot has it in either case.
        let recovered = read(&scene.disk, &scene.options).unwrap();
        assert_eq!(recovered.tree.get("/b").unwrap().acl(), Acl::creator_all());
        let older = recovered.report.snapshot.unwrap().1 < Zxid(0x15);
        assert_eq!(older, !set_later, "which snapshot was used");
    }
}

/// Sums a snapshot with all three sections again.
pub(super) fn reseal(snapshot: &mut [u8]) {
    let len = snapshot.len();
    for at in [len - 67, len - 34, len - 13] {
        let sum = u64::from(simd_adler32::adler32(&&snapshot[..at]));
        snapshot[at..at + 8].copy_from_slice(&sum.to_be_bytes());
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault_and_others_are_read() {
    let scene = Scene::new();
    scene.disk.place(DiskOp::Read.on("log.1"), DiskFault::Fail).unwrap();
    scene.edit("snapshot.0", |snapshot| snapshot[100] ^= 1);
    let found = verified(&scene);
    let texts: Vec<_> = found.faults.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:#?}");
    assert!(
        texts[0].contains("snapshot.0") && texts[1].starts_with("cannot read /data/version-2/log.1: "),
        "{texts:#?}"
    );
    assert_eq!(found.txns, 10);
}

#[test]
fn a_directory_as_a_whole_may_be_wrong() {
    let scene = Scene::new();
    scene.write("currentEpoch", "5");
    scene.write("acceptedEpoch", "4");
    expect(&scene, &[("acceptedEpoch", None, "the accepted epoch is 4, and the current one is 5")]);

    let mut scene = Scene::new();
    scene.options.log_dir = Some("/log".into());
    let found = verified(&scene);
    assert!(
        found.faults[0].to_string().contains("a log in the directory of the snapshots"),
        "{:?}",
        found.faults
    );
    assert_eq!(found.snapshots, 2);

    let scene = Scene::new();
    let mut options = scene.options.clone();
    options.data_dir = "/nothing".into();
    assert!(matches!(verify(&scene.disk, &options, &mut |_, _| {}), Err(StorageError::NoData(_))));
}

#[test]
fn what_is_no_fault_is_noted() {
    let scene = Scene::new();
    for name in ["snapshot.0.bak", "log.1.old", ".zoolet-snapshot-9.tmp"] {
        scene.write(name, "anything");
    }
    let found = expect(&scene, &[]);
    let expected = [
        "log.1.old: no log and no snapshot has this name",
        "snapshot.0.bak: no log",
        ".zoolet-snapshot-9.tmp: left over",
    ];
    assert!(found.notes.len() == 3, "{:#?}", found.notes);
    for text in expected {
        assert!(found.notes.iter().any(|note| note.contains(text)), "{text}: {:#?}", found.notes);
    }
}

#[test]
fn a_flipped_bit_anywhere_is_reported() {
    let start = Scene::new();
    for name in ["snapshot.0", "snapshot.a", "log.1", "log.b"] {
        let len = match name {
            "log.1" => start.end(10),
            "log.b" => start.end(20),
            _ => start.disk.read(path(name)).unwrap().len(),
        };
        // The id of the database in a log does not count.
        for at in (0..len).filter(|at| !name.starts_with("log") || !(8..16).contains(at)).step_by(5) {
            let scene = start.fork();
            scene.disk.flip(path(name), at as u64, (at % 8) as u8).unwrap();
            let found = verify(&scene.disk, &scene.options, &mut |_, _| {}).unwrap();
            let reported = found.faults.iter().map(ToString::to_string).chain(found.notes.iter().cloned());
            let file = Path::new("/data/version-2").join(name);
            let reported: Vec<_> = reported.filter(|text| text.starts_with(file.to_str().unwrap())).collect();
            assert!(!reported.is_empty(), "{name}, byte {at}: {found:?}");
        }
    }
}

#[test]
fn progress_grows_to_its_total() {
    let scene = Scene::new();
    let mut reports = Vec::new();
    verify(&scene.disk, &scene.options, &mut |done, of| reports.push((done, of))).unwrap();
    assert!(reports.is_sorted_by_key(|report| report.0), "{reports:?}");
    let (done, total) = *reports.last().unwrap();
    assert!(done == total && total > 1_000, "{reports:?}");
}
