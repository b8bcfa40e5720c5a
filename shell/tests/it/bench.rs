//! `bench`: what it sends, and what it leaves.

use std::collections::BTreeMap;

use serde_json::json;
use zoolet::testing::fixture::RecordedEvent;
use zoolet::testing::{OpCode, TestServer, op};
use zoolet::{ErrorCode, Sessions};
use zoolet_shell::{ExitReason, Shell, ShellIo};

use crate::common::run_between;

async fn tree() -> TestServer {
    TestServer::builder().znode("/mine/a", "1").start().await.unwrap()
}

#[tokio::test]
async fn everything_happens_below_a_znode_of_its_own_which_is_gone_in_the_end() {
    let zk = tree().await;
    let before = zk.record().len();
    let line = "bench /mine --requests 50 --size 10 --in-flight 8 --json";
    let measured = run_between(&zk, &zk, line, None).await.json();
    let operations: Vec<_> = measured.iter().map(|object| &object["operation"]).collect();
    assert_eq!(operations, [&json!("create"), &json!("set"), &json!("get"), &json!("delete")]);
    for object in &measured {
        let latency = &object["latencyMs"];
        assert!(latency["p50"].as_f64() <= latency["max"].as_f64(), "{object}");
        assert!(object["requestsPerSecond"].as_f64() > Some(0.0), "{object}");
        assert_eq!((&object["requests"], &object["inFlight"]), (&json!(50), &json!(8)));
    }
    assert_eq!(zk.children("/mine"), ["a"]);

    let mut sent: BTreeMap<OpCode, usize> = BTreeMap::new();
    for entry in &zk.record()[before..] {
        let RecordedEvent::Request { op: Some(op), paths, .. } = &entry.event else { continue };
        *sent.entry(*op).or_default() += 1;
        for path in paths {
            assert!(path.starts_with("/mine/zoolet-bench-"), "{op:?} {path}");
        }
    }
    assert_eq!((sent[&OpCode::SetData], sent[&OpCode::GetData]), (50, 50));
}

#[tokio::test]
async fn a_table_has_its_units() {
    let zk = tree().await;
    let out = run_between(&zk, &zk, "bench --requests 10 --size 0", None).await.ok();
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[0].starts_with("10 requests of each kind below /zoolet-bench-"), "{out}");
    assert!(lines[0].ends_with(", 0 bytes of data"), "{out}");
    assert!(
        lines[1].contains("latency of one alone, ms") && lines[2].ends_with("requests a second"),
        "{out}"
    );
    assert_eq!(lines[3].split_whitespace().count(), 5, "{out}");
    assert_eq!(lines.len(), 7, "{out}");
}

#[tokio::test]
async fn a_bench_that_fails_removes_what_it_made() {
    let zk = tree().await;
    zk.faults().on(op(OpCode::SetData).nth(30)).fail(ErrorCode::QuotaExceeded).unwrap();
    let (reason, message) = run_between(&zk, &zk, "bench /mine --requests 50", None).await.failed();
    assert_eq!(reason, ExitReason::Refused);
    assert!(message.starts_with("bench: "), "{message}");
    assert_eq!(zk.children("/mine"), ["a"]);
    for (line, reason) in [
        ("bench /absent", ExitReason::Absent),
        ("bench --requests 1000000 --size 1000", ExitReason::Usage),
        ("bench --in-flight 5000", ExitReason::Usage),
    ] {
        assert_eq!(run_between(&zk, &zk, line, None).await.failed().0, reason, "{line}");
    }
}

#[tokio::test]
async fn what_an_interrupted_bench_leaves_goes_by_itself() {
    let zk = tree().await;
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let mut shell = Shell::new(zk.client().await, ShellIo::new(&mut out, &mut notes))
        .sessions(|_| Sessions::open(zk.options(), zk.connector()));
    let made = || zk.children("/mine").into_iter().find(|name| name != "a");
    let has_znodes = || made().is_some_and(|name| !zk.children(&format!("/mine/{name}")).is_empty());
    let begun = async {
        while !has_znodes() {
            tokio::task::yield_now().await;
        }
    };
    zk.pass_time_until(async {
        tokio::select! {
            outcome = shell.run_line("bench /mine --requests 100000") => panic!("it has ended: {outcome:?}"),
            () = begun => {}
        }
    })
    .await
    .unwrap();
    let gone = async {
        while made().is_some() {
            tokio::task::yield_now().await;
        }
    };
    zk.pass_time_until(gone).await.unwrap();
    assert_eq!(zk.children("/mine"), ["a"]);
}
