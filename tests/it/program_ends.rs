//! The end of a program, as others see it: its runtime is dropped while it holds a lock, or has just released it. The server has
//! a runtime of its own and a clock that stands still, so that no session ends by its timeout.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zoolet::recipes::Guard;
use zoolet::{Client, Clock, Lock, Server};

/// In real time, and only if the lock stays held.
const TOO_LONG: Duration = Duration::from_secs(20);

/// Those that `#[tokio::main]` makes.
fn runtimes() -> [(&'static str, Runtime); 2] {
    let one = Builder::new_current_thread().enable_all().build().unwrap();
    let many = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    [("current_thread", one), ("multi_thread", many)]
}

/// Runs the end of a program that holds a lock, by TCP and in process, on each runtime. Then somebody else must get the lock.
fn frees_its_lock<F: Future<Output = ()>>(end: impl Fn(Client, Guard) -> F) {
    zoolet_test_support::limit();
    for tcp in [true, false] {
        for (flavor, program) in runtimes() {
            let outside = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let server = Server::builder().bind("127.0.0.1:0").clock(Clock::manual());
            let server = outside.block_on(server.start()).unwrap();
            let (connect, address) = (server.in_process(), server.connect_string());
            let main = async {
                let zk = if tcp { Client::connect(address).await } else { Client::connect(connect).await };
                let zk = zk.unwrap();
                let guard = Lock::new(&zk, "/locks/ledger").acquire().await.unwrap();
                end(zk, guard).await;
            };
            let _panicked = catch_unwind(AssertUnwindSafe(move || {
                let program = program;
                program.block_on(main);
            }));
            outside.block_on(async {
                let zk = Client::connect(server.in_process()).await.unwrap();
                let lock = Lock::new(&zk, "/locks/ledger");
                let next = tokio::time::timeout(TOO_LONG, lock.acquire()).await;
                let next = next.unwrap_or_else(|_| panic!("the lock stays held: {flavor}, TCP: {tcp}"));
                next.unwrap().release().await.unwrap();
                zk.close().await.unwrap();
                server.shutdown().await;
            });
        }
    }
}

#[test]
fn a_guard_that_is_dropped_before_the_end_of_main_frees_the_lock() {
    frees_its_lock(async |_zk, guard| drop(guard));
}

#[test]
fn a_guard_and_a_client_that_are_dropped_before_the_end_of_main_free_the_lock() {
    frees_its_lock(async |zk, guard| drop((guard, zk)));
}

#[test]
fn a_guard_that_main_holds_at_its_end_frees_the_lock() {
    frees_its_lock(async |_zk, _guard| {});
}

#[test]
fn a_guard_in_another_task_frees_the_lock_at_the_end_of_main() {
    frees_its_lock(async |zk, guard| {
        tokio::spawn(async move {
            let _held = (zk, guard);
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
    });
}

#[test]
fn a_main_that_panics_frees_the_lock() {
    frees_its_lock(async |_zk, _guard| panic!("as planned"));
}

/// The client is not dropped at all, but nobody drives it any more.
#[test]
fn a_client_in_a_static_frees_the_lock_at_the_end_of_main() {
    static KEPT: Mutex<Vec<(Client, Guard)>> = Mutex::new(Vec::new());
    frees_its_lock(async |zk, guard| KEPT.lock().unwrap().push((zk, guard)));
    assert!(KEPT.lock().unwrap().iter().all(|(zk, _)| zk.state().is_final()));
}

#[test]
fn a_lock_that_is_released_or_whose_client_is_closed_is_free_at_the_end_of_main() {
    frees_its_lock(async |_zk, guard| _ = guard.release().await.unwrap());
    frees_its_lock(async |zk, _guard| zk.close().await.unwrap());
}
