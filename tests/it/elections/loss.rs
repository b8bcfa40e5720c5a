//! How a work ends: by itself, with the leadership, with the session, with the program.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use zoolet::testing::{OpCode, create, op};
use zoolet::{Client, Election, ErrorCode, Leadership, LockError, Sessions};
use zoolet_test_support::secs;

use super::{DIR, PLAN, World, campaign, session_of};

#[tokio::test]
async fn a_work_that_continues_makes_way_for_the_other_candidates() {
    let world = World::start().await;
    let (one, other) = (world.sessions(), world.sessions());
    let first = world.candidate(&one, "one", 3);
    world.zk.wait_until_idle().await.unwrap();
    let second = world.candidate(&other, "other", 3);
    let (_, last) = (world.time(first).await.unwrap().unwrap(), world.time(second).await.unwrap().unwrap());
    world.log.check(true, "in turn");
    let (ones, others) = (world.log.tokens("one"), world.log.tokens("other"));
    assert_eq!((ones.len(), others.len()), (3, 3));
    assert!(ones.iter().zip(&others).all(|(one, other)| one < other), "{ones:?} {others:?}");
    assert_eq!(world.zk.get(PLAN).unwrap().text(), last.to_string());
    world.check_empty("both are done").await;
}

#[tokio::test]
async fn when_the_session_expires_the_work_is_dropped_and_runs_again_in_the_next_session() {
    let world = World::start().await;
    let sessions = world.sessions();
    let leader = world.leader(&sessions, "one");
    world.until_works("one").await;
    let before = session_of(&sessions).await;
    world.zk.expire_session(before).await.unwrap();
    world.zk.wait_until_idle().await.unwrap();
    assert_eq!(world.log.running(), Vec::<&str>::new(), "it was dropped as soon as the client knew");
    world.until_works("one").await;
    assert_ne!(session_of(&sessions).await, before);
    world.log.check(true, "expired");
    leader.abort();
}

#[tokio::test]
async fn when_no_server_answers_the_work_is_dropped_at_the_end_of_the_lease_and_runs_again_in_the_same_session()
 {
    let world = World::start().await;
    let sessions = world.sessions();
    let leader = world.leader(&sessions, "one");
    world.until_works("one").await;
    let client = sessions.client().await.unwrap();
    world.zk.refuse_connections();
    world.zk.disconnect(client.session_id()).await.unwrap();
    let lease = client.session_timeout() * 9 / 10;
    world.zk.advance(lease - secs(1)).await.unwrap();
    assert_eq!(world.log.running(), ["one"]);
    world.zk.advance(secs(1)).await.unwrap();
    assert_eq!(world.log.running(), Vec::<&str>::new());
    world.zk.accept_connections();
    world.until_works("one").await;
    assert_eq!(session_of(&sessions).await, client.session_id());
    world.log.check(true, "the lease ended");
    leader.abort();
    world.check_empty("aborted").await;
}

#[tokio::test]
async fn a_leader_or_candidate_whose_znode_is_deleted_campaigns_again() {
    let world = World::start().await;
    let (one, other) = (world.sessions(), world.sessions());
    let watching = |zk: &Client| Election::builder(zk, DIR).watch_own_node(true).build().campaign("one");
    let leader = world.leader_with(&one, "one", watching);
    world.until_works("one").await;
    let waiting = world.leader(&other, "other");
    world.zk.wait_until_idle().await.unwrap();
    let evict = async |at: usize| {
        let queue = queue(&world);
        assert_eq!(queue.len(), 2);
        world.zk.delete(&format!("{DIR}/{}", queue[at])).await.unwrap();
        world.zk.wait_until_idle().await.unwrap();
    };
    evict(0).await;
    assert_eq!((world.log.running(), queue(&world).len()), (vec!["other"], 2), "it is in the queue again");
    // A candidate that waits notices when the one in front has gone.
    evict(1).await;
    assert_eq!((world.log.running(), queue(&world).len()), (vec!["other"], 1));
    world.zk.expire_session(session_of(&other).await).await.unwrap();
    world.zk.advance(secs(1)).await.unwrap();
    assert_eq!((world.log.running().len(), queue(&world).len()), (1, 2), "{:?}", world.log.events());
    leader.abort();
    waiting.abort();
    world.check_empty("aborted").await;
}

#[tokio::test]
async fn dropping_the_run_drops_the_work_and_resigns_before_the_next_request() {
    let world = World::start().await;
    let sessions = world.sessions();
    let client = world.time(sessions.client()).await.unwrap();
    for round in 0..20 {
        let (runs, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
        {
            let work = async |_: Leadership| {
                runs.fetch_add(1, SeqCst);
                let _dropped = Counted(&dropped);
                std::future::pending::<ControlFlow<()>>().await
            };
            let running = Election::run(&sessions, campaign("one"), work);
            crate::request_fault::polled(&world.zk, round, running).await;
        }
        assert_eq!(runs.load(SeqCst), dropped.load(SeqCst));
        assert!(round < 10 || runs.load(SeqCst) == 1, "{round} polls");
        // A candidate whose create is in flight is looked for and deleted in the background.
        if runs.load(SeqCst) == 0 {
            world.zk.wait_until_idle().await.unwrap();
        }
        match client.get_children(DIR).await {
            Ok((names, _)) => assert_eq!(names, Vec::<String>::new(), "{round} polls"),
            Err(error) => assert_eq!(error.code(), Some(ErrorCode::NoNode)),
        }
    }
}

/// The machine is suspended when the leadership was granted and the program has not seen it yet.
#[tokio::test]
async fn a_leadership_whose_lease_has_ended_before_the_work_begins_is_not_used() {
    let world = World::start().await;
    let sessions = world.sessions();
    let runs = AtomicUsize::new(0);
    let work = async |_: Leadership| {
        runs.fetch_add(1, SeqCst);
        ControlFlow::Break(())
    };
    let mut running = pin!(Election::run(&sessions, campaign("one"), work));
    while queue(&world).is_empty() {
        assert!(polled_once(running.as_mut()).await.is_pending());
        world.zk.wait_until_idle().await.unwrap();
    }
    let first = queue(&world);
    world.zk.clock().suspend(secs(60)).unwrap();
    assert!(polled_once(running.as_mut()).await.is_pending());
    assert_eq!(runs.load(SeqCst), 0);
    world.time(running).await.unwrap();
    assert_eq!(runs.load(SeqCst), 1);
    assert_eq!(first.len(), 1);
    world.check_empty("done").await;
}

async fn polled_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

struct Counted<'c>(&'c AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[tokio::test]
async fn a_handle_that_the_work_has_given_away_keeps_the_place_of_the_leader() {
    let world = World::start().await;
    let sessions = world.sessions();
    let kept: Arc<Mutex<Vec<Leadership>>> = Arc::default();
    let running = tokio::spawn({
        let kept = Arc::clone(&kept);
        let work = move |leadership: Leadership| {
            let kept = Arc::clone(&kept);
            async move {
                let first = kept.lock().unwrap().is_empty() && leadership.nodes()[0].ends_with("0000000000");
                kept.lock().unwrap().extend(first.then(|| leadership.reenter()));
                if first { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            }
        };
        async move { Election::run(&sessions, campaign("one"), work).await }
    });
    world.zk.advance(secs(5)).await.unwrap();
    assert_eq!((running.is_finished(), queue(&world).len()), (false, 2), "it waits for its own handle");
    kept.lock().unwrap().clear();
    world.time(running).await.unwrap().unwrap();
}

#[tokio::test]
async fn candidates_have_the_names_of_curators_leader_latch_and_wait_for_it() {
    let world = World::start().await;
    let sessions = world.sessions();
    let curator = world.zk.client().await;
    curator.create(DIR, "").await.unwrap();
    let latch = format!("{DIR}/_c_6e5d2c1f-7b0a-4a3e-9d55-0123456789ab-latch-");
    let latch = curator.create(latch, "curator").ephemeral().sequential().await.unwrap().path;
    let leader = world.leader(&sessions, "one");
    world.zk.advance(secs(5)).await.unwrap();
    assert_eq!(world.log.running(), Vec::<&str>::new());
    let queue = queue(&world);
    let ours = queue[1].strip_prefix("_c_").unwrap();
    assert_eq!((&ours[36..43], &ours[43..]), ("-latch-", "0000000001"), "{queue:?}");
    assert_eq!(world.zk.get(&format!("{DIR}/{}", queue[1])).unwrap().text(), "one");
    curator.delete(latch).await.unwrap();
    world.until_works("one").await;
    leader.abort();
}

#[tokio::test]
async fn what_another_attempt_does_not_change_ends_the_run() {
    let world = World::start().await;
    let sessions = world.sessions();
    world.zk.faults().on(create()).fail(ErrorCode::NoAuth).unwrap();
    let error = lead_once(&world, &sessions).await.unwrap_err();
    assert!(matches!(error, LockError::NoAuth { .. }), "{error}");
    world.zk.faults().clear();
    lead_once(&world, &sessions).await.unwrap();
    world.time(sessions.close()).await;
    let error = lead_once(&world, &sessions).await.unwrap_err();
    assert!(matches!(&error, LockError::Client(zoolet::Error::Closed(_))), "{error}");
}

async fn lead_once(world: &World, sessions: &Sessions) -> Result<(), LockError> {
    let work = async |_: Leadership| ControlFlow::Break(());
    world.time(Election::run(sessions, campaign("one"), work)).await
}

#[tokio::test]
async fn a_znode_that_cannot_be_given_up_ends_a_run_that_would_wait_for_it() {
    let world = World::start().await;
    let sessions = world.sessions();
    world.zk.faults().on(op(OpCode::Delete)).fail(ErrorCode::NoAuth).unwrap();
    let work = async |_: Leadership| ControlFlow::<()>::Continue(());
    let error = world.time(Election::run(&sessions, campaign("one"), work)).await.unwrap_err();
    assert!(matches!(error, LockError::NoAuth { .. }), "{error}");
}

/// The candidates in the order in which they lead.
fn queue(world: &World) -> Vec<String> {
    let mut names = world.zk.children(DIR);
    names.sort_by_key(|name| name[name.len() - 10..].to_owned());
    names
}
