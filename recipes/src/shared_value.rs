//! [`SharedValue`]: data that several programs change, each change exactly once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zoolet_client::{Acl, Error, Sessions, Stat, Zxid};

use crate::cache::{Cache, CacheBuilder};
use crate::once::Once;
use crate::tickets::{Collected, TicketError, TicketTxn};

/// The data of a znode, changed by several programs, each change exactly once: `SharedValue` of Curator. For numbers there is
/// [`Counter`](crate::Counter).
///
/// ```no_run
/// use zoolet_client::{Client, Sessions};
/// use zoolet_recipes::SharedValue;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = Sessions::open(Client::options(), "zk1:2181,zk2:2181")?;
/// let members = SharedValue::new(&sessions, "/config/members");
/// members.update(|old| [old.unwrap_or_default(), b"ann\n"].concat()).await?;
/// println!("{:?}", members.get().await?.data);
///
/// let cache = members.cache().open().await?;              // the value in memory, and its changes
/// # Ok(()) }
/// ```
///
/// A change is one multi of the data, under the version that was read, and of a record with the outcome, as of
/// [`Counter`](crate::Counter), with the same cost and the same limit. Records are in `<path>.tickets`.
#[derive(Debug, Clone)]
pub struct SharedValue {
    path: Arc<str>,
    once: Once,
}

/// The data of a [`SharedValue`] as it was at a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeenValue {
    /// The data; `None` if there is no znode.
    pub data: Option<Bytes>,
    /// The transaction that wrote it, of which there is one; 0 if there is no znode.
    pub mzxid: Zxid,
    /// The version, for a check in a multi.
    pub version: Option<i32>,
}

impl SharedValue {
    /// The value at `path`. Sends no request.
    pub fn new(sessions: &Sessions, path: impl Into<String>) -> Self {
        Self::with_acl(sessions, path, Acl::open())
    }

    /// As [`new`](SharedValue::new), with an ACL for what is created: the znode, missing parents and the records.
    pub fn with_acl(sessions: &Sessions, path: impl Into<String>, acl: Vec<Acl>) -> Self {
        let path = path.into();
        let once = Once::new(sessions, format!("{path}.tickets"), acl);
        Self { path: path.into(), once }
    }

    /// The value, as the server of the present session has it.
    ///
    /// # Errors
    /// Those of [`Client::get_data`](zoolet_client::Client::get_data), except `NoNode`. Without a connection it waits.
    /// # Ordering and cancel safety
    /// Shows at least what this handle has changed before. Dropping the future has no effect.
    pub async fn get(&self) -> Result<SeenValue, Error> {
        self.once.get_data(&self.path).await.map(SeenValue::of)
    }

    /// Replaces the data by what `change` makes of it, exactly once. `change` may be called several times; what one call
    /// returned is written. A znode that does not exist is created.
    ///
    /// # Errors
    /// See [`TicketError`]; after `Unknown` it was executed once or not at all. Without a connection it waits.
    /// # Ordering and cancel safety
    /// Dropping the future does not recall what was sent.
    pub async fn update<D: Into<Bytes>>(
        &self,
        change: impl Fn(Option<&[u8]>) -> D,
    ) -> Result<(), TicketError> {
        self.change("update", |found| Some(change(found.data.as_deref()).into())).await.map(drop)
    }

    /// Replaces the data if it is what was [`seen`](SharedValue::get), that is, if nothing has written since; `false` if
    /// something has. A lost reply does not make it fail by its own write.
    ///
    /// # Errors
    /// As of [`update`](SharedValue::update).
    /// # Ordering and cancel safety
    /// As of `update`.
    pub async fn compare_and_set(
        &self,
        seen: &SeenValue,
        new: impl Into<Bytes>,
    ) -> Result<bool, TicketError> {
        let new = new.into();
        self.change("compare and set", |found| (found.mzxid == seen.mzxid).then(|| new.clone())).await
    }

    /// A [`Cache`] of this one znode, not yet open: for the value in memory, and for a stream of its changes that goes on
    /// after the znode was deleted, and after a lost session.
    pub fn cache(&self) -> CacheBuilder<Bytes> {
        Cache::builder(self.once.sessions(), &*self.path).max_depth(0)
    }

    /// Removes the records of calls longer ago than `older_than`; see [`Counter::collect`](crate::Counter::collect).
    ///
    /// # Errors
    /// As of [`Tickets::collect`](crate::Tickets::collect).
    /// # Ordering and cancel safety
    /// May be dropped anywhere; the next call continues.
    pub async fn collect(&self, older_than: Duration) -> Result<Collected, TicketError> {
        self.once.collect(older_than).await
    }

    /// Writes the `target` of what is found; `false` if it has none.
    async fn change(
        &self,
        params: &str,
        target: impl Fn(&SeenValue) -> Option<Bytes>,
    ) -> Result<bool, TicketError> {
        let target = &target;
        let work = |mut txn: TicketTxn| async move {
            let found = SeenValue::of(txn.get_data(&*self.path).await?);
            let Some(data) = target(&found) else { return Ok(txn.refuse("")) };
            Ok(self.once.write(txn, &self.path, found.data.is_some(), data).done(""))
        };
        Ok(self.once.run(None, params.as_bytes(), work).await?.value.is_ok())
    }
}

impl SeenValue {
    fn of(found: Option<(Bytes, Stat)>) -> Self {
        match found {
            Some((data, stat)) => Self { data: Some(data), mzxid: stat.mzxid, version: Some(stat.version) },
            None => Self { data: None, mzxid: Zxid(0), version: None },
        }
    }
}
