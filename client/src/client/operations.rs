//! The requests: one short method per operation.

use bytes::Bytes;
use zoolet_proto::records::{self, AuthPacket, ClientInfo};
use zoolet_proto::{Acl, AddWatchMode, ErrorCode, Reply as Body, Request, Stat, WatcherType};

use super::Client;
use crate::call::Call;
use crate::command::{DecodedReply, ReplyExtra};
use crate::context::ErrorContext;
use crate::error::Error;
use crate::multi::{Multi, MultiRead};
use crate::op::{
    Create, Delete, DeleteRecursive, Exists, GetChildren, GetData, Reconfig, SetAcl, SetData, decode,
};
use crate::watch::WatchStream;

impl Client {
    /// Creates a znode at `path` with `data`. It is persistent and open to everybody unless the [builder](Create) changes
    /// that.
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// let job = zk.create("/jobs/job-", "payload").ephemeral().sequential().await?;
    /// println!("{}", job.path);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `NodeExists`, `NoNode` if the parent is missing (see [`Create::parents`]), `NoChildrenForEphemerals`, `InvalidAcl`.
    /// After `ConnectionLoss` and `Timeout` the znode may have been created.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future does not cancel the request.
    pub fn create(&self, path: impl Into<String>, data: impl Into<Bytes>) -> Create<'_> {
        Create::new(self, path.into(), data.into())
    }

    /// Deletes the znode at `path`, whatever its version unless the [builder](Delete) sets one.
    ///
    /// # Errors
    /// `NoNode`, `NotEmpty`, `BadVersion`. After `ConnectionLoss` and `Timeout` the outcome is unknown.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future does not cancel the request.
    pub fn delete(&self, path: impl Into<String>) -> Delete<'_> {
        Delete::new(self, path.into())
    }

    /// Deletes the znode at `path` and everything below it, children first.
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// zk.delete_recursive("/jobs").await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`DeleteRecursive`], among them `NoNode`, and `NotEmpty` if others create faster than this deletes.
    /// # Ordering and cancel safety
    /// Not one transaction. Nothing is sent before the first poll. Dropping the future leaves what is not yet deleted.
    pub fn delete_recursive(&self, path: impl Into<String>) -> DeleteRecursive<'_> {
        DeleteRecursive::new(self, path.into())
    }

    /// Reads the [`Stat`] of the znode at `path`; `None` if it is absent.
    ///
    /// # Errors
    /// Only the common errors (see [`Client`]).
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future has no effect on the server.
    pub fn exists(&self, path: impl Into<String>) -> Exists<'_> {
        Exists::new(self, path.into())
    }

    /// Reads the data of the znode at `path` and its [`Stat`].
    ///
    /// ZooKeeper distinguishes null data, which only some clients write, from empty data; this client reads both as empty.
    ///
    /// # Errors
    /// `NoNode`.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future has no effect on the server.
    pub fn get_data(&self, path: impl Into<String>) -> GetData<'_> {
        GetData::new(self, path.into())
    }

    /// Replaces the data of the znode at `path` and returns its new [`Stat`].
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// let (_data, stat) = zk.get_data("/config").await?;
    /// zk.set_data("/config", "new").version(stat.version).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `NoNode`, `BadVersion`. After `ConnectionLoss` and `Timeout` the outcome is unknown.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future does not cancel the request.
    pub fn set_data(&self, path: impl Into<String>, data: impl Into<Bytes>) -> SetData<'_> {
        SetData::new(self, path.into(), data.into())
    }

    /// Lists the names of the children of the znode at `path`, in no particular order, with its [`Stat`].
    ///
    /// # Errors
    /// `NoNode`.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future has no effect on the server.
    pub fn get_children(&self, path: impl Into<String>) -> GetChildren<'_> {
        GetChildren::new(self, path.into())
    }

    /// Reads the ACL of the znode at `path` and its [`Stat`].
    ///
    /// # Errors
    /// `NoNode`.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future has no effect on the server.
    pub fn get_acl(&self, path: impl Into<String>) -> Call<'_, (Vec<Acl>, Stat)> {
        let decode = decode!("getACL", DecodedReply { reply: Body::Acl(acl, stat), .. } => (acl, stat));
        self.call_on("getACL", path.into(), |path| Request::GetAcl(records::GetAcl { path }), decode)
    }

    /// Replaces the ACL of the znode at `path` and returns its new [`Stat`].
    ///
    /// # Errors
    /// `NoNode`, `BadVersion`, `InvalidAcl`. After `ConnectionLoss` and `Timeout` the outcome is unknown.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future does not cancel the request.
    pub fn set_acl(&self, path: impl Into<String>, acl: Vec<Acl>) -> SetAcl<'_> {
        SetAcl::new(self, path.into(), acl)
    }

    /// Makes the server of this connection catch up with its leader, so that later reads show every change that was
    /// committed when this was sent. A standalone server is always up to date.
    ///
    /// # Errors
    /// Only the common errors (see [`Client`]).
    /// # Ordering and cancel safety
    /// Requests sent later are executed later, so there is no need to await it. Dropping the future does not cancel it.
    pub fn sync(&self, path: impl Into<String>) -> Call<'_, ()> {
        let request = |path| Request::Sync(records::Sync { path: Some(path) });
        let decode = decode!("sync", DecodedReply { reply: Body::Synced(_), .. } => ());
        self.call_on("sync", path.into(), request, decode)
    }

    /// Lists the paths of the ephemerals of this session that begin with `prefix`, in no particular order; `/` for all.
    ///
    /// # Errors
    /// `Unimplemented` from servers before 3.6.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future has no effect on the server.
    pub fn get_ephemerals(&self, prefix: impl Into<String>) -> Call<'_, Vec<String>> {
        let prefix = Some(match prefix.into() {
            // The znode at the chroot itself may be one.
            all if all == "/" => self.chroot.join(all),
            prefix => self.chroot.join_prefix(prefix),
        });
        let request = Request::GetEphemerals(records::GetEphemerals { prefix });
        let decode = decode!("getEphemerals", DecodedReply { reply: Body::Ephemerals(paths), .. } => paths);
        Call::new(self, Ok(request), decode)
    }

    /// Counts the descendants of the znode at `path`, excluding the znode itself.
    ///
    /// # Errors
    /// `NoNode`; `Unimplemented` from servers before 3.6.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future has no effect on the server.
    pub fn get_all_children_number(&self, path: impl Into<String>) -> Call<'_, usize> {
        let request = |path| Request::GetAllChildrenNumber(records::GetAllChildrenNumber { path });
        let decode = decode!("getAllChildrenNumber", DecodedReply { reply: Body::Count(count), .. } => {
            usize::try_from(count).unwrap_or(0)
        });
        self.call_on("getAllChildrenNumber", path.into(), request, decode)
    }

    /// Starts a list of writes that are executed all or not at all. For errors, ordering and cancel safety see
    /// [`Multi::commit`].
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// let outcomes = zk.multi().check("/lock", 3).set_data("/a", "x").delete("/b").commit().await?;
    /// # Ok(()) }
    /// ```
    pub fn multi(&self) -> Multi<'_> {
        Multi::new(self)
    }

    /// Starts a list of reads for one request. Each succeeds or fails independently.
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// for outcome in zk.multi_read().get_data("/a").get_children("/b").await? {
    ///     println!("{outcome:?}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Only the common errors (see [`Client`]). The error of a single read is in its place among the results.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future has no effect on the server.
    pub fn multi_read(&self) -> MultiRead<'_> {
        MultiRead::new(self)
    }

    /// Sets a persistent watch on `path`, whether or not there is a znode, and returns the stream of its events. One-shot
    /// watches come with [`exists`](Client::exists), [`get_data`](Client::get_data) and
    /// [`get_children`](Client::get_children).
    ///
    /// `Persistent` reports every change of the znode and of its list of children. `PersistentRecursive` reports the
    /// creation, the deletion and every change of data of the znode and its descendants.
    ///
    /// Servers of 3.6 to 3.8 keep one mode of watch per path and connection, that of the watch set last. A one-shot watch on
    /// the same path replaces this one; once it has fired, or was dropped, the stream reports nothing until the next
    /// connection. Nor can these servers remove this kind of watch: after the stream is dropped, they send its events, which
    /// are ignored, until the connection ends.
    ///
    /// # Errors
    /// `Unimplemented` from servers before 3.6.
    /// # Ordering and cancel safety
    /// Every change after the reply is reported. Dropping the future removes the watch.
    pub fn add_watch(&self, path: impl Into<String>, mode: AddWatchMode) -> Call<'_, WatchStream> {
        let request = |path| Request::AddWatch(records::AddWatch { path: Some(path), mode: mode.code() });
        self.call_on("addWatch", path.into(), request, |outcome| match outcome?.extra.map(|extra| *extra) {
            Some(ReplyExtra::WatchStream(stream)) => Ok(stream),
            _ => Err(Error::Protocol(ErrorContext::local("addWatch", ""))),
        })
    }

    /// Removes the watches of one kind on `path` from the server, for every handle of this client: they fail with
    /// [`Error::WatchRemoved`]. To remove only one's own watch, drop it.
    ///
    /// Servers before 3.9 take `Data` and `Children` for any kind of watch, including persistent ones.
    ///
    /// # Errors
    /// `NoWatcher` if the server has none; `MarshallingError` for `Persistent` and `PersistentRecursive` from servers
    /// before 3.9.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future does not cancel the request.
    pub fn remove_watches(&self, path: impl Into<String>, kind: WatcherType) -> Call<'_, ()> {
        let kind = kind.code();
        let request = |path| Request::RemoveWatches(records::RemoveWatches { path: Some(path), kind });
        let decode = decode!("removeWatches", DecodedReply { .. } => ());
        self.call_on("removeWatches", path.into(), request, decode)
    }

    /// Returns whether the server has a watch of this kind on `path` for this connection.
    ///
    /// # Errors
    /// Only the common errors (see [`Client`]).
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future has no effect on the server.
    pub fn check_watches(&self, path: impl Into<String>, kind: WatcherType) -> Call<'_, bool> {
        let kind = kind.code();
        let request = |path| Request::CheckWatches(records::CheckWatches { path: Some(path), kind });
        self.call_on("checkWatches", path.into(), request, |outcome| match outcome {
            Ok(_) => Ok(true),
            Err(Error::Refused { code: ErrorCode::NoWatcher, .. }) => Ok(false),
            Err(error) => Err(error),
        })
    }

    /// Adds an identity to this session, on this connection and all later ones, such as scheme `digest` with
    /// `user:password`.
    ///
    /// **If the server refuses it the session is over**, with its ephemerals and locks: servers close the connection. They also
    /// refuse a scheme that they do not know, such as a misspelt one. Only `digest` is known to all of them; others have a
    /// provider that was configured. So try a doubtful identity with [`auth`](crate::ConnectOptions::auth), on a session
    /// that holds nothing yet.
    ///
    /// # Errors
    /// `AuthFailed` if the server refuses it.
    /// # Ordering and cancel safety
    /// Requests sent later have the identity. Dropping the future does not remove it.
    pub fn add_auth(&self, scheme: impl Into<String>, credentials: impl Into<Bytes>) -> Call<'_, ()> {
        let auth = AuthPacket { kind: 0, scheme: Some(scheme.into()), auth: Some(credentials.into()) };
        Call::new(self, Ok(Request::Auth(auth)), decode!("addAuth", DecodedReply { .. } => ()))
    }

    /// Lists the identities of this connection, without their passwords.
    ///
    /// # Errors
    /// `Unimplemented` from servers before 3.7.
    /// # Ordering and cancel safety
    /// Shows every identity that was added before. Dropping the future has no effect on the server.
    pub fn who_am_i(&self) -> Call<'_, Vec<ClientInfo>> {
        let decode = decode!("whoAmI", DecodedReply { reply: Body::WhoAmI(ids), .. } => ids);
        Call::new(self, Ok(Request::WhoAmI), decode)
    }

    /// Changes the membership of an ensemble, as set on the [builder](Reconfig), and returns the new configuration.
    ///
    /// # Errors
    /// `ReconfigDisabled` or `Unimplemented` from a standalone server; `NewConfigNoQuorum`, `ReconfigInProgress`,
    /// `BadVersion`, `BadArguments`. After `ConnectionLoss` and `Timeout` the outcome is unknown.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future does not cancel the request.
    pub fn reconfig(&self) -> Reconfig<'_> {
        Reconfig::new(self)
    }
}
