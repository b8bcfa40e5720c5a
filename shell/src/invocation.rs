//! A command of the process: with the flags of the connection, a session for itself, and an exit code.

use std::io::{self, IsTerminal as _, Write as _};

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use tokio::runtime::{Builder, Runtime};

use crate::answer::{Answer, ShellIo};
use crate::colour;
use crate::command::ShellCommand;
use crate::connect::ConnectArguments;
use crate::failure::{ShellError, ShellResult};
use crate::interactive::ask_at_terminal;
use crate::shell::Shell;

/// The place of the first command in the help of a program that has others.
const FIRST_IN_HELP: usize = 1000;

/// The flags of every command, in a shell too.
#[derive(Debug, Clone, clap::Args)]
pub struct OutputArguments {
    /// Print JSON: an object in each line, with the whole Stat; data that is not text as base64
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// The flags of a command that runs by itself.
#[derive(Debug, Clone, clap::Args)]
pub struct ProcessArguments {
    #[command(flatten)]
    pub(crate) output: OutputArguments,
    #[command(flatten)]
    pub(crate) connect: ConnectArguments,
}

/// A command with the flags that it shares with all others: those of a process, unless it is a line of a shell.
#[derive(Debug)]
pub struct Invocation<F = ProcessArguments> {
    pub(crate) command: ShellCommand,
    pub(crate) flags: F,
}

impl<F: Args> FromArgMatches for Invocation<F> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let command = ShellCommand::from_arg_matches(matches)?;
        let flags = F::from_arg_matches(matches.subcommand().map_or(matches, |(_, of_command)| of_command))?;
        Ok(Self { command, flags })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<F: Args> Subcommand for Invocation<F> {
    fn augment_subcommands(program: Command) -> Command {
        let commands = ShellCommand::augment_subcommands(Command::new("shell"));
        let commands = commands.get_subcommands().enumerate().map(|(at, command)| {
            let about = command.get_about().cloned().unwrap_or_default();
            // The shared flags bring a description of their own. In the help, commands come after those of the program.
            F::augment_args(command.clone()).about(about).display_order(FIRST_IN_HELP + at)
        });
        program.subcommands(commands)
    }

    fn augment_subcommands_for_update(program: Command) -> Command {
        Self::augment_subcommands(program)
    }

    fn has_subcommand(name: &str) -> bool {
        ShellCommand::has_subcommand(name)
    }
}

/// Runs a command of this process. The answer goes to stdout, and all else to stderr.
///
/// # Errors
/// The reason is the exit code; the message is for stderr.
pub fn run(invocation: Invocation) -> Result<(), ShellError> {
    let Invocation { command, flags } = invocation;
    let place = flags.connect.at(&flags.connect.server)?;
    command.check_alone()?;
    command.check_read_only(place.read_only)?;
    let runtime = start_runtime()?;
    let outcome = runtime.block_on(run_once(&command, &flags, &place));
    // A read of stdin that nobody awaits any longer does not keep the process.
    runtime.shutdown_background();
    outcome
}

/// A runtime that drives sessions on a thread of its own, so that they live while this one waits for a terminal or a pipe.
pub(crate) fn start_runtime() -> ShellResult<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map_err(|error| ShellError::local("start the async runtime", &error))
}

/// Does something until Ctrl-C comes, which ends a command and not the shell around it.
pub(crate) async fn until_interrupted<T>(work: impl Future<Output = ShellResult<T>>) -> ShellResult<T> {
    tokio::select! {
        outcome = work => outcome,
        Ok(()) = tokio::signal::ctrl_c() => Err(ShellError::interrupted()),
    }
}

/// `place` is where the flags lead.
async fn run_once(command: &ShellCommand, flags: &ProcessArguments, place: &ConnectArguments) -> ShellResult {
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut notes = io::stderr();
    let mut io = ShellIo::new(&mut out, &mut notes).input(tokio::io::stdin());
    io.is_terminal = io::stdout().is_terminal();
    io.is_coloured = colour::is_wanted(&io::stdout());
    if io::stdin().is_terminal() {
        io = io.ask(ask_at_terminal);
    }
    let work = async {
        if let ShellCommand::Words(words) = command {
            let (server, dial) = (place.server.clone(), place.dial().await?);
            let mut answer = Answer { io, server, dial, command: command.name(), json: flags.output.json };
            return words.run(&mut answer).await;
        }
        let mut shell = Shell::connected(place.connect(command.name()).await?, io)
            .json(flags.output.json)
            .timeout(place.timeout)
            .sessions(|servers| flags.connect.sessions(place, servers));
        let outcome = shell.run(command).await;
        // What was printed before a failure is part of the answer.
        let flushed = shell.flush();
        shell.close().await;
        outcome.and(flushed)
    };
    let outcome = until_interrupted(work).await;
    match out.flush() {
        Err(error) if outcome.is_ok() => Err(ShellError::output(error)),
        _ => outcome,
    }
}
