//! [`Shell`]: where commands run. It has the session and the current znode.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};
use tokio::time::timeout;
use zoolet_client::{Client, Error, Sessions, Stat};

use crate::address::is_of_server;
use crate::answer::{Answer, ShellIo};
use crate::command::{ShellCommand, name_here};
use crate::dial::Dial;
use crate::failure::{ExitReason, ShellError};
use crate::invocation::{Invocation, OutputArguments};
use crate::read::ZnodeWait;
use crate::split;
use crate::text::shown;

/// How long other servers have to open a session, unless it is said.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How many lines `history` prints.
pub(crate) const DEFAULT_HISTORY: usize = 20;

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
type ConnectFuture<'io> = Pin<Box<dyn Future<Output = Result<Connected, ShellError>> + 'io>>;

/// Opens sessions for what outlives one.
type OpenSessions<'io> = Box<dyn Fn(OtherServers<'_>) -> Result<Sessions, Error> + 'io>;

/// A line of a shell.
#[derive(Debug, Parser)]
#[command(
    name = "",
    no_binary_name = true,
    disable_version_flag = true,
    after_help = "quit, exit or Ctrl-D ends the shell."
)]
pub(crate) struct Line {
    #[command(subcommand)]
    command: LineCommand,
}

#[derive(Debug, Subcommand)]
enum LineCommand {
    #[command(flatten)]
    Command(Box<Invocation<OutputArguments>>),
    /// Change the znode at which relative paths begin
    Cd {
        #[arg(default_value = "/")]
        path: String,
    },
    /// Print the znode at which relative paths begin
    Pwd,
    /// Add an identity to the session, such as digest USER:PASSWORD or digest:USER:PASSWORD; a wrong one ends the session. Users of
    /// SASL are given when connecting
    Addauth {
        scheme: String,
        /// May also follow the scheme and a colon
        credentials: Option<String>,
    },
    /// Open a session at other servers, or another one at the same, without the identities of addauth
    Connect {
        /// As --server
        address: Option<String>,
    },
    /// Wait until this server has every write that was answered before; a follower may lag
    Sync {
        #[arg(default_value = "/")]
        path: String,
    },
    /// Print the lines that were typed last
    History {
        /// How many
        #[arg(default_value_t = DEFAULT_HISTORY)]
        lines: usize,
    },
    /// Wait until a znode exists, or is gone
    Wait {
        #[command(flatten)]
        wait: ZnodeWait,
        #[command(flatten)]
        output: OutputArguments,
    },
}

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
        Self {
            client,
            sessions: None,
            connect: None,
            identities: Vec::new(),
            timeout: TIMEOUT,
            answer: Answer { io, server, dial: Dial::default(), command: "", json: false },
            current: "/".to_owned(),
            read_only: false,
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

    /// How four-letter words reach the servers. Default: in plaintext.
    #[must_use]
    pub(crate) fn dial(mut self, dial: Dial) -> Self {
        self.answer.dial = dial;
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
        self.json = json;
        self
    }

    /// Whether commands that write are refused.
    pub fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
    }

    /// Runs a command as it is typed. Quotes count around whole words only.
    ///
    /// # Errors
    /// See [`ShellError::reason`].
    pub async fn run_line(&mut self, line: &str) -> Result<(), ShellError> {
        let words =
            split::words(line).ok_or_else(|| ShellError::usage(format!("a quote is open: {line}")))?;
        let outcome = match Line::try_parse_from(&words) {
            _ if words.first().is_some_and(|word| is_misplaced_flag(word)) => {
                Err(ShellError::usage(format!(
                    "{} goes after the command, as in `ls / --json`",
                    words.first().map_or("", String::as_str)
                )))
            }
            Ok(Line { command }) => self.run_command(command).await,
            Err(error) if error.use_stderr() => Err(ShellError::usage(one_line(&error))),
            Err(help) => self.print(help.to_string().as_bytes()),
        };
        // What was printed before a failure is part of the answer.
        let flushed = self.flush();
        outcome.and(flushed)
    }

    async fn run_command(&mut self, command: LineCommand) -> Result<(), ShellError> {
        match command {
            LineCommand::Command(invocation) => {
                let Invocation { command, flags } = *invocation;
                self.with_output(&flags, async |shell| shell.run(&command).await).await
            }
            LineCommand::Cd { path } => {
                self.command = "cd";
                let path = self.path(&path);
                self.stat(&path).await?;
                self.current = path;
                Ok(())
            }
            LineCommand::Pwd => self.answer.line(shown(&self.current)),
            LineCommand::Addauth { scheme, credentials } => {
                self.command = "addauth";
                let identity = identity(scheme, credentials)?;
                self.add_identity(&identity.0, &identity.1).await?;
                if !self.identities.contains(&identity) {
                    self.identities.push(identity);
                }
                Ok(())
            }
            LineCommand::Connect { address } => self.reconnect(address).await,
            LineCommand::Sync { path } => {
                self.command = "sync";
                let synced = self.client.sync(self.path(&path)).await;
                synced.map_err(|error| self.failed(&error))
            }
            LineCommand::History { .. } => {
                Err(ShellError::usage("history: lines are remembered only at a terminal"))
            }
            LineCommand::Wait { wait, output } => {
                self.command = "wait";
                self.with_output(&output, async |shell| wait.run(shell).await).await
            }
        }
    }

    async fn add_identity(&self, scheme: &str, credentials: &str) -> Result<(), ShellError> {
        let added = self.client.add_auth(scheme, credentials.to_owned()).await;
        added.map_err(|error| self.failed(&error))
    }

    /// How to open the session of the shell again, or another. Without it, `connect` fails, and the end of the session is final.
    pub(crate) fn connects(mut self, connect: impl Fn(Option<String>) -> ConnectFuture<'io> + 'io) -> Self {
        self.connect = Some(Box::new(connect));
        self
    }

    /// Opens another session if this one is over, with the identities of `addauth`.
    pub(crate) async fn reopen(&mut self) -> Result<(), ShellError> {
        let state = self.client.state();
        let Some(connect) = self.connect.as_ref().filter(|_| state.is_final()) else { return Ok(()) };
        let opening = connect(None);
        self.note(format!("the session is over ({state:?}), with its ephemerals: opening another"));
        self.client = opening.await?.client;
        self.command = "addauth";
        for (scheme, credentials) in &self.identities {
            self.add_identity(scheme, credentials).await?;
        }
        Ok(())
    }

    async fn reconnect(&mut self, address: Option<String>) -> Result<(), ShellError> {
        let Some(connect) = &self.connect else {
            return Err(ShellError::usage("connect: this shell has one session and cannot open others"));
        };
        let Connected { client, server, dial, read_only } = connect(address).await?;
        // Identities are not for other servers to see. The old session ends with its ephemerals, confirmed or not.
        self.identities.clear();
        let _ = std::mem::replace(&mut self.client, client).close().await;
        self.server = server;
        self.dial = dial;
        self.read_only = read_only;
        "/".clone_into(&mut self.current);
        Ok(())
    }

    /// Does something with the flags of one line.
    async fn with_output(
        &mut self,
        flags: &OutputArguments,
        run: impl AsyncFnOnce(&mut Self) -> Result<(), ShellError>,
    ) -> Result<(), ShellError> {
        let before = self.json;
        self.json |= flags.json;
        let outcome = run(self).await;
        self.json = before;
        outcome
    }

    pub(crate) async fn run(&mut self, command: &ShellCommand) -> Result<(), ShellError> {
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
    pub(crate) async fn stat(&self, path: &str) -> Result<Stat, ShellError> {
        let stat = self.client.exists(path).await.map_err(|error| self.failed(&error))?;
        stat.ok_or_else(|| self.fail(ExitReason::Absent, format!("there is no znode {}", shown(path))))
    }

    /// Opens sessions, which the command must close.
    pub(crate) fn open_sessions(&self, servers: OtherServers<'_>) -> Result<Sessions, ShellError> {
        let Some(open) = &self.sessions else {
            return Err(self.fail(ExitReason::Usage, "this shell has one session and cannot open others"));
        };
        open(servers).map_err(|error| self.failed(&error))
    }

    /// Opens a session with other servers, if some are named.
    pub(crate) async fn open_if_other(
        &self,
        servers: Option<OtherServers<'_>>,
    ) -> Result<OtherSession, ShellError> {
        match servers {
            Some(servers) => self.open_other(servers).await,
            None => Ok(OtherSession { client: self.client.clone(), _sessions: None }),
        }
    }

    /// Opens a session with other servers.
    pub(crate) async fn open_other(&self, servers: OtherServers<'_>) -> Result<OtherSession, ShellError> {
        let sessions = self.open_sessions(servers)?;
        match timeout(self.timeout, sessions.client()).await {
            Ok(client) => {
                let client = client.map_err(|error| self.failed(&error))?;
                Ok(OtherSession { client, _sessions: Some(sessions) })
            }
            Err(_) => {
                let reason = sessions.state().reason.map_or_else(String::new, |reason| format!(": {reason}"));
                let message =
                    format!("{}: no session at {servers} within {:?}{reason}", self.command, self.timeout);
                Err(ShellError::new(ExitReason::Unreachable, message))
            }
        }
    }

    /// Whether a znode is one that servers keep for themselves, also below a chroot.
    pub(crate) fn is_of_server(&self, path: &str) -> bool {
        is_of_server(&self.server, path)
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

/// The scheme and the credentials of `addauth`, which may be one word as in a file of credentials.
fn identity(scheme: String, credentials: Option<String>) -> Result<(String, String), ShellError> {
    let identity = match (credentials, scheme.split_once(':')) {
        (Some(credentials), _) => (scheme, credentials),
        (None, Some((scheme, credentials))) => (scheme.to_owned(), credentials.to_owned()),
        (None, None) => {
            return Err(ShellError::usage(
                "addauth: there are no credentials: write SCHEME CREDENTIALS, such as digest USER:PASSWORD",
            ));
        }
    };
    match &*identity.0 {
        "sasl" => Err(ShellError::usage(
            "addauth: a user of SASL can be given only when connecting: start the shell with a line sasl:USER:PASSWORD of \
             --auth-file or ZOOLET_AUTH",
        )),
        _ => Ok(identity),
    }
}

/// Whether a line begins with a flag, and does not ask for help.
fn is_misplaced_flag(word: &str) -> bool {
    word.starts_with('-') && !matches!(word, "-h" | "--help")
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

/// The error of the argument parser in one line: the mistake and the tips, without the usage.
pub(crate) fn one_line(error: &clap::Error) -> String {
    if let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) {
        if let Some(here) = name_here(name) {
            return format!("there is no command {name}; it is `{here}` here");
        }
    }
    let text = error.to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines: Vec<_> = lines.filter(|line| !line.is_empty() && !line.starts_with("For more")).collect();
    let message = lines.join("; ").replace(":; ", ": ");
    message.strip_prefix("error: ").unwrap_or(&message).to_owned()
}
