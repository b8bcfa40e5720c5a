//! [`CreateWithParents`]: a create that also creates missing ancestors.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use bytes::Bytes;
use zoolet_proto::{Acl, ErrorCode, path};

use super::create::{Create, Created};
use crate::call::ReplyFuture;
use crate::error::Error;

/// How often missing parents are created before giving up. The server removes empty containers, so a parent can vanish
/// before its child is created; if that happens every time, something else is wrong.
const ATTEMPTS: u32 = 8;

/// A create that also creates missing parents; from [`Create::parents`].
///
/// ```no_run
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// let job = zk.create("/jobs/mail/job-", "payload").sequential().parents().await?;
/// # Ok(()) }
/// ```
///
/// The create is sent by itself first. If the server replies `NoNode`, the creates of all ancestors and the create are
/// sent again in one flight, so this takes one round trip if the parent exists and two otherwise.
///
/// # Errors
/// The errors of [`Client::create`](crate::Client::create). `NoNode` only if the parents vanish again and again, or if
/// the [chroot](crate::ConnectOptions::chroot) is missing, which is not created. `NoAuth`
/// names the parent if it is missing and may not be created, `NoChildrenForEphemerals` if one above it is ephemeral. After an error some of the parents may exist. A lost
/// connection is not retried, because the znode may have been created.
/// # Ordering and cancel safety
/// The first create is sent when this is awaited, in the order of the calls. Another client that creates a parent, or the
/// parents, at the same time is harmless. Dropping the future recalls no request: the znode and its parents may be created.
#[derive(Debug)]
#[must_use = "a request is sent by `.await`"]
pub struct CreateWithParents<'c> {
    create: Create<'c>,
    parent: Create<'c>,
}

impl<'c> CreateWithParents<'c> {
    pub(super) fn new(create: Create<'c>) -> Self {
        let parent = create.clone().into_plain();
        Self { create, parent }
    }

    /// Creates missing parents as containers, which the server removes some time after their last child. Servers before
    /// 3.5.3 have no containers and get persistent parents. Default: persistent.
    pub fn containers(mut self) -> Self {
        self.parent = self.parent.container();
        self
    }

    /// The ACL of missing parents. Default: the ACL of the znode.
    pub fn parent_acl(mut self, acl: Vec<Acl>) -> Self {
        self.parent = self.parent.acl(acl);
        self
    }

    async fn retry(self, mut reply: ReplyFuture<Created>) -> Result<Created, Error> {
        let Self { create, parent } = self;
        let path = path::parent(create.path()).to_owned();
        let mut parents = MissingParents::new(parent);
        loop {
            match reply.await {
                // The parent of a top-level znode is the root, or the chroot.
                Err(error) if error.code() == Some(ErrorCode::NoNode) && path != "/" => {
                    parents.retry(error)?;
                }
                outcome => return outcome,
            }
            let created = parents.send(&path, Bytes::new());
            reply = create.clone().into_future();
            parents.receive(created).await;
        }
    }
}

impl<'c> IntoFuture for CreateWithParents<'c> {
    type Output = Result<Created, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;

    fn into_future(self) -> Self::IntoFuture {
        let reply = self.create.clone().into_future();
        Box::pin(self.retry(reply))
    }
}

/// Creates missing parents in the same flight as the requests that need them.
///
/// Loop: [`send`](Self::send), then the requests, then [`receive`](Self::receive); if the requests fail for want of a
/// parent, [`retry`](Self::retry) and begin again.
#[derive(Debug)]
pub struct MissingParents<'c> {
    /// What every parent is created like.
    template: Create<'c>,
    attempts: u32,
    /// The latest refusal to create a parent. The server also refuses to create one that exists.
    denied: Option<Error>,
}

impl<'c> MissingParents<'c> {
    /// Creates parents like `template`, whatever its path and data.
    pub fn new(template: Create<'c>) -> Self {
        Self { template, attempts: 0, denied: None }
    }

    /// Whether it makes sense to try again after `error`, which reports a missing parent.
    ///
    /// # Errors
    /// Why a parent could not be created, or `error` after too many attempts.
    pub fn retry(&mut self, error: Error) -> Result<(), Error> {
        if let Some(denied) = self.denied.take() {
            return Err(denied);
        }
        if self.attempts == ATTEMPTS {
            return Err(error);
        }
        self.attempts += 1;
        Ok(())
    }

    /// Sends the creates of all ancestors of `path` and of `path`, which gets `data`. Sends nothing before the first
    /// [`retry`](Self::retry).
    pub fn send(&self, path: &str, data: Bytes) -> Vec<ReplyFuture<Created>> {
        if self.attempts == 0 || path == "/" {
            return Vec::new();
        }
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
        let mut sent: Vec<_> =
            ends.map(|end| self.template.clone().at(&path[..end], Bytes::new()).into_future()).collect();
        sent.push(self.template.clone().at(path, data).into_future());
        sent
    }

    /// Receives the replies. Most outcomes do not matter: the request that needs the parents decides.
    pub async fn receive(&mut self, sent: Vec<ReplyFuture<Created>>) {
        for (depth, reply) in sent.into_iter().enumerate() {
            let Err(error) = reply.await else { continue };
            match error.code() {
                // The parent of the topmost is the root or the chroot, which is not created.
                Some(ErrorCode::NoNode) if depth == 0 => self.denied = Some(error),
                Some(ErrorCode::Unimplemented) => self.template = self.template.clone().into_plain(),
                // One of them is ephemeral: no attempt will succeed while it is there.
                Some(ErrorCode::NoAuth | ErrorCode::NoChildrenForEphemerals) => self.denied = Some(error),
                _ => {}
            }
        }
    }
}
