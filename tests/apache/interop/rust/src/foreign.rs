//! The lock of the crate zookeeper-client, with the names that it shares with Curator.

use zookeeper_client::{Acls, Client, CreateMode, Error, LockPrefix, OwnedLockClient};

use crate::{Outcome, SESSION};

pub(crate) async fn connect(hosts: &str) -> Outcome<Client> {
    Ok(Client::connector().with_session_timeout(SESSION).connect(hosts).await?)
}

pub(crate) async fn acquire(client: &Client, dir: &str, kind: &str) -> Outcome<OwnedLockClient> {
    if kind != "lock" {
        return Err(format!("{kind}: no such kind").into());
    }
    match client.create(dir, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await {
        Ok(_) | Err(Error::NodeExists) => {}
        Err(error) => return Err(error.into()),
    }
    let prefix = LockPrefix::new_curator(dir, "lock-")?;
    Ok(client.lock(prefix, b"", Acls::anyone_all()).await?.into_owned())
}
