//! The handle on a session.

mod operations;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::time::Instant;
use zoolet_proto::{OpCode, PathError, Request, SessionId, Zxid, path};

use crate::call::{Call, Decode, PendingReply, ReplyFuture};
use crate::call_span::CallSpan;
use crate::chroot::Chroot;
use crate::command::{AnsweredCall, DriverCommand, Submission};
use crate::connection_error::ConnectionError;
use crate::context::ErrorContext;
use crate::error::Error;
use crate::features::ServerFeature;
use crate::metrics::ClientMetrics;
use crate::options::{ConnectOptions, Connecting};
use crate::pending::PendingShare;
use crate::session_password::SessionPassword;
use crate::state::{SessionState, SharedState, States};
use crate::transport::IntoTransport;

/// A session with a ZooKeeper server or ensemble. A handle is cheap to clone.
///
/// # One client is one session
/// If the connection is lost, the client connects again and resumes the session: it restores identities and watches, then
/// sends the requests that have waited. The session ends if the server expires it or refuses credentials, or if it is
/// [closed](Client::close). Then every pending and later call fails with the error that says why; the client never opens
/// a new session by itself. Dropping the last handle closes the session in the background; watches and replies alone do
/// not keep it open.
///
/// # The end of a program
/// [`close`](Client::close) waits until the server has confirmed the end of the session: its ephemerals, and with them its
/// locks, are gone then. Call it last. If a program just returns from `#[tokio::main]`, or panics there, the runtime is dropped
/// and the client writes what was submitted, and a close, as far as the connection takes it at once. Nothing confirms that,
/// and without a connection nothing is written. `std::process::exit`, an abort or a kill writes nothing more: the server then
/// keeps the session until its timeout. A runtime whose time is paused, as in a simulation, is dropped as by a kill.
///
/// # Calls
/// A method returns a request that is not sent yet. `.await` sends it and waits for the reply. `.send()` sends it at once
/// and returns the future of the reply, which pipelines requests; it fails with `QueueFull` if too many wait for their replies,
/// where `.await` waits for room (see [`ConnectOptions::max_pending`]). Requests are sent in the order of these calls, whatever
/// the task, and are executed in that order. Dropping the future of a reply does not cancel the request.
///
/// # When the connection is lost
/// A read in flight is sent again on the next connection, because it changes nothing; it fails after three losses. A write
/// in flight fails with [`Error::ConnectionLoss`], and [`Error::may_have_applied`] returns that its outcome is unknown. The
/// next connection then begins with a `sync`, so that later reads show the write if it was executed. A read that was sent
/// before the write may show it too, if it had to be sent again. Requests made without a connection wait for one, at most
/// for the session timeout. The client does not take unreachable servers for an expiry, unless
/// [`expire_locally`](ConnectOptions::expire_locally) is set: only the server decides that, and it may have been down itself.
/// [`last_connection_error`](Client::last_connection_error) is why there is no connection; the errors of calls say it too.
///
/// # Errors of every call
/// Besides the errors that a method names: `Refused` with `NoAuth` if an ACL forbids it, `InvalidPath`, `RequestTooLarge`,
/// `ReplyTooLarge`, `QueueFull` from `send`, `ConnectionLoss`, `Timeout`, and `SessionExpired`, `AuthFailed` or `Closed` once
/// the session is over. Names such as `NoNode` are codes, which [`Error::code`] returns.
#[derive(Clone)]
pub struct Client {
    pub(crate) commands: mpsc::UnboundedSender<DriverCommand>,
    pub(crate) shared: Arc<SharedState>,
    /// The znode that this handle sees as `/`.
    pub(crate) chroot: Chroot,
    pub(crate) runtime: runtime::Handle,
    /// Whether its requests count against the limit of pending requests, and wait for room.
    pub(crate) is_limited: bool,
}

impl Client {
    /// Opens a session with default [options](Client::options), to a connect string or through a closure; see
    /// [`IntoTransport`].
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

    /// Another handle on this session that sees the znode at `path` as `/`. Everything else is shared: connection, identities,
    /// order of requests. Watches, events, errors and results of either handle have the paths that it sees. It need not
    /// exist, but must before anything is created below it.
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// let app = zk.chroot("/app")?;
    /// app.create("/config", "v1").await?;            // /app/config
    /// let tests = app.chroot("/tests")?;             // /app/tests
    /// assert_eq!(tests.session_id(), zk.session_id());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidPath`.
    pub fn chroot(&self, path: impl AsRef<str>) -> Result<Self, Error> {
        let path = path.as_ref();
        let chroot =
            self.chroot.nested(path).map_err(|reason| invalid_path("chroot", path.to_owned(), reason))?;
        Ok(Self { chroot, ..self.clone() })
    }

    /// Closes the session after everything sent so far. Its ephemerals are deleted, and later calls fail with `Closed`.
    ///
    /// # Errors
    /// `ConnectionLoss` if the server does not confirm it within two thirds of the session timeout, or before the runtime
    /// that drives the session is gone. `Refused` if the server refuses it, and `AuthFailed` if it refuses an identity before.
    /// The server then expires the session by itself.
    /// # Ordering and cancel safety
    /// The close is in progress when this returns the future, and dropping the future does not cancel it. If the session is
    /// closing already, the outcome is the same; if it is over, the result is `Ok` at once.
    pub fn close(&self) -> ReplyFuture<()> {
        let (reply_to, pending) = PendingReply::channel(OpCode::CloseSession);
        // If the driver is gone, the session is over and its state says why.
        let _ = self.commands.send(DriverCommand::Close(reply_to));
        ReplyFuture::new(pending, |outcome| match outcome {
            Ok(_) | Err(Error::Closed(_)) => Ok(()),
            Err(error) => Err(error),
        })
    }

    /// Ends the session as expired, because no server can resume it.
    pub(crate) fn give_up(&self, reason: &'static str) {
        let _ = self.commands.send(DriverCommand::GiveUp(reason));
    }

    /// The present state of the session.
    pub fn state(&self) -> SessionState {
        self.shared.state()
    }

    /// Why the latest connection was lost, or the latest attempt at one failed; kept after the client has reconnected.
    /// `None` if no connection has failed yet.
    ///
    /// The error of a call that fails for want of a connection names it as well.
    ///
    /// ```no_run
    /// # async fn example(zk: zoolet_client::Client) {
    /// if !zk.state().is_connected() {
    ///     eprintln!("{:?}: {:?}", zk.state(), zk.last_connection_error());
    /// }
    /// # }
    /// ```
    pub fn last_connection_error(&self) -> Option<ConnectionError> {
        self.shared.last_failure()
    }

    /// The states of the session from now on, without gaps if they are [read in time](States); the first is the present one.
    pub fn states(&self) -> States {
        self.shared.states()
    }

    /// Waits until the session is over and returns its final state.
    ///
    /// # Ordering and cancel safety
    /// Dropping the future has no effect.
    pub async fn ended(&self) -> SessionState {
        self.shared.wait_for(SessionState::is_final).await
    }

    /// The id of the session, as in [`Stat::ephemeral_owner`](crate::Stat::ephemeral_owner).
    pub fn session_id(&self) -> SessionId {
        self.shared.session_id()
    }

    /// The password of the session, with which another process can [`resume`](ConnectOptions::resume) it. A secret. Read it
    /// once the client is connected; at a server that is cut off from its ensemble it may change.
    pub fn session_password(&self) -> SessionPassword {
        self.shared.session_password()
    }

    /// The session timeout that the server granted on the latest connection.
    pub fn session_timeout(&self) -> Duration {
        self.shared.session_timeout()
    }

    /// The highest zxid in a reply to this session, or the one that it [began with](ConnectOptions::last_zxid).
    pub fn last_zxid(&self) -> Zxid {
        self.shared.last_zxid()
    }

    /// Whether the server of the latest connection has an operation that older ones lack, as far as it was asked; `None` if
    /// it was not. Some servers close the connection at an operation that they do not know, so it pays to remember.
    ///
    /// It is known for each server by itself, because the members of an ensemble differ during a rolling upgrade, and for all
    /// sessions that were opened with clones of the same options.
    pub fn supports(&self, feature: ServerFeature) -> Option<bool> {
        self.shared.supports(feature)
    }

    /// The server of the latest connection, as in the connect string; `None` if the target is a closure, or before the
    /// first.
    pub fn server(&self) -> Option<Arc<str>> {
        self.shared.server()
    }

    /// What this session has counted so far. Each number is exact, and each of its own moment.
    ///
    /// ```no_run
    /// # fn example(zk: &zoolet_client::Client) {
    /// let metrics = zk.metrics();
    /// if metrics.replies > 0 {
    ///     println!("{:?} on average", metrics.reply_time / metrics.replies as u32);
    /// }
    /// # }
    /// ```
    pub fn metrics(&self) -> ClientMetrics {
        self.shared.counters.read()
    }

    /// Replaces the hosts of the connect string, as when the ensemble has grown or was moved. The session goes on.
    ///
    /// The client leaves its server for another one if the balance asks for it, by the rule of Java's `updateServerList`: if
    /// all clients of an ensemble do this, as many as necessary move, at random, and no others. A connection that is left
    /// takes no more requests, and is closed when the requests in flight are answered, so none of them fails for it.
    ///
    /// Hosts are compared as they are written, with their ports: `zk1` and its address are two.
    ///
    /// ```no_run
    /// # fn example(zk: &zoolet_client::Client) -> Result<(), zoolet_client::Error> {
    /// zk.update_servers("zk1:2181,zk2:2181,zk3:2181,zk4:2181,zk5:2181")?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// `InvalidTarget` if it names no host, or another chroot than the connect string, or if the client was connected by a
    /// closure. Nothing has changed then.
    pub fn update_servers(&self, target: &str) -> Result<(), Error> {
        let servers = self.shared.servers.as_ref().ok_or_else(no_servers)?;
        let current = self.server().filter(|_| self.state().is_connected());
        let mut rng = StdRng::seed_from_u64(self.shared.random_u128() as u64);
        let leave = servers.update(target, current.as_deref(), &mut rng)?;
        if leave {
            // If the driver is gone, the session is over.
            let _ = self.commands.send(DriverCommand::LeaveServer);
        }
        Ok(())
    }

    /// Checks `path` and returns it as the server sees it.
    pub(crate) fn checked_path(
        &self,
        operation: &'static str,
        path: String,
        sequential: bool,
    ) -> Result<String, Error> {
        let check = match sequential {
            // The rules apply to the path with its number.
            true => path::validate(&format!("{path}1")),
            false => path::validate(&path),
        };
        match check {
            Ok(()) if sequential => Ok(self.chroot.join_prefix(path)),
            Ok(()) => Ok(self.chroot.join(path)),
            Err(reason) => Err(invalid_path(operation, path, reason)),
        }
    }

    /// A call whose request has one path.
    pub(crate) fn call_on<T>(
        &self,
        operation: &'static str,
        path: String,
        request: impl FnOnce(String) -> Request,
        decode: Decode<T>,
    ) -> Call<'_, T> {
        Call::new(self, self.checked_path(operation, path, false).map(request), decode)
    }

    /// Sends a request. If there is no room for it, fails; or, if it is to wait, sends it when there is.
    pub(crate) fn submit<const WAIT: bool>(
        &self,
        request: Request,
        timeout: Option<Duration>,
    ) -> PendingReply {
        let deadline = self.deadline(timeout);
        let share = if self.is_limited { self.shared.pending.try_take(&request) } else { None };
        if share.is_some() || !self.is_limited {
            return self.submit_with(share, request, deadline);
        }
        if WAIT {
            return PendingReply::Blocked(Box::pin(self.clone().wait_and_submit(request, deadline)));
        }
        let context = ErrorContext::of(&request, false, &self.chroot);
        PendingReply::Failed(Some(Error::QueueFull { context, max: self.shared.pending.max() }))
    }

    async fn wait_and_submit(self, request: Request, deadline: Option<Instant>) -> AnsweredCall {
        let share = self.wait_for_room(&request, deadline).await;
        if share.is_none() {
            let context = ErrorContext::of(&request, false, &self.chroot);
            let cause = self.shared.last_failure().filter(|_| !self.state().is_connected());
            return Err(Error::Timeout(context.because_of(cause))).into();
        }
        let mut pending = self.submit_with(share, request, deadline);
        // A request that waits for room keeps the session open, one that was sent does not.
        drop(self);
        poll_fn(|cx| pending.poll_outcome(cx)).await
    }

    /// Its share, unless the deadline passes before.
    async fn wait_for_room(&self, request: &Request, deadline: Option<Instant>) -> PendingShare {
        let room = self.shared.pending.take(request);
        let Some(deadline) = deadline else { return room.await };
        let in_time = {
            // The clock's timers may need the runtime of the session.
            let _entered = self.runtime.enter();
            self.shared.clock.timeout_at(deadline, room)
        };
        in_time.await.ok().flatten()
    }

    #[inline]
    fn submit_with(&self, share: PendingShare, request: Request, deadline: Option<Instant>) -> PendingReply {
        let (mut reply_to, pending) = PendingReply::channel(request.op());
        if let Some(span) = CallSpan::begin(&request, &self.chroot, &self.shared) {
            reply_to.trace(span);
        }
        let activity = self.shared.clock.begin_activity();
        let chroot = self.chroot.clone();
        let call =
            Box::new(Submission { request, chroot, reply_to, deadline, losses: 0, _share: share, activity });
        match self.commands.send(DriverCommand::Submit(call)) {
            Ok(()) => pending,
            Err(mpsc::error::SendError(command)) => {
                let DriverCommand::Submit(call) = command else { return pending };
                let context = ErrorContext::of(&call.request, false, &self.chroot);
                PendingReply::Failed(Some(self.shared.end_error(context)))
            }
        }
    }

    /// Reading the clock is not free, so only calls with a timeout do it.
    fn deadline(&self, timeout: Option<Duration>) -> Option<Instant> {
        timeout.or(self.shared.request_timeout).and_then(|timeout| {
            // Under tokio's paused time, the clock is that of the session's runtime.
            let _entered = self.runtime.enter();
            self.shared.clock.now().checked_add(timeout)
        })
    }
}

/// The target is a closure.
pub(crate) fn no_servers() -> Error {
    Error::InvalidTarget("a closure has no list of servers that could be updated".to_owned())
}

pub(crate) fn invalid_path(operation: &'static str, path: String, reason: PathError) -> Error {
    let hint = (reason == PathError::NotAbsolute).then(|| format!("did you mean /{path}?"));
    let context = ErrorContext::local(operation, path);
    let context = hint.into_iter().fold(context, ErrorContext::hint);
    Error::InvalidPath { context, reason }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("session", &self.session_id()).field("state", &self.state()).finish()
    }
}
