//! Commands that write.

use std::time::Duration;

use serde_json::json;
use zoolet::testing::{OpCode, TestServer, op};
use zoolet::{Acl, ErrorCode, Perms};
use zoolet_shell::{ExitReason, Shell, ShellIo};

use crate::common::{run, run_on, run_with};

async fn tree() -> TestServer {
    let znodes = ["/t/a/1", "/t/a/2", "/t/b", "/t-other"];
    znodes.iter().fold(TestServer::builder(), |zk, path| zk.znode(*path, "")).start().await.unwrap()
}

#[tokio::test]
async fn create_makes_every_kind_and_prints_the_path() {
    let zk = TestServer::start().await;
    let client = zk.client().await;
    assert_eq!(run_on(&client, "create -p /a/b 'some data'").await.ok(), "/a/b\n");
    assert_eq!(zk.get("/a/b").unwrap().text(), "some data");
    assert_eq!(run_on(&client, "create -s -e /a/b/n-").await.ok(), "/a/b/n-0000000000\n");
    assert_eq!(client.get_ephemerals("/").await.unwrap(), ["/a/b/n-0000000000"]);
    assert_eq!(run_on(&client, "create -s /a/b/").await.ok(), "/a/b/0000000001\n");
    assert_eq!(run_on(&client, "create -c /a/c").await.ok(), "/a/c\n");
    assert_eq!(run_on(&client, "create /r --acl world:anyone:r,ip:127.0.0.1:cdrwa").await.ok(), "/r\n");
    assert_eq!(run_on(&client, "acl /r").await.ok(), "world:anyone:r\nip:127.0.0.1:cdrwa\n");
    let object = &run_on(&client, "create --json /j").await.json()[0];
    assert_eq!((&object["path"], &object["version"]), (&json!("/j"), &json!(0)));
    let (reason, message) = run_on(&client, "create --ttl 1h /ttl").await.failed();
    assert_eq!(reason, ExitReason::Refused);
    assert!(message.contains("extendedTypesEnabled"), "{message}");
}

#[tokio::test]
async fn create_says_what_is_in_the_way() {
    let zk = tree().await;
    let (reason, message) = run(&zk, "create /t").await.failed();
    assert_eq!(reason, ExitReason::Conflict);
    assert!(message.ends_with("`set` replaces its data"), "{message}");
    let (reason, message) = run(&zk, "create /x/y/z").await.failed();
    assert_eq!(reason, ExitReason::Absent);
    assert!(
        message.ends_with(
            "/x/y/z: no such znode (server zk:2181); its parent does not exist: -p creates what is missing"
        ),
        "{message}"
    );
}

#[tokio::test]
async fn set_takes_data_from_the_line_a_file_or_the_input() {
    let zk = tree().await;
    let client = zk.client().await;
    assert_eq!(run_on(&client, "set /t 'on the line'").await.ok(), "");
    assert_eq!(zk.get("/t").unwrap().text(), "on the line");
    run_with(&client, "set /t -", b"\xffinput\n", None).await.ok();
    assert_eq!(&client.get_data("/t").await.unwrap().0[..], b"\xffinput\n");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "of a file").unwrap();
    run_on(&client, &format!("set /t -f {}", file.path().display())).await.ok();
    assert_eq!(zk.get("/t").unwrap().text(), "of a file");
    let (reason, message) = run_on(&client, "set /t").await.failed();
    assert_eq!(reason, ExitReason::Usage);
    assert!(message.contains("standard input"), "{message}");
    assert_eq!(run_on(&client, "set /t --file /absent").await.failed().0, ExitReason::Local);
}

#[tokio::test]
async fn a_write_with_another_version_than_expected_is_a_conflict() {
    let zk = tree().await;
    let client = zk.client().await;
    run_on(&client, "set --if-version 0 /t x").await.ok();
    for line in ["set --if-version 0 /t y", "rm --if-version 7 /t/b"] {
        let (reason, message) = run_on(&client, line).await.failed();
        assert_eq!(reason, ExitReason::Conflict);
        assert!(message.contains("version mismatch") && message.contains("`stat` shows"), "{message}");
    }
    assert_eq!(zk.get("/t").unwrap().text(), "x");
    run_on(&client, "rm --if-version 0 /t/b").await.ok();
    assert!(zk.get("/t/b").is_none());
}

#[tokio::test]
async fn rm_of_a_tree_counts_first_and_asks() {
    let zk = tree().await;
    let client = zk.client().await;
    let (reason, message) = run_on(&client, "rm /t").await.failed();
    assert_eq!(reason, ExitReason::Conflict);
    assert!(message.ends_with("-r deletes what is below it too"), "{message}");
    let refused = run_with(&client, "rm -r /t", b"", Some("no")).await;
    assert!(refused.notes.contains("Delete /t and the 4 znodes below it? [y/N]"), "{}", refused.notes);
    assert_eq!(refused.failed().0, ExitReason::Interrupted);
    let (reason, message) = run_on(&client, "rm -r /t").await.failed();
    assert_eq!(reason, ExitReason::Usage);
    assert!(message.contains("add --yes"), "{message}");
    assert_eq!(zk.children("/t"), ["a", "b"]);
    assert_eq!(run_on(&client, "rm -r --dry-run /t").await.ok(), "/t\n/t/a\n/t/a/1\n/t/a/2\n/t/b\n");
    assert_eq!(zk.children("/t"), ["a", "b"]);

    run_with(&client, "rm -r /t", b"", Some("y")).await.ok();
    assert!(zk.get("/t").is_none() && zk.get("/t-other").is_some());
}

#[tokio::test]
async fn what_belongs_to_the_server_is_never_deleted_not_even_below_a_chroot() {
    let zk = tree().await;
    let client = zk.client().await;
    for path in ["/", "/zookeeper", "/zookeeper/quota", "/t/../zookeeper", "/t/.."] {
        for flags in ["", "-r --yes", "-r --dry-run"] {
            let (reason, message) = run_on(&client, &format!("rm {flags} {path}")).await.failed();
            assert_eq!(reason, ExitReason::Usage, "{path}: {message}");
        }
    }
    let inside = client.chroot("/zookeeper").unwrap();
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let mut shell = Shell::new(inside, ShellIo::new(&mut out, &mut notes)).server("zk:2181/zookeeper");
    let error = shell.run_line("rm -r --yes /quota").await.unwrap_err();
    assert_eq!(error.reason(), ExitReason::Usage);
}

#[tokio::test]
async fn a_tree_that_changes_while_it_is_deleted_is_gone_in_the_end() {
    let zk = tree().await;
    let (client, other) = (zk.client().await, zk.client().await);
    // Between the listing of /t/a and its delete, a child comes and another one goes.
    let paused = zk.faults().on(op(OpCode::Delete).path("/t/a").nth(1)).fail(ErrorCode::NotEmpty).unwrap();
    let gone = zk.faults().on(op(OpCode::Delete).path("/t/a/1").nth(1)).fail(ErrorCode::NoNode).unwrap();
    other.create("/t/a/late", "").await.unwrap();
    let ran = run_on(&client, "rm -r -y /t --json").await;
    assert_eq!(ran.json(), [json!({"path": "/t", "deleted": 6})]);
    assert!(zk.get("/t").is_none());
    assert_eq!(zk.faults().fired().len(), 2);
    zk.faults().remove(paused);
    zk.faults().remove(gone);
}

#[tokio::test]
async fn a_tree_into_which_others_write_without_end_is_a_conflict_and_not_an_endless_loop() {
    let zk = tree().await;
    zk.faults().on(op(OpCode::Delete).path("/t")).fail(ErrorCode::NotEmpty).unwrap();
    let (reason, message) = run(&zk, "rm -r -y /t").await.failed();
    assert_eq!(reason, ExitReason::Conflict);
    assert!(message.contains("others create znodes in it"), "{message}");
}

#[tokio::test]
async fn what_may_not_be_deleted_is_named_and_the_rest_is_gone() {
    let zk = tree().await;
    let client = zk.client().await;
    client.set_acl("/t/a", vec![Acl::new(Perms::READ | Perms::ADMIN, "world", "anyone")]).await.unwrap();
    let ran = run_on(&client, "rm -r -y /t").await;
    assert_eq!(ran.notes, "1 znode deleted\n");
    let (reason, message) = ran.failed();
    assert_eq!(reason, ExitReason::Refused);
    assert!(
        message.starts_with("2 znodes and what is above could not be deleted; the first: rm: /t/a/1"),
        "{message}"
    );
    assert_eq!(
        (zk.children("/t"), zk.children("/t/a")),
        (vec!["a".to_owned()], vec!["1".to_owned(), "2".to_owned()])
    );
    // And one that may not even be listed.
    client.set_acl("/t/a", vec![Acl::new(Perms::DELETE | Perms::ADMIN, "world", "anyone")]).await.unwrap();
    let (reason, message) = run_on(&client, "rm -r -y /t").await.failed();
    assert_eq!(reason, ExitReason::Refused);
    assert!(message.starts_with("a znode could not be read: "), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_rate_holds() {
    let zk = tree().await;
    let began = tokio::time::Instant::now();
    run(&zk, "rm -r -y --rate 2 /t").await.ok();
    assert_eq!(began.elapsed(), Duration::from_secs(2), "five znodes, the first at once");
}

#[tokio::test]
async fn a_lost_reply_to_a_write_is_reported_as_unknown() {
    let zk = tree().await;
    let client = zk.client().await;
    zk.faults().on(op(OpCode::SetData)).lose_reply().unwrap();
    let ran = zk.pass_time_until(run_on(&client, "set /t x")).await.unwrap();
    let (reason, message) = ran.failed();
    assert_eq!(reason, ExitReason::Unreachable);
    assert!(message.contains("it may have been done: look before you repeat it"), "{message}");
}

#[tokio::test]
async fn a_shell_that_only_reads_refuses_every_write_before_it_is_sent() {
    let zk = tree().await;
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let mut shell = Shell::new(zk.client().await, ShellIo::new(&mut out, &mut notes));
    shell.set_read_only(true);
    for line in ["create /x", "set /t x", "rm /t/b"] {
        assert_eq!(shell.run_line(line).await.unwrap_err().reason(), ExitReason::Usage, "{line}");
    }
    shell.run_line("ls /t").await.unwrap();
    drop(shell);
    assert_eq!(zk.children("/t"), ["a", "b"]);
}

/// The failure of a line in a shell, whose input is its lines.
async fn run_without_input(zk: &TestServer, line: &str) -> (ExitReason, String) {
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let mut shell = Shell::new(zk.client().await, ShellIo::new(&mut out, &mut notes));
    let error = shell.run_line(line).await.unwrap_err();
    (error.reason(), error.to_string())
}

#[tokio::test]
async fn a_line_that_is_wrong_is_a_usage_error_in_one_line() {
    let zk = tree().await;
    for (line, part) in [
        ("gte /t", "unrecognized subcommand 'gte'; tip: "),
        ("deleteall /t", "there is no command deleteall; it is `rm -r` here"),
        ("get", "required arguments were not provided"),
        ("get '/t", "a quote is open"),
        ("create -e -c /x", "cannot be used with"),
        ("find --owner x", "must be a session id"),
        ("create /x --acl world:r", "must be SCHEME:ID:PERMS"),
        ("--json ls /t", "--json goes after the command, as in `ls / --json`"),
        ("set /t -", "in a shell, standard input has the commands and no data: give a file by --file FILE"),
        ("multi", "in a shell, standard input has the commands and no data: name the file, multi FILE"),
        ("history", "history: lines are remembered only at a terminal"),
        ("create /x --acl digest:bob:hush:r", "has the hash of the password"),
        ("set-acl -R /t world:anyone:r,digest:bob:hush:cdrwa", "openssl sha1 -binary | base64"),
    ] {
        let (reason, message) = run_without_input(&zk, line).await;
        assert_eq!(reason, ExitReason::Usage);
        assert!(message.contains(part) && message.lines().count() == 1, "{line}: {message}");
        assert!(!message.contains("hush"), "{message}");
    }
}
