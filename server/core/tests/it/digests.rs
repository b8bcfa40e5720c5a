//! The digest of the tree.

use proptest::collection::vec;
use proptest::prelude::*;
use zoolet_server_core::{Tree, TxnOp};

use crate::common::random::{self, Script, Step, allow_everything};
use crate::common::*;

#[test]
fn an_empty_tree_has_the_digest_that_it_has_on_a_real_server() {
    assert_eq!(Tree::default().keeping_digest().digest(), Some(1_371_985_504));
    assert_eq!(Tree::default().digest(), None);
}

/// A CRC-32, bit by bit.
fn crc32(bytes: &[u8]) -> u64 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    u64::from(!crc)
}

/// The digest, computed from what clients see of each znode.
fn expected(tree: &Tree) -> u64 {
    let (mut sum, mut below) = (0u64, vec!["/".to_owned()]);
    while let Some(path) = below.pop() {
        let node = tree.get(&path).expect("a znode");
        below.extend(node.children().map(ToString::to_string));
        if path.starts_with("/zookeeper/") {
            continue;
        }
        let stat = node.stat();
        let mut bytes = if path == "/" { Vec::new() } else { path.into_bytes() };
        bytes.extend(node.data().into_iter().flatten());
        for field in [stat.czxid.0, stat.mzxid.0, stat.pzxid.0, stat.ctime, stat.mtime] {
            bytes.extend(field.to_be_bytes());
        }
        for field in [stat.version, (stat.cversion + stat.num_children) / 2, stat.aversion] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(node.owner().code().to_be_bytes());
        sum = sum.wrapping_add(crc32(&bytes));
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn each_transaction_has_the_digest_of_the_tree_after_it(steps in vec(any::<Step>(), 0..150)) {
        let mut script = Script::of(World::with(|config| {
            allow_everything(config);
            config.logged = true;
        }));
        for step in steps {
            script.step(step);
            let digest = script.world.core.tree().digest();
            let last = script.world.txns.last().map(|txn| (&txn.op, txn.digest));
            match last {
                Some((TxnOp::Error(_), none)) => prop_assert_eq!(none, None),
                Some((_, some)) => prop_assert_eq!(some, digest),
                None => {}
            }
        }
        let mut tree = Tree::default();
        script.world.txns.iter().for_each(|txn| tree.apply(txn, &mut |_, _| {}));
        let digest = script.world.core.tree().digest();
        prop_assert_eq!(digest, Some(expected(&tree)));
        prop_assert_eq!(random::reloaded(&mut tree).digest(), digest);
        prop_assert_eq!(tree.keeping_digest().digest(), digest);
    }
}
