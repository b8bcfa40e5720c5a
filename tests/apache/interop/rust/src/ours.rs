//! Our recipes, and what the driver wants to know of the tree.

use std::ops::ControlFlow;

use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};
use zoolet_client::{Client, ErrorCode, Sessions};
use zoolet_recipes::{
    Algorithm, Compat, Election, Guard, Leadership, Lock, LockError, Markers, Permit, ReadGuard, RwLock, Semaphore,
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
    /// What an election over sessions works on, until it is told to end.
    Run { end: oneshot::Sender<()>, run: JoinHandle<Result<(), LockError>> },
}

impl Held {
    pub(crate) async fn release(self) -> Outcome<()> {
        match self {
            Self::Lock(guard) => guard.release().await?,
            Self::Read(guard) => guard.release().await?,
            Self::Write(guard) => guard.release().await?,
            Self::Permit(permit) => permit.release().await?,
            Self::Leadership(leadership) => leadership.resign().await?,
            Self::Run { end, run } => {
                let _ = end.send(());
                return Ok(run.await??);
            }
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
        ["election", "run"] => lead(client, dir).await?,
        ["election"] => Held::Leadership(Election::new(client, dir).campaign("zoolet").await?),
        _ => return Err(format!("{kind}: no such kind").into()),
    })
}

/// Leads by `Election::run`, over sessions of its own.
async fn lead(client: &Client, dir: &str) -> Outcome<Held> {
    let server = client.server().ok_or("no server")?.to_string();
    let sessions = Sessions::open(Client::options().session_timeout(SESSION), server)?;
    let (leads, leading) = oneshot::channel();
    let (end, ending) = oneshot::channel();
    let (mut leads, mut ending) = (Some(leads), Some(ending));
    let dir = dir.to_owned();
    let run = tokio::spawn(async move {
        let campaign = |zk: &Client| Election::new(zk, &dir).campaign("zoolet");
        let work = |_leadership: Leadership| {
            let (leads, ending) = (leads.take(), ending.take());
            async move {
                let (Some(leads), Some(ending)) = (leads, ending) else { return ControlFlow::Break(()) };
                let _ = leads.send(());
                let _ = ending.await;
                ControlFlow::Break(())
            }
        };
        Election::run(&sessions, campaign, work).await
    });
    let waiting = Aborting(run.abort_handle());
    leading.await?;
    std::mem::forget(waiting);
    Ok(Held::Run { end, run })
}

/// A candidate that gives up if it is dropped.
struct Aborting(AbortHandle);

impl Drop for Aborting {
    fn drop(&mut self) {
        self.0.abort();
    }
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
