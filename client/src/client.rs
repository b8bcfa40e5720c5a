//! The handle: one short method per operation.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime;
use tokio::sync::mpsc;
use zoolet_proto::records::{self, AuthPacket, ClientInfo};
use zoolet_proto::{
    Acl, AddWatchMode, ErrorCode, OpCode, Reply as Body, Request, SessionId, Stat, WatcherType, Zxid, path,
};

use crate::call::{Answer, Call, Command, Reply, Submission, Waiting};
use crate::context::ErrorContext;
use crate::error::Error;
use crate::multi::{Multi, MultiRead};
use crate::op::{Create, Delete, Exists, GetChildren, GetData, Reconfig, SetAcl, SetData, decode};
use crate::options::{ConnectOptions, Connecting};
use crate::state::{SessionState, Shared, States};
use crate::transport::IntoTransport;
use crate::watch::{Handle, WatchStream};

/// A session with a ZooKeeper server or ensemble: a handle that is cheap to clone.
///
/// # One client is one session
/// When a connection is lost, another is sought and the session taken up again: identities and watches are set as they
/// were, then what has waited is sent. When the session is over, because the server expired it or refused credentials,
/// or it was [closed](Client::close), the client is too: every call under way and every later one fails with the
/// error that says so, and nothing opens a new session in silence. Dropping the last handle closes the session in the
/// background; watches and replies alone do not hold it open.
///
/// # Calls
/// A method gives a request that is not sent yet. `.await` sends it and waits; `.send()` sends it at once and gives
/// the future of the reply, which is how requests are pipelined. Requests leave in the order in which they are sent,
/// whatever the task, and are executed in that order. Dropping a reply's future does not recall the request.
///
/// # When the connection goes
/// A read that is under way is sent again on the next connection, as it changes nothing; it fails when three were lost
/// under it. A write that is under way fails with [`Error::ConnectionLoss`], and [`Error::may_have_applied`] says that
/// its outcome is unknown; the next connection then begins with a `sync`, so that reads behind it show it if it was
/// executed. A read that was sent before it may show it too, if it had to be sent again. Requests sent while there is no
/// connection wait for one, no longer than the session timeout. That no server can be reached is
/// never taken for an expiry: the server alone decides on that, and it may have been down itself.
///
/// # Errors of every call
/// Besides those a method names: `Refused` with `NoAuth` where an ACL forbids it, `InvalidPath`, `RequestTooLarge`,
/// `ReplyTooLarge`, `ConnectionLoss`, `Timeout`, and `SessionExpired`, `AuthFailed` or `Closed` when the session is
/// over. Codes such as `NoNode` are what [`Error::code`] gives.
#[derive(Clone)]
pub struct Client {
    commands: mpsc::UnboundedSender<Command>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) runtime: runtime::Handle,
}

impl Client {
    pub(crate) fn new(
        commands: mpsc::UnboundedSender<Command>,
        shared: Arc<Shared>,
        runtime: runtime::Handle,
    ) -> Self {
        Self { commands, shared, runtime }
    }

    /// Opens a session with default [options](Client::options): to a connect string, or through a closure.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), zoolet_client::Error> {
    /// let zk = zoolet_client::Client::connect("zk1:2181,zk2:2181/app").await?;
    /// let created = zk.create("/greeting", "hello").await?;
    /// let (data, stat) = zk.get_data(created.path).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`ConnectOptions::connect`].
    /// # Ordering and cancel safety
    /// As [`ConnectOptions::connect`].
    pub fn connect(target: impl IntoTransport) -> Connecting {
        Self::options().connect(target)
    }

    /// The options of a session, at their defaults.
    pub fn options() -> ConnectOptions {
        ConnectOptions::default()
    }

    // Operations on znodes.

    /// Creates a znode at `path` with `data`; persistent and open to everybody unless the builder says otherwise.
    ///
    /// # Errors
    /// `NodeExists`, `NoNode` if the parent is missing (see [`Create::parents`]), `NoChildrenForEphemerals`, `InvalidAcl`. After `ConnectionLoss`
    /// and `Timeout` there may be such a znode.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future does not recall the request.
    pub fn create(&self, path: impl Into<String>, data: impl Into<Bytes>) -> Create<'_> {
        Create::new(self, path.into(), data.into())
    }

    /// Deletes the znode at `path`, of any version unless the builder says otherwise.
    ///
    /// # Errors
    /// `NoNode`, `NotEmpty`, `BadVersion`. After `ConnectionLoss` and `Timeout` the outcome is unknown.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future does not recall the request.
    pub fn delete(&self, path: impl Into<String>) -> Delete<'_> {
        Delete::new(self, path.into())
    }

    /// Asks for the [`Stat`] of the znode at `path`: `None` if there is no such znode.
    ///
    /// # Errors
    /// None but those of every call.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future leaves nothing behind.
    pub fn exists(&self, path: impl Into<String>) -> Exists<'_> {
        Exists::new(self, path.into())
    }

    /// Reads the data of the znode at `path` and its [`Stat`]. Null data reads as empty.
    ///
    /// # Errors
    /// `NoNode`.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future leaves nothing behind.
    pub fn get_data(&self, path: impl Into<String>) -> GetData<'_> {
        GetData::new(self, path.into())
    }

    /// Replaces the data of the znode at `path` and returns its new [`Stat`].
    ///
    /// # Errors
    /// `NoNode`, `BadVersion`. After `ConnectionLoss` and `Timeout` the outcome is unknown.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future does not recall the request.
    pub fn set_data(&self, path: impl Into<String>, data: impl Into<Bytes>) -> SetData<'_> {
        SetData::new(self, path.into(), data.into())
    }

    /// Lists the names of the children of the znode at `path`, in no order, and its [`Stat`].
    ///
    /// # Errors
    /// `NoNode`.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future leaves nothing behind.
    pub fn get_children(&self, path: impl Into<String>) -> GetChildren<'_> {
        GetChildren::new(self, path.into())
    }

    /// Reads the ACL of the znode at `path` and its [`Stat`].
    ///
    /// # Errors
    /// `NoNode`.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future leaves nothing behind.
    pub fn get_acl(&self, path: impl Into<String>) -> Call<'_, (Vec<Acl>, Stat)> {
        let path = self.checked_path("getACL", path.into(), false);
        let request = path.map(|path| Request::GetAcl(records::GetAcl { path }));
        Call::new(self, request, decode!("getACL", Answer { reply: Body::Acl(acl, stat), .. } => (acl, stat)))
    }

    /// Replaces the ACL of the znode at `path` and returns its new [`Stat`].
    ///
    /// # Errors
    /// `NoNode`, `BadVersion`, `InvalidAcl`. After `ConnectionLoss` and `Timeout` the outcome is unknown.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future does not recall the request.
    pub fn set_acl(&self, path: impl Into<String>, acl: Vec<Acl>) -> SetAcl<'_> {
        SetAcl::new(self, path.into(), acl)
    }

    /// Brings the server of this connection up to date with its leader, so that later reads show every change that was
    /// done when this was sent. A standalone server always is.
    ///
    /// # Errors
    /// None but those of every call.
    /// # Ordering and cancel safety
    /// What is sent behind it is executed behind it, so there is no need to wait. Dropping the future changes nothing.
    pub fn sync(&self, path: impl Into<String>) -> Call<'_, ()> {
        let path = self.checked_path("sync", path.into(), false);
        let request = path.map(|path| Request::Sync(records::Sync { path: Some(path) }));
        Call::new(self, request, decode!("sync", Answer { reply: Body::Synced(_), .. } => ()))
    }

    /// Lists the ephemerals of this session whose path begins with `prefix`, in no order; `/` for all.
    ///
    /// # Errors
    /// `Unimplemented` from servers before 3.6.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future leaves nothing behind.
    pub fn get_ephemerals(&self, prefix: impl Into<String>) -> Call<'_, Vec<String>> {
        let prefix = Some(match prefix.into() {
            // The znode of that name may be one itself.
            all if all == "/" => self.shared.chroot.join(all),
            prefix => self.shared.chroot.join_prefix(prefix),
        });
        let request = Request::GetEphemerals(records::GetEphemerals { prefix });
        let decode = decode!("getEphemerals", Answer { reply: Body::Ephemerals(paths), .. } => paths);
        Call::new(self, Ok(request), decode)
    }

    /// Counts the descendants of the znode at `path`, itself not among them.
    ///
    /// # Errors
    /// `NoNode`; `Unimplemented` from servers before 3.6.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future leaves nothing behind.
    pub fn get_all_children_number(&self, path: impl Into<String>) -> Call<'_, usize> {
        let path = self.checked_path("getAllChildrenNumber", path.into(), false);
        let request = path.map(|path| Request::GetAllChildrenNumber(records::GetAllChildrenNumber { path }));
        let decode = decode!("getAllChildrenNumber", Answer { reply: Body::Count(count), .. } => {
            usize::try_from(count).unwrap_or(0)
        });
        Call::new(self, request, decode)
    }

    /// Begins a list of writes that happen all or not at all.
    ///
    /// Errors, order and cancellation are those of [`Multi::commit`].
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// let outcomes = zk.multi().check("/lock", 3).set_data("/a", "x").delete("/b").commit().await?;
    /// # Ok(()) }
    /// ```
    pub fn multi(&self) -> Multi<'_> {
        Multi::new(self)
    }

    /// Begins a list of reads for one request. Each succeeds or fails by itself.
    ///
    /// # Errors
    /// None but those of every call; what is wrong with one of the reads is in its place among the results.
    /// # Ordering and cancel safety
    /// Shows every write that this client has sent before. Dropping the future leaves nothing behind.
    pub fn multi_read(&self) -> MultiRead<'_> {
        MultiRead::new(self)
    }

    // Watches. One-shot ones come with exists, getData and getChildren.

    /// Sets a persistent watch on `path`, whether or not there is such a znode, and gives the stream of its events.
    ///
    /// `Persistent` tells every change of the znode and of its list of children; `PersistentRecursive` tells creation,
    /// deletion and change of data of the znode and everything below it.
    ///
    /// This is so with servers from 3.9 on. Those of 3.6 to 3.8 keep one mode of watch per path and connection, that of
    /// the watch set last: a one-shot watch on the same path takes the place of this one, and once that has fired, or was
    /// dropped, the stream tells nothing until the next connection. Nor can they take this kind away: the events of a
    /// dropped stream are sent, for nobody, until the connection ends.
    ///
    /// # Errors
    /// `Unimplemented` from servers before 3.6.
    /// # Ordering and cancel safety
    /// Every change later than the reply is told. Dropping the future takes the watch back.
    pub fn add_watch(&self, path: impl Into<String>, mode: AddWatchMode) -> Call<'_, WatchStream> {
        let path = self.checked_path("addWatch", path.into(), false);
        let request =
            path.map(|path| Request::AddWatch(records::AddWatch { path: Some(path), mode: mode.code() }));
        Call::new(self, request, |outcome| match outcome?.watch.map(|handle| *handle) {
            Some(Handle::Persistent(stream)) => Ok(stream),
            _ => Err(Error::Protocol(ErrorContext::local("addWatch", ""))),
        })
    }

    /// Takes away the watches of one kind on `path` from the server and from everybody here who holds one; those
    /// learn it as [`Error::WatchRemoved`]. Whoever just wants to give up its own drops it instead.
    ///
    /// Servers before 3.9 take `Data` and `Children` for whatever watch there is, persistent ones included.
    ///
    /// # Errors
    /// `NoWatcher` if the server knows none; `MarshallingError` for `Persistent` and `PersistentRecursive` from servers
    /// before 3.9.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future does not recall the request.
    pub fn remove_watches(&self, path: impl Into<String>, kind: WatcherType) -> Call<'_, ()> {
        let path = self.checked_path("removeWatches", path.into(), false);
        let request = path.map(|path| {
            Request::RemoveWatches(records::RemoveWatches { path: Some(path), kind: kind.code() })
        });
        Call::new(self, request, decode!("removeWatches", Answer { .. } => ()))
    }

    /// Asks the server whether this connection has a watch of that kind on `path`.
    ///
    /// # Errors
    /// None but those of every call.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future leaves nothing behind.
    pub fn check_watches(&self, path: impl Into<String>, kind: WatcherType) -> Call<'_, bool> {
        let path = self.checked_path("checkWatches", path.into(), false);
        let request = path
            .map(|path| Request::CheckWatches(records::CheckWatches { path: Some(path), kind: kind.code() }));
        Call::new(self, request, |outcome| match outcome {
            Ok(_) => Ok(true),
            Err(Error::Refused { code: ErrorCode::NoWatcher, .. }) => Ok(false),
            Err(error) => Err(error),
        })
    }

    // Identity and administration.

    /// Adds an identity to this session, on this connection and on all that follow.
    ///
    /// # Errors
    /// `AuthFailed` if the server refuses it; the session is over then, as servers close the connection.
    /// # Ordering and cancel safety
    /// Requests sent later have the identity. Dropping the future does not take it back.
    pub fn add_auth(&self, scheme: impl Into<String>, credentials: impl Into<Bytes>) -> Call<'_, ()> {
        let auth = AuthPacket { kind: 0, scheme: Some(scheme.into()), auth: Some(credentials.into()) };
        Call::new(self, Ok(Request::Auth(auth)), decode!("addAuth", Answer { .. } => ()))
    }

    /// Lists the identities of this connection, without their secrets.
    ///
    /// # Errors
    /// `Unimplemented` from servers before 3.7.
    /// # Ordering and cancel safety
    /// Knows every identity that was added before. Dropping the future leaves nothing behind.
    pub fn who_am_i(&self) -> Call<'_, Vec<ClientInfo>> {
        Call::new(
            self,
            Ok(Request::WhoAmI),
            decode!("whoAmI", Answer { reply: Body::WhoAmI(ids), .. } => ids),
        )
    }

    /// Changes the membership of an ensemble and returns the new configuration. The [builder](Reconfig) takes the change.
    ///
    /// # Errors
    /// `ReconfigDisabled` or `Unimplemented` from a standalone server; `NewConfigNoQuorum`, `ReconfigInProgress`,
    /// `BadVersion`, `BadArguments`. After `ConnectionLoss` and `Timeout` the outcome is unknown.
    /// # Ordering and cancel safety
    /// Executed in the order of sending. Dropping the future does not recall the request.
    pub fn reconfig(&self) -> Reconfig<'_> {
        Reconfig::new(self)
    }

    // The session.

    /// Closes the session behind everything sent so far: its ephemerals go, and later calls fail with `Closed`.
    ///
    /// # Errors
    /// `ConnectionLoss` if the server could not confirm it within two thirds of the session timeout, or before the
    /// runtime went that drives the session; it expires the session by itself then.
    /// # Ordering and cancel safety
    /// It is under way when this returns the future. Dropping that changes nothing. A close of a session that is being
    /// closed waits for the same outcome; of one that is over it is done at once.
    pub fn close(&self) -> Reply<()> {
        let (reply_to, waiting) = Waiting::channel(OpCode::CloseSession);
        // If there is no driver, the session is over and its state says how.
        let _ = self.commands.send(Command::Close(reply_to));
        Reply::new(waiting, |outcome| match outcome {
            Ok(_) | Err(Error::Closed(_)) => Ok(()),
            Err(error) => Err(error),
        })
    }

    /// Where the session stands.
    pub fn state(&self) -> SessionState {
        self.shared.state()
    }

    /// The states of the session from now on, none left out; the first is the present one.
    pub fn states(&self) -> States {
        self.shared.states()
    }

    /// Waits until the session is over and says how.
    ///
    /// # Ordering and cancel safety
    /// Dropping the future changes nothing.
    pub async fn ended(&self) -> SessionState {
        self.shared.wait_for(SessionState::is_final).await
    }

    /// The id of the session, by which `Stat::ephemeral_owner` names it.
    pub fn session_id(&self) -> SessionId {
        self.shared.session_id()
    }

    /// The session timeout that the server has granted on the latest connection.
    pub fn session_timeout(&self) -> Duration {
        self.shared.session_timeout()
    }

    /// The latest transaction that a reply to this session has shown.
    pub fn last_zxid(&self) -> Zxid {
        self.shared.last_zxid()
    }

    // For the builders.

    /// The server's name for `path`.
    pub(crate) fn checked_path(
        &self,
        operation: &'static str,
        path: String,
        sequential: bool,
    ) -> Result<String, Error> {
        let check = match sequential {
            // What counts is the path with a number behind it.
            true => path::validate(&format!("{path}1")),
            false => path::validate(&path),
        };
        match check {
            Ok(()) if sequential => Ok(self.shared.chroot.join_prefix(path)),
            Ok(()) => Ok(self.shared.chroot.join(path)),
            Err(reason) => Err(Error::InvalidPath { context: ErrorContext::local(operation, path), reason }),
        }
    }

    pub(crate) fn submit(&self, request: Request, timeout: Option<Duration>) -> Waiting {
        let (reply_to, waiting) = Waiting::channel(request.op());
        // The clock is read for those alone who have a deadline.
        let timeout = timeout.or(self.shared.request_timeout);
        let deadline = timeout.and_then(|timeout| {
            // Paused time is that of the session's runtime, whoever calls.
            let _entered = self.runtime.enter();
            self.shared.clock.now().checked_add(timeout)
        });
        let hold = self.shared.clock.hold();
        let call = Submission { request, reply_to, deadline, losses: 0, hold };
        match self.commands.send(Command::Submit(call)) {
            Ok(()) => waiting,
            Err(mpsc::error::SendError(command)) => {
                let Command::Submit(call) = command else { return waiting };
                let context = ErrorContext::of(&call.request, false, &self.shared.chroot);
                Waiting::Failed(Some(self.state().error(context)))
            }
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("session", &self.session_id()).field("state", &self.state()).finish()
    }
}
