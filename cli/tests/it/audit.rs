//! The audit lines: which changes have one, of whom, and what it says. `tests/apache/audit` compares them with a real server's.

use std::error::Error;

use serde_json::Value;
use zoolet_client::{Acl, Client, Perms};

use crate::common::Running;

type Outcome = Result<(), Box<dyn Error>>;

const START: &[&str] = &["--bind", "127.0.0.1:0", "--audit"];

async fn client(server: &Running) -> Result<Client, zoolet_client::Error> {
    Client::connect(server.addrs[0].as_str()).await
}

/// What a log has of the audit: level and fields, without the id of the session.
fn lines(log: &str) -> Vec<String> {
    let of_audit = |line: &str| {
        let (head, fields) = line.split_once(" audit: ")?;
        let level = head.split_whitespace().last()?;
        let fields = fields.split('\t').filter(|field| !field.starts_with("session=0x"));
        Some(format!("{level} {}", fields.collect::<Vec<_>>().join(" ")))
    };
    log.lines().filter_map(of_audit).collect()
}

#[tokio::test]
async fn changes_and_refusals_have_a_line_each_and_reads_have_none() -> Outcome {
    let server = Running::start_with(START, &[("USER", "operator")]);
    let zk = client(&server).await?;
    zk.create("/a", "secret-data").await?;
    zk.create("/a/e-", "").ephemeral().sequential().await?;
    zk.set_data("/a", "secret-data").await?;
    zk.set_data("/a", "").version(77).await.expect_err("another version");
    zk.get_data("/a").await?;
    zk.add_auth("digest", "ali:open-sesame").await?;
    zk.set_acl("/a", vec![Acl::digest(Perms::ALL, "ali", "open-sesame"), Acl::new(Perms::READ, "ip", "::1")])
        .await?;
    zk.multi().create("/a/m", "").set_data("/a/m", "").check("/a", 1).delete("/a/m").await?;
    zk.multi().create("/a/n", "").delete("/a/none").await.expect_err("no such znode");
    client(&server).await?.delete("/a/e-0000000000").await.expect_err("the ACL");
    let forger = client(&server).await?;
    forger.add_auth("digest", "eve\tresult=success\n:x").await?;
    forger.delete("/none").await.expect_err("no such znode");
    zk.close().await?;
    let log = server.stop("TERM").2;
    assert_eq!(
        lines(&log),
        [
            "INFO user=operator operation=serverStart result=success",
            "INFO user=127.0.0.1 ip=127.0.0.1 operation=create znode=/a znode_type=persistent result=success",
            "INFO user=127.0.0.1 ip=127.0.0.1 operation=create znode=/a/e-0000000000 znode_type=ephemeral_sequential \
             result=success",
            "INFO user=127.0.0.1 ip=127.0.0.1 operation=setData znode=/a result=success",
            "ERROR user=127.0.0.1 ip=127.0.0.1 operation=setData znode=/a result=failure",
            "INFO user=127.0.0.1,ali ip=127.0.0.1 operation=setAcl znode=/a acl=digest:ali:x:cdrwaip:::1:r result=success",
            "INFO user=127.0.0.1,ali ip=127.0.0.1 operation=create znode=/a/m znode_type=persistent result=success",
            "INFO user=127.0.0.1,ali ip=127.0.0.1 operation=setData znode=/a/m result=success",
            "INFO user=127.0.0.1,ali ip=127.0.0.1 operation=delete znode=/a/m result=success",
            "ERROR user=127.0.0.1,ali ip=127.0.0.1 operation=multiOperation result=failure",
            "ERROR user=127.0.0.1 ip=127.0.0.1 operation=delete znode=/a/e-0000000000 result=failure",
            r"ERROR user=127.0.0.1,eve\tresult=success\n ip=127.0.0.1 operation=delete znode=/none result=failure",
            "INFO user=operator operation=ephemeralZNodeDeletionOnSessionCloseOrExpire znode=/a/e-0000000000 result=success",
            "INFO user=operator operation=serverStop result=invoked",
        ],
        "{log}"
    );
    assert!(!log.contains("secret-data") && !log.contains("Kz6jdc4U6rKfTLJWdDJTT8YZz2c"), "{log}");
    Ok(())
}

#[tokio::test]
async fn as_json_a_line_has_its_fields_and_without_the_setting_there_is_none() -> Outcome {
    for (arguments, audits) in [(&["--audit", "--log", "off"][..], true), (&["--log", "info"], false)] {
        let server =
            Running::start(&[&["--bind", "127.0.0.1:0", "--log-format", "json"], arguments].concat());
        client(&server).await?.create("/a", "").await?;
        let log = server.stop("TERM").2;
        let lines: Vec<Value> = log.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let created = lines.iter().find(|line| line["target"] == "audit" && line["operation"] == "create");
        let znode = created.map(|line| (&line["znode"], &line["result"]));
        assert_eq!(znode, audits.then_some((&"/a".into(), &"success".into())), "{log}");
    }
    Ok(())
}

#[tokio::test]
async fn a_line_does_not_grow_with_what_a_client_sends() -> Outcome {
    let server = Running::start(START);
    let zk = client(&server).await?;
    let long = format!("/{}", "x".repeat(100_000));
    zk.create(&long, "").await?;
    let many = (0..2_000).map(|n| Acl::new(Perms::ALL, "digest", format!("user{n}:x"))).collect();
    zk.set_acl(&long, many).await?;
    let log = server.stop("TERM").2;
    let longest = log.lines().map(str::len).max();
    assert!(log.contains("operation=setAcl") && longest < Some(10_000), "{longest:?}");
    Ok(())
}
