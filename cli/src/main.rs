//! The `zoolet` binary. `zoolet serve` is a ZooKeeper server in one small process.
//!
//! Every subcommand reports an operator's mistake in one line on stderr, with the setting, its value and a hint, and exits
//! with code 2. Any other failure of the operating system is exit code 1.

mod duration;
mod failure;
mod log;
mod members;
mod properties;
mod serve;
mod settings;
mod signals;
mod text;
mod values;
mod zoo_cfg;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::failure::MISTAKE;

#[derive(Parser)]
#[command(name = "zoolet", version, about = "A ZooKeeper server in one small process")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the ZooKeeper protocol; state is kept in memory
    Serve(Box<serve::Serve>),
}

fn main() -> ExitCode {
    let outcome = match Arguments::try_parse() {
        Ok(Arguments { command: Command::Serve(serve) }) => serve.run(),
        Err(error) if error.use_stderr() => return report(MISTAKE, &first_line(&error, is_serve())),
        // Not a mistake but the help or the version, for stdout.
        Err(help) => return if help.print().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE },
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => report(failure.code(), &failure.to_string()),
    }
}

fn report(code: u8, message: &str) -> ExitCode {
    // If stderr is closed, there is nowhere left to report to.
    let _ = writeln!(io::stderr(), "zoolet: {message}");
    ExitCode::from(code)
}

/// The error of the argument parser in one line: the mistake and the tips, without the usage.
fn first_line(error: &clap::Error, of_serve: bool) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "no subcommand given; start a server with `zoolet serve`, or see `zoolet --help`".to_owned();
    }
    let text = error.to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let lines: Vec<_> = lines.filter(|line| !line.is_empty() && !line.starts_with("For more")).collect();
    let message = lines.join("; ");
    let help = if of_serve { "zoolet serve --help" } else { "zoolet --help" };
    format!("{}; see `{help}`", message.strip_prefix("error: ").unwrap_or(&message))
}

/// Whether the arguments are those of `zoolet serve`, whose help lists the flags.
fn is_serve() -> bool {
    std::env::args_os().nth(1).is_some_and(|command| command == "serve")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_argument_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_mistake_is_one_line_with_its_tip() {
        let message = |arguments: &[&str]| match Arguments::try_parse_from(arguments) {
            Ok(_) => panic!("{arguments:?} were accepted"),
            Err(error) => first_line(&error, arguments.get(1) == Some(&"serve")),
        };
        assert_eq!(
            message(&["zoolet", "serve", "--bnd", "x"]),
            "unexpected argument '--bnd' found; tip: a similar argument exists: '--bind'; see `zoolet serve --help`"
        );
        assert_eq!(
            message(&["zoolet"]),
            "no subcommand given; start a server with `zoolet serve`, or see `zoolet --help`"
        );
    }
}
