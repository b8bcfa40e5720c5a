//! The times of a lock on a clock that the test moves, and that the server has too.

use std::future::IntoFuture;
use std::time::Duration;

use zoolet_client::internal::ClientExt as _;
use zoolet_client::{AddWatchMode, Client, Clock, SessionId, SessionState};
use zoolet_fixture::FixtureExt as _;
use zoolet_fixture::fault::{handshake, op};
use zoolet_proto::OpCode;
use zoolet_recipes::{HoldState, Lock, LockError, LostReason, Released, Tickets};

use crate::common::record::Record;
use crate::common::{DIR, TIMEOUT, World, at_once, pass, pass_in_steps, queue, settle, world_on};

const MS: Duration = Duration::from_millis(1);

/// The session timeout less the reserved tenth.
const LEASE: Duration = Duration::from_millis(3600);

#[tokio::test(start_paused = true)]
async fn without_a_server_the_lock_is_lost_when_the_lease_ends_and_not_before() {
    let world = world_on(Clock::manual()).await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    pass_in_steps(&world.clock, Duration::from_secs(1)).await;
    assert_eq!(guard.lease_left(), LEASE - Duration::from_secs(1));
    world.server.shutdown().await;
    settle(|| async { zk.state() == SessionState::Disconnected }).await;
    let since = world.clock.now();
    pass_in_steps(&world.clock, LEASE - Duration::from_secs(1) - MS).await;
    assert_eq!(guard.state(), HoldState::Suspect { since });
    assert_eq!(guard.lease_left(), MS);
    assert_eq!(at_once(guard.lost()).await, None);
    pass(&world.clock, MS).await;
    assert_eq!(at_once(guard.lost()).await, Some(LostReason::LeaseElapsed));
    assert_eq!(guard.lease_left(), Duration::ZERO);
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyGone);
}

#[tokio::test(start_paused = true)]
async fn the_lease_ends_also_on_a_connection_that_looks_alive() {
    let world = world_on(Clock::manual()).await;
    let (writer, other) = world.lock().await;
    writer.create("/news", "").await.unwrap();
    let record = Record::default();
    let zk = world.options().connect(record.connector(world.server.in_process())).await.unwrap();
    let mut news = zk.add_watch("/news", AddWatchMode::Persistent).await.unwrap();
    let guard = Lock::new(&zk, DIR).acquire().await.unwrap();
    let begin = world.clock.now();
    assert_eq!(zk.last_contact(), begin);
    record.deafen();
    while world.clock.now() < begin + LEASE - 100 * MS {
        assert_eq!((guard.state(), zk.state()), (HoldState::Held, SessionState::Connected));
        pass_in_steps(&world.clock, 500 * MS).await;
        writer.set_data("/news", "").await.unwrap();
        news.next().await.unwrap();
    }
    pass_in_steps(&world.clock, 100 * MS - MS).await;
    assert_eq!(at_once(guard.lost()).await, None);
    assert!(other.try_acquire().await.unwrap().is_none());
    pass(&world.clock, MS).await;
    assert_eq!(at_once(guard.lost()).await, Some(LostReason::LeaseElapsed));
    assert_eq!(zk.state(), SessionState::Connected, "it received events all the time");
    assert!(
        other.try_acquire().await.unwrap().is_none(),
        "the next one enters only after the loss was reported"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lock_whose_client_pings_is_held_for_any_time() {
    let world = world_on(Clock::manual()).await;
    let (_zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    for _ in 0..20 {
        pass_in_steps(&world.clock, 3 * TIMEOUT / 2).await;
        assert_eq!(guard.state(), HoldState::Held);
        assert!(guard.lease_left() >= TIMEOUT / 2, "{:?}", guard.lease_left());
    }
    guard.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_is_given_its_time() {
    let world = world_on(Clock::manual()).await;
    let (zk, one) = world.lock().await;
    let (_b, two) = world.lock().await;
    let held = one.acquire().timeout(Duration::MAX).await.unwrap();
    let waiting = tokio::spawn(async move { two.acquire().timeout(Duration::from_secs(1)).await });
    settle(|| async { queue(&zk).await.len() == 2 }).await;
    pass(&world.clock, Duration::from_secs(1) - MS).await;
    settle(|| async { queue(&zk).await.len() == 2 }).await;
    assert!(!waiting.is_finished());
    pass(&world.clock, MS).await;
    assert!(waiting.is_finished());
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Timeout { .. }), "{error}");
    settle(|| async { queue(&zk).await.len() == 1 }).await;
    assert_eq!(held.state(), HoldState::Held);
}

/// A client on a machine of its own, whose clock can be suspended alone.
async fn sleeper(world: &World) -> (Clock, Client) {
    let clock = Clock::manual();
    let zk = world.options().clock(clock.clone()).connect(world.server.in_process()).await.unwrap();
    (clock, zk)
}

#[tokio::test(start_paused = true)]
async fn after_a_suspension_longer_than_the_lease_the_guard_knows_at_once_that_the_lock_is_lost() {
    let world = world_on(Clock::manual()).await;
    let (clock, zk) = sleeper(&world).await;
    let guard = Lock::new(&zk, DIR).acquire().await.unwrap();
    clock.suspend(LEASE - MS).unwrap();
    assert_eq!((guard.state(), guard.lease_left()), (HoldState::Held, MS));
    clock.suspend(MS).unwrap();
    // No timer has fired, and no task has run.
    assert_eq!(guard.state(), HoldState::Lost(LostReason::LeaseElapsed));
    assert_eq!((guard.lease_left(), zk.state()), (Duration::ZERO, SessionState::Connected));
    assert_eq!(at_once(guard.lost()).await, Some(LostReason::LeaseElapsed));
    // The server was suspended too: the session lives, and the lock is given up although the guard is not dropped.
    let (_b, other) = world.lock().await;
    let _next = other.acquire().await.unwrap();
    assert!(matches!(guard.verify().await, Err(LockError::NotHeld { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_loss_by_a_suspension_is_reported_within_a_third_of_the_session_timeout() {
    let world = world_on(Clock::manual()).await;
    let (clock, zk) = sleeper(&world).await;
    let guard = Lock::new(&zk, DIR).acquire().await.unwrap();
    clock.suspend(Duration::from_secs(3600)).unwrap();
    pass_in_steps(&clock, TIMEOUT / 3).await;
    assert_eq!(at_once(guard.lost()).await, Some(LostReason::LeaseElapsed));
    let (_b, other) = world.lock().await;
    let _next = other.acquire().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_suspension_shorter_than_the_lease_costs_a_connection_and_not_the_lock() {
    let world = world_on(Clock::manual()).await;
    let (clock, zk) = sleeper(&world).await;
    let guard = Lock::new(&zk, DIR).acquire().await.unwrap();
    clock.suspend(TIMEOUT / 2).unwrap();
    pass_in_steps(&clock, TIMEOUT / 3).await;
    pass_in_steps(&clock, TIMEOUT).await;
    guard.verify().await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_is_generated_after_a_suspension_has_the_time_after_it() {
    let world = world_on(Clock::manual()).await;
    let (clock, zk) = sleeper(&world).await;
    let tickets = Tickets::new(&zk, "/idem");
    let before = tickets.generate();
    clock.suspend(Duration::from_secs(3600)).unwrap();
    assert_eq!(tickets.generate().unix_millis() - before.unix_millis(), 3_600_000);
}

/// From now on no server answers this client.
async fn cut_off(world: &World, session: SessionId) {
    let fixture = world.server.fixture();
    fixture.faults().on(handshake().session(session)).freeze().unwrap();
    fixture.freeze(session).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_a_strict_lock_counts_from_the_sending_of_a_proof_and_not_from_its_answer() {
    let late = Duration::from_secs(1);
    for (nth, sent) in [(1, Duration::ZERO), (2, TIMEOUT / 3)] {
        let world = world_on(Clock::manual()).await;
        let zk = world.client().await;
        let begin = world.clock.now();
        let faults = world.server.fixture().faults();
        faults.on(op(OpCode::Multi).session(zk.session_id()).nth(nth)).delay_reply(late).unwrap();
        let lock = Lock::builder(&zk, DIR).strict(true).build();
        let acquiring = tokio::spawn(async move { lock.acquire().await.unwrap() });
        settle(|| async { acquiring.is_finished() || !faults.fired().is_empty() }).await;
        pass_in_steps(&world.clock, sent + late).await;
        let guard = acquiring.await.unwrap();
        cut_off(&world, zk.session_id()).await;
        pass_in_steps(&world.clock, LEASE - late - MS).await;
        assert_eq!(world.clock.now(), begin + sent + LEASE - MS);
        assert_eq!((at_once(guard.lost()).await, guard.lease_left()), (None, MS), "proof {nth}");
        pass_in_steps(&world.clock, MS).await;
        assert_eq!(at_once(guard.lost()).await, Some(LostReason::LeaseElapsed), "proof {nth}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_to_an_identity_does_not_extend_the_lease_as_it_does_not_renew_the_session() {
    let world = world_on(Clock::manual()).await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let pings = op(OpCode::Ping).session(zk.session_id());
    world.server.fixture().faults().on(pings).withhold_reply().unwrap();
    for second in 1..=3 {
        pass_in_steps(&world.clock, Duration::from_secs(1)).await;
        zk.add_auth("digest", "ann:secret").await.unwrap();
        assert_eq!(guard.lease_left(), LEASE - Duration::from_secs(second));
    }
    pass_in_steps(&world.clock, LEASE - Duration::from_secs(3)).await;
    assert_eq!(at_once(guard.lost()).await, Some(LostReason::LeaseElapsed));
    assert_eq!(zk.state(), SessionState::Connected, "it was answered all the time");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_gives_its_session_up_has_lost_its_locks_before_and_waits_for_no_other() {
    let world = world_on(Clock::manual()).await;
    let options = world.options().expire_locally(true);
    let zk = options.connect(world.server.in_process()).await.unwrap();
    let guard = Lock::new(&zk, DIR).acquire().await.unwrap();
    world.server.shutdown().await;
    settle(|| async { zk.state() == SessionState::Disconnected }).await;
    let waiting = tokio::spawn(Lock::new(&zk, "/locks/other").acquire().into_future());
    pass_in_steps(&world.clock, LEASE).await;
    assert_eq!(at_once(guard.lost()).await, Some(LostReason::LeaseElapsed));
    assert_eq!(zk.state(), SessionState::Disconnected, "not given up yet");
    pass_in_steps(&world.clock, TIMEOUT - LEASE).await;
    assert_eq!(zk.state(), SessionState::Expired);
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::SessionOver { reason: LostReason::SessionExpired, .. }), "{error}");
}
