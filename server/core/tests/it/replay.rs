//! Transactions that were decided elsewhere or earlier, given to a core that has not seen them.

use proptest::collection::vec;
use proptest::prelude::*;
use zoolet_proto::Zxid;
use zoolet_server_core::{Core, CoreConfig, Millis, StateMachine};

use crate::common::random::{Script, Step, dump};
use crate::common::*;

/// A world that replays the transactions of another one.
fn follow(world: &mut World, decided: &World) {
    let from = world.core.tree().last_zxid().0 as usize;
    decided.txns[from..].iter().for_each(|txn| world.control(|core| core.replay(txn)));
}

#[test]
fn replayed_transactions_make_the_tree_and_the_sessions_that_there_were() {
    let (mut old, mut new) = (World::new(), World::new());
    let (a, b) = (old.connect(), old.connect());
    let (session, ended) = (old.session(a), old.session(b));
    old.ok(a, ephemeral("/e"));
    old.ok(b, ephemeral("/gone"));
    old.expire(ended);
    old.refusal(a, create("/e"));
    follow(&mut new, &old);
    assert_eq!(dump(new.core.tree()), dump(old.core.tree()));
    assert_eq!(new.core.sessions().iter().map(|session| session.id).collect::<Vec<_>>(), [session]);
    let a = new.resume(session);
    assert_eq!(new.ok(a, get_ephemerals(None)).names(), ["/e"]);
    assert_eq!(new.ok(a, create("/next")).zxid, old.zxid() + 1);
}

#[test]
fn a_replayed_session_has_its_whole_timeout_from_its_creation_on() {
    let (mut old, mut new) = (World::new(), World::new());
    old.advance(5_000);
    let a = old.connect();
    let session = old.session(a);
    follow(&mut new, &old);
    let deadline = |world: &World| world.core.sessions().get(session).map(|session| session.deadline);
    assert_eq!(deadline(&new), deadline(&old));
    let expected = Millis((START + 5_000 + i64::from(TIMEOUT)) / TICK * TICK + TICK);
    assert_eq!(deadline(&new), Some(expected));
}

#[test]
fn a_replayed_transaction_triggers_watches() {
    let (mut old, mut new) = (World::new(), World::new());
    let a = old.connect();
    let session = old.session(a);
    follow(&mut new, &old);
    let watcher = new.resume(session);
    new.refusal(watcher, exists("/a").watch());
    let created = old.ok(a, create("/a")).zxid;
    follow(&mut new, &old);
    let received = new.received(watcher);
    let expected = Event { zxid: created, text: "created /a".into() };
    assert_eq!(received, [Received::Event(expected)]);
}

#[test]
fn the_connection_of_a_session_whose_end_is_replayed_is_closed_after_its_events() {
    let (mut old, mut new) = (World::new(), World::new());
    let a = old.connect();
    let session = old.session(a);
    old.ok(a, ephemeral("/e"));
    follow(&mut new, &old);
    let attached = new.resume(session);
    new.ok(attached, exists("/e").watch());
    old.expire(session);
    follow(&mut new, &old);
    assert_eq!(new.heard(attached), ["deleted /e", "closed"]);
    assert!(new.core.sessions().is_empty() && new.core.watches().is_empty());
}

#[test]
fn what_is_replayed_is_not_given_out_to_be_logged_again() {
    let (mut old, mut new) = (World::new(), World::new());
    let a = old.connect();
    old.ok(a, create("/a"));
    follow(&mut new, &old);
    assert_eq!(new.zxid(), 2);
    assert!(new.txns.is_empty());
}

proptest! {
    #[test]
    fn replaying_a_random_script_leaves_what_the_script_left(steps in vec(any::<Step>(), 0..150)) {
        let mut script = Script::new();
        for step in steps {
            script.step(step);
        }
        let mut core = Core::new(CoreConfig::default(), Millis(START));
        for txn in &script.world.txns {
            core.replay(txn);
        }
        prop_assert_eq!(dump(core.tree()), dump(script.world.core.tree()));
        let ids = |core: &Core| {
            let mut ids: Vec<_> = core.sessions().iter().map(|session| session.id).collect();
            ids.sort_unstable();
            ids
        };
        prop_assert_eq!(ids(&core), ids(&script.world.core));
        prop_assert!(core.tree().last_zxid() == Zxid(script.world.zxid()));
        let effects = core.take_effects();
        prop_assert!(effects.txns.is_empty() && effects.outbound.is_empty());
    }
}
