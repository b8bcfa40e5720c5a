//! [`DeleteRecursive`]: a delete of a znode and everything below it.

use std::collections::VecDeque;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use zoolet_proto::{ErrorCode, path};

use crate::call::ReplyFuture;
use crate::client::Client;
use crate::context::ErrorContext;
use crate::error::Error;

/// Most deletes in flight.
const WINDOW: usize = 128;
/// How often, in all, something is tried again before giving up.
const RETRIES: u32 = 16;
/// What the server keeps its own znodes below.
const SYSTEM: &str = "/zookeeper";

/// A delete of a znode and everything below it; from [`Client::delete_recursive`].
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
/// zk.delete_recursive("/jobs/done").timeout(Duration::from_secs(30)).await?;
/// # Ok(()) }
/// ```
///
/// Children are deleted before their parent, up to 128 at a time; it is not one transaction, and others see the tree shrink.
/// Every listing is held in memory, but never the whole tree.
///
/// # Errors
/// `NoNode` if there is no znode at the path to begin with; a znode that others delete meanwhile is not an error. `NotEmpty` if
/// others create znodes in the tree faster than they are deleted: a znode that is not empty any more is emptied again, up to 16 times
/// in all. A request whose connection was lost, or which timed out, counts as one of these 16 and is sent again: to delete
/// twice does no harm, except to a znode that somebody has created again in between. `NoAuth` names the znode.
/// `InvalidOptions` for the root of the server, `/zookeeper`, and what is below that; below a [chroot](Client::chroot), `/` is
/// the znode at the chroot and is deleted too. After any other error a part of the tree may be gone, whatever
/// [`may_have_applied`](Error::may_have_applied) returns.
/// # Ordering and cancel safety
/// Nothing is sent before this is polled. Dropping the future leaves what is not yet deleted; up to 128 znodes may go still.
#[derive(Debug)]
#[must_use = "requests are sent by `.await`"]
pub struct DeleteRecursive<'c> {
    client: &'c Client,
    path: String,
    timeout: Option<Duration>,
}

/// A znode that is not empty.
struct Level {
    path: String,
    /// Whether its children have been deleted, or are levels above this one.
    listed: bool,
}

impl<'c> DeleteRecursive<'c> {
    pub(crate) fn new(client: &'c Client, path: String) -> Self {
        Self { client, path, timeout: None }
    }

    /// Fails with [`Error::Timeout`] if not all is deleted within `timeout`. Default: none for the whole; each request has the
    /// [`request_timeout`](crate::ConnectOptions::request_timeout) of the client.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<(), Error> {
        let Self { client, path, timeout } = self;
        let context = ErrorContext::local("deleteRecursive", &path);
        let outside = client.checked_path("deleteRecursive", path.clone(), false)?;
        let is_below =
            outside.strip_prefix(SYSTEM).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if outside == "/" || is_below {
            let reason = format!("{outside} belongs to the server");
            return Err(Error::InvalidOptions { context, reason });
        }
        let deleting = TreeDeletion { client, retries: 0 }.run(path);
        match timeout {
            None => deleting.await,
            Some(timeout) => {
                let in_time = {
                    // The clock's timers may need the runtime of the session.
                    let _entered = client.runtime.enter();
                    client.shared.clock.timeout(timeout, deleting)
                };
                in_time.await.unwrap_or_else(|_| Err(Error::Timeout(context.possibly_applied())))
            }
        }
    }
}

impl<'c> IntoFuture for DeleteRecursive<'c> {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

struct TreeDeletion<'c> {
    client: &'c Client,
    retries: u32,
}

impl TreeDeletion<'_> {
    async fn run(mut self, path: String) -> Result<(), Error> {
        // The znodes from the top to the one in progress, each with its siblings that are to come.
        let mut levels = vec![Level { path, listed: false }];
        let mut begun = false;
        while let Some(level) = levels.last_mut() {
            let path = level.path.clone();
            if level.listed {
                match self.client.delete(&path).await {
                    Ok(()) => drop(levels.pop()),
                    Err(error) if error.code() == Some(ErrorCode::NoNode) => drop(levels.pop()),
                    Err(error) => {
                        level.listed = error.code() != Some(ErrorCode::NotEmpty);
                        self.retry(error)?;
                    }
                }
                continue;
            }
            level.listed = true;
            match self.client.get_children(&path).await {
                Ok((names, _)) => {
                    begun = true;
                    for path in self.delete_children(&path, names).await? {
                        levels.push(Level { path, listed: false });
                    }
                }
                Err(error) if error.code() == Some(ErrorCode::NoNode) && begun => drop(levels.pop()),
                Err(error) => {
                    level.listed = false;
                    self.retry(error)?;
                }
            }
        }
        Ok(())
    }

    /// Deletes the children without children of their own; returns the others.
    async fn delete_children(&mut self, parent: &str, names: Vec<String>) -> Result<Vec<String>, Error> {
        let mut in_flight: VecDeque<(String, ReplyFuture<()>)> = VecDeque::new();
        let mut left = Vec::new();
        let mut names = names.into_iter();
        loop {
            while in_flight.len() < WINDOW {
                let Some(name) = names.next() else { break };
                let path = path::join(parent, &name);
                let reply = self.client.delete(&path).into_future();
                in_flight.push_back((path, reply));
            }
            let Some((path, reply)) = in_flight.pop_front() else { return Ok(left) };
            match reply.await {
                Ok(()) => {}
                Err(error) if error.code() == Some(ErrorCode::NoNode) => {}
                Err(error) if error.code() == Some(ErrorCode::NotEmpty) => left.push(path),
                Err(error) => {
                    self.retry(error)?;
                    left.push(path);
                }
            }
        }
    }

    /// Counts a retry.
    fn retry(&mut self, error: Error) -> Result<(), Error> {
        let not_empty = error.code() == Some(ErrorCode::NotEmpty);
        if self.retries == RETRIES || !(not_empty || error.is_retryable()) {
            return Err(match error {
                Error::Refused { context, code } if not_empty => {
                    let context = context.hint("others create znodes below it while it is deleted");
                    Error::Refused { context, code }
                }
                error => error,
            });
        }
        self.retries += 1;
        Ok(())
    }
}
