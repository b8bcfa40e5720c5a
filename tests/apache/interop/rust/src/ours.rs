//! Our recipes, and what the driver wants to know of the tree.

use zoolet_client::{Client, ErrorCode};
use zoolet_recipes::{
    Algorithm, Compat, Election, Guard, Leadership, Lock, Markers, Permit, ReadGuard, RwLock, Semaphore,
    WriteGuard, revoke,
};

use crate::{Outcome, SESSION};

/// Whatever is held.
pub(crate) enum Held {
    Lock(Guard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permit(Permit),
    Leadership(Leadership),
}

impl Held {
    pub(crate) async fn release(self) -> Outcome<()> {
        match self {
            Self::Lock(guard) => guard.release().await?,
            Self::Read(guard) => guard.release().await?,
            Self::Write(guard) => guard.release().await?,
            Self::Permit(permit) => permit.release().await?,
            Self::Leadership(leadership) => leadership.resign().await?,
        };
        Ok(())
    }

    pub(crate) async fn revoke_requested(&self) -> Outcome<()> {
        match self {
            Self::Lock(guard) => guard.revoke_requested().await,
            _ => return Err("no lock is held".into()),
        }
        Ok(())
    }
}

pub(crate) async fn connect(hosts: &str) -> Outcome<Client> {
    Ok(Client::options().session_timeout(SESSION).connect(hosts).await?)
}

pub(crate) async fn acquire(client: &Client, dir: &str, kind: &str) -> Outcome<Held> {
    let lock = Lock::builder(client, dir);
    let rw_lock = RwLock::builder(client, dir);
    Ok(match kind.split(':').collect::<Vec<_>>()[..] {
        ["lock"] => Held::Lock(lock.build().acquire().await?),
        ["lock", "dual"] => Held::Lock(lock.compat(Compat::DualKazoo).build().acquire().await?),
        ["lock", "children"] => Held::Lock(lock.algorithm(Algorithm::ChildrenWatch).build().acquire().await?),
        ["read", "curator"] => Held::Read(rw_lock.build().read().await?),
        ["write", "curator"] => Held::Write(rw_lock.build().write().await?),
        ["read", "kazoo"] => Held::Read(rw_lock.markers(Markers::Kazoo).build().read().await?),
        ["write", "kazoo"] => Held::Write(rw_lock.markers(Markers::Kazoo).build().write().await?),
        ["semaphore", max] => Held::Permit(Semaphore::new(client, dir, max.parse()?).acquire(1).await?),
        ["election"] => Held::Leadership(Election::new(client, dir).campaign("zoolet").await?),
        _ => return Err(format!("{kind}: no such kind").into()),
    })
}

/// `revoke ID DIR`, and for the driver `create ID PATH DATA`, `get ID PATH` and `ephemerals ID PATH`, which is all of them below a path.
pub(crate) async fn look(client: &Client, words: &[String]) -> Outcome<String> {
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["create", id, path, ref data @ ..] => {
            client.create(path, data.join(" ")).await?;
            Ok(format!("created {id}"))
        }
        ["revoke", id, dir] => {
            let contenders = Lock::new(client, dir).contenders().await?;
            revoke(client, contenders.first().ok_or("no client holds it")?).await?;
            Ok(format!("revoked {id}"))
        }
        ["get", id, path] => {
            let (data, _) = client.get_data(path).await?;
            Ok(format!("got {id} {}", String::from_utf8(data.to_vec())?))
        }
        ["ephemerals", id, path] => Ok(format!("found {id} {}", ephemerals(client, path).await?.join(" "))),
        _ => Err("no such command".into()),
    }
}

async fn ephemerals(client: &Client, top: &str) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    let mut paths = vec![top.to_string()];
    while let Some(path) = paths.pop() {
        match client.get_children(&path).await {
            Ok((names, stat)) => {
                paths.extend(names.iter().map(|name| format!("{path}/{name}")));
                if stat.ephemeral_owner.0 != 0 {
                    found.push(path);
                }
            }
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {} // gone meanwhile
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}
