//! What a drop has sent before it returns: the same task on the same client then finds the lock free, because the requests of
//! a session are executed in order.

use std::future::{Future, IntoFuture};
use std::task::{Context, Poll, Waker};

use zoolet_client::Client;
use zoolet_fixture::FixtureExt as _;
use zoolet_recipes::{
    Acquire, Algorithm, Compat, DoubleBarrier, Election, Guard, Lock, LockError, MultiLock, RwLock, Semaphore,
};

use crate::common::{DIR, TIMEOUT, queue, settle, world};

/// How often each is tried.
const TIMES: usize = 100;

/// The second attempt is made in the same poll as the drop: no task runs in between.
async fn is_free_after_a_drop<G, F>(attempt: impl Fn() -> F)
where
    F: Future<Output = Option<G>>,
{
    for time in 0..TIMES {
        let guard = attempt().await.unwrap_or_else(|| panic!("attempt {time}: not free"));
        drop(guard);
    }
}

async fn is_free_after_the_drop_of_a(lock: Lock) {
    is_free_after_a_drop(|| async { lock.try_acquire().await.unwrap() }).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_has_dropped_its_guard_gets_the_lock_again_at_once() {
    let world = world().await;
    let zk = world.client().await;
    is_free_after_the_drop_of_a(Lock::new(&zk, DIR)).await;
    for algorithm in [Algorithm::ChildrenWatch, Algorithm::SingleNode] {
        let dir = format!("/locks/{algorithm:?}");
        is_free_after_the_drop_of_a(Lock::builder(&zk, dir).algorithm(algorithm).build()).await;
    }
    is_free_after_the_drop_of_a(Lock::builder(&zk, "/locks/dual").compat(Compat::DualKazoo).build()).await;
    is_free_after_the_drop_of_a(Lock::new(&zk.chroot("/locks").unwrap(), "/chrooted")).await;
}

#[tokio::test(start_paused = true)]
async fn the_guards_of_the_other_recipes_too_have_sent_their_delete_when_they_are_dropped() {
    let world = world().await;
    let zk = world.client().await;
    let rw = RwLock::new(&zk, "/locks/rw");
    is_free_after_a_drop(|| async { rw.try_write().await.unwrap() }).await;
    for _ in 0..TIMES {
        drop(rw.try_read().await.unwrap().expect("no writer"));
        assert!(rw.try_write().await.unwrap().is_some(), "a reader was left");
    }
    let slots = Semaphore::new(&zk, "/slots", 2);
    is_free_after_a_drop(|| async { slots.try_acquire(2).await.unwrap() }).await;
    let both = MultiLock::over(&zk, ["/locks/x", "/locks/y"]);
    is_free_after_a_drop(|| async { both.try_acquire().await.unwrap() }).await;
    let election = Election::new(&zk, "/election");
    for _ in 0..TIMES {
        drop(election.campaign("me").await.unwrap());
        assert_eq!(election.contenders().await.unwrap(), []);
    }
    let barrier = DoubleBarrier::new(&zk, "/barrier", 1);
    let inside = barrier.enter().await.unwrap();
    let node = inside.node().to_owned();
    drop(inside);
    assert_eq!(zk.exists(node).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_awaited_is_sent_as_well() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    for _ in 0..TIMES {
        let guard = lock.try_acquire().await.unwrap().expect("free");
        drop(guard.release());
        assert_eq!(queue(&zk).await, Vec::<String>::new());
    }
}

/// Near the end of its counter the directory is created anew as well, which needs a reply.
#[tokio::test(start_paused = true)]
async fn the_delete_is_sent_before_a_directory_with_a_low_counter_is_created_anew() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    zk.create("/locks", "").await.unwrap();
    zk.create(DIR, "").await.unwrap();
    world.server.fixture().set_counter(DIR, (1 << 30) + 7).await.unwrap();
    let before = zk.exists(DIR).await.unwrap().unwrap().czxid;
    drop(lock.acquire().await.unwrap());
    drop(lock.try_acquire().await.unwrap().expect("free"));
    settle(|| async { zk.exists(DIR).await.unwrap().is_some_and(|stat| stat.czxid > before) }).await;
}

async fn is_left_by_a_dropped<G: 'static>(zk: &Client, holder: Guard, acquire: impl Fn() -> Acquire<G>) {
    for _ in 0..TIMES {
        let mut waiting = Box::pin(acquire().into_future());
        settle(|| {
            let _ = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            async { queue(zk).await.len() == 2 }
        })
        .await;
        // Lets the task of the waiter receive the reply that names its znode.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        drop(waiting);
        assert_eq!(queue(zk).await.len(), 1, "its znode is there");
    }
    drop(holder);
    assert_eq!(queue(zk).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_has_left_the_queue_for_all_later_requests() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let holder = lock.acquire().await.unwrap();
    is_left_by_a_dropped(&zk, holder, || lock.acquire()).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_gave_up_after_its_timeout_has_left_the_queue_for_all_later_requests() {
    let world = world().await;
    let (zk, lock) = world.lock().await;
    let _holder = lock.acquire().await.unwrap();
    for _ in 0..TIMES {
        let error = lock.acquire().timeout(TIMEOUT / 10).await.unwrap_err();
        assert!(matches!(error, LockError::Timeout { .. }), "{error}");
        assert_eq!(queue(&zk).await.len(), 1, "its znode is there");
    }
}

/// The task of a guard may be polled by another thread at the moment of the drop.
#[test]
fn a_drop_has_sent_its_delete_whatever_the_other_threads_do() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = world().await;
        let mut contenders = Vec::new();
        for number in 0..8 {
            let (zk, lock) = world.lock().await;
            contenders.push(tokio::spawn(async move {
                for round in 0..TIMES / 2 {
                    // Some give up after a few polls, wherever they are then.
                    let mut polls = (round + number) % 7;
                    let mut acquiring = lock.acquire().into_future();
                    let guard = std::future::poll_fn(|cx| {
                        polls -= usize::from(round % 2 == 1 && polls > 0);
                        match acquiring.as_mut().poll(cx) {
                            Poll::Pending if round % 2 == 1 && polls == 0 => Poll::Ready(None),
                            acquired => acquired.map(Some),
                        }
                    });
                    let Some(guard) = guard.await else { continue };
                    let node = guard.unwrap().node().to_owned();
                    assert_eq!(zk.exists(node).await.unwrap(), None, "round {round}");
                }
            }));
        }
        for contender in contenders {
            contender.await.unwrap();
        }
        let (zk, lock) = world.lock().await;
        drop(lock.acquire().await.unwrap());
        assert_eq!(queue(&zk).await, Vec::<String>::new());
    });
}

/// By any executor: the tasks and timers are on the runtime of the session.
#[test]
fn a_lock_is_acquired_outside_of_a_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (world, zk, lock) = runtime.block_on(async {
        let world = world().await;
        let (zk, lock) = world.lock().await;
        (world, zk, lock)
    });
    let acquired = std::thread::spawn(move || {
        let mut acquiring = lock.acquire().timeout(TIMEOUT).into_future();
        loop {
            match acquiring.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(acquired) => return acquired.unwrap(),
                Poll::Pending => std::thread::yield_now(),
            }
        }
    });
    let guard = acquired.join().unwrap();
    assert_eq!(guard.session_id(), zk.session_id());
    drop((guard, runtime, world));
}

/// In a thread without a runtime, and after the runtime of the session is gone.
#[test]
fn a_guard_can_be_dropped_anywhere() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (world, zk, kept, moved) = runtime.block_on(async {
        let world = world().await;
        let (zk, lock) = world.lock().await;
        let moved = lock.acquire().await.unwrap();
        let kept = Lock::new(&zk, "/locks/kept").acquire().await.unwrap();
        (world, zk, kept, moved)
    });
    std::thread::spawn(move || drop(moved)).join().unwrap();
    let listed = runtime.block_on(zk.get_children(DIR).into_future()).unwrap().0;
    assert_eq!(listed, Vec::<String>::new());
    drop((runtime, world));
    drop(kept);
    assert!(zk.state().is_final(), "its runtime is gone");
}
