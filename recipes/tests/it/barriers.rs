//! Barriers: who waits, who continues, and what is left behind.

use std::future::Future;
use std::time::Duration;
use zoolet_fixture::FixtureExt as _;

use tokio::task::JoinHandle;
use zoolet_client::{Acl, Client, Perms, Zxid};
use zoolet_recipes::{Barrier, BarrierError, BarrierGuard, DoubleBarrier, LostReason};

use crate::common::{World, settle, world};

const PATH: &str = "/barriers/step";

/// Starts `future`, and lets it run until it waits.
async fn start<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let started = tokio::spawn(future);
    rest().await;
    started
}

/// Lets every task run until it waits for time.
async fn rest() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

async fn barrier(world: &World) -> (Client, Barrier) {
    let client = world.client().await;
    let barrier = Barrier::new(&client, PATH);
    (client, barrier)
}

async fn enter(world: &World, members: usize) -> (Client, JoinHandle<Result<BarrierGuard, BarrierError>>) {
    let client = world.client().await;
    let barrier = DoubleBarrier::new(&client, PATH, members);
    let entering = start(async move { barrier.enter().await }).await;
    (client, entering)
}

async fn inside(entering: JoinHandle<Result<BarrierGuard, BarrierError>>) -> BarrierGuard {
    entering.await.unwrap().unwrap()
}

async fn children(client: &Client) -> Vec<String> {
    client.get_children(PATH).await.map(|(names, _)| names).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_raised_barrier_blocks_waiters_until_it_is_lowered() {
    let world = world().await;
    let (_a, raised) = barrier(&world).await;
    let (_b, waited) = barrier(&world).await;
    waited.wait().await.unwrap();
    raised.raise().await.unwrap();
    raised.raise().await.unwrap();
    let waiting = start(async move { waited.wait().await }).await;
    assert!(!waiting.is_finished());
    raised.lower().await.unwrap();
    waiting.await.unwrap().unwrap();
    raised.lower().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_barrier_outlives_the_session_that_raised_it_and_anybody_lowers_it() {
    let world = world().await;
    let (a, raised) = barrier(&world).await;
    raised.raise().await.unwrap();
    a.close().await.unwrap();
    let (_b, waited) = barrier(&world).await;
    let lowered = waited.clone();
    let waiting = start(async move { waited.wait().await }).await;
    assert!(!waiting.is_finished());
    lowered.lower().await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_continues_even_if_the_barrier_is_raised_again_at_once() {
    let world = world().await;
    let (_a, raised) = barrier(&world).await;
    raised.raise().await.unwrap();
    let (_b, waited) = barrier(&world).await;
    let waiting = start(async move { waited.wait().await }).await;
    let (lower, raise) = (raised.lower(), raised.raise());
    lower.await.unwrap();
    raise.await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_change_of_its_data_lets_nobody_through() {
    let world = world().await;
    let (client, raised) = barrier(&world).await;
    raised.raise().await.unwrap();
    let (_b, waited) = barrier(&world).await;
    let waiting = start(async move { waited.wait().await }).await;
    for data in ["one", "two"] {
        client.set_data(PATH, data).await.unwrap();
        rest().await;
        assert!(!waiting.is_finished());
    }
    raised.lower().await.unwrap();
    waiting.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_learns_that_its_session_is_over() {
    let world = world().await;
    let (_a, raised) = barrier(&world).await;
    raised.raise().await.unwrap();
    let (b, waited) = barrier(&world).await;
    let waiting = start(async move { waited.wait().await }).await;
    let (c, entering) = enter(&world, 2).await;
    for client in [&b, &c] {
        client.close().await.unwrap();
    }
    let error = waiting.await.unwrap().unwrap_err();
    let closed = |error: &BarrierError| matches!(error, BarrierError::SessionOver { path, reason: LostReason::SessionClosed } if path == PATH);
    assert!(closed(&error), "{error}");
    let error = entering.await.unwrap().unwrap_err();
    assert!(closed(&error), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_member_without_the_right_gets_no_auth() {
    let world = world().await;
    let owner = world.client().await;
    owner.add_auth("digest", "owner:secret").await.unwrap();
    let acl = vec![Acl::new(Perms::ALL, "auth", "")];
    Barrier::new(&owner, PATH).acl(acl).raise().await.unwrap();
    let (_b, waited) = barrier(&world).await;
    for error in [waited.wait().await.unwrap_err(), waited.lower().await.unwrap_err()] {
        assert!(matches!(&error, BarrierError::NoAuth { path } if path == PATH), "{error}");
    }
    let (_c, entering) = enter(&world, 1).await;
    let error = entering.await.unwrap().unwrap_err();
    assert!(matches!(&error, BarrierError::NoAuth { path } if path == PATH), "{error}");
}

#[tokio::test(start_paused = true)]
async fn client_any_other_error_is_returned_as_it_is() {
    let world = world().await;
    let client = world.client().await;
    client.create("/ephemeral", "").ephemeral().await.unwrap();
    let below = "/ephemeral/barrier";
    assert!(matches!(Barrier::new(&client, below).raise().await, Err(BarrierError::Client(_))));
    let entered = DoubleBarrier::new(&client, below, 1).enter().await;
    assert!(matches!(entered, Err(BarrierError::Client(_))), "{entered:?}");
}

#[tokio::test(start_paused = true)]
async fn members_enter_together_and_leave_together_round_after_round() {
    let world = world().await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(world.client().await);
    }
    for round in 0..3 {
        let mut entering = Vec::new();
        for client in &clients {
            assert!(entering.iter().all(|entering: &JoinHandle<_>| !entering.is_finished()), "{round}");
            let barrier = DoubleBarrier::new(client, PATH, 4);
            entering.push(start(async move { barrier.enter().await }).await);
        }
        let mut leaving = Vec::new();
        for entering in entering {
            let inside = inside(entering).await;
            assert!(leaving.iter().all(|leaving: &JoinHandle<_>| !leaving.is_finished()), "{round}");
            leaving.push(start(inside.leave()).await);
        }
        for leaving in leaving {
            leaving.await.unwrap().unwrap();
        }
        assert_eq!(children(&clients[0]).await, Vec::<String>::new(), "{round}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_comes_during_a_round_waits_for_the_next() {
    let world = world().await;
    let (_a, a) = enter(&world, 2).await;
    let (_b, b) = enter(&world, 2).await;
    let (a, b) = (inside(a).await, inside(b).await);
    let (_c, late) = enter(&world, 2).await;
    let leaving = start(a.leave()).await;
    let (_d, later) = enter(&world, 2).await;
    assert!(!late.is_finished() && !later.is_finished() && !leaving.is_finished());
    b.leave().await.unwrap();
    leaving.await.unwrap().unwrap();
    let (c, d) = (inside(late).await, inside(later).await);
    let leaving = start(c.leave()).await;
    d.leave().await.unwrap();
    leaving.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_before_the_round_is_not_counted() {
    let world = world().await;
    let (a, gone) = enter(&world, 2).await;
    gone.abort();
    let _ = gone.await;
    settle(|| async { children(&a).await.is_empty() }).await;
    let (_b, b) = enter(&world, 2).await;
    assert!(!b.is_finished());
    let (_c, c) = enter(&world, 2).await;
    let (b, c) = (inside(b).await, inside(c).await);
    drop((b, c));
    settle(|| async { children(&a).await.is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn members_whose_session_ends_inside_are_not_waited_for_and_the_next_member_cleans_up() {
    let world = world().await;
    let (a, a_in) = enter(&world, 3).await;
    let (b, b_in) = enter(&world, 3).await;
    let (c, c_in) = enter(&world, 3).await;
    let (a_in, _b_in, _c_in) = (inside(a_in).await, inside(b_in).await, inside(c_in).await);
    let leaving = start(a_in.leave()).await;
    b.close().await.unwrap();
    rest().await;
    assert!(!leaving.is_finished());
    c.close().await.unwrap();
    leaving.await.unwrap().unwrap();
    assert_eq!(children(&a).await, Vec::<String>::new());

    // All of them: nobody is left to delete `ready`.
    let (d, d_in) = enter(&world, 1).await;
    let _d_in = inside(d_in).await;
    d.close().await.unwrap();
    assert_eq!(children(&a).await, ["ready"]);
    let (_e, e_in) = enter(&world, 1).await;
    inside(e_in).await.leave().await.unwrap();
    assert_eq!(children(&a).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn node_deleted_an_evicted_member_gets_an_error_and_is_not_inside() {
    let world = world().await;
    let (a, entering) = enter(&world, 2).await;
    let evicted = children(&a).await.remove(0);
    a.delete(format!("{PATH}/{evicted}")).await.unwrap();
    let (_b, b) = enter(&world, 2).await;
    assert!(!b.is_finished(), "there is one member, not two");
    let (_c, c) = enter(&world, 2).await;
    let _both = (inside(b).await, inside(c).await);
    let error = entering.await.unwrap().unwrap_err();
    assert!(matches!(&error, BarrierError::NodeDeleted { path } if path == PATH), "{error}");
}

#[tokio::test(start_paused = true)]
async fn node_deleted_a_waiting_member_gets_the_error_at_once_even_if_nobody_else_comes() {
    let world = world().await;
    let (a, entering) = enter(&world, 2).await;
    let evicted = children(&a).await.remove(0);
    a.set_data(format!("{PATH}/{evicted}"), "a write is no eviction").await.unwrap();
    rest().await;
    assert!(!entering.is_finished());
    a.delete(format!("{PATH}/{evicted}")).await.unwrap();
    rest().await;
    assert!(entering.is_finished(), "nothing else happens that it could learn it from");
    let error = entering.await.unwrap().unwrap_err();
    assert!(matches!(&error, BarrierError::NodeDeleted { path } if path == PATH), "{error}");
    settle(|| async { world.server.fixture().watches().is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn members_inside_have_no_watch() {
    let world = world().await;
    let (_a, a) = enter(&world, 2).await;
    let (_b, b) = enter(&world, 2).await;
    let _both = (inside(a).await, inside(b).await);
    settle(|| async { world.server.fixture().watches().is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_created_by_hand_takes_part_as_in_curator() {
    let world = world().await;
    let curator = world.client().await;
    curator.create("/barriers", "").await.unwrap();
    curator.create(PATH, "data of its own").await.unwrap();
    curator.create(format!("{PATH}/0a-member"), "").ephemeral().await.unwrap();
    let (_a, entering) = enter(&world, 2).await;
    let inside = inside(entering).await;
    assert!(curator.exists(format!("{PATH}/ready")).await.unwrap().is_some());
    assert_eq!(curator.get_data(PATH).await.unwrap().0, "data of its own");
    let leaving = start(inside.leave()).await;
    assert!(!leaving.is_finished());
    // It has the lowest name, so it leaves last and deletes `ready`.
    assert_eq!(children(&curator).await, ["0a-member", "ready"]);
    curator.delete(format!("{PATH}/0a-member")).await.unwrap();
    leaving.await.unwrap().unwrap();
    let gone = curator.delete(format!("{PATH}/ready")).await;
    assert!(gone.is_err(), "our member has deleted it");
}

#[tokio::test(start_paused = true)]
async fn a_ready_znode_younger_than_a_member_lets_it_in_whoever_created_it() {
    let world = world().await;
    let (a, entering) = enter(&world, 5).await;
    a.create(format!("{PATH}/ready"), "").await.unwrap();
    let inside = inside(entering).await;
    inside.leave().await.unwrap();
    assert_eq!(children(&a).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_large_barrier_opens_in_one_transaction() {
    let world = world().await;
    let mut entering = Vec::new();
    for _ in 0..30 {
        entering.push(enter(&world, 30).await);
    }
    let mut members = Vec::new();
    for (client, entering) in entering {
        members.push((client, inside(entering).await));
    }
    let (observer, ready) = (world.client().await, format!("{PATH}/ready"));
    let began = observer.exists(&ready).await.unwrap().unwrap().czxid;
    for (_, member) in &members {
        let joined: Zxid = observer.exists(member.node()).await.unwrap().unwrap().czxid;
        assert!(joined < began);
    }
    let leaving: Vec<_> =
        members.into_iter().map(|(client, member)| (client, tokio::spawn(member.leave()))).collect();
    for (_, leaving) in leaving {
        leaving.await.unwrap().unwrap();
    }
    assert_eq!(children(&observer).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_the_caller_leaves_nothing_behind() {
    let world = world().await;
    let (client, waited) = barrier(&world).await;
    waited.raise().await.unwrap();
    let timeout = Duration::from_secs(1);
    assert!(world.clock.timeout(timeout, waited.wait()).await.is_err());
    waited.lower().await.unwrap();
    let barrier = DoubleBarrier::new(&client, PATH, 2);
    assert!(world.clock.timeout(timeout, barrier.enter()).await.is_err());
    settle(|| async { children(&client).await.is_empty() }).await;
}
