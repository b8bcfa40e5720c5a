//! `wait`: until a znode exists, or is gone.

use std::time::Duration;

use serde_json::Value;
use zoolet::testing::TestServer;
use zoolet::{Client, Sessions};
use zoolet_shell::{ExitReason, Shell, ShellIo};

use crate::common::Ran;

/// Runs `wait` while something happens that begins when it waits.
async fn wait_while(zk: &TestServer, line: &str, meanwhile: impl AsyncFnOnce(Client)) -> Ran {
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let writer = zk.client().await;
    let mut shell = Shell::new(zk.client().await, ShellIo::new(&mut out, &mut notes))
        .server("zk:2181")
        .sessions(|_| Sessions::open(zk.options(), zk.connector()));
    let happening = async {
        while zk.watches().is_empty() {
            tokio::task::yield_now().await;
        }
        meanwhile(writer).await;
    };
    let waiting = async { tokio::join!(shell.run_line(line), happening).0 };
    let outcome = zk.pass_time_until(waiting).await.unwrap();
    drop(shell);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { out: text(out), notes: text(notes), outcome }
}

#[tokio::test]
async fn a_znode_is_waited_for_over_lost_sessions() {
    let zk = TestServer::start().await;
    let ran = wait_while(&zk, "wait /ready", async |writer| {
        let waiter = zk.watches()[0].session.unwrap();
        zk.refuse_connections();
        zk.expire_session(waiter).await.unwrap();
        zk.accept_connections();
        zk.pass_time_until(async {
            while zk.watches().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        writer.create("/ready", "").await.unwrap();
    })
    .await;
    let out = ran.ok();
    assert!(out.starts_with("/ready exists: version 0, zxid 0x"), "{out}");
    assert_eq!(zk.watches().len(), 0);
}

#[tokio::test]
async fn a_znode_that_changes_is_not_gone() {
    let zk = TestServer::builder().znode("/lock", "").start().await.unwrap();
    let ran = wait_while(&zk, "wait --gone --json /lock", async |writer| {
        writer.set_data("/lock", "x").await.unwrap();
        zk.wait_until_idle().await.unwrap();
        writer.delete("/lock").await.unwrap();
    })
    .await;
    let seen = &ran.json()[0];
    assert_eq!((&seen["path"], &seen["exists"]), (&Value::from("/lock"), &Value::from(false)));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_come_in_time_is_absent_and_servers_that_do_not_are_unreachable() {
    let zk = TestServer::builder().znode("/there", "").start().await.unwrap();
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let mut shell = Shell::new(zk.client().await, ShellIo::new(&mut out, &mut notes))
        .server("zk:2181")
        .sessions(|_| Sessions::open(zk.options(), zk.connector()));
    let begun = tokio::time::Instant::now();
    for (line, message) in [
        ("wait /ready --timeout 2s", "wait: /ready does not exist after 2s (server zk:2181)"),
        ("wait --gone /there --timeout 2s", "wait: /there is still there after 2s (server zk:2181)"),
    ] {
        let error = shell.run_line(line).await.unwrap_err();
        assert_eq!((error.reason(), error.to_string().as_str()), (ExitReason::Absent, message));
    }
    assert!(begun.elapsed() >= Duration::from_secs(4));
    zk.refuse_connections();
    let error = shell.run_line("wait /ready --timeout 2s").await.unwrap_err();
    assert_eq!(error.reason(), ExitReason::Unreachable);
    assert!(error.to_string().starts_with("wait: no server was reached within 2s"), "{error}");
}
