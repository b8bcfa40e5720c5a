//! [`Shell`]: where commands run. It has the session and the current znode.

use std::fmt;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;
use zoolet_client::{Client, Error, Sessions, Stat};

use crate::answer::{Answer, ShellIo};
use crate::command::ShellCommand;
use crate::connect::DEFAULT_TIMEOUT;
use crate::dial::Dial;
use crate::failure::{ExitReason, ShellError, ShellResult};
use crate::text::shown;

/// Where a command needs another session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherServers<'a> {
    /// At the servers of the shell.
    Same,
    /// At them too, but seen from their root.
    SameWithoutChroot,
    /// At this address, to read.
    Read(&'a str),
    /// At this address, to write.
    Write(&'a str),
}

impl fmt::Display for OtherServers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same | Self::SameWithoutChroot => "the same servers",
            Self::Read(address) | Self::Write(address) => address,
        })
    }
}

/// A session with other servers, which ends when it is dropped, or that of the shell.
pub(crate) struct OtherSession {
    pub(crate) client: Client,
    _sessions: Option<Sessions>,
}

/// A session of a shell, and what it was opened with.
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) server: String,
    pub(crate) dial: Dial,
    pub(crate) read_only: bool,
}

/// Opens the session of a shell: at an address, or where the last one was.
type Connect<'io> = Box<dyn Fn(Option<String>) -> ConnectFuture<'io> + 'io>;
type ConnectFuture<'io> = Pin<Box<dyn Future<Output = ShellResult<Connected>> + 'io>>;

/// Opens sessions for what outlives one.
type OpenSessions<'io> = Box<dyn Fn(OtherServers<'_>) -> Result<Sessions, Error> + 'io>;

/// Runs commands in a session.
pub struct Shell<'io> {
    pub(crate) client: Client,
    sessions: Option<OpenSessions<'io>>,
    connect: Option<Connect<'io>>,
    /// What `addauth` has added, for the next session.
    identities: Vec<(String, String)>,
    /// How long it waits for a server.
    pub(crate) timeout: Duration,
    answer: Answer<'io>,
    /// Whether answers are JSON, whatever a line says.
    pub(crate) is_json: bool,
    /// Where relative paths begin.
    pub(crate) current: String,
    pub(crate) read_only: bool,
    /// Whether answers follow each other, so that each has to end a line.
    pub(crate) is_many: bool,
}

impl<'io> Shell<'io> {
    /// A shell on a client. It begins at `/`.
    pub fn new(client: Client, io: ShellIo<'io>) -> Self {
        let server =
            client.server().map_or_else(|| "in this process".to_owned(), |server| server.to_string());
        Self::connected(Connected { client, server, dial: Dial::default(), read_only: false }, io)
    }

    /// A shell in a session that was opened with flags.
    pub(crate) fn connected(connected: Connected, io: ShellIo<'io>) -> Self {
        let Connected { client, server, dial, read_only } = connected;
        Self {
            client,
            sessions: None,
            connect: None,
            identities: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
            answer: Answer { io, server, dial, command: "", json: false },
            is_json: false,
            current: "/".to_owned(),
            read_only,
            is_many: false,
        }
    }

    /// How to open other sessions, at the same servers or at an address: for commands that outlive a session, such as `watch`,
    /// and those on two clusters. Without it, they fail.
    #[must_use]
    pub fn sessions(mut self, open: impl Fn(OtherServers<'_>) -> Result<Sessions, Error> + 'io) -> Self {
        self.sessions = Some(Box::new(open));
        self
    }

    /// How long other servers have to open a session, and for how long an export may be without a server. Default: ten seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How messages name the server.
    #[must_use]
    pub fn server(mut self, server: &str) -> Self {
        server.clone_into(&mut self.server);
        self
    }

    /// Whether answers are JSON. Default: no.
    #[must_use]
    pub fn json(mut self, json: bool) -> Self {
        (self.is_json, self.answer.json) = (json, json);
        self
    }

    /// Whether commands that write are refused.
    pub fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
    }

    /// How to open the session of the shell again, or another. Without it, `connect` fails, and the end of the session is final.
    pub(crate) fn connects(mut self, connect: impl Fn(Option<String>) -> ConnectFuture<'io> + 'io) -> Self {
        self.connect = Some(Box::new(connect));
        self
    }

    /// Opens another session if this one is over, with the identities of `addauth`.
    pub(crate) async fn reopen(&mut self) -> ShellResult {
        let state = self.client.state();
        let Some(connect) = self.connect.as_ref().filter(|_| state.is_final()) else { return Ok(()) };
        let opening = connect(None);
        self.note(format!("the session is over ({state:?}), with its ephemerals: opening another"));
        let client = opening.await?.client;
        self.command = "addauth";
        for (scheme, credentials) in &self.identities {
            self.add_identity(&client, scheme, credentials).await?;
        }
        // At the end: if this fails or is interrupted, the next line begins anew and leaves no identity out.
        self.client = client;
        Ok(())
    }

    /// Adds an identity for this session, and for those after it.
    pub(crate) async fn remember_identity(&mut self, identity: (String, String)) -> ShellResult {
        self.add_identity(&self.client, &identity.0, &identity.1).await?;
        if !self.identities.contains(&identity) {
            self.identities.push(identity);
        }
        Ok(())
    }

    async fn add_identity(&self, client: &Client, scheme: &str, credentials: &str) -> ShellResult {
        self.answered(client.add_auth(scheme, credentials.to_owned()).await)
    }

    pub(crate) async fn reconnect(&mut self, address: Option<String>) -> ShellResult {
        let Some(connect) = &self.connect else {
            return Err(ShellError::usage("connect: this shell has one session and cannot open others"));
        };
        let Connected { client, server, dial, read_only } = connect(address).await?;
        let old = mem::replace(&mut self.client, client);
        self.server = server;
        self.dial = dial;
        self.read_only = read_only;
        "/".clone_into(&mut self.current);
        // Identities are not for other servers to see.
        self.identities.clear();
        // The old session ends with its ephemerals, confirmed or not. This may be interrupted.
        let _ = old.close().await;
        Ok(())
    }

    pub(crate) async fn run(&mut self, command: &ShellCommand) -> ShellResult {
        self.command = command.name();
        command.check_read_only(self.read_only)?;
        command.run(self).await
    }

    /// Ends the session. If the server does not confirm it, the command has succeeded nevertheless.
    pub(crate) async fn close(self) {
        let _ = self.client.close().await;
    }

    /// The znode that a path means, seen from the current one. `.` and `..` are resolved, and slashes at the end are left out.
    pub(crate) fn path(&self, text: &str) -> String {
        resolve(&self.current, text)
    }

    /// The Stat of a znode that has to exist.
    pub(crate) async fn stat(&self, path: &str) -> ShellResult<Stat> {
        let stat = self.answered(self.client.exists(path).await)?;
        stat.ok_or_else(|| self.fail(ExitReason::Absent, format!("there is no znode {}", shown(path))))
    }

    /// Opens sessions, which the command must close.
    pub(crate) fn open_sessions(&self, servers: OtherServers<'_>) -> ShellResult<Sessions> {
        let Some(open) = &self.sessions else {
            return Err(self.fail(ExitReason::Usage, "this shell has one session and cannot open others"));
        };
        self.answered(open(servers))
    }

    /// Opens a session with other servers, if some are named.
    pub(crate) async fn open_if_other(&self, servers: Option<OtherServers<'_>>) -> ShellResult<OtherSession> {
        match servers {
            Some(servers) => self.open_other(servers).await,
            None => Ok(OtherSession { client: self.client.clone(), _sessions: None }),
        }
    }

    /// Opens a session with other servers.
    pub(crate) async fn open_other(&self, servers: OtherServers<'_>) -> ShellResult<OtherSession> {
        let sessions = self.open_sessions(servers)?;
        match timeout(self.timeout, sessions.client()).await {
            Ok(client) => Ok(OtherSession { client: self.answered(client)?, _sessions: Some(sessions) }),
            Err(_) => {
                let reason = sessions.state().reason.map_or_else(String::new, |reason| format!(": {reason}"));
                let message =
                    format!("{}: no session at {servers} within {:?}{reason}", self.command, self.timeout);
                Err(ShellError::new(ExitReason::Unreachable, message))
            }
        }
    }
}

impl<'io> Deref for Shell<'io> {
    type Target = Answer<'io>;

    fn deref(&self) -> &Answer<'io> {
        &self.answer
    }
}

impl<'io> DerefMut for Shell<'io> {
    fn deref_mut(&mut self) -> &mut Answer<'io> {
        &mut self.answer
    }
}

impl fmt::Debug for Shell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shell")
            .field("client", &self.client)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// The znode that a path means, seen from another one.
pub(crate) fn resolve(current: &str, text: &str) -> String {
    let start = if text.starts_with('/') { "" } else { current };
    let mut parts: Vec<&str> = Vec::new();
    for part in start.split('/').chain(text.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use zoolet::testing::{Action, OpCode, TestServer, op};

    use super::*;

    /// Longer than anything in a process takes.
    const SECOND: Duration = Duration::from_secs(1);

    async fn connected(zk: &TestServer, read_only: bool) -> ShellResult<Connected> {
        let (server, dial) = ("there:2181".to_owned(), Dial::default());
        Ok(Connected { client: zk.client().await, server, dial, read_only })
    }

    #[tokio::test(start_paused = true)]
    async fn a_connect_that_is_interrupted_is_done_or_not_at_all() {
        let (here, there) = (TestServer::start().await, TestServer::start().await);
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let shell = Shell::new(here.client().await, ShellIo::new(&mut out, &mut notes));
        let mut shell = shell.connects(|_| Box::pin(connected(&there, true)));
        here.faults().place(op(OpCode::CloseSession), Action::DelayReply(100 * SECOND)).unwrap();
        timeout(SECOND, shell.run_line("connect there")).await.expect_err("the old session does not end");
        assert_eq!(shell.server, "there:2181");
        let error = shell.run_line("create /a").await.unwrap_err();
        assert_eq!(error.reason(), ExitReason::Usage, "it is only for reading: {error}");
    }

    #[tokio::test(start_paused = true)]
    async fn identities_come_again_although_the_line_that_opens_a_session_is_interrupted() {
        let zk = TestServer::start().await;
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let shell = Shell::new(zk.client().await, ShellIo::new(&mut out, &mut notes));
        let mut shell = shell.connects(|_| Box::pin(connected(&zk, false)));
        for line in ["addauth digest bob:pw", "addauth digest eve:pw"] {
            shell.run_line(line).await.unwrap();
        }
        zk.expire_session(shell.client.session_id()).await.unwrap();
        zk.faults().place(op(OpCode::Auth).nth(1), Action::DelayReply(100 * SECOND)).unwrap();
        timeout(SECOND, shell.reopen()).await.expect_err("the first identity is not answered");
        zk.faults().clear();
        shell.reopen().await.unwrap();
        shell.run_line("whoami").await.unwrap();
        drop(shell);
        let identities = String::from_utf8(out).unwrap();
        assert!(identities.contains("digest:bob\n") && identities.contains("digest:eve\n"), "{identities}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_that_is_interrupted_leaves_no_flag_to_the_next() {
        let zk = TestServer::builder().znode("/a", "x").start().await.unwrap();
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let mut shell = Shell::new(zk.client().await, ShellIo::new(&mut out, &mut notes));
        zk.faults().place(op(OpCode::GetData).nth(1), Action::DelayReply(100 * SECOND)).unwrap();
        timeout(SECOND, shell.run_line("get --json /a")).await.expect_err("it is not answered");
        zk.faults().clear();
        let zk = TestServer::start().await;
        shell.client = zk.client().await;
        shell.run_line("child-count /zookeeper").await.unwrap();
        drop(shell);
        assert_eq!(String::from_utf8(out).unwrap(), "2\n");
    }
}
