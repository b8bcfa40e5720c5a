//! Lines of a shell: a command, or what changes the shell itself.

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand};

use crate::command::name_here;
use crate::failure::{ShellError, ShellResult};
use crate::invocation::{Invocation, OutputArguments};
use crate::read::wait::ZnodeWait;
use crate::shell::Shell;
use crate::split;
use crate::text::shown;

/// How many lines `history` prints.
pub(crate) const DEFAULT_HISTORY: usize = 20;

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

impl Shell<'_> {
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

    async fn run_command(&mut self, command: LineCommand) -> ShellResult {
        match command {
            LineCommand::Command(invocation) => {
                let Invocation { command, flags } = *invocation;
                self.json = self.is_json || flags.json;
                self.run(&command).await
            }
            LineCommand::Cd { path } => {
                self.command = "cd";
                let path = self.path(&path);
                self.stat(&path).await?;
                self.current = path;
                Ok(())
            }
            LineCommand::Pwd => {
                let current = shown(&self.current);
                self.line(current)
            }
            LineCommand::Addauth { scheme, credentials } => {
                self.command = "addauth";
                self.remember_identity(identity(scheme, credentials)?).await
            }
            LineCommand::Connect { address } => self.reconnect(address).await,
            LineCommand::Sync { path } => {
                self.command = "sync";
                self.answered(self.client.sync(self.path(&path)).await)
            }
            LineCommand::History { .. } => {
                Err(ShellError::usage("history: lines are remembered only at a terminal"))
            }
            LineCommand::Wait { wait, output } => {
                self.command = "wait";
                self.json = self.is_json || output.json;
                wait.run(self).await
            }
        }
    }
}

/// The scheme and the credentials of `addauth`, which may be one word as in a file of credentials.
fn identity(scheme: String, credentials: Option<String>) -> ShellResult<(String, String)> {
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

/// Whether a name that is not a command by itself is a line of `zoolet sh`, which changes or shows what the shell is.
pub fn is_only_in_shell(name: &str) -> bool {
    matches!(name, "quit" | "exit") || LineCommand::has_subcommand(name)
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
