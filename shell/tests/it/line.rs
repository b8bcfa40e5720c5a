//! What a shell adds to single commands: a place, identities, and writes that belong together.

use std::fs;

use serde_json::json;
use zoolet::testing::{OpCode, TestServer};
use zoolet::{Acl, Perms};
use zoolet_shell::{ExitReason, Shell, ShellIo};

use crate::common::{run_on, run_with};

#[tokio::test]
async fn relative_paths_begin_at_the_current_znode() {
    let zk = TestServer::builder().znode("/a/b/c", "data").start().await.unwrap();
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    let mut shell = Shell::new(zk.client().await, ShellIo::new(&mut out, &mut notes));
    for line in ["cd a", "pwd", "ls", "cd b/", "get c", "get ../b/./c", "cd ..", "pwd", "cd", "pwd"] {
        shell.run_line(line).await.unwrap();
    }
    let error = shell.run_line("cd /absent").await.unwrap_err();
    assert_eq!(error.reason(), ExitReason::Absent);
    shell.run_line("pwd").await.unwrap();
    drop(shell);
    assert_eq!(String::from_utf8(out).unwrap(), "/a\nb\ndatadata/a\n/\n/\n");
}

#[tokio::test]
async fn an_identity_opens_what_its_acl_closes() {
    let zk = TestServer::builder().znode("/s", "secret").start().await.unwrap();
    let client = zk.client().await;
    client.set_acl("/s", vec![Acl::digest(Perms::ALL, "bob", "pw")]).await.unwrap();
    assert_eq!(run_on(&client, "get /s").await.failed().0, ExitReason::Refused);
    run_on(&client, "addauth digest bob:pw").await.ok();
    assert_eq!(run_on(&client, "get /s").await.ok(), "secret");
}

#[tokio::test]
async fn an_identity_may_be_written_as_in_a_file_of_credentials() {
    let zk = TestServer::builder().start().await.unwrap();
    let client = zk.client().await;
    run_on(&client, "addauth digest:bob:pw").await.ok();
    assert!(run_on(&client, "whoami").await.ok().contains("digest:bob\n"));
    let (reason, message) = run_on(&client, "addauth digest").await.failed();
    assert_eq!(reason, ExitReason::Usage, "{message}");
}

#[tokio::test]
async fn a_user_of_sasl_is_given_when_connecting() {
    let zk = TestServer::builder().start().await.unwrap();
    let client = zk.client().await;
    for line in ["addauth sasl:alice:secret", "addauth sasl alice:secret"] {
        let (reason, message) = run_on(&client, line).await.failed();
        assert_eq!(reason, ExitReason::Usage, "{message}");
        assert!(message.contains("only when connecting") && message.contains("--auth-file"), "{message}");
        assert!(!message.contains("secret"), "{message}");
    }
    // The session goes on.
    run_on(&client, "ls /").await.ok();
    let (reason, message) = run_on(&client, "addauth nonsense x").await.failed();
    assert_eq!(reason, ExitReason::Refused);
    assert!(message.ends_with("; check the scheme and the credentials"), "{message}");
    assert!(!message.contains("may have been done"), "{message}");
}

#[tokio::test]
async fn a_multi_is_done_as_a_whole_or_not_at_all() {
    let zk = TestServer::builder().znode("/a", "1").znode("/b", "").start().await.unwrap();
    let client = zk.client().await;
    let lines = b"# together\n\ncheck /a 0\nset /a 'two words'\ncreate -s /a/n- x\nrm /b\n";
    assert_eq!(run_with(&client, "multi", lines, None).await.ok(), "/a/n-0000000000\n");
    assert_eq!((zk.get("/a").unwrap().text(), zk.get("/b").is_none()), ("two words", true));

    let (reason, message) =
        run_with(&client, "multi", b"set /a x\nset --if-version 7 /a y\n", None).await.failed();
    assert_eq!(reason, ExitReason::Conflict);
    assert!(
        message.contains("version mismatch") && message.ends_with("standard input, line 2; nothing is done"),
        "{message}"
    );
    assert_eq!(zk.get("/a").unwrap().text(), "two words");

    let (reason, message) = run_with(&client, "multi", b"set /a x\n\nsett /a y\n", None).await.failed();
    assert_eq!(reason, ExitReason::Usage);
    assert!(message.contains("standard input, line 3: unrecognized subcommand 'sett'"), "{message}");
    let done = run_with(&client, "multi --json", b"set /a x\n", None).await.json();
    assert_eq!((&done[0]["done"], &done[0]["version"]), (&json!(true), &json!(2)));
}

#[tokio::test]
async fn set_acl_changes_one_or_all_and_names_what_refuses() {
    let zk = TestServer::builder().znode("/t/a", "").znode("/t/b", "").start().await.unwrap();
    let client = zk.client().await;
    run_on(&client, "set-acl /t world:anyone:cdrwa --if-version 0").await.ok();
    assert_eq!(
        run_on(&client, "set-acl /t world:anyone:cdrwa --if-version 0").await.failed().0,
        ExitReason::Conflict
    );
    client.set_acl("/t/a", vec![Acl::new(Perms::READ, "world", "anyone")]).await.unwrap();
    let ran = run_on(&client, "set-acl -R /t world:anyone:ra").await;
    assert_eq!(ran.notes, "2 ACLs of /t changed\n");
    let (reason, message) = ran.failed();
    assert_eq!(reason, ExitReason::Refused);
    assert!(message.contains("/t/a: not authorized"), "{message}");
    assert_eq!(
        run_on(&client, "acl -R /t").await.ok(),
        "world:anyone:ra /t\nworld:anyone:r /t/a\nworld:anyone:ra /t/b\n"
    );
    let (reason, message) = run_on(&client, "set-acl /t nobody:x:r").await.failed();
    assert_eq!(reason, ExitReason::Refused, "{message}");
}

#[cfg(unix)]
#[tokio::test]
async fn an_edit_is_written_only_if_nobody_else_wrote() {
    let zk = TestServer::builder().znode("/c", "one\ntwo\n").start().await.unwrap();
    let client = zk.client().await;
    let edit = |script: &str| format!("edit /c --editor \"{script}\"");
    let ran = run_with(&client, &edit("sed -i s/two/2/"), b"", Some("y")).await;
    assert!(
        ran.notes.contains(" one\n-two\n+2\n") && ran.notes.contains("Write this to /c?"),
        "{}",
        ran.notes
    );
    ran.ok();
    assert_eq!(zk.get("/c").unwrap().text(), "one\n2\n");

    run_with(&client, &edit("sed -i s/one/1/"), b"", Some("n")).await.failed();
    let ran = run_with(&client, &edit("true"), b"", None).await;
    assert_eq!(ran.notes, "nothing is changed\n");
    let (reason, _) = run_with(&client, &edit("false"), b"", None).await.failed();
    assert_eq!(reason, ExitReason::Local);
    assert_eq!(zk.get("/c").unwrap().text(), "one\n2\n");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_that_somebody_else_has_overtaken_is_a_conflict_and_is_kept() {
    let zk = TestServer::builder().znode("/c", "one\n").start().await.unwrap();
    let (client, other) = (zk.client().await, zk.client().await);
    let folder = tempfile::tempdir().unwrap();
    let (open, go_on) = (folder.path().join("open"), folder.path().join("go-on"));
    let overtaking = tokio::spawn({
        let (open, go_on) = (open.clone(), go_on.clone());
        async move {
            while !open.exists() {
                tokio::task::yield_now().await;
            }
            other.set_data("/c", "theirs").await.unwrap();
            fs::write(go_on, "").unwrap();
        }
    });
    let editor = folder.path().join("editor");
    let wait = format!("touch {}; until test -e {}; do :; done", open.display(), go_on.display());
    fs::write(&editor, format!("{wait}; sed -i s/one/mine/ $1")).unwrap();
    let line = format!("edit -y /c --editor \"sh {}\"", editor.display());
    let (reason, message) = run_with(&client, &line, b"", None).await.failed();
    overtaking.await.unwrap();
    assert_eq!((reason, zk.get("/c").unwrap().text()), (ExitReason::Conflict, "theirs"));
    let (_, kept) = message.rsplit_once("what you wrote is in ").unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), "mine\n");
    fs::remove_file(kept).unwrap();
}

#[tokio::test]
async fn who_is_refused_is_not_sent_to_the_command_that_was_refused() {
    let zk = TestServer::builder().znode("/s", "secret").start().await.unwrap();
    let client = zk.client().await;
    client.set_acl("/s", vec![Acl::digest(Perms::ALL, "bob", "pw")]).await.unwrap();
    let (_, message) = run_on(&client, "get /s").await.failed();
    assert!(message.contains("; `acl` shows who may; give your credentials"), "{message}");
    let (reason, message) = run_on(&client, "acl /s").await.failed();
    assert_eq!(reason, ExitReason::Refused);
    assert!(!message.contains("`acl` shows") && message.contains("; give your credentials"), "{message}");
}

#[tokio::test]
async fn a_sync_and_the_configuration_are_asked_as_in_zkcli() {
    let zk = TestServer::builder().znode("/a", "").start().await.unwrap();
    let client = zk.client().await;
    assert_eq!(run_on(&client, "sync /a").await.ok(), "");
    assert_eq!(zk.counters().requests[&OpCode::Sync], 1);
    let ran = run_on(&client, "config").await;
    assert_eq!(
        (ran.out.as_str(), ran.notes.as_str()),
        ("", "the server stands alone, and has no configuration\n")
    );
    ran.outcome.unwrap();
    assert_eq!(run_on(&client, "config --json").await.json()[0]["path"], "/zookeeper/config");
}
