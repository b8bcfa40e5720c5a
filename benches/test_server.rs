//! The cost of a server per test: its start, the expiry of a session, and the passing of time.
//!
//! `cargo bench --bench test_server`; for Apache ZooKeeper see `benches/apache/Start.java`.

use std::time::{Duration, Instant};

use zoolet::testing::TestServer;

const TIMES: usize = 2_000;

#[allow(clippy::print_stdout, reason = "a bench")]
fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let in_process = starts(|| async { TestServer::start().await }).await;
        report("TestServer::start to a connected client, in process", in_process, 150.0);
        let tcp = starts(|| async { TestServer::builder().tcp().start().await.expect("a port") }).await;
        report("the same by TCP", tcp, 400.0);
        report("an expiry: ephemeral gone, the watch of another client fired", expiries().await, 1_000.0);
        for (name, builder) in
            [("in process", TestServer::builder()), ("by TCP", TestServer::builder().tcp())]
        {
            let zk = builder.start().await.expect("a server");
            let client = zk.client().await;
            let began = Instant::now();
            zk.advance(Duration::from_secs(1_000)).await.expect("a manual clock");
            let took = began.elapsed();
            let pings = zk.counters().requests.values().sum::<u64>();
            assert!(client.state().is_connected());
            println!(
                "1,000 s of pings, {name}: {:.1} ms, {pings} pings (goal: 1,000 ms)",
                took.as_secs_f64() * 1e3
            );
        }
    });
}

async fn starts<F: Future<Output = TestServer>>(start: impl Fn() -> F) -> Vec<Duration> {
    let mut took = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let began = Instant::now();
        let zk = start().await;
        let client = zk.client().await;
        took.push(began.elapsed());
        drop((client, zk));
        // Its tasks end.
        tokio::task::yield_now().await;
    }
    took
}

async fn expiries() -> Vec<Duration> {
    let zk = TestServer::start().await;
    let other = zk.client().await;
    let mut took = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let client = zk.client().await;
        client.create("/ephemeral", "").ephemeral().await.expect("created");
        let (_, watch) = other.exists("/ephemeral").watch().await.expect("watched");
        let began = Instant::now();
        zk.expire_session(client.session_id()).await.expect("a session");
        watch.changed().await.expect("an event");
        took.push(began.elapsed());
        assert!(zk.get("/ephemeral").is_none());
    }
    took
}

#[allow(clippy::print_stdout, reason = "a bench")]
fn report(what: &str, mut took: Vec<Duration>, goal: f64) {
    took.sort_unstable();
    let micros = |share: f64| {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index"
        )]
        let at = (took.len() as f64 * share) as usize;
        took[at].as_secs_f64() * 1e6
    };
    println!(
        "{what}: p50 {:.0} us, p99 {:.0} us, {} times (goal: p50 at most {goal} us)",
        micros(0.5),
        micros(0.99),
        took.len()
    );
}
