//! The requests that every lock makes in the same way, retried until the session ends.

use std::future::{Future, IntoFuture, pending, poll_fn};
use std::task::Poll;

use bytes::Bytes;
use zoolet_client::internal::{MissingParents, with_parent_advice};
use zoolet_client::{Acl, Client, Error, ErrorCode, EventType, ReplyFuture, Stat, Watch};

use crate::config::{LockConfig, ParentMode};
use crate::error::LockError;
use crate::retry::RetryPolicy;

/// Waits for the event of a watch. `None` if the watch was removed.
pub(crate) async fn changed(watch: Watch) -> Result<Option<EventType>, Error> {
    match watch.changed().await {
        Ok(event) => Ok(Some(event.kind)),
        Err(Error::WatchRemoved(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The reply, or `None` if the znode does not exist.
pub(crate) fn if_exists<T>(reply: Result<T, Error>) -> Result<Option<T>, Error> {
    none_if(&[ErrorCode::NoNode], reply)
}

/// The reply, or `None` if it is one of these errors.
pub(crate) fn none_if<T>(codes: &[ErrorCode], reply: Result<T, Error>) -> Result<Option<T>, Error> {
    match reply {
        Err(error) if error.code().is_some_and(|code| codes.contains(&code)) => Ok(None),
        reply => reply.map(Some),
    }
}

/// The output of the first of the futures that is ready.
pub(crate) async fn first_of<F: Future>(futures: impl IntoIterator<Item = F>) -> F::Output {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|cx| {
        let mut polled = futures.iter_mut().map(|future| future.as_mut().poll(cx));
        polled.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// The output of the future; never, if there is none.
pub(crate) async fn or_never<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}

impl ParentMode {
    /// What creates missing parents in this mode.
    pub(crate) fn creator<'c>(self, client: &'c Client, acl: &[Acl]) -> MissingParents<'c> {
        let create = client.create("/", "").acl(acl.to_vec());
        MissingParents::new(match self {
            Self::Container => create.container(),
            Self::Persistent | Self::MustExist => create,
        })
    }
}

impl LockConfig {
    /// The policy of locks, whose callers choose their own timeout.
    pub(crate) fn retries(&self) -> RetryPolicy<'_, LockError> {
        RetryPolicy::until_session_ends(&self.client, &self.label)
    }

    /// As [`RetryPolicy::ask`], for a request whose first attempt was `sent` already.
    pub(crate) async fn ask_sent<T>(
        &self,
        sent: ReplyFuture<T>,
        mut again: impl FnMut() -> ReplyFuture<T>,
    ) -> Result<T, Error> {
        let mut sent = Some(sent);
        self.retries().ask(|| sent.take().unwrap_or_else(&mut again)).await
    }

    /// The names in `dir`, by the reply to an earlier request or by a new one; none if there is no such directory.
    pub(crate) async fn listed(
        &self,
        dir: &str,
        first: ReplyFuture<(Vec<String>, Stat)>,
    ) -> Result<Vec<String>, LockError> {
        let listed = self.ask_sent(first, || self.client.get_children(dir).into_future()).await;
        let listed = self.retries().if_exists(listed)?;
        Ok(listed.map_or_else(Vec::new, |(names, _)| names))
    }

    /// The names in `dir`; none if there is no such directory.
    pub(crate) async fn list(&self, dir: &str) -> Result<Vec<String>, LockError> {
        self.listed(dir, self.client.get_children(dir).into_future()).await
    }

    /// As [`list`](Self::list), with a watch. `None` if there is no such directory.
    pub(crate) async fn watch_children(&self, dir: &str) -> Result<Option<(Vec<String>, Watch)>, LockError> {
        let listed = self.retries().ask_if_exists(|| self.client.get_children(dir).watch()).await?;
        Ok(listed.map(|(names, _, watch)| (names, watch)))
    }

    /// Reads and watches a znode. getData and not exists, which would leave a watch if the znode is gone by now.
    pub(crate) async fn watch_data(&self, path: &str) -> Result<Option<(Bytes, Stat, Watch)>, LockError> {
        self.retries().ask_if_exists(|| self.client.get_data(path).watch()).await
    }

    /// Brings the server of this connection up to date: it then knows a create that was sent to another server.
    pub(crate) async fn sync(&self, path: &str) -> Result<(), LockError> {
        self.retries().ask(|| self.client.sync(path)).await.map_err(|error| self.error(error))
    }

    /// The `Stat` of a znode, or `None` if there is no such znode.
    pub(crate) async fn stat(&self, path: &str) -> Result<Option<Stat>, LockError> {
        self.retries().ask(|| self.client.exists(path)).await.map_err(|error| self.error(error))
    }

    /// Deletes one of our znodes. Its name is never used again, so the delete can be repeated until the znode is known to
    /// be gone. `Ok(false)` if somebody else deleted it.
    pub(crate) async fn delete(&self, path: &str) -> Result<bool, LockError> {
        let mut may_have_applied = false;
        let deleted = self.retries().ask_write(&mut may_have_applied, || self.cleanup.delete(path)).await;
        Ok(self.retries().if_exists(deleted)?.is_some() || may_have_applied)
    }

    /// Deletes several of our znodes, in one transaction unless one of them is gone already.
    pub(crate) async fn delete_all(&self, paths: &[&str]) -> Result<bool, LockError> {
        match paths {
            [] => return Ok(false),
            [path] => return self.delete(path).await,
            _ => {}
        }
        let mut deleted = false;
        let multi = || paths.iter().fold(self.cleanup.multi(), |multi, path| multi.delete(*path));
        let all = self.retries().ask_write(&mut deleted, multi).await;
        if self.retries().if_exists(all)?.is_some() {
            return Ok(true);
        }
        for path in paths {
            deleted |= self.delete(path).await?;
        }
        Ok(deleted)
    }

    /// Creates missing directories as configured.
    pub(crate) fn missing_parents(&self) -> MissingParents<'_> {
        self.parent.creator(&self.client, &self.acl)
    }

    /// Whether creating `parents` may help after `error`, which reports a missing directory; else reports the error.
    pub(crate) fn retry_with_parents(
        &self,
        parents: &mut MissingParents<'_>,
        error: Error,
    ) -> Result<(), LockError> {
        let may_help = error.code() == Some(ErrorCode::NoNode) && self.parent != ParentMode::MustExist;
        let retried = if may_help { parents.retry(error) } else { Err(error) };
        retried.map_err(|error| match error.code() {
            Some(code @ (ErrorCode::NoNode | ErrorCode::NoChildrenForEphemerals)) => {
                let advice = match self.parent {
                    ParentMode::MustExist => "and `ParentMode::MustExist` is set",
                    ParentMode::Container | ParentMode::Persistent => {
                        "although it was created again and again"
                    }
                };
                let cause = Box::new(with_parent_advice(error, advice));
                LockError::NoParent { dir: self.label.clone(), code, cause }
            }
            _ => self.error(error),
        })
    }
}
