//! Every error of a lock and every way to lose one, each in a situation that causes it.

use std::time::Duration;
use zoolet_fixture::EnsembleExt as _;
use zoolet_fixture::FixtureExt as _;

use tokio::time::Instant;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Acl, Client, Clock, ErrorCode, Perms, SessionState};
use zoolet_fixture::fault::request;
use zoolet_recipes::{
    Algorithm, ForeignPolicy, HoldState, Lock, LockError, LostReason, ParentMode, Released, RwLock,
    Semaphore, SuspendPolicy,
};
use zoolet_server::Server;

use crate::common::{DIR, TIMEOUT, World, settle, world};

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn timeout_when_somebody_else_holds_the_lock_for_too_long() {
    let world = world().await;
    let ((_a, one), (_b, two)) = (world.lock().await, world.lock().await);
    let _held = one.acquire().await.unwrap();
    let refused = two.acquire().timeout(SHORT).await.unwrap_err();
    assert!(matches!(&refused, LockError::Timeout { dir, .. } if dir == DIR), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_names_the_contender_in_front_and_whether_it_is_of_the_same_session() {
    let world = world().await;
    for algorithm in [Algorithm::Predecessor, Algorithm::SingleNode] {
        let dir = format!("/locks/{algorithm:?}");
        let (a, b) = (world.client().await, world.client().await);
        let [one, two] = [&a, &b].map(|zk| Lock::builder(zk, &dir).algorithm(algorithm).build());
        let held = one.acquire().data("by a").await.unwrap();
        let (node, session) = (held.node(), a.session_id());
        let refused = two.acquire().timeout(SHORT).await.unwrap_err();
        let text = format!("lock {dir}: not acquired in time; in front is {node} of session {session}");
        assert_eq!(refused.to_string(), text);
        let LockError::Timeout { in_front: Some(in_front), is_own: false, .. } = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(in_front.data, "by a");
        let refused = one.acquire().timeout(SHORT).await.unwrap_err();
        let text = format!(
            "lock {dir}: not acquired in time; in front is {node} of this very session: see `Guard::reenter`; in \
             a resumed session, delete it"
        );
        assert_eq!(refused.to_string(), text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_without_a_server_says_why_none_is_reached() {
    let world = world().await;
    let (_zk, lock) = world.lock().await;
    world.server.shutdown().await;
    let refused = lock.acquire().timeout(SHORT).await.unwrap_err().to_string();
    let text = format!("lock {DIR}: not acquired in time; last connection error: ");
    assert!(refused.starts_with(&text), "{refused}");
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
async fn session_expired_when_the_server_reports_it() {
    let world = world().await;
    // This holder reconnects too late and learns that its session expired. Otherwise the end of the lease would be the reason.
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
async fn auth_failed_when_the_server_rejects_credentials() {
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
async fn lease_elapsed_when_no_server_is_reached_and_not_held_for_later_calls() {
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

/// A member that has lost its leader without knowing answers pings and reads as before.
#[tokio::test(start_paused = true)]
async fn lease_elapsed_of_a_strict_lock_at_a_server_that_answers_reads_only() {
    for strict in [true, false] {
        let builder = Server::builder().tick_time(Duration::from_millis(500)).simulated_ensemble(2);
        let world = World { server: builder.start().await.unwrap(), clock: Clock::tokio() };
        let zk = world.client().await;
        let lock = Lock::builder(&zk, DIR).strict(strict).build();
        let guard = lock.acquire().await.unwrap();
        let begin = Instant::now();
        // From now on it receives no transactions, not even those of its own writes.
        world.server.fixture().endpoint(0).unwrap().lag().await.unwrap();
        let reading = tokio::spawn(async move {
            // The connection works: reads are answered.
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
async fn a_strict_lock_is_held_while_its_writes_are_answered_and_notices_its_eviction() {
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
async fn suspended_when_a_lost_connection_is_configured_as_fatal() {
    let world = world().await;
    let zk = world.client().await;
    let lock = Lock::builder(&zk, DIR).on_suspend(SuspendPolicy::Lost).build();
    let guard = lock.acquire().await.unwrap();
    let fixture = world.server.fixture();
    fixture.disconnect(zk.session_id()).await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Suspended);
    let mut states = zk.states();
    while states.next().await != Some(SessionState::Connected) {}
    // The lock is given up for good although the session is alive.
    settle(|| async { zk.get_ephemerals("/").await.unwrap().is_empty() }).await;
}

#[tokio::test(start_paused = true)]
async fn verify_retries_after_a_lost_reply_and_ends_when_the_lock_is_lost() {
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
async fn node_deleted_is_known_to_the_guard_after_a_fenced_write_was_refused() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let (other, lost) = (guard.reenter(), guard.lost());
    zk.delete(guard.node()).await.unwrap();
    assert_eq!(guard.state(), HoldState::Held, "it has not noticed yet");
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
async fn an_existing_directory_needs_no_right_to_create_its_parents() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    zk.create("/locks", "").await.unwrap();
    let reading = vec![Acl { perms: Perms::READ | Perms::ADMIN, ..Acl::open().remove(0) }];
    zk.set_acl("/locks", reading).await.unwrap();
    let refused = lock.acquire().await.unwrap_err();
    assert!(
        matches!(refused, LockError::NoAuth { .. }),
        "the directory is missing and must not be created: {refused}"
    );
    zk.set_acl("/locks", Acl::open()).await.unwrap();
    zk.create(DIR, "").await.unwrap();
    zk.set_acl("/", vec![Acl { perms: Perms::READ | Perms::ADMIN, ..Acl::open().remove(0) }]).await.unwrap();
    let below = Lock::new(&zk, format!("{DIR}/below"));
    below.acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn no_parent_when_the_directory_must_not_be_created_or_cannot_have_children() {
    let world = world().await;
    let (zk, _) = world.lock().await;
    let strict = Lock::builder(&zk, DIR).parent(ParentMode::MustExist).build();
    let refused = strict.acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::NoParent { code: ErrorCode::NoNode, .. }), "{refused}");
    let text = refused.to_string();
    let advice = format!("its parent {DIR} does not exist, and `ParentMode::MustExist` is set");
    assert!(text.ends_with(&advice), "{text}");
    zk.create("/brief", "").ephemeral().await.unwrap();
    let refused = Lock::new(&zk, "/brief").acquire().await.unwrap_err();
    let childless = matches!(refused, LockError::NoParent { code: ErrorCode::NoChildrenForEphemerals, .. });
    assert!(childless, "{refused}");
    // Also if it is further above.
    let refused = Lock::new(&zk, "/brief/locks/a").acquire().await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "lock /brief/locks/a: the directory does not exist: createContainer /brief/locks: \
         ephemerals may not have children; its parent /brief is ephemeral"
    );
    let refused = zk.create("/brief/a/b", "").parents().await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NoChildrenForEphemerals), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_chroot_and_a_relative_path_are_named() {
    let world = world().await;
    let (zk, _) = world.lock().await;
    let below = zk.chroot("/missing").unwrap();
    let refused = Lock::new(&below, "/locks/a").acquire().await.unwrap_err();
    assert!(matches!(refused, LockError::NoParent { .. }), "{refused:?}");
    assert_eq!(
        refused.to_string(),
        "lock /locks/a: the directory does not exist: createContainer /locks: no such znode; the chroot /missing does not exist"
    );
    let refused = Lock::new(&zk, "lock").acquire().await.unwrap_err();
    assert_eq!(refused.to_string(), "lock lock: a path must start with /; did you mean /lock?");
}

#[tokio::test(start_paused = true)]
async fn foreign_when_a_rejecting_lock_finds_something_else_in_its_directory() {
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
async fn queue_full_when_more_contenders_wait_than_allowed() {
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
async fn permit_limit_and_permits_differ_when_the_number_does_not_fit_the_semaphore() {
    let world = world().await;
    let zk = world.client().await;
    let refused = Semaphore::new(&zk, DIR, 2).acquire(3).await.unwrap_err();
    assert!(matches!(refused, LockError::PermitLimit { wanted: 3, limit: 2, .. }), "{refused}");
    Semaphore::new(&zk, DIR, 2).acquire(1).await.unwrap().release().await.unwrap();
    let refused = Semaphore::new(&zk, DIR, 4).acquire(1).await.unwrap_err();
    assert!(matches!(refused, LockError::PermitsDiffer { ours: 4, theirs: 2, .. }), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn any_other_error_of_the_server_or_the_client_is_returned_as_it_is() {
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
async fn client_a_refused_fenced_write_is_reported_with_its_own_number_and_path() {
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
async fn no_auth_when_a_check_of_the_lock_is_refused_and_no_write_of_the_caller() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let hidden = vec![Acl { perms: Perms::ADMIN, ..Acl::open().remove(0) }];
    zk.set_acl(guard.node(), hidden).await.unwrap();
    let refused = guard.fenced().create("/ok", "").commit().await.unwrap_err();
    assert!(matches!(&refused, LockError::NoAuth { dir } if dir == DIR), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn session_over_reports_whether_a_fenced_write_may_have_been_executed() {
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
async fn client_a_fenced_write_whose_reply_is_lost_may_have_been_executed_and_a_refused_one_was_not() {
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
