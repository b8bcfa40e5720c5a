//! Snapshots taken in slices while writes go on.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use zoolet_server_core::{Tree, ZnodeRecord};

use crate::common::random::{Script, Step};

/// A znode as a record has it.
fn record(tree: &Tree, path: &str) -> String {
    let node = tree.get(path).expect("a znode");
    let stat = node.stat();
    let creates = (stat.cversion + stat.num_children) / 2;
    format!(
        "{path} {:?} {:?} {:?} {} {} {} {} {} {} {creates} {}",
        node.data(),
        node.acl(),
        node.owner(),
        stat.czxid,
        stat.mzxid,
        stat.pzxid,
        stat.ctime,
        stat.mtime,
        stat.version,
        stat.aversion
    )
}

fn text(record: &ZnodeRecord) -> String {
    let ZnodeRecord { path, data, acl, czxid, mzxid, pzxid, ctime, mtime, version, creates, aversion, owner } =
        record;
    format!(
        "{path} {:?} {acl:?} {owner:?} {czxid} {mzxid} {pzxid} {ctime} {mtime} {version} {creates} {aversion}",
        data.as_ref()
    )
}

/// All znodes of a tree, depth first.
fn copy(tree: &Tree) -> Vec<String> {
    let mut all = Vec::new();
    let mut below = vec!["/".to_owned()];
    while let Some(path) = below.pop() {
        all.push(record(tree, &path));
        let children = tree.get(&path).expect("a znode").children();
        below.extend(children.map(ToString::to_string).collect::<Vec<_>>().into_iter().rev());
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_is_the_state_at_its_beginning_whatever_is_written_between_its_slices(
        before in vec(any::<Step>(), 0..120),
        between in vec((vec(any::<Step>(), 0..8), 1..5usize), 0..60),
    ) {
        let mut script = Script::new();
        before.into_iter().for_each(|step| script.step(step));
        let expected = copy(script.world.core.tree());
        let sessions: BTreeMap<_, _> =
            script.world.core.sessions().iter().map(|session| (session.id, session.timeout)).collect();
        let (header, listed) = script.world.core.begin_snapshot();
        prop_assert_eq!(header.zxid, script.world.core.tree().last_zxid());
        prop_assert_eq!(listed, sessions.into_iter().collect::<Vec<_>>());
        let mut records = Vec::new();
        let mut more = true;
        for (steps, max) in between {
            steps.into_iter().for_each(|step| script.step(step));
            more = script.world.core.next_slice(max, usize::MAX, &mut |record| records.push(record));
        }
        while more {
            more = script.world.core.next_slice(3, 20, &mut |record| records.push(record));
        }
        prop_assert!(!script.world.core.next_slice(3, 20, &mut |_| panic!("it has ended")));
        script.world.core.end_snapshot();
        prop_assert_eq!(records.iter().map(text).collect::<Vec<_>>(), expected);
        script.assert_sound();
    }
}
