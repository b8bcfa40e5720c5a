//! Every operation but watches, ACLs and multi.

use std::time::Duration;

use futures::future::try_join_all;
use zookeeper_client::{Acls, Client, CreateMode, EnsembleUpdate, Error};

use crate::checks::{check, equal, eventually, hold, refused, Outcome};
use crate::{EPHEMERAL, PERSISTENT};

pub async fn run(client: &Client) -> Outcome {
    check("create in all modes", modes(client)).await;
    check("create container, with TTL, sequential with TTL", vanishing_modes(client)).await;
    check("create with parents", parents(client)).await;
    check("create refused: exists, no parent, below an ephemeral", create_refused(client)).await;
    check("a container goes with its last child, a TTL znode with its time", vanishing(client)).await;
    check("get and set, right and wrong version", data(client)).await;
    check("children, their number, ephemerals", children(client)).await;
    check("delete, and delete refused: missing, wrong version, children", deletion(client)).await;
    check("sync", async { Ok(client.sync("/data").await?) }).await;
    check("who am I", who_am_i(client)).await;
    check("five hundred creates on their way at once", many(client)).await;
    Ok(())
}

async fn modes(client: &Client) -> Outcome {
    let anyone = Acls::anyone_all();
    client.create("/modes", b"", PERSISTENT).await?;
    let (stat, _) = client.create("/modes/p", b"1234", PERSISTENT).await?;
    equal((stat.version, stat.data_length, stat.ephemeral_owner), (0, 4, 0))?;
    let (stat, _) = client.create("/modes/e", b"", EPHEMERAL).await?;
    equal(stat.ephemeral_owner, client.session_id().0)?;
    let (_, sequence) = client.create("/modes/s-", b"", &CreateMode::PersistentSequential.with_acls(anyone)).await?;
    equal(sequence.to_string(), "0000000002".to_owned())?;
    let (stat, sequence) = client.create("/modes/es-", b"", &CreateMode::EphemeralSequential.with_acls(anyone)).await?;
    equal((sequence.into_i64(), stat.ephemeral_owner), (3, client.session_id().0))
}

async fn vanishing_modes(client: &Client) -> Outcome {
    let anyone = Acls::anyone_all();
    let ttl = Duration::from_millis(300);
    client.create("/modes/c", b"", &CreateMode::Container.with_acls(anyone)).await?;
    client.create("/modes/t", b"", &CreateMode::Persistent.with_acls(anyone).with_ttl(ttl)).await?;
    let options = CreateMode::PersistentSequential.with_acls(anyone).with_ttl(ttl);
    let (stat, sequence) = client.create("/modes/t-", b"", &options).await?;
    equal((sequence.into_i64(), stat.ephemeral_owner), (6, 0))
}

async fn parents(client: &Client) -> Outcome {
    client.mkdir("/modes/a/b/c", PERSISTENT).await?;
    hold("made", client.check_stat("/modes/a/b/c").await?.is_some())
}

async fn create_refused(client: &Client) -> Outcome {
    refused(client.create("/modes/p", b"", PERSISTENT).await, Error::NodeExists)?;
    refused(client.create("/modes/none/x", b"", PERSISTENT).await, Error::NoNode)?;
    refused(client.create("/modes/e/x", b"", PERSISTENT).await, Error::NoChildrenForEphemerals)
}

async fn vanishing(client: &Client) -> Outcome {
    client.create("/modes/c/x", b"", PERSISTENT).await?;
    client.delete("/modes/c/x", None).await?;
    eventually("they are gone", || async {
        let names = client.list_children("/modes").await?;
        Ok(!names.iter().any(|name| ["c", "t", "t-0000000006"].contains(&name.as_str())))
    })
    .await
}

async fn data(client: &Client) -> Outcome {
    client.create("/data", b"one", PERSISTENT).await?;
    let (data, stat) = client.get_data("/data").await?;
    equal((data.as_slice(), stat.version), (b"one".as_slice(), 0))?;
    let stat = client.set_data("/data", b"three", Some(0)).await?;
    equal((stat.version, stat.data_length), (1, 5))?;
    refused(client.set_data("/data", b"", Some(7)).await, Error::BadVersion)?;
    refused(client.set_data("/none", b"", None).await, Error::NoNode)?;
    equal(client.check_stat("/none").await?, None)?;
    equal(client.check_stat("/data").await?, Some(stat))
}

async fn children(client: &Client) -> Outcome {
    client.mkdir("/tree/b/deep", PERSISTENT).await?;
    client.create("/tree/a", b"", EPHEMERAL).await?;
    let (mut names, stat) = client.get_children("/tree").await?;
    names.sort();
    equal((names.join(" ").as_str(), stat.num_children), ("a b", 2))?;
    refused(client.get_children("/none").await, Error::NoNode)?;
    equal(client.count_descendants_number("/tree").await?, 3)?;
    equal(client.list_ephemerals("/tree").await?, vec!["/tree/a".to_owned()])
}

async fn deletion(client: &Client) -> Outcome {
    refused(client.delete("/tree", None).await, Error::NotEmpty)?;
    refused(client.delete("/tree/a", Some(3)).await, Error::BadVersion)?;
    client.delete("/tree/a", Some(0)).await?;
    refused(client.delete("/tree/a", None).await, Error::NoNode)
}

async fn who_am_i(client: &Client) -> Outcome {
    let users = client.list_auth_users().await?;
    let mut got: Vec<String> = users.iter().map(|user| format!("{} {}", user.scheme(), user.user())).collect();
    let own = std::env::var("ZK_IDENTITIES").unwrap_or_default();
    let mut expected: Vec<String> = own.lines().map(str::to_owned).chain(["ip 127.0.0.1".to_owned()]).collect();
    got.sort();
    expected.sort();
    equal(got, expected)
}

async fn many(client: &Client) -> Outcome {
    client.create("/many", b"", PERSISTENT).await?;
    let paths: Vec<String> = (0..500).map(|i| format!("/many/{i}")).collect();
    try_join_all(paths.iter().map(|path| client.create(path, b"", PERSISTENT))).await?;
    equal(client.list_children("/many").await?.len(), 500)
}

pub async fn config(client: &Client) -> Outcome {
    equal(client.get_config().await?.0, vec![])?;
    let update = EnsembleUpdate::New { ensemble: ["server.2=127.0.0.1:2:3;4"].into_iter() };
    refused(client.update_ensemble(update, None).await, Error::ReconfigDisabled)?;
    hold("the root is there", client.check_stat("/").await?.is_some())
}
