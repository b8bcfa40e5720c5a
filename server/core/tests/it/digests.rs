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
        prop_assert_eq!(random::reloaded(&mut tree).digest(), digest);
        prop_assert_eq!(tree.keeping_digest().digest(), digest);
    }
}
