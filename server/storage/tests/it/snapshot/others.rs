//! Snapshots that other servers write are read.

use zoolet_proto::Zxid;

use super::raw::*;

#[test]
fn each_of_the_sections_after_the_tree_may_be_there_or_not() {
    for (name, keep) in
        [("both", [true, true]), ("3.8", [true, false]), ("last only", [false, true]), ("none", [false; 2])]
    {
        let raw = Raw::fresh().with(|raw| {
            let mut keep = keep.into_iter();
            raw.sections.retain(|_| keep.next().unwrap());
        });
        let summary = check("snapshot.0", &raw.bytes()).unwrap();
        assert_eq!(
            summary.digest.map(|digest| digest.digest),
            keep[0].then_some(Some(1_371_985_504)),
            "{name}"
        );
        assert_eq!(summary.last_zxid, keep[1].then_some(Zxid(0)), "{name}");
    }
}

#[test]
fn a_digest_of_another_version_is_skipped() {
    let null: &[u8] = &[0xff; 4];
    for (version, bytes, last) in [
        (1, field(b"51c6d660"), true),
        (1, field(b""), false),
        (1, field(b"ffffffffffffffff"), true),
        // With four digits the section has the length of a current one.
        (0, field(b"51c6"), true),
        (0, field(b"51c6"), false),
        (1, null.to_vec(), true),
        (1, null.to_vec(), false),
        (3, vec![7; 8], true),
    ] {
        let raw = Raw::fresh().with(|raw| {
            raw.sections[0] = digest(0x28, version, &bytes);
            raw.sections.truncate(1 + usize::from(last));
        });
        let summary = check("snapshot.0", &raw.bytes()).unwrap();
        let digest = summary.digest.unwrap();
        assert_eq!((digest.zxid, digest.digest), (Zxid(0x28), None), "version {version}");
        assert_eq!(summary.last_zxid.is_some(), last, "version {version}");
    }
}

#[test]
fn the_id_of_the_database_may_be_any() {
    let raw = Raw::fresh().with(|raw| raw.header[8..16].fill(0));
    assert!(check("snapshot.0", &raw.bytes()).is_ok());
}

#[test]
fn znodes_need_not_come_depth_first() {
    let raw = Raw::fresh().with(|raw| {
        raw.znodes.insert(1, znode_bytes(b"/a", 1, &[0; 60]));
        raw.znodes.push(znode_bytes(b"/a/b", 1, &[0; 60]));
    });
    assert_eq!(check("snapshot.0", &raw.bytes()).unwrap().znodes, 6);
}

#[test]
fn strings_of_acls_are_those_of_java() {
    // U+1F600 as two surrogates, and a null id.
    let mut sasl = acl(2, 31, b"sasl", b"");
    let len = sasl.len();
    sasl[len - 4..].fill(0xff);
    let raw = Raw::fresh().with(|raw| {
        raw.acls[3] = 3;
        raw.acls.extend(sasl);
        raw.acls.extend(acl(3, 31, b"sasl", b"\xed\xa0\xbd\xed\xb8\x80"));
        raw.znodes.push(znode_bytes(b"/a", 2, &[0; 60]));
        raw.znodes.push(znode_bytes(b"/b", 3, &[0; 60]));
    });
    let disk = on_disk("snapshot.0", &raw.bytes());
    let path = format!("{}/snapshot.0", super::support::DIR);
    let mut reader = zoolet_storage::SnapshotReader::open(&disk, path.as_ref()).unwrap();
    let mut ids = Vec::new();
    while let Some(znode) = reader.next_znode().unwrap() {
        ids.push(znode.acl[0].id.clone());
    }
    assert_eq!(ids, ["anyone", "anyone", "anyone", "anyone", "", "😀"]);
}
