//! What the binary `zoolet` does. `zoolet serve` is a ZooKeeper server in one small process; `zoolet data` works on data directories;
//! `zoolet conform` judges servers; `zoolet capture`, `show` and `replay` record what clients do.
//!
//! Every subcommand reports each mistake of an operator in one line on stderr, with the setting, its value and a hint, and exits
//! with code 2, also if a file that the operator names cannot be used. Other failures of the operating system are exit code 1.

mod data;
mod duration;
mod endpoints;
mod failure;
mod health;
mod json;
#[cfg(feature = "conformance")]
mod kit;
mod log;
mod notify;
mod output;
mod relay;
mod runtime;
mod serve;
mod settings;
mod signals;
mod size;
mod text;
mod zoo_cfg;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use anstyle::AnsiColor;
use clap::error::ErrorKind;
#[cfg(feature = "shell")]
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, Parser, Subcommand};

#[cfg(feature = "shell")]
use crate::failure::Failure;
use crate::failure::MISTAKE;

#[derive(Parser)]
#[command(name = "zoolet", version, about = "A ZooKeeper server in one small process")]
#[cfg_attr(
    feature = "shell",
    command(
        about = "A ZooKeeper server in one small process, and a command line for any ZooKeeper",
        after_help = "Examples: zoolet serve --data-dir /var/lib/zoolet\n          zoolet get /config --server zk1:2181\n          \
                      zoolet sh zk1:2181"
    )
)]
#[cfg_attr(
    not(feature = "full"),
    command(
        after_help = "The feature `full` of cargo adds TLS, the admin server, a shell and the conformance kit."
    )
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the ZooKeeper protocol; state is kept in memory, or in a data directory
    Serve(Box<serve::Serve>),
    /// Ask servers whether they serve: exit code 0, or 1 if one does not
    Health(health::Health),
    /// Wait until servers serve, or one of them leads
    #[cfg_attr(
        feature = "shell",
        command(about = "Wait until servers serve, one of them leads, or a znode exists")
    )]
    Wait(health::Wait),
    /// Inspect, check, copy and repair data directories
    #[command(subcommand)]
    Data(data::Data),
    #[cfg(feature = "conformance")]
    #[command(flatten)]
    Kit(kit::KitCommand),
    /// Run commands on a server, line by line
    #[cfg(feature = "shell")]
    #[command(name = "sh")]
    InteractiveShell(Box<zoolet_shell::ShellArguments>),
    /// Print the script with which a shell completes commands and flags
    #[cfg(feature = "shell")]
    #[command(after_help = "Example: source <(zoolet completions bash)")]
    Completions { shell: clap_complete::Shell },
    #[cfg(feature = "shell")]
    #[command(flatten)]
    Shell(Box<zoolet_shell::Invocation>),
}

/// Runs what the arguments of the process ask for. Returns its exit code.
pub fn main() -> ExitCode {
    let command = match Arguments::try_parse() {
        Ok(Arguments { command }) => command,
        Err(error) if error.use_stderr() => {
            return report(MISTAKE, &first_line(&error, &subcommand(std::env::args_os())));
        }
        // Not a mistake but the help or the version, for stdout.
        Err(help) => return if help.print().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE },
    };
    let outcome = match command {
        Command::Serve(serve) => serve.run(),
        Command::Health(health) => health.run(),
        Command::Wait(wait) => wait.run(),
        Command::Data(data) => data.run(),
        #[cfg(feature = "conformance")]
        Command::Kit(command) => command.run(),
        #[cfg(feature = "shell")]
        Command::Completions { shell } => print_completions(shell),
        #[cfg(feature = "shell")]
        Command::Shell(invocation) => ended(zoolet_shell::run(*invocation)),
        #[cfg(feature = "shell")]
        Command::InteractiveShell(shell) => ended(zoolet_shell::run_shell(*shell)),
    };
    match outcome {
        Ok(code) => code,
        // The reader of the output has seen enough, such as `head`, and needs no message.
        Err(failure) if failure.is_reader_gone() => ExitCode::from(failure.code()),
        Err(failure) => report(failure.code(), &failure.to_string()),
    }
}

/// How a command on a server ended. Its exit codes say more than those of the others.
#[cfg(feature = "shell")]
fn ended(outcome: Result<(), zoolet_shell::ShellError>) -> Result<ExitCode, Failure> {
    output::until_reader_leaves(outcome.map(|()| ExitCode::SUCCESS).map_err(Failure::from))
}

#[cfg(feature = "shell")]
fn print_completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    // All at once, because the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "zoolet", &mut script);
    std::io::stdout().write_all(&script).map_err(Failure::Output)?;
    Ok(ExitCode::SUCCESS)
}

fn report(code: u8, message: &str) -> ExitCode {
    // Red only for people: it is left out where it is not wanted.
    let red = AnsiColor::Red.on_default();
    for line in message.lines() {
        // If stderr is closed, there is nowhere left to report to.
        let _ = writeln!(anstream::stderr(), "{red}zoolet: {line}{red:#}");
    }
    ExitCode::from(code)
}

/// The error of the argument parser in one line: the mistake and the tips, without the usage.
fn first_line(error: &clap::Error, subcommand: &str) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return match subcommand {
            "zoolet" => {
                "no subcommand given; start a server with `zoolet serve`, or see `zoolet --help`".to_owned()
            }
            _ => format!("an argument is missing; see `{subcommand} --help`"),
        };
    }
    #[cfg(feature = "shell")]
    if let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) {
        if let Some(here) = zoolet_shell::name_here(name) {
            return format!("there is no command {name}; it is `zoolet {here}` here");
        }
        if zoolet_shell::is_only_in_shell(name) {
            return format!("{name} is for a shell: type it in `zoolet sh`");
        }
    }
    #[cfg(feature = "shell")]
    if let (ErrorKind::UnknownArgument, "zoolet", Some(ContextValue::String(flag))) =
        (error.kind(), subcommand, error.get(ContextKind::InvalidArg))
    {
        if is_flag_of_commands(flag) {
            return format!(
                "{flag} goes after the command, as in `zoolet get /a {flag}`; see `zoolet get --help`"
            );
        }
    }
    let features = match error.kind() {
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => missing_features(),
        _ => String::new(),
    };
    let text = error.to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    // Without all features, what was meant may be what is missing.
    let is_guess = |line: &str| line.starts_with("tip:") && !features.is_empty();
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with("For more") && !is_guess(line);
    let lines: Vec<_> = lines.filter(is_said).collect();
    let message = lines.join("; ").replace(":; ", ": ");
    format!("{}{features}; see `{subcommand} --help`", message.strip_prefix("error: ").unwrap_or(&message))
}

/// What a build without all features says of a flag or command that it does not know.
pub(crate) fn missing_features() -> String {
    let features = [
        ("tls", cfg!(feature = "tls")),
        ("admin", cfg!(feature = "admin")),
        ("shell", cfg!(feature = "shell")),
        ("dns-srv", cfg!(feature = "dns-srv")),
        ("conformance", cfg!(feature = "conformance")),
    ];
    let missing: Vec<_> = features.iter().filter(|(_, is_there)| !is_there).map(|(name, _)| *name).collect();
    match missing.is_empty() {
        true => String::new(),
        false => format!("; built without {}, which cargo's `--features full` adds", missing.join(", ")),
    }
}

/// Whether a flag, as it was typed, is one that the commands on servers share.
#[cfg(feature = "shell")]
fn is_flag_of_commands(flag: &str) -> bool {
    let root = Arguments::command();
    let mut flags = root.find_subcommand("get").into_iter().flat_map(clap::Command::get_arguments);
    flags.any(|known| {
        let long = known.get_long().map(|long| format!("--{long}"));
        let short = known.get_short().map(|short| format!("-{short}"));
        [long, short].into_iter().flatten().any(|known| known == flag)
    })
}

/// The subcommand that the arguments begin with, whose help lists the flags.
fn subcommand(arguments: impl IntoIterator<Item = OsString>) -> String {
    let root = Arguments::command();
    let mut command = &root;
    let mut text = "zoolet".to_owned();
    for argument in arguments.into_iter().skip(1) {
        let Some(found) = command.find_subcommand(&argument) else { break };
        text = format!("{text} {}", found.get_name());
        command = found;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_mistake_is_one_line_with_its_tip() {
        let message = |arguments: &[&str]| match Arguments::try_parse_from(arguments) {
            Ok(_) => panic!("{arguments:?} were accepted"),
            Err(error) => first_line(&error, &subcommand(arguments.iter().map(OsString::from))),
        };
        assert_eq!(
            message(&["zoolet", "serve", "--bnd", "x"]),
            "unexpected argument '--bnd' found; tip: a similar argument exists: '--bind'; see `zoolet serve --help`"
        );
        assert_eq!(
            message(&["zoolet"]),
            "no subcommand given; start a server with `zoolet serve`, or see `zoolet --help`"
        );
        assert_eq!(message(&["zoolet", "data"]), "an argument is missing; see `zoolet data --help`");
        assert_eq!(
            message(&["zoolet", "data", "log", "--to", "5", "dir"]),
            "invalid value '5' for '--to <ZXID>': must be a zxid as it is printed, such as 0x2b; see `zoolet data log --help`"
        );
    }
}
