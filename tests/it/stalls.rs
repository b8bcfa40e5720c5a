//! A test that waits while its clock stands still fails, and one that does not wait for the clock goes on.

use std::pin::Pin;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use zoolet::testing::{FixtureError, TestServer, TestServerBuilder, op};
use zoolet::{Client, Clock, Lock};
use zoolet_proto::OpCode;
use zoolet_test_support::{limit, millis, secs};

const LIMIT: Duration = millis(50);

fn test_server() -> TestServerBuilder {
    TestServer::builder().stall_timeout(LIMIT)
}

/// Runs a test in a runtime of its own, and returns the message of its panic.
fn failure<F: Future<Output = ()>>(
    mut runtime: Builder,
    test: impl FnOnce() -> F + Send + 'static,
) -> Option<String> {
    limit();
    let run = move || runtime.enable_all().build().unwrap().block_on(test());
    let panic = std::thread::spawn(run).join().err()?;
    Some(panic.downcast_ref::<String>().expect("a panic with a message").clone())
}

/// As [`failure`], for a test that is to fail by the stall itself or by an error that follows from it.
fn stalls<F: Future<Output = ()>>(test: impl FnOnce() -> F + Send + 'static) -> String {
    failure(Builder::new_current_thread(), test).expect("it ends by a panic")
}

#[test]
fn a_caller_that_waits_for_the_clock_panics_and_is_named() {
    let line = line!() + 4;
    let message = stalls(|| async {
        let zk = test_server().start().await.unwrap();
        let (a, b) = (zk.client().await, zk.client().await);
        let _held = Lock::new(&a, "/lock").acquire().await.unwrap();
        let _ = Lock::new(&b, "/lock").acquire().timeout(secs(1)).await;
    });
    let expected = format!("acquire /lock, timeout 1s, at tests/it/stalls.rs:{}, waits while", line + 1);
    assert!(message.starts_with(&expected), "{message}");
}

#[test]
fn a_client_that_waits_for_a_network_to_heal_is_told_so() {
    let message = stalls(|| async {
        let zk = test_server().start().await.unwrap();
        let client = zk.client().await;
        zk.partition([client.session_id()]).await.unwrap();
        let _ = client.exists("/a").timeout(secs(1)).await;
    });
    assert!(message.contains("or, as the network is partitioned from 1 of the clients, `heal`"), "{message}");
}

/// Nobody else can know it: the client finds a port that is open, and no answer.
#[test]
fn a_program_that_blocks_the_runtime_of_the_server_is_named_in_the_report() {
    limit();
    let runtime = || Builder::new_current_thread().enable_all().build().unwrap();
    let (blocked, after) = runtime().block_on(async {
        let zk = test_server().tcp().start().await.unwrap();
        let program = zk.connect_string();
        let program = move || {
            let client = Client::options().connect_timeout(LIMIT);
            runtime().block_on(client.connect(program)).map(drop)
        };
        let unreachable = std::thread::spawn(program).join().unwrap();
        assert!(unreachable.is_err(), "the server cannot answer while its thread is joined");
        let blocked = zk.report();
        // Also when it runs again.
        zk.client().await;
        tokio::time::sleep(LIMIT).await;
        let usual = TestServer::start().await;
        assert!(!usual.report().contains("has not run for"), "{}", usual.report());
        (blocked, zk.report())
    });
    for report in [blocked, after] {
        assert!(report.contains("the runtime of the server has not run for"), "{report}");
        assert!(report.contains("something blocks its thread"), "{report}");
    }
}

#[test]
fn waiting_for_a_change_or_a_reply_or_a_znode_ends_with_an_error() {
    type Wait = fn(&TestServer) -> Pin<Box<dyn Future<Output = String> + '_>>;
    let watch: Wait = |zk| {
        Box::pin(async {
            let client = zk.client().await;
            let (_, never) = client.exists("/never").watch().await.unwrap();
            never.changed().await.unwrap_err().to_string()
        })
    };
    let reply: Wait = |zk| {
        Box::pin(async {
            let client = zk.client().await;
            zk.faults().on(op(OpCode::Exists)).withhold_reply().unwrap();
            client.exists("/a").timeout(secs(1)).await.unwrap_err().to_string()
        })
    };
    let lock: Wait = |zk| {
        Box::pin(async {
            let (a, b) = (zk.client().await, zk.client().await);
            let _held = Lock::new(&a, "/lock").acquire().await.unwrap();
            Lock::new(&b, "/lock").acquire().await.unwrap_err().to_string()
        })
    };
    let znode: Wait = |zk| {
        Box::pin(async {
            let _client = zk.client().await;
            zk.wait_for("/never", |znode| znode.is_some()).await.unwrap_err().to_string()
        })
    };
    for (wait, expected) in
        [(watch, "watch /never"), (reply, "exists /a"), (lock, "/lock"), (znode, "stopped")]
    {
        let message = stalls(move || async move {
            let zk = test_server().start().await.unwrap();
            let error = wait(&zk).await;
            assert!(error.contains(expected), "{error}");
            // The test ignores the error, so it would pass.
        });
        assert!(message.starts_with("the test waits while the clock stands at 0 s"), "{message}");
    }
}

#[test]
fn a_stall_is_noticed_in_every_kind_of_runtime_and_moves_no_clock() {
    let mut paused = Builder::new_current_thread();
    paused.start_paused(true);
    for runtime in [Builder::new_multi_thread(), paused] {
        let message = failure(runtime, || async {
            let zk = test_server().start().await.unwrap();
            let client = zk.client().await;
            let (began, shown) = (tokio::time::Instant::now(), zk.clock().now());
            let (_, never) = client.exists("/never").watch().await.unwrap();
            never.changed().await.unwrap_err();
            assert_eq!(zk.clock().now(), shown);
            assert!(began.elapsed() < secs(60), "{:?}", began.elapsed());
        });
        let message = message.expect("it fails");
        assert!(message.starts_with("the test waits while"), "{message}");
    }
}

#[test]
fn a_test_that_works_or_lets_time_pass_or_waits_without_a_client_does_not_stall() {
    let done = failure(Builder::new_current_thread(), || async {
        let zk = test_server().start().await.unwrap();
        tokio::time::sleep(LIMIT * 3).await;
        let client = zk.client().await;
        let (_, watch) = client.exists("/a").watch().await.unwrap();
        // As if it computed something, or stood in a debugger.
        std::thread::sleep(LIMIT * 3);
        tokio::task::yield_now().await;
        zk.set("/a", "x").await.unwrap();
        watch.changed().await.unwrap();
        let began = Instant::now();
        while began.elapsed() < LIMIT * 3 {
            zk.advance(secs(1)).await.unwrap();
        }
        while began.elapsed() < LIMIT * 6 {
            tokio::time::sleep(LIMIT / 5).await;
            client.exists("/a").await.unwrap();
        }
    });
    assert_eq!(done, None);
}

#[test]
fn a_paused_runtime_that_sleeps_beside_a_manual_clock_does_not_stall() {
    let mut paused = Builder::new_current_thread();
    paused.start_paused(true);
    let done = failure(paused, || async {
        let zk = test_server().start().await.unwrap();
        let _client = zk.client().await;
        let began = tokio::time::Instant::now();
        tokio::time::sleep(secs(24 * 3600)).await;
        assert!(began.elapsed() < secs(24 * 3600 + 1));
    });
    assert_eq!(done, None);
}

#[test]
fn stalls_are_not_looked_for_if_the_test_says_so_or_on_another_clock() {
    for settings in [|| TestServer::builder().stall_timeout(None), || test_server().clock(Clock::tokio())] {
        let done = failure(Builder::new_current_thread(), move || async move {
            let zk = settings().start().await.unwrap();
            let client = zk.client().await;
            let (_, never) = client.exists("/never").watch().await.unwrap();
            tokio::time::timeout(LIMIT * 3, never.changed()).await.unwrap_err();
        });
        assert_eq!(done, None);
    }
}

#[tokio::test]
async fn passing_time_until_what_never_happens_is_an_error_with_the_place_and_the_timers() {
    limit();
    let zk = test_server().start().await.unwrap();
    let client = zk.client().await;
    let (_, never) = client.exists("/never").watch().await.unwrap();
    let error = zk.pass_time_until(never.changed()).await.unwrap_err();
    let text = error.to_string();
    let expected = format!("what is waited for at tests/it/stalls.rs:{} does not happen", line!() - 2);
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.contains("through a client: its next ping, timeout or attempt to connect ("), "{text}");
    assert!(matches!(error, FixtureError::NeverHappens { after, .. } if after >= secs(3600)), "{text}");
}

#[tokio::test]
async fn passing_time_ends_after_a_day_on_the_clock() {
    limit();
    let zk = test_server().stall_timeout(None).start().await.unwrap();
    let (clock, mut waits) = (zk.clock().clone(), 0);
    let for_ever = async {
        loop {
            clock.sleep(secs(600)).await;
            waits += 1;
        }
    };
    let error = zk.pass_time_until(for_ever).await.unwrap_err();
    let FixtureError::NeverHappens { after, .. } = error else { panic!("{error}") };
    assert!(after > secs(24 * 3600) && after < secs(25 * 3600), "{after:?}");
    assert!(waits >= 144, "{waits}");
}

#[tokio::test]
async fn a_loop_that_advances_the_clock_and_gets_nowhere_is_an_error() {
    limit();
    let zk = test_server().start().await.unwrap();
    // Something happens in between, so that is no such loop.
    for _ in 0..200 {
        zk.set("/a", "x").await.unwrap();
        zk.advance(secs(900)).await.unwrap();
    }
    let place = format!("{}:{}", file!(), line!() + 2);
    let error = loop {
        if let Err(error) = zk.advance(secs(900)).await {
            break error;
        }
    };
    let text = error.to_string();
    assert!(matches!(error, FixtureError::GoesNowhere { calls: 101, .. }), "{text}");
    assert!(text.starts_with(&format!("`advance` at {place} was called 101 times")), "{text}");
    assert!(text.contains("the server: its next deadline"), "{text}");
    // By hand, elsewhere, it goes on.
    zk.advance(secs(900)).await.unwrap();
}
