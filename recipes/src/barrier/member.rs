//! One member of a double barrier, from its first request to its last.
//!
//! A round begins with the create of `ready`, in a multi that checks the znodes of all members; it ends with the delete of
//! `ready`. The transactions that created the two show whether `ready` belongs to a member's round. The version of the
//! barrier's own znode rises with each round, so that nobody deletes the `ready` of a later round than the one it saw.

use bytes::Bytes;
use zoolet_client::internal::ClientExt as _;
use zoolet_client::{Error, ErrorCode, EventType, Stat, Zxid};

use super::double::DoubleBarrier;
use super::error::BarrierError;
use crate::path::child;
use crate::retry::RetryPolicy;
use crate::unique::unique_number;

type Retries<'b> = RetryPolicy<'b, BarrierError>;

const READY: &str = "ready";

/// Another member was faster, or our own request whose reply was lost.
const BEATEN: [ErrorCode; 3] = [ErrorCode::NoNode, ErrorCode::NodeExists, ErrorCode::BadVersion];

#[derive(Debug)]
pub(super) struct Member {
    pub(super) barrier: DoubleBarrier,
    name: String,
    /// Whether there may be a znode of ours.
    joined: bool,
    /// The transaction that created `ready`, while this member is inside that round.
    round: Option<Zxid>,
}

/// The barrier at one moment.
struct BarrierView {
    ready: Option<Stat>,
    /// The names of the members, sorted.
    members: Vec<String>,
    /// The version of the barrier's own znode.
    version: i32,
}

impl Member {
    pub(super) fn new(barrier: DoubleBarrier) -> Self {
        let number = unique_number(&barrier.client).to_be_bytes();
        let name = uuid::Builder::from_random_bytes(number).into_uuid().to_string();
        Self { barrier, name, joined: false, round: None }
    }

    pub(super) fn node(&self) -> String {
        self.path_of(&self.name)
    }

    /// Enters, together with the other members.
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
        let barrier = self.barrier.clone();
        let (client, mut retries) = (&barrier.client, barrier.retries());
        let ready = self.path_of(READY);
        let begun = retries.ask(|| client.exists(&ready)).await;
        if begun.map_err(|error| retries.error(error))?.is_none() {
            return Ok(());
        }
        loop {
            let read = retries.ask_if_exists(|| client.get_children(&barrier.path).watch()).await?;
            let Some((names, stat, watch)) = read else { return Ok(()) };
            if !names.iter().any(|name| name == READY) {
                return Ok(());
            }
            if names.len() == 1 {
                // Its members are gone, and the last of them could not delete it.
                self.end_round(stat.version, false, &mut retries).await?;
                continue;
            }
            retries.changed(watch).await?;
            retries.reset();
        }
    }

    /// Creates our znode, and returns the transaction.
    async fn join(&mut self) -> Result<Zxid, BarrierError> {
        let node = self.node();
        // From here on there may be a znode of ours, even if this future is dropped.
        self.joined = true;
        let (client, acl) = (&self.barrier.client, &self.barrier.acl);
        let mut retries = self.barrier.retries();
        loop {
            let create = client.create(&node, "").ephemeral().acl(acl.clone());
            let error = match create.parents().containers().await {
                Ok(created) => return Ok(created.stat.czxid),
                Err(error) => error,
            };
            if error.code() == Some(ErrorCode::NodeExists) {
                // Ours, by a request whose reply was lost: nobody else has the name.
                let own = retries.ask(|| client.exists(&node)).await;
                if let Some(stat) = own.map_err(|error| retries.error(error))? {
                    return Ok(stat.czxid);
                }
            }
            retries.retry_also(error, &[ErrorCode::NodeExists]).await?;
        }
    }

    /// Waits until `ready` is created; `false` if that was before our own znode was created, at `since`.
    async fn wait_for_round(&mut self, since: Zxid) -> Result<bool, BarrierError> {
        let barrier = self.barrier.clone();
        let (client, mut retries) = (&barrier.client, barrier.retries());
        let (ready, node) = (self.path_of(READY), self.node());
        loop {
            // exists, because this name is created next. A watch that is dropped is removed.
            let replies = tokio::join!(
                client.exists(&ready).watch(),
                client.get_data(&node).watch(),
                client.get_children(&barrier.path),
            );
            let ((begun, watch), (_, _, own), (names, _)) = match replies {
                (Ok(begun), Ok(own), Ok(listed)) => (begun, own, listed),
                (_, Err(error), _) if error.code() == Some(ErrorCode::NoNode) => {
                    return Err(BarrierError::NodeDeleted { path: barrier.path });
                }
                (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
                    retries.retry(error).await?;
                    continue;
                }
            };
            if let Some(begun) = begun {
                self.round = Some(begun.czxid).filter(|begun| *begun > since);
                return Ok(self.round.is_some());
            }
            let members = members_of(names);
            if members.len() >= self.barrier.members {
                // The next look shows the outcome.
                if let Err(error) = self.begin_round(&members).await {
                    retries.retry_also(error, &BEATEN).await?;
                }
                continue;
            }
            let event = tokio::select! {
                biased;
                event = retries.changed(watch) => event?,
                // Deleted by somebody, which the next look shows.
                event = retries.changed(own) => event?,
            };
            if event == Some(EventType::NodeCreated) {
                // It was created while our znode existed. It may be gone again, because a member of another
                // implementation deletes it at once.
                if let (Ok(begun), Ok(Some(_))) = tokio::join!(client.exists(&ready), client.exists(&node)) {
                    self.round = begun.map(|begun| begun.czxid);
                    return Ok(true);
                }
            }
            retries.reset();
        }
    }

    /// Begins a round, if enough of `members` still exist and nobody else was faster.
    async fn begin_round(&self, members: &[String]) -> Result<(), Error> {
        let (client, path) = (&self.barrier.client, &self.barrier.path);
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
        let barrier = self.barrier.clone();
        let (client, mut retries) = (&barrier.client, barrier.retries());
        loop {
            let view = self.look(&mut retries).await?;
            // The round is over, or another one has begun: nobody to wait for.
            if view.ready.is_none_or(|ready| Some(ready.czxid) != self.round) {
                return self.delete_own(&mut retries).await;
            }
            let (first, last) = (view.members.first(), view.members.last());
            let in_front = match (first, last) {
                // The first member stays until all others have left, and waits for them; they leave at once and wait for it.
                // So each waiter watches one znode.
                (Some(first), Some(last)) if *first == self.name => {
                    if first == last {
                        self.end_round(view.version, true, &mut retries).await?;
                        continue;
                    }
                    // The last to leave waits for each of the others in turn.
                    last.clone()
                }
                (Some(first), _) => {
                    if self.joined {
                        self.delete_own(&mut retries).await?;
                    }
                    first.clone()
                }
                // Without members: the first one has died, and left `ready`.
                _ => {
                    self.end_round(view.version, false, &mut retries).await?;
                    continue;
                }
            };
            // getData and not exists, which would leave a watch if the znode is gone by now.
            let in_front = self.path_of(&in_front);
            let read = retries.ask_if_exists(|| client.get_data(&in_front).watch()).await?;
            if let Some((_, _, watch)) = read {
                retries.changed(watch).await?;
                retries.reset();
            }
        }
    }

    /// Leaves without waiting for anybody, from any state. Fails only at the end of the session, which removes the znode.
    pub(super) async fn withdraw(&mut self) {
        let barrier = self.barrier.clone();
        while self.joined {
            match self.delete_own(&mut barrier.retries()).await {
                Ok(()) => {}
                // Retried until the session ends.
                Err(BarrierError::Client(error)) if error.is_retryable() => {}
                Err(error) => {
                    tracing::debug!(
                        node = self.node(),
                        %error,
                        "cannot leave a barrier; the znode is removed with the session"
                    );
                    return;
                }
            }
        }
        if self.round.is_some() {
            // If it fails, the next member that comes does it.
            let mut retries = barrier.retries();
            if let Ok(BarrierView { ready: Some(ready), members, version }) = self.look(&mut retries).await {
                if Some(ready.czxid) == self.round && members.is_empty() {
                    let _ = self.end_round(version, false, &mut retries).await;
                }
            }
        }
    }

    async fn look(&self, retries: &mut Retries<'_>) -> Result<BarrierView, BarrierError> {
        let client = &self.barrier.client;
        loop {
            let ready = client.exists(self.path_of(READY));
            match tokio::join!(ready, client.get_children(&self.barrier.path)) {
                (Ok(ready), Ok((names, stat))) => {
                    return Ok(BarrierView { ready, members: members_of(names), version: stat.version });
                }
                (_, Err(error)) if error.code() == Some(ErrorCode::NoNode) => {
                    return Ok(BarrierView { ready: None, members: Vec::new(), version: 0 });
                }
                (Err(error), _) | (_, Err(error)) => retries.retry(error).await?,
            }
        }
    }

    /// Deletes `ready`, and our own znode with it if it exists, unless another round has begun since the barrier's znode
    /// had this version. The next look shows the outcome.
    async fn end_round(
        &mut self,
        version: i32,
        own: bool,
        retries: &mut Retries<'_>,
    ) -> Result<(), BarrierError> {
        let client = &self.barrier.client;
        let mut multi = client.multi().check(&self.barrier.path, version);
        if own {
            multi = multi.delete(self.node());
        }
        match multi.delete(self.path_of(READY)).commit().await {
            Ok(_) => {
                self.joined &= !own;
                Ok(())
            }
            Err(error) => retries.retry_also(error, &BEATEN).await,
        }
    }

    /// Deletes our znode. Its name is never used again, so the delete can be repeated until the znode is known to be gone,
    /// and is safe after a create that is still in flight.
    async fn delete_own(&mut self, retries: &mut Retries<'_>) -> Result<(), BarrierError> {
        // Sent whatever waits for a reply.
        let (node, cleanup) = (self.node(), self.barrier.client.unlimited());
        retries.ask_if_exists(|| cleanup.delete(&node)).await?;
        self.joined = false;
        Ok(())
    }

    fn path_of(&self, name: &str) -> String {
        child(&self.barrier.path, name)
    }
}

fn members_of(mut names: Vec<String>) -> Vec<String> {
    names.retain(|name| name != READY);
    names.sort_unstable();
    names
}
