//! Trees that are moved and compared.

use std::fs;

use serde_json::{Value, json};
use zoolet::testing::{OpCode, TestServer, op};
use zoolet::{Acl, ErrorCode, Perms};
use zoolet_shell::ExitReason;

use crate::common::{run_between, run_on};

/// A tree with an ACL, data that is not text, and an ephemeral.
async fn source() -> (TestServer, zoolet::Client) {
    let zk = TestServer::builder()
        .znode("/app/a", "one")
        .znode("/app/a/b", "")
        .znode("/app-other", "")
        .start()
        .await
        .unwrap();
    let client = zk.client().await;
    client.create("/app/bytes", &b"\xff\x00"[..]).acl(Acl::read_only()).await.unwrap();
    client.create("/app/e", "").ephemeral().await.unwrap();
    (zk, client)
}

#[tokio::test]
async fn a_copy_has_data_and_acls_and_no_ephemerals() {
    let ((zk, _client), other) = (source().await, TestServer::start().await);
    let ran = run_between(&zk, &other, "cp -r /app /x/y --to-server b:2181", None).await;
    assert_eq!(
        ran.notes,
        "left out: 1 ephemeral of the first tree, 0 of the other\n4 created, 0 changed, 0 deleted\n"
    );
    ran.ok();
    assert_eq!(run_on(&other.client().await, "find /x/y").await.ok(), "/x/y\n/x/y/a\n/x/y/a/b\n/x/y/bytes\n");
    let copied = other.client().await.get_acl("/x/y/bytes").await.unwrap().0;
    assert_eq!(copied, Acl::read_only());
    // Twice is the same.
    let ran = run_between(&zk, &other, "cp -r /app /x/y --to-server b:2181", None).await;
    assert!(ran.notes.ends_with("0 created, 0 changed, 0 deleted\n"), "{}", ran.notes);
    run_between(&zk, &other, "diff /app /x/y --to-server b:2181", None).await.ok();
}

#[tokio::test]
async fn a_copy_replaces_what_differs_only_if_it_is_asked_to() {
    let ((zk, client), other) =
        (source().await, TestServer::builder().znode("/app/a", "theirs").start().await.unwrap());
    let (reason, message) = run_between(&zk, &other, "cp -r /app /app --to-server b", None).await.failed();
    assert_eq!(reason, ExitReason::Conflict);
    assert!(message.contains("1 znode is there and different, the first /app/a; --overwrite"), "{message}");
    assert_eq!(other.get("/app/a").unwrap().text(), "theirs");
    assert!(other.get("/app/a/b").is_some(), "the rest is there");
    run_between(&zk, &other, "cp -r --overwrite /app /app --to-server b", None).await.ok();
    assert_eq!(other.get("/app/a").unwrap().text(), "one");
    // In one cluster, a tree cannot go into itself.
    assert_eq!(run_on(&client, "cp -r /app /app/sub").await.failed().0, ExitReason::Usage);
    run_on(&client, "cp /app/a /copy").await.ok();
    assert_eq!((zk.get("/copy").unwrap().text(), zk.children("/copy").len()), ("one", 0));
}

#[tokio::test]
async fn a_diff_shows_every_difference_and_its_exit_code_says_so() {
    let ((zk, _client), other) = (
        source().await,
        TestServer::builder().znode("/app/a", "two").znode("/app/c", "").start().await.unwrap(),
    );
    let ran = run_between(&zk, &other, "diff /app /app --to-server b", None).await;
    assert_eq!(ran.out, "~ /a\n@@ -1 +1 @@\n-one\n+two\n- /a/b\n- /bytes\n+ /c\n");
    let (reason, message) = ran.failed();
    assert_eq!(reason, ExitReason::Absent);
    assert!(message.contains("4 znodes of /app and /app differ"), "{message}");
    let objects = run_between(&zk, &other, "diff --json /app /app --to-server b", None).await.out;
    assert_eq!(
        serde_json::from_str::<Value>(objects.lines().next().unwrap()).unwrap(),
        json!({"path": "/a", "data": true, "acl": false})
    );
}

#[tokio::test]
async fn a_mirror_asks_and_leaves_nothing_else_but_ephemerals() {
    let ((zk, _client), other) = (
        source().await,
        TestServer::builder().znode("/m/a", "two").znode("/m/z/deep", "").start().await.unwrap(),
    );
    let holder = other.client().await;
    holder.create("/m/held", "").ephemeral().await.unwrap();
    let ran = run_between(&zk, &other, "mirror /app /m --to-server b", Some("n")).await;
    assert!(ran.notes.contains("At /m: create 2, change 1, delete 2? [y/N]"), "{}", ran.notes);
    assert!(other.get("/m/z/deep").is_some());
    let dry = run_between(&zk, &other, "mirror -n /app /m --to-server b", None).await.ok();
    assert_eq!(dry, "change /m/a\ncreate /m/a/b\ncreate /m/bytes\ndelete /m/z\ndelete /m/z/deep\n");
    run_between(&zk, &other, "mirror /app /m --to-server b", Some("y")).await.ok();
    assert_eq!(run_on(&holder, "find /m").await.ok(), "/m\n/m/a\n/m/a/b\n/m/bytes\n/m/held\n");
    let refused = run_between(&zk, &other, "mirror -y /app / --to-server b", None).await.failed();
    assert_eq!(refused.0, ExitReason::Usage);
}

#[tokio::test]
async fn an_acl_with_hidden_digests_is_not_copied() {
    let ((zk, client), other) = (source().await, TestServer::start().await);
    let acl = vec![Acl::digest(Perms::ALL, "bob", "pw"), Acl::new(Perms::READ, "world", "anyone")];
    client.set_acl("/app/a", acl).await.unwrap();
    for line in ["cp -r /app /x --to-server b", "export /app"] {
        let (reason, message) = run_between(&zk, &other, line, None).await.failed();
        assert_eq!(reason, ExitReason::Refused, "{message}");
        assert!(message.contains("--no-acl"), "{message}");
    }
    run_between(&zk, &other, "cp -r --no-acl /app /x --to-server b", None).await.ok();
}

#[tokio::test]
async fn what_is_exported_in_any_format_is_imported_as_it_was() {
    let (zk, client) = source().await;
    let folder = tempfile::tempdir().unwrap();
    for format in ["zoolet", "zk-shell", "zoonavigator"] {
        let file = folder.path().join(format);
        let ran =
            run_between(&zk, &zk, &format!("export /app {} --format {format}", file.display()), None).await;
        assert!(
            ran.notes.starts_with("4 znodes as of zxid 0x") && ran.notes.ends_with("left out: 1 ephemeral\n"),
            "{}",
            ran.notes
        );
        assert_eq!(ran.ok(), "");
        let to = format!("/{format}");
        let dry = run_on(&client, &format!("import -n {} {to}", file.display())).await.ok();
        assert_eq!(dry.lines().next(), Some(&*format!("create {to}")));
        assert!(zk.get(&to).is_none());
        run_on(&client, &format!("import {} {to}", file.display())).await.ok();
        let ran = run_on(&client, &format!("diff /app {to}")).await;
        assert_eq!(ran.out, "", "{format}");
    }
    // It goes on where it stopped, and does not replace silently.
    client.delete("/zoolet/bytes").await.unwrap();
    client.set_data("/zoolet/a", "changed").await.unwrap();
    let file = folder.path().join("zoolet");
    let (reason, _) = run_on(&client, &format!("import {} /zoolet", file.display())).await.failed();
    assert_eq!((reason, zk.get("/zoolet/bytes").is_some()), (ExitReason::Conflict, true));
    run_on(&client, &format!("import --overwrite {} /zoolet", file.display())).await.ok();
    assert_eq!(zk.get("/zoolet/a").unwrap().text(), "one");
    let half = fs::read_to_string(&file).unwrap();
    fs::write(&file, &half[..half.len() / 2]).unwrap();
    assert_eq!(
        run_on(&client, &format!("import {} /half", file.display())).await.failed().0,
        ExitReason::Usage
    );
    assert!(zk.get("/half").is_none());
}

#[tokio::test]
async fn an_export_on_stdout_is_the_answer_and_what_cannot_be_read_fails_it() {
    let (zk, client) = source().await;
    let text = run_between(&zk, &zk, "export /app", None).await.ok();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["format"], &lines[0]["znodes"]), (&json!("zoolet-export/1"), &json!(4)));
    assert_eq!((&lines[1]["path"], &lines[2]["data"]), (&json!("/"), &json!("one")));
    client.set_acl("/app/a", vec![Acl::new(Perms::WRITE, "world", "anyone")]).await.unwrap();
    assert_eq!(run_between(&zk, &zk, "export /app", None).await.failed().0, ExitReason::Refused);
    assert_eq!(run_between(&zk, &zk, "export /absent", None).await.failed().0, ExitReason::Absent);
}

#[tokio::test]
async fn a_copy_to_a_server_that_lacks_the_usual_create_is_whole() {
    let (zk, other) = (TestServer::start().await, TestServer::start().await);
    // As 3.4 does, but that it also closes the connection.
    other.faults().on(op(OpCode::Create2)).fail(ErrorCode::Unimplemented).unwrap();
    let client = zk.client().await;
    client.create("/t", "").await.unwrap();
    for wide in 0..200 {
        client.create(format!("/t/{wide:03}"), "x").await.unwrap();
    }
    let ran = run_between(&zk, &other, "cp -r /t /t --to-server b", None).await;
    assert_eq!(ran.notes, "201 created, 0 changed, 0 deleted\n");
    ran.ok();
    assert_eq!(run_between(&zk, &other, "diff /t /t --to-server b", None).await.ok(), "");
}

#[tokio::test]
async fn names_of_any_characters_are_moved_and_deleted_as_they_are() {
    let zk = TestServer::start().await;
    let client = zk.client().await;
    let names =
        [" a ", "\"b'", "\\n", "x\u{202e}y", "é\u{301}", "漢", "{\"c\":1}", "-r", "*", "a%2Fb", "x\u{a0}"];
    client.create("/odd", "").await.unwrap();
    for name in names {
        client.create(format!("/odd/{name}"), name).await.unwrap();
        client.create(format!("/odd/{name}/below"), "").await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    run_on(&client, "cp -r /odd /copy").await.ok();
    for format in ["zoolet", "zk-shell", "zoonavigator"] {
        let file = folder.path().join(format);
        run_between(&zk, &zk, &format!("export /odd {} --format {format}", file.display()), None).await.ok();
        run_on(&client, &format!("import {} /{format}", file.display())).await.ok();
    }
    for copy in ["/copy", "/zoolet", "/zk-shell", "/zoonavigator"] {
        assert_eq!(run_on(&client, &format!("diff /odd {copy}")).await.ok(), "");
        let mut sorted = names;
        sorted.sort_unstable();
        assert_eq!(zk.children(copy), sorted);
        run_on(&client, &format!("rm -r --yes {copy}")).await.ok();
        assert!(zk.get(copy).is_none());
    }
}

#[tokio::test]
async fn trees_wider_than_the_window_are_compared_in_one_order() {
    let (zk, other) = (TestServer::start().await, TestServer::start().await);
    let client = zk.client().await;
    client.create("/t", "").await.unwrap();
    let mut znodes = 1;
    for wide in 0..400 {
        let path = format!("/t/{wide:03}");
        client.create(&path, "").await.unwrap();
        for child in 0..wide % 3 {
            client.create(format!("{path}/{child}"), path.clone()).await.unwrap();
            znodes += 1;
        }
        znodes += 1;
    }
    let ran = run_between(&zk, &other, "cp -r /t /t --to-server b", None).await;
    assert_eq!(ran.notes, format!("{znodes} created, 0 changed, 0 deleted\n"));
    assert_eq!(run_between(&zk, &other, "diff /t /t --to-server b", None).await.ok(), "");
    let copied = run_on(&other.client().await, "find /t").await.ok();
    assert_eq!(copied, run_on(&client, "find /t").await.ok());
    client.delete("/t/001/0").await.unwrap();
    assert_eq!(run_between(&zk, &other, "diff /t /t --to-server b", None).await.out, "+ /001/0\n");
}
