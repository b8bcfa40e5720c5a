//! Any content is read back as it was written.

use bytes::Bytes;
use proptest::prelude::*;
use zoolet_proto::{Acl, AclList, Perms, SessionId, Zxid};
use zoolet_server_core::{Owner, ZnodeRecord};
use zoolet_storage::Compression;

use super::support::*;

fn any_acl() -> impl Strategy<Value = AclList> {
    let entry = (any::<i32>(), "[a-z]{0,8}", ".{0,12}")
        .prop_map(|(perms, scheme, id)| Acl::new(Perms(perms), scheme, id));
    prop_oneof![Just(open_acl()), prop::collection::vec(entry, 1..4).prop_map(AclList::from)]
}

/// A znode, without its path.
fn any_znode() -> impl Strategy<Value = ZnodeRecord> {
    let data = prop_oneof![
        9 => prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
        1 => (0..600_000usize).prop_map(|len| Some(vec![42; len])),
    ];
    let zxids = any::<[i64; 3]>();
    let times = any::<[i64; 2]>();
    let versions = (any::<i32>(), any::<u32>(), any::<i32>());
    (data, any_acl(), zxids, times, versions, any::<i64>()).prop_map(
        |(data, acl, [czxid, mzxid, pzxid], [ctime, mtime], (version, creates, aversion), owner)| {
            ZnodeRecord {
                path: "/".into(),
                data: data.map(Bytes::from),
                acl,
                czxid: Zxid(czxid),
                mzxid: Zxid(mzxid),
                pzxid: Zxid(pzxid),
                ctime,
                mtime,
                version,
                creates: creates.into(),
                aversion,
                owner: Owner::from_code(owner),
            }
        },
    )
}

/// Znodes, each below one that comes before it.
fn any_znodes() -> impl Strategy<Value = Vec<ZnodeRecord>> {
    let below = (any_znode(), any::<prop::sample::Index>(), "[^/\\u{0}-\\u{1f}]{1,9}");
    (any_znode(), prop::collection::vec(below, 0..20)).prop_map(|(root, below)| {
        let mut znodes = vec![root];
        for (number, (znode, parent, name)) in below.into_iter().enumerate() {
            let parent = &znodes[parent.index(znodes.len())].path;
            let path = format!("{}/{name}-{number}", if &**parent == "/" { "" } else { parent });
            znodes.push(ZnodeRecord { path: path.into(), ..znode });
        }
        znodes
    })
}

fn any_content() -> impl Strategy<Value = Content> {
    let sessions = prop::collection::hash_map(any::<i64>(), 0..=i32::MAX, 0..20);
    (0..=i64::MAX, any::<Option<u64>>(), sessions, any_znodes()).prop_map(
        |(zxid, digest, sessions, znodes)| Content {
            zxid: Zxid(zxid),
            digest,
            sessions: sessions.into_iter().map(|(id, timeout)| (SessionId(id), timeout)).collect(),
            znodes,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_content_is_read_back_as_it_was_written(content in any_content(), compression in 0..3) {
        let compression = [Compression::None, Compression::Gzip, Compression::Snappy][compression as usize];
        let disk = disk();
        let published = content.write(&dir(&disk, compression)).unwrap();
        prop_assert_eq!(Content::read(&disk, &published.path).unwrap(), content);
    }
}
