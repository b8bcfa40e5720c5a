//! Every error of a lock and every way to lose one, each in a situation that brings it about.

use std::time::Duration;

use tokio::time::Instant;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Acl, Client, Clock, ErrorCode, Perms, SessionState};
use zoolet_recipes::{
    ForeignPolicy, HoldState, Lock, LockError, LostReason, ParentMode, Released, RwLock, Semaphore,
    SuspendPolicy,
};
use zoolet_server::Server;
use zoolet_server::fault::request;

use crate::common::{DIR, TIMEOUT, World, settle, world};

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn timeout_when_somebody_else_holds_it_for_too_long() {
    let world = world().await;
    let ((_a, one), (_b, two)) = (world.lock().await, world.lock().await);
    let _held = one.acquire().await.unwrap();
    let refused = two.acquire().timeout(SHORT).await.unwrap_err();
    assert!(matches!(&refused, LockError::Timeout { dir } if dir == DIR), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn session_over_and_session_closed_when_the_client_is_closed() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    zk.close().await.unwrap();
    assert_eq!(guard.lost().await, LostReason::SessionClosed);
    let refused = lock.acquire().await.unwrap_err();
    let closed = matches!(refused, LockError::SessionOver { reason: LostReason::SessionClosed, .. });
    assert!(closed, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn session_expired_when_the_server_says_so() {
    let world = world().await;
    // A lease that ends first would be the reason otherwise: this holder comes back too late, and is told.
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let fixture = world.server.fixture();
    fixture.expire_session(zk.session_id()).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::SessionExpired);
    let refused = lock.acquire().await.unwrap_err();
    let expired = matches!(refused, LockError::SessionOver { reason: LostReason::SessionExpired, .. });
    assert!(expired, "{refused}");
    assert_eq!(guard.release().await.unwrap(), Released::AlreadyGone);
}

#[tokio::test(start_paused = true)]
async fn auth_failed_when_the_server_refuses_credentials() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    zk.add_auth("no-such-scheme", "secret").await.unwrap_err();
    assert_eq!(guard.lost().await, LostReason::AuthFailed);
    let refused = lock.acquire().await.unwrap_err();
    let failed = matches!(refused, LockError::SessionOver { reason: LostReason::AuthFailed, .. });
    assert!(failed, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn lease_elapsed_when_no_server_is_reached_and_not_held_for_what_comes_then() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let contact = zk.last_contact();
    world.server.shutdown().await;
    assert_eq!(guard.lost().await, LostReason::LeaseElapsed);
    assert!(contact.elapsed() <= TIMEOUT);
    let refused = guard.fenced().delete("/x").commit().await.unwrap_err();
    assert!(matches!(refused, LockError::NotHeld { reason: LostReason::LeaseElapsed, .. }), "{refused}");
}

/// A member that has lost its leader, and does not know it, answers pings and reads as before.
#[tokio::test(start_paused = true)]
async fn lease_elapsed_of_a_strict_lock_at_a_server_that_answers_reads_but_writes_no_more() {
    for strict in [true, false] {
        let builder = Server::builder().tick_time(Duration::from_millis(500)).simulated_ensemble(2);
        let world = World { server: builder.start().await.unwrap(), clock: Clock::tokio() };
        let zk = world.client().await;
        let lock = Lock::builder(&zk, DIR).strict(strict).build();
        let guard = lock.acquire().await.unwrap();
        let begin = Instant::now();
        // From now on it hears nothing of what the others do, not of its own writes either.
        world.server.fixture().endpoint(0).unwrap().lag().await.unwrap();
        let reading = tokio::spawn(async move {
            // The connection is of use: what is read is answered.
            while zk.exists("/").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        let lost = tokio::time::timeout(2 * TIMEOUT, guard.lost()).await;
        assert_eq!(lost.ok(), strict.then_some(LostReason::LeaseElapsed));
        if strict {
            assert!(begin.elapsed() <= TIMEOUT, "{:?} is too late", begin.elapsed());
        }
        reading.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_strict_lock_is_held_as_long_as_its_writes_are_answered_and_finds_out_that_it_was_evicted() {
    let world = world().await;
    let (zk, other) = (world.client().await, world.client().await);
    let guard = Lock::builder(&zk, DIR).strict(true).build().acquire().await.unwrap();
    tokio::time::sleep(20 * TIMEOUT).await;
    assert_eq!(guard.state(), HoldState::Held);
    assert!(guard.lease_left() > TIMEOUT / 2, "{:?}", guard.lease_left());
    other.delete(guard.node()).await.unwrap();
    let evicted = Instant::now();
    assert_eq!(guard.lost().await, LostReason::NodeDeleted);
    assert!(evicted.elapsed() <= TIMEOUT / 3);
}

#[tokio::test(start_paused = true)]
async fn suspended_when_a_lost_connection_is_to_be_fatal() {
    let world = world().await;
    let zk = world.client().await;
    let lock = Lock::builder(&zk, DIR).on_suspend(SuspendPolicy::Lost).build();
    let guard = lock.acquire().await.unwrap();
    let fixture = world.server.fixture();
    fixture.disconnect(zk.session_id()).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Suspended);
    let mut states = zk.states();
    while states.next().await != Some(SessionState::Connected) {}
    // It is given up for good, though the session lives.
    settle(|| async { zk.get_ephemerals("/").await.unwrap().is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn verifying_asks_again_where_the_answer_is_lost_and_ends_when_the_lock_does() {
    let world = world().await;
    let (_zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let faults = world.server.fixture().faults();
    faults.on(request().nth(1)).lose_reply().unwrap();
    guard.verify().await.unwrap();
    assert_eq!(faults.fired().len(), 1);
    world.server.shutdown().await;
    let refused = guard.verify().await.unwrap_err();
    assert!(matches!(refused, LockError::NotHeld { reason: LostReason::LeaseElapsed, .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn node_deleted_when_somebody_evicts_a_waiter_or_a_holder() {
    let world = world().await;
    let ((zk, one), (_b, two)) = (world.lock().await, world.lock().await);
    let watching = Lock::builder(&zk, DIR).watch_own_node(true).build();
    let guard = watching.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { two.acquire().await });
    settle(|| async { one.contenders().await.unwrap().len() == 2 }).await;
    zk.delete(one.contenders().await.unwrap().pop().unwrap().path).await.unwrap();
    zk.delete(guard.node()).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::NodeDeleted);
    let refused = waiting.await.unwrap().unwrap_err();
    assert!(matches!(refused, LockError::NodeDeleted { .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn node_deleted_is_known_to_the_guard_and_all_that_depends_on_it_once_a_fenced_write_was_refused() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let (other, lost) = (guard.reenter(), guard.lost());
    zk.delete(guard.node()).await.unwrap();
    assert_eq!(guard.state(), HoldState::Held, "nobody has told it");
    let refused = guard.fenced().create("/x", "").commit().await.unwrap_err();
    assert!(matches!(refused, LockError::NotHeld { reason: LostReason::NodeDeleted, .. }), "{refused}");
    assert_eq!(lost.await, LostReason::NodeDeleted);
    assert_eq!(other.state(), HoldState::Lost(LostReason::NodeDeleted));
    assert_eq!(other.run(std::future::pending::<()>()).await, Err(LostReason::NodeDeleted));
    drop(guard);
    assert_eq!(other.release().await.unwrap(), Released::AlreadyGone);
}

#[tokio::test(start_paused = true)]
async fn no_auth_when_an_acl_denies_what_the_lock_needs() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    zk.create("/locks", "").await.unwrap();
    let reading = vec![Acl { perms: Perms::READ | Perms::ADMIN, ..Acl::open().remove(0) }];
    zk.create(DIR, "").acl(reading).await.unwrap();
    let refused = lock.acquire().await.unwrap_err();
    assert!(matches!(&refused, LockError::NoAuth { dir } if dir == DIR), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_directory_that_is_there_needs_no_right_to_create_those_above_it() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    zk.create("/locks", "").await.unwrap();
    let reading = vec![Acl { perms: Perms::READ | Perms::ADMIN, ..Acl::open().remove(0) }];
    zk.set_acl("/locks", reading).await.unwrap();
    let refused = lock.acquire().await.unwrap_err();
    assert!(
        matches!(refused, LockError::NoAuth { .. }),
        "there is no directory, and it may not be made: {refused}"
    );
    zk.set_acl("/locks", Acl::open()).await.unwrap();
    zk.create(DIR, "").await.unwrap();
    zk.set_acl("/", vec![Acl { perms: Perms::READ | Perms::ADMIN, ..Acl::open().remove(0) }]).await.unwrap();
    let below = Lock::new(&zk, format!("{DIR}/below"));
    below.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_parent_when_the_directory_is_not_to_be_made_or_cannot_have_children() {
    let world = world().await;
    let (zk, _) = world.lock().await;
    let strict = Lock::builder(&zk, DIR).parent(ParentMode::MustExist).build();
    let refused = strict.acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::NoParent { code: ErrorCode::NoNode, .. }), "{refused}");
    zk.create("/brief", "").ephemeral().await.unwrap();
    let refused = Lock::new(&zk, "/brief").acquire().await.unwrap_err();
    let childless = matches!(refused, LockError::NoParent { code: ErrorCode::NoChildrenForEphemerals, .. });
    assert!(childless, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn foreign_when_a_strict_lock_finds_something_else_in_its_directory() {
    let world = world().await;
    let (zk, _) = world.lock().await;
    zk.create("/locks", "").await.unwrap();
    zk.create(DIR, "").await.unwrap();
    zk.create(format!("{DIR}/readme"), "").await.unwrap();
    let strict = Lock::builder(&zk, DIR).foreign(ForeignPolicy::Reject).build();
    let refused = strict.acquire().await.unwrap_err();
    assert!(matches!(&refused, LockError::Foreign { name, .. } if name == "readme"), "{refused}");
    assert!(zk.get_ephemerals("/").await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn queue_full_when_more_wait_than_are_allowed() {
    let world = world().await;
    let ((zk, one), (_b, two)) = (world.lock().await, world.lock().await);
    let _held = one.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { two.acquire().await.map(drop) });
    settle(|| async { one.contenders().await.unwrap().len() == 2 }).await;
    let short = Lock::builder(&zk, DIR).max_queue(1).build();
    let refused = short.acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::QueueFull { len: 2, .. }), "{refused}");
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn not_alone_and_reentered_when_a_lock_cannot_be_changed() {
    let world = world().await;
    let zk: Client = world.client().await;
    let lock = RwLock::new(&zk, DIR);
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    let (one, refused) = one.try_upgrade().await.unwrap_err();
    assert!(matches!(&refused, LockError::NotAlone { dir } if dir == DIR), "{refused}");
    two.release().await.unwrap();
    let other = one.reenter();
    let (_one, refused) = one.try_upgrade().await.unwrap_err();
    assert!(matches!(&refused, LockError::Reentered { dir } if dir == DIR), "{refused}");
    other.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn permit_limit_and_permits_differ_when_a_semaphore_has_not_so_many_or_was_made_for_others() {
    let world = world().await;
    let zk = world.client().await;
    let refused = Semaphore::new(&zk, DIR, 2).acquire(3).await.unwrap_err();
    assert!(matches!(refused, LockError::PermitLimit { wanted: 3, limit: 2, .. }), "{refused}");
    Semaphore::new(&zk, DIR, 2).acquire(1).await.unwrap().release().await.unwrap();
    let refused = Semaphore::new(&zk, DIR, 4).acquire(1).await.unwrap_err();
    assert!(matches!(refused, LockError::PermitsDiffer { ours: 4, theirs: 2, .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_or_the_client_refuses_besides_is_told_as_it_is() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let refused = Lock::new(&zk, "no/slash").acquire().await.unwrap_err();
    assert!(matches!(&refused, LockError::Client(error) if error.code() == Some(ErrorCode::BadArguments)));
    let refused = lock.acquire().data(vec![0; 2 << 20]).await.unwrap_err();
    assert!(matches!(refused, LockError::Client(_)), "{refused}");
    let guard = lock.acquire().await.unwrap();
    let refused = guard.fenced().delete("/nothing").commit().await.unwrap_err();
    let LockError::Client(error) = &refused else { panic!("{refused}") };
    assert_eq!((error.code(), error.failed_operation()), (Some(ErrorCode::NoNode), Some(0)));
    guard.verify().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn client_a_fenced_write_that_is_refused_is_told_by_its_own_number_and_path_also_when_by_an_acl() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    zk.create("/protected", "").acl(Acl::read_only()).await.unwrap();
    let guard = lock.acquire().await.unwrap();
    let refused = guard.fenced().create("/ok", "").set_data("/protected", "x").commit().await.unwrap_err();
    let LockError::Client(error) = refused else { panic!("{refused}") };
    assert_eq!((error.failed_operation(), error.code()), (Some(1), Some(ErrorCode::NoAuth)));
    assert_eq!(error.context().unwrap().path(), "/protected");
    assert_eq!(zk.exists("/ok").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn no_auth_when_a_check_of_the_lock_is_refused_and_none_of_the_callers_writes() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let hidden = vec![Acl { perms: Perms::ADMIN, ..Acl::open().remove(0) }];
    zk.set_acl(guard.node(), hidden).await.unwrap();
    let refused = guard.fenced().create("/ok", "").commit().await.unwrap_err();
    assert!(matches!(&refused, LockError::NoAuth { dir } if dir == DIR), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn session_over_says_whether_a_fenced_write_may_have_happened() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let other = world.client().await;
    let guard = lock.acquire().await.unwrap();
    let on = request().path("/effect").session(zk.session_id());
    world.server.fixture().faults().on(on).delay_reply(Duration::from_secs(3600)).unwrap();
    let writing = async { guard.fenced().create("/effect", "").commit().await.unwrap_err() };
    let closing = async {
        settle(|| async { other.exists("/effect").await.unwrap().is_some() }).await;
        zk.close().await
    };
    let (unknown, _) = tokio::join!(writing, closing);
    assert!(matches!(unknown, LockError::SessionOver { .. }) && unknown.may_have_applied(), "{unknown}");

    let (late, lock) = world.lock().await;
    late.close().await.unwrap();
    let refused = lock.acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::SessionOver { .. }) && !refused.may_have_applied(), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn client_a_fenced_write_whose_reply_is_lost_may_have_happened_and_a_refused_one_has_not() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let on = request().path("/effect").session(zk.session_id()).nth(1);
    world.server.fixture().faults().on(on).lose_reply().unwrap();
    let unknown = guard.fenced().create("/effect", "").commit().await.unwrap_err();
    assert!(unknown.may_have_applied(), "{unknown}");
    let refused = guard.fenced().create("/effect", "").commit().await.unwrap_err();
    assert!(!refused.may_have_applied(), "{refused}");
}
