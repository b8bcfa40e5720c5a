//! The requests that every lock makes in the same way, retried until the session ends.

use std::future::Future;

use zoolet_client::internal::MissingParents;
use zoolet_client::{Error, ErrorCode, ReplyFuture, Stat};

use crate::config::{LockConfig, ParentMode};
use crate::error::LockError;
use crate::retry::RetryPolicy;

impl LockConfig {
    /// Sends a request until there is a reply that no retry would change.
    pub(crate) async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        request: impl FnMut() -> F,
    ) -> Result<T, Error> {
        RetryPolicy::until_session_ends(&self.client).ask(request).await
    }

    /// As [`ask`](Self::ask), for a write. `may_have_applied` is set if a failed attempt may have been executed.
    pub(crate) async fn ask_write<T, F: Future<Output = Result<T, Error>>>(
        &self,
        may_have_applied: &mut bool,
        request: impl FnMut() -> F,
    ) -> Result<T, Error> {
        RetryPolicy::until_session_ends(&self.client).ask_write(may_have_applied, request).await
    }

    /// Waits until the request that failed with `error` may be sent again; else reports the error.
    pub(crate) async fn retry(&self, error: Error) -> Result<(), LockError> {
        let retried = RetryPolicy::until_session_ends(&self.client).retry(error).await;
        retried.map_err(|error| self.error(error))
    }

    /// The names in `dir`, by the reply to an earlier request or by a new one; none if there is no such directory.
    pub(crate) async fn listed(
        &self,
        dir: &str,
        first: ReplyFuture<(Vec<String>, Stat)>,
    ) -> Result<Vec<String>, LockError> {
        let mut first = Some(first);
        match self.ask(|| first.take().unwrap_or_else(|| self.client.get_children(dir).send())).await {
            Ok((names, _)) => Ok(names),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(Vec::new()),
            Err(error) => Err(self.error(error)),
        }
    }

    /// The names in `dir`; none if there is no such directory.
    pub(crate) async fn list(&self, dir: &str) -> Result<Vec<String>, LockError> {
        self.listed(dir, self.client.get_children(dir).send()).await
    }

    /// Brings the server of this connection up to date: it then knows a create that was sent to another server.
    pub(crate) async fn sync(&self, path: &str) -> Result<(), LockError> {
        self.ask(|| self.client.sync(path).send()).await.map_err(|error| self.error(error))
    }

    /// The `Stat` of a znode, or `None` if there is no such znode.
    pub(crate) async fn stat(&self, path: &str) -> Result<Option<Stat>, LockError> {
        self.ask(|| self.client.exists(path).send()).await.map_err(|error| self.error(error))
    }

    /// Deletes one of our znodes. Its name is never used again, so the delete can be repeated until the znode is known to
    /// be gone. `Ok(false)` if somebody else deleted it.
    pub(crate) async fn delete(&self, path: &str) -> Result<bool, LockError> {
        let mut may_have_applied = false;
        match self.ask_write(&mut may_have_applied, || self.client.delete(path).send()).await {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(may_have_applied),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Deletes several of our znodes, in one transaction unless one of them is gone already.
    pub(crate) async fn delete_all(&self, paths: &[&str]) -> Result<bool, LockError> {
        if let [path] = paths {
            return self.delete(path).await;
        }
        let mut deleted = false;
        let multi = || paths.iter().fold(self.client.multi(), |multi, path| multi.delete(*path)).send();
        match self.ask_write(&mut deleted, multi).await {
            Ok(_) => return Ok(!paths.is_empty()),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
            Err(error) => return Err(self.error(error)),
        }
        for path in paths {
            deleted |= self.delete(path).await?;
        }
        Ok(deleted)
    }

    /// Creates missing directories as configured.
    pub(crate) fn missing_parents(&self) -> MissingParents<'_> {
        let create = self.client.create("/", "").acl(self.acl.clone());
        MissingParents::new(match self.parent {
            ParentMode::Container => create.container(),
            ParentMode::Persistent | ParentMode::MustExist => create,
        })
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
                LockError::NoParent { dir: self.label.clone(), code }
            }
            _ => self.error(error),
        })
    }
}
