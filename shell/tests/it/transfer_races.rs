//! Trees that are moved while others change them, and files that are not whole.

use std::fs;

use serde_json::json;
use zoolet::testing::{OpCode, TestServer, create, op};
use zoolet::{Acl, ErrorCode, Perms};
use zoolet_shell::ExitReason;

use crate::common::{run_between, run_on};

#[tokio::test]
async fn a_parent_that_somebody_deletes_during_a_copy_is_not_made_again_open_and_empty() {
    let zk = TestServer::builder().znode("/a/x", "").start().await.unwrap();
    let client = zk.client().await;
    zk.faults().on(create().path("/b/x").nth(1)).fail(ErrorCode::NoNode).unwrap();
    let (reason, message) = run_on(&client, "cp -r /a /b").await.failed();
    assert_eq!(reason, ExitReason::Conflict, "{message}");
    assert!(zk.get("/b/x").is_none());
    // Parents of the root are created.
    run_on(&client, "cp -r /a /new/parents/b").await.ok();
    assert!(zk.get("/new/parents/b/x").is_some());
}

#[tokio::test]
async fn a_file_that_leaves_out_parents_is_imported_with_them_and_replaces_none() {
    let zk = TestServer::builder().znode("/to/x", "theirs").start().await.unwrap();
    let client = zk.client().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), r#"{"/r/x/1": {"content": "aGk="}, "/r/y/2/3": {"content": null}}"#).unwrap();
    let ran = run_on(&client, &format!("import --overwrite {} /to", file.path().display())).await;
    assert_eq!(ran.notes, "4 created, 0 changed, 0 deleted\n");
    ran.ok();
    assert_eq!(run_on(&client, "find /to").await.ok(), "/to\n/to/x\n/to/x/1\n/to/y\n/to/y/2\n/to/y/2/3\n");
    assert_eq!(zk.get("/to/x").unwrap().text(), "theirs");
}

#[tokio::test]
async fn what_somebody_else_deletes_first_is_gone_and_what_is_to_be_changed_then_is_a_conflict() {
    let zk = TestServer::builder()
        .znode("/a/c", "one")
        .znode("/m/a", "")
        .znode("/m/c", "two")
        .znode("/m/d", "")
        .start()
        .await
        .unwrap();
    let client = zk.client().await;
    zk.faults().on(op(OpCode::Delete).path("/m/d").nth(1)).fail(ErrorCode::NoNode).unwrap();
    run_on(&client, "mirror -y /a /m").await.ok();
    assert!(zk.get("/m/a").is_none(), "the other deletes are done");
    client.set_data("/m/c", "two").await.unwrap();
    zk.faults().on(op(OpCode::SetData).path("/m/c").nth(1)).fail(ErrorCode::NoNode).unwrap();
    let (reason, message) = run_on(&client, "mirror -y /a /m").await.failed();
    assert_eq!(reason, ExitReason::Conflict, "{message}");
}

#[tokio::test]
async fn a_mirror_leaves_what_has_an_ephemeral_below_it_and_deletes_the_rest() {
    let zk = TestServer::builder()
        .znode("/a", "")
        .znode("/m/b/deep", "")
        .znode("/m/z/y", "")
        .start()
        .await
        .unwrap();
    let client = zk.client().await;
    client.create("/m/z/y/held", "").ephemeral().await.unwrap();
    let ran = run_on(&client, "mirror -y --json /a /m").await;
    assert!(ran.notes.contains("left out: 0 ephemerals of the first tree, 1 of the other"), "{}", ran.notes);
    assert_eq!(
        ran.json(),
        [json!({"created": 0, "changed": 0, "deleted": 2, "notEmpty": 2, "kept": 0, "ephemeralsLeftOut": 0})]
    );
    assert_eq!(run_on(&client, "find /m").await.ok(), "/m\n/m/z\n/m/z/y\n/m/z/y/held\n");
}

#[tokio::test]
async fn an_import_that_is_only_planned_says_what_it_would_fail_with() {
    let zk = TestServer::builder().znode("/x/a", "theirs").start().await.unwrap();
    let client = zk.client().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let import = format!("import -n {} /x", file.path().display());
    fs::write(file.path(), r#"{"/r": {}, "/r/a": {"content": "aGk="}, "/r/b": {}}"#).unwrap();
    let ran = run_on(&client, &import).await;
    assert_eq!(ran.out, "create /x/b\n");
    assert_eq!(ran.failed().0, ExitReason::Conflict);
    let hidden = r#"{"/r": {"acls": [{"perms": 31, "id": {"scheme": "digest", "id": "bob:x"}}]}}"#;
    fs::write(file.path(), hidden).unwrap();
    let import = import.replace(" /x", " /new");
    assert_eq!(run_on(&client, &import).await.failed().0, ExitReason::Refused);
}

#[tokio::test]
async fn a_mirror_that_would_be_refused_is_refused_before_the_question() {
    let zk = TestServer::builder().znode("/a", "new").znode("/m", "").start().await.unwrap();
    let client = zk.client().await;
    let hidden = Acl::new(Perms::ALL, "digest", "bob:x");
    client.set_acl("/a", vec![Acl::new(Perms::READ, "world", "anyone"), hidden]).await.unwrap();
    let (reason, message) = run_on(&client, "mirror /a /m").await.failed();
    assert_eq!(reason, ExitReason::Refused, "{message}");
}

#[tokio::test]
async fn a_mirror_of_an_ephemeral_does_not_delete_the_target() {
    let zk = TestServer::builder().znode("/m/a", "").start().await.unwrap();
    let client = zk.client().await;
    client.create("/e", "").ephemeral().await.unwrap();
    let (reason, message) = run_on(&client, "mirror -y /e /m").await.failed();
    assert_eq!(reason, ExitReason::Conflict, "{message}");
    assert!(client.exists("/m/a").await.unwrap().is_some());
}

#[tokio::test]
async fn an_export_does_not_write_a_znode_without_its_acl() {
    let zk = TestServer::builder().znode("/t/a", "").start().await.unwrap();
    zk.faults().on(op(OpCode::GetAcl).path("/t/a").nth(1)).fail(ErrorCode::NoNode).unwrap();
    let (reason, message) = run_between(&zk, &zk, "export /t", None).await.failed();
    assert_eq!(reason, ExitReason::Conflict, "{message}");
    run_between(&zk, &zk, "export --no-acl /t", None).await.ok();
}

#[cfg(unix)]
#[tokio::test]
async fn an_export_to_a_file_that_is_there_keeps_its_mode_and_a_link_to_it() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let zk = TestServer::builder().znode("/t/a", "").start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&file, &link).unwrap();
    run_between(&zk, &zk, &format!("export /t {}", link.display()), None).await.ok();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&file).unwrap().contains("zoolet-export/1"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    run_between(&zk, &zk, "export /t /dev/null", None).await.ok();
}

#[tokio::test]
async fn a_transfer_without_acls_reads_none() {
    let zk = TestServer::builder().znode("/a/x", "").start().await.unwrap();
    let fault = zk.faults().on(op(OpCode::GetAcl)).fail(ErrorCode::NoAuth).unwrap();
    let client = zk.client().await;
    run_on(&client, "cp -r --no-acl /a /b").await.ok();
    run_on(&client, "diff --no-acl /a /b").await.ok();
    assert!(zk.faults().fired().is_empty());
    zk.faults().remove(fault);
}
