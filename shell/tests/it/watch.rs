//! `watch`: changes as they happen, over lost connections and lost sessions.

use serde_json::json;
use zoolet::testing::TestServer;
use zoolet::{Client, Sessions};
use zoolet_shell::{ExitReason, Shell, ShellIo};

/// Runs `watch` while something happens that begins when it watches.
async fn watch_while(zk: &TestServer, line: &str, meanwhile: impl AsyncFnOnce(Client)) -> (String, String) {
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let writer = zk.client().await;
    let mut shell = Shell::new(zk.client().await, ShellIo::new(&mut out, &mut notes))
        .server("zk:2181")
        .sessions(|_| Sessions::open(zk.options(), zk.connector()));
    let watching = shell.run_line(line);
    let happening = async {
        while zk.watches().is_empty() {
            tokio::task::yield_now().await;
        }
        zk.wait_until_idle().await.unwrap();
        meanwhile(writer).await;
    };
    let (outcome, ()) = zk.pass_time_until(async { tokio::join!(watching, happening) }).await.unwrap();
    outcome.unwrap();
    drop(shell);
    (String::from_utf8(out).unwrap(), String::from_utf8(notes).unwrap())
}

#[tokio::test]
async fn a_change_is_shown_with_the_difference_of_its_data() {
    let zk = TestServer::builder().znode("/c", "a\nb\n").start().await.unwrap();
    let (out, notes) = watch_while(&zk, "watch /c --count 2", async |writer| {
        writer.set_data("/c", "a\nB\n").await.unwrap();
        writer.create("/c/child", "").await.unwrap();
        zk.wait_until_idle().await.unwrap();
        writer.delete("/c/child").await.unwrap();
        writer.delete("/c").await.unwrap();
    })
    .await;
    assert!(notes.starts_with("watching 1 znode at /c, as of zxid 0x"), "{notes}");
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[0].starts_with("changed /c  version 1, zxid 0x"), "{out}");
    assert_eq!(lines[1..], ["@@ -1,2 +1,2 @@", " a", "-b", "+B", "deleted /c"]);
}

#[tokio::test]
async fn a_tree_is_watched_as_objects() {
    let zk = TestServer::builder().znode("/t/a", "1").start().await.unwrap();
    let (out, _) = watch_while(&zk, "watch -R --json --count 3 /t", async |writer| {
        writer.set_data("/t/a", &b"\xff"[..]).await.unwrap();
        zk.wait_until_idle().await.unwrap();
        writer.create("/t/b", "new").await.unwrap();
        zk.wait_until_idle().await.unwrap();
        writer.delete("/t/b").await.unwrap();
    })
    .await;
    let objects: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> = objects.iter().map(|object| (&object["event"], &object["path"])).collect();
    assert_eq!(
        seen,
        [
            (&json!("changed"), &json!("/t/a")),
            (&json!("created"), &json!("/t/b")),
            (&json!("deleted"), &json!("/t/b")),
        ]
    );
    assert_eq!((&objects[0]["dataBase64"], &objects[1]["data"]), (&json!("/w=="), &json!("new")));
}

#[tokio::test]
async fn a_session_that_expires_and_a_server_that_goes_away_lose_no_change() {
    let zk = TestServer::builder().znode("/c", "1").start().await.unwrap();
    let (out, notes) = watch_while(&zk, "watch /c --count 1", async |writer| {
        let watcher = zk.watches()[0].session.unwrap();
        zk.refuse_connections();
        zk.disconnect(watcher).await.unwrap();
        writer.set_data("/c", "2").await.ok();
        zk.expire_session(watcher).await.unwrap();
        zk.accept_connections();
    })
    .await;
    assert!(out.contains("changed /c  version 1") && out.ends_with("-1\n+2\n"), "{out}");
    assert!(notes.contains("the connection is lost"), "{notes}");
}

#[tokio::test]
async fn a_shell_without_other_sessions_says_so() {
    let zk = TestServer::start().await;
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let mut shell = Shell::new(zk.client().await, ShellIo::new(&mut out, &mut notes));
    assert_eq!(shell.run_line("watch /").await.unwrap_err().reason(), ExitReason::Usage);
}
