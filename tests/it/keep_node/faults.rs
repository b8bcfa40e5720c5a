//! A fault at every request of a kept znode.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use zoolet::recipes::{KeepError, KeepState};
use zoolet::testing::{Action, TestServer, handshake, request};
use zoolet::{KeepNode, Sessions};
use zoolet_test_support::{limit, secs};

use super::{PATH, World, two};

/// Creates the znode, changes it, has it deleted, and closes it; each step with its outcome.
async fn live_through(world: &World, keep: KeepNode) -> Result<(), KeepError> {
    world.time(keep.present()).await?;
    assert_eq!(world.node().unwrap().0, "v1");
    world.time(keep.update("v2")).await?;
    assert_eq!(world.node().unwrap().0, "v2");
    world.zk.delete(PATH).await.unwrap();
    // Its future is complete when the znode has the data again.
    world.time(keep.update("v3")).await?;
    world.settle().await;
    world.time(keep.present()).await?;
    assert_eq!(world.node().unwrap().0, "v3");
    world.time(keep.close()).await?;
    assert_eq!(world.node(), None);
    Ok(())
}

#[tokio::test]
async fn the_connection_is_lost_at_every_request_and_each_step_is_done_once() {
    let faults = [Action::DropRequest, Action::LoseReply, Action::CutReply(7), Action::Reset];
    for fault in faults {
        for directory in [false, true] {
            let mut nth = 1;
            loop {
                let world = World::start().await;
                if directory {
                    world.zk.client().await.create("/services/web", "").parents().await.unwrap();
                }
                let at = request().session(world.session().await).nth(nth);
                let place = world.zk.faults().place(at, fault);
                place.unwrap();
                live_through(&world, world.keep("v1")).await.unwrap();
                // By the one who has deleted it meanwhile, and by ours when it was closed.
                let ours = world.session().await;
                let deletions = world.deletions();
                assert_eq!(deletions.len(), 2, "{fault:?} at {nth}: {deletions:?}");
                assert_eq!(deletions[1], (ours, ours), "{fault:?} at {nth}");
                if !world.zk.faults().fired().iter().any(|entry| entry.event.is_fault()) {
                    break;
                }
                nth += 1;
                assert!(nth < 60, "there is no end of requests");
            }
            assert!(nth > 8, "{nth} requests");
        }
    }
}

#[tokio::test]
async fn the_session_expires_at_every_request_and_each_step_is_done_in_the_next() {
    for executed in [false, true] {
        let mut nth = 1;
        loop {
            let world = World::start().await;
            let id = world.session().await;
            let at = world.zk.faults().on(request().session(id).nth(nth));
            match executed {
                false => at.freeze(),
                true => at.delay_reply(secs(3_000)),
            }
            .unwrap();
            let keep = world.keep("v1");
            let expired = expire_when_stuck(&world, id).await;
            let expired = expired || {
                // Not at its beginning, so at an update.
                let updated = keep.update("v2");
                let expired = expire_when_stuck(&world, id).await;
                world.time(updated).await.unwrap();
                expired
            };
            world.time(keep.update("v3")).await.unwrap();
            let (data, owner) = world.node().unwrap();
            assert_eq!((data.as_str(), owner), ("v3", world.session().await));
            assert_eq!(world.session().await != id, expired);
            world.time(keep.close()).await.unwrap();
            assert_eq!(world.node(), None);
            if !expired {
                break;
            }
            nth += 1;
            assert!(nth < 60, "there is no end of requests");
        }
        assert!(nth > 5, "{nth} requests");
    }
}

/// Expires the session if a request is held up; returns whether it was.
async fn expire_when_stuck(world: &World, id: zoolet::SessionId) -> bool {
    world.settle().await;
    let stuck = world.zk.faults().fired().iter().any(|entry| entry.event.is_fault());
    if stuck {
        world.zk.expire_session(id).await.unwrap();
        // Nothing is frozen if only the reply is held up.
        let _ = world.zk.unfreeze_all().await;
    }
    stuck
}

#[tokio::test]
async fn two_processes_with_one_path_never_delete_each_others_znode() {
    for fault in [Action::DropRequest, Action::LoseReply] {
        for nth in 1..14 {
            let (world, others) = two().await;
            let other_id = world.time(others.client()).await.unwrap().session_id();
            for id in [world.session().await, other_id] {
                world.zk.faults().place(request().session(id).nth(nth), fault).unwrap();
            }
            let one = world.keep("one");
            let other = KeepNode::builder(&others, PATH).data("other").start().unwrap();
            world
                .time(async {
                    tokio::select! { _ = one.present() => {}, _ = other.present() => {} }
                })
                .await;
            world.zk.disconnect(world.session().await).await.unwrap();
            world.zk.disconnect(other_id).await.unwrap();
            // Whichever has it: both are asked to change it, and one can.
            let updates = (one.update("one 2"), other.update("other 2"));
            world
                .time(async {
                    tokio::select! { _ = updates.0 => {}, _ = updates.1 => {} }
                })
                .await;
            world.settle().await;
            let owner = world.node().unwrap().1;
            let (holder, waiting) = if owner == other_id { (other, one) } else { (one, other) };
            world.time(holder.close()).await.unwrap();
            world.time(waiting.present()).await.unwrap();
            assert_ne!(world.node().unwrap().1, owner);
            world.time(waiting.close()).await.unwrap();
            let deletions = world.deletions();
            assert_eq!(deletions.len(), 2, "{fault:?} at {nth}: {deletions:?}");
            assert!(deletions.iter().all(|(by, owner)| by == owner), "{fault:?} at {nth}: {deletions:?}");
        }
    }
}

#[tokio::test]
async fn takeovers_from_each_other_slow_down() {
    let (world, others) = two().await;
    let one = KeepNode::builder(&world.sessions, PATH).data("one").takeover().start().unwrap();
    let other = KeepNode::builder(&others, PATH).data("other").takeover().start().unwrap();
    world.zk.advance(secs(60)).await.unwrap();
    let takeovers = world.deletions().len();
    assert!((10..60).contains(&takeovers), "{takeovers}");
    drop((one, other));
}

#[tokio::test]
async fn servers_that_were_restored_from_an_older_backup_get_the_znode_again() {
    limit();
    let (present, backup) = (TestServer::start().await, TestServer::start().await);
    for _ in 0..20 {
        present.client().await.close().await.unwrap();
    }
    let restored = Arc::<AtomicBool>::default();
    let connect = {
        let (restored, one, other) = (Arc::clone(&restored), present.connector(), backup.connector());
        move || if restored.load(SeqCst) { other.connect() } else { one.connect() }
    };
    // The clocks of the two servers are different ones, so that of the client is real; everything is in process.
    let options = zoolet::Client::options().session_timeout(secs(1)).connect_timeout(secs(1));
    let sessions = Sessions::open(options, connect).unwrap();
    let keep = KeepNode::builder(&sessions, PATH).data("v1").start().unwrap();
    let before = keep.present().await.unwrap();
    restored.store(true, SeqCst);
    present.disconnect(sessions.client().await.unwrap().session_id()).await.unwrap();
    let mut states = keep.states();
    let czxid = loop {
        match states.next().await.unwrap() {
            KeepState::Present { czxid, .. } if czxid != before => break czxid,
            KeepState::Present { .. } | KeepState::Pending(None) => {}
            state => panic!("{state:?}"),
        }
    };
    assert!(czxid < before, "{czxid} after {before}: the history is another one");
    assert_eq!(backup.get(PATH).unwrap().text(), "v1");
    keep.close().await.unwrap();
    assert!(backup.get(PATH).is_none());
}

#[tokio::test]
async fn the_process_is_killed_at_every_request_and_its_successor_gets_the_znode() {
    for executed in [false, true] {
        let mut nth = 1;
        loop {
            let world = World::start().await;
            let id = world.session().await;
            let at = world.zk.faults().on(request().session(id).nth(nth));
            match executed {
                false => at.freeze(),
                true => at.withhold_reply(),
            }
            .unwrap();
            let killed = world.keep("v1");
            world.settle().await;
            let updated = killed.update("v2");
            world.settle().await;
            let stuck = world.zk.faults().fired().iter().any(|entry| entry.event.is_fault());
            // Nothing of it gets through any more, and nobody says goodbye.
            world.zk.faults().on(handshake().session(id)).freeze().unwrap();
            world.zk.disconnect(id).await.unwrap();
            let others = world.others();
            let successor = KeepNode::builder(&others, PATH).data("next").start().unwrap();
            world.time(successor.present()).await.unwrap();
            let (data, owner) = world.node().unwrap();
            assert_eq!((data.as_str(), owner == id), ("next", false));
            world.time(successor.close()).await.unwrap();
            assert_eq!(world.node(), None);
            // The server has deleted the first one, if it was there, and the successor its own.
            assert!(world.deletions().iter().all(|(by, owner)| by == owner), "{executed} at {nth}");
            drop((killed, updated));
            if !stuck {
                break;
            }
            nth += 1;
            assert!(nth < 60, "there is no end of requests");
        }
        assert!(nth > 5, "{nth} requests");
    }
}
