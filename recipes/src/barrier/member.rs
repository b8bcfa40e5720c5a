//! One member of a double barrier, from its first request to its last.
//!
//! What holds here: a round begins with the create of `ready`, in a multi that checks the znodes of as many members; it
//! ends with the delete of `ready`. Whether `ready` belongs to a member's round is told by the transactions that created
//! the two. The version of the barrier's own znode rises with each round, so that nobody deletes the `ready` of a later
//! round than the one it has looked at.

use std::future::Future;

use bytes::Bytes;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Client, Error, ErrorCode, EventType, Stat, Zxid};

use super::double::DoubleBarrier;
use super::error::BarrierError;
use crate::directory::create_all;
use crate::patience::Patience;

const READY: &str = "ready";

#[derive(Debug)]
pub(super) struct Member {
    barrier: DoubleBarrier,
    name: String,
    /// Whether there may be a znode of ours.
    joined: bool,
    /// The transaction that created `ready`, once this member is inside of that round.
    round: Option<Zxid>,
}

/// The barrier at one moment.
struct Look {
    ready: Option<Stat>,
    /// The names of the members, sorted.
    members: Vec<String>,
    /// The version of the barrier's own znode.
    version: i32,
}

impl Member {
    pub(super) fn new(barrier: DoubleBarrier) -> Self {
        let client = &barrier.client;
        // Clients may have a seed in common and draw the same numbers, but never a session.
        let drawn = client.random_u128() ^ u128::from(client.session_id().0 as u64);
        let name = uuid::Builder::from_random_bytes(drawn.to_be_bytes()).into_uuid().to_string();
        Self { barrier, name, joined: false, round: None }
    }

    pub(super) fn barrier(&self) -> &DoubleBarrier {
        &self.barrier
    }

    pub(super) fn node(&self) -> String {
        self.path_of(&self.name)
    }

    /// Enters, with as many others.
    pub(super) async fn enter(&mut self) -> Result<(), BarrierError> {
        loop {
            self.wait_for_end_of_round().await?;
            let since = self.join().await?;
            if self.wait_for_round(since).await? {
                return Ok(());
            }
            // A round had begun without us, whose members must not wait for us.
            self.withdraw().await;
        }
    }

    /// Waits until there is no `ready`.
    async fn wait_for_end_of_round(&mut self) -> Result<(), BarrierError> {
        let client = self.client().clone();
        let mut patience = Patience::new(&client);
        let ready = self.path_of(READY);
        if self.ask(&mut patience, || client.exists(&ready).send()).await?.is_none() {
            return Ok(());
        }
        loop {
            let read =
                self.ask(&mut patience, || client.get_children(&self.barrier.path).watch().send()).await;
            let (names, stat, watch) = match read {
                Ok(read) => read,
                Err(BarrierError::Client(error)) if error.code() == Some(ErrorCode::NoNode) => return Ok(()),
                Err(error) => return Err(error),
            };
            if !names.iter().any(|name| name == READY) {
                return Ok(());
            }
            if names.len() == 1 {
                // Its members are gone, and the last was not able to take it away.
                self.end_round(stat.version, false, &mut patience).await?;
                continue;
            }
            match watch.changed().await {
                Ok(_) | Err(Error::WatchRemoved(_)) => patience.renew(),
                Err(error) => return Err(self.error(error)),
            }
        }
    }

    /// Creates our znode, and tells by which transaction.
    async fn join(&mut self) -> Result<Zxid, BarrierError> {
        let node = self.node();
        // From here on there may be a znode of ours, whatever becomes of this future.
        self.joined = true;
        let (client, acl) = (self.client(), &self.barrier.acl);
        let mut patience = Patience::new(client);
        loop {
            let error = match client.create(&node, "").ephemeral().acl(acl.clone()).await {
                Ok(created) => return Ok(created.stat.czxid),
                Err(error) => error,
            };
            match error.code() {
                // Ours, by a request whose reply was lost: nobody else has the name.
                Some(ErrorCode::NodeExists) => {
                    if let Some(stat) = self.ask(&mut patience, || client.exists(&node).send()).await? {
                        return Ok(stat.czxid);
                    }
                }
                Some(ErrorCode::NoNode) => {
                    let made = create_all(client, &self.barrier.path, acl, true).await;
                    made.or_else(|error| self.passing(error))?;
                }
                _ => self.passing(error.clone())?,
            }
            patience.outlasts(error).await.map_err(|error| self.error(error))?;
        }
    }

    /// Waits until `ready` is created; `false` if it was before our own znode was, at `since`.
    async fn wait_for_round(&mut self, since: Zxid) -> Result<bool, BarrierError> {
        let client = self.client().clone();
        let (path, ready, node) = (self.barrier.path.clone(), self.path_of(READY), self.node());
        let mut patience = Patience::new(&client);
        loop {
            // exists, as this very name is created next. Watches are taken back when they are dropped.
            let begun = client.exists(&ready).watch().send();
            let own = client.get_data(&node).watch().send();
            let listed = client.get_children(&path).send();
            let ((begun, watch), (_, _, own), (names, _)) = match (begun.await, own.await, listed.await) {
                (Ok(begun), Ok(own), Ok(listed)) => (begun, own, listed),
                (_, Err(error), _) if error.code() == Some(ErrorCode::NoNode) => {
                    return Err(BarrierError::NodeDeleted { path });
                }
                (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
                    self.passing(error.clone())?;
                    patience.outlasts(error).await.map_err(|error| self.error(error))?;
                    continue;
                }
            };
            if let Some(begun) = begun {
                self.round = Some(begun.czxid).filter(|begun| *begun > since);
                return Ok(self.round.is_some());
            }
            if members_of(names.clone()).len() >= self.barrier.members {
                if let Err(error) = self.begin_round(&members_of(names)).await {
                    if !is_beaten(&error) {
                        self.passing(error.clone())?;
                    }
                    patience.outlasts(error).await.map_err(|error| self.error(error))?;
                }
                // What has become of it, the next look tells.
                continue;
            }
            let changed = tokio::select! {
                biased;
                changed = watch.changed() => changed,
                // Deleted by somebody, which the next look tells.
                changed = own.changed() => changed,
            };
            match changed {
                Ok(event) if event.kind == EventType::NodeCreated => {
                    // It was created while our znode was there. Whether it still is makes no difference, but for a
                    // member of another kind that takes it away at once.
                    let (begun, own) = (client.exists(&ready).send(), client.exists(&node).send());
                    if let (Ok(begun), Ok(Some(_))) = (begun.await, own.await) {
                        self.round = begun.map(|begun| begun.czxid);
                        return Ok(true);
                    }
                }
                Ok(_) | Err(Error::WatchRemoved(_)) => {}
                Err(error) => return Err(self.error(error)),
            }
            patience.renew();
        }
    }

    /// Begins a round, if as many of `members` are still there and nobody else was quicker.
    async fn begin_round(&self, members: &[String]) -> Result<(), Error> {
        let (client, path) = (self.client(), &self.barrier.path);
        let (data, stat) = client.get_data(path).await?;
        let mut multi = client.multi().add(client.set_data(path, data).version(stat.version));
        // Ourselves, and as many others as it needs.
        let others = members.iter().filter(|name| **name != self.name).take(self.barrier.members - 1);
        for name in others.chain([&self.name]) {
            multi = multi.check(self.path_of(name), None);
        }
        let ready = client.create(self.path_of(READY), Bytes::new()).acl(self.barrier.acl.clone());
        multi.add(ready).commit().await.map(drop)
    }

    /// Leaves, and waits until the round is over.
    pub(super) async fn leave(&mut self) -> Result<(), BarrierError> {
        let client = self.client().clone();
        let mut patience = Patience::new(&client);
        loop {
            let look = self.look(&mut patience).await?;
            if look.ready.is_none_or(|ready| Some(ready.czxid) != self.round) {
                return self.delete_own(&mut patience).await;
            }
            let (first, last) = (look.members.first(), look.members.last());
            let in_front = match (first, last) {
                (Some(first), Some(last)) if *first == self.name => {
                    if first == last {
                        self.end_round(look.version, true, &mut patience).await?;
                        continue;
                    }
                    // The last to leave waits for each of the others in turn.
                    last.clone()
                }
                (Some(first), _) => {
                    if self.joined {
                        self.delete_own(&mut patience).await?;
                    }
                    first.clone()
                }
                _ => {
                    self.end_round(look.version, false, &mut patience).await?;
                    continue;
                }
            };
            // getData, not exists: where the znode is gone by now no watch is left.
            match client.get_data(self.path_of(&in_front)).watch().await {
                Ok((_, _, watch)) => match watch.changed().await {
                    Ok(_) | Err(Error::WatchRemoved(_)) => patience.renew(),
                    Err(error) => return Err(self.error(error)),
                },
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                Err(error) => {
                    self.passing(error.clone())?;
                    patience.outlasts(error).await.map_err(|error| self.error(error))?;
                }
            }
        }
    }

    /// Goes without waiting for anybody, however far it has come. What keeps the znode there is the end of the session, with
    /// which it goes.
    pub(super) async fn withdraw(&mut self) {
        let client = self.client().clone();
        while self.joined {
            let mut patience = Patience::new(&client);
            match self.delete_own(&mut patience).await {
                Ok(()) => {}
                // Not before the session does.
                Err(BarrierError::Client(error)) if error.is_retryable() => {}
                Err(error) => {
                    tracing::debug!(node = self.node(), %error, "cannot leave a barrier; the znode goes with the session");
                    return;
                }
            }
        }
        if self.round.is_some() {
            // If it fails, the next who comes does it.
            let mut patience = Patience::new(&client);
            if let Ok(Look { ready: Some(ready), members, version }) = self.look(&mut patience).await {
                if Some(ready.czxid) == self.round && members.is_empty() {
                    let _ = self.end_round(version, false, &mut patience).await;
                }
            }
        }
    }

    async fn look(&self, patience: &mut Patience<'_>) -> Result<Look, BarrierError> {
        let client = self.client();
        loop {
            let ready = client.exists(self.path_of(READY)).send();
            let listed = client.get_children(&self.barrier.path).send();
            match (ready.await, listed.await) {
                (Ok(ready), Ok((names, stat))) => {
                    return Ok(Look { ready, members: members_of(names), version: stat.version });
                }
                (_, Err(error)) if error.code() == Some(ErrorCode::NoNode) => {
                    return Ok(Look { ready: None, members: Vec::new(), version: 0 });
                }
                (Err(error), _) | (_, Err(error)) => {
                    self.passing(error.clone())?;
                    patience.outlasts(error).await.map_err(|error| self.error(error))?;
                }
            }
        }
    }

    /// Deletes `ready`, and our own znode with it if it is there, unless another round has begun since the barrier's znode
    /// had this version.
    async fn end_round(
        &mut self,
        version: i32,
        own: bool,
        patience: &mut Patience<'_>,
    ) -> Result<(), BarrierError> {
        let client = self.client();
        let mut multi = client.multi().check(&self.barrier.path, version);
        if own {
            multi = multi.delete(self.node());
        }
        match multi.delete(self.path_of(READY)).commit().await {
            Ok(_) => {
                self.joined &= !own;
                Ok(())
            }
            Err(error) => {
                // The next look tells.
                if !is_beaten(&error) {
                    self.passing(error.clone())?;
                }
                patience.outlasts(error).await.map_err(|error| self.error(error))
            }
        }
    }

    /// Deletes our znode. Its name is never used again, so it may be tried until it is known to be gone; and behind a create
    /// that is under way still.
    async fn delete_own(&mut self, patience: &mut Patience<'_>) -> Result<(), BarrierError> {
        let node = self.node();
        let deleted = self.ask(patience, || self.client().delete(&node).send()).await;
        match deleted {
            Ok(()) => {}
            Err(BarrierError::Client(error)) if error.code() == Some(ErrorCode::NoNode) => {}
            Err(error) => return Err(error),
        }
        self.joined = false;
        Ok(())
    }

    async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        patience: &mut Patience<'_>,
        ask: impl FnMut() -> F,
    ) -> Result<T, BarrierError> {
        patience.ask(ask).await.map_err(|error| self.error(error))
    }

    /// Ok if the same may succeed later.
    fn passing(&self, error: Error) -> Result<(), BarrierError> {
        if error.is_retryable() { Ok(()) } else { Err(self.error(error)) }
    }

    fn error(&self, error: Error) -> BarrierError {
        BarrierError::of(&self.barrier.path, error)
    }

    fn client(&self) -> &Client {
        &self.barrier.client
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.barrier.path.trim_end_matches('/'))
    }
}

/// Whether somebody else was quicker; or our own request, whose reply was lost.
fn is_beaten(error: &Error) -> bool {
    matches!(error.code(), Some(ErrorCode::NoNode | ErrorCode::NodeExists | ErrorCode::BadVersion))
}

fn members_of(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| name != READY);
    names.sort_unstable();
    names
}
