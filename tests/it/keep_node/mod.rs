//! Kept znodes: there as long as the handle, whatever happens, and never at the cost of another's.

mod faults;
mod random;

use std::sync::Arc;

use zoolet::recipes::{KeepError, KeepState, ParentMode};
use zoolet::server::TxnOp;
use zoolet::testing::{OpCode, TestServer, handshake, op};
use zoolet::{Acl, Client, ErrorCode, KeepNode, Perms, SessionId, Sessions, Zxid};

use crate::common::test_server;

const PATH: &str = "/services/web/1";

pub(crate) struct World {
    pub(crate) zk: TestServer,
    pub(crate) sessions: Sessions,
}

impl World {
    pub(crate) async fn start() -> Self {
        let zk = test_server().start().await.unwrap();
        let sessions = Self::sessions_at(&zk);
        Self { zk, sessions }
    }

    /// Those of another program.
    pub(crate) fn others(&self) -> Sessions {
        Self::sessions_at(&self.zk)
    }

    fn sessions_at(zk: &TestServer) -> Sessions {
        Sessions::open(zk.options(), zk.connector()).unwrap()
    }

    pub(crate) async fn session(&self) -> SessionId {
        self.time(self.sessions.client()).await.unwrap().session_id()
    }

    /// Lets time pass until then.
    pub(crate) async fn time<F: Future>(&self, future: F) -> F::Output {
        self.zk.pass_time_until(future).await.unwrap()
    }

    /// Waits until everything has happened that needs no time.
    pub(crate) async fn settle(&self) {
        self.zk.wait_until_idle().await.unwrap();
    }

    fn keep(&self, data: &'static str) -> KeepNode {
        KeepNode::builder(&self.sessions, PATH).data(data).start().unwrap()
    }

    /// Data and owner of the znode.
    fn node(&self) -> Option<(String, SessionId)> {
        self.zk.get(PATH).map(|node| (node.text().to_owned(), node.stat.ephemeral_owner))
    }

    fn czxid(&self) -> Zxid {
        self.zk.get(PATH).unwrap().stat.czxid
    }

    /// The sessions whose requests have deleted the znode, each with the owner that it had.
    fn deletions(&self) -> Vec<(SessionId, SessionId)> {
        let mut owner = SessionId(0);
        let mut deletions = Vec::new();
        for txn in self.zk.transactions() {
            for part in parts_of(txn.op) {
                match part {
                    TxnOp::Create { path, owner: created, .. } if &*path == PATH => {
                        owner = created.as_session().unwrap_or(SessionId(0));
                    }
                    TxnOp::Delete { path } if &*path == PATH => deletions.push((txn.session, owner)),
                    _ => {}
                }
            }
        }
        deletions
    }
}

/// The changes of a transaction.
fn parts_of(op: TxnOp) -> Vec<TxnOp> {
    match op {
        TxnOp::Multi(parts) => parts,
        part => vec![part],
    }
}

fn refused_by(state: &KeepState) -> Option<ErrorCode> {
    match state {
        KeepState::Pending(Some(KeepError::Refused { cause, .. })) => cause.code(),
        _ => None,
    }
}

#[tokio::test]
async fn a_znode_is_created_with_its_parents_as_containers_and_deleted_when_it_is_closed() {
    let world = World::start().await;
    let keep = world.keep("v1");
    let czxid = world.time(keep.present()).await.unwrap();
    assert_eq!(world.node(), Some(("v1".into(), world.session().await)));
    assert_eq!(czxid, world.czxid());
    for parent in ["/services", "/services/web"] {
        assert!(world.zk.get(parent).unwrap().container, "{parent}");
    }
    world.time(keep.close()).await.unwrap();
    assert_eq!(world.node(), None);
    // Dropped, in the background.
    let keep = world.keep("v2");
    world.time(keep.present()).await.unwrap();
    drop(keep);
    world.settle().await;
    assert_eq!(world.node(), None);
}

#[tokio::test]
async fn a_lost_connection_does_not_make_it_flap_and_costs_no_write() {
    let world = World::start().await;
    let keep = world.keep("v1");
    let czxid = world.time(keep.present()).await.unwrap();
    let id = world.session().await;
    for _ in 0..3 {
        let before = world.zk.transactions().len();
        world.zk.disconnect(id).await.unwrap();
        let client = world.time(world.sessions.client()).await.unwrap();
        world.time(client.exists(PATH).send()).await.unwrap();
        world.settle().await;
        assert_eq!((world.session().await, world.czxid()), (id, czxid));
        assert_eq!(world.zk.transactions().len(), before);
    }
    assert!(
        matches!(keep.state(), KeepState::Present { czxid: by, session } if (by, session) == (czxid, id))
    );
}

#[tokio::test]
async fn an_update_is_a_set_data_and_one_without_a_connection_is_made_up_for() {
    let world = World::start().await;
    let keep = world.keep("v1");
    let czxid = world.time(keep.present()).await.unwrap();
    world.time(keep.update("v2")).await.unwrap();
    assert_eq!(world.node().unwrap().0, "v2");
    world.zk.refuse_connections();
    world.zk.disconnect(world.session().await).await.unwrap();
    let (third, fourth) = (keep.update("v3"), keep.update("v4"));
    world.settle().await;
    world.zk.accept_connections();
    world.time(third).await.unwrap();
    world.time(fourth).await.unwrap();
    assert_eq!((world.node().unwrap().0.as_str(), world.czxid()), ("v4", czxid));
    assert_eq!(world.deletions(), []);
}

#[tokio::test]
async fn data_that_somebody_else_has_set_is_replaced() {
    let world = World::start().await;
    let keep = world.keep("v1");
    let czxid = world.time(keep.present()).await.unwrap();
    world.zk.set(PATH, "foreign").await.unwrap();
    world.settle().await;
    assert_eq!((world.node().unwrap().0.as_str(), world.czxid()), ("v1", czxid));
}

#[tokio::test]
async fn it_is_created_again_when_it_was_deleted_with_pauses_that_grow() {
    let world = World::start().await;
    let keep = world.keep("v1");
    world.time(keep.present()).await.unwrap();
    let mut states = keep.states();
    let mut pauses = Vec::new();
    for _ in 0..16 {
        let before = world.czxid();
        world.zk.delete(PATH).await.unwrap();
        let deleted = world.zk.clock().now();
        loop {
            match world.time(states.next()).await.unwrap() {
                KeepState::Present { czxid, .. } if czxid > before => break,
                _ => {}
            }
        }
        pauses.push((world.zk.clock().now() - deleted).as_millis());
    }
    assert_eq!(pauses[..2], [0, 0]);
    assert!(pauses[15] > 2_000, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= 5_000), "{pauses:?}");
    assert!(pauses[2..12].is_sorted(), "{pauses:?}");
    // After a while without a deletion there is no pause.
    world.zk.advance(std::time::Duration::from_secs(10)).await.unwrap();
    world.zk.delete(PATH).await.unwrap();
    world.settle().await;
    assert!(world.node().is_some());
}

#[tokio::test]
async fn a_foreign_znode_is_neither_changed_nor_deleted_and_followed_by_ours() {
    for persistent in [false, true] {
        let world = World::start().await;
        let other = world.zk.client().await;
        other.create("/services/web", "").parents().await.unwrap();
        let create = other.create(PATH, "theirs");
        let create = if persistent { create } else { create.ephemeral() };
        let theirs = create.await.unwrap().stat;
        let keep = world.keep("ours");
        let mut states = keep.states();
        loop {
            match world.time(states.next()).await.unwrap() {
                KeepState::Foreign { owner } => break assert_eq!(owner, theirs.ephemeral_owner),
                state => assert!(matches!(state, KeepState::Pending(None)), "{state:?}"),
            }
        }
        // An update is for later.
        let updated = keep.update("ours 2");
        other.set_data(PATH, "theirs 2").await.unwrap();
        world.settle().await;
        assert_eq!(world.node(), Some(("theirs 2".into(), theirs.ephemeral_owner)));
        other.delete(PATH).await.unwrap();
        world.time(updated).await.unwrap();
        assert_eq!(world.node(), Some(("ours 2".into(), world.session().await)));
        // And one that appears in its place, as after a mistake.
        let at_once = other.multi().delete(PATH).add(other.create(PATH, "theirs 3").ephemeral());
        at_once.await.unwrap();
        world.settle().await;
        assert!(matches!(keep.state(), KeepState::Foreign { .. }), "{:?}", keep.state());
        world.time(keep.close()).await.unwrap();
        assert_eq!(world.node(), Some(("theirs 3".into(), other.session_id())));
    }
}

#[tokio::test]
async fn what_was_asked_for_without_a_connection_does_not_meet_a_znode_that_has_come_meanwhile() {
    for closes in [false, true] {
        let world = World::start().await;
        let keep = world.keep("ours");
        world.time(keep.present()).await.unwrap();
        let other = world.zk.client().await;
        world.zk.refuse_connections();
        world.zk.disconnect(world.session().await).await.unwrap();
        world.settle().await;
        let (mut updated, mut kept) = (None, Some(keep));
        match closes {
            false => updated = kept.as_ref().map(|keep| keep.update("ours 2")),
            true => kept = None,
        }
        world.settle().await;
        // Of the same version.
        other.multi().delete(PATH).add(other.create(PATH, "theirs").ephemeral()).await.unwrap();
        world.zk.accept_connections();
        let client = world.time(world.sessions.client()).await.unwrap();
        world.time(client.exists(PATH).send()).await.unwrap();
        world.settle().await;
        assert_eq!(world.node(), Some(("theirs".into(), other.session_id())), "closes: {closes}");
        drop((updated, kept));
    }
}

#[tokio::test]
async fn a_write_that_is_tried_again_after_a_pause_does_not_meet_a_znode_that_has_come_meanwhile() {
    let world = World::start().await;
    let keep = world.keep("ours");
    world.time(keep.present()).await.unwrap();
    let refused = op(OpCode::SetData).session(world.session().await);
    let fault = world.zk.faults().on(refused).fail(ErrorCode::SystemError).unwrap();
    let updated = keep.update("ours 2");
    world.zk.advance(std::time::Duration::from_secs(20)).await.unwrap();
    assert_eq!(refused_by(&keep.state()), Some(ErrorCode::SystemError));
    // In the pause; of the same version.
    let other = world.zk.client().await;
    other.multi().delete(PATH).add(other.create(PATH, "theirs").ephemeral()).await.unwrap();
    world.zk.faults().remove(fault);
    world.zk.advance(std::time::Duration::from_secs(20)).await.unwrap();
    assert_eq!(world.node(), Some(("theirs".into(), other.session_id())));
    drop(updated);
}

#[tokio::test]
async fn a_takeover_replaces_a_foreign_znode_in_one_transaction_and_its_version() {
    let world = World::start().await;
    let others = world.others();
    let other = KeepNode::builder(&others, PATH).data("theirs").start().unwrap();
    world.time(other.present()).await.unwrap();
    let version = world.zk.get(PATH).unwrap().stat.version;
    let keep = KeepNode::builder(&world.sessions, PATH).data("ours").takeover().start().unwrap();
    let czxid = world.time(keep.present()).await.unwrap();
    assert_eq!(world.node(), Some(("ours".into(), world.session().await)));
    // A delete of the former owner that is on its way does not meet it.
    assert_ne!(world.zk.get(PATH).unwrap().stat.version, version);
    world.settle().await;
    assert!(matches!(other.state(), KeepState::Foreign { .. }), "{:?}", other.state());
    world.time(other.close()).await.unwrap();
    assert_eq!(world.czxid(), czxid);
}

#[tokio::test]
async fn after_an_expiry_it_is_created_in_the_next_session() {
    let world = World::start().await;
    let keep = world.keep("v1");
    let first = world.time(keep.present()).await.unwrap();
    let id = world.session().await;
    world.zk.expire_session(id).await.unwrap();
    let mut states = keep.states();
    loop {
        match world.time(states.next()).await.unwrap() {
            KeepState::Present { czxid, session } if czxid > first => break assert_ne!(session, id),
            KeepState::Present { .. } | KeepState::Pending(None) => {}
            state => panic!("{state:?}"),
        }
    }
    assert_eq!(world.node(), Some(("v1".into(), world.session().await)));
}

#[tokio::test]
async fn the_znode_of_our_own_earlier_session_is_waited_for() {
    let world = World::start().await;
    // A session that was lost without the server's knowledge, as of a process that was killed.
    let before = world.zk.client().await;
    before.create("/services/web", "").parents().await.unwrap();
    let old = before.create(PATH, "v1").ephemeral().await.unwrap().stat;
    let id = before.session_id();
    world.zk.faults().on(handshake().session(id)).freeze().unwrap();
    world.zk.disconnect(id).await.unwrap();
    let keep = world.keep("v1");
    world.settle().await;
    assert!(matches!(keep.state(), KeepState::Foreign { owner } if owner == old.ephemeral_owner));
    let czxid = world.time(keep.present()).await.unwrap();
    assert!(czxid > old.czxid);
    assert_eq!(world.node(), Some(("v1".into(), world.session().await)));
}

#[tokio::test]
async fn what_the_server_refuses_is_the_state_until_it_is_granted() {
    let world = World::start().await;
    let admin = world.zk.client().await;
    let read_only = vec![Acl::new(Perms::READ, "world", "anyone"), Acl::new(Perms::ADMIN, "world", "anyone")];
    admin.create("/services", "").acl(read_only).await.unwrap();
    let keep = world.keep("v1");
    let mut states = keep.states();
    while refused_by(&world.time(states.next()).await.unwrap()) != Some(ErrorCode::NoAuth) {}
    assert_eq!(world.node(), None);
    admin.set_acl("/services", Acl::open()).await.unwrap();
    world.time(keep.present()).await.unwrap();

    // The directory is missing, and not to be created.
    let elsewhere = KeepNode::builder(&world.sessions, "/groups/a").parent(ParentMode::MustExist);
    let elsewhere = elsewhere.start().unwrap();
    let mut states = elsewhere.states();
    while refused_by(&world.time(states.next()).await.unwrap()) != Some(ErrorCode::NoNode) {}
    admin.create("/groups", "").await.unwrap();
    world.time(elsewhere.present()).await.unwrap();

    // An update that the ACL of the znode forbids is not passed over.
    let mine = KeepNode::builder(&world.sessions, "/groups/b").data("v1").acl(vec![Acl::new(
        Perms::READ,
        "world",
        "anyone",
    )]);
    let mine = mine.start().unwrap();
    world.time(mine.present()).await.unwrap();
    let mut states = mine.states();
    let _updated = mine.update("v2");
    while refused_by(&world.time(states.next()).await.unwrap()) != Some(ErrorCode::NoAuth) {}
}

#[tokio::test]
async fn a_close_that_is_refused_says_so() {
    let world = World::start().await;
    let keep = world.keep("v1");
    world.time(keep.present()).await.unwrap();
    world.zk.faults().on(op(OpCode::Delete)).fail(ErrorCode::NoAuth).unwrap();
    let error = world.time(keep.close()).await.unwrap_err();
    assert!(matches!(&error, KeepError::Refused { path, .. } if path == PATH), "{error}");
}

#[tokio::test]
async fn it_ends_with_the_sessions_and_says_why() {
    let world = World::start().await;
    let keep = world.keep("v1");
    world.time(keep.present()).await.unwrap();
    let mut states = keep.states();
    world.time(world.sessions.close()).await;
    let mut last = None;
    while let Some(state) = world.time(states.next()).await {
        last = Some(state);
    }
    assert!(matches!(last, Some(KeepState::Ended(KeepError::SessionsEnded(_)))), "{last:?}");
    assert!(matches!(keep.present().await, Err(KeepError::SessionsEnded(_))));
    assert!(matches!(keep.update("v2").await, Err(KeepError::SessionsEnded(_))));
    assert_eq!(world.node(), None);
    let invalid = KeepNode::builder(&world.sessions, "services").start();
    assert!(matches!(invalid, Err(KeepError::InvalidPath(_))));
}

#[tokio::test]
async fn a_znode_that_nobody_keeps_does_not_keep_the_sessions() {
    let World { zk, sessions } = World::start().await;
    let keep = KeepNode::builder(&sessions, PATH).start().unwrap();
    zk.pass_time_until(keep.present()).await.unwrap().unwrap();
    let client: Client = zk.pass_time_until(sessions.client()).await.unwrap().unwrap();
    drop(sessions);
    zk.wait_until_idle().await.unwrap();
    assert!(client.state().is_connected(), "the znode keeps the session");
    drop(keep);
    zk.pass_time_until(client.ended()).await.unwrap();
    assert!(zk.get(PATH).is_none());
}

/// Those that one process has, and another.
async fn two() -> (Arc<World>, Sessions) {
    let world = Arc::new(World::start().await);
    let others = world.others();
    (world, others)
}
