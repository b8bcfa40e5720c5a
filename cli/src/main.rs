//! The `zoolet` binary. `zoolet serve` is a ZooKeeper server in one small process.
//!
//! What holds for every subcommand: an operator's mistake is one line on stderr that names the thing, its value and
//! the hint, and exit code 2. What the operating system refuses otherwise is exit code 1.

mod duration;
mod failure;
mod log;
mod members;
mod properties;
mod serve;
mod settings;
mod signals;
mod values;
mod zoo_cfg;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use crate::failure::MISTAKE;

#[derive(Parser)]
#[command(name = "zoolet", version, about = "A ZooKeeper in one small process")]
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
        Err(error) if error.use_stderr() => return complain(MISTAKE, &first_line(&error)),
        // What was asked for, such as the help: for stdout, and no mistake.
        Err(asked) => return if asked.print().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE },
    };
    match outcome {
        Ok(code) => code,
        Err(failure) => complain(failure.code(), &failure.to_string()),
    }
}

fn complain(code: u8, message: &str) -> ExitCode {
    // Where stderr is closed, nobody is left to be told.
    let _ = writeln!(io::stderr(), "zoolet: {message}");
    ExitCode::from(code)
}

/// What the parser of arguments says, as one line: the mistake and the tips, without the usage.
fn first_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "nothing to do; start a server with `zoolet serve`, or see `zoolet --help`".to_owned();
    }
    let text = error.to_string();
    let said = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let said: Vec<_> = said.filter(|line| !line.is_empty() && !line.starts_with("For more")).collect();
    let said = said.join("; ");
    format!("{}; see `zoolet --help`", said.strip_prefix("error: ").unwrap_or(&said))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_are_declared_without_contradiction() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_mistake_is_one_line_with_its_tip() {
        let said = |arguments: &[&str]| match Arguments::try_parse_from(arguments) {
            Ok(_) => panic!("{arguments:?} were accepted"),
            Err(error) => first_line(&error),
        };
        assert_eq!(
            said(&["zoolet", "serve", "--bnd", "x"]),
            "unexpected argument '--bnd' found; tip: a similar argument exists: '--bind'; see `zoolet --help`"
        );
        assert_eq!(
            said(&["zoolet"]),
            "nothing to do; start a server with `zoolet serve`, or see `zoolet --help`"
        );
    }
}
