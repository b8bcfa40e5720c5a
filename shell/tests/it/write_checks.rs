//! Writes that would lose something, or that would write what nobody gave.

use std::fs;

use zoolet::ErrorCode;
use zoolet::testing::{TestServer, request};
use zoolet_shell::ExitReason;

use crate::common::{run_on, run_with};

#[tokio::test]
async fn the_input_is_data_once() {
    let zk = TestServer::builder().znode("/a", "kept").start().await.unwrap();
    let client = zk.client().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "create /b -\nset /a -\n").unwrap();
    for (line, input) in
        [("multi", &b"set /a -\n"[..]), (&format!("multi {}", file.path().display()), b"of both")]
    {
        let (reason, message) = run_with(&client, line, input, None).await.failed();
        assert_eq!(reason, ExitReason::Usage);
        assert!(message.contains("standard input has been read"), "{message}");
    }
    assert_eq!(zk.get("/a").unwrap().text(), "kept");
}

#[tokio::test]
async fn a_multi_takes_only_text_and_refuses_what_it_cannot_do() {
    let zk = TestServer::builder().znode("/a", "kept").start().await.unwrap();
    let client = zk.client().await;
    for (input, why) in [(&b"set /a x\nset /a \xff\n"[..], "line 2"), (b"create -p /x/y\n", "-p")] {
        let (reason, message) = run_with(&client, "multi", input, None).await.failed();
        assert_eq!(reason, ExitReason::Usage);
        assert!(message.contains(why), "{message}");
    }
    assert_eq!(zk.get("/a").unwrap().text(), "kept");
}

#[tokio::test]
async fn a_quota_that_was_removed_is_in_the_way_of_no_other() {
    let zk = TestServer::builder().znode("/a/b/c", "").znode("/a/d", "").start().await.unwrap();
    let client = zk.client().await;
    run_on(&client, "set-quota /a/b/c --count 5").await.ok();
    run_on(&client, "set-quota /a/d --count 5").await.ok();
    assert_eq!(run_on(&client, "set-quota /a --count 5").await.failed().0, ExitReason::Conflict);
    run_on(&client, "set-quota --delete /a/b/c").await.ok();
    assert!(zk.get("/zookeeper/quota/a/b").is_none(), "nothing is left of it");
    assert!(zk.get("/zookeeper/quota/a/d/zookeeper_limits").is_some());
    run_on(&client, "set-quota --delete /a/d").await.ok();
    assert_eq!(zk.children("/zookeeper/quota").len(), 0);
    // What other programs, or earlier ones, have left.
    client.create("/zookeeper/quota/a/b", "").parents().await.unwrap();
    run_on(&client, "set-quota /a --count 5").await.ok();
}

#[tokio::test]
async fn limits_never_come_without_statistics() {
    let zk = TestServer::builder().znode("/a/b", "").start().await.unwrap();
    let client = zk.client().await;
    zk.faults()
        .on(request().path("/zookeeper/quota/a/zookeeper_stats"))
        .fail(ErrorCode::SystemError)
        .unwrap();
    let _ = run_on(&client, "set-quota /a --count 5").await;
    let is_there = |name: &str| zk.get(&format!("/zookeeper/quota/a/{name}")).is_some();
    assert_eq!(is_there("zookeeper_limits"), is_there("zookeeper_stats"));
    zk.faults().clear();
    run_on(&client, "set-quota /a --bytes 7").await.ok();
    assert!(run_on(&client, "quota /a").await.ok().contains("znodes: 2"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_text_that_was_edited_is_kept_unless_it_is_written() {
    let zk = TestServer::builder().znode("/a", "old").start().await.unwrap();
    let client = zk.client().await;
    let folder = tempfile::tempdir().unwrap();
    let editor = |name: &str, script: &str| {
        let file = folder.path().join(name);
        fs::write(&file, script).unwrap();
        format!("sh {}", file.display())
    };
    let changes = editor("changes", "printf new > \"$1\"");
    let fails = editor("fails", "printf new > \"$1\"; exit 1");
    for (line, answer, reason) in [
        (format!("edit --editor '{changes}' /a"), Some("n"), ExitReason::Interrupted),
        (format!("edit --editor '{changes}' /a"), None, ExitReason::Usage),
        (format!("edit --yes --editor '{fails}' /a"), None, ExitReason::Local),
    ] {
        let (seen, message) = run_with(&client, &line, b"", answer).await.failed();
        assert_eq!(seen, reason, "{message}");
        let (_, kept) = message.split_once("what you wrote is in ").expect(&message);
        let kept = kept.split([' ', ';']).next().unwrap();
        assert_eq!(fs::read_to_string(kept).unwrap(), "new");
        fs::remove_file(kept).unwrap();
    }
    let quits = editor("quits", "exit 1");
    let (_, message) = run_on(&client, &format!("edit --editor '{quits}' /a")).await.failed();
    assert!(!message.contains("what you wrote"), "{message}");
    assert_eq!(zk.get("/a").unwrap().text(), "old");
}
