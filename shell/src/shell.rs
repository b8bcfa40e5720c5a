//! [`Shell`]: where commands run. It has the session, the current znode, and where input comes from and output goes.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use clap::{Parser, Subcommand};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::timeout;
use zoolet_client::{Client, Error, ErrorCode, Sessions};

use crate::command::ShellCommand;
use crate::failure::{ExitReason, ShellError};
use crate::invocation::{Invocation, OutputArguments};
use crate::json;
use crate::text::shown;
use crate::walk::Unreadable;

/// Asks a question and returns the answer; an error if there is nobody to ask.
type Ask<'io> = Box<dyn FnMut(&str) -> io::Result<String> + 'io>;

/// Where the input of commands comes from, and their output goes.
pub struct ShellIo<'io> {
    out: &'io mut dyn Write,
    notes: &'io mut dyn Write,
    input: Option<Box<dyn AsyncRead + Unpin + 'io>>,
    ask: Ask<'io>,
    pub(crate) is_terminal: bool,
}

impl<'io> ShellIo<'io> {
    /// Answers go to `out`; questions, progress and warnings to `notes`. There is no input, and nobody to ask.
    pub fn new(out: &'io mut dyn Write, notes: &'io mut dyn Write) -> Self {
        let ask = Box::new(|_: &str| Err(io::ErrorKind::Unsupported.into()));
        Self { out, notes, input: None, ask, is_terminal: false }
    }

    /// What `-` reads as data.
    pub fn input(mut self, input: impl AsyncRead + Unpin + 'io) -> Self {
        self.input = Some(Box::new(input));
        self
    }

    /// Who answers questions, such as whether to delete a tree.
    pub fn ask(mut self, ask: impl FnMut(&str) -> io::Result<String> + 'io) -> Self {
        self.ask = Box::new(ask);
        self
    }
}

impl fmt::Debug for ShellIo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellIo").finish_non_exhaustive()
    }
}

/// How long other servers have to open a session.
const PATIENCE: Duration = Duration::from_secs(10);

/// A session with other servers, which ends when it is dropped.
pub(crate) struct OtherSession {
    pub(crate) client: Client,
    _sessions: Sessions,
}

/// Opens sessions for what outlives one.
type OpenSessions<'io> = Box<dyn Fn(Option<&str>) -> Result<Sessions, Error> + 'io>;

/// A line of a shell.
#[derive(Debug, Parser)]
#[command(name = "", no_binary_name = true, disable_version_flag = true)]
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
    /// Add an identity to the session, such as digest USER:PASSWORD; a wrong one ends the session
    Addauth { scheme: String, credentials: String },
}

/// Runs commands in a session.
pub struct Shell<'io> {
    pub(crate) client: Client,
    sessions: Option<OpenSessions<'io>>,
    io: ShellIo<'io>,
    /// For messages.
    server: String,
    /// The command that runs, for messages.
    command: &'static str,
    pub(crate) json: bool,
    /// What relative paths begin at.
    current: String,
    read_only: bool,
}

impl<'io> Shell<'io> {
    /// A shell on a client. It begins at `/`.
    pub fn new(client: Client, io: ShellIo<'io>) -> Self {
        let server =
            client.server().map_or_else(|| "in this process".to_owned(), |server| server.to_string());
        Self {
            client,
            sessions: None,
            io,
            server,
            command: "",
            json: false,
            current: "/".to_owned(),
            read_only: false,
        }
    }

    /// How to open other sessions, at the same servers or at an address: for commands that outlive a session, such as `watch`,
    /// and those on two clusters. Without it, they fail.
    #[must_use]
    pub fn sessions(mut self, open: impl Fn(Option<&str>) -> Result<Sessions, Error> + 'io) -> Self {
        self.sessions = Some(Box::new(open));
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

    /// Runs a command as it is typed, with quotes as in a shell of Unix.
    ///
    /// # Errors
    /// See [`ShellError::reason`].
    pub async fn run_line(&mut self, line: &str) -> Result<(), ShellError> {
        let words =
            shlex::split(line).ok_or_else(|| ShellError::usage(format!("a quote is open: {line}")))?;
        let outcome = match Line::try_parse_from(words) {
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
                let before = self.json;
                self.json |= invocation.flags.json;
                let outcome = self.run(&invocation.command).await;
                self.json = before;
                outcome
            }
            LineCommand::Cd { path } => {
                self.command = "cd";
                let path = self.path(&path);
                let found = self.client.exists(&path).await.map_err(|error| self.failed(&error))?;
                if found.is_none() {
                    return Err(self.fail(ExitReason::Absent, format!("there is no znode {}", shown(&path))));
                }
                self.current = path;
                Ok(())
            }
            LineCommand::Pwd => self.line(shown(&self.current.clone())),
            LineCommand::Addauth { scheme, credentials } => {
                self.command = "addauth";
                let added = self.client.add_auth(scheme, credentials).await;
                added.map_err(|error| self.failed(&error))
            }
        }
    }

    pub(crate) async fn run(&mut self, command: &ShellCommand) -> Result<(), ShellError> {
        self.command = command.name();
        if self.read_only && command.is_write() {
            return Err(ShellError::usage(format!(
                "{}: this is a shell that only reads (--read-only)",
                self.command
            )));
        }
        command.run(self).await
    }

    /// Ends the session. That the server does not confirm it is no failure of a command.
    pub(crate) async fn close(self) {
        let _ = self.client.close().await;
    }

    /// The znode that a path means, seen from the current one. `.` and `..` are resolved, and slashes at the end are left out.
    pub(crate) fn path(&self, text: &str) -> String {
        resolve(&self.current, text)
    }

    /// Where relative paths begin.
    pub(crate) fn current(&self) -> &str {
        &self.current
    }

    pub(crate) fn server_name(&self) -> &str {
        &self.server
    }

    /// Opens sessions, which the command must close.
    pub(crate) fn open_sessions(&self, address: Option<&str>) -> Result<Sessions, ShellError> {
        let Some(open) = &self.sessions else {
            return Err(self.fail(ExitReason::Usage, "this shell has one session and cannot open others"));
        };
        open(address).map_err(|error| self.failed(&error))
    }

    /// Opens a session with other servers.
    pub(crate) async fn open_other(&self, address: &str) -> Result<OtherSession, ShellError> {
        let sessions = self.open_sessions(Some(address))?;
        match timeout(PATIENCE, sessions.client()).await {
            Ok(client) => {
                Ok(OtherSession { client: client.map_err(|error| self.failed(&error))?, _sessions: sessions })
            }
            Err(_) => {
                let reason = sessions.state().reason.map_or_else(String::new, |reason| format!(": {reason}"));
                let message =
                    format!("{}: no session at {address} within {PATIENCE:?}{reason}", self.command);
                Err(ShellError::new(ExitReason::Unreachable, message))
            }
        }
    }

    /// Whether a znode is one that servers keep for themselves, also below a chroot.
    pub(crate) fn is_of_server(&self, path: &str) -> bool {
        let chroot = self.server.find('/').map_or("", |at| &self.server[at..]);
        let whole = format!("{}{path}", chroot.trim_end_matches('/'));
        whole.strip_prefix("/zookeeper").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// An error of a request of the command that runs.
    pub(crate) fn failed(&self, error: &Error) -> ShellError {
        ShellError::request(self.command, &self.server, error, None)
    }

    /// As [`failed`](Self::failed), with what to do about one code.
    pub(crate) fn failed_because(&self, error: &Error, code: ErrorCode, hint: &str) -> ShellError {
        let hint = (error.code() == Some(code)).then_some(hint);
        ShellError::request(self.command, &self.server, error, hint)
    }

    /// As [`failed`](Self::failed), with more about this case; empty for nothing.
    pub(crate) fn failed_with(&self, error: &Error, more: &str) -> ShellError {
        ShellError::request(self.command, &self.server, error, Some(more).filter(|more| !more.is_empty()))
    }

    /// A failure without a request.
    pub(crate) fn fail(&self, reason: ExitReason, message: impl fmt::Display) -> ShellError {
        ShellError::new(reason, format!("{}: {message} (server {})", self.command, self.server))
    }

    /// The end of a command that has left out what it could not read.
    pub(crate) fn complete(&self, unreadable: Unreadable) -> Result<(), ShellError> {
        let Some((count, first)) = unreadable.into_first() else { return Ok(()) };
        let error = self.failed(&first);
        let message = match count {
            1 => format!("a znode could not be read: {error}"),
            more => format!("{more} znodes could not be read; the first: {error}"),
        };
        Err(ShellError::new(error.reason(), message))
    }

    pub(crate) fn print(&mut self, bytes: &[u8]) -> Result<(), ShellError> {
        self.io.out.write_all(bytes).map_err(ShellError::output)
    }

    pub(crate) fn line(&mut self, line: impl AsRef<str>) -> Result<(), ShellError> {
        self.print(line.as_ref().as_bytes())?;
        self.print(b"\n")
    }

    pub(crate) fn json_line(&mut self, value: &Value) -> Result<(), ShellError> {
        self.line(json::line(value))
    }

    pub(crate) fn flush(&mut self) -> Result<(), ShellError> {
        self.io.out.flush().map_err(ShellError::output)
    }

    /// Says something that is not part of the answer.
    pub(crate) fn note(&mut self, note: impl fmt::Display) {
        // If stderr is closed, nobody wants to know.
        let _ = writeln!(self.io.notes, "{note}");
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.io.is_terminal
    }

    /// Whether to go on. Fails if there is nobody to ask.
    pub(crate) fn confirm(&mut self, question: &str) -> Result<(), ShellError> {
        match (self.io.ask)(&format!("{question} [y/N] ")) {
            Ok(answer) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
            Ok(_) => Err(ShellError::interrupted()),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                Err(self.fail(ExitReason::Usage, format!("{question} There is nobody to ask: add --yes")))
            }
            Err(_) => Err(ShellError::interrupted()),
        }
    }

    /// Everything that the input has.
    pub(crate) async fn read_input(&mut self) -> Result<Bytes, ShellError> {
        let Some(input) = &mut self.io.input else {
            return Err(self.fail(ExitReason::Usage, "there is no input here: give a file by --file"));
        };
        let mut data = Vec::new();
        input.read_to_end(&mut data).await.map_err(|error| ShellError::local("read the input", &error))?;
        Ok(data.into())
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

/// The error of the argument parser in one line: the mistake and the tips, without the usage.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines: Vec<_> = lines.filter(|line| !line.is_empty() && !line.starts_with("For more")).collect();
    let message = lines.join("; ").replace(":; ", ": ");
    message.strip_prefix("error: ").unwrap_or(&message).to_owned()
}
